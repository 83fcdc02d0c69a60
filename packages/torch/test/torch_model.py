"""What the live tests call in Python: functions, classes, a model."""
import collections
import threading
import time

import torch
from torch import nn
from torch.distributed import rpc

Pair = collections.namedtuple("Pair", "a b")


class CustomError(Exception):
    pass


def same(value):
    return value


def keywords(a, b=2, *, c=3):
    return [a, b, c]


def fails(text):
    raise ValueError(text)


def fails_strangely(text):
    raise CustomError(text)


def slow(seconds):
    time.sleep(seconds)
    return "done"


def type_name(value):
    return type(value).__name__


@torch.jit.script
def scripted(a: torch.Tensor, b: int) -> torch.Tensor:
    return a * b


@torch.jit.script
def scripted_sum(a: int, b: int) -> int:
    return a + b


@torch.jit.script
class ScriptedCounter(object):
    def __init__(self, start: int):
        self.count = start

    def add(self, n: int) -> int:
        return self.count + n


@torch.jit.script
def scripted_counter(start: int) -> ScriptedCounter:
    return ScriptedCounter(start)


@rpc.functions.async_execution
def later(to, a):
    return rpc.rpc_async(to, torch.add, args=(a, a))


class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self, n=1):
        self.count += n
        return self.count


def local(rref):
    return rref.local_value()


def fetched(rref):
    return rref.to_here()


def squared(x):
    return x * x


class FailsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("Simulate error on backward pass")


def fails_in_backward(x):
    return FailsInBackward.apply(x)


def make(value):
    return rpc.RRef(value)


def called(rref, method, *args):
    return getattr(rref.rpc_sync(), method)(*args)


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        torch.manual_seed(7)
        self.layer = nn.Linear(n, 2)

    def forward(self, x):
        return torch.tanh(self.layer(x))

    def parameter_rrefs(self):
        return [rpc.RRef(p) for p in self.parameters()]


kept = {}


def keep(name, value):
    kept[name] = value
    return True


def drop(name):
    del kept[name]
    return True


def forwarded(module, x):
    return module.forward(x)
