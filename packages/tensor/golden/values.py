"""Numbers as operands of every dtype, half precision, and values where formulas have their ends."""
import torch

from program import program
from recording import INF, NAN, i64

FLOATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
WHOLE = {n: getattr(torch, n) for n in "uint8 int8 int16 int32 int64".split()}


def operands():
    """A tensor and a plain number."""
    for dtype, kind in {**WHOLE, **FLOATS}.items():
        whole = dtype in WHOLE
        values = [6, 0, 1, 100, 120] if dtype in ("uint8", "int8") else [6, 0, 1, 100, 1000, 12345]
        if not whole:
            values = [6, 0.1, 1.3, -2.7, 100, 1000]
        for shape in ((len(values),), ()):
            x = torch.tensor(values[: len(values) if shape else 1], dtype=torch.float64).reshape(shape).to(kind)
            for number in (-2, 3, 1000, 300, 0.5, -0.1, 2.5):
                for fn in "add sub mul div floorDivide remainder eq ne lt le gt ge pow".split():
                    if fn == "pow" and (whole and number != 3 or abs(number) > 100):
                        continue
                    if whole and fn in ("floorDivide", "remainder") and torch.tensor(number).to(kind) == 0:
                        continue
                    # Negative bases to fractions, and what PyTorch's float16 rounds on the way, are another matter.
                    grads = [] if fn == "floorDivide" or whole else ["x"]
                    program(f"{fn} {dtype} {shape} {number}", {"x": x}, [["y", fn, "$x", number]], grads=grads)
                if not whole:
                    for fn in ("mul_", "div_", "add_", "sub_"):
                        program(f"{fn} {dtype} {shape} {number}", {"x": x}, [["b", "clone", "$x"], ["", fn, "$b", number]], ("b",))
                elif number in (-2, 3):
                    for fn in ("mul_", "add_", "sub_"):
                        program(f"{fn} {dtype} {shape} {number}", {"x": x}, [["b", "clone", "$x"], ["", fn, "$b", number]], ("b",))
        for low, high in ((None, -2), (-5, None), (2, 50), (-5, -2), (None, 0.5), (0.5, 7), (None, "inf"), ("-inf", 5), ("nan", 5), (3, "nan"), (7, 3), (None, 300), (-200, None)):
            x = torch.tensor(values, dtype=torch.float64).to(kind)
            program(f"clamp {dtype} {low} {high}", {"x": x}, [["y", "clamp", "$x", low, high]])
        for other in (*WHOLE, "float32", "float16"):
            o = torch.tensor([2, 3, 1, 7, 5], dtype=torch.float64).to({**WHOLE, **FLOATS}[other])
            for fn in ("add", "mul", "div", "maximum"):
                program(f"{fn} {dtype} {other}", {"x": torch.tensor(values[:5], dtype=torch.float64).to(kind), "o": o}, [["y", fn, "$x", "$o"]], grads=[])


TAILS = [0.0, 0.01, 0.3, 0.9, 1.0, 1.7, 2.4, 3.0, 3.3, 4.1, 5.2, 6.0, 7.5, 9.0, 12.0, 17.0, 21.0, 40.0, 88.0]
GRID = torch.tensor([*(-v for v in TAILS), *TAILS, 1e-4, -1e-4, 300, -300, INF, -INF, NAN])
ACTIVATIONS = (
    "relu sigmoid tanh gelu silu mish leakyRelu elu selu relu6 hardtanh hardSigmoid hardSwish softsign softplus logSigmoid"
).split()
FUNCTIONS = (
    "neg abs exp expm1 sin cos atan asinh sinh cosh erf square floor ceil round trunc sign"
).split()
POSITIVE = "log log1p log2 sqrt rsqrt reciprocal".split()
UNIT = "asin acos atanh tan".split()


def half():
    """Each rounds once, forward and backward: the tails are where rounding on the way shows."""
    for dtype in ("float16", "bfloat16"):
        kind = FLOATS[dtype]
        for name in (*ACTIVATIONS, *FUNCTIONS):
            # PyTorch's gelu(inf) is inf or NaN, by the element's place in the vector.
            x = GRID[GRID.isfinite()] if name == "gelu" else GRID
            x = x[x.isfinite()] if name in ("softsign", "mish", "silu", "elu", "selu") else x
            program(f"{name} {dtype}", {"x": x.to(kind)}, [["y", name, "$x"]])
        for name in POSITIVE:
            program(f"{name} {dtype}", {"x": torch.tensor(TAILS[1:]).to(kind)}, [["y", name, "$x"]])
        for name in UNIT:
            program(f"{name} {dtype}", {"x": torch.linspace(-0.99, 0.99, 23).to(kind)}, [["y", name, "$x"]])
        program(f"gelu tanh {dtype}", {"x": GRID[GRID.abs() < 15].to(kind)}, [["y", "gelu", "$x", "tanh"]])
        for alpha in (0.3, 1.7):
            program(f"elu {alpha} {dtype}", {"x": GRID[GRID.isfinite()].to(kind)}, [["y", "elu", "$x", alpha]])
            program(f"leakyRelu {alpha} {dtype}", {"x": GRID[GRID.isfinite()].to(kind)}, [["y", "leakyRelu", "$x", alpha]])
        # Networks of several: relu between products, and what normalises.
        a, b = (torch.arange(12.0).reshape(3, 4) - 5.3).to(kind), (torch.arange(8.0).reshape(4, 2) / 3 - 1).to(kind)
        bias = torch.tensor([0.3, -0.7]).to(kind)
        program(f"layer {dtype}", {"x": a, "w": b.T.contiguous(), "b": bias}, [["h", "linear", "$x", "$w", "$b"], ["y", "relu", "$h"]])
        program(f"addmm {dtype}", {"c": bias, "x": a, "w": b}, [["y", "addmm", "$c", "$x", "$w", {"beta": 0.3, "alpha": 1.7}]])
        program(f"lerp {dtype}", {"x": a, "o": a * 0.7}, [["y", "lerp", "$x", "$o", 0.3]])
        for name in ("variance", "std"):
            program(f"{name} {dtype}", {"x": a}, [["y", name, "$x", 1]])
        for p in (1, 2, 3):
            program(f"norm {p} {dtype}", {"x": a}, [["y", "norm", "$x", p, 1]])
        for name in ("sum", "mean", "softmax", "logSoftmax", "logSumExp", "cumsum"):
            program(f"{name} {dtype}", {"x": a}, [["y", name, "$x", 1]])
        program(f"cumprod {dtype}", {"x": a / 4}, [["y", "cumprod", "$x", 1]])
        program(f"prod {dtype}", {"x": a / 4}, [["y", "prod", "$x", 1]])
        four = torch.tensor([0.3, 0.7, -1.1, 2]).to(kind)
        program(f"layerNorm {dtype}", {"x": a, "w": four, "b": four * 0.3}, [["y", "layerNorm", "$x", [4], "$w", "$b"]])
        program(f"groupNorm {dtype}", {"x": a, "w": four, "b": four * 0.3}, [["y", "groupNorm", "$x", 2, "$w", "$b"]])
        program(f"batchNorm {dtype}", {"x": a, "w": four, "b": four * 0.3}, [["y", "batchNorm", "$x", {"weight": "$w", "bias": "$b"}]])
        q = (torch.arange(24.0).reshape(2, 3, 4) / 7 - 1.6).to(kind)
        program(f"attention {dtype}", {"q": q, "k": q * 0.7, "v": q * 0.9}, [["y", "scaledDotProductAttention", "$q", "$k", "$v"]])
        image = (torch.arange(32.0).reshape(1, 2, 4, 4) / 9 - 1.6).to(kind)
        w = (torch.arange(16.0).reshape(2, 2, 2, 2) / 5 - 1.6).to(kind)
        program(f"conv2d {dtype}", {"x": image, "w": w, "b": bias}, [["y", "conv2d", "$x", "$w", {"bias": "$b"}]])
        program(f"avgPool2d {dtype}", {"x": image}, [["y", "avgPool2d", "$x", 2]])
        program(f"maxPool2d {dtype}", {"x": image}, [["y", "maxPool2d", "$x", 2]])
        for name in ("mseLoss", "l1Loss", "smoothL1Loss", "huberLoss", "binaryCrossEntropyWithLogits"):
            program(f"{name} {dtype}", {"x": a, "o": a * 0.7}, [["y", name, "$x", "$o"]], grads=["x"])
        program(f"crossEntropy {dtype}", {"x": a, "i": i64(0, 3, 1)}, [["y", "crossEntropy", "$x", "$i"]])
        for fn in ("mul", "div", "add", "sub", "pow", "maximum", "atan2", "remainder"):
            program(f"{fn} with {dtype}", {"x": (a + 9).to(kind), "o": (a * 0.7 + 11).to(kind)}, [["y", fn, "$x", "$o"]])
            program(f"{fn} of float32 and {dtype}", {"x": (a + 9).float(), "o": (a * 0.7 + 11).to(kind)}, [["y", fn, "$x", "$o"]])
            program(f"{fn} of {dtype} and one float32", {"x": (a + 9).to(kind), "o": torch.tensor(3.3)}, [["y", fn, "$x", "$o"]], grads=["x"])


def mixed():
    """Half precision beside other dtypes, with and without dimensions: which wins, and what is rounded when."""
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
    for a, x in kinds.items():
        for b, o in kinds.items():
            if x == o and a not in ("float16", "bfloat16"):
                continue
            for left, right in (((3,), ()), ((), (3,)), ((3,), (3,)), ((), ())):
                given = {"x": (torch.arange(3.0)[: left[0] if left else 1] / 3 + 0.3).reshape(left).to(x), "o": (torch.arange(3.0)[: right[0] if right else 1] / 7 + 0.6).reshape(right).to(o)}
                for fn in ("add", "mul", "div", "maximum", "mseLoss", "l1Loss", "smoothL1Loss", "huberLoss"):
                    if fn == "huberLoss" and x != o:
                        continue
                    program(f"{fn} mixed {a} {left} {b} {right}", given, [["y", fn, "$x", "$o"]], grads=["x"] if left else [])
                if x == o:
                    program(f"lerp mixed {a} {left} {b} {right}", given, [["y", "lerp", "$x", "$o", 0.3]])


def t(*values):
    return torch.tensor(values if len(values) > 1 else values[0])


def ends():
    """Where formulas divide by nothing, meet infinities, or have nothing to look at."""
    a = torch.tensor([[1.0], [2.0]])
    b = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    for x, o, dim in ((a, b, 1), (b, a, 1), (a, b, 0), (b, b[0], 1), (b[0], b, 1), (b[0], b, 0), (b, b[:1], 0), (a, b, -1), (torch.zeros(2, 3), b, 1), (b * 1e-9, b, 1), (b[0], b[0], 0), (b, b, 1), (b * 1e15, b, 1)):
        program(f"cosineSimilarity {tuple(x.shape)} {tuple(o.shape)} {dim} {float(x.flatten()[0]):g}", {"x": x, "o": o}, [["y", "cosineSimilarity", "$x", "$o", dim]])
    program("cosineSimilarity eps", {"x": b, "o": b}, [["y", "cosineSimilarity", "$x", "$o", 1, 5]])
    for beta in (0, 0.25, 1):
        near = torch.tensor([1.0, 2, 2.25, 2.5, 7])
        for reduction in ("mean", "none"):
            program(f"smoothL1Loss {beta} {reduction}", {"x": near, "o": torch.full((5,), 2.0)}, [["y", "smoothL1Loss", "$x", "$o", {"beta": beta, "reduction": reduction}]])
    program("smoothL1Loss negative beta", {"x": t(1.0, 2), "o": t(1.0, 3)}, [["y", "smoothL1Loss", "$x", "$o", {"beta": -1}]])
    for delta in (0, -1):
        program(f"huberLoss delta {delta}", {"x": t(1.0, 2), "o": t(1.0, 3)}, [["y", "huberLoss", "$x", "$o", {"delta": delta}]])
    m, n = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[1.0, INF], [NAN, 4]])
    for o in ({"beta": 0}, {"alpha": 0}, {"beta": 0, "alpha": 0}, {"beta": 2}, {"alpha": 2}, {}):
        program(f"addmm of NaN {o}", {"c": torch.tensor([NAN, INF]), "x": m, "w": m}, [["y", "addmm", "$c", "$x", "$w", o]])
        program(f"addmm with NaN {o}", {"c": t(1.0, 2), "x": m, "w": n}, [["y", "addmm", "$c", "$x", "$w", o]], grads=["c"])
    for c in ((3, 2, 2), (3,), (1, 2), (2, 1), (1,), ()):
        program(f"addmm into {c}", {"c": torch.ones(c), "x": m, "w": m}, [["y", "addmm", "$c", "$x", "$w"]])
        program(f"addmm beta 0 into {c}", {"c": torch.ones(c), "x": m, "w": m}, [["y", "addmm", "$c", "$x", "$w", {"beta": 0}]])
    program("addmm vector", {"c": t(1.0, 2), "x": m, "w": t(1.0, 2)}, [["y", "addmm", "$c", "$x", "$w"]])
    for a, b in (((2, 3, 4), (1, 4, 2)), ((1, 3, 4), (2, 4, 2)), ((2, 3, 4), (2, 3, 2)), ((3, 4), (2, 4, 2)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2))):
        program(f"bmm {a} {b}", {"x": torch.ones(a), "o": torch.ones(b)}, [["y", "bmm", "$x", "$o"]])
    for x in ([INF, 1], [NAN, 1, -INF], [[INF, 1], [2, NAN]]):
        program(f"diagEmbed {x}", {"x": torch.tensor(x)}, [["y", "diagEmbed", "$x"]])
        program(f"tril {x}", {"x": torch.tensor([x, x] if not isinstance(x[0], list) else x)}, [["y", "tril", "$x"]])
    q = (torch.arange(24.0).reshape(1, 2, 3, 4) / 7 - 1.6)
    full, none = torch.ones(3, 3, dtype=torch.bool), torch.zeros(3, 3, dtype=torch.bool)
    row = full.clone()
    row[1] = False
    masks = {"all": full, "nothing": none, "no second row": row, "one column": none | (torch.arange(3) == 1), "per head": torch.stack([full, row]).unsqueeze(0)}
    for name, mask in masks.items():
        given = {"q": q, "k": q * 0.7, "v": q * 0.9, "m": mask}
        program(f"attention mask {name}", given, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"mask": "$m"}]])
        added = torch.zeros(mask.shape).masked_fill(~mask, -INF)
        program(f"attention added {name}", given | {"m": added}, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"mask": "$m"}]])
        program(f"attention added {name}, constant", given | {"m": added}, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"mask": "$m"}]], grads=["q", "k", "v"])
        program(f"attention added {name} + 0.3", given | {"m": added + 0.3}, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"mask": "$m", "scale": 0.7}]], grads=["q", "v"])
        program(f"attention mask {name}, causal", given, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"mask": "$m", "causal": True}]])
    program("attention causal, longer", {"q": q, "k": torch.cat([q, q], 2), "v": torch.cat([q, q], 2)}, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"causal": True}]])
    program("attention of vectors", {"q": q[0, 0, 0], "k": q[0, 0, 0], "v": q[0, 0, 0]}, [["y", "scaledDotProductAttention", "$q", "$k", "$v"]])
    # No derivative there is: refused when it is asked for, not taken for zero.
    x = torch.tensor([7.0, -7, 2.5])
    for number in (2, -1.5):
        program(f"floorDivide by {number}", {"x": x}, [["y", "floorDivide", "$x", number]])
    program("floorDivide by a tensor", {"x": x, "o": t(2.0, 3, -1)}, [["y", "floorDivide", "$x", "$o"]])
    program("floorDivide by a tensor, of a constant", {"x": x, "o": t(2.0, 3, -1)}, [["y", "floorDivide", "$x", "$o"]], grads=["o"])
    program("unique, and more", {"x": x}, [["u", "unique", "$x"], ["v", "get", "$u", "values"], ["y", "add", "$v", "$x"]])
    program("bincount of weights", {"i": i64(0, 2, 0), "x": x}, [["b", "bincount", "$i", "$x"], ["y", "add", "$b", "$x"]])
    for fn in ("sign", "floor", "ceil", "round", "trunc"):
        program(f"{fn} has a slope of zero", {"x": x}, [["y", fn, "$x"]])
    program("remainder by a tensor", {"x": x, "o": t(2.0, 3, -1)}, [["y", "remainder", "$x", "$o"]])


def sparse():
    """Sums of sparse tensors as they lie in memory: which entries meet, and in which order they come."""
    patterns = {"none": [], "one": [2], "sorted": [0, 2, 4], "twice": [0, 2, 2], "other twice": [0, 1, 2, 2], "unsorted": [3, 0], "falling": [4, 2, 2, 1], "many": [0, 0, 0, 1, 1, 4]}
    for p, left in patterns.items():
        for q, right in patterns.items():
            given = {"i": torch.tensor([left], dtype=torch.int64), "j": torch.tensor([right], dtype=torch.int64), "x": torch.arange(1.0, len(left) + 1), "o": 10 * torch.arange(1.0, len(right) + 1)}
            for how in ("plain", "coalesced", "alpha", "expanded"):
                if how == "expanded" and (not left or not right):
                    continue
                values = "$x"
                steps = []
                if how == "expanded":
                    steps = [["x0", "narrow", "$x", 0, 0, 1], ["x1", "expand", "$x0", [len(left)]]]
                    values = "$x1"
                steps += [["a", "sparse", "$i", values, [5]], ["b", "sparse", "$j", "$o", [5]]]
                if how == "coalesced":
                    steps += [["a", "coalesce", "$a"], ["b", "coalesce", "$b"]]
                steps += [["c", "add", "$a", "$b", {"alpha": 2}] if how == "alpha" else ["c", "add", "$a", "$b"]]
                steps += [["indices", "rawIndices", "$c"], ["values", "rawValues", "$c"], ["sorted", "coalesced", "$c"], ["dense", "toDense", "$c"]]
                program(f"sparse {p} + {q} {how}", given, steps, ("indices", "values", "sorted", "dense"), grads=[])
                if how in ("plain", "alpha"):
                    steps = [*steps[:-4], ["y", "toDense", "$c"]]
                    program(f"sparse {p} + {q} {how}, differentiated", given, steps, ("y",))
    rows = {"i": torch.tensor([[1, 1, 0]]), "x": torch.arange(6.0).reshape(3, 2), "j": torch.tensor([[2, 1]]), "o": torch.arange(4.0).reshape(2, 2)}
    steps = [["a", "sparse", "$i", "$x", [3, 2]], ["b", "sparse", "$j", "$o", [3, 2]], ["c", "add", "$a", "$b"]]
    reads = [["indices", "rawIndices", "$c"], ["values", "rawValues", "$c"], ["sorted", "coalesced", "$c"]]
    program("sparse rows", rows, steps + reads, ("indices", "values", "sorted"), grads=[])
    two = {"i": torch.tensor([[1, 0, 1], [0, 1, 0]]), "x": torch.arange(3.0), "j": torch.tensor([[1, 1], [0, 1]]), "o": torch.tensor([7, 9])}
    program("sparse in two dimensions, promoted", two, steps + reads, ("indices", "values", "sorted"), grads=[])
    program("sparse changed in place", rows, [*steps[:2], ["", "add_", "$a", "$b"], ["c", "add", "$a", "$b"], *reads], ("indices", "values", "sorted"), grads=[])
    # What meets in one function's input, and in a leaf.
    ids = {"i": i64(3, 1, 1), "j": i64(1, 4), "k": i64(0, 1), "x": torch.arange(10.0).reshape(5, 2)}
    for leaf in (False, True):
        head = [["w", "alias", "$x"] if leaf else ["w", "mul", "$x", 1]]
        uses = [["a", "sparseEmbedding", "$w", "$i"], ["b", "sparseEmbedding", "$w", "$j"], ["c", "sparseEmbedding", "$w", "$k"]]
        for order in (("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")):
            tail = [["s", "sum", f"${order[0]}"], ["t", "sum", f"${order[1]}"], ["u", "sum", f"${order[2]}"], ["v", "add", "$s", "$t"], ["y", "add", "$v", "$u"]]
            program(f"sparse gradients meet {order} {leaf}", ids, [*head, *uses, *tail], ("y",), grads=["x"])


def record():
    for group in (operands, half, mixed, ends, sparse):
        group()
