"""Writes values.json: what each captured message says, read by Python and torch. Run by `npm run golden -w @backwire/torch`."""
import json
import pathlib
import sys

import torch

import read

HERE = pathlib.Path(__file__).parent


def documents():
    return {path.name: json.loads(path.read_text()) for path in sorted((HERE / "captures").glob("*.json"))}


def main():
    docs = documents()
    read.functions_module(docs.values())
    found = {
        f"{name} / {capture['name']}": [read.read_capture(message) for message in capture["messages"]]
        for name, document in docs.items()
        for capture in document["captures"]
        if capture.get("messages")
    }
    target = HERE / "values.json"
    kept = json.loads(target.read_text())["values"] if target.exists() else {}
    if "--write" in sys.argv:
        target.write_text(json.dumps({"torch": torch.__version__, "values": found}, ensure_ascii=False, indent=2) + "\n")
    else:
        different = [name for name in {*found, *kept} if found.get(name) != kept.get(name)]
        if different:
            sys.exit(f"values.json differs in {different}; --write keeps the new ones")
    print(f"values: {sum(map(len, found.values()))} messages of {len(found)} programs read by torch {torch.__version__}")


main()
