"""Plain data with byte arrays as bytes, and questions answered over standard input and output: packed.ts in Python."""
import json
import struct
import sys

INF = float("inf")
SPECIAL = {"nan": float("nan"), "inf": INF, "-inf": -INF, "-0": -0.0}


def unpack(data):
    size = struct.unpack_from("<I", data)[0]
    blob = memoryview(data)[4 + size :]

    def restore(table):
        if "$bytes" in table:
            offset, length = table["$bytes"]
            return bytearray(blob[offset : offset + length])
        if "$number" in table:
            return SPECIAL[table["$number"]]
        return table

    return json.loads(bytes(data[4 : 4 + size]), object_hook=restore)


def pack(value):
    chunks, at = [], 0

    def plain(v):
        nonlocal at
        if isinstance(v, float):
            if v != v:
                return {"$number": "nan"}
            return {"$number": "inf" if v > 0 else "-inf"} if v in (INF, -INF) else v
        if isinstance(v, (bytes, bytearray)):
            chunks.append(v)
            at += len(v)
            return {"$bytes": [at - len(v), len(v)]}
        if isinstance(v, list):
            return [plain(one) for one in v]
        if isinstance(v, dict):
            return {key: plain(one) for key, one in v.items()}
        return v

    header = json.dumps(plain(value), separators=(",", ":")).encode()
    return struct.pack("<I", len(header)) + header + b"".join(chunks)


def serve(greeting, answer):
    """Greets, then answers every question until there are no more."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer

    def say(value):
        packed = pack(value)
        sink.write(struct.pack("<I", len(packed)) + packed)
        sink.flush()

    say(greeting)
    while len(head := source.read(4)) == 4:
        say(answer(unpack(source.read(struct.unpack("<I", head)[0]))))
