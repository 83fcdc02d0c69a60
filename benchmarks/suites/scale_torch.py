"""A group of PyTorch RPC workers, one a process: how long init_rpc takes, and then a call of every worker to every other."""

import json
import multiprocessing
import os
import socket
import sys
import time

import torch  # noqa: F401 - once, for all that are forked from here
from torch.distributed import rpc


def whoami(rank):
    return rank


def resident():
    with open("/proc/self/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def work(rank, size, port, gate, answers):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TP_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=4, init_method="env://", rpc_timeout=600)
    gate.wait()
    began = time.time()
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    joined = time.time()
    gate.wait()
    before = resident()
    called = time.time()
    futures = [rpc.rpc_async(f"w{to}", whoami, args=(to,)) for to in range(size) if to != rank]
    for future in futures:
        future.wait()
    meshed = time.time()
    gate.wait()
    answers.put((began, joined, called, meshed, before, resident()))
    gate.wait()
    rpc.shutdown()


def main(size):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    gate, answers = fork.Barrier(size), fork.SimpleQueue()
    workers = [fork.Process(target=work, args=(rank, size, port, gate, answers), daemon=True) for rank in range(size)]
    for worker in workers:
        worker.start()
    began, joined, called, meshed, before, after = zip(*[answers.get() for _ in workers])
    print(
        json.dumps(
            {
                "version": torch.__version__,
                "joinMs": (max(joined) - min(began)) * 1e3,
                "meshMs": (max(meshed) - min(called)) * 1e3,
                "bytesPerEnd": (sum(after) - sum(before)) / (size * (size - 1)),
                "residentBytes": sum(after),
            }
        ),
        flush=True,
    )
    for worker in workers:
        worker.join(30)


if __name__ == "__main__":
    main(int(sys.argv[1]))
    os._exit(0)
