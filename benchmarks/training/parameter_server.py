"""The program of 02-parameter-server for stock PyTorch RPC: same model, digits, batches and optimizer, one thread a process.

`training_torch.py DATA DIGITS BATCH TRAINERS LR` trains for one pass and prints {"torch", "samplesPerSecond", "phaseMs", "finalLoss"}.
"""

import json
import multiprocessing
import os
import socket
import sys
import time

PIXELS, HIDDEN, CLASSES = 784, 128, 10
PHASES = ("data", "forward", "loss", "backward", "step")


def model():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.hidden = torch.nn.Linear(PIXELS, HIDDEN)
            self.output = torch.nn.Linear(HIDDEN, CLASSES)

        def forward(self, x):
            # A copy, as in the example: another trainer may step the weights before this one's gradients come.
            weight = self.output.weight.clone()
            return torch.relu(self.hidden(x)).matmul(weight.t()) + self.output.bias

    return Net()


NET = None


def forward(x):
    return NET(x)


def parameters():
    from torch.distributed import rpc

    global NET
    NET = NET or model()
    return [rpc.RRef(p) for p in NET.parameters()]


def digits(folder, index, of, limit):
    import torch

    def read(name, header):
        with open(os.path.join(folder, name), "rb") as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    first, last = limit * index // of, limit * (index + 1) // of
    images = read("train-images-idx3-ubyte", 16).reshape(-1, PIXELS)[first:last]
    return images.clone(), read("train-labels-idx1-ubyte", 8)[first:last].long()


def train(folder, index, of, limit, batch, lr, start):
    import torch
    import torch.nn.functional as F
    from torch.distributed import autograd, rpc
    from torch.distributed.optim import DistributedOptimizer

    images, labels = digits(folder, index, of, limit)
    optimizer = DistributedOptimizer(torch.optim.SGD, rpc.rpc_sync("server", parameters), lr=lr, momentum=0.9)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(index))
    phases = dict.fromkeys(PHASES, 0.0)
    start.wait()
    began = time.perf_counter()
    for rows in order.split(batch):
        marks = [time.perf_counter()]
        x = images[rows].float().div_(255).sub_(0.1307).div_(0.3081)
        y = labels[rows]
        marks.append(time.perf_counter())
        with autograd.context() as context:
            logits = rpc.rpc_sync("server", forward, args=(x,))
            marks.append(time.perf_counter())
            loss = F.cross_entropy(logits, y)
            value = loss.item()
            marks.append(time.perf_counter())
            autograd.backward(context, [loss])
            marks.append(time.perf_counter())
            optimizer.step(context)
        marks.append(time.perf_counter())
        for phase, a, b in zip(PHASES, marks, marks[1:]):
            phases[phase] += (b - a) * 1e3
    return {"seconds": time.perf_counter() - began, "samples": len(labels), "phases": phases, "loss": value}


def work(rank, port, start, results, folder, limit, batch, trainers, lr):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TP_SOCKET_IFNAME"] = "lo"
    import torch
    from torch.distributed import rpc

    torch.set_num_threads(1)
    rpc.init_rpc("server" if rank == 0 else f"trainer{rank - 1}", rank=rank, world_size=trainers + 1)
    if rank > 0:
        results.put(train(folder, rank - 1, trainers, limit, batch, lr, start))
    rpc.shutdown()


def main(folder, limit, batch, trainers, lr):
    import torch

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(trainers), spawn.Queue()
    args = (port, start, results, folder, limit, batch, trainers, lr)
    workers = [spawn.Process(target=work, args=(rank, *args), daemon=True) for rank in range(trainers + 1)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=300) for _ in range(trainers)]
    for worker in workers:
        worker.join()
    print(json.dumps({
        "torch": torch.__version__,
        "samplesPerSecond": sum(r["samples"] for r in found) / max(r["seconds"] for r in found),
        "phaseMs": {phase: sum(r["phases"][phase] for r in found) for phase in PHASES},
        "finalLoss": sum(r["loss"] for r in found) / trainers,
    }))


if __name__ == "__main__":
    data, count, size, workers, rate = sys.argv[1:]
    main(data, int(count), int(size), int(workers), float(rate))
