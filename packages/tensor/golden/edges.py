"""Every operation on tensors without elements and without dimensions, both ways: what PyTorch gives, or that it refuses."""
import warnings

import torch

from program import program
from recording import INF

SHAPES = ((), (0,), (2, 0), (0, 3), (2, 0, 3), (1,))


def t(*shape, dtype=torch.float32):
    """Values away from kinks and poles, all different."""
    n = 1
    for s in shape:
        n *= s
    return ((torch.arange(n) * 0.3) + 0.4).reshape(shape).to(dtype)


def whole(*values, dtype=torch.int64):
    return torch.tensor(values if len(values) != 1 else values[0], dtype=dtype)


def one(fn, *args, given=None, label=None, grads=None, then=()):
    """y = fn(x, args), or of the tensors given."""
    given = given if given is not None else {}
    first = [] if "x" not in given else ["$x"]
    shape = tuple(given["x"].shape) if "x" in given else ""
    kind = str(given["x"].dtype).removeprefix("torch.") if "x" in given else ""
    name = label or f"{fn} {'' if kind == 'float32' else kind} {shape} {list(args) if args else ''}"
    program(" ".join(name.split()), given, [["y", fn, *first, *args], *then], grads=grads)


UNARY = (
    "neg abs sign exp expm1 log log1p log2 sqrt rsqrt square reciprocal relu sigmoid tanh sin cos tan asin acos atan sinh cosh asinh "
    "atanh erf softplus logSigmoid floor ceil round trunc logicalNot isNaN isInf isFinite gelu silu mish leakyRelu elu selu relu6 hardtanh "
    "hardSigmoid hardSwish softsign clone"
).split()
BINARY = (
    "add sub mul div pow maximum minimum atan2 remainder floorDivide eq ne lt le gt ge logicalAnd logicalOr logicalXor"
).split()


def elementwise():
    for name in UNARY:
        for shape in ((), (2, 0)):
            one(name, given={"x": t(*shape)})
    for name in BINARY:
        grads = None if name != "floorDivide" else []
        for a, b in (((), ()), ((), (0,)), ((0,), (1,)), ((2, 0), (2, 1)), ((0, 3), (3,)), ((3,), ()), ((2, 0), (2,)), ((0,), (2,))):
            one(name, "$o", given={"x": t(*a), "o": t(*b)}, label=f"{name} {a} {b}", grads=grads)
        for shape in ((), (0,)):
            if name not in ("maximum", "minimum", "atan2", "logicalAnd", "logicalOr", "logicalXor"):
                one(name, 2, given={"x": t(*shape)}, grads=grads)
    for shape in ((), (0,), (2, 0)):
        one("clamp", 0.1, 0.3, given={"x": t(*shape)})
        one("clamp", None, 0.3, given={"x": t(*shape)})
        program(f"where {shape}", {"c": t(*shape) > 1, "x": t(*shape), "o": t()}, [["y", "where", "$c", "$x", "$o"]])
        program(f"maskedFill {shape}", {"c": t(*shape) < 1, "x": t(*shape)}, [["y", "maskedFill", "$x", "$c", 7]])
        program(f"lerp {shape}", {"x": t(*shape), "o": t()}, [["y", "lerp", "$x", "$o", 0.25]])


def reductions():
    # PyTorch deprecates some of what it does for empty lists of dimensions; what is left out here is what it warns about.
    for name in ("sum", "mean", "prod", "amax", "amin", "any", "all", "argMax", "argMin", "variance", "std", "norm"):
        several = name not in ("prod", "argMax", "argMin")
        for shape in SHAPES:
            dims = [None, 0, -1, *([1] if len(shape) > 1 else []), *([[], [0], list(range(len(shape)))] if several else [])]
            for dim in dims:
                for kind in (torch.float32, torch.int64, torch.bool):
                    if kind == torch.bool and name == "argMax":
                        continue
                    if kind != torch.float32 and name not in ("sum", "prod", "amax", "any", "all", "argMax"):
                        continue
                    x = (t(*shape) > 0) if kind == torch.bool else t(*shape).mul(10).to(kind)
                    x = t(*shape) if kind == torch.float32 else x
                    args = [] if dim is None else [dim]
                    if name == "norm":
                        args = [2] if dim is None else [2, dim]
                    if name in ("variance", "std") and dim == []:
                        continue
                    one(name, *args, given={"x": x})
                if dim not in (None, []) and name != "norm":
                    keep = [{"keepDim": True}] if name in ("variance", "std") else [True]
                    one(name, dim, *keep, given={"x": t(*shape)})
    for shape in SHAPES:
        for name in ("cumsum", "cumprod", "softmax", "logSoftmax", "logSumExp"):
            for dim in (0, -1, *([1] if len(shape) > 1 else [])):
                one(name, dim, given={"x": t(*shape)})
        for dim in (0, *([1] if len(shape) > 1 else [])):
            for p in (1, 0, INF, -INF, 3):
                one("norm", {INF: "inf", -INF: "-inf"}.get(p, p), dim, given={"x": t(*shape)})
            for name in ("max", "min"):
                for part in ("values", "indices"):
                    program(f"{name} {shape} {dim} {part}", {"x": t(*shape)}, [["m", name, "$x", dim], ["y", "get", "$m", part]])
            for name in ("cumsum", "cumprod", "max", "sort"):
                x = t(*shape).mul(10).long()
                steps = [["y", name, "$x", dim]]
                if name in ("max", "sort"):
                    steps = [["m", name, "$x", dim], ["y", "get", "$m", "values"]]
                program(f"{name} int64 {shape} {dim}", {"x": x}, steps)
            one("normalize", 2, dim, given={"x": t(*shape)})
            one("cosineSimilarity", "$o", dim, given={"x": t(*shape), "o": t(*shape)}, label=f"cosineSimilarity {shape} {dim}")
    for shape in ((), (1,), (2, 1)):
        x = torch.zeros(shape)
        one("cumprod", 0, given={"x": x}, label=f"cumprod of zeros {shape}")
        one("prod", given={"x": x}, label=f"prod of zeros {shape}")
        one("norm", given={"x": x}, label=f"norm of zeros {shape}")
    one("cumprod", 0, given={"x": torch.tensor([[0.0, 2], [3, 0], [0, 0]])}, label="cumprod of some zeros")


def order():
    for shape in SHAPES:
        for dim in (0, -1, *([1] if len(shape) > 1 else [])):
            for part in ("values", "indices"):
                program(f"sort {shape} {dim} {part}", {"x": t(*shape)}, [["s", "sort", "$x", dim], ["y", "get", "$s", part]])
                for k in (0, 1):
                    program(f"topK {shape} {dim} {k} {part}", {"x": t(*shape)}, [["s", "topK", "$x", k, dim], ["y", "get", "$s", part]])
            one("argSort", dim, given={"x": t(*shape)})
        # Values are a copy.
        program(f"sort {shape} is no view", {"x": t(*shape)}, [["s", "sort", "$x", 0], ["y", "get", "$s", "values"], ["", "add_", "$y", 1]], ("x", "y"))
        program(f"max {shape} is no view", {"x": t(*shape)}, [["s", "max", "$x", -1], ["y", "get", "$s", "values"], ["", "add_", "$y", 1]], ("x", "y"))
        for part in ("values", "inverse", "counts"):
            program(f"unique {shape} {part}", {"x": t(*shape)}, [["u", "unique", "$x"], ["y", "get", "$u", part]], grads=[])
        for x in (t(*shape), t(*shape).long(), t(*shape) * 0):
            program(f"nonzero {shape} {x.dtype} {float(x.sum())}".replace("torch.", ""), {"x": x}, [["y", "nonzero", "$x"]], grads=[])


def shapes():
    for shape in SHAPES:
        rank = len(shape)
        for dim in (0, -1, *([1] if rank > 1 else [])):
            for n in (1, 2, 3):
                for i in range(n):
                    program(f"chunk {shape} {n} {dim} [{i}]", {"x": t(*shape)}, [["c", "chunk", "$x", n, dim], ["y", "item", "$c", i]] if i == 0 or rank > 0 and shape[dim] == 0 else [["y", "clone", "$x"]])
            for size in (1, 2, [0], [1, 0], [0, 0], 0):
                program(f"split {shape} {size} {dim}", {"x": t(*shape)}, [["c", "split", "$x", size, dim], ["y", "item", "$c", 0]])
            program(f"unbind {shape} {dim}", {"x": t(*shape)}, [["c", "unbind", "$x", dim], ["y", "item", "$c", 0]] if rank and shape[dim] else [["c", "unbind", "$x", dim], ["y", "clone", "$x"]])
            for index in (0, -1, 1):
                one("select", dim, index, given={"x": t(*shape)})
            for span in ((0, 0), (0, 1), (1, 0), (1, 1)):
                one("narrow", dim, *span, given={"x": t(*shape)})
            for span in ((), (0, 0), (1,), (0, 5, 2), (-1,), (3, 1)):
                one("slice", dim, *span, given={"x": t(*shape)})
            one("squeeze", dim, given={"x": t(*shape)})
            one("unsqueeze", dim, given={"x": t(*shape)})
            one("transpose", dim, 0, given={"x": t(*shape)})
            one("flip", [dim], given={"x": t(*shape)})
            one("roll", 1, dim, given={"x": t(*shape)})
            program(f"stack {shape} {dim}", {"x": t(*shape)}, [["y", "stack", ["$x", "$x"], dim]])
            program(f"concat {shape} {dim}", {"x": t(*shape)}, [["y", "concat", ["$x", "$x"], dim]])
        one("squeeze", given={"x": t(*shape)})
        for span in ((0, 0), (0, 1), (1, 1), (-1, 0), (1, 0)):
            one("flatten", *span, given={"x": t(*shape)})
        one("logSumExp", list(range(rank)), given={"x": t(*shape)})
        one("flatten", given={"x": t(*shape)})
        one("flip", [], given={"x": t(*shape)})
        one("roll", 1, given={"x": t(*shape)})
        one("permute", list(reversed(range(rank))), given={"x": t(*shape)})
        for to in ([], [0], [-1], [1], [0, 2], [2, 0, 5], [0, -1], [3, -1], [1, 1]):
            one("reshape", to, given={"x": t(*shape)})
            one("view", to, given={"x": t(*shape)})
            if not (rank == 0 and -1 in to):
                one("expand", to, given={"x": t(*shape)})
        for to in ([4, *shape], [0, *shape], [-1] * rank):
            one("expand", to, given={"x": t(*shape)})
        for counts in ([2], [0], [2, 0], [1, 2, 1]):
            one("tile", counts, given={"x": t(*shape)})
        for pads in ([1, 1], [0, 0], [-1, 0], [1, 0, 0, 1], [1, -1], [-1, 2], [0, 0, -1, 1]):
            one("pad", pads, 0.5, given={"x": t(*shape)})
        for name in ("tril", "triu", "diagonal", "diagEmbed", "trace"):
            one(name, given={"x": t(*shape)})
        for k in (-1, 1):
            one("tril", k, given={"x": t(*shape)})
        # A view of nothing changes nothing, and its gradient is zero.
        program(f"empty part of {shape} changed", {"x": t(*shape)}, [["b", "mul", "$x", 2], ["v", "slice", "$b", 0, 1, 1], ["", "mul_", "$v", 3]], ("b", "v"))
    for shape in ((0, 0), (3, 0), (0, 3), (2, 0, 0), (0, 2, 2), (1, 1)):
        for name in ("tril", "diagonal", "trace", "diagEmbed"):
            one(name, given={"x": t(*shape)})
    for parts in (((0,), (2, 3)), ((2, 3), (0,)), ((0,), (0,)), ((0,), (2, 3), (0,), (1, 3)), ((1, 0), (2, 3)), ((0, 3), (2, 3)), ((0,), ()), ((2, 0), (2, 3)), ((3,), (0,)), ((), ())):
        for dim in (0, 1, -1):
            given = {f"x{i}": t(*s) for i, s in enumerate(parts)}
            program(f"concat {parts} {dim}", given, [["y", "concat", [f"${k}" for k in given], dim]])
        given = {f"x{i}": t(*s) for i, s in enumerate(parts)}
        program(f"stack {parts}", given, [["y", "stack", [f"${k}" for k in given], 0]])
    program("concat nothing", {}, [["y", "concat", [], 0]])
    program("stack nothing", {}, [["y", "stack", [], 0]])


def indexing():
    none, zero = torch.zeros(0, dtype=torch.int64), whole(0)
    indices = {"none": none, "[0]": torch.tensor([0]), "scalar": zero, "[0, 0]": torch.tensor([0, 0]), "[1]": torch.tensor([1]), "[[0]]": torch.tensor([[0]])}
    for shape in SHAPES:
        for dim in range(max(1, len(shape))):
            for label, index in indices.items():
                program(f"indexSelect {shape} {dim} {label}", {"x": t(*shape), "i": index}, [["y", "indexSelect", "$x", dim, "$i"]])
                program(f"gather {shape} {dim} {label}", {"x": t(*shape), "i": index}, [["y", "gather", "$x", dim, "$i"]])
                for source in ((), (1,), (0,), (2,)):
                    given = {"x": t(*shape), "i": index, "s": t(*source) + 1}
                    program(f"indexAdd {shape} {dim} {label} {source}", given, [["y", "indexAdd", "$x", dim, "$i", "$s"]])
                    program(f"scatterAdd {shape} {dim} {label} {source}", given, [["y", "scatterAdd", "$x", dim, "$i", "$s"]])
                    program(f"scatter {shape} {dim} {label} {source}", given, [["y", "scatter", "$x", dim, "$i", "$s"]])
    for shape in ((2, 3), (2, 0), (0, 3)):
        for dim in (0, 1):
            for index in ((2, 0), (0, 3), (0, 0), (1, 3), (2, 1)):
                i = torch.zeros(index, dtype=torch.int64)
                program(f"gather {shape} {dim} by {index}", {"x": t(*shape), "i": i}, [["y", "gather", "$x", dim, "$i"]])
                program(f"scatterAdd {shape} {dim} by {index}", {"x": t(*shape), "i": i, "s": t(*index)}, [["y", "scatterAdd", "$x", dim, "$i", "$s"]])
                program(f"scatter {shape} {dim} by {index}", {"x": t(*shape), "i": i, "s": t(*index)}, [["y", "scatter", "$x", dim, "$i", "$s"]])
            for source in ((0, 3), (2, 0), (0, 0)):
                program(f"indexAdd {shape} {dim} of {source}", {"x": t(*shape), "i": none, "s": t(*source)}, [["y", "indexAdd", "$x", dim, "$i", "$s"]])
    for kind in (torch.int64, torch.int32, torch.bool):
        x = whole(1).to(kind)
        program(f"gather {kind}".replace("torch.", ""), {"x": x, "i": zero}, [["y", "gather", "$x", 0, "$i"]])
        program(f"indexSelect {kind}".replace("torch.", ""), {"x": x, "i": zero}, [["y", "indexSelect", "$x", 0, "$i"]])
        program(f"scatterAdd {kind}".replace("torch.", ""), {"x": x, "i": zero, "s": x}, [["y", "scatterAdd", "$x", 0, "$i", "$s"]])
        program(f"max {kind}".replace("torch.", ""), {"x": x}, [["m", "max", "$x", 0], ["y", "get", "$m", "values"]])
    masks = {(): torch.tensor(True), (0,): torch.zeros(0, dtype=torch.bool), (1,): torch.tensor([True]), (3,): torch.tensor([True, False, True]), (2, 1): torch.tensor([[True], [False]]),
             (2, 0): torch.zeros(2, 0, dtype=torch.bool), (2, 3): torch.tensor([[True, False, True], [False, False, True]])}
    for shape in (*SHAPES, (3,), (2, 3)):
        for at, mask in masks.items():
            program(f"maskedSelect {shape} {at}", {"x": t(*shape), "m": mask}, [["y", "maskedSelect", "$x", "$m"]])
            program(f"maskedFill {shape} {at}", {"x": t(*shape), "m": mask}, [["y", "maskedFill", "$x", "$m", -1]])
    program("oneHot scalar", {"i": whole(2)}, [["y", "oneHot", "$i", 4]])
    program("oneHot none", {"i": none}, [["y", "oneHot", "$i", 4]])
    program("bincount none", {"i": none}, [["y", "bincount", "$i"]])
    for ids in ((), (0,), (2, 0), (1,)):
        for layer in ("embedding", "sparseEmbedding"):
            if layer == "sparseEmbedding" and ids == ():
                continue
            given = {"x": t(4, 3), "i": torch.zeros(ids, dtype=torch.int64)}
            steps = [["y", layer, "$x", "$i"]]
            program(f"{layer} {ids}", given, steps if layer == "embedding" else [["w", "mul", "$x", 1], ["y", "embedding", "$w", "$i"]])


def products():
    for a, b in (
        ((0,), (0,)), ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((2, 3), (3, 0)), ((0, 0), (0, 0)), ((2, 0), (0,)), ((0,), (0, 3)), ((0, 3), (3,)),
        ((0, 2, 3), (0, 3, 4)), ((2, 0, 3), (2, 3, 4)), ((2, 3, 0), (2, 0, 4)), ((0, 2, 3), (3, 4)), ((2, 3), (0, 3, 4)), ((1, 2, 3), (0, 3, 4)),
        ((), (2,)), ((2,), ()), ((), ()), ((2,), (3,)), ((2, 3), (2, 3)), ((0, 2), (0, 2)), ((3,), (0, 3, 2)),
    ):
        program(f"matmul {a} {b}", {"x": t(*a), "o": t(*b)}, [["y", "matmul", "$x", "$o"]])
        program(f"mm {a} {b}", {"x": t(*a), "o": t(*b)}, [["y", "mm", "$x", "$o"]])
        program(f"bmm {a} {b}", {"x": t(*a), "o": t(*b)}, [["y", "bmm", "$x", "$o"]])
        program(f"dot {a} {b}", {"x": t(*a), "o": t(*b)}, [["y", "dot", "$x", "$o"]])
        program(f"outer {a} {b}", {"x": t(*a), "o": t(*b)}, [["y", "outer", "$x", "$o"]])
    for a, w, b in (((0, 3), (4, 3), (4,)), ((2, 0), (4, 0), (4,)), ((2, 3), (0, 3), (0,)), ((3,), (4, 3), (4,)), ((0, 2, 3), (4, 3), (4,)), ((2, 0, 3), (4, 3), (4,)), ((3,), (3,), ()), ((), (3,), ()), ((2, 3), (3,), (1,)), ((2, 3), (3,), (2,)), ((2, 3), (4, 3), ()), ((2, 3), (4, 3), (1,)), ((2, 3), (2, 4, 3), (4,))):
        given = {"x": t(*a), "w": t(*w), "b": t(*b)}
        program(f"linear {a} {w} {b}", given, [["y", "linear", "$x", "$w", "$b"]])
        program(f"linear {a} {w}", {"x": t(*a), "w": t(*w)}, [["y", "linear", "$x", "$w"]])
    for c, a, b in (((2, 3), (2, 0), (0, 3)), ((3,), (0, 2), (2, 3)), ((), (2, 2), (2, 2)), ((0, 3), (0, 2), (2, 3)), ((2, 2), (2, 3), (2, 3))):
        program(f"addmm {c} {a} {b}", {"c": t(*c), "a": t(*a), "b": t(*b)}, [["y", "addmm", "$c", "$a", "$b", {"beta": 0.5, "alpha": 2}]])
    for shape in ((0, 0), (2, 0, 0), (0, 2, 2), (1, 1), (), (2,), (2, 3)):
        x = t(*shape) + (2 * torch.eye(shape[-1]) if len(shape) > 1 and shape[-1] == shape[-2] else 0)
        for name in ("inverse", "det", "cholesky"):
            one(name, given={"x": x})
    for a, b in (((0, 0), (0, 2)), ((2, 2), (2, 0)), ((0, 2, 2), (0, 2, 3)), ((0, 0), (0,)), ((2, 0, 0), (2, 0, 1))):
        x = t(*a) + 2 * torch.eye(a[-1])
        program(f"solve {a} {b}", {"x": x, "o": t(*b)}, [["y", "solve", "$x", "$o"]])
    for q, k, v in (((0, 2, 3), (0, 4, 3), (0, 4, 2)), ((2, 0, 3), (2, 4, 3), (2, 4, 2)), ((2, 3, 4), (2, 0, 4), (2, 0, 5)), ((2, 3, 4), (2, 3, 4), (2, 3, 0))):
        given = {"q": t(*q), "k": t(*k), "v": t(*v)}
        for causal in (False, True):
            program(f"attention {q} {k} {v} {causal}", given, [["y", "scaledDotProductAttention", "$q", "$k", "$v", {"causal": causal}]])


def layers():
    for x, w in (
        ((0, 2, 4, 4), (3, 2, 2, 2)), ((2, 4, 4), (3, 2, 2, 2)), ((1, 2, 4, 4), (0, 2, 2, 2)), ((1, 2, 0, 4), (3, 2, 2, 2)), ((1, 2, 1, 4), (3, 2, 2, 2)),
        ((4, 4), (3, 2, 2, 2)), ((1, 2, 4, 4), (3, 2, 2)), ((1, 1, 2, 4, 4), (3, 2, 2, 2)), ((), (3, 2, 2, 2)), ((1, 3, 4, 4), (3, 2, 2, 2)), ((1, 2, 0, 4), (3, 2, 1, 1)),
    ):
        program(f"conv2d {x} {w}", {"x": t(*x), "w": t(*w)}, [["y", "conv2d", "$x", "$w"]])
        program(f"conv2d {x} {w} padded", {"x": t(*x), "w": t(*w), "b": t(w[0])}, [["y", "conv2d", "$x", "$w", {"padding": 1, "bias": "$b"}]])
        back = (w[1], w[0], *w[2:]) if len(w) == 4 else w
        program(f"convTranspose2d {x} {back}", {"x": t(*x), "w": t(*back)}, [["y", "convTranspose2d", "$x", "$w"]])
    for x, w in (((0, 2, 4), (3, 2, 2)), ((2, 4), (3, 2, 2)), ((1, 2, 0), (3, 2, 2)), ((4,), (3, 2, 2)), ((1, 2, 4), (3, 2)), ((1, 3, 4), (3, 2, 2))):
        program(f"conv1d {x} {w}", {"x": t(*x), "w": t(*w)}, [["y", "conv1d", "$x", "$w"]])
    for x in ((0, 2, 4, 4), (2, 4, 4), (0, 4, 4), (2, 0, 4, 4), (1, 2, 0, 4), (1, 2, 1, 1), (4, 4), (), (1, 1, 2, 4, 4)):
        for name in ("maxPool2d", "avgPool2d"):
            one(name, 2, given={"x": t(*x)})
            one(name, 2, {"padding": 1}, given={"x": t(*x)})
        for size in ([2, 2], [1, 1], [0, 1], 3):
            if len(x) == 5 and size == [1, 1]:
                continue  # PyTorch takes any rank there, and means of the last two dimensions.
            one("adaptiveAvgPool2d", size, given={"x": t(*x)})
    for o in (
        {"padding": 2}, {"padding": 1}, {"stride": 2, "padding": 2}, {"padding": 3}, {"outputPadding": 1}, {"stride": 2, "outputPadding": 1}, {"stride": 2, "outputPadding": 2},
        {"dilation": 2, "outputPadding": 1}, {"stride": [1, 2], "outputPadding": [0, 1]}, {"stride": [1, 2], "outputPadding": [1, 0]}, {"stride": [1, 2], "dilation": [2, 1], "outputPadding": 1}, {"outputPadding": -1},
    ):
        for bias in (False, True):
            given = {"x": t(1, 1, 1, 1), "w": t(1, 1, 3, 3)} | ({"b": t(1)} if bias else {})
            program(f"convTranspose2d {o} {bias}", given, [["y", "convTranspose2d", "$x", "$w", o | ({"bias": "$b"} if bias else {})]])
    for x, shape in (((0, 3), [3]), ((2, 0, 3), [3]), ((2, 0), [0]), ((3,), [3]), ((), []), ((2, 3), [2]), ((1, 1), [1])):
        one("layerNorm", shape, given={"x": t(*x)})
    for x, groups in (((0, 4, 2), 2), ((2, 4, 0), 2), ((2, 4), 2), ((4,), 2), ((), 1), ((2, 0, 3), 1), ((2, 3), 2), ((1, 4), 4)):
        one("groupNorm", groups, given={"x": t(*x)})
    for x in ((0, 3), (2, 3), (1, 3), (0, 3, 2), (2, 3, 0), (3,), (), (2, 0), (1, 3, 2)):
        one("batchNorm", {"training": True}, given={"x": t(*x)})
        if x == (2, 0):
            continue
        given = {"x": t(*x), "m": t(3), "v": t(3)}
        program(f"batchNorm {x} running", given, [["y", "batchNorm", "$x", {"training": False, "runningMean": "$m", "runningVar": "$v"}]], grads=["x"])
        given = {"x": t(*x), "m": t(3), "v": t(3)}
        program(f"batchNorm {x} trained", given, [["y", "batchNorm", "$x", {"training": True, "runningMean": "$m", "runningVar": "$v"}]], ("y", "m", "v"), grads=["x"])


def losses():
    for name in ("mseLoss", "l1Loss", "smoothL1Loss", "huberLoss", "binaryCrossEntropy", "binaryCrossEntropyWithLogits", "klDiv"):
        for reduction in ("mean", "sum", "none"):
            for shape in ((), (0,), (2, 0)):
                x = t(*shape)
                program(f"{name} {shape} {reduction}", {"x": x, "o": x * 0.5}, [["y", name, "$x", "$o", {"reduction": reduction}]], grads=["x"])
            for a, b in (((2, 3), (3,)), ((2, 3), (1,)), ((2, 1), (2,)), ((3,), (2, 3)), ((2, 3), ()), ((2, 0), (1,)), ((2, 3), (2,))):
                x, o = t(*a) / 4, t(*b) / 4
                program(f"{name} {a} {b} {reduction}", {"x": x, "o": o}, [["y", name, "$x", "$o", {"reduction": reduction}]], grads=["x"] if name.startswith(("binary", "kl")) else None)
    for reduction in ("mean", "sum", "none"):
        o = {"reduction": reduction}
        for shape, target in (((0, 3), (0,)), ((3,), ()), ((0, 3, 2), (0, 2)), ((2, 3, 0), (2, 0)), ((2, 0), (2,)), ((2, 3), (3,)), ((), ()), ((2, 3), (2, 1)), ((2, 3, 1), (2,)), ((2, 3), ())):
            given = {"x": t(*shape), "i": torch.ones(target, dtype=torch.int64)}
            program(f"crossEntropy {shape} {target} {reduction}", given, [["y", "crossEntropy", "$x", "$i", o]])
            program(f"nllLoss {shape} {target} {reduction}", given, [["y", "nllLoss", "$x", "$i", o]])
        given = {"x": t(2, 3), "i": torch.tensor([-100, -100])}
        program(f"crossEntropy all ignored {reduction}", given, [["y", "crossEntropy", "$x", "$i", o]])
        program(f"crossEntropy soft empty {reduction}", {"x": t(0, 3), "p": t(0, 3)}, [["y", "crossEntropy", "$x", "$p", o]], grads=["x"])
        program(f"crossEntropy smoothed empty {reduction}", {"x": t(0, 3), "i": torch.zeros(0, dtype=torch.int64)}, [["y", "crossEntropy", "$x", "$i", {**o, "labelSmoothing": 0.1}]])


def in_place():
    for shape in ((), (0,), (2, 0)):
        for fn, *args in (["mul_", 2], ["add_", "$o"], ["copy_", "$o"], ["div_", "$o"], ["pow_", 2], ["zero_"], ["fill_", 3], ["neg_"], ["exp_"], ["relu_"], ["tanh_"], ["sqrt_"], ["sigmoid_"]):
            for other in ((), (0,), (1,), (3,)):
                if "$o" not in args and other != ():
                    continue
                given = {"x": t(*shape)} | ({"o": t(*other)} if "$o" in args else {})
                program(f"{fn} {shape} {other}", given, [["b", "mul", "$x", 2], ["", fn, "$b", *args]], ("b",))


def sums():
    """logSumExp over several dimensions, in any order."""
    for dims in ([0, 1], [0, 2], [2, 0], [1, 2], [0, 1, 2], [-1, 0], [0, 0], [0, 3]):
        one("logSumExp", dims, given={"x": t(2, 3, 4)})
        one("logSumExp", dims, True, given={"x": t(2, 3, 4)})
    far = torch.tensor([[1000.0, -INF], [-INF, -INF]])
    for dims in ([0, 1], [0], [1]):
        one("logSumExp", dims, given={"x": far}, label=f"logSumExp far {dims}", grads=[])


def record():
    warnings.simplefilter("ignore")
    for group in (elementwise, reductions, order, shapes, indexing, products, layers, losses, in_place, sums):
        group()
