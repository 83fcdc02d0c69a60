"""The half of the network that lives in PyTorch, in a stock process, and the training run that starts here."""
import sys

import torch
import torch.distributed.autograd as dist_autograd
from torch import nn, optim
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

torch.manual_seed(0)
head = nn.Sequential(nn.Linear(16, 1), nn.Sigmoid())


def forward(hidden):
    return head(hidden)


def parameters():
    return [rpc.RRef(parameter) for parameter in head.parameters()]


# The other half is in Node: Python calls by name what it can import.
def trunk(points): ...
def trunk_parameters(): ...


def train(points, inside, steps):
    parts = parameters() + rpc.rpc_sync("node", trunk_parameters)
    optimizer = DistributedOptimizer(optim.SGD, parts, lr=0.5, momentum=0.9)
    losses = []
    for _ in range(steps):
        with dist_autograd.context() as context:
            loss = nn.functional.binary_cross_entropy(head(rpc.rpc_sync("node", trunk, (points,))), inside)
            dist_autograd.backward(context, [loss])
            optimizer.step(context)
        losses.append(loss.item())
    return losses


def main():
    rpc.init_rpc("python", rank=0, world_size=2)
    rpc.shutdown()
    sys.exit(0)
