"""Small files of torch.save, what is in them, and what torch.load reads in files of this package (JSON on stdin).

`--write` keeps new files and texts; without it a difference fails.
"""
import base64
import collections
import io
import json
import pathlib
import sys
import warnings

import torch

from describe import Describer
from written import brief

HERE = pathlib.Path(__file__).parent
warnings.simplefilter("ignore")


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))


def checkpoint():
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    net(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    return {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "loss": 1.0,
        "tags": ["a", ("b", 1)],
        "plain": [torch.float16, torch.device("cuda:1"), torch.Size([1, 2]), torch.strided, b"a\xff", 2**70, {1, 2}, 1 + 2j, None],
        "ordered": collections.OrderedDict(z=1, a=2),
    }


def tensors():
    t = torch.arange(6.0)
    return {
        "views": [t, t[1:3], t.view(2, 3).t(), t],
        "dtypes": [
            torch.ones(2, dtype=dtype)
            for dtype in (
                torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
                torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
            )
        ] + [torch.ones(2).to(torch.float8_e4m3fn)],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "grad": torch.ones(2, requires_grad=True),
        "sparse": torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (4,)),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "negative": torch.tensor([1 + 2j]).conj().imag,
        "empty": [torch.empty(0), torch.empty(2, 0), torch.tensor(5)],
        "expanded": torch.ones(1).expand(3),
    }


def buffer(value, **options):
    target = io.BytesIO()
    torch.save(value, target, **options)
    return target.getvalue()


class Custom:
    pass


def contents():
    """By file: its bytes, and the value in it; None for what is not to be read."""
    script = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), script)
    return {
        "state": (buffer(model().state_dict()), model().state_dict()),
        "checkpoint": (buffer(checkpoint()), checkpoint()),
        "tensors": (buffer(tensors()), tensors()),
        "before-1.6": (buffer([1], _use_new_zipfile_serialization=False), None),
        "object": (buffer(Custom()), None),
        "module": (buffer(torch.nn.Linear(1, 1)), None),
        "quantised": (buffer(torch.quantize_per_tensor(torch.ones(2), 0.1, 10, torch.quint8)), None),
        "csr": (buffer(torch.eye(2).to_sparse_csr()), None),
        "script": (script.getvalue(), None),
    }


def main():
    files = contents()
    target = HERE / "files.json"
    saved = {name: base64.b64decode(content) for name, content in json.load(sys.stdin).items()}
    found = {
        "read": {name: Describer()(value) for name, (_, value) in files.items() if value is not None},
        "saved": {name: {"bytes": brief(base64.b64encode(content).decode()), "text": brief(Describer()(torch.load(io.BytesIO(content), weights_only=True)))} for name, content in saved.items()},
    }
    if "--write" in sys.argv:
        (HERE / "files").mkdir(exist_ok=True)
        for name, (content, _) in files.items():
            (HERE / "files" / f"{name}.pt").write_bytes(content)
        target.write_text(json.dumps({"torch": torch.__version__, **found}, ensure_ascii=False, indent=2) + "\n")
    else:
        kept = json.loads(target.read_text())
        different = [key for key in found if found[key] != kept.get(key)]
        if different:
            sys.exit(f"files.json differs in {different}; --write keeps the new texts and files")
    print(f"files: {len(files)} written and {len(saved)} read by torch {torch.__version__}")


main()
