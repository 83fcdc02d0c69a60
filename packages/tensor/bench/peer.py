"""Times PyTorch for main.ts: reads one JSON request a line, answers with one line.

{"case": name} makes the case ready; {"calls": n} runs it n times and answers {"ms": milliseconds a call}.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(1)


def small(step):
    """Leaves of four elements, and a gradient for the result."""
    w = torch.rand(4, requires_grad=True)
    v = torch.rand(4, requires_grad=True)
    b, g = torch.rand(4), torch.rand(4)
    return lambda: step(w, v, b, g)


def chain(w, v, b, g):
    x = w
    for _ in range(10):
        x = x.mul(v).add(b)
    x.backward(g)


def product(n):
    a, b = torch.rand(n, n), torch.rand(n, n)
    return lambda: a @ b


def large(step):
    x, y = torch.rand(1000, 1000), torch.rand(1000, 1000)
    return lambda: step(x, y)


def network(kind):
    relu = torch.nn.ReLU()
    if kind == "mlp":
        model = torch.nn.Sequential(
            torch.nn.Linear(784, 256), relu, torch.nn.Linear(256, 256), relu, torch.nn.Linear(256, 10)
        )
        x = torch.randn(64, 784)
    else:
        pool = torch.nn.MaxPool2d(2)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 5, padding=2), relu, pool, torch.nn.Conv2d(6, 16, 5), relu, pool,
            torch.nn.Flatten(), torch.nn.Linear(400, 120), relu, torch.nn.Linear(120, 10),
        )
        x = torch.randn(64, 1, 28, 28)
    y = torch.randint(0, 10, (64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def gpt():
    width, heads, tokens, batch, words = 128, 4, 64, 8, 256

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.mix = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (h.transpose(1, 2) for h in self.qkv(self.before(x)).reshape(b, t, 3, heads, c // heads).unbind(2))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
            y = x + self.mix(seen)
            return y + self.narrow(torch.relu(self.wide(self.after(y))))

    model = torch.nn.Sequential(torch.nn.Embedding(words, width), Block(), Block(), torch.nn.Linear(width, words))
    x, y = torch.randint(0, words, (batch, tokens)), torch.randint(0, words, (batch * tokens,))
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x).reshape(-1, words), y).backward()
        optimizer.step()

    return step


def adam():
    p = torch.rand(10_000_000, requires_grad=True)
    p.grad = torch.rand(10_000_000)
    return torch.optim.Adam([p], foreach=False, fused=False).step


def sequence(kind):
    layer = getattr(torch.nn, kind)(128, 128)
    x = torch.randn(16, 16, 128)

    def step():
        layer.zero_grad()
        layer(x)[0].sum().backward()

    return step


def embedding():
    table = torch.nn.EmbeddingBag(10_000, 64, mode="sum", sparse=True)
    ids = torch.randint(0, 10_000, (64, 32))
    optimizer = torch.optim.SGD(table.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        table(ids).sum().backward()
        optimizer.step()

    return step


CASES = {
    "add [4]": lambda: small(lambda w, v, b, g: b.add(g)),
    "add [4], recorded": lambda: small(lambda w, v, b, g: w.add(b)),
    "add [4], forward and backward": lambda: small(lambda w, v, b, g: w.add(b).backward(g)),
    "mul [4], forward and backward": lambda: small(lambda w, v, b, g: w.mul(b).backward(g)),
    "20 operations on [4], forward and backward": lambda: small(chain),
    "matmul 64": lambda: product(64),
    "matmul 256": lambda: product(256),
    "matmul 1024": lambda: product(1024),
    "add 1M": lambda: large(lambda x, y: x.add(y)),
    "exp 1M": lambda: large(lambda x, y: x.exp()),
    "sum 1M": lambda: large(lambda x, y: x.sum()),
    "softmax 1M": lambda: large(lambda x, y: x.softmax(1)),
    "layer norm 1M": lambda: large(lambda x, y: F.layer_norm(x, (1000,))),
    "transpose 1M": lambda: large(lambda x, y: x.t().contiguous()),
    "MLP step, SGD": lambda: network("mlp"),
    "LeNet step, SGD": lambda: network("lenet"),
    "embedding bag step, SGD": embedding,
    "small GPT step, AdamW": gpt,
    "LSTM, forward and backward": lambda: sequence("LSTM"),
    "GRU, forward and backward": lambda: sequence("GRU"),
    "RNN, forward and backward": lambda: sequence("RNN"),
    "Adam, 10M parameters": adam,
}


def main():
    print(json.dumps({"torch": torch.__version__}), flush=True)
    run = None
    for line in sys.stdin:
        request = json.loads(line)
        if "case" in request:
            run = CASES[request["case"]]()
            print("{}", flush=True)
            continue
        calls = request["calls"]
        start = time.perf_counter()
        for _ in range(calls):
            run()
        print(json.dumps({"ms": (time.perf_counter() - start) * 1000 / calls}), flush=True)


main()
