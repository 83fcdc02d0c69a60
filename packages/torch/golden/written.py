"""Reads what this package writes (JSON on stdin) with torch's own readers, and keeps what they saw in written.json.

Tables, and pickles of the C++ side that name no tensor, are read by torch's C++ reader; pickles of the Python side by
`_InternalRPCPickler`, which a worker uses.
"""
import base64
import hashlib
import json
import pathlib
import sys
import tempfile

import torch
from torch.distributed.rpc import internal

import read
from describe import Describer, Fork

HERE = pathlib.Path(__file__).parent
# RRefs need an agent; what they travel as does not.
internal._InternalRPCPickler._py_rref_receiver = classmethod(lambda cls, fields: Fork(fields))


def load_native(pickled, storages):
    """What torch's C++ reader makes of a pickle."""
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        writer = torch._C.PyTorchFileWriter(file.name)
        writer.write_record("data.pkl", pickled, len(pickled))
        for index, storage in enumerate(storages):
            writer.write_record(f"data/{index}", storage, len(storage))
        writer.write_end_of_file()
        return torch._C._pickle_load_obj(pathlib.Path(file.name).read_bytes())


def texts(written):
    table = base64.b64decode(written["table"]) if "table" in written else read.EMPTY_TABLE
    storages = [base64.b64decode(storage) for storage in written.get("storages", [])]
    tensors = load_native(table, storages)
    content = base64.b64decode(written["bytes"])
    if written["dialect"] == "python":
        return Describer()(internal._internal_rpc_pickler.deserialize(content, tensors))
    if written["dialect"] == "script":
        return Describer()(load_native(content, []))
    kind = read.CODES[written["type"]]
    return read.BodyReader(tensors).text(kind, content)


def brief(content):
    """What is long is kept as its hash."""
    return content if len(content) <= 2000 else f"sha256 {hashlib.sha256(content.encode()).hexdigest()}"


def kept_form(written):
    return {key: brief(value) if isinstance(value, str) else value for key, value in {**written, "text": texts(written)}.items()}


def main():
    read.functions_module([json.loads(path.read_text()) for path in sorted((HERE / "captures").glob("*.json"))])
    found = {name: kept_form(written) for name, written in json.load(sys.stdin).items()}
    target = HERE / "written.json"
    kept = json.loads(target.read_text())["written"] if target.exists() else {}
    if "--write" in sys.argv:
        target.write_text(json.dumps({"torch": torch.__version__, "written": found}, ensure_ascii=False, indent=2) + "\n")
    else:
        different = [name for name in {*found, *kept} if found.get(name) != kept.get(name)]
        if different:
            sys.exit(f"written.json differs in {different}; --write keeps the new ones")
    print(f"written: {len(found)} values read by torch {torch.__version__}")


if __name__ == "__main__":
    main()
