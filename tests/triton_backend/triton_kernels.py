"""Triton kernels of the tests."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def copy_from(x, out, offset, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i + offset))


@triton.jit
def coordinates(x, out, total, n, INNER: tl.constexpr, BLOCK: tl.constexpr):
    """A tensor of four channels, with indices as Inductor computes them."""
    channel = tl.program_id(0)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(x + i % INNER + channel * INNER + i // INNER * (4 * INNER), mask=i < n, other=0.0)
        tl.store(out + channel * n + i, values, mask=i < n)
        sums += values
    tl.store(total + channel, tl.sum(sums, 0))


@triton.jit
def divide(x, by, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) / tl.load(by), mask=i < n)


@triton.jit
def scalars_of_tensors(x, out):
    """One element of a tensor of two, and the element of a tensor of one."""
    left, right = tl.split(tl.load(x + tl.arange(0, 2)))
    tl.store(out, left - right)
    tl.store(out + 1, tl.load(x + 1 + tl.arange(0, 1)).item())


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * n + i, powers / tl.sum(powers, 0), mask=i < n)


@triton.jit
def matmul(a, b, c, M, N, K, stride_a, stride_b, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Advances its pointers, as the tutorial does."""
    i = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    j = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    pa = a + i[:, None] * stride_a + k[None, :]
    pb = b + k[:, None] * stride_b + j[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        total = tl.dot(
            tl.load(pa, mask=k[None, :] < left, other=0.0), tl.load(pb, mask=k[:, None] < left, other=0.0), total
        )
        pa += BK
        pb += BK * stride_b
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(c + i[:, None] * N + j[None, :], total.to(c.dtype.element_ty), mask=(i[:, None] < M) & (j[None, :] < N))


@triton.jit
def tile_dot(a, b, c, B: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, B)
    at = i[:, None] * B + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.trans(tl.load(b + at)), out_dtype=TYPE))


@triton.jit
def batched_dot(a, b, c, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.arange(0, 2)[:, None, None] * B * B + i[None, :, None] * B + i[None, None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


@triton.jit
def scaled_dot(a, scale_a, b, scale_b, out, FORMAT: tl.constexpr):
    """The left operand has 4 bits (two numbers in a byte) or 8, the right one 8."""
    i, k, groups = tl.arange(0, 32), tl.arange(0, 64), tl.arange(0, 2)
    WIDTH: tl.constexpr = 32 if FORMAT == "e2m1" else 64
    x = tl.load(a + i[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :])
    y = tl.load(b + k[:, None] * 32 + i[None, :])
    x_scale = tl.load(scale_a + i[:, None] * 2 + groups[None, :])
    y_scale = tl.load(scale_b + i[:, None] * 2 + groups[None, :])
    at = i[:, None] * 32 + i[None, :]
    tl.store(out + at, tl.dot_scaled(x, x_scale, FORMAT, y, y_scale, "e5m2"))
    tl.store(out + 32 * 32 + at, tl.dot_scaled(x, x_scale, FORMAT, y, None, "e5m2"))


@triton.jit
def row_statistics(x, out, n, eps, BLOCK: tl.constexpr):
    """Layer norm, in two loops over a row."""
    x += tl.program_id(0) * n
    out += tl.program_id(0) * n
    total = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    mean = tl.sum(total, 0) / n
    scale = libdevice.rsqrt(tl.sum(squares, 0) / n - mean * mean + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
        tl.store(out + i, ((value - mean) * scale).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def atomic_sum(x, total, most, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(total + value % 4, value.to(total.dtype.element_ty), mask=i < n)
    tl.atomic_max(most, tl.max(value, 0))
    old = tl.atomic_add(counts, 1)
    tl.atomic_cas(counts + 1 + old, 0, 7)


@triton.jit
def random(out, ints, n, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.rand(seed, i), mask=i < n)
    tl.store(ints + i, tl.randint(seed, i), mask=i < n)


@triton.jit
def pair(a, b, c, d):
    """Combine function of a linear recurrence."""
    return a * c, b * c + d


@triton.jit
def scans(x, sums, reverse, recurrence, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    value = tl.load(x + at)
    tl.store(sums + at, tl.cumsum(value, 0))
    tl.store(reverse + at, tl.cumsum(value, 1, reverse=True))
    _decay, state = tl.associative_scan((value * 0.5, value), 1, pair)
    tl.store(recurrence + at, state)


@triton.jit
def rearrange(x, ordered, best, gathered, moved, pairs, counts, ROWS: tl.constexpr, N: tl.constexpr):
    rows, i = tl.arange(0, ROWS), tl.arange(0, N)
    at = rows[:, None] * N + i[None, :]
    value = tl.load(x + at)
    tl.store(ordered + at, tl.sort(value, descending=True))
    tl.store(best + rows, tl.argmax(value, 1))
    tl.store(gathered + at, tl.gather(value, tl.broadcast_to((N - 1 - i)[None, :], (ROWS, N)), 1))
    there = i[:, None] * ROWS + rows[None, :]
    tl.store(moved + there, tl.trans(value))
    left, right = tl.split(tl.reshape(value, (ROWS, N // 2, 2)))
    half = rows[:, None] * N + tl.arange(0, N // 2)[None, :]
    tl.store(pairs + half, left - right)
    tl.store(pairs + half + N // 2, left + right)
    tl.store(counts + tl.arange(0, 8), tl.histogram(tl.ravel(tl.abs(value).to(tl.int32)) % 8, 8))


@triton.jit
def control(x, out, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK >= n:
        return
    i = pid * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    k = 1
    while k < n:
        k *= 2
    if pid % 2 == 0:
        value = value * 2
        k += 1
    else:
        value = value - 1
    for j in range(0, pid):
        if j == 1:
            value += j
    tl.store(out + i, value + k, mask=i < n)


@triton.jit
def fibonacci(out, n):
    """A loop that swaps its values, scalars and tensors."""
    i = tl.arange(0, 16)
    a, b = i, i + 1
    x, y = 0, 1
    for _ in range(n):
        a, b = b, a + b
        x, y = y, x + y
    tl.store(out + i, a + x)


@triton.jit
def shift_rows(x, out, N: tl.constexpr, STEPS: tl.constexpr):
    """A loop-carried tile that is read at other positions."""
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    value = tl.load(x + at)
    for _ in range(STEPS):
        value = tl.trans(value) + tl.sum(value, 0)[:, None]
    tl.store(out + at, value)


@triton.jit
def flip_in_place(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + (N - 1 - i)))


@triton.jit
def swap(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    left, right = tl.load(x + i), tl.load(y + i)
    tl.store(x + i, right)
    tl.store(y + i, left)


@triton.jit
def special(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    result = tl.maximum(value, 0.5) + tl.minimum(value, 2.0) + tl.where(value == value, 0.0, 1.0)
    result += libdevice.isnan(value).to(tl.float32) + tl.maximum(value, 1.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + i, result, mask=i < n)


@triton.jit
def functions(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.exp(v) + tl.exp2(v) + tl.sin(v) + tl.cos(v))
    tl.store(out + N + i, tl.log(v + 4) + tl.log2(v + 4) + tl.sqrt(v + 4) + tl.rsqrt(v + 4))
    tl.store(out + 2 * N + i, tl.erf(v) + tl.floor(v) + tl.ceil(v) + tl.abs(v) + tl.fma(v, v, v))
    powers = libdevice.pow(v + 4, v) + libdevice.log1p(v + 4)
    tl.store(out + 3 * N + i, libdevice.tanh(v) + powers + libdevice.erfinv(v / 9))
    tl.store(out + 4 * N + i, tl.sigmoid(v) + tl.clamp(v, -1.0, 1.0) + tl.div_rn(v, v + 4) + libdevice.lgamma(v + 4))


@triton.jit
def rarer_functions(x, out, whole, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.cbrt(v) + libdevice.exp10(v) + libdevice.tgamma(v + 4) + libdevice.erfcx(v))
    tl.store(out + N + i, libdevice.round(v * 2) + libdevice.fdim(v, v * 0 + 1) + libdevice.ldexp(v, i % 5 - 2))
    tl.store(out + 2 * N + i, libdevice.mul_rn(v, v) + libdevice.div_rn(v, v + 4) + libdevice.fma_rn(v, v, v))
    tl.store(out + 3 * N + i, libdevice.j0(v) + libdevice.cyl_bessel_i1(v) + libdevice.normcdf(v))
    tl.store(whole + i, libdevice.llrint(v * 3) + libdevice.ilogb(v + 4))


@triton.jit
def fast_functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.fast_tanhf(v) + libdevice.fast_dividef(v, v + 4) + libdevice.fast_expf(v))


@triton.jit
def integers(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + N + i, a % b)
    tl.store(out + 2 * N + i, a * b + 123456789)
    tl.store(out + 3 * N + i, (a ^ b) | (a & 15))
    tl.store(out + 4 * N + i, (a << 3) + (a >> 2))
    tl.store(out + 5 * N + i, tl.minimum(a, b) - tl.maximum(a, b) + tl.abs(a))
    tl.store(out + 6 * N + i, tl.umulhi(a, b).to(tl.int32, bitcast=True))


@triton.jit
def convert(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def block_pointers(a, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(a, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        tl.store(target, tl.load(source, boundary_check=(0, 1), padding_option="zero") * 2, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


@triton.jit
def descriptors(a, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    source = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    target.store([i, j], source.load([i, j]) * 2)


@triton.jit
def host_descriptor(source, out, N, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.arange(0, BM), tl.arange(0, BN)
    tl.store(out + i[:, None] * BN + j[None, :], source.load([0, 0]))


@triton.jit(noinline=True)
def separate(value, out, i):
    tl.store(out + i, value * 3)
    return value + 1


@triton.jit
def calls(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(N):
        separate(tl.load(x + k), out, k)
    tl.store(out + N + i, tl.load(x + i) + separate(tl.load(x + 5), out, 5))


@triton.jit
def piece(x, y):
    if x > y:
        return x - y
    else:
        return x * y


@triton.jit
def mapped(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(piece, tl.load(x + i), tl.load(y + i)))


@triton.jit
def pair_of_neighbors(x0, x1, y0, y1):
    return x1 + y0, x0 + y1, x1 * 2, x0 * 2


@triton.jit
def mapped_in_pairs(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    added, doubled = tl.map_elementwise(pair_of_neighbors, tl.load(x + i), tl.load(y + i), pack=2)
    tl.store(out + i, added)
    tl.store(out + N + i, doubled)


@triton.jit
def program_shape(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    number = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out + number, x + 10 * y + 100 * z)


@triton.jit
def printing(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_print("value", tl.load(x + i))


@triton.jit
def printing_text(x):
    tl.device_print("100% of {x}, [y]", tl.load(x + 3))


@triton.jit
def checking(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.device_assert(tl.load(x + i) > 0, "x must be positive")


@triton.jit
def assembly(x, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x + i, y)


@triton.jit
def unknown_function(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.extra.cuda.libdevice.rcbrt(tl.load(x + i)))


@triton.jit
def huge(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.heuristics({"EVEN": lambda a: a["n"] % 2 == 0})
@triton.jit
def tuned(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    if EVEN:
        value += 1
    tl.store(out + i, value, mask=i < n)


@triton.jit
def with_tuple(pointers, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(pointers[1] + i, tl.load(pointers[0] + i) * n)


@triton.jit
def shared_values(x, n, N: tl.constexpr, DEPTH: tl.constexpr):
    """Every value is used twice, so that the number of paths through the kernel doubles at each step."""
    i = tl.arange(0, N)
    at, limit = i, n + i * 0
    for _ in tl.static_range(DEPTH):
        at = at + (at - i)
        limit = limit + (limit - n)
    value = tl.load(x + at, mask=at < limit, other=0)
    for _ in tl.static_range(DEPTH):
        value = value * 0.5 + tl.minimum(value, 1)
    tl.store(x + at, value, mask=at < limit)


@triton.jit
def quotients(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + N + i, a % b)
    tl.store(out + 2 * N + i, tl.abs(a))


@triton.jit
def hashed(table, signed, unsigned, SIZE: tl.constexpr, N: tl.constexpr):
    """Offsets that wrap around on their way."""
    i = tl.arange(0, N)
    h = i * 11651675 + 3
    tl.store(signed + i, tl.load(table + tl.where(h < 0, 0, h & (SIZE - 1))))
    tl.store(unsigned + i, tl.load(table + (i.to(tl.uint32) * 2654435761) % SIZE))


@triton.jit
def wait_for_predecessor(state, out, N: tl.constexpr):
    """Each program waits for the one before it."""
    program = tl.program_id(0)
    before = 0
    if program > 0:
        before = tl.load(state + program - 1, volatile=True)
        while before == 0:
            before = tl.load(state + program - 1, volatile=True)
    i = tl.arange(0, N)
    tl.store(out + program * N + i, tl.load(state + i * 0, volatile=True) + before)
    tl.store(state + program, before + 1)


@triton.jit
def indirect(pointers, address, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(tl.load(pointers + 1).to(tl.pointer_type(tl.float32)) + i)
    value += tl.load(address.to(tl.pointer_type(tl.float32)) + i)
    tl.store(out + i, value)
    tl.store(pointers, (out + N).to(tl.int64))


@triton.jit
def three_results(x, y, sums, powers, products, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    total = tl.exp(a) + b
    tl.store(sums + i, total, mask=i < n)
    tl.store(powers + i, total * total, mask=i < n)
    tl.store(products + i, a * b, mask=i < n)


@triton.jit
def exchange(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n), tl.load(y + i, mask=i < n)
    tl.store(x + i, b, mask=i < n)
    tl.store(y + i, a, mask=i < n)


@triton.jit
def overlapping_stores(x, out, reversed_out, N: tl.constexpr):
    """The second store replaces what the first one wrote, and the load sees both."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(out + i, a)
    tl.store(out + i + 1, -a)
    tl.store(reversed_out + i, tl.load(out + N - i))


@triton.jit
def double(x, out, N: tl.constexpr):
    """Its name is a word of C."""
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * 2)


@triton.jit
def memset(x, out, N: tl.constexpr):
    """Its name is a function that C compilers call."""
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * 0)


@triton.jit
def dropout(x, kept, out, rows, seed, ROWS: tl.constexpr, N: tl.constexpr):
    """As Inductor writes it: the random numbers belong to the offset of an element."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    i = row * N + tl.arange(0, N)[None, :]
    keep = tl.rand(seed, i) > 0.25
    tl.store(kept + i, keep, mask=row < rows)
    tl.store(out + i, keep.to(tl.float32) * tl.load(x + i, mask=row < rows), mask=row < rows)
