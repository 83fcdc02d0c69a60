"""Modules of a program, which the goldens of modules hold."""
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_parameter("bias", None)
        self.register_buffer("count", torch.tensor(4.0))
        self.label = "scale"

    def forward(self, x):
        return x * self.weight + self.count


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.again = self.first
        self.eval()
