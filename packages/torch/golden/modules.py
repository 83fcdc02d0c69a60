"""Writes modules.json: modules as torch pickles them in calls, and what it reads in that. Run by `npm run golden -w @backwire/torch`."""
import base64
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TP_SOCKET_IFNAME", "lo")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
# The handles in what is pickled never arrive: torch warns of them as leaks.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
from torch import nn
from torch.distributed import rpc
from torch.distributed.nn import RemoteModule
from torch.distributed.rpc.internal import _internal_rpc_pickler

import nets
import read
from describe import Describer

HERE = pathlib.Path(__file__).parent


def pickled():
    """By name: the pickle of a value, and its tensors. A RemoteModule needs a group; that of one worker is enough."""
    with tempfile.TemporaryDirectory() as folder:
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store")
        rpc.init_rpc("w0", rank=0, world_size=1, rpc_backend_options=options)
        remote = RemoteModule("w0/cpu", nn.Linear, (2, 2))
        by_rank = RemoteModule("rank:0/cpu", nn.Linear, (2, 2))
        for module in (remote, by_rank):
            module.module_rref._get_future().wait()
        values = {
            "a RemoteModule": remote,
            "RemoteModules, one twice, with its method": [remote, remote, by_rank, remote.forward],
            "a module": nets.Net(),
        }
        found = {name: _internal_rpc_pickler.serialize(value) for name, value in values.items()}
        rpc.shutdown(graceful=False)
        return found


def golden(content, tensors):
    return {
        "bytes": base64.b64encode(content).decode(),
        "tensors": [tensor.tolist() for tensor in tensors],
        "text": Describer()(read.read_python(content, tensors)),
    }


def main():
    found = {name: golden(*written) for name, written in pickled().items()}
    target = HERE / "modules.json"
    if "--write" in sys.argv:
        target.write_text(json.dumps({"torch": torch.__version__, "modules": found}, ensure_ascii=False, indent=2) + "\n")
    else:
        kept = json.loads(target.read_text())["modules"]
        different = [name for name in {*found, *kept} if found.get(name) != kept.get(name)]
        if different:
            sys.exit(f"modules.json differs in {different}; --write keeps the new ones")
    print(f"modules: {len(found)} values written by torch {torch.__version__}")


main()
