"""Makes models.json and models.safetensors: six models that PyTorch trains for 30 steps, with the weights and the data that they start from.

The same models in TypeScript are in test/models/. Run by `npm run golden`: compares with what is kept and fails on a difference; `--write` keeps
the new ones.
"""
import json
import math
import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.distributions import Categorical, Normal, kl_divergence

HERE = pathlib.Path(__file__).parent
STEPS = 30


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        y = self.ln1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=32, context=16, width=32, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        n = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        x = self.tokens(ids) + self.positions(torch.arange(n))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def gpt():
    model = GPT()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.1)
    ids = torch.randint(0, 32, (4, 4, 17))
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0}], lr=1e-3, eps=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    def step(i):
        batch = ids[i % 4]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss

    return model, {"ids": ids}, step


class Residual(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = None
        if stride != 1 or inner != outer:
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride=stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Residual(8, 8, 1), Residual(8, 8, 1))
        self.layer2 = nn.Sequential(Residual(8, 16, 2), Residual(16, 16, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.layer2(self.layer1(x))).flatten(1))


def resnet():
    model = ResNet()
    images = torch.randn(2, 8, 3, 16, 16)
    labels = torch.randint(0, 5, (2, 8))
    # At larger rates the kinks of relu and the ties of maxima amplify rounding: at 0.003 PyTorch's own curve in float64 leaves this by 6e-4.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4, nesterov=True)

    def step(i):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[i % 2]), labels[i % 2], label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss

    return model, {"images": images, "labels": labels}, step


class VAE(nn.Module):
    def __init__(self, pixels=64, hidden=32, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, latent)
        self.log_std = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, pixels))

    def forward(self, x, noise):
        h = self.encoder(x)
        posterior = Normal(self.mean(h), self.log_std(h).exp())
        z = posterior.loc + posterior.scale * noise
        return self.decoder(z), kl_divergence(posterior, Normal(torch.zeros(()), torch.ones(()))).sum(-1)


def vae():
    model = VAE()
    images = torch.rand(4, 8, 64).round()
    noise = torch.randn(4, 8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)

    def step(i):
        optimizer.zero_grad()
        logits, divergence = model(images[i % 4], noise[i % 4])
        reconstruction = F.binary_cross_entropy_with_logits(logits, images[i % 4], reduction="none").mean(-1)
        loss = (reconstruction + divergence / 64).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, {"images": images, "noise": noise}, step


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=24, width=16, hidden=24):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, ids, state=None):
        out, state = self.lstm(self.embedding(ids), state)
        return self.head(out), state


def lstm():
    model = LanguageModel()
    ids = torch.arange(STEPS * 6 + 1).unsqueeze(1) * torch.tensor([1, 5, 7, 11]) % 24
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, gamma=0.5)
    carried = [None]

    def step(i):
        # Backpropagation through time is cut between the parts: the state goes on, its history does not.
        state = None if carried[0] is None else tuple(s.detach() for s in carried[0])
        part = ids[i * 6 : i * 6 + 7]
        optimizer.zero_grad()
        logits, carried[0] = model(part[:-1], state)
        loss = F.cross_entropy(logits.flatten(0, 1), part[1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        schedule.step()
        return loss

    return model, {"ids": ids}, step


class ActorCritic(nn.Module):
    def __init__(self, observations=6, actions=3, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, hidden), nn.Tanh())
        self.actor = nn.Linear(hidden, actions)
        self.critic = nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def ppo():
    model = ActorCritic()
    seen = torch.randn(32, 6)
    actions = torch.randint(0, 3, (32,))
    advantages, returns = torch.randn(32), torch.randn(32)
    with torch.no_grad():
        before = model(seen)[0].log_prob(actions) + 0.1 * torch.randn(32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-4)

    def step(i):
        optimizer.zero_grad()
        policy, value = model(seen)
        ratio = (policy.log_prob(actions) - before).exp()
        normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        gain = torch.minimum(ratio * normal, ratio.clamp(0.8, 1.2) * normal).mean()
        loss = -gain + 0.5 * F.mse_loss(value, returns) - 0.01 * policy.entropy().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    data = {"observations": seen, "actions": actions, "advantages": advantages, "returns": returns, "before": before}
    return model, data, step


class GraphConvolution(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inner, outer))
        self.bias = nn.Parameter(torch.zeros(outer))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, edges, weights):
        messages = (x @ self.weight)[edges[0]] * weights.unsqueeze(-1)
        return torch.zeros(x.shape[0], messages.shape[1]).index_add(0, edges[1], messages) + self.bias


class GCN(nn.Module):
    def __init__(self, features=8, hidden=16, classes=4):
        super().__init__()
        self.conv1 = GraphConvolution(features, hidden)
        self.conv2 = GraphConvolution(hidden, classes)

    def forward(self, x, edges, weights):
        return self.conv2(F.relu(self.conv1(x, edges, weights)), edges, weights)


def gcn():
    model = GCN()
    nodes, links = 40, torch.randint(0, 40, (2, 90))
    x, labels = torch.randn(nodes, 8), torch.randint(0, 4, (nodes,))
    known = torch.rand(nodes) < 0.5
    # Both directions, and each node to itself; normalised by the degrees (Kipf & Welling 2017).
    loops = torch.arange(nodes).repeat(2, 1)
    edges = torch.cat([links, links.flip(0), loops], 1)
    degrees = torch.zeros(nodes).index_add(0, edges[1], torch.ones(edges.shape[1]))
    weights = (degrees[edges[0]] * degrees[edges[1]]).rsqrt()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4, eps=1e-4)

    def step(i):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edges, weights)[known], labels[known])
        loss.backward()
        optimizer.step()
        return loss

    return model, {"features": x, "links": links, "labels": labels, "known": known}, step


def started(name, make, kept):
    """A model with the weights and the data that are kept, if they are."""
    torch.manual_seed(len(name))
    model, data, step = make()
    if kept is not None:
        own = {key.removeprefix(f"{name}."): t for key, t in kept.items() if key.startswith(f"{name}.")}
        with torch.no_grad():
            for key, t in model.state_dict().items():
                t.copy_(own[key])
            for key, t in data.items():
                t.copy_(own[f"data.{key}"])
    state = {**model.state_dict(), **{f"data.{key}": t for key, t in data.items()}}
    return {f"{name}.{key}": t.detach().clone() for key, t in state.items()}, step


torch.set_num_threads(1)
MODELS = {"gpt": gpt, "resnet": resnet, "vae": vae, "lstm": lstm, "ppo": ppo, "gcn": gcn}
target, weights = HERE / "models.json", HERE / "models.safetensors"
write = "--write" in sys.argv
kept = None if write else load_file(weights)
state, curves = {}, {}
for name, make in MODELS.items():
    own, step = started(name, make, kept)
    state |= own
    curves[name] = [step(i).item() for i in range(STEPS)]
    print(f"{name}: loss {curves[name][0]:.4f} at first, {curves[name][-1]:.4f} after {STEPS} steps")
    if not all(math.isfinite(loss) for loss in curves[name]):
        sys.exit(f"{name} does not train")
if write:
    save_file(state, weights)
    target.write_text(json.dumps({"torch": torch.__version__, **curves}) + "\n")
    sys.exit()
theirs = json.loads(target.read_text())
for name, losses in curves.items():
    worst = max(abs(a - b) for a, b in zip(losses, theirs[name], strict=True))
    if worst > 1e-5:
        sys.exit(f"models.json is not what this torch computes: {name} differs by {worst:g}")
print("models.json is what this torch computes")
