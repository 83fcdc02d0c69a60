"""A worker of stock torch for the live tests: joins a group, then runs what it is told, a line of JSON at a time, and tells what came of it."""
import importlib.util
import json
import operator
import os
import pathlib
import sys
import tempfile
import threading
import time
import traceback
import types

import torch
import torch.distributed.autograd as dist_autograd
from torch import nn, optim
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))

from describe import Describer  # noqa: E402 -- beside the goldens

MODEL = HERE / "torch_model.py"


def import_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stub_modules(names):
    """Modules of functions that only the other side has: Python pickles them by name."""
    for path in names:
        module_name, name = path.rsplit(".", 1)
        module = sys.modules.setdefault(module_name, types.ModuleType(module_name))

        def stub(*args, **kwargs):
            raise NotImplementedError("runs on another worker")

        if name[0].isupper():
            # Python looks a method up in the class before it asks the owner to call it.
            stub = type(name, (), {"__module__": module_name, "__getattr__": stub, "add": stub})
        stub.__module__, stub.__name__, stub.__qualname__ = module_name, name, name
        setattr(module, name, stub)


def outcome(space, code):
    try:
        try:
            value = eval(compile(code, "<test>", "eval"), space)
        except SyntaxError:
            exec(compile(code, "<test>", "exec"), space)
            value = None
        return {"value": Describer()(value)}
    except BaseException as error:  # noqa: BLE001 -- told to the test
        return {"error": type(error).__name__, "text": str(error), "stack": traceback.format_exc()}


def main():
    settings = json.loads(sys.argv[1])
    stub_modules(settings.get("stubs", []))
    model = import_file("model", MODEL)
    options = rpc.TensorPipeRpcBackendOptions(
        init_method=settings.get("init", "env://"),
        rpc_timeout=settings.get("timeout", 30),
        num_worker_threads=8,
        _transports=settings.get("transports"),
        _channels=settings.get("channels"),
    )
    size = settings.get("size")
    rpc.init_rpc(settings["name"], rank=settings.get("rank", -1), world_size=size, rpc_backend_options=options)
    space = {**globals(), **{name: sys.modules[name.rsplit(".", 1)[0]] for name in settings.get("stubs", [])}}
    space.update({path.split(".")[0]: sys.modules[path.split(".")[0]] for path in settings.get("stubs", [])})
    space["model"] = model
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(outcome(space, json.loads(line))), flush=True)
    if not settings.get("abandon"):
        rpc.shutdown(graceful=size is not None)


if __name__ == "__main__":
    main()
