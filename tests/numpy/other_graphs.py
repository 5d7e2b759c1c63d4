"""Graphs of one operation that no random graph has: random numbers, rotary embeddings, pages of a cache, products by
experts, batches that lie where offsets say, windows, statistics of batch normalisation."""

import numpy as np

import cudnn
from backend import DATA_TYPE, DESCRIPTOR, DOUBLE, FLOAT, INT64, MODE

RNG_DISTRIBUTION, EXPERTS_MODE, INT32 = 29, 30, 23
NAN_PROPAGATION, RESAMPLE, PADDING = 10, 21, 22
GENSTATS_MODE, FINALIZE_MODE, NORM_MODE, NORM_PHASE = 16, 17, 27, 28
# Modes of windows.
AVERAGE, MAXIMUM, AVERAGE_INSIDE = 2, 3, 4
BOUND = {cudnn.FLOAT: 2e-5, cudnn.HALF: 4e-3, cudnn.BFLOAT16: 3e-2, cudnn.DOUBLE: 1e-6}
NARROW = [cudnn.FLOAT, cudnn.HALF, cudnn.BFLOAT16]


def link(attribute, value):
    return attribute, DESCRIPTOR, value.object


def wanted(value, numbers, error=None):
    value.want = np.asarray(numbers, np.float64)
    value.error = np.full(value.want.shape, BOUND[value.code] * (1 + np.abs(value.want).max(initial=0))) if error is None else error
    return [value]


def philox(counter, key):
    """Philox4x32-10 of columns of counters."""
    low = np.uint64(0xFFFFFFFF)
    a, b, c, d = (np.asarray(word, np.uint64) & low for word in counter)
    k, l = key
    for _ in range(10):
        ac, cc = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (cc >> np.uint64(32)) ^ b ^ np.uint64(k), cc & low, (ac >> np.uint64(32)) ^ d ^ np.uint64(l), ac & low
        k, l = (k + 0x9E3779B9) & 0xFFFFFFFF, (l + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(np.broadcast_arrays(a, b, c, d))


def drawn(count, seed, call):
    """The random number of each element."""
    halves = lambda number: (number & 0xFFFFFFFF, number >> 32)
    index = np.arange(count)
    block = 8 * (index // 32) + index % 8
    words = philox((block & 0xFFFFFFFF, block >> 32, *halves(call)), halves(seed))
    return words[index % 32 // 8, index]


def random_numbers(graph, rng):
    dims = [int(x) for x in rng.integers(1, 7, int(rng.integers(2, 5)))]
    count = int(np.prod(dims))
    seed, call = (int(x) for x in rng.integers(0, 2**62, 2))
    distribution = int(rng.integers(3))
    order = [int(axis) for axis in rng.permutation(len(dims))]
    y = graph.value(int(rng.choice([cudnn.FLOAT, cudnn.HALF, cudnn.DOUBLE])), dims, order=order)
    numbers = {}
    if distribution == 0:
        chance = round(float(rng.random()), 3)
        want = drawn(count, seed, call) >= round((1 - chance) * 2**32)
        numbers = {2305: chance}
    else:
        each = distribution
        bits = (drawn(32 * each * count, seed, call) >= 2**31).astype(np.int64).reshape(-1, 32)
        words = bits @ (1 << np.arange(32, dtype=np.int64))
        words -= (words >> 31) << 32
        # The upper 24 bits of a word that has a sign.
        part = ((words >> 8) / 2.0**24 + 0.5).reshape(-1, each).T
        if distribution == 1:
            least, most = -1.5, 2.25
            want, numbers = least + (most - least) * part[0], {2304: least, 2303: most}
        else:
            mean, deviation = 0.5, 2.0
            want = mean + deviation * np.sqrt(-2 * np.log(1 - part[0])) * np.cos(2 * np.pi * part[1])
            numbers = {2301: mean, 2302: deviation}
    settings = graph.objects.make(32, (2300, RNG_DISTRIBUTION, distribution), *((name, DOUBLE, number) for name, number in numbers.items()))
    offset = graph.value(cudnn.INT64, (1, 1, 1, 1))
    # As integers: binary64 does not hold them.
    offset.memory.write(offset.memory.raw, np.full((1, 1, 1, 1), call, np.int64))
    graph.add(f"random numbers {dims} of distribution {distribution} {numbers}", 33,
              (2312, DESCRIPTOR, settings), (2311, INT64, seed), link(2313, offset), link(2310, y))  # fmt: skip
    exact = np.zeros(dims) if distribution == 0 else None
    return wanted(y, want.reshape(dims).astype(np.float64), exact)


def rotation(graph, rng):
    batch, heads, rows = (int(x) for x in rng.integers(1, 5, 3))
    width = 2 * int(rng.integers(1, 6))
    turned = 2 * int(rng.integers(0, width // 2 + 1))
    backward, scale = rng.random() < 0.5, float(rng.choice([1.0, 0.5]))
    order = [0, 2, 1, 3] if rng.random() < 0.5 else None
    code = int(rng.choice([*NARROW, cudnn.DOUBLE]))
    dims = (batch, heads, rows, width)
    x, y = graph.value(code, dims, order=order).fill(rng.standard_normal(dims)), graph.value(code, dims, order=order)
    shape = [1, 1, rows, width]
    angles = graph.value(cudnn.FLOAT, shape).fill(rng.uniform(-3, 3, shape))
    # None of them means all.
    half = (turned or width) // 2
    angle = angles.want[..., :half] * (-1 if backward else 1)
    kept, low, high = np.split(x.want, [width - 2 * half, width - half], axis=-1)
    want = scale * np.concatenate([kept, low * np.cos(angle) - high * np.sin(angle), high * np.cos(angle) + low * np.sin(angle)], axis=-1)
    base = 3410 if backward else 3400
    graph.add(f"rotation {dims} of {turned}, backward {backward}, scale {scale}", 50 if backward else 49,
              link(base, x), link(base + 1, y), link(base + 2, angles), (base + 3, FLOAT, scale), (base + 4, INT64, turned))  # fmt: skip
    return wanted(y, want)


def pages(graph, rng):
    batch, heads, rows, width, count = (int(x) for x in rng.integers(1, 5, 5))
    length = int(rng.integers((count - 1) * rows + 1, count * rows + 1))
    total = batch * count + 2
    code = int(rng.choice(NARROW))
    container = graph.value(code, (total, heads, rows, width), order=[0, 2, 1, 3] if rng.random() < 0.5 else None)
    container.fill(rng.standard_normal(container.dims))
    numbers = rng.permutation(total)[: batch * count].reshape(batch, 1, count, 1)
    lengths = rng.integers(0, length + 1, (batch, 1, 1, 1))
    # Beyond the lengths no page is looked at.
    unused = np.arange(count).reshape(1, 1, count, 1) * rows >= lengths
    table = graph.value(cudnn.INT32, numbers.shape).fill(np.where(unused, -7, numbers))
    ends = graph.value(cudnn.INT32, lengths.shape).fill(lengths)
    # The frontend describes keys the other way about.
    is_turned = rng.random() < 0.5
    y = graph.value(code, (batch, heads, width, length), order=[0, 1, 3, 2]) if is_turned else graph.value(code, (batch, heads, length, width))
    loaded = container.want[numbers.reshape(batch, count)].transpose(0, 2, 1, 3, 4).reshape(batch, heads, count * rows, width)[:, :, :length]
    want = np.where(np.arange(length).reshape(1, 1, length, 1) < lengths, loaded, 0)
    graph.add(f"{count} pages of {container.dims} to {y.dims}", 35, link(1950, container), link(1951, y), link(1952, ends), link(1953, table))
    want = want.swapaxes(2, 3) if is_turned else want
    return wanted(y, want, np.zeros(want.shape))


def experts(graph, rng):
    rows, width, columns, count = (int(x) for x in rng.integers(1, 8, 4))
    code = int(rng.choice(NARROW))
    first = np.sort(rng.integers(0, rows + 1, count))
    first[0] = 0
    ends = [*first[1:], rows]
    offsets = graph.value(cudnn.INT32, (count, 1, 1)).fill(first.reshape(count, 1, 1))
    if rng.random() < 0.3:
        return experts_gradient(graph, rng, code, (rows, width, columns, count), offsets, list(zip(first, ends)))
    w = graph.value(code, (count, width, columns), order=[0, 2, 1] if rng.random() < 0.5 else None)
    w.fill(rng.standard_normal(w.dims))
    mode = int(rng.integers(3))
    tokens = int(rng.integers(1, 8)) if mode == 1 else rows
    x = graph.value(code, (1, tokens, width)).fill(rng.standard_normal((1, tokens, width)))
    index, slots, top = np.arange(rows), np.zeros(rows, int), 1
    more = []
    if mode == 1:
        index = rng.integers(0, tokens, rows)
    elif mode == 2:
        # Row r is one of the `top` that belong to a token.
        top = int(rng.choice([divisor for divisor in range(1, rows + 1) if rows % divisor == 0]))
        places = rng.permutation(rows)
        index, slots = places // top * top, places % top
    if mode:
        more.append(link(2906, graph.value(cudnn.INT32, (1, rows, 1)).fill((index // top).reshape(1, rows, 1))))
    if mode == 2:
        more.append(link(2907, graph.value(cudnn.INT32, (1, rows, 1)).fill(slots.reshape(1, rows, 1))))
        more.append((2908, INT32, top))
    given = x.want[0, index] if mode == 1 else x.want[0]
    product = np.concatenate([given[a:b] @ w.want[e] for e, (a, b) in enumerate(zip(first, ends))])
    want = product
    if mode == 2:
        want = np.zeros_like(product)
        want[index + slots] = product
    y = graph.value(code, (1, rows, columns))
    graph.add(f"{count} experts from {first} of {rows} rows, {width} to {columns}, mode {mode}, {top} each", 42,
              (2900, EXPERTS_MODE, mode), (2901, DATA_TYPE, cudnn.FLOAT), link(2902, x), link(2903, w), link(2904, offsets), link(2905, y), *more)  # fmt: skip
    return wanted(y, want[None])


def experts_gradient(graph, rng, code, extents, offsets, parts):
    rows, width, columns, count = extents
    x, dy = (graph.value(code, (1, rows, n)).fill(rng.standard_normal((1, rows, n))) for n in (width, columns))
    want = np.stack([x.want[0, a:b].T @ dy.want[0, a:b] for a, b in parts])
    dw = graph.value(code, want.shape)
    graph.add(f"gradient of {count} experts {parts} of {rows} rows, {width} to {columns}", 48,
              (2951, DATA_TYPE, cudnn.FLOAT), link(2952, x), link(2953, dw), link(2954, offsets), link(2955, dy))  # fmt: skip
    return wanted(dw, want)


def batches(graph, rng):
    """From batches with gaps to others; what is not there is 0."""
    dims = tuple(int(x) for x in rng.integers(1, 6, 4))
    rooms = [rng.integers(0, dims[2] + 1, dims[0]) for _ in range(2)]
    pair = [(cudnn.FLOAT, cudnn.HALF), (cudnn.DOUBLE, cudnn.DOUBLE), (cudnn.INT8, cudnn.FLOAT), (cudnn.BFLOAT16, cudnn.BFLOAT16), (cudnn.INT64, cudnn.INT32)]
    source, kind = pair[rng.integers(len(pair))]
    x = graph.batches(source, dims, rooms[0], gap=int(rng.integers(3))).fill(rng.integers(-50, 50, dims))
    y = graph.batches(kind, dims, rooms[1], gap=int(rng.integers(3))) if rng.random() < 0.7 else graph.value(kind, dims)
    settings = graph.objects.make(0, (0, MODE, 21), (1, DATA_TYPE, cudnn.FLOAT))
    graph.add(f"batches {dims} of {rooms[0]} to {rooms[1]} tokens", 13, (750, DESCRIPTOR, settings), link(751, x), link(753, y))
    return wanted(y, x.want, np.zeros(dims))


def windows(graph, rng):
    """Maxima and averages of windows, or their gradients."""
    axes = int(rng.integers(1, 4))
    size, stride, before, after = ([int(x) for x in rng.integers(low, high, axes)] for low, high in [(1, 4), (1, 4), (0, 2), (0, 2)])
    before, after = ([min(pad, of - 1) for pad, of in zip(pads, size)] for pads in (before, after))
    mode = int(rng.integers(AVERAGE, AVERAGE_INSIDE + 1))
    dims = [int(x) for x in (*rng.integers(1, 4, 2), *(rng.integers(of, 9) for of in size))]
    outputs = [(extent + b + a - of) // step + 1 for extent, b, a, of, step in zip(dims[2:], before, after, size, stride)]
    code = int(rng.choice([*NARROW, cudnn.DOUBLE]))
    alpha, backward = float(rng.choice([1.0, 0.5])), rng.random() < 0.5
    x, y = (graph.value(code, shape) for shape in (dims, [*dims[:2], *outputs]))
    # No two elements of a plane are the same: bfloat16 holds every whole number to 256, and a plane has at most 512 elements.
    plane = int(np.prod(dims[2:]))
    x.fill((rng.permuted(np.tile(np.arange(plane), (*dims[:2], 1)), axis=-1).reshape(dims) - plane // 2) / 64)
    settings = graph.objects.make(24, (1700, RESAMPLE, mode), (1701, DATA_TYPE, cudnn.FLOAT), (1702, INT64, axes),
                                  *((1703 + k, INT64, *of) for k, of in enumerate((after, before, stride, size))),
                                  (1707, NAN_PROPAGATION, 1), (1708, PADDING, int(mode == MAXIMUM)))  # fmt: skip
    result, gradient = np.zeros(y.dims), np.zeros(dims)
    given = graph.value(code, y.dims).fill(rng.integers(-8, 8, y.dims)) if backward else None
    for place in np.ndindex(*outputs):
        starts = [at * step - pad for at, step, pad in zip(place, stride, before)]
        window = tuple(slice(max(start, 0), start + of) for start, of in zip(starts, size))
        cells = x.want[(..., *window)].reshape(*dims[:2], -1)
        count = cells.shape[-1] if mode == AVERAGE_INSIDE else int(np.prod(size))
        result[(..., *place)] = cells.max(-1, initial=-np.inf) if mode == MAXIMUM else cells.sum(-1) / count
        if backward:
            share = (cells == cells.max(-1, keepdims=True, initial=-np.inf)) if mode == MAXIMUM else np.full(cells.shape, 1 / count)
            part = share * given.want[(..., *place)][..., None]
            gradient[(..., *window)] += part.reshape(gradient[(..., *window)].shape)
    line = f"windows {size} of {dims}, strides {stride}, paddings {before} {after}, mode {mode}, backward {backward}, alpha {alpha}"
    if not backward:
        graph.add(line, 25, link(1710, x), link(1711, y), (1713, FLOAT, alpha), (1714, FLOAT, 0.0), (1716, DESCRIPTOR, settings))
        return wanted(y, alpha * result)
    y.fill(result)
    dx = graph.value(code, dims)
    graph.add(line, 26, link(1720, dx), link(1721, given), link(1726, x), link(1727, y), (1723, FLOAT, alpha), (1724, FLOAT, 0.0),
              (1725, DESCRIPTOR, settings))  # fmt: skip
    return wanted(dx, alpha * gradient)


def statistics(graph, rng):
    """Batch normalisation in training, and what it is made of: sums of a result, what training makes of sums, and gradients of scale and
    bias with the factors that make the gradient of x."""
    part = int(rng.integers(4))
    dims = tuple(int(x) for x in (*rng.integers(1, 5, 2), *rng.integers(1, 6, int(rng.integers(1, 4)))))
    shape, rest = (1, dims[1], *[1] * (len(dims) - 2)), (0, *range(2, len(dims)))
    code = int(rng.choice(NARROW))
    order = [0, *range(2, len(dims)), 1] if rng.random() < 0.5 else None
    given = lambda: graph.value(code, dims, order=order).fill(rng.standard_normal(dims))
    channel = lambda numbers: graph.value(cudnn.FLOAT, shape).fill(numbers)
    some = lambda low=-1.0, high=1.0: channel(rng.uniform(low, high, shape))
    outputs, results = [], []

    def output(attribute, numbers):
        # Any of them may be left out, but not all.
        if rng.random() < 0.8 or not outputs:
            y = graph.value(cudnn.FLOAT, shape)
            outputs.append(link(attribute, y))
            results.extend(wanted(y, np.broadcast_to(numbers, shape)))

    number = lambda value, kind=cudnn.FLOAT: graph.value(kind, [1] * len(dims), by_value=True).fill(np.full([1] * len(dims), value))
    if part == 3:
        x, scale, bias, more = given(), some(), some(), []
        mean, variance = x.want.mean(rest, keepdims=True), x.want.var(rest, keepdims=True)
        inverse = 1 / np.sqrt(variance + 1e-2)
        # Statistics come together, or not at all.
        if rng.random() < 0.6:
            old_mean, old_variance, factor, count = some(), some(0.1), 0.25, np.prod(dims) // dims[1]
            more = [link(2008, number(factor)), link(2009, old_mean), link(2010, old_variance)]
            for attribute, numbers in [
                (2003, mean), (2004, inverse), (2011, old_mean.want + factor * (mean - old_mean.want)),
                (2012, old_variance.want + factor * (variance * count / max(count - 1, 1) - old_variance.want))]:  # fmt: skip
                value = graph.value(cudnn.FLOAT, shape)
                more.append(link(attribute, value))
                results.extend(wanted(value, numbers))
        y = graph.value(code, dims, order=order)
        results.extend(wanted(y, (x.want - mean) * inverse * scale.want + bias.want))
        graph.add(f"batch normalisation of {dims}", 29, (2000, NORM_MODE, 2), (2001, NORM_PHASE, 1), link(2002, x), link(2005, scale),
                  link(2006, bias), link(2007, number(1e-2)), link(2013, y), *more)  # fmt: skip
    elif part == 0:
        x = given()
        output(773, x.want.sum(rest, keepdims=True))
        output(774, (x.want**2).sum(rest, keepdims=True))
        graph.add(f"sums of {dims}", 14, (770, GENSTATS_MODE, 0), (771, DATA_TYPE, cudnn.FLOAT), link(772, x), *outputs)
    elif part == 1:
        is_training, count, epsilon, factor = rng.random() < 0.7, int(rng.integers(1, 50)), 1e-3, 0.25
        mean, variance = rng.uniform(-1, 1, shape), rng.uniform(0.1, 1, shape)
        sums, squares = channel(mean * count), channel((variance + mean**2) * count)
        scale, bias, old_mean, old_variance = some(), some(), some(), some(0.1)
        mean = sums.want / count if is_training else old_mean.want
        variance = squares.want / count - mean**2 if is_training else old_variance.want
        inverse = 1 / np.sqrt(variance + epsilon)
        if is_training:
            output(788, old_mean.want + factor * (mean - old_mean.want))
            output(789, old_variance.want + factor * (variance * count / max(count - 1, 1) - old_variance.want))
        output(790, mean)
        output(791, inverse)
        output(792, scale.want * inverse)
        output(793, bias.want - mean * scale.want * inverse)
        more = [link(782, sums), link(783, squares), link(794, number(count, cudnn.INT64)), link(796, number(factor))]
        graph.add(f"statistics of {dims[1]} channels of {count}, training {is_training}", 20, (780, FINALIZE_MODE, int(not is_training)),
                  (781, DATA_TYPE, cudnn.FLOAT), link(784, scale), link(785, bias), link(786, old_mean), link(787, old_variance),
                  link(795, number(epsilon)), *(more if is_training else []), *outputs)  # fmt: skip
    else:
        x, dy, mean, inverse, scale = given(), given(), some(), some(0.5, 2.0), some()
        count = np.prod(dims) // dims[1]
        dscale = (dy.want * (x.want - mean.want) * inverse.want).sum(rest, keepdims=True)
        dbias = dy.want.sum(rest, keepdims=True)
        factor = scale.want * inverse.want
        of_x = -factor * dscale * inverse.want / count
        for attribute, numbers in [(1626, dscale), (1627, dbias), (1628, factor), (1629, of_x), (1630, -factor * dbias / count - of_x * mean.want)]:
            output(attribute, numbers)
        graph.add(f"gradients of the scale and bias of {dims}", 23, (1620, DATA_TYPE, cudnn.FLOAT), link(1621, mean), link(1622, inverse),
                  link(1623, scale), link(1624, x), link(1625, dy), *outputs)  # fmt: skip
    return results


def other(graph, rng):
    """Adds one of them to a graph; its results."""
    return [random_numbers, rotation, pages, experts, batches, windows, statistics][rng.integers(7)](graph, rng)
