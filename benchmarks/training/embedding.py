"""The program of 03-rnn-remote-embedding for stock PyTorch RPC: same model, text, batches and optimizers.

`embedding.py TEXT SIZES` reads the numbers of words from TEXT, trains for one pass and prints {"wordsPerSecond", "epochs"}.
"""

import json
import math
import sys
import time

import torch
import torch_group
from torch.distributed import autograd, rpc
from torch.distributed.nn import RemoteModule
from torch.distributed.optim import DistributedOptimizer

NAMES = ("trainer", "server")


def windows(text, columns, steps):
    """Parts of the text beside each other, cut into steps: inputs and targets [steps, columns]."""
    length = (len(text) - 1) // columns
    inputs = text[: columns * length].reshape(columns, length).t()
    targets = text[1 : columns * length + 1].reshape(columns, length).t()
    for first in range(0, length, steps):
        yield inputs[first : first + steps], targets[first : first + steps].reshape(-1)


def lead(file, sizes):
    with open(file, encoding="utf-8") as opened:
        text = json.load(opened)
    words = text["vocabulary"]
    hidden, columns, steps, lr = (sizes[name] for name in ("hidden", "columns", "steps", "lr"))
    table = RemoteModule("server", torch.nn.Embedding, args=(words, sizes["embedding"]), kwargs={"sparse": True})
    decoder = RemoteModule("server", torch.nn.Linear, args=(hidden, words))
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(sizes["embedding"], hidden)
    optimizers = [
        DistributedOptimizer(torch.optim.Adagrad, table.remote_parameters(), lr=30 * lr),
        DistributedOptimizer(
            torch.optim.Adam, [rpc.RRef(p) for p in lstm.parameters()] + decoder.remote_parameters(), lr=lr
        ),
    ]

    def forward(ids, state):
        output, after = lstm(table.forward(ids), state)
        return decoder.forward(output.reshape(-1, hidden)), after

    def start():
        return torch.zeros(1, columns, hidden), torch.zeros(1, columns, hidden)

    train, valid = (torch.tensor(text[part]) for part in ("train", "valid"))
    losses = []
    state = start()
    began = time.perf_counter()
    for inputs, targets in windows(train, columns, steps):
        with autograd.context() as context:
            logits, after = forward(inputs, state)
            loss = torch.nn.functional.cross_entropy(logits, targets)
            autograd.backward(context, [loss])
            for optimizer in optimizers:
                optimizer.step(context)
            losses.append(loss.item())
        state = tuple(part.detach() for part in after)
    state = start()
    with torch.no_grad():
        for inputs, targets in windows(valid, columns, steps):
            logits, state = forward(inputs, state)
            torch.nn.functional.cross_entropy(logits, targets).item()
    seconds = time.perf_counter() - began
    perplexity = math.exp(sum(losses) / len(losses))
    return {"wordsPerSecond": len(train) / seconds, "epochs": [{"trainPerplexity": perplexity}]}


if __name__ == "__main__":
    path, given = sys.argv[1:]
    print(json.dumps(torch_group.run(NAMES, lead, path, json.loads(given))))
