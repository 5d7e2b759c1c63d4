"""The graph interface, bound with ctypes: descriptors, a graph of operations, its plan, and the run of it."""

from ctypes import byref, c_bool, c_char, c_double, c_float, c_int, c_int64, c_size_t, c_void_p

import numpy as np

import cudnn
from reference import TYPES, convert
from tensors import Tensor, packed, poison

# Types of values, and how one lies in memory.
HANDLE, DATA_TYPE, BOOLEAN, INT64, FLOAT, DOUBLE, POINTER, HEURISTIC, MODE, DESCRIPTOR = 0, 1, 2, 3, 4, 5, 6, 8, 14, 15
REDUCTION, CHAR, RESHAPE = 18, 24, 31
STORED = {HANDLE: c_void_p, BOOLEAN: c_bool, INT64: c_int64, FLOAT: c_float, DOUBLE: c_double, POINTER: c_void_p, DESCRIPTOR: c_void_p,
          CHAR: c_char}  # fmt: skip


class Raw:
    """Bytes that no result looks like, with an address that is a multiple of 256."""

    def __init__(self, size):
        self.raw = np.full(size + 256, 0xFF, np.uint8)
        self.address = -(-self.raw.ctypes.data // 256) * 256


class Descriptors:
    """Objects of the graph interface, all of which are destroyed together."""

    def __init__(self, lib):
        self.lib, self.made = lib, []

    def make(self, kind, *attributes):
        """A finalised object: (attribute, type, values...) each, of which None is left out."""
        pointer = c_void_p()
        self.lib.call("cudnnBackendCreateDescriptor", kind, byref(pointer))
        self.made.append(pointer)
        for attribute in attributes:
            if attribute is not None:
                self.set(pointer, *attribute)
        self.lib.call("cudnnBackendFinalize", pointer)
        return pointer

    def set(self, pointer, name, kind, *values):
        stored = STORED.get(kind, c_int)
        array = (stored * max(len(values), 1))(*(value.value if isinstance(value, c_void_p) else value for value in values))
        self.lib.call("cudnnBackendSetAttribute", pointer, name, kind, c_int64(len(values)), array)

    def get(self, pointer, name, kind, count):
        stored = STORED.get(kind, c_int)
        array, found = (stored * count)(), c_int64()
        self.lib.call("cudnnBackendGetAttribute", pointer, name, kind, c_int64(count), byref(found), array)
        return list(array[: found.value])

    def release(self):
        for pointer in self.made:
            self.lib.call("cudnnBackendDestroyDescriptor", pointer)
        self.made = []


class Value:
    """A tensor of a graph: what it holds in binary64, how far from that the library may be, and its memory if it is not virtual."""

    def __init__(self, graph, code, dims, virtual=False, by_value=False, order=None, strides=None, ragged=()):
        self.graph, self.code, self.dims = graph, code, tuple(dims)
        self.virtual, self.by_value = virtual, by_value
        self.uid = graph.next_uid()
        order = list(range(len(dims))) if order is None else order
        self.strides = packed(self.dims, order) if strides is None else tuple(strides)
        self.want = self.error = None
        self.memory = None
        size = np.dtype(TYPES[code][1]).itemsize if code in TYPES else 1
        self.object = graph.objects.make(
            17, (906, INT64, self.uid), (901, DATA_TYPE, code), (900, INT64, size), (902, INT64, *self.dims), (903, INT64, *self.strides),
            (907, BOOLEAN, virtual), (908, BOOLEAN, by_value), *ragged)  # fmt: skip
        if not virtual:
            self.memory = self.room()
            self.memory.allocate(graph.rng, poison(self.memory.code))

    def room(self):
        return Tensor(self.code, None, self.dims, self.strides, "graph")

    def fill(self, values):
        """Numbers for the library to read: as its type holds them."""
        kind = TYPES[self.code][1]
        held = convert(np.asarray(values, np.float64), kind)
        self.memory.write(self.memory.raw, held)
        self.want = held.astype(np.float64)
        self.error = np.zeros(self.dims)
        return self

    def read(self):
        return self.memory.read().astype(np.float64).reshape(self.dims)

    def __str__(self):
        kind = "virtual" if self.virtual else "by value" if self.by_value else "real"
        return f"{self.uid}: {TYPES[self.code][0]} {'x'.join(map(str, self.dims))} {kind}"


class Batches(Value):
    """A tensor [batch, heads, tokens, width] whose batches follow each other in memory, token by token: `rooms` tokens each, all of which may
    be written, and none of which has more than the dims say. Tokens may have a gap behind them."""

    def __init__(self, graph, code, dims, rooms, gap=0):
        batch, heads, _, width = dims
        self.rooms, self.step = np.minimum(rooms, dims[2]), heads * width + gap
        self.begins = np.concatenate([[0], np.cumsum(self.rooms)]) * self.step
        # Offsets count tokens or elements.
        unit = self.step if graph.rng.random() < 0.5 else 1
        kind = cudnn.INT32 if graph.rng.random() < 0.5 else cudnn.INT64
        self.offsets = graph.value(kind, (batch + 1, 1, 1, 1)).fill((self.begins // unit).reshape(-1, 1, 1, 1))
        strides = (dims[2] * self.step, width, self.step, 1)
        super().__init__(graph, code, dims, strides=strides, ragged=[(913, DESCRIPTOR, self.offsets.object), (914, INT64, unit)])

    def room(self):
        # The gap behind the last token may be out of reach.
        length = max(int(self.begins[-1]) - self.step + self.dims[1] * self.dims[3], 1) if self.begins[-1] else 1
        return Tensor(self.code, None, (1, length), (length, 1), "graph")

    def places(self):
        """Where the elements lie that there are, and which these are."""
        batch, head, token, column = np.indices(self.dims)
        there = token < self.rooms[batch]
        return (self.begins[batch] + token * self.step + head * self.dims[3] + column)[there], there

    def fill(self, values):
        places, there = self.places()
        held = convert(np.asarray(values, np.float64), TYPES[self.code][1])
        flat = self.memory.read(bits=True).reshape(-1)
        flat[places] = held[there]
        self.memory.write(self.memory.raw, flat.reshape(1, -1))
        self.want, self.error = np.where(there, held.astype(np.float64), 0), np.zeros(self.dims)
        return self

    def read(self):
        """What is there; of what is not, that it was not written."""
        places, there = self.places()
        flat = self.memory.read(bits=True).reshape(-1)
        others = np.delete(flat, places).view(np.uint8)
        assert (others == 0xFF).all(), f"tensor {self.uid}: something between the batches was written"
        values = self.want.copy()
        values[there] = flat[places].astype(np.float64)
        return values


class Graph:
    """Operations over tensors, and one run of them."""

    def __init__(self, lib, rng):
        self.lib, self.rng = lib, rng
        self.objects, self.operations, self.values, self.lines = Descriptors(lib), [], [], []
        self.uid = int(rng.integers(-5, 1000))

    def next_uid(self):
        self.uid += int(self.rng.integers(1, 4))
        return self.uid

    def value(self, code, dims, **how):
        value = Value(self, code, dims, **how)
        self.values.append(value)
        return value

    def batches(self, code, dims, rooms, **how):
        value = Batches(self, code, dims, rooms, **how)
        self.values.append(value)
        return value

    def add(self, line, kind, *attributes):
        self.lines.append(line)
        self.operations.append(self.objects.make(kind, *attributes))

    def graph(self, operations):
        return self.objects.make(15, (801, DESCRIPTOR, *operations))

    def plan(self):
        order = self.rng.permutation(len(self.operations))
        graph = self.graph([self.operations[k] for k in order])
        heuristics = self.objects.make(4, (201, DESCRIPTOR, graph), (200, HEURISTIC, 0))
        configuration = c_void_p()
        self.lib.call("cudnnBackendCreateDescriptor", 3, byref(configuration))
        self.objects.made.append(configuration)
        found = c_int64()
        array = (c_void_p * 1)(configuration.value)
        self.lib.call("cudnnBackendGetAttribute", heuristics, 202, DESCRIPTOR, c_int64(1), byref(found), array)
        if found.value < 1:
            raise cudnn.Refused("no engine computes the graph")
        plan = self.objects.make(5, (401, DESCRIPTOR, configuration))
        if self.rng.random() < 0.3:
            # The same from its text.
            count = c_int64()
            self.lib.call("cudnnBackendGetAttribute", plan, 405, CHAR, c_int64(0), byref(count), None)
            text = self.objects.get(plan, 405, CHAR, count.value)
            plan = self.objects.make(5, (400, HANDLE, self.lib.handle), (405, CHAR, *text))
        return plan

    def run(self):
        """Plans and runs the graph; every tensor of memory is then as the library left it."""
        plan = self.plan()
        workspace = Raw(self.objects.get(plan, 402, INT64, 1)[0])
        real = [value for value in self.values if not value.virtual]
        moved = [value for value in real if not value.by_value]
        with self.lib.memory.placed(workspace, *(value.memory for value in moved)) as at:
            places = {id(value): address for value, address in zip(moved, at[1:])}
            pointers = [places.get(id(value), value.memory.address) for value in real]
            pack = self.objects.make(
                16, (1000, INT64, *(value.uid for value in real)), (1001, POINTER, *pointers), (1003, POINTER, at[0]))  # fmt: skip
            self.lib.call("cudnnBackendExecute", self.lib.handle, plan, pack)

    def __str__(self):
        return "\n       ".join([*self.lines, *map(str, self.values)])
