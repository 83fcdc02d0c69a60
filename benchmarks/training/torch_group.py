"""Workers of stock PyTorch RPC on this machine, each a process with one thread, and what they train on."""

import multiprocessing
import os
import socket


def run(names, lead, *args):
    """Starts a worker for each name; the first calls `lead(*args)`, the others serve it. What it returned."""
    return every(names, [lead] + [None] * (len(names) - 1), *args)[0]


def every(names, leads, *args):
    """The same with a function for each worker, or None; what those that have one returned."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    workers = [
        spawn.Process(target=work, args=(names, rank, port, lead, results, args), daemon=True)
        for rank, lead in enumerate(leads)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=800) for lead in leads if lead is not None]
    for worker in workers:
        worker.join()
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def work(names, rank, port, lead, results, args):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TP_SOCKET_IFNAME"] = "lo"
    import torch
    from torch.distributed import rpc

    torch.set_num_threads(1)
    rpc.init_rpc(names[rank], rank=rank, world_size=len(names))
    if lead is not None:
        results.put((rank, lead(*args)))
    rpc.shutdown()


def digits(folder, first, last):
    """Images [n, 784] of bytes and labels [n] of the training digits from `first` to `last`."""
    import torch

    def read(name, header):
        with open(os.path.join(folder, name), "rb") as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    images = read("train-images-idx3-ubyte", 16).reshape(-1, 784)[first:last]
    return images.clone(), read("train-labels-idx1-ubyte", 8)[first:last].long()


def scaled(images):
    return images.float().div_(255).sub_(0.1307).div_(0.3081)
