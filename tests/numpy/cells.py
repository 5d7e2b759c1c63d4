"""Recurrent networks in binary64, one sequence after the other: the formulas of the cells, and their gradients by hand.

Nothing here is shared with the library: weights are taken apart by the documented order, gradients are accumulated step by step.
"""

import numpy as np

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
NO_BIAS, SINGLE_INPUT, DOUBLE_BIAS, SINGLE_RECURRENT = range(4)


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


class Network:
    """A network: cell, bias, directions, skip, input, hidden, projected, layers, clip."""

    def __init__(self, cell, bias, directions, skip, inputs, hidden, projected, layers, clip=None):
        self.cell, self.bias, self.directions, self.skip = cell, bias, directions, skip
        self.inputs, self.hidden, self.projected, self.layers, self.clip = inputs, hidden, projected, layers, clip
        self.gates = GATES[cell]

    def __str__(self):
        names = "cell bias directions skip inputs hidden projected layers clip".split()
        return " ".join(f"{name} {getattr(self, name)}" for name in names)

    @property
    def parts(self):
        return self.layers * self.directions

    def places(self):
        """For each pseudo-layer the slices and shapes of input, recurrent and projection matrices and of the two biases."""
        at, all_places = 0, []
        for part in range(self.parts):
            layer = part // self.directions
            columns = self.inputs if layer == 0 else self.directions * self.projected
            shapes = {
                "W": None if layer == 0 and self.skip else (self.gates, self.hidden, columns),
                "R": (self.gates, self.hidden, self.projected),
                "P": (self.projected, self.hidden) if self.projected != self.hidden else None,
            }
            places = {}
            for name, shape in shapes.items():
                size = int(np.prod(shape)) if shape else 0
                places[name] = (at, shape)
                at += size
            all_places.append(places)
        for places in all_places:
            for name, modes in (("bW", (SINGLE_INPUT, DOUBLE_BIAS)), ("bR", (SINGLE_RECURRENT, DOUBLE_BIAS))):
                shape = (self.gates, self.hidden) if self.bias in modes else None
                places[name] = (at, shape)
                at += self.gates * self.hidden if shape else 0
        return all_places, at

    def weights(self, flat):
        """Views of a flat array, for each pseudo-layer by name; zeros for what is absent."""
        views = []
        for places in self.places()[0]:
            view = {}
            for name, (at, shape) in places.items():
                if shape is None:
                    shape = (self.gates, self.hidden)
                    view[name] = np.zeros(shape) if name in ("bW", "bR") else None
                else:
                    view[name] = flat[at : at + int(np.prod(shape))].reshape(shape)
            views.append(view)
        return views


class Walk:
    """One direction of one layer over one sequence, whose steps are in the order of the walk."""

    def __init__(self, net, w, steps, h, c):
        self.net, self.w, self.steps = net, w, steps
        self.h0, self.c0, self.kept = h, c, []
        outputs = []
        for x in steps:
            a = np.broadcast_to(x, (net.gates, net.hidden)) if w["W"] is None else w["W"] @ x
            a, b = a + w["bW"], w["R"] @ h + w["bR"]
            before, cell_before = h, c
            if net.cell in (RELU, TANH):
                z = a[0] + b[0]
                h = np.maximum(z, 0) if net.cell == RELU else np.tanh(z)
                self.kept.append((before, z, h))
            elif net.cell == LSTM:
                i, f, g, o = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1]), np.tanh(a[2] + b[2]), sigmoid(a[3] + b[3])
                raw = f * c + i * g
                c = raw if net.clip is None else np.clip(raw, *net.clip)
                whole = o * np.tanh(c)
                h = whole if w["P"] is None else w["P"] @ whole
                self.kept.append((before, cell_before, i, f, g, o, raw, c, whole))
            else:
                r, u = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
                n = np.tanh(a[2] + r * b[2])
                h = (1 - u) * n + u * before
                self.kept.append((before, r, u, n, b[2]))
            outputs.append(h)
        self.outputs, self.h, self.c = outputs, h, c

    def back(self, dys, dh, dc, dw):
        """Gradients of the steps, and of h and c before them; those of the weights are added to dw."""
        net, w = self.net, self.w
        dxs = [None] * len(self.steps)
        for t in reversed(range(len(self.steps))):
            dh = dh + dys[t]
            kept = self.kept[t]
            before, dbefore = kept[0], np.zeros_like(kept[0])
            if net.cell in (RELU, TANH):
                da = (dh * (kept[1] > 0) if net.cell == RELU else dh * (1 - kept[2] ** 2))[None]
                db = da
            elif net.cell == LSTM:
                _, cell_before, i, f, g, o, raw, c, whole = kept
                if w["P"] is not None:
                    dw["P"] += np.outer(dh, whole)
                    dh = w["P"].T @ dh
                dc = dc + dh * o * (1 - np.tanh(c) ** 2)
                if net.clip is not None:
                    dc = dc * ((net.clip[0] <= raw) & (raw <= net.clip[1]))
                da = np.stack([dc * g * i * (1 - i), dc * cell_before * f * (1 - f), dc * i * (1 - g**2), dh * np.tanh(c) * o * (1 - o)])
                db, dc = da, dc * f
            else:
                _, r, u, n, rn = kept
                dn = dh * (1 - u) * (1 - n**2)
                du = dh * (before - n) * u * (1 - u)
                dr = dn * rn * r * (1 - r)
                da, db = np.stack([dr, du, dn]), np.stack([dr, du, dn * r])
                dbefore = dh * u
            dw["bW"] += da
            dw["bR"] += db
            dw["R"] += db[:, :, None] * before
            if w["W"] is None:
                dxs[t] = da.sum(0)
            else:
                dw["W"] += da[:, :, None] * self.steps[t]
                dxs[t] = np.einsum("ghi,gh->i", w["W"], da)
            dh = dbefore + np.einsum("ghp,gh->p", w["R"], db)
        return dxs, dh, dc


def run(net, flat, sequences, hx, cx, dys, dhy, dcy):
    """Everything of a batch: lists of sequences [T, entries], states [parts, batch, entries]. Returns y, hy, cy, dx, dhx, dcx, dw."""
    weights = net.weights(flat)
    gradient = np.zeros_like(flat)
    gradients = net.weights(gradient)
    hy, cy, dhx, dcx = np.array(hx), np.array(cx), np.array(dhy), np.array(dcy)
    ys, dxs = [], []
    for b, sequence in enumerate(sequences):
        walks, steps = [], list(sequence)
        for part in range(net.parts):
            direction = part % net.directions
            walk = Walk(net, weights[part], steps[::-1] if direction else steps, hx[part, b], cx[part, b])
            walks.append(walk)
            hy[part, b], cy[part, b] = walk.h, walk.c
            if direction == net.directions - 1:
                sides = [walks[-net.directions].outputs] + ([walk.outputs[::-1]] if direction else [])
                steps = [np.concatenate(parts) for parts in zip(*sides)]
        ys.append(np.array(steps).reshape(len(sequence), net.directions * net.projected))
        above = list(dys[b])
        for layer in reversed(range(net.layers)):
            below = None
            for direction in range(net.directions):
                part = layer * net.directions + direction
                side = [dy[direction * net.projected : (direction + 1) * net.projected] for dy in above]
                dx, dhx[part, b], dcx[part, b] = walks[part].back(side[::-1] if direction else side, dhy[part, b], dcy[part, b], gradients[part])
                dx = dx[::-1] if direction else dx
                below = dx if below is None else [p + q for p, q in zip(below, dx)]
            above = below
        dxs.append(np.array(above).reshape(len(sequence), net.inputs))
    return ys, hy, cy, dxs, dhx, dcx, gradient
