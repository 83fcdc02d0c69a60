"""The data-parallel job for stock PyTorch: DistributedDataParallel over gloo, same model, digits, batches and optimizer.

`replicas.py DATA DIGITS PASSES BATCH WORKERS LR` trains and prints {"samplesPerSecond", "secondsByPass", "finalLoss", "phases"}.
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


def train(folder, total, passes, batch, workers, lr):
    from torch.distributed import rpc

    rank = rpc.get_worker_info().id
    # Beside RPC's own store.
    dist.init_process_group("gloo", init_method=f"file://{STORE}{os.getppid()}", rank=rank, world_size=workers)
    images, labels = torch_group.digits(folder, total * rank // workers, total * (rank + 1) // workers)
    model = torch.nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    random = torch.Generator().manual_seed(rank)
    phases = dict.fromkeys(("data", "forward", "backward", "step"), 0.0)
    seconds = []
    dist.barrier()
    for _ in range(passes):
        began = time.perf_counter()
        batches = torch.randperm(len(labels), generator=random).split(batch)
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
                phases[phase] += (b - a) * 1e3 / len(batches) / passes
        seconds.append(time.perf_counter() - began)
    dist.barrier()
    dist.destroy_process_group()
    return {"seconds": seconds, "samples": passes * len(labels), "loss": value, "phases": phases}


STORE = "/tmp/backwire-replicas-"


if __name__ == "__main__":
    data, count, times, size, group, rate = sys.argv[1:]
    of = int(group)
    store = f"{STORE}{os.getpid()}"
    try:
        found = torch_group.every([f"w{i}" for i in range(of)], [train] * of, data, int(count), int(times), int(size), of, float(rate))
    finally:
        if os.path.exists(store):
            os.unlink(store)
    by_pass = [max(seconds) for seconds in zip(*(one["seconds"] for one in found))]
    print(json.dumps({
        "samplesPerSecond": sum(one["samples"] for one in found) / sum(by_pass),
        "secondsByPass": by_pass,
        "finalLoss": found[0]["loss"],
        "phases": found[0]["phases"],
    }))
