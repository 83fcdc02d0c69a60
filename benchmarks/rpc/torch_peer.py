"""Two PyTorch RPC workers; rank 0 does what its input says and prints one line of JSON for each command."""

import json
import multiprocessing
import os
import socket
import sys
import time
from collections import deque


def nothing():
    return None


def echo(x):
    return x


def serve(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TP_SOCKET_IFNAME"] = "lo"
    from torch.distributed import rpc

    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        follow(rpc)
    rpc.shutdown()


def follow(rpc):
    import torch

    torch.set_num_threads(1)
    small = torch.ones(4)
    for _ in range(50):
        rpc.rpc_sync("w1", nothing)
    say(torch.__version__)
    calls = {"nothing": (nothing, ()), "tensor": (echo, (small,))}
    for line in sys.stdin:
        command, *words = line.split()
        if command == "latency":
            function, args = calls[words[0]]
            samples = []
            for _ in range(int(words[1])):
                started = time.perf_counter()
                rpc.rpc_sync("w1", function, args=args)
                samples.append((time.perf_counter() - started) * 1e6)
            say(samples)
        elif command == "throughput":
            function, args = calls[words[0]]
            count, in_flight = int(words[1]), int(words[2]) or int(words[1])
            open_calls = deque()
            started = time.perf_counter()
            for _ in range(count):
                if len(open_calls) == in_flight:
                    open_calls.popleft().wait()
                open_calls.append(rpc.rpc_async("w1", function, args=args))
            for future in open_calls:
                future.wait()
            say(count / (time.perf_counter() - started))
        elif command == "echo":
            x = torch.ones(int(float(words[0]) * 262144))
            started = time.perf_counter()
            for _ in range(int(words[1])):
                rpc.rpc_sync("w1", echo, args=(x,), timeout=0)
            say((time.perf_counter() - started) * 1e3)
        else:
            return


def say(value):
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    other = multiprocessing.get_context("spawn").Process(target=serve, args=(1, free), daemon=True)
    other.start()
    serve(0, free)
    other.join()
