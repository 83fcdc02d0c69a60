"""Runs distributed programs (program.ts) in one process of PyTorch: what they come to without any distribution."""
import math

import torch
import torch.nn.functional as F
from packed import serve

torch.set_num_threads(1)
SNAKE = {"weightDecay": "weight_decay", "etaMin": "eta_min", "endFactor": "end_factor", "totalIters": "total_iters"}


class Failed(Exception):
    """A step that fails on purpose."""


class Run:
    def __init__(self, program):
        self.program = program
        self.dtype = getattr(torch, program["dtype"])
        self.leaves = [self.learnt(leaf["values"]) for leaf in program["leaves"]]
        self.tables = [self.learnt(table["values"]).detach().reshape(-1, 2).requires_grad_() for table in program["tables"]]
        self.layers = [
            (self.learnt(layer["weight"]).detach().reshape(2, 2).requires_grad_(), self.learnt(layer["bias"]))
            for layer in program["layers"]
        ]
        self.scale = 1.0

    def learnt(self, values):
        return torch.tensor(values, dtype=self.dtype, requires_grad=True)

    def names(self):
        yield from ((f"leaf {i}", t) for i, t in enumerate(self.leaves))
        yield from ((f"table {i}", t) for i, t in enumerate(self.tables))
        for i, (weight, bias) in enumerate(self.layers):
            yield f"layer {i} weight", weight
            yield f"layer {i} bias", bias

    def body(self, fn, worker, args, rrefs):
        """The values of function `fn` (main: -1), which runs on `worker`."""
        functions = self.program["functions"]
        steps = self.program["main"] if fn < 0 else functions[fn]["steps"]
        values, rrefs = list(args), list(rrefs)
        for step in steps:
            self.step(fn, worker, step, values, rrefs)
            for t in values[-3:]:
                self.saw([t.detach().abs().max().item()])
        return values if fn < 0 else [values[i % len(values)] for i in functions[fn]["out"]]

    def call(self, fn, call, values, rrefs=()):
        below = len(self.program["functions"]) - fn - 1
        if below <= 0:
            return []
        args = [values[i % len(values)] for i in call["args"]]
        return self.body(fn + 1 + call["fn"] % below, call["to"] % self.program["workers"], args, rrefs)

    def or_first(self, values, run):
        try:
            return run()
        except Failed:
            return [values[0]]

    def step(self, fn, worker, step, values, rrefs):
        kind = step["do"]
        at = lambda index: values[index % len(values)]
        if kind == "leaf":
            index = step["leaf"] % len(self.leaves)
            here = self.program["leaves"][index]["worker"] == worker
            values.append(self.leaves[index] if here else at(index))
        elif kind == "lookup":
            index = step["table"] % len(self.tables) if self.tables else 0
            if self.tables and self.program["tables"][index]["worker"] == worker:
                sparse = self.program["tables"][index]["sparse"]
                values.append(F.embedding(torch.tensor(step["rows"]), self.tables[index], sparse=sparse).sum(0))
            else:
                values.append(at(step["table"]))
        elif kind == "layer":
            if self.layers:
                weight, bias = self.layers[step["layer"] % len(self.layers)]
                values.append((at(step["a"]).unsqueeze(0) @ weight.T).squeeze(0) + bias)
        elif kind == "apply":
            values.append(getattr(torch, step["op"])(at(step["a"])))
        elif kind == "scale":
            values.append(at(step["a"]) * step["by"])
        elif kind in ("add", "sub", "mul"):
            values.append(getattr(at(step["a"]), kind)(at(step["b"])))
        elif kind == "fail":
            raise Failed
        elif kind == "call":
            before = list(values)
            results = [self.or_first(before, lambda c=c: self.call(fn, c, before)) for c in step["calls"]]
            if not step["forget"]:
                for one in results:
                    values.extend(one)
        elif kind == "own":
            value = at(step["a"])
            rrefs.append(lambda: [value])
        elif kind == "remote":
            if len(self.program["functions"]) - fn - 1 > 0:
                before = list(values)
                rrefs.append(lambda: self.call(fn, step["call"], before))
        elif kind == "fetch":
            if rrefs:
                values.extend(self.or_first(values, rrefs[step["rref"] % len(rrefs)]))
        elif kind == "send":
            if rrefs and len(self.program["functions"]) - fn - 1 > 0:
                rref = rrefs[step["rref"] % len(rrefs)]
                values.extend(self.or_first(values, lambda: self.call(fn, step["call"], values, [rref])))
        else:
            raise ValueError(kind)

    def iterate(self, optimizer, schedule):
        for _, t in self.names():
            t.grad = None
        results = self.body(-1, 0, [self.leaves[0]], [])
        roots = []
        for indices in self.program["passes"]:
            picked = list(dict.fromkeys(i % len(results) for i in indices))
            sums = [(results[i] * 1).sum() for i in picked if results[i].requires_grad]
            roots.append([t.item() for t in sums])
            if sums:
                torch.autograd.backward(sums, retain_graph=True)
        gradients = {name: self.numbers(t.grad) for name, t in self.names()}
        if optimizer:
            optimizer.step()
        if schedule:
            schedule.step()
        parameters = {name: self.numbers(t) for name, t in self.names()}
        return {"roots": roots, "gradients": gradients, "parameters": parameters, "scale": self.scale}

    def numbers(self, t):
        if t is None:
            return None
        found = t.detach().to_dense().double().flatten().tolist()
        self.saw(found)
        return found

    def saw(self, numbers):
        """What has overflowed says nothing of the size of the others."""
        self.scale = max([self.scale, *(abs(v) for v in numbers if math.isfinite(v))])


def answer(program):
    run = Run(program)
    optimizer = None
    if program["optimizer"]:
        options = {SNAKE.get(name, name): value for name, value in program["optimizer"]["options"].items()}
        optimizer = getattr(torch.optim, program["optimizer"]["name"])([t for _, t in run.names()], **options)
    schedule = None
    if program.get("schedule"):
        name, args, options = (program["schedule"][key] for key in ("name", "args", "options"))
        options = {SNAKE.get(name, name): value for name, value in options.items()}
        schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, *args, **options)
    return {"iterations": [run.iterate(optimizer, schedule) for _ in range(program["iterations"])]}


serve({"torch": torch.__version__}, lambda programs: [answer(program) for program in programs])
