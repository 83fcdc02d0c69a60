"""Writes worked-examples.json: gradients of PyTorch's distributed autograd over three workers. Run it with a Python that has torch.

Every case has its inputs, and for each backward pass in one context the gradients that the context holds afterwards, by input.
"""

import json
import multiprocessing
import os
import pathlib
import socket

WORKERS = 3


def mul(a, b):
    return a * b


def add(a, b):
    return a + b


def nested(a, b):
    from torch.distributed import rpc

    return 2 * rpc.rpc_sync("w2", add, args=(a, b))


def make_weight(rows):
    import torch

    return torch.tensor(rows, requires_grad=True)


def use_weight(weight, x):
    return weight.to_here() * x


def gradient_of(rref, context):
    from torch.distributed import autograd

    return autograd.get_gradients(context)[rref.local_value()].tolist()


def count_gradients(context):
    from torch.distributed import autograd

    return len(autograd.get_gradients(context))


def cases():
    import torch
    from torch.distributed import autograd, rpc

    torch.manual_seed(20)
    draw = lambda *shape: torch.randn(*shape).requires_grad_()
    out = {}

    def passes(name, inputs, roots_of, count, after=None):
        with autograd.context() as context:
            roots = roots_of(*inputs)
            steps = []
            for _ in range(count):
                autograd.backward(context, roots, retain_graph=True)
                grads = autograd.get_gradients(context)
                steps.append([grads[x].tolist() for x in inputs])
            more = {} if after is None else after(context)
            out[name] = {"inputs": [x.tolist() for x in inputs], "passes": steps, **more}

    two = lambda: (draw(3, 3), draw(3, 3))
    passes("product", two(), lambda a, b: [(rpc.rpc_sync("w1", mul, args=(a, b)) * a).sum()], 2)
    passes("nested", two(), lambda a, b: [rpc.rpc_sync("w1", nested, args=(a, b)).mul(a).sum()], 1)

    def roots(a, b):
        c = rpc.rpc_sync("w1", mul, args=(a, b))
        return [c.sum(), (a * b).sum(), (a * a).sum()]

    passes("roots", two(), roots, 1)

    rows = torch.randn(2, 2).tolist()
    weight = rpc.remote("w1", make_weight, args=(rows,))
    use = lambda x: [rpc.rpc_sync("w2", use_weight, args=(weight, x[1:3])).sum()]
    after = lambda context: {
        "weight": rows,
        "weightGradient": rpc.rpc_sync("w1", gradient_of, args=(weight, context)),
        "elsewhere": rpc.rpc_sync("w2", count_gradients, args=(context,)),
    }
    passes("leaf of an owner", (draw(4, 2),), use, 1, after)
    return {"torch": torch.__version__, "cases": out}


def serve(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    from torch.distributed import rpc

    rpc.init_rpc(f"w{rank}", rank=rank, world_size=WORKERS)
    if rank == 0:
        text = json.dumps(cases(), indent=1)
        pathlib.Path(__file__).with_name("worked-examples.json").write_text(text + "\n")
    rpc.shutdown()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=serve, args=(rank, free), daemon=True) for rank in range(1, WORKERS)]
    for other in others:
        other.start()
    serve(0, free)
    for other in others:
        other.join()
