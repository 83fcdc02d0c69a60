"""A PyTorch process as any other: a small network for handwritten digits, and the thread that trains it."""
import threading

import torch
from torch import nn, optim
from torch.distributed import rpc


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        self.parts = nn.Sequential(nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        self.digit = nn.Linear(16 * 7 * 7, 10)

    def forward(self, images):
        edges = self.edges(images)
        parts = self.parts(edges)
        return edges, parts, self.digit(parts.flatten(1))


class Training:
    """Learns from the digits [n, 1, 28, 28] until it is stopped. Whoever has a reference may watch it and turn its learning rate."""

    def __init__(self, images, labels, rate):
        torch.manual_seed(0)
        self.images, self.labels = images, labels
        self.net = Net()
        self.optimizer = optim.SGD(self.net.parameters(), lr=rate, momentum=0.9)
        self.step, self.loss = 0, float("nan")
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopped.is_set():
            rows = torch.randint(len(self.labels), (64,))
            loss = nn.functional.cross_entropy(self.net(self.images[rows])[-1], self.labels[rows])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step, self.loss = self.step + 1, loss.item()
            # The calls of others get their turn.
            self.stopped.wait(0.002)

    def progress(self):
        return {"step": self.step, "loss": self.loss, "rate": self.optimizer.param_groups[0]["lr"]}

    def set_rate(self, rate):
        if not 0 <= rate <= 1:
            raise ValueError(f"a learning rate is 0 to 1, got {rate}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    @torch.no_grad()
    def look(self, image):
        edges, parts, scores = self.net(image.reshape(1, 1, 28, 28))
        return {"chances": scores.softmax(1)[0], "edges": edges[0], "parts": parts[0]}

    def stop(self):
        self.stopped.set()
        self.thread.join()


training = None


def begin(images, labels, rate):
    global training
    training = Training(images, labels, rate)


def running():
    return rpc.RRef(training)


def end():
    training.stop()


def main():
    torch.set_num_threads(1)
    rpc.init_rpc("python", rank=0, world_size=2)
    rpc.shutdown()
