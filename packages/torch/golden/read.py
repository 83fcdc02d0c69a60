"""Reads messages of torch's RPC with Python's and torch's own readers, for the golden tests to compare with.

Independent of the codecs of this package: pickles are read by Python's pickle module, tensors are rebuilt by torch.
"""
import base64
import collections
import importlib
import io
import pickle
import sys
import types

import torch
from torch.distributed import rpc
from torch.distributed.rpc.internal import _InternalRPCPickler

from describe import Describer, Fork, Typed

# RRefs need an agent; what they travel as does not. torch's receiver of RemoteModules makes them by this.
rpc.PyRRef._deserialize = staticmethod(Fork)

EMPTY_TABLE = b"\x80\x02ctorch.jit._pickle\nbuild_tensorlist\nq\x00(](etR."


class ByteStrings(pickle._Unpickler):
    """Python's own reader, but for strings that are no UTF-8, which torch's C++ side has."""

    dispatch = dict(pickle._Unpickler.dispatch)

    def load_binunicode(self):
        content = self.read(int.from_bytes(self.read(4), "little"))
        try:
            self.append(content.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            self.append(bytes(content))

    dispatch[pickle.BINUNICODE[0]] = load_binunicode


class TableReader(ByteStrings):
    """Reads a tensor table over the storages that came with it."""

    def __init__(self, table, storages):
        super().__init__(io.BytesIO(table))
        self.contents = storages
        self.made = {}

    def persistent_load(self, pid):
        _, cls, key, _, _ = pid
        content = self.contents[int(key)]
        storage = self.made.setdefault(key, torch.UntypedStorage.from_buffer(bytearray(content), dtype=torch.uint8) if content else torch.UntypedStorage(0))
        return torch.storage.TypedStorage(wrap_storage=storage, dtype=cls.dtype, _internal=True)

    def find_class(self, module, name):
        if module == "torch.jit._pickle":
            return {"build_tensorlist": list, "restore_type_tag": lambda value, tag: value}[name]
        if module == "torch" and name.endswith("Storage"):
            return STORAGES[name]
        if (module, name) == ("torch._utils", "_rebuild_sparse_tensor"):
            # The C++ side spreads what Python's function takes as one.
            return sparse
        if (module, name) in (("torch._utils", "_rebuild_tensor_v2"), ("collections", "OrderedDict")):
            return getattr(importlib.import_module(module), name)
        raise pickle.UnpicklingError(f"a table names {module}.{name}")


def sparse(layout, size, grad, *parts):
    if layout != 1:
        raise pickle.UnpicklingError("a layout other than COO")
    indices, values, _ = parts
    return torch.sparse_coo_tensor(indices, values, size, requires_grad=grad, check_invariants=False)


def storage_class(dtype):
    return types.SimpleNamespace(dtype=dtype)


STORAGES = {
    f"{name}Storage": storage_class(dtype)
    for name, dtype in {
        "Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
        "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8, "Bool": torch.bool,
        "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "ComplexHalf": torch.complex32,
        "UInt16": torch.uint16, "UInt32": torch.uint32, "UInt64": torch.uint64,
        "Float8_e4m3fn": torch.float8_e4m3fn, "Float8_e5m2": torch.float8_e5m2,
    }.items()
}


class ScriptReader(ByteStrings):
    """Reads a pickle of the C++ side."""

    def __init__(self, content, tensors):
        super().__init__(io.BytesIO(content))
        self.tensors = tensors

    def find_class(self, module, name):
        if module == "torch.jit._pickle":
            if name == "build_tensor_from_id":
                return lambda index: self.tensors[index]
            if name == "restore_type_tag":
                return lambda value, tag: Typed(tag, value)
            return lambda value: Typed({"build_intlist": "List[int]", "build_tensorlist": "List[Tensor]", "build_doublelist": "List[float]", "build_boollist": "List[bool]"}[name], value)
        if (module, name) == ("torch.distributed.rpc", "rref"):
            return lambda *fields: Fork(fields)
        return getattr(importlib.import_module(module), name)


class PythonReader(pickle.Unpickler):
    """Reads a pickle of the Python side as torch's own `_InternalRPCPickler` does, but for RRefs, which need an agent."""

    def __init__(self, content, tensors):
        super().__init__(io.BytesIO(content))
        self.tensors = tensors

    def find_class(self, module, name):
        if name == "_InternalRPCPickler":
            return types.SimpleNamespace(_tensor_receiver=lambda index: self.tensors[index], _py_rref_receiver=Fork)
        return super().find_class(module, name)


def functions_module(documents):
    """The module that the programs of the captures import their functions from."""
    module = types.ModuleType("capfns")
    sys.modules["capfns"] = module
    exec("import collections, time, torch\nimport torch.nn as nn\nimport torch.distributed.rpc as rpc\nimport torch.distributed.autograd as dist_autograd\nPair = collections.namedtuple('Pair', 'a b', module='capfns')", module.__dict__)
    for document in documents:
        for capture in document["captures"]:
            source = capture.get("functions", "").replace("def script_add(x: torch.Tensor, k: int): \n    return x + k", "def script_add(x: torch.Tensor, k: int): return x + k").replace("@torch.jit.script\n", "")
            exec(compile(source, "capfns", "exec"), module.__dict__)
    only = types.ModuleType("only_here")
    exec("def f(): pass", only.__dict__)
    sys.modules["only_here"] = only


def read_table(table, storages):
    return TableReader(table, storages).load()


def read_script(content, tensors):
    return ScriptReader(content, tensors).load()


def read_python(content, tensors):
    return PythonReader(content, tensors).load()


def unwrap(body):
    length = int.from_bytes(body[-8:], "big")
    return body[: -8 - length], body[-8 - length : -8]


CODES = {
    0x100: "SCRIPT_CALL", 0x201: "SCRIPT_RET", 0x102: "PYTHON_CALL", 0x203: "PYTHON_RET", 0x104: "SCRIPT_REMOTE_CALL",
    0x105: "PYTHON_REMOTE_CALL", 0x206: "REMOTE_RET", 0x107: "SCRIPT_RREF_FETCH_CALL", 0x108: "PYTHON_RREF_FETCH_CALL",
    0x209: "SCRIPT_RREF_FETCH_RET", 0x20A: "PYTHON_RREF_FETCH_RET", 0x10B: "RREF_USER_DELETE", 0x10C: "RREF_FORK_REQUEST",
    0x10D: "RREF_CHILD_ACCEPT", 0x20E: "RREF_ACK", 0x10F: "FORWARD_AUTOGRAD_REQ", 0x210: "FORWARD_AUTOGRAD_RESP",
    0x111: "BACKWARD_AUTOGRAD_REQ", 0x212: "BACKWARD_AUTOGRAD_RESP", 0x113: "CLEANUP_AUTOGRAD_CONTEXT_REQ",
    0x214: "CLEANUP_AUTOGRAD_CONTEXT_RESP", 0x115: "RUN_WITH_PROFILING_REQ", 0x216: "RUN_WITH_PROFILING_RESP",
    0x117: "RREF_BACKWARD_REQ", 0x218: "RREF_BACKWARD_RESP", 0x237: "EXCEPTION",
}


class BodyReader:
    """What a body says, as text: fields by name."""

    def __init__(self, tensors):
        self.tensors = tensors
        self.d = Describer()

    def text(self, kind, body):
        return f"{kind} " + getattr(self, kind, self.acknowledgement)(body)

    def script(self, body):
        return read_script(body, self.tensors)

    def python(self, content):
        return self.d(read_python(content, self.tensors))

    def callee(self, items):
        args, before, name = items[:-2], items[-2], items[-1]
        what = f"schema={self.d(before)}" if name.startswith("torch.ops.aten.") else f"function={self.d(name)} async={before}"
        return f"{what} args={self.d(tuple(args))}"

    def creation(self, items):
        return f"rref={self.d(items[0])} fork={self.d(items[1])}"

    def SCRIPT_CALL(self, body):
        return self.callee(self.script(body))

    def SCRIPT_REMOTE_CALL(self, body):
        items = self.script(body)
        return f"{self.callee(items[:-2])} {self.creation(items[-2:])}"

    def SCRIPT_RET(self, body):
        return self.d(self.script(body))

    def PYTHON_CALL(self, body):
        return f"async={bool(body[0])} {self.python(body[1:])}"

    def PYTHON_RET(self, body):
        return self.python(body)

    def PYTHON_REMOTE_CALL(self, body):
        items = self.script(body)
        pickled, rref, fork, is_async = items[-4:]
        assert all(a is b for a, b in zip(items[:-4], self.tensors, strict=True))
        return f"async={is_async} {self.creation((rref, fork))} {self.python(pickled)}"

    def REMOTE_RET(self, body):
        return self.creation(self.script(body))

    RREF_USER_DELETE = RREF_FORK_REQUEST = REMOTE_RET

    def RREF_CHILD_ACCEPT(self, body):
        return f"fork={self.d(self.script(body)[0])}"

    def SCRIPT_RREF_FETCH_CALL(self, body):
        rref, worker = self.script(body)
        return f"rref={self.d(rref)} from={worker}"

    PYTHON_RREF_FETCH_CALL = SCRIPT_RREF_FETCH_CALL

    def SCRIPT_RREF_FETCH_RET(self, body):
        (value,) = self.script(body)
        return self.d(value)

    def PYTHON_RREF_FETCH_RET(self, body):
        return self.python(self.script(body)[-1])

    def FORWARD_AUTOGRAD_REQ(self, body):
        inner, metadata = unwrap(body)
        kind, context, message, worker, devices = read_script(metadata, [])
        assert devices.kind == "Dict[str, str]"
        return f"context={context} message={message} from={worker} devices={self.d(devices.value)} around {self.text(CODES[kind], inner)}"

    FORWARD_AUTOGRAD_RESP = FORWARD_AUTOGRAD_REQ

    def BACKWARD_AUTOGRAD_REQ(self, body):
        items = self.script(body)
        context, message, retain = items[-3:]
        return f"context={context} message={message} retain={retain} gradients={self.d(tuple(items[:-3]))}"

    def CLEANUP_AUTOGRAD_CONTEXT_REQ(self, body):
        return f"context={self.script(body)}"

    def RREF_BACKWARD_REQ(self, body):
        rref, context, retain = self.script(body)
        return f"rref={self.d(rref)} context={context} retain={retain}"

    def RUN_WITH_PROFILING_REQ(self, body):
        inner, metadata = unwrap(body)
        kind, config, profile = read_script(metadata, [])
        return f"profile={self.d(profile)} config={self.d(config)} around {self.text(CODES[kind], inner)}"

    def RUN_WITH_PROFILING_RESP(self, body):
        inner, metadata = unwrap(body)
        kind, profile, count, *events = read_script(metadata, [])
        assert count == len(events)
        return f"profile={self.d(profile)} events={self.d(tuple(events))} around {self.text(CODES[kind], inner)}"

    def EXCEPTION(self, body):
        return self.d(body.decode())

    def acknowledgement(self, body):
        assert body == b""
        return "empty"


def expand(tensor):
    """The content of a storage; long ones are float32 that count up."""
    if isinstance(tensor, str):
        return base64.b64decode(tensor)
    first = torch.frombuffer(bytearray(base64.b64decode(tensor["first"])), dtype=torch.float32)[0]
    content = (torch.arange(tensor["length"] // 4, dtype=torch.float32) + first).numpy().tobytes()
    import hashlib

    assert hashlib.sha256(content).hexdigest() == tensor["sha256"]
    return content


def read_message(kind, body, table, storages):
    """What a message says, as text."""
    try:
        tensors = read_table(table, storages)
    except pickle.UnpicklingError:
        return f"{kind} refused"
    return BodyReader(tensors).text(kind, body)


def read_capture(message):
    _, _, kind, _, body, table, tensors, _ = message
    table = EMPTY_TABLE if table is None else base64.b64decode(table)
    return read_message(kind, base64.b64decode(body), table, [expand(tensor) for tensor in tensors])
