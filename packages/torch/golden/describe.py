"""One text for each value, the same as test/describe.ts makes: how the two sides are compared."""
import collections
import datetime
import enum
import json
import struct

import numpy as np
import torch
from torch.distributed import rpc
from torch.distributed.nn import RemoteModule
from torch.distributed.rpc.internal import PythonUDF, RemoteException


class Typed:
    """A list or dict of TorchScript with the type of its elements."""

    def __init__(self, kind, value):
        self.kind = kind
        self.value = value


class Fork:
    """A handle on an RRef, as it travels."""

    def __init__(self, fields):
        self.fields = fields


def floating(value):
    return "float(" + struct.pack(">d", value).hex() + ")"


class Describer:
    """Describes the values of one message: storages are numbered in the order in which they are met."""

    def __init__(self):
        self.storages = {}
        self.inside = []

    def items(self, values):
        return ", ".join(self(value) for value in values)

    def pairs(self, mapping):
        return ", ".join(f"{self(key)}: {self(value)}" for key, value in mapping.items())

    def __call__(self, value):
        if any(value is outer for outer in self.inside):
            return "<cycle>"
        if isinstance(value, (list, dict, tuple)):
            self.inside.append(value)
            try:
                return self.describe(value)
            finally:
                self.inside.pop()
        return self.describe(value)

    def describe(self, value):
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, torch.Size):
            return f"Size({self.items(value)})"
        for kind, describe in RULES:
            if isinstance(value, kind):
                return describe(self, value)
        if value is Ellipsis or value is NotImplemented:
            return f"<builtins.{value!r}>"
        if isinstance(value, (type, type(len), type(describe))):
            return self.named(value)
        if hasattr(value, "__func__") or hasattr(value, "__self__"):
            return f"<{value.__name__} of {self(value.__self__)}>"
        if hasattr(value, "__objclass__"):
            return f"<{value.__name__} of {self(value.__objclass__)}>"
        return f"{type(value).__module__}.{type(value).__qualname__}{self(vars(value))}"

    def named(self, value):
        return f"<{value.__module__}.{value.__qualname__}>"

    def tuple(self, value):
        if hasattr(value, "_fields"):
            return f"{type(value).__module__}.{type(value).__qualname__}({self.items(tuple(value))})"
        return f"({self.items(value)})"

    def tensor(self, value):
        dtype = str(value.dtype).removeprefix("torch.")
        grad = ", grad" if value.requires_grad else ""
        name = "Parameter" if isinstance(value, torch.nn.Parameter) else "Tensor"
        if value.layout == torch.sparse_coo:
            parts = f"{self.tensor(value._indices())}, {self.tensor(value._values())}"
            return f"Sparse({dtype}, {list(value.shape)}{grad}, {parts})"
        storage = value.untyped_storage()
        plain = value.detach().resolve_conj().resolve_neg()
        if plain.data_ptr() != value.data_ptr():
            place = "computed"
        elif storage.nbytes() == 0:
            place = f"no storage, strides {list(value.stride())}"
        else:
            number = self.storages.setdefault(storage.data_ptr(), len(self.storages))
            place = f"storage {number} of {storage.nbytes()}, offset {value.storage_offset()}, strides {list(value.stride())}"
        packed = torch.empty(plain.numel(), dtype=plain.dtype).copy_(plain.flatten())
        data = packed.view(torch.uint8).numpy().tobytes().hex() if plain.numel() else ""
        if len(data) > 256:
            data = f"{data[:128]}… {len(data) // 2}"
        return f"{name}({dtype}, {list(value.shape)}{grad}, {place}, {data})"

    def numpy(self, value):
        return f"ndarray({value.dtype.str[1:]}, {list(value.shape)}, {value.tobytes().hex()})"


RULES = [
    (enum.Enum, lambda d, v: f"{type(v).__module__}.{type(v).__qualname__}({d(v.value)})"),
    (np.generic, lambda d, v: f"scalar({v.dtype.str[1:]}, {v.tobytes().hex()})"),
    (int, lambda d, v: str(v)),
    (float, lambda d, v: floating(v)),
    (complex, lambda d, v: f"complex({floating(v.real)}, {floating(v.imag)})"),
    (str, lambda d, v: json.dumps(v)),
    (bytearray, lambda d, v: f"bytearray({v.hex()})"),
    (bytes, lambda d, v: f"bytes({v.hex()})"),
    (PythonUDF, lambda d, v: f"call {d(v.func)} {d(v.args)} {d(v.kwargs)}"),
    (RemoteException, lambda d, v: f"raise {d(v.exception_type)} {d(v.msg)}"),
    (tuple, Describer.tuple),
    (list, lambda d, v: f"[{d.items(v)}]"),
    (Typed, lambda d, v: f"{v.kind} {d(v.value)}"),
    (collections.OrderedDict, lambda d, v: f"OrderedDict{{{d.pairs(v)}}}"),
    (collections.defaultdict, lambda d, v: f"defaultdict({d(v.default_factory)}){{{d.pairs(v)}}}"),
    (dict, lambda d, v: f"{{{d.pairs(v)}}}"),
    (collections.deque, lambda d, v: f"deque({d(v.maxlen)})[{d.items(v)}]"),
    (set, lambda d, v: f"set{{{', '.join(sorted(d(item) for item in v))}}}"),
    (frozenset, lambda d, v: f"frozenset{{{', '.join(sorted(d(item) for item in v))}}}"),
    (slice, lambda d, v: f"slice({d.items((v.start, v.stop, v.step))})"),
    (range, lambda d, v: f"range({v.start}, {v.stop}, {v.step})"),
    (torch.Tensor, Describer.tensor),
    (torch.dtype, lambda d, v: str(v)),
    (torch.device, lambda d, v: f"device({v})"),
    (torch.layout, lambda d, v: f"layout({v})"),
    (rpc.WorkerInfo, lambda d, v: f"WorkerInfo({d(v.name)}, {v.id})"),
    (RemoteModule, lambda d, v: f"RemoteModule({d.items((v.on, v.device, v.module_rref))})"),
    (Fork, lambda d, v: f"RRef{d(v.fields)}"),
    (np.ndarray, Describer.numpy),
    (datetime.datetime, lambda d, v: f"datetime({v.isoformat()})"),
    (datetime.timedelta, lambda d, v: f"timedelta({v.days}, {v.seconds}, {v.microseconds})"),
    (datetime.timezone, lambda d, v: f"timezone({d(v.utcoffset(None))})"),
    (BaseException, lambda d, v: f"{type(v).__qualname__}{d(v.args)}"),
]
