"""The data-parallel job for stock PyTorch: DistributedDataParallel over gloo, same model, digits, batches and optimizer.

`replicas.py DATA DIGITS BATCH WORKERS LR` trains for one pass and prints {"samplesPerSecond", "finalLoss", "phases"}.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch_group


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.hidden = torch.nn.Linear(784, 128)
        self.output = torch.nn.Linear(128, 10)

    def forward(self, x):
        return self.output(torch.relu(self.hidden(x)))


def train(folder, total, batch, workers, lr):
    from torch.distributed import rpc

    rank = rpc.get_worker_info().id
    # Beside RPC's own store.
    dist.init_process_group("gloo", init_method=f"file://{STORE}{os.getppid()}", rank=rank, world_size=workers)
    images, labels = torch_group.digits(folder, total * rank // workers, total * (rank + 1) // workers)
    model = torch.nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(rank))
    phases = dict.fromkeys(("data", "forward", "backward", "step"), 0.0)
    dist.barrier()
    began = time.perf_counter()
    batches = order.split(batch)
    for rows in batches:
        marks = [time.perf_counter()]
        x, y = torch_group.scaled(images[rows]), labels[rows]
        marks.append(time.perf_counter())
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        value = loss.item()
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        optimizer.step()
        marks.append(time.perf_counter())
        for phase, a, b in zip(phases, marks, marks[1:]):
            phases[phase] += (b - a) * 1e3 / len(batches)
    seconds = time.perf_counter() - began
    dist.barrier()
    dist.destroy_process_group()
    return {"seconds": seconds, "samples": len(labels), "loss": value, "phases": phases}


STORE = "/tmp/backwire-replicas-"


if __name__ == "__main__":
    data, count, size, group, rate = sys.argv[1:]
    of = int(group)
    store = f"{STORE}{os.getpid()}"
    try:
        found = torch_group.every([f"w{i}" for i in range(of)], [train] * of, data, int(count), int(size), of, float(rate))
    finally:
        if os.path.exists(store):
            os.unlink(store)
    print(json.dumps({
        "samplesPerSecond": sum(one["samples"] for one in found) / max(one["seconds"] for one in found),
        "finalLoss": found[0]["loss"],
        "phases": found[0]["phases"],
    }))
