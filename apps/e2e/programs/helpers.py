# What the worker beside it calls, as a user's module has it.
import operator

from torch.distributed import rpc


def total(x):
    return float(x.sum())


def through_node(x):
    return rpc.rpc_sync("node", operator.methodcaller, ("words.double", x))


def fails():
    raise LookupError("nothing there")


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, by):
        self.value += by
        return self.value
