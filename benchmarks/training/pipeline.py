"""The program of 04-pipeline-parallel for stock PyTorch RPC: same network, digits, batches, micro-batches and optimizer.

`pipeline.py DATA BATCHES SIZE LR` trains BATCHES with each number of micro-batches and prints {"settings": [...]}.
"""

import json
import sys
import threading
import time

import torch
import torch_group
from torch.distributed import autograd, rpc
from torch.distributed.optim import DistributedOptimizer

NAMES = ("master", "stage1", "stage2", "stage3")
SPLITS = (1, 2, 4)
WARM_UP = 2


def conv(*args, **kwargs):
    return torch.nn.Sequential(torch.nn.Conv2d(*args, **kwargs), torch.nn.ReLU())


def layers(stage):
    if stage == 1:
        return [conv(1, 16, 5, padding=2, stride=2), conv(16, 16, 5, padding=2, stride=2)]
    if stage == 2:
        return [conv(16, 24, 5, padding=2), conv(24, 32, 3, padding=1, stride=2)]
    linear = torch.nn.Linear(64 * 4 * 4, 10)
    return [conv(32, 64, 3, padding=1), conv(64, 64, 3, padding=1), torch.nn.Flatten(), linear]


class Stage(torch.nn.Module):
    def __init__(self, stage):
        super().__init__()
        torch.manual_seed(stage)
        self.layers = torch.nn.Sequential(*layers(stage))
        self.lock = threading.Lock()

    def forward(self, x):
        if isinstance(x, rpc.PyRRef):
            x = x.to_here()
        with self.lock:
            return self.layers(x)

    def parameter_rrefs(self):
        return [rpc.RRef(p) for p in self.parameters()]


def through(stages, x):
    one = stages[0].remote().forward(x)
    two = stages[1].remote().forward(one)
    return stages[2].rpc_async().forward(two)


def lead(folder, batches, size, lr):
    images, labels = torch_group.digits(folder, 0, 60_000)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    stages = [rpc.remote(f"stage{i}", Stage, args=(i,)) for i in (1, 2, 3)]
    parameters = [p for stage in stages for p in stage.rpc_sync().parameter_rrefs()]
    optimizer = DistributedOptimizer(torch.optim.Adam, parameters, lr=lr)
    settings = []
    done = 0
    for parts in SPLITS:
        times = []
        for batch in range(batches):
            first = done * size % (len(labels) - size)
            done += 1
            rows = order[first : first + size]
            began = time.perf_counter()
            x = torch_group.scaled(images[rows]).reshape(-1, 1, 28, 28)
            with autograd.context() as context:
                logits = [through(stages, part) for part in x.chunk(parts)]
                loss = torch.nn.functional.cross_entropy(torch.cat([part.wait() for part in logits]), labels[rows])
                autograd.backward(context, [loss])
                optimizer.step(context)
                value = loss.item()
            if batch >= WARM_UP:
                times.append(time.perf_counter() - began)
        mean = sum(times) / len(times)
        settings.append(
            {"microBatches": parts, "msPerBatch": 1e3 * mean, "digitsPerSecond": size / mean, "loss": value}
        )
    return settings


if __name__ == "__main__":
    data, count, batch_size, rate = sys.argv[1:]
    print(json.dumps({"settings": torch_group.run(NAMES, lead, data, int(count), int(batch_size), float(rate))}))
