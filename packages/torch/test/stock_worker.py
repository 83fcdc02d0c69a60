"""A worker of stock torch for the live test: joins a dynamic group, knows w0 from the start, and ends when its input does."""
import importlib.util
import json
import pathlib
import sys
import tempfile

import torch
from torch import distributed
from torch.distributed import rpc

# Loaded by the first call that names them otherwise, which takes seconds.
import torch.distributed.nn.api.remote_module
import torch.distributed.optim
import torch.distributed.optim.functional_sgd

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "golden"))

from describe import Describer  # noqa: E402 -- beside the goldens

HEAD = """import collections, time, torch
import torch.nn as nn
import torch.distributed.rpc as rpc
import torch.distributed.autograd as dist_autograd
Pair = collections.namedtuple('Pair', 'a b', module='capfns')
"""


def functions_module(folder):
    """capfns, from which the captured programs import. From a file, since torch.jit reads its functions' source."""
    sources = {}
    for path in sorted((HERE.parent / "golden" / "captures").glob("*.json")):
        for capture in json.loads(path.read_text())["captures"]:
            sources[capture.get("functions", "")] = None
    file = pathlib.Path(folder) / "capfns.py"
    file.write_text("\n".join([HEAD, *sources]))
    spec = importlib.util.spec_from_file_location("capfns", file)
    sys.modules["capfns"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def same(value):
    """What w0 has, too."""
    return value


def describe(value):
    return Describer()(value)


def ask(value):
    """What comes back from w0 for a value."""
    return Describer()(rpc.rpc_sync("w0", same, (value,)))


def fail(text):
    """What an error of w0 becomes here."""
    try:
        return rpc.rpc_sync("w0", describe, (text,))
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def crowd(count, size):
    """How many of as many calls at once brought back their own tensor."""
    futures = [rpc.rpc_async("w0", same, (torch.full((size,), float(i)),)) for i in range(count)]
    return sum(bool((future.wait() == i).all()) for i, future in enumerate(futures))


def not_loaded(names):
    return [name for name in names if name not in sys.modules]


def debts():
    """What RRefs and contexts are kept here."""
    from torch.distributed.autograd import _get_debug_info
    from torch.distributed.rpc import _rref_context_get_debug_info

    return {**_rref_context_get_debug_info(), **_get_debug_info()}


def main():
    name, number, port, address = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    sys.modules["stock_worker"] = sys.modules["__main__"]
    for function in (same, describe):
        function.__module__ = "stock_worker"
    with tempfile.TemporaryDirectory() as folder:
        functions_module(folder)
        store = distributed.TCPStore("127.0.0.1", port, is_master=port == 0)
        known = distributed.PrefixStore("rpc_prefix_0", store)
        known.set("addrs/w0", f"uv://{address}")
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{store.port}", rpc_timeout=60)
        rpc.init_rpc(name, rank=number, world_size=None, rpc_backend_options=options)
        print(json.dumps({"port": store.port, "address": known.get(f"addrs/{name}").decode()}), flush=True)
        sys.stdin.read()
        rpc.shutdown(graceful=False)


if __name__ == "__main__":
    main()
