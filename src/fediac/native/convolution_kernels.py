"""Convolutions of a training step, as Triton kernels for Hopper GPUs.

Images are rows of channels, a pixel each: their memory with channels last. Weights are
in the same order: output channel, row, column, input channel.
"""

import triton
import triton.language as tl

from fediac.native.step_kernels import conclude_sums, is_last_part


@triton.jit
def convolve(
    images,
    weight,
    out,
    sums,
    counters,
    running_mean,
    running_var,
    facts,
    momentum,
    epsilon,
    n_rows,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    OUT_HEIGHT: tl.constexpr,
    OUT_WIDTH: tl.constexpr,
    N_IN: tl.constexpr,
    N_OUT: tl.constexpr,
    STRIDE: tl.constexpr,
    SIZE: tl.constexpr,
    IS_TURNED: tl.constexpr,
    MEASURES: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    N_STAGES: tl.constexpr,
):
    """Write ``ROWS`` pixels of ``COLUMNS`` channels: a square of ``SIZE`` x ``SIZE``.

    With ``IS_TURNED`` the weights are those of the opposite way: it is the gradient of
    the input of a convolution with stride 1. With ``MEASURES`` the output's mean and
    1 / deviation are found and running statistics follow, as `sum_images` does; sums
    are of what is above or below the running mean.
    """
    part, n_parts = tl.program_id(1), tl.num_programs(1)
    rows = part * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    depths = tl.arange(0, DEPTH)
    is_row = rows < n_rows
    pixel = rows % (OUT_HEIGHT * OUT_WIDTH)
    top = (pixel // OUT_WIDTH) * STRIDE - SIZE // 2
    left = (pixel % OUT_WIDTH) * STRIDE - SIZE // 2
    image = rows // (OUT_HEIGHT * OUT_WIDTH)
    corner = ((image * HEIGHT + top) * WIDTH + left) * N_IN
    n_depths: tl.constexpr = N_IN // DEPTH
    products = tl.zeros((ROWS, COLUMNS), tl.float32)
    for turn in tl.range(0, SIZE * SIZE * n_depths, num_stages=N_STAGES):
        tap, first = turn // n_depths, (turn % n_depths) * DEPTH
        down, right = tap // SIZE, tap % SIZE
        y, x = top + down, left + right
        is_inside = is_row & (y >= 0) & (y < HEIGHT) & (x >= 0) & (x < WIDTH)
        offset = (down * WIDTH + right) * N_IN + first
        seen = tl.load(
            images + (corner + offset)[:, None] + depths[None, :],
            is_inside[:, None],
            other=0.0,
        )
        channels = (first + depths)[:, None]
        if IS_TURNED:
            tap = SIZE * SIZE - 1 - tap
            places = channels * (SIZE * SIZE * N_OUT) + tap * N_OUT + columns[None, :]
        else:
            places = columns[None, :] * (SIZE * SIZE * N_IN) + tap * N_IN + channels
        products = tl.dot(seen, tl.load(weight + places), products)
    result = products.to(out.dtype.element_ty)
    places = out + rows[:, None] * N_OUT + columns[None, :]
    tl.store(places, result, is_row[:, None])
    if MEASURES:
        pivot = tl.load(running_mean + columns)
        above = tl.where(is_row[:, None], result.to(tl.float32) - pivot[None, :], 0.0)
        to = sums + part * (2 * N_OUT) + columns
        tl.store(to, tl.sum(above, axis=0))
        tl.store(to + N_OUT, tl.sum(above * above, axis=0))
        if is_last_part(counters + tl.program_id(0), n_parts):
            conclude_sums(
                sums,
                running_mean,
                running_var,
                facts,
                momentum,
                epsilon,
                pivot,
                columns,
                n_rows,
                n_parts,
                N_OUT,
                64,
            )


@triton.jit
def correlate(
    images,
    gradient,
    out,
    n_rows,
    n_each,
    HEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
    N_IN: tl.constexpr,
    N_OUT: tl.constexpr,
    N_TAPS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    N_STAGES: tl.constexpr,
):
    """Write a part of the gradient of weights of a 3 x 3 convolution with stride 1.

    It is of ``ROWS`` outputs, ``COLUMNS`` inputs and one or three neighbouring taps, a
    sum over ``n_each`` pixels.
    """
    n_outs: tl.constexpr = N_OUT // ROWS
    outs = (tl.program_id(0) % n_outs) * ROWS + tl.arange(0, ROWS)
    ins = (tl.program_id(0) // n_outs) * COLUMNS + tl.arange(0, COLUMNS)
    tap = tl.program_id(1) * N_TAPS
    part = tl.program_id(2)
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    third = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in tl.range(
        part * n_each, part * n_each + n_each, DEPTH, num_stages=N_STAGES
    ):
        rows = start + tl.arange(0, DEPTH)
        is_row = rows < n_rows
        pixel = rows % (HEIGHT * WIDTH)
        y = pixel // WIDTH + tap // 3 - 1
        x = pixel % WIDTH + tap % 3 - 1
        is_row_inside = is_row & (y >= 0) & (y < HEIGHT)
        slopes = tl.load(
            gradient + rows[:, None] * N_OUT + outs[None, :],
            is_row[:, None],
            other=0.0,
        )
        slopes = tl.trans(slopes)
        image = rows // (HEIGHT * WIDTH)
        places = images + (((image * HEIGHT + y) * WIDTH + x) * N_IN)[:, None]
        places += ins[None, :]
        is_inside = is_row_inside & (x >= 0) & (x < WIDTH)
        seen = tl.load(places, is_inside[:, None], other=0.0)
        first = tl.dot(slopes, seen, first)
        if N_TAPS == 3:
            is_inside = is_row_inside & (x >= -1) & (x < WIDTH - 1)
            seen = tl.load(places + N_IN, is_inside[:, None], other=0.0)
            second = tl.dot(slopes, seen, second)
            is_inside = is_row_inside & (x >= -2) & (x < WIDTH - 2)
            seen = tl.load(places + 2 * N_IN, is_inside[:, None], other=0.0)
            third = tl.dot(slopes, seen, third)
    to = out + part * (N_OUT * 9 * N_IN) + tap * N_IN
    to += outs[:, None] * (9 * N_IN) + ins[None, :]
    tl.store(to, first.to(out.dtype.element_ty))
    if N_TAPS == 3:
        tl.store(to + N_IN, second.to(out.dtype.element_ty))
        tl.store(to + 2 * N_IN, third.to(out.dtype.element_ty))


@triton.jit
def add_parts(parts, out, n_parts, n_entries, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Add up to ``PARTS`` parts of a block of entries, always in the same order."""
    entries = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.arange(0, PARTS)
    is_inside = (rows < n_parts)[:, None] & (entries < n_entries)[None, :]
    places = rows[:, None] * n_entries + entries[None, :]
    total = tl.sum(tl.load(parts + places, is_inside, other=0.0), axis=0)
    tl.store(out + entries, total.to(out.dtype.element_ty), entries < n_entries)
