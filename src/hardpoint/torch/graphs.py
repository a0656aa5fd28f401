"""Device graphs in ``torch.<device>``: capture work once, replay it with one call. The interface is torch.cuda's."""

from __future__ import annotations

import gc
from typing import Any

import torch

Pool = tuple[int, int]


class Graph:
    """Device work that is captured once and replayed. The capture's memory stays in use until ``reset``."""

    #: The compiled adapter; set in the device's own subclass.
    adapter: Any = None
    device_name = ""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph = self.adapter.DeviceGraph()
        self._dump = False

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Start to capture the current stream, which must not be the default stream. Prefer ``torch.<device>.graph``.

        All error modes have the same effect: what cannot be captured is refused; other threads and streams continue.
        """
        self._graph.capture_begin((0, 0) if pool is None else pool)

    def capture_end(self) -> None:
        """End the capture. Raises the reason if something in it was refused."""
        self._graph.capture_end()

    def abandon(self) -> None:
        """End the capture and drop what was captured."""
        self._graph.abandon()

    def instantiate(self) -> None:
        """Do nothing: ``capture_end`` makes the graph ready."""

    def replay(self) -> None:
        """Queue the captured work on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Wait for the replays and free the graph."""
        self._graph.reset()

    def pool(self) -> Pool:
        """The id of the graph's memory pool, for other graphs that share it."""
        first, second = self._graph.pool()
        return first, second

    def enable_debug_mode(self) -> None:
        """Allow ``debug_dump``."""
        self._dump = True

    def debug_dump(self, path: str) -> None:
        """Write the captured steps to a file, one per line."""
        if not self._dump:
            raise RuntimeError("debug_dump: call enable_debug_mode() first")
        with open(path, "w") as file:
            file.write(self._graph.describe())


class capture:
    """Context manager that captures the work of its block into a graph.

    The block runs on a stream of its own, after the current stream's work. The work itself is not run.
    """

    module: Any = None
    default_capture_stream: Any = None

    def __init__(
        self, graph: Graph, pool: Pool | None = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        if stream is None:
            kind = type(self)
            if kind.default_capture_stream is None:
                kind.default_capture_stream = self.module.Stream()
            stream = kind.default_capture_stream
            if stream.device.index != self.module.current_device():
                stream = self.module.Stream()
        self.graph, self.pool, self.capture_stream, self.mode = graph, pool, stream, capture_error_mode
        self._previous: Any = None

    def __enter__(self) -> None:
        self.module.synchronize()
        if getattr(torch.compiler.config, "force_cudagraph_gc", False):
            gc.collect()
        self.module.empty_cache()
        self._previous = self.module.current_stream()
        self.module.set_stream(self.capture_stream)
        try:
            self.graph.capture_begin(self.pool, self.mode)
        except BaseException:
            self.module.set_stream(self._previous)
            raise

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self.graph.capture_end()
            else:
                self.graph.abandon()  # the block's own error is what the user needs to see
        finally:
            self.module.set_stream(self._previous)


def make(name: str, adapter: Any, module: Any) -> dict[str, Any]:
    """The members of ``torch.<name>``."""
    own = type(f"{name.capitalize()}Graph", (Graph,), {"adapter": adapter, "device_name": name})
    own.__module__ = f"torch.{name}"
    context = type("graph", (capture,), {"module": module, "__module__": f"torch.{name}", "__doc__": capture.__doc__})

    def graph_pool_handle() -> Pool:
        """An id that graphs can share as their memory pool."""
        first, second = adapter.new_graph_pool()
        return first, second

    def is_current_stream_capturing() -> bool:
        """Whether the current stream is capturing a graph."""
        return bool(adapter.is_current_stream_capturing())

    def make_graphed_callables(
        callables: Any,
        sample_args: Any,
        num_warmup_iters: int = 3,
        allow_unused_input: bool = False,
        pool: Pool | None = None,
    ) -> Any:
        """Return versions of functions or modules whose forward and backward passes are graphs."""
        from hardpoint.torch.graphed_callables import make_graphed

        return make_graphed(module, callables, sample_args, num_warmup_iters, allow_unused_input, pool)

    return {
        own.__name__: own,
        "Graph": own,
        "graph": context,
        "graph_pool_handle": graph_pool_handle,
        "is_current_stream_capturing": is_current_stream_capturing,
        "make_graphed_callables": make_graphed_callables,
    }
