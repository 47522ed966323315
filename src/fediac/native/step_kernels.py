"""What a training step does between its convolutions, as Triton kernels.

Images are rows of channels: their memory with channels last. Every sum over rows is
made in two stages, first within a program, then over programs in the order of their
numbers, so that it repeats to the bit whichever program ends first.
"""

import triton
import triton.language as tl


@triton.jit
def _fold_parts(sums, columns, n_parts, n_channels, ROWS: tl.constexpr):
    """Return the two sums of each column, added over all parts in order."""
    rows = tl.arange(0, ROWS)
    first = tl.zeros((ROWS, columns.shape[0]), tl.float32)
    second = tl.zeros((ROWS, columns.shape[0]), tl.float32)
    for start in range(0, n_parts, ROWS):
        parts = start + rows
        is_inside = (parts < n_parts)[:, None]
        places = sums + parts[:, None] * (2 * n_channels) + columns[None, :]
        # Other programs wrote them just now: not from this one's own cache.
        first += tl.load(places, is_inside, other=0.0, cache_modifier=".cg")
        places += n_channels
        second += tl.load(places, is_inside, other=0.0, cache_modifier=".cg")
    return tl.sum(first, axis=0), tl.sum(second, axis=0)


@triton.jit
def is_last_part(counter, n_parts):
    """Return whether all other parts have written theirs; then count anew."""
    tl.debug_barrier()
    is_last = tl.atomic_add(counter, 1, sem="acq_rel") == n_parts - 1
    if is_last:
        tl.store(counter, 0)
    return is_last


@triton.jit
def conclude_sums(
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
    n_channels,
    ROWS: tl.constexpr,
):
    """Write channels' mean and 1 / deviation, and let running statistics follow.

    The sums are of what is above or below ``pivot``, and of its squares.
    """
    total, squares = _fold_parts(sums, columns, n_parts, n_channels, ROWS)
    above = total / n_rows
    variance = tl.maximum(squares / n_rows - above * above, 0.0)
    mean = pivot + above
    tl.store(facts + columns, mean)
    tl.store(facts + n_channels + columns, 1.0 / tl.sqrt(variance + epsilon))
    old = tl.load(running_mean + columns)
    tl.store(running_mean + columns, old + momentum * (mean - old))
    unbiased = variance * (n_rows / (n_rows - 1.0))
    old = tl.load(running_var + columns)
    tl.store(running_var + columns, old + momentum * (unbiased - old))


@triton.jit
def _places(start, stop, columns, n_channels, ROWS: tl.constexpr):
    """Return where a tile's entries are, and which of its rows lie before ``stop``."""
    rows = start + tl.arange(0, ROWS)
    return rows[:, None] * n_channels + columns[None, :], (rows < stop)[:, None]


@triton.jit
def _load_rows(images, start, stop, columns, n_channels, ROWS: tl.constexpr):
    """Return a tile of images, and which of its rows lie before ``stop``."""
    places, is_inside = _places(start, stop, columns, n_channels, ROWS)
    return tl.load(images + places, is_inside, other=0.0), is_inside


@triton.jit
def _add_above(first, second, found, is_inside, pivot):
    above = tl.where(is_inside, found.to(tl.float32) - pivot[None, :], 0.0)
    return first + above, second + above * above


@triton.jit
def sum_images(
    images,
    sums,
    counters,
    running_mean,
    running_var,
    facts,
    momentum,
    epsilon,
    n_rows,
    n_each,
    n_channels,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Find each channel's mean and 1 / deviation, and let running statistics follow.

    A part is ``n_each`` rows of ``WIDTH`` channels. Sums are of what is above or below
    the first row, so that a mean far from zero costs no digits.
    """
    part, n_parts = tl.program_id(0), tl.num_programs(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    pivot = tl.load(images + columns).to(tl.float32)
    first = tl.zeros((ROWS, WIDTH), tl.float32)
    second = tl.zeros((ROWS, WIDTH), tl.float32)
    stop = tl.minimum((part + 1) * n_each, n_rows)
    for start in range(part * n_each, stop, 4 * ROWS):
        # All four are on their way before the first is needed.
        a, has_a = _load_rows(images, start, stop, columns, n_channels, ROWS)
        b, has_b = _load_rows(images, start + ROWS, stop, columns, n_channels, ROWS)
        c, has_c = _load_rows(images, start + 2 * ROWS, stop, columns, n_channels, ROWS)
        d, has_d = _load_rows(images, start + 3 * ROWS, stop, columns, n_channels, ROWS)
        first, second = _add_above(first, second, a, has_a, pivot)
        first, second = _add_above(first, second, b, has_b, pivot)
        first, second = _add_above(first, second, c, has_c, pivot)
        first, second = _add_above(first, second, d, has_d, pivot)
    places = sums + part * (2 * n_channels) + columns
    tl.store(places, tl.sum(first, axis=0))
    tl.store(places + n_channels, tl.sum(second, axis=0))
    if is_last_part(counters + tl.program_id(1), n_parts):
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
            n_channels,
            ROWS,
        )


@triton.jit
def normalize_images(
    images,
    others,
    out,
    facts,
    weight,
    bias,
    n_rows,
    n_channels,
    ADDS: tl.constexpr,
    RECTIFIES: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Write images normalized, plus ``others``, without what is below zero."""
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    start = tl.program_id(0) * ROWS
    places, is_inside = _places(start, n_rows, columns, n_channels, ROWS)
    found = tl.load(images + places, is_inside, other=0.0).to(tl.float32)
    mean = tl.load(facts + columns)
    scale = tl.load(facts + n_channels + columns) * tl.load(weight + columns)
    shift = tl.load(bias + columns)
    result = (found - mean[None, :]) * scale[None, :] + shift[None, :]
    if ADDS:
        result += tl.load(others + places, is_inside, other=0.0).to(tl.float32)
    if RECTIFIES:
        result = tl.where(result < 0.0, 0.0, result)  # what is no number stays
    tl.store(out + places, result.to(out.dtype.element_ty), is_inside)


@triton.jit
def _load_slopes(
    gradient,
    second,
    out,
    places,
    is_inside,
    HAS_SECOND: tl.constexpr,
    IS_MASKED: tl.constexpr,
):
    """Return the gradient of the output, zero where ``out`` is not above zero."""
    found = tl.load(gradient + places, is_inside, other=0.0)
    if HAS_SECOND:
        more = tl.load(second + places, is_inside, other=0.0).to(tl.float32)
        found = (found.to(tl.float32) + more).to(gradient.dtype.element_ty)
    if IS_MASKED:
        kept = tl.load(out + places, is_inside, other=0.0) > 0.0
        found = tl.where(kept, found, 0.0)
    return found


@triton.jit
def _pass(slopes, centred, scale, shift, RECTIFIES: tl.constexpr):
    """Return the slopes that a rectifier right after the normalization lets pass."""
    slopes = slopes.to(tl.float32)
    if RECTIFIES:
        is_kept = centred * scale[None, :] + shift[None, :] > 0.0
        slopes = tl.where(is_kept, slopes, 0.0)
    return slopes


@triton.jit
def sum_slopes(
    gradient,
    second,
    images,
    out,
    passed,
    sums,
    counters,
    facts,
    weight,
    bias,
    d_weight,
    d_bias,
    factors,
    n_rows,
    n_each,
    n_channels,
    HAS_SECOND: tl.constexpr,
    ADDS: tl.constexpr,
    RECTIFIES: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Find the gradients of weight and bias, and the factors for those of images.

    With ``ADDS`` the gradient that the rectifier lets pass is written to ``passed``: it
    is that of what was added.
    """
    part, n_parts = tl.program_id(0), tl.num_programs(0)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    mean = tl.load(facts + columns)
    inverse = tl.load(facts + n_channels + columns)
    scale = inverse * tl.load(weight + columns)
    shift = tl.load(bias + columns)
    first = tl.zeros((ROWS, WIDTH), tl.float32)
    along = tl.zeros((ROWS, WIDTH), tl.float32)
    stop = tl.minimum((part + 1) * n_each, n_rows)
    for start in range(part * n_each, stop, 2 * ROWS):
        # All is on its way before any of it is needed.
        places_a, is_a = _places(start, stop, columns, n_channels, ROWS)
        places_b, is_b = _places(start + ROWS, stop, columns, n_channels, ROWS)
        a = tl.load(images + places_a, is_a, other=0.0)
        b = tl.load(images + places_b, is_b, other=0.0)
        to_a = _load_slopes(gradient, second, out, places_a, is_a, HAS_SECOND, ADDS)
        to_b = _load_slopes(gradient, second, out, places_b, is_b, HAS_SECOND, ADDS)
        if ADDS:
            tl.store(passed + places_a, to_a, is_a)
            tl.store(passed + places_b, to_b, is_b)
        centred = a.to(tl.float32) - mean[None, :]
        slopes = _pass(to_a, centred, scale, shift, RECTIFIES and not ADDS)
        first += slopes
        along += slopes * centred
        centred = b.to(tl.float32) - mean[None, :]
        slopes = _pass(to_b, centred, scale, shift, RECTIFIES and not ADDS)
        first += slopes
        along += slopes * centred
    to = sums + part * (2 * n_channels) + columns
    tl.store(to, tl.sum(first, axis=0))
    tl.store(to + n_channels, tl.sum(along, axis=0))
    if is_last_part(counters + tl.program_id(1), n_parts):
        total, product = _fold_parts(sums, columns, n_parts, n_channels, ROWS)
        tl.store(d_bias + columns, total)
        tl.store(d_weight + columns, product * inverse)
        tl.store(factors + columns, total / n_rows)
        slope = product * inverse * inverse / n_rows
        tl.store(factors + n_channels + columns, slope)


@triton.jit
def slope_images(
    gradient,
    second,
    images,
    d_images,
    facts,
    weight,
    bias,
    factors,
    n_rows,
    n_channels,
    HAS_SECOND: tl.constexpr,
    RECTIFIES: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Write the gradient of the images; without ``RECTIFIES`` all of it passes."""
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    start = tl.program_id(0) * ROWS
    places, is_inside = _places(start, n_rows, columns, n_channels, ROWS)
    found = tl.load(images + places, is_inside, other=0.0)
    slopes = _load_slopes(
        gradient, second, gradient, places, is_inside, HAS_SECOND, IS_MASKED=False
    )
    mean = tl.load(facts + columns)
    scale = tl.load(facts + n_channels + columns) * tl.load(weight + columns)
    shift = tl.load(bias + columns)
    common = tl.load(factors + columns)
    along = tl.load(factors + n_channels + columns)
    centred = found.to(tl.float32) - mean[None, :]
    slopes = _pass(slopes, centred, scale, shift, RECTIFIES)
    result = (slopes - common[None, :] - centred * along[None, :]) * scale[None, :]
    tl.store(d_images + places, result.to(d_images.dtype.element_ty), is_inside)


@triton.jit
def pick_examples(
    images,
    labels,
    order,
    step,
    scale,
    shift,
    inputs,
    targets,
    n_values,
    BATCH: tl.constexpr,
    CHANNELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Copy one block of one example of the step's batch, and normalize its pixels."""
    place = tl.program_id(0)
    example = tl.load(order + tl.load(step) * BATCH + place)
    values = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_inside = values < n_values
    channels = values % CHANNELS
    found = tl.load(images + example * n_values + values, is_inside, other=0)
    result = found.to(tl.float32) * tl.load(scale + channels)
    result += tl.load(shift + channels)
    to = inputs + place * n_values + values
    tl.store(to, result.to(inputs.dtype.element_ty), is_inside)
    if tl.program_id(1) == 0:
        tl.store(targets + place, tl.load(labels + example))


@triton.jit
def _descend(gradient, parameters, narrow, rate, places, entries, is_inside):
    slopes = tl.load(gradient + entries, is_inside).to(tl.float32)
    values = tl.load(parameters + places, is_inside) - tl.load(rate) * slopes
    tl.store(parameters + places, values, is_inside)
    tl.store(narrow + places, values.to(tl.bfloat16), is_inside)


@triton.jit
def descend(
    table,
    parameters,
    narrow,
    rate,
    IS_ALIGNED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Take one step of SGD on a block of parameters, and narrow what comes out.

    A row of ``table`` is the address of the block's gradient, where its parameters
    begin, how many they are, and whether the gradient is narrow.
    """
    row = table + tl.program_id(0) * 4
    address, first = tl.load(row), tl.load(row + 1)
    n_entries, is_narrow = tl.load(row + 2), tl.load(row + 3)
    short = address.to(tl.pointer_type(tl.bfloat16))
    long = address.to(tl.pointer_type(tl.float32))
    if IS_ALIGNED:
        first = tl.multiple_of(first, 8)
        short, long = tl.multiple_of(short, 16), tl.multiple_of(long, 16)
    entries = tl.arange(0, BLOCK)
    places = first + entries
    is_inside = entries < n_entries
    if is_narrow:
        if n_entries == BLOCK:  # most blocks are: nothing to ask entry by entry
            _descend(short, parameters, narrow, rate, places, entries, None)
        else:
            _descend(short, parameters, narrow, rate, places, entries, is_inside)
    else:
        _descend(long, parameters, narrow, rate, places, entries, is_inside)
