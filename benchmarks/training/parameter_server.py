"""The program of 02-parameter-server for stock PyTorch RPC: same model, digits, batches and optimizer, one thread a process.

`parameter_server.py DATA DIGITS PASSES BATCH TRAINERS LR` trains and prints {"torch", "samplesPerSecond", "phaseMs", "secondsByEpoch",
"finalLoss"}.
"""

import json
import multiprocessing
import sys
import time
from functools import partial

import torch_group

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


def train(index, of, folder, limit, passes, batch, lr, start):
    import torch
    import torch.nn.functional as F
    from torch.distributed import autograd, rpc
    from torch.distributed.optim import DistributedOptimizer

    images, labels = torch_group.digits(folder, limit * index // of, limit * (index + 1) // of)
    optimizer = DistributedOptimizer(torch.optim.SGD, rpc.rpc_sync("server", parameters), lr=lr, momentum=0.9)
    generator = torch.Generator().manual_seed(index)
    phases = dict.fromkeys(PHASES, 0.0)
    start.wait()
    ends = [time.perf_counter()]
    for _ in range(passes):
        for rows in torch.randperm(len(labels), generator=generator).split(batch):
            marks = [time.perf_counter()]
            x = torch_group.scaled(images[rows])
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
        ends.append(time.perf_counter())
    return {
        "seconds": ends[-1] - ends[0],
        "passes": [b - a for a, b in zip(ends, ends[1:])],
        "samples": passes * len(labels),
        "phases": phases,
        "loss": value,
    }


def main(folder, limit, passes, batch, trainers, lr):
    import torch

    names = ["server"] + [f"trainer{i}" for i in range(trainers)]
    leads = [None] + [partial(train, i, trainers) for i in range(trainers)]
    start = multiprocessing.get_context("spawn").Barrier(trainers)
    found = torch_group.every(names, leads, folder, limit, passes, batch, lr, start)
    print(json.dumps({
        "torch": torch.__version__,
        "samplesPerSecond": sum(r["samples"] for r in found) / max(r["seconds"] for r in found),
        "phaseMs": {phase: sum(r["phases"][phase] for r in found) for phase in PHASES},
        "secondsByEpoch": [max(seconds) for seconds in zip(*(r["passes"] for r in found))],
        "finalLoss": sum(r["loss"] for r in found) / trainers,
    }))


if __name__ == "__main__":
    data, count, times, size, workers, rate = sys.argv[1:]
    main(data, int(count), int(times), int(size), int(workers), float(rate))
