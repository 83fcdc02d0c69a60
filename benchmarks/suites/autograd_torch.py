"""PyTorch's side of the autograd suite."""

import time

from torch_workers import run


def add(a, b):
    return a + b


def hop(count):
    """Microseconds of each context with one remote addition and its backward pass."""
    import torch
    from torch.distributed import autograd, rpc

    samples = []
    for _ in range(count):
        a = torch.ones(4, 4, requires_grad=True)
        b = torch.ones(4, 4, requires_grad=True)
        started = time.perf_counter()
        with autograd.context() as context:
            loss = rpc.rpc_sync("w1", add, args=(a, b)).sum()
            autograd.backward(context, [loss])
            autograd.get_gradients(context)
        samples.append((time.perf_counter() - started) * 1e6)
    return samples


if __name__ == "__main__":
    run({"hop": hop})
