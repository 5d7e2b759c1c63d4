"""Attention and its gradients as operations of the graph interface, with what they give in binary64."""

import numpy as np

import cudnn
from backend import DESCRIPTOR, FLOAT, INT64, MODE
from reference import TYPES, convert

ADD, GREATER_OR_EQUAL = 0, 303
BOUND = {cudnn.FLOAT: 3e-5, cudnn.HALF: 8e-3, cudnn.BFLOAT16: 6e-2, cudnn.DOUBLE: 1e-6}


# Functions of a score s and another number t, with factors a of the first and b of the second operand, and flags c: mode, and what it
# makes of them, with its slope. The score is the second operand where the name ends so.
FUNCTIONS = {
    "neg": (16, lambda s, t, a, b, c: (-a * s, -a)),
    "identity": (21, lambda s, t, a, b, c: (a * s, a)),
    "tanh": (101, lambda s, t, a, b, c: (np.tanh(s), 1 - np.tanh(s) ** 2)),
    "sub": (9, lambda s, t, a, b, c: (a * s - b * t, a)),
    "sub second": (9, lambda s, t, a, b, c: (a * t - b * s, -b)),
    "mul": (1, lambda s, t, a, b, c: (a * s * b * t, a * b * t)),
    "mul second": (1, lambda s, t, a, b, c: (a * t * b * s, a * b * t)),
    "div": (6, lambda s, t, a, b, c: (a * s / (b * t), a / (b * t))),
    "select": (601, lambda s, t, a, b, c: (np.where(c, a * s, b * t), np.where(c, a, 0))),
    "select second": (601, lambda s, t, a, b, c: (np.where(c, a * t, b * s), np.where(c, 0, b))),
}  # fmt: skip


class Problem:
    """Extents, masks and numbers."""

    def __init__(self, rng):
        pick = lambda least, most: int(rng.integers(least, most + 1))
        self.batch, self.queries, self.keys = pick(1, 3), pick(1, 9), pick(1, 9)
        groups, shared = pick(1, 3), pick(1, 2)
        self.heads = [groups * 2 * shared, groups * 2, groups] if rng.random() < 0.5 else [groups, groups, groups]
        self.widths = [pick(1, 9), pick(1, 9)]
        self.code = int(rng.choice([cudnn.FLOAT, cudnn.FLOAT, cudnn.HALF, cudnn.BFLOAT16, cudnn.DOUBLE, cudnn.E4M3]))
        self.mask = str(rng.choice(["none", "causal", "bottom right", "window"]))
        self.window = pick(1, 4)
        self.has_lengths, self.has_bias = rng.random() < 0.5, rng.random() < 0.4
        self.scale = float(rng.choice([1.0, 0.5, self.widths[0] ** -0.5]))
        extents = self.queries, self.keys
        self.is_packed = self.has_lengths and rng.random() < 0.5
        self.has_ends = self.has_lengths and rng.random() < 0.3
        self.lengths = [rng.integers(0 if self.has_lengths else extent, extent + 1, self.batch) for extent in extents]
        has_functions = self.code != cudnn.E4M3 and rng.random() < 0.5
        self.functions = [str(rng.choice(list(FUNCTIONS))) for _ in range(pick(1, 2))] if has_functions else []
        # What each of them takes besides the score, and the factors of the two.
        shape = (1, self.heads[0], *extents)
        self.others = [rng.uniform(0.5, 2, shape) for _ in self.functions]
        self.factors = [tuple(float(x) for x in rng.choice([1.0, 1.0, 0.5, -1.5], 2)) for _ in self.functions]
        self.flags = [rng.integers(0, 2, shape) for _ in self.functions]

    def kept(self):
        """Which scores count."""
        row, column = np.arange(self.queries)[:, None], np.arange(self.keys)[None, :]
        all_kept = []
        for queries, keys in zip(*self.lengths):
            shift = keys - queries if self.mask == "bottom right" and self.has_lengths else 0
            kept = (row < queries) & (column < keys)
            if self.mask != "none":
                kept &= column <= row + shift
            if self.mask == "window":
                kept &= column + self.window >= row
            all_kept.append(kept)
        return np.array(all_kept)[:, None]

    def __str__(self):
        how = f"packed {self.is_packed} ends {self.has_ends}"
        return (f"{how} batch {self.batch} heads {self.heads} queries {self.queries} keys {self.keys} widths {self.widths} mask {self.mask} "
                f"{self.window} lengths {self.lengths if self.has_lengths else None} bias {self.has_bias} scale {self.scale:.3g} "
                f"functions {self.functions} factors {self.factors}")  # fmt: skip


def outcome(p, q, k, v, bias):
    """The weights, the statistics and the result; the slope of the functions over the scores stays in the problem."""
    repeat = lambda x: np.repeat(x, p.heads[0] // x.shape[1], axis=1)
    scores = p.scale * q @ np.swapaxes(repeat(k), 2, 3)
    p.slope = np.ones_like(scores)
    for name, other, factors, flags in zip(p.functions, p.others, p.factors, p.flags):
        scores, slope = FUNCTIONS[name][1](scores, other, *factors, flags)
        p.slope = p.slope * slope
    scores = np.where(p.kept(), scores + bias, -np.inf)
    most = scores.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(most), most, 0)
    powers = np.exp(scores - shift)
    total = powers.sum(axis=-1, keepdims=True)
    weights = np.where(total > 0, powers / np.where(total > 0, total, 1), 0)
    return weights, shift + np.log(total), weights @ repeat(v)


def gradients(p, q, k, v, weights, o, do):
    repeat = lambda x: np.repeat(x, p.heads[0] // x.shape[1], axis=1)
    joined = lambda x, heads: x.reshape(p.batch, heads, -1, *x.shape[2:]).sum(axis=2)
    per_weight = do @ np.swapaxes(repeat(v), 2, 3)
    per_score = weights * (per_weight - (do * o).sum(axis=-1, keepdims=True)) * p.slope * p.scale
    dk, dv = np.swapaxes(per_score, 2, 3) @ q, np.swapaxes(weights, 2, 3) @ do
    return per_score @ repeat(k), joined(dk, p.heads[1]), joined(dv, p.heads[2])


def attention(graph, rng):
    """Adds one attention or its gradients to a graph; its results."""
    p = Problem(rng)
    backward = rng.random() < 0.5 and p.code != cudnn.E4M3
    b, (hq, hk, hv), (d, dv) = p.batch, p.heads, p.widths
    shapes = (b, hq, p.queries, d), (b, hk, p.keys, d), (b, hv, p.keys, dv), (b, hq, p.queries, dv)
    order = [0, 2, 1, 3] if rng.random() < 0.5 else None
    backward = backward and not p.has_ends
    # Sequences may have room behind them.
    rooms = [n + rng.integers(0, 2, p.batch) for n in p.lengths]

    def tensor(shape, code=p.code, is_of_keys=False):
        if not p.is_packed or p.code == cudnn.E4M3:
            return graph.value(code, shape, order=order)
        return graph.batches(code, shape, rooms[is_of_keys], gap=int(rng.choice([0, 3])))

    q, k, v = (tensor(shape, is_of_keys=place > 0).fill(rng.standard_normal(shape)) for place, shape in enumerate(shapes[:3]))
    bias = np.zeros((1, hq, p.queries, p.keys))
    if p.has_bias:
        bias_tensor = graph.value(cudnn.FLOAT, bias.shape).fill(rng.standard_normal(bias.shape))
        bias = bias_tensor.want
    scale = graph.value(cudnn.FLOAT, [1] * 4, by_value=True).fill(np.full([1] * 4, p.scale))
    p.scale = float(scale.want.reshape(-1)[0])
    lengths = []
    if p.has_lengths:
        given = [np.concatenate([[7], 7 + np.cumsum(n)]) for n in p.lengths] if p.has_ends else p.lengths
        lengths = [graph.value(cudnn.INT32, (n.size, 1, 1, 1)).fill(n.reshape(-1, 1, 1, 1)) for n in given]
    of_queries, of_keys = (3009, 3008) if p.has_ends else (3002, 3001)
    link = lambda attribute, value: (attribute, DESCRIPTOR, value.object)

    # Bias and masks are a graph over the scores.
    inner, last = [], graph.value(cudnn.FLOAT, (b, hq, p.queries, p.keys), virtual=True)
    first = last
    changed = lambda: graph.value(cudnn.FLOAT, last.dims, virtual=True)
    for name, other, factors, flags in zip(p.functions, p.others, p.factors, p.flags):
        y, mode = changed(), FUNCTIONS[name][0]
        settings = graph.objects.make(0, (0, MODE, mode), (1, 1, cudnn.FLOAT))
        operands = [last]
        if mode not in (16, 21, 101):
            tensor_of = graph.value(cudnn.FLOAT, other.shape).fill(other)
            # As binary32 holds it.
            other[...] = tensor_of.want
            operands = [tensor_of, last] if name.endswith("second") else [last, tensor_of]
        more = [link(751, operands[0]), *(link(752, operand) for operand in operands[1:]), link(753, y)]
        more += [] if name == "tanh" else [(754, FLOAT, factors[0]), (755, FLOAT, factors[1])]
        if mode == 601:
            more.append(link(758, graph.value(cudnn.BOOLEAN, flags.shape).fill(flags)))
        inner.append(graph.objects.make(13, (750, DESCRIPTOR, settings), *more))
        last = y
    if p.has_bias:
        y = changed()
        settings = graph.objects.make(0, (0, MODE, ADD), (1, 1, cudnn.FLOAT))
        inner.append(graph.objects.make(13, (750, DESCRIPTOR, settings), link(751, last), link(752, bias_tensor), link(753, y)))
        last = y
    if p.mask != "none":
        lowest = graph.value(cudnn.FLOAT, [1] * 4, by_value=True).fill(np.full([1] * 4, -np.inf))
        sides = [True, False] if p.mask == "window" else [False]
        for is_left in sides:
            y = changed()
            bound = graph.value(cudnn.INT32, [1] * 4, by_value=True).fill(np.full([1] * 4, p.window)) if is_left else None
            has_shift = p.mask == "bottom right" and p.has_lengths
            inner.append(graph.objects.make(
                44, link(3000, last), link(3005, lowest), link(3006, y), (3007, MODE, GREATER_OR_EQUAL),
                link(3003, bound) if is_left else None,
                link(of_queries, lengths[0]) if has_shift else None, link(of_keys, lengths[1]) if has_shift else None))  # fmt: skip
            last = y
    if p.code == cudnn.E4M3:
        return narrow(graph, rng, p, (q, k, v), bias, scale, lengths, inner, first, last)
    weights, stats, o = outcome(p, q.want, k.want, v.want, bias)
    within = BOUND[p.code]
    results = []

    def wanted(value, numbers):
        value.want, value.error = numbers, np.full(numbers.shape, within * (1 + np.abs(np.where(np.isfinite(numbers), numbers, 0)).max(initial=0)))
        results.append(value)
        return value

    if backward:
        do = tensor(shapes[3]).fill(rng.standard_normal(shapes[3]))
        given_o, given_stats = tensor(shapes[3]).fill(o), tensor((b, hq, p.queries, 1), cudnn.FLOAT).fill(stats)
        dq, dk, dv = gradients(p, q.want, k.want, v.want, weights, o, do.want)
        made = [wanted(tensor(x.shape, is_of_keys=place > 0), x) for place, x in enumerate((dq, dk, dv))]
        subgraph = [(2867, DESCRIPTOR, graph.graph(inner)), (2868, INT64, first.uid), (2869, INT64, last.uid)] if inner else []
        links = [link(2851 + place, value) for place, value in enumerate((q, k, v, given_o, given_stats, scale, *lengths))]
        links += [link(2859 + place, value) for place, value in enumerate((*made, do))]
        graph.add(f"gradients of attention {p}", 43, *links, *subgraph)
    else:
        y, sums = wanted(tensor(shapes[3]), o), wanted(tensor((b, hq, p.queries, 1), cudnn.FLOAT), stats)
        subgraph = [(2811, DESCRIPTOR, graph.graph(inner)), (2812, INT64, first.uid), (2813, INT64, last.uid)] if inner else []
        links = [link(2800 + place, value) for place, value in enumerate((q, k, v, y, sums, scale))]
        links += [link((2820 if p.has_ends else 2809) + place, value) for place, value in enumerate(lengths)]
        graph.add(f"attention {p}", 41, *links, *subgraph)
    return results


def narrow(graph, rng, p, operands, bias, scale, lengths, inner, first, last):
    """Attention in FP8: factors of the operands, weights that are rounded to FP8, a factor of the result, largest magnitudes."""
    q, k, v = operands
    link = lambda attribute, value: (attribute, DESCRIPTOR, value.object)
    # The descriptor wants them in this order: of q, k, v, the weights, then those that multiply weights and result.
    numbers = [float(x) for x in rng.choice([0.5, 1.0, 2.0, 1.5], 6)]
    numbers[4], numbers[3] = 64.0, 1 / 64
    factors = [graph.value(cudnn.FLOAT, [1] * 4).fill(np.full([1] * 4, x)) for x in numbers]
    fq, fk, fv, fs, scale_s, scale_o = numbers
    weights, _, _ = outcome(p, q.want * fq, k.want * fk, v.want, bias)
    kind = TYPES[cudnn.E4M3][1]
    rounded = convert(weights * scale_s, kind).astype(np.float64)
    repeat = lambda x: np.repeat(x, p.heads[0] // x.shape[1], axis=1)
    plain = rounded @ repeat(v.want) * (fs * fv)
    # A weight may be rounded to the other side, by an eighth of it or the least step, and so may a result.
    unsure = (weights * scale_s / 8 + 2.0**-9) @ np.abs(repeat(v.want)) * (fs * fv) * 0.5 + 1e-4
    y = graph.value(cudnn.E4M3, plain.shape)
    want = plain * scale_o
    y.want, y.error = np.clip(want, -448, 448), unsure * scale_o + np.abs(want) / 8 + 2.0**-9
    amax_s, amax_o = (graph.value(cudnn.FLOAT, [1] * 4) for _ in range(2))
    amax_s.want, amax_s.error = np.full([1] * 4, np.abs(weights).max(initial=0)), np.full([1] * 4, 1e-4)
    amax_o.want, amax_o.error = np.full([1] * 4, np.abs(plain).max(initial=0)), np.full([1] * 4, unsure.max(initial=0))
    subgraph = [(2811, DESCRIPTOR, graph.graph(inner)), (2812, INT64, first.uid), (2813, INT64, last.uid)] if inner else []
    links = [link(2800, q), link(2801, k), link(2802, v), link(2803, y), link(2805, scale)]
    links += [link((2820 if p.has_ends else 2809) + place, value) for place, value in enumerate(lengths)]
    links += [link(2822 + place, value) for place, value in enumerate((*factors, amax_s, amax_o))]
    graph.add(f"attention in FP8 {p}", 41, *links, *subgraph)
    return [y, amax_s, amax_o]
