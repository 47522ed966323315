"""The hot functions of core again, as Triton kernels for CUDA tensors.

Each kernel repeats core's arithmetic operation by operation. Triton must not fuse a
multiplication with an addition (``enable_fp_fusion=False`` where they are launched),
since core rounds after each. Numbers that do not fit 32-bit floats come in as an array
of 64-bit patterns: Triton would round a Python float.
"""

import triton
import triton.language as tl

# Sizes are not specialized: they change from round to round, and a kernel of its own
# for each kind of size would make rounds wait for the compiler.


@triton.jit
def _fold(values):
    """Return the sum of 4,096 values, folded in half until one is left."""
    for _ in tl.static_range(12):
        values = tl.sum(tl.reshape(values, (2, values.shape[0] // 2)), axis=0)
    return values


@triton.jit
def _word(entries, words):
    """Return each entry's random word: Philox 4x32-10, as core/rng.py says."""
    k0 = tl.load(words).to(tl.uint32)
    k1 = tl.load(words + 1).to(tl.uint32)
    c0 = (entries >> 2).to(tl.uint32)
    c1 = tl.load(words + 2).to(tl.uint32) + tl.zeros_like(c0)
    c2 = tl.load(words + 3).to(tl.uint32) + tl.zeros_like(c0)
    c3 = tl.load(words + 4).to(tl.uint32) + tl.zeros_like(c0)
    m0 = tl.full(c0.shape, 0xD2511F53, tl.uint32)
    m1 = tl.full(c0.shape, 0xCD9E8D57, tl.uint32)
    w0 = tl.full((), 0x9E3779B9, tl.uint32)
    w1 = tl.full((), 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(c0, m0), c0 * m0
        high1, low1 = tl.umulhi(c2, m1), c2 * m1
        c0, c2 = high1 ^ c1 ^ k0, high0 ^ c3 ^ k1
        c1, c3 = low1, low0
        k0, k1 = k0 + w0, k1 + w1
    lane = entries & 3
    return tl.where(lane < 2, tl.where(lane == 0, c0, c1), tl.where(lane == 2, c2, c3))


@triton.jit
def _unit(entries, words):
    """Return each entry's uniform number in [0, 1)."""
    return _word(entries, words).to(tl.float64) * 2.3283064365386963e-10


@triton.jit
def _double(pattern):
    """Return the float64 that an address holds the bits of."""
    return tl.load(pattern).to(tl.float64, bitcast=True)


@triton.jit(do_not_specialize=["n_entries", "n_blocks"])
def first_pass(
    update,
    residual,
    out,
    facts,
    n_entries,
    n_blocks,
    HAS_RESIDUAL: tl.constexpr,
    WRITES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add a block of update and residual; put its facts into a column of ``facts``."""
    block = tl.program_id(0).to(tl.int64)
    entries = block * BLOCK + tl.arange(0, BLOCK)
    is_inside = entries < n_entries
    values = tl.load(update + entries, mask=is_inside, other=0.0)
    if HAS_RESIDUAL:
        values = values + tl.load(residual + entries, mask=is_inside, other=0.0)
    if WRITES:
        tl.store(out + entries, values, mask=is_inside)
    magnitudes = tl.abs(values)
    is_bad = (magnitudes <= 1.2676506002282294e30) == 0
    exact = magnitudes.to(tl.float64)
    one = tl.arange(0, 1)
    tl.store(facts + block + one, _fold(exact))
    tl.store(facts + n_blocks + block + one, _fold(exact * exact))
    tl.store(facts + 2 * n_blocks + block, tl.max(exact, axis=0))
    n_bad = tl.sum(is_bad.to(tl.int32), axis=0)
    tl.store(facts + 3 * n_blocks + block, n_bad.to(tl.float64))


@triton.jit(do_not_specialize=["n_columns", "n_blocks"])
def gather_facts(facts, gathered, n_columns, n_blocks, BLOCK: tl.constexpr):
    """Fold a block of columns of what `first_pass` wrote into one column."""
    block = tl.program_id(0).to(tl.int64)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    is_inside = columns < n_columns
    masses = tl.load(facts + columns, mask=is_inside, other=0.0)
    energies = tl.load(facts + n_columns + columns, mask=is_inside, other=0.0)
    peaks = tl.load(facts + 2 * n_columns + columns, mask=is_inside, other=0.0)
    n_bad = tl.load(facts + 3 * n_columns + columns, mask=is_inside, other=0.0)
    one = tl.arange(0, 1)
    tl.store(gathered + block + one, _fold(masses))
    tl.store(gathered + n_blocks + block + one, _fold(energies))
    tl.store(gathered + 2 * n_blocks + block, tl.max(peaks, axis=0))
    tl.store(gathered + 3 * n_blocks + block, tl.sum(n_bad, axis=0))


@triton.jit(do_not_specialize=["n_columns", "n_blocks"])
def fold_rows(values, sums, n_columns, n_blocks, BLOCK: tl.constexpr):
    """Fold a block of one row of ``values`` into one number."""
    block = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1).to(tl.int64)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(
        values + row * n_columns + columns, mask=columns < n_columns, other=0.0
    )
    tl.store(sums + row * n_blocks + block + tl.arange(0, 1), _fold(found))


@triton.jit(do_not_specialize=["n_entries", "n_votes"])
def draw_votes(values, packed, words, n_entries, n_votes, BLOCK: tl.constexpr):
    """Vote on ``8 * BLOCK`` entries: q = 1 - (1 - |U| / mass)^k against a uniform.

    ``words`` holds the stream's five words and the mass.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    places = first + tl.arange(0, BLOCK)
    shifts = tl.arange(0, 8)
    entries = places[:, None] * 8 + shifts[None, :]
    is_inside = entries < n_entries
    magnitudes = tl.abs(tl.load(values + entries, mask=is_inside, other=0.0))
    base = 1.0 - magnitudes.to(tl.float64) / _double(words + 5)
    stays = tl.full(base.shape, 1.0, tl.float64)
    exponent = n_votes
    while exponent > 0:
        if exponent & 1:
            stays = stays * base
        base = base * base
        exponent = exponent >> 1
    votes = (_unit(entries, words) < 1.0 - stays) & is_inside
    bytes_ = tl.sum(votes.to(tl.int32) << shifts[None, :], axis=1)
    tl.store(packed + places, bytes_.to(tl.uint8), mask=places * 8 < n_entries)


@triton.jit(do_not_specialize=["n_clients", "n_bytes", "threshold"])
def agree(votes, gia, n_clients, n_bytes, threshold, BLOCK: tl.constexpr):
    """Count the votes of ``8 * BLOCK`` entries and keep those with enough."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    places = first + tl.arange(0, BLOCK)
    is_inside = places < n_bytes
    shifts = tl.arange(0, 8)
    tally = tl.zeros((BLOCK, 8), tl.int32)
    row = places
    for _ in range(n_clients):
        found = tl.load(votes + row, mask=is_inside, other=0).to(tl.int32)
        tally += (found[:, None] >> shifts[None, :]) & 1
        row += n_bytes
    agreed = (tally >= threshold).to(tl.int32)
    bytes_ = tl.sum(agreed << shifts[None, :], axis=1)
    tl.store(gia + places, bytes_.to(tl.uint8), mask=is_inside)


@triton.jit(do_not_specialize=["n_bits"])
def count_bits(packed, counts, n_bits, BLOCK: tl.constexpr):
    """Count the set bits of one block of ``BLOCK`` bits."""
    block = tl.program_id(0).to(tl.int64)
    entries = block * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(packed + (entries >> 3), mask=entries < n_bits, other=0)
    bits = (found.to(tl.int32) >> (entries & 7).to(tl.int32)) & 1
    tl.store(counts + block, tl.sum(bits, axis=0).to(tl.int64))


@triton.jit(do_not_specialize=["n_entries", "n_levels"])
def send_chosen(
    values,
    gia,
    ends,
    words,
    out,
    lanes,
    squares,
    n_clamped,
    n_entries,
    n_levels,
    HAS_GIA: tl.constexpr,
    WRITES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Round the chosen entries of a block and leave the rest of them in ``out``.

    ``ends`` holds how many are chosen up to the end of each block; ``words`` the
    stream's five words, the scale and the limit. Squares of what is chosen and of what
    is left go to the two rows of ``squares``, in the order of the lanes. ``n_clamped``
    grows by the levels that were cut to the limit.
    """
    block = tl.program_id(0).to(tl.int64)
    entries = block * BLOCK + tl.arange(0, BLOCK)
    is_sent = entries < n_entries
    places = entries
    if HAS_GIA:
        found = tl.load(gia + (entries >> 3), mask=is_sent, other=0).to(tl.int32)
        bits = (found >> (entries & 7).to(tl.int32)) & 1
        is_sent = is_sent & (bits == 1)
        start = tl.load(ends + block) - tl.sum(bits, axis=0)
        places = start + (tl.cumsum(bits, axis=0) - bits).to(tl.int64)
    chosen = tl.load(values + entries, mask=is_sent, other=0.0).to(tl.float64)
    scale = _double(words + 5)
    limit = tl.load(words + 6).to(tl.float64)
    scaled = chosen * scale
    floor = tl.floor(scaled)
    rounds_up = _unit(entries, words) < scaled - floor
    levels = floor + rounds_up.to(tl.float64)
    is_clamped = is_sent & (tl.abs(levels) > limit)
    tl.atomic_add(n_clamped, tl.sum(is_clamped.to(tl.int64), axis=0))
    levels = tl.minimum(tl.maximum(levels, -limit), limit)
    left = (chosen - levels / scale).to(tl.float32)
    if WRITES:
        tl.store(out + entries, left, mask=is_sent)
    exact = left.to(tl.float64)
    tl.store(lanes + places, (levels + limit).to(tl.int64), mask=is_sent)
    tl.store(squares + places, chosen * chosen, mask=is_sent)
    tl.store(squares + n_levels + places, exact * exact, mask=is_sent)


@triton.jit(do_not_specialize=["n_lanes", "n_bytes"])
def pack_lanes(
    lanes, packed, n_lanes, n_bytes, BITS: tl.constexpr, BLOCK: tl.constexpr
):
    """Write ``BLOCK`` bytes: of each, the lanes that overlap its eight bits."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    first = places * 8 // BITS
    result = tl.zeros((BLOCK,), tl.int64)
    for step in tl.static_range(8 // BITS + 2):
        lane = first + step
        shift = lane * BITS - places * 8
        is_seen = (lane < n_lanes) & (shift < 8)
        found = tl.load(lanes + lane, mask=is_seen, other=0)
        up, down = tl.maximum(shift, 0), tl.maximum(-shift, 0)
        result |= tl.where(is_seen, (found << tl.minimum(up, 7)) >> down, 0)
    tl.store(packed + places, (result & 0xFF).to(tl.uint8), mask=places < n_bytes)


@triton.jit(do_not_specialize=["n_lanes", "n_bytes"])
def unpack_lanes(
    packed, lanes, n_lanes, n_bytes, BITS: tl.constexpr, BLOCK: tl.constexpr
):
    """Read ``BLOCK`` lanes: of each, the bytes that it lies in."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    first = places * BITS // 8
    result = tl.zeros((BLOCK,), tl.int64)
    for step in tl.static_range((BITS + 14) // 8):
        is_seen = (places < n_lanes) & (first + step < n_bytes)
        found = tl.load(packed + first + step, mask=is_seen, other=0).to(tl.int64)
        result |= found << (8 * step)
    result = (result >> (places * BITS - first * 8)) & ((1 << BITS) - 1)
    tl.store(lanes + places, result, mask=places < n_lanes)
