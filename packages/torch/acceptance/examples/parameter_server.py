"""A parameter server and its trainers, as in torch's example of that name. Runs inside of workers of the acceptance tests."""
import torch
import torch.distributed.autograd as dist_autograd
import torch.nn.functional as F
from torch import nn, optim
from torch.distributed import rpc
from torch.distributed.optim import DistributedOptimizer

SERVER = "ps"
SIDE, CLASSES, BATCH = 12, 10, 16
LEARNING_RATE, MOMENTUM = 0.05, 0.9


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.fc1 = nn.Linear(16 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def new_net():
    torch.manual_seed(0)
    return Net()


def first_weights():
    """With which a server that is no process of torch begins."""
    return dict(new_net().state_dict())


class ParameterServer(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = new_net()

    def forward(self, x):
        return self.model(x)

    def get_param_rrefs(self):
        return [rpc.RRef(parameter) for parameter in self.model.parameters()]


param_server = None


def get_parameter_server():
    """The one of this process."""
    global param_server
    if param_server is None:
        param_server = ParameterServer()
    return param_server


class Digits:
    """Pictures of classes with noise in them, the same on both sides: whole numbers drawn by a congruential generator."""

    def __init__(self, trainer):
        self.state = 7
        self.patterns = [self.draw(SIDE * SIDE) for _ in range(CLASSES)]
        self.state = 1000 + trainer

    def draw(self, count):
        numbers = []
        for _ in range(count):
            self.state = (self.state * 1664525 + 1013904223) & 0xFFFFFFFF
            numbers.append((self.state >> 16) / 65536)
        return numbers

    def batch(self):
        rows, labels = [], []
        for _ in range(BATCH):
            label = int(self.draw(1)[0] * CLASSES)
            rows.append([(p + n) / 2 - 0.5 for p, n in zip(self.patterns[label], self.draw(SIDE * SIDE))])
            labels.append(label)
        return torch.tensor(rows).view(BATCH, 1, SIDE, SIDE), torch.tensor(labels)


class Trainer:
    def __init__(self, trainer):
        self.digits = Digits(trainer)
        self.server = rpc.remote(SERVER, get_parameter_server)
        parameters = self.server.rpc_sync().get_param_rrefs()
        self.optimizer = DistributedOptimizer(optim.SGD, parameters, lr=LEARNING_RATE, momentum=MOMENTUM)

    def step(self):
        x, y = self.digits.batch()
        with dist_autograd.context() as context:
            loss = F.nll_loss(self.server.rpc_sync().forward(x), y)
            dist_autograd.backward(context, [loss])
            self.optimizer.step(context)
        return loss.item()
