"""What attention may have besides, through cudnn-frontend's Python package: other diagonals, slopes, sinks, a function of the scores, pages,
dropout, a gradient of the bias."""

import cudnn
import numpy as np
from kit import FLOAT, INT32, INT64

SCALE = 0.25
BATCH, HEADS, SHARED, QUERIES, KEYS, WIDTH = 2, 4, 2, 16, 20, 8
ROWS, COLUMNS = np.arange(QUERIES)[:, None], np.arange(KEYS)


def operands(t):
    """Queries, keys and values, each as a tensor and as numbers."""
    return [t.operand(BATCH, heads, rows, WIDTH) for heads, rows in ((HEADS, QUERIES), (SHARED, KEYS), (SHARED, KEYS))]


def outcome(q, k, v, keeps=True, bias=0, sink=-np.inf, change=lambda scores: scores, factor=1):
    """Result, statistics and weights."""
    k, v = (np.repeat(x, HEADS // x.shape[1], axis=1) for x in (k, v))
    scores = np.where(keeps, change(SCALE * q @ k.swapaxes(-1, -2)) + bias, -np.inf)
    most = np.maximum(scores.max(axis=-1, keepdims=True), sink)
    powers = np.exp(scores - most)
    total = powers.sum(axis=-1, keepdims=True) + np.exp(sink - most)
    weights = powers / total
    return (factor * weights) @ v, most + np.log(total), weights


def attend(t, given, **how):
    """Adds attention; the numbers of its operands, and what it makes."""
    q, k, v = (tensor for tensor, _ in given)
    return t.g.sdpa(q=q, k=k, v=v, attn_scale=SCALE, generate_stats=True, **how)


def compare(t, made, want):
    o, statistics = made
    t.write(o, want[0], dims=want[0].shape)
    t.write(statistics, want[1], FLOAT, bound=max(t.bound / 10, 1e-5))


def bottom_right(t):
    given = operands(t)
    keeps = COLUMNS <= ROWS + KEYS - QUERIES
    compare(t, attend(t, given, use_causal_mask_bottom_right=True), outcome(*(x for _, x in given), keeps))


def slopes(t):
    """ALiBi: scores go down with the distance, by a slope of each head."""
    given = operands(t)
    slope = 2.0 ** (-8 / HEADS * np.arange(1, HEADS + 1)).reshape(1, HEADS, 1, 1)
    want = outcome(*(x for _, x in given), COLUMNS <= ROWS, slope * (COLUMNS - ROWS))
    compare(t, attend(t, given, use_causal_mask=True, use_alibi_mask=True), want)


def sink(t):
    given = operands(t)
    token, logits = t.operand(1, HEADS, 1, 1, kind=FLOAT)
    compare(t, attend(t, given, sink_token=token), outcome(*(x for _, x in given), sink=logits))


def soft_cap(t):
    """A function of the scores: a hyperbolic tangent limits them."""
    given = operands(t)
    most, least = t.number(3.0, 4), t.number(1 / 3, 4)
    change = lambda graph, scores: graph.mul(graph.tanh(graph.mul(scores, least)), most)
    compare(t, attend(t, given, score_mod=change), outcome(*(x for _, x in given), change=lambda x: 3 * np.tanh(x / 3)))


def paged(t):
    """Keys and values in pages that tables name; one query, as when text is generated, or several."""
    rows, count = 4, KEYS // 4
    q = t.operand(BATCH, HEADS, QUERIES, WIDTH)
    containers = [t.operand(10, SHARED, rows, WIDTH) for _ in range(2)]
    tables = [t.rng.permutation(10)[: BATCH * count].reshape(BATCH, 1, count, 1) for _ in range(2)]
    lengths = t.rng.integers(1, KEYS + 1, (BATCH, 1, 1, 1))
    named = {f"paged_attention_{x}_table": t.read(table, INT32)[0] for x, table in zip("kv", tables)}
    ends = {"seq_len_q": t.read(np.full((BATCH, 1, 1, 1), QUERIES), INT32)[0], "seq_len_kv": t.read(lengths, INT32)[0]}
    loaded = [
        container[table.reshape(BATCH, count)].transpose(0, 2, 1, 3, 4).reshape(BATCH, SHARED, KEYS, WIDTH)
        for (_, container), table in zip(containers, tables)
    ]
    made = attend(t, [q, *containers], use_padding_mask=True, paged_attention_max_seq_len_kv=KEYS, **ends, **named)
    compare(t, made, outcome(q[1], *loaded, COLUMNS < lengths))


def dropout(t):
    """The random numbers are the library's own: it says which they were."""
    given = operands(t)
    seed, offset = (t.read(np.full((1, 1, 1, 1), t.rng.integers(2**31)), INT64)[0] for _ in range(2))
    dims = [BATCH, HEADS, QUERIES, KEYS]
    dump = t.g.tensor(dim=dims, stride=[HEADS * QUERIES * KEYS, QUERIES * KEYS, KEYS, 1], data_type=cudnn.data_type.FLOAT)
    drawn = np.full(dims, 7, np.float32)
    t.given.append((dump, drawn))

    def want():
        assert set(np.unique(drawn)) == {0, 1}
        # Of 2560 elements; the deviation is 0.009.
        assert abs(drawn.mean() - 0.75) < 0.045
        return outcome(*(x for _, x in given), factor=drawn.astype(np.float64) / 0.75)[0]

    o, _ = attend(t, given, dropout=(0.25, seed, offset), rng_dump=dump)
    t.write(o, want, dims=(BATCH, HEADS, QUERIES, WIDTH))


def joined(x):
    """Sums over the heads that share a head of keys and values."""
    return x.reshape(BATCH, SHARED, -1, *x.shape[2:]).sum(axis=2)


def gradients(given, weights, o, loss, derivative=1):
    """The gradients of queries, keys, values and scores, of an output as it was given."""
    (_, q), (_, k), (_, v) = given
    k, v = (np.repeat(x, HEADS // SHARED, axis=1) for x in (k, v))
    per_weight = loss @ v.swapaxes(-1, -2)
    per_score = weights * (per_weight - (loss * o).sum(axis=-1, keepdims=True)) * derivative
    return SCALE * per_score @ k, joined(SCALE * per_score.swapaxes(-1, -2) @ q), joined(weights.swapaxes(-1, -2) @ loss), per_score


def attend_backward(t, given, o, do, statistics, **how):
    q, k, v = (tensor for tensor, _ in given)
    return t.g.sdpa_backward(q=q, k=k, v=v, o=o, dO=do, stats=t.read(statistics, FLOAT)[0], attn_scale=SCALE, **how)


def compare_gradients(t, made, wanted):
    for tensor, want in zip(made, wanted):
        t.write(tensor, want, dims=want.shape, bound=3 * t.bound)


def soft_cap_gradient(t):
    """The function of the scores goes forward again, and its derivative, which the graph describes, back."""
    given = operands(t)
    o, statistics, weights = outcome(*(x for _, x in given), change=lambda x: 3 * np.tanh(x / 3))
    (o, rounded), (do, loss) = t.read(o), t.operand(*o.shape)
    most, least = t.number(3.0, 4), t.number(1 / 3, 4)
    limited = {}

    def change(graph, scores):
        limited["x"] = graph.mul(scores, least)
        return graph.mul(graph.tanh(limited["x"]), most)

    # Which reads what tanh was taken of, not what it made.
    back = lambda graph, loss: graph.mul(graph.tanh_backward(graph.mul(loss, most), limited["x"]), least)
    (_, q), (_, k), _ = given
    scores = SCALE * q @ np.repeat(k, HEADS // SHARED, axis=1).swapaxes(-1, -2)
    wanted = gradients(given, weights, rounded, loss, 1 - np.tanh(scores / 3) ** 2)
    made = attend_backward(t, given, o, do, statistics, score_mod=change, score_mod_bprop=back)
    compare_gradients(t, made, wanted)


def sink_gradient(t):
    """The gradient of a sink is that of the output as it is given, which narrow types have rounded: sums of it may be a few percent off."""
    given = operands(t)
    token, logits = t.operand(1, HEADS, 1, 1, kind=FLOAT)
    o, statistics, weights = outcome(*(x for _, x in given), COLUMNS <= ROWS, sink=logits)
    (o, rounded), (do, loss) = t.read(o), t.operand(*o.shape)
    dsink = t.g.tensor(dim=[1, HEADS, 1, 1], stride=[HEADS, 1, 1, 1], data_type=cudnn.data_type.FLOAT)
    made = attend_backward(t, given, o, do, statistics, use_causal_mask=True, sink_token=token, dSink_token=dsink)
    compare_gradients(t, made, gradients(given, weights, rounded, loss))
    per_row = np.exp(logits - statistics) * (loss * rounded).sum(axis=-1, keepdims=True)
    t.write(dsink, -per_row.sum(axis=(0, 2), keepdims=True), FLOAT, dims=(1, HEADS, 1, 1))


def bias_gradient(t):
    given = operands(t)
    bias, added = t.operand(1, HEADS, QUERIES, KEYS)
    o, statistics, weights = outcome(*(x for _, x in given), bias=added)
    (o, rounded), (do, loss) = t.read(o), t.operand(*o.shape)
    dbias = t.g.tensor(dim=list(added.shape), stride=[HEADS * QUERIES * KEYS, QUERIES * KEYS, KEYS, 1], data_type=t.code)
    made = attend_backward(t, given, o, do, statistics, bias=bias, dBias=dbias)
    *wanted, per_score = gradients(given, weights, rounded, loss)
    compare_gradients(t, [*made, dbias], [*wanted, per_score.sum(axis=0, keepdims=True)])


CASES = [bottom_right, slopes, sink, soft_cap, soft_cap_gradient, sink_gradient, paged, dropout, bias_gradient]
