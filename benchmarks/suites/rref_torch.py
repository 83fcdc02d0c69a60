"""PyTorch's side of the RRef suite."""

import time

from torch_workers import run


def give(n):
    return n


def use(count):
    """Microseconds of each remote() with its to_here()."""
    from torch.distributed import rpc

    samples = []
    for i in range(count):
        started = time.perf_counter()
        rpc.remote("w1", give, args=(i,)).to_here()
        samples.append((time.perf_counter() - started) * 1e6)
    return samples


def burst(count):
    """Milliseconds of `count` remote() to one worker, until all are confirmed."""
    from torch.distributed import rpc

    started = time.perf_counter()
    rrefs = [rpc.remote("w1", give, args=(i,)) for i in range(count)]
    for rref in rrefs:
        rref._get_future().wait()
    return (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    run({"use": use, "burst": burst})
