"""Every view, changed in place and changed through its base, by operands of every kind: what the values and gradients are then."""
import random

import torch

from program import program
from recording import f

BASE = (3, 4)
# Calls on [3, 4] that give a view of it; several steps where the function gives a list.
VIEWS = {
    "select": [["select", 0, 1]],
    "select last": [["select", 1, -1]],
    "slice": [["slice", 0, 0, 2]],
    "slice stepped": [["slice", 1, 0, 4, 2]],
    "slice off": [["slice", 1, 1, 4, 2]],
    "slice empty": [["slice", 1, 2, 2]],
    "narrow": [["narrow", 1, 1, 2]],
    "split": [["split", 2, 0], ["item", 1]],
    "split sizes": [["split", [1, 3], 1], ["item", 1]],
    "chunk": [["chunk", 2, 1], ["item", 0]],
    "unbind": [["unbind", 0], ["item", 2]],
    "transpose": [["transpose", 0, 1]],
    "permute": [["permute", [1, 0]]],
    "expand": [["expand", [2, 3, 4]]],
    "expand to itself": [["expand", [-1, -1]]],
    "squeeze": [["squeeze"]],
    "squeeze one": [["squeeze", 0]],
    "unsqueeze": [["unsqueeze", 1]],
    "view": [["view", [2, 6]]],
    "view flat": [["view", [-1]]],
    "reshape": [["reshape", [4, 3]]],
    "flatten": [["flatten"]],
    "diagonal": [["diagonal"]],
    "alias": [["alias"]],
    "detach": [["detach"]],
    "contiguous": [["contiguous"]],
    "to itself": [["to", "float32"]],
    "slice of transposed": [["transpose", 0, 1], ["slice", 0, 1]],
    "diagonal of transposed": [["transpose", 0, 1], ["diagonal"]],
    "reshape that copies": [["transpose", 0, 1], ["reshape", [12]]],
    "select of unbind": [["unbind", 0], ["item", 0], ["select", 0, 1]],
    "diagonal of expanded": [["expand", [2, 3, 4]], ["diagonal"]],
}
# What changes a tensor in place, the operand (of its shape, or a number) being $o.
CHANGES = {
    "mul_ number": ["mul_", 3],
    "mul_": ["mul_", "$o"],
    "add_": ["add_", "$o", {"alpha": 2}],
    "sub_": ["sub_", "$o"],
    "div_": ["div_", "$o"],
    "pow_": ["pow_", "$o"],
    "copy_": ["copy_", "$o"],
    "zero_": ["zero_"],
    "neg_": ["neg_"],
    "exp_": ["exp_"],
    "sqrt_": ["sqrt_"],
    "relu_": ["relu_"],
    "sigmoid_": ["sigmoid_"],
    "tanh_": ["tanh_"],
}


def chain(start, calls, name):
    """Steps that apply `calls` in turn; the last result is `name`."""
    steps, at = [], start
    for i, (fn, *args) in enumerate(calls):
        out = name if i == len(calls) - 1 else f"{name}{i}"
        steps.append([out, fn, f"${at}", *args])
        at = out
    return steps


def shape_of(calls, shape=BASE):
    from functions import FUNCTIONS

    t = torch.zeros(shape)
    for fn, *args in calls:
        t = FUNCTIONS[fn](t, *args)
    return tuple(t.shape)


def positive(*shape, dtype=torch.float32):
    """Whole and half numbers: exact in every dtype."""
    return (torch.randint(1, 7, shape) / 2).to(dtype)


def change(name, target, grad):
    fn, *args = CHANGES[name]
    return [["", fn, f"${target}", *args]], ("o" if "$o" in args else None)


def given(base, operand, dtype=torch.float32, other=torch.float32):
    out = {"x": positive(*base, dtype=dtype)}
    if operand is not None:
        out["o"] = positive(*operand, dtype=other)
    return out


def through_views():
    """b is a copy of the leaf x; its view v changes, or b does, or both."""
    for view, calls in VIEWS.items():
        part = shape_of(calls)
        for name in CHANGES:
            steps, needs = change(name, "v", True)
            head = [["b", "mul", "$x", 1], *chain("b", calls, "v")]
            program(f"{view}: {name} the view", given(BASE, part if needs else None), head + steps, ("b", "v"))
            if name in ("mul_", "copy_", "tanh_"):
                steps, needs = change(name, "b", True)
                program(f"{view}: {name} the base", given(BASE, BASE if needs else None), head + steps, ("b", "v"))
                both = [*steps, ["", "mul_", "$v", 2], ["", "add_", "$b", 1]]
                program(f"{view}: {name} the base, then both", given(BASE, BASE if needs else None), head + both, ("b", "v"))
        # Only the operand is differentiated; nothing is; the leaf itself; nothing is recorded.
        program(f"{view}: operand only", given(BASE, part), [*chain("x", calls, "v"), ["", "mul_", "$v", "$o"]], ("x", "v"), ["o"])
        program(f"{view}: no gradients", given(BASE, part), [*chain("x", calls, "v"), ["", "mul_", "$v", "$o"]], ("x", "v"), [])
        program(f"{view}: of a leaf", given(BASE, part), [*chain("x", calls, "v"), ["", "mul_", "$v", "$o"]], ("x", "v"))
        program(f"{view}: of a leaf by a number", given(BASE, None), [*chain("x", calls, "v"), ["", "mul_", "$v", 2]], ("x", "v"))
        program(f"{view}: leaf changed", given(BASE, None), [*chain("x", calls, "v"), ["", "mul_", "$x", 2]], ("v",))
        quiet = [[s[0], f"noGrad:{s[1]}", *s[2:]] for s in chain("b", calls, "v")]
        for target in ("v", "b"):
            program(
                f"{view}: made in noGrad, {target} changed", given(BASE, None),
                [["b", "mul", "$x", 1], *quiet, ["", "mul_", f"${target}", 2]], ("b", "v"),
            )
            program(
                f"{view}: {target} changed in noGrad", given(BASE, None),
                [["b", "mul", "$x", 1], *chain("b", calls, "v"), ["", "noGrad:mul_", f"${target}", 2]], ("b", "v"),
            )
        program(f"{view}: made in noGrad, operand differentiated", given(BASE, part),
                [*[[s[0], f"noGrad:{s[1]}", *s[2:]] for s in chain("x", calls, "v")], ["", "mul_", "$v", "$o"]], ("x", "v"), ["o"])


def of_views():
    """Views of views, and two views of one base that change in turn."""
    pick = random.Random(5)
    names = [v for v in VIEWS if len(VIEWS[v]) == 1 and v not in ("expand", "slice empty")]
    for i in range(160):
        shape, calls, label = BASE, [], []
        while len(calls) < 3:
            view = pick.choice(names)
            fn, *args = VIEWS[view][0]
            try:
                shape = shape_of([[fn, *args]], shape)
            except (RuntimeError, IndexError):
                continue
            calls.append([fn, *args])
            label.append(view)
        first = pick.choice(names)
        op, then = pick.choice(("mul_", "copy_", "div_", "add_")), pick.choice(("mul_", "sigmoid_", "zero_"))
        one, needs = change(op, "v", True)
        two = change(then, "w", True)[0] if then != "mul_" else [["", "mul_", "$w", 3]]
        steps = [["b", "mul", "$x", 1], *chain("b", calls, "v"), *chain("b", VIEWS[first], "w"), *one, *two, ["", "mul_", "$v", "$v2"]]
        steps[-1] = ["", "add_", "$v0", 1]
        program(f"{i}: {', '.join(label)} {op}; {first} {then}", given(BASE, shape if needs else None), steps, ("b", "v", "w", "v1"))


def other_bases():
    """Bases that are not contiguous, or start inside of their memory."""
    for name, calls in {
        "transposed": [["transpose", 0, 1]],
        "inner": [["slice", 0, 1]],
        "stepped": [["slice", 1, 0, 4, 2]],
        "inner transposed": [["slice", 1, 1], ["transpose", 0, 1]],
    }.items():
        shape = shape_of(calls)
        for view in ("select", "slice", "transpose", "diagonal", "unsqueeze", "view flat", "slice off"):
            if view == "slice off" and shape[1] < 3:
                continue
            steps = [["m", "mul", "$x", 1], *chain("m", calls, "n"), ["b", "detach", "$n"], *chain("b", VIEWS[view], "v")]
            try:
                part = shape_of(calls + VIEWS[view])
            except RuntimeError:
                continue  # A view that needs contiguous memory.
            for op in ("mul_", "copy_", "div_"):
                program(
                    f"{name} base, {view}: {op}", given(BASE, part), [*steps, ["", op, "$v", "$o"], ["", "mul_", "$b", 2]], ("b", "v", "m"), ["o"],
                )


DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def dtypes():
    """Operands of another floating dtype, and of whole numbers."""
    for own in DTYPES:
        for other in (*DTYPES, torch.int64, torch.uint8, torch.bool):
            for view in ("slice", "diagonal"):
                for op in ("mul_", "add_", "copy_", "div_", "pow_"):
                    if op == "pow_" and other == torch.bool:
                        continue
                    calls = VIEWS[view]
                    operand = positive(*shape_of(calls), dtype=torch.float32).ceil().to(other)
                    tensors = {"x": positive(*BASE, dtype=own), "o": operand}
                    steps = [["b", "mul", "$x", 1], *chain("b", calls, "v"), ["", op, "$v", "$o"]]
                    label = f"{own} {view} {op} {other}".replace("torch.", "")
                    program(label, tensors, steps, ("b", "v"))
            tensors = {"x": positive(*BASE, dtype=own), "o": positive(*BASE).ceil().to(other)}
            program(f"{own} mul_ {other}".replace("torch.", ""), tensors, [["b", "mul", "$x", 1], ["", "mul_", "$b", "$o"]], ("b",))
        for op in ("relu_", "sigmoid_", "tanh_", "exp_", "sqrt_", "neg_"):
            for view in ("slice", "transpose"):
                steps = [["b", "sub", "$x", 1.5], *chain("b", VIEWS[view], "v"), ["", op, "$v"]]
                steps[0] = ["b", "mul", "$x", 1] if op == "sqrt_" else steps[0]
                program(f"{own} {view} {op}".replace("torch.", ""), given(BASE, None, own), steps, ("b", "v"))


def overlaps():
    """Operands in the memory that changes."""
    places = {
        "itself": [["contiguous"]],
        "an alias": [["alias"]],
        "transposed": [["transpose", 0, 1]],
        "first row": [["select", 0, 0]],
        "last row": [["select", 0, 2]],
        "a column": [["slice", 1, 1, 2]],
        "upper rows": [["slice", 0, 0, 2]],
        "lower rows": [["slice", 0, 1]],
        "even columns": [["slice", 1, 0, 3, 2]],
        "odd columns": [["slice", 1, 1, 3, 2]],
        "diagonal": [["diagonal"]],
        "nothing": [["slice", 0, 1, 1]],
        "one": [["select", 0, 1], ["select", 0, 1]],
        "detached": [["detach"]],
        "flat": [["view", [-1]]],
    }
    for op in ("mul_", "add_", "sub_", "div_", "pow_", "copy_"):
        for target, calls in places.items():
            for source, others in places.items():
                for leaves in (["x"], []):
                    few = target in ("itself", "lower rows") and source in ("itself", "upper rows", "transposed", "detached", "an alias")
                    if not few and (leaves == [] or op in ("sub_", "div_", "pow_")):
                        continue
                    args = [{"alpha": 2}] if op == "sub_" else []
                    steps = [["b", "mul", "$x", 1], *chain("b", calls, "v"), *chain("b", others, "w"), ["", op, "$v", "$w", *args]]
                    overlap(f"{target} {op} {source}{'' if leaves else ', no gradients'}", steps, leaves, op)


def overlap(name, steps, leaves, op):
    from functions import FUNCTIONS

    x = positive(3, 3)
    record = program(name, {"x": x}, steps, ("b", "v"), leaves)
    if record is None or "refused" in record:
        if record is not None and not record["refused"]["says"].startswith("some elements") and record["refused"]["step"] != "backward":
            # Shapes that do not broadcast say nothing about overlaps.
            forget(record)
        return
    # What depends on the order in which PyTorch walks the elements is no answer.
    env = {"b": x.clone()}
    for out, fn, *args in steps[1:-1]:
        env[out] = FUNCTIONS[fn](*[env[a[1:]] if isinstance(a, str) and a.startswith("$") else a for a in args])
    _, fn, _, _, *args = steps[-1]
    FUNCTIONS[fn](env["v"], env["w"].clone(), *args)
    if not torch.equal(env["b"].flatten().nan_to_num(7e9), torch.tensor([float(v) for v in record["values"]["b"]["data"]]).nan_to_num(7e9)):
        forget(record)


def forget(record):
    from program import programs

    programs.remove(record)


def results():
    """What an operation gives, changed in place: it may be a view of something nobody sees, or the operand itself."""
    square, image = positive(3, 3), positive(1, 2, 4, 4)
    calls = {
        "matmul": ["matmul", "$x", "$o"], "matmul vector": ["matmul", "$v", "$x"], "matmul rows": ["matmul", "$x", "$v"], "dot": ["dot", "$v", "$v"], "mm": ["mm", "$x", "$o"],
        "linear": ["linear", "$x", "$o"], "linear bias": ["linear", "$x", "$o", "$v"], "linear vector": ["linear", "$x", "$v"], "addmm": ["addmm", "$o", "$x", "$x"], "outer": ["outer", "$v", "$v"],
        "conv2d": ["conv2d", "$image", "$kernel"], "conv2d one": ["conv2d", "$image", "$kernel", {"stride": 3}], "convTranspose2d": ["convTranspose2d", "$image", "$kernel"],
        "maxPool2d": ["maxPool2d", "$image", 2], "avgPool2d": ["avgPool2d", "$image", 2], "adaptiveAvgPool2d": ["adaptiveAvgPool2d", "$image", 2],
        "sum": ["sum", "$x", 0], "sum kept": ["sum", "$x", 0, True], "sum of nothing": ["sum", "$x", 1, True], "mean": ["mean", "$x"], "amax": ["amax", "$x", 0], "cumsum": ["cumsum", "$x", 0],
        "softmax": ["softmax", "$x", 0], "gather": ["gather", "$x", 0, "$i"], "indexSelect": ["indexSelect", "$x", 0, "$j"], "indexAdd": ["indexAdd", "$x", 0, "$j", "$x"],
        "concat": ["concat", ["$x"], 0], "stack": ["stack", ["$x"], 0], "tile": ["tile", "$x", [1, 1]], "roll": ["roll", "$x", 0, 0], "flip": ["flip", "$x", []], "pad": ["pad", "$x", [0, 0]],
        "tril": ["tril", "$x"], "trace": ["trace", "$x"], "diagEmbed": ["diagEmbed", "$v"], "clone": ["clone", "$x"], "where": ["where", "$m", "$x", "$o"], "clamp": ["clamp", "$x", 0, 9],
        "relu": ["relu", "$x"], "leakyRelu": ["leakyRelu", "$x"], "gelu": ["gelu", "$x"], "layerNorm": ["layerNorm", "$x", [3]], "groupNorm": ["groupNorm", "$image", 2],
        "embedding": ["embedding", "$x", "$j"], "embedding rows": ["embedding", "$x", "$i"], "sparse embedding": ["sparseEmbedding", "$x", "$j"], "sparse embedding rows": ["sparseEmbedding", "$x", "$i"],
        "attention": ["scaledDotProductAttention", "$x", "$o", "$x"], "to": ["to", "$x", "float64"], "lerp": ["lerp", "$x", "$o", 0.5], "maskedSelect": ["maskedSelect", "$x", "$m"],
        "inverse": ["inverse", "$x"], "real": ["real", "$x"], "expand copy": ["reshape", "$wide", [18]],
    }
    for name, (fn, *args) in calls.items():
        for op in (["mul_", 2], ["pow_", 2], ["zero_"]):
            given = {
                "x0": square + torch.eye(3) * 4, "o": square, "v": positive(3), "image": image, "kernel": positive(2, 2, 2, 2), "i": torch.tensor([[0, 2, 1], [1, 1, 0]]), "j": torch.tensor([2, 0, 2]),
                "m": square > 1.5, "wide0": positive(1, 9),
            }
            used = {a[1:] for a in [x for y in args for x in (y if isinstance(y, list) else [y])] if isinstance(a, str) and a.startswith("$")}
            steps = [["x", "mul", "$x0", 1]] if "x" in used else []
            steps += [["wide", "expand", "$wide0", [2, 9]]] if "wide" in used else []
            given = {k: v for k, v in given.items() if k in used or k.removesuffix("0") in used}
            program(f"result of {name}: {op[0]}", given, [*steps, ["y", fn, *args], ["", op[0], "$y", *op[1:]]], ("y", *(["x"] if "x" in used else [])), long=True)


def complex_parts():
    """The real and the imaginary part of complex numbers, changed in place, through their base and where that is a view itself."""
    chains = {
        "real": [["real"]], "imag": [["imag"]], "row of real": [["real"], ["select", 0, 1]], "real of row": [["select", 0, 1], ["real"]], "imag of transposed": [["transpose", 0, 1], ["imag"]],
        "transposed imag": [["imag"], ["transpose", 0, 1]], "diagonal of real": [["real"], ["diagonal"]], "real of stepped": [["slice", 1, 1, 4, 2], ["real"]], "inner imag": [["slice", 0, 1], ["imag"], ["slice", 1, 1]],
    }
    for name, calls in chains.items():
        part = shape_of([c for c in calls if c[0] not in ("real", "imag")])
        head = [["z", "complex", "$x", "$u"], *chain("z", calls, "v")]
        tail = [["p", "real", "$z"], ["q", "imag", "$z"], ["s", "mul", "$p", "$q"], ["y", "add", "$s", "$p"]]
        for op in ("mul_", "copy_", "add_", "sigmoid_", "zero_", "div_"):
            steps, needs = change(op, "v", True)
            given = {"x": positive(*BASE), "u": positive(*BASE)} | ({"o": positive(*part)} if needs else {})
            program(f"{name} of complex: {op}", given, [*head, *steps, *tail], ("y", "v"))
            program(f"{name} of complex: {op}, operand only", given, [*head, *steps, *tail], ("y", "v"), ["o"] if needs else [])
        given = {"x": positive(*BASE), "u": positive(*BASE)}
        program(f"{name} of complex: base changed", given, [*head, ["", "mul_", "$z", 3], *tail, ["", "mul_", "$v", 2], ["w", "square", "$v"]], ("y", "w"))
        program(f"{name} of complex: base and view", given, [*head, ["", "mul_", "$v", 3], ["", "mul_", "$z", 2], ["", "neg_", "$v"], *tail], ("y", "v"))
    given = {"x": positive(*BASE), "u": positive(*BASE), "o": positive(*BASE)}
    steps = [["z", "complex", "$x", "$u"], ["m", "transpose", "$z", 0, 1], ["b", "detach", "$m"], ["v", "real", "$b"], ["r", "select", "$v", 0, 2], ["o1", "select", "$o", 1, 2], ["", "mul_", "$r", "$o1"], ["y", "imag", "$b"], ["w", "mul", "$y", "$v"]]
    program("real part of a base that is not contiguous", given, steps, ("w",), ["o"])
    for leaves in (["x"], []):
        program(f"complex parts of {leaves}", {"x": positive(4), "u": positive(4)}, [["z", "complex", "$x", "$u"], ["r", "real", "$z"], ["i", "imag", "$z"], ["", "copy_", "$r", "$i"], ["", "noGrad:mul_", "$i", 2], ["y", "real", "$z"]], ("y", "i", "r"), leaves)


def record():
    for group in (through_views, of_views, other_bases, dtypes, overlaps, results, complex_parts):
        group()
