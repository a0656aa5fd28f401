"""The figures of a report: time by operator and tier, idle time by cause, memory at its peak, kernels to write next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from hardpoint.debug._report.trace_data import COMPILATION, COPY, CPU, TIERS, MemoryEvents, Spans, TraceData

#: A gap belongs to a wait that ended at most this many microseconds before it, because the device's and the host's
#: records come from two clocks.
WAIT_SLACK = 20.0
#: Gaps below this many microseconds are launch latency between two kernels of a busy device.
MIN_GAP = 1.0
#: Columns of the charts over time.
BUCKETS = 160

#: Causes of idle time.
CAUSES = ("compilation", "cpu", "wait", "launch", "program")


class Intervals:
    """A union of intervals."""

    def __init__(self, spans: list[tuple[float, float]]) -> None:
        self.starts: list[float] = []
        self.ends: list[float] = []
        for start, end in sorted(spans):
            if self.ends and start <= self.ends[-1]:
                self.ends[-1] = max(self.ends[-1], end)
            else:
                self.starts.append(start)
                self.ends.append(end)

    def total(self) -> float:
        """The length of the union."""
        return sum(self.ends) - sum(self.starts)

    def overlap(self, start: float, end: float) -> float:
        """The length of the union inside an interval."""
        found = 0.0
        i = bisect_right(self.ends, start)
        while i < len(self.starts) and self.starts[i] < end:
            found += min(end, self.ends[i]) - max(start, self.starts[i])
            i += 1
        return found


class OperatorTime(NamedTuple):
    """The calls of one operator in one tier. Times in microseconds."""

    operator: str
    tier: str
    calls: int
    host: float  # from begin to end
    own: float  # without the operators inside
    device: float  # of its kernels and copies
    bytes: int  # copied by the CPU tier
    lines: list[str]  # of the program, where they are known


class Advice(NamedTuple):
    """A kernel to write."""

    operator: str
    tier: str
    calls: int
    now: float  # microseconds that its calls take
    hidden: float  # of these: the call waits for earlier kernels, which take as long with a kernel of its own
    gain: float  # microseconds, expected


class Wait(NamedTuple):
    """Waits for the device at one line."""

    line: str
    waits: int
    waited: float
    idle: float  # of the device after them, as far as the host would have been ahead without the wait


class Gap(NamedTuple):
    """An interval in which the device did nothing."""

    start: float
    length: float
    cause: str
    detail: str


@dataclass
class DeviceTime:
    """The work of one device, from its first launch to its last. Times in microseconds."""

    name: str
    start: float
    end: float
    computing: float
    copying: float
    idle: dict[str, float]
    gaps: list[Gap]
    copies: dict[str, tuple[int, int, float]]  # name: count, bytes, time
    #: Computing, copying and idle time, for each of BUCKETS parts of the run.
    activity: list[tuple[float, float, float]]


class Owner(NamedTuple):
    """Memory at the peak that one line allocated."""

    line: str
    bytes: int
    blocks: int


@dataclass
class MemoryUse:
    """The memory of one device over time."""

    name: str
    peak: int
    peak_time: float
    reserved: int
    start: float
    end: float
    allocated_curve: list[int]
    reserved_curve: list[int]
    owners: list[Owner]


@dataclass
class Figures:
    """Everything that a report shows."""

    data: TraceData
    operators: list[OperatorTime] = field(default_factory=list)
    devices: list[DeviceTime] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    memory: list[MemoryUse] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
    duration: float = 0.0  # microseconds from the first to the last work of a device
    cpu_time: float = 0.0  # in the CPU tier
    cpu_bytes: int = 0
    typical_call: float = 0.0  # of an operator that a kernel serves


def compute(data: TraceData) -> Figures:
    """All figures of a trace."""
    figures = Figures(data)
    figures.operators = _operators(data)
    cpu_calls = _intervals(data.calls, {CPU})
    figures.cpu_time = cpu_calls.total()
    figures.cpu_bytes = sum(row.bytes for row in figures.operators)
    after_waits: defaultdict[str, float] = defaultdict(float)
    for device in range(len(data.devices)):
        found = _device(data, device, cpu_calls, after_waits)
        if found is not None:
            figures.devices.append(found)
    figures.waits = _waits(data, after_waits)
    figures.memory = [_memory(data, device, events) for device, events in sorted(data.memory.items())]
    if figures.devices:
        figures.duration = max(d.end for d in figures.devices) - min(d.start for d in figures.devices)
    served = [data.calls.end[i] - data.calls.start[i] for i in range(len(data.calls)) if data.calls.category[i] < 2]
    figures.typical_call = median(served) if served else 0.0
    figures.advice = _advice(figures, _hidden(data))
    return figures


def _intervals(spans: Spans, categories: set[int]) -> Intervals:
    return Intervals([(spans.start[i], spans.end[i]) for i in range(len(spans)) if spans.category[i] in categories])


def _operators(data: TraceData) -> list[OperatorTime]:
    calls, work = data.calls, data.work
    calls_of: Counter[tuple[int, int]] = Counter()
    host: defaultdict[tuple[int, int], float] = defaultdict(float)
    own: defaultdict[tuple[int, int], float] = defaultdict(float)
    device: defaultdict[tuple[int, int], float] = defaultdict(float)
    lines: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    stacks: defaultdict[int, list[int]] = defaultdict(list)  # open calls of each thread
    for i in calls.order():
        key = (calls.operator[i], calls.category[i])
        length = calls.end[i] - calls.start[i]
        open_calls = stacks[calls.row[i]]
        while open_calls and calls.end[open_calls[-1]] <= calls.start[i]:
            open_calls.pop()
        if open_calls:
            outer = open_calls[-1]
            own[(calls.operator[outer], calls.category[outer])] -= length
        if calls.category[i] == COMPILATION:  # happens once per kernel, so it does not count as the call's time
            for outer in open_calls:
                host[(calls.operator[outer], calls.category[outer])] -= length
            continue
        open_calls.append(i)
        calls_of[key] += 1
        host[key] += length
        own[key] += length
        if calls.line[i]:
            lines[key][data.names.texts[calls.line[i]]] += 1
    for i in range(len(work)):
        if work.operator[i]:
            tier_number = CPU if work.category[i] == COPY else work.category[i]
            device[(work.operator[i], tier_number)] += work.end[i] - work.start[i]
    copied = {name: cost[0] for name, cost in data.totals.get("cpu_costs", {}).items()}
    rows = []
    for key in calls_of:
        operator = data.names.texts[key[0]]
        moved = copied.get(operator, 0) if key[1] == CPU else 0
        if key[1] == CPU and not data.complete:
            moved = sum(work.bytes[i] for i in range(len(work)) if work.operator[i] == key[0])
        rows.append(
            OperatorTime(
                operator,
                TIERS[key[1]],
                calls_of[key],
                host[key],
                max(own[key], 0.0),
                device[key],
                moved,
                [line for line, _ in lines[key].most_common(3)],
            )
        )
    return sorted(rows, key=lambda row: -max(row.own, row.device))


def _device(
    data: TraceData, device: int, cpu_calls: Intervals, after_waits: defaultdict[str, float]
) -> DeviceTime | None:
    work = data.work
    mine = [i for i in range(len(work)) if work.row[i] == device]
    if not mine:
        return None
    busy = Intervals([(work.start[i], work.end[i]) for i in mine])
    computing = Intervals([(work.start[i], work.end[i]) for i in mine if work.category[i] != COPY])
    compilations = _intervals(data.calls, {COMPILATION})
    all_calls = Intervals([(data.calls.start[i], data.calls.end[i]) for i in range(len(data.calls))])
    waits = sorted(
        (data.waits.start[i], data.waits.end[i], data.names.texts[data.waits.line[i]]) for i in range(len(data.waits))
    )
    wait_starts = [start for start, _, _ in waits]
    slow_calls = sorted(
        (data.calls.start[i], data.calls.end[i], data.names.texts[data.calls.operator[i]])
        for i in range(len(data.calls))
        if data.calls.category[i] == CPU
    )
    slow_starts = [start for start, _, _ in slow_calls]
    samples = sorted(data.samples)
    sample_times = [time for time, _ in samples]
    idle = dict.fromkeys(CAUSES, 0.0)
    gaps: list[Gap] = []
    for start, end in zip(busy.ends, busy.starts[1:], strict=False):
        length = end - start
        shares = dict.fromkeys(CAUSES, 0.0)
        detail = ""
        if length < MIN_GAP:
            shares["launch"] = length
        else:
            shares["compilation"] = compilations.overlap(start, end)
            shares["cpu"] = min(cpu_calls.overlap(start, end), length - shares["compilation"])
            rest = length - shares["compilation"] - shares["cpu"]
            waited = _covering(waits, wait_starts, start)
            if waited is not None:
                # Without the wait, the host could have launched: it would have been this far ahead.
                detail = waited[2]
                shares["wait"] = min(rest, waited[1] - waited[0])
                after_waits[detail] += shares["wait"]
                rest -= shares["wait"]
            dispatching = all_calls.overlap(start, end) - shares["cpu"] - shares["compilation"]
            shares["launch"] = min(rest, max(0.0, dispatching))
            shares["program"] = rest - shares["launch"]
        for cause, share in shares.items():
            idle[cause] += share
        cause = max(shares, key=lambda each: shares[each])
        if cause == "cpu":
            slow = _covering(slow_calls, slow_starts, start)
            detail = slow[2] if slow is not None else _first_inside(slow_calls, slow_starts, start, end)
        if cause == "program":
            detail = _sampled(samples, sample_times, start, end)
        gaps.append(Gap(start, length, cause, detail if cause in ("cpu", "wait", "program") else ""))
    copies: dict[str, tuple[int, int, float]] = {}
    for i in mine:
        if work.category[i] == COPY:
            count, size, time = copies.get(data.names.texts[work.name[i]], (0, 0, 0.0))
            new = (count + 1, size + work.bytes[i], time + work.end[i] - work.start[i])
            copies[data.names.texts[work.name[i]]] = new
    first, last = busy.starts[0], busy.ends[-1]
    return DeviceTime(
        data.devices[device],
        first,
        last,
        computing.total(),
        busy.total() - computing.total(),
        idle,
        sorted(gaps, key=lambda gap: -gap.length)[:12],
        copies,
        _activity(first, last, busy, computing),
    )


def _covering(
    spans: list[tuple[float, float, str]], starts: list[float], time: float
) -> tuple[float, float, str] | None:
    """A span around this time. Spans nest, so the last one that began may have ended."""
    last = bisect_right(starts, time + WAIT_SLACK)
    for span in reversed(spans[max(0, last - 4) : last]):
        if span[0] - WAIT_SLACK <= time <= span[1] + WAIT_SLACK:
            return span
    return None


def _first_inside(spans: list[tuple[float, float, str]], starts: list[float], start: float, end: float) -> str:
    i = bisect_left(starts, start)
    return spans[i][2] if i < len(spans) and spans[i][0] < end else ""


def _sampled(samples: list[tuple[float, str]], times: list[float], start: float, end: float) -> str:
    """The line of the program with the most samples in an interval."""
    seen = Counter(line for _, line in samples[bisect_left(times, start) : bisect_right(times, end)])
    return seen.most_common(1)[0][0] if seen else ""


def _activity(first: float, last: float, busy: Intervals, computing: Intervals) -> list[tuple[float, float, float]]:
    width = (last - first) / BUCKETS or 1.0
    columns = []
    for bucket in range(BUCKETS):
        start = first + bucket * width
        compute_time = computing.overlap(start, start + width) / width
        busy_time = busy.overlap(start, start + width) / width
        columns.append((compute_time, max(0.0, busy_time - compute_time), max(0.0, 1 - busy_time)))
    return columns


def _waits(data: TraceData, after: defaultdict[str, float]) -> list[Wait]:
    waits = data.waits
    count: Counter[str] = Counter()
    time: defaultdict[str, float] = defaultdict(float)
    for i in range(len(waits)):
        line = data.names.texts[waits.line[i]]
        count[line] += 1
        time[line] += waits.end[i] - waits.start[i]
    rows = [Wait(line, count[line], time[line], after[line]) for line in count]
    return sorted(rows, key=lambda row: -(row.waited + row.idle))


def _memory(data: TraceData, device: int, events: MemoryEvents) -> MemoryUse:
    peak = max(range(len(events.time)), key=lambda i: events.allocated[i])
    live: dict[int, tuple[int, int]] = {}
    for i in range(peak + 1):
        if events.change[i] > 0:
            live[events.address[i]] = (events.bytes[i], events.stack[i])
        elif events.change[i] < 0:
            live.pop(events.address[i], None)
    size: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    for held, stack in live.values():
        line = data.stacks.get(stack, ("", ""))[0] or "unknown line"
        size[line] += held
        blocks[line] += 1
    first, last = events.time[0], max(events.time)
    width = (last - first) / BUCKETS or 1.0
    allocated, reserved = [0] * BUCKETS, [0] * BUCKETS
    current = (0, 0)
    bucket = 0
    for i in range(len(events.time)):
        position = min(BUCKETS - 1, int((events.time[i] - first) / width))
        while bucket < position:  # buckets without events
            bucket += 1
            allocated[bucket], reserved[bucket] = current
        current = (events.allocated[i], events.allocated[i] + events.cached[i])
        allocated[bucket] = max(allocated[bucket], current[0])
        reserved[bucket] = max(reserved[bucket], current[1])
    for later in range(bucket + 1, BUCKETS):
        allocated[later], reserved[later] = current
    return MemoryUse(
        data.devices[device],
        events.allocated[peak],
        events.time[peak],
        max(a + c for a, c in zip(events.allocated, events.cached, strict=True)),
        first,
        last,
        allocated,
        reserved,
        [Owner(line, held, blocks[line]) for line, held in size.most_common()],
    )


def _hidden(data: TraceData) -> dict[str, float]:
    """For each operator in the CPU tier: time of its calls in which devices did other work.

    Such a call waits for the results of earlier kernels, which take as long if a kernel serves it.
    """
    calls, work = data.calls, data.work
    spans: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)  # of work, by operator
    for i in range(len(work)):
        spans[work.operator[i]].append((work.start[i], work.end[i]))
    busy = Intervals([span for each in spans.values() for span in each])
    mine: dict[int, Intervals] = {}
    found: defaultdict[str, float] = defaultdict(float)
    for i in range(len(calls)):
        if calls.category[i] != CPU:
            continue
        operator, start, end = calls.operator[i], calls.start[i], calls.end[i]
        if operator not in mine:
            mine[operator] = Intervals(spans[operator])
        found[data.names.texts[operator]] += busy.overlap(start, end) - mine[operator].overlap(start, end)
    return found


def _advice(figures: Figures, hidden: dict[str, float]) -> list[Advice]:
    """Kernels to write, by what they save: calls in the CPU tier or a decomposition become typical calls."""
    found = []
    for row in figures.operators:
        if row.tier in ("cpu", "decomposition"):
            elsewhere = hidden.get(row.operator, 0.0) if row.tier == "cpu" else 0.0
            gain = row.host - elsewhere - row.calls * figures.typical_call
            if gain > 0:
                found.append(Advice(row.operator, row.tier, row.calls, row.host, elsewhere, gain))
    return sorted(found, key=lambda each: -each.gain)
