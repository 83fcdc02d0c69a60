"""Two PyTorch RPC workers; rank 0 does what its input says and prints one line of JSON for each command."""

import json
import multiprocessing
import os
import socket
import sys


def say(value):
    print(json.dumps(value), flush=True)


def serve(rank, port, commands):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TP_SOCKET_IFNAME"] = "lo"
    import torch
    from torch.distributed import rpc

    torch.set_num_threads(1)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        say(torch.__version__)
        for line in sys.stdin:
            command, *words = line.split()
            if command == "quit":
                break
            say(commands[command](*[int(word) for word in words]))
    rpc.shutdown()


def run(commands):
    """`commands`: functions of integers by name, importable by both workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    other = multiprocessing.get_context("spawn").Process(target=serve, args=(1, port, {}), daemon=True)
    other.start()
    serve(0, port, commands)
    other.join()
