"""The systematic cases: every operation on extreme, tied, broadcast, empty and non-contiguous operands."""
import torch
import torch.nn.functional as F

from recording import case, f, i64, INF, NAN

EXTREME = torch.tensor(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 1e-8, -1e-8, 1e-30, -1e-30, 3, -3, 20.5, -20.5, 88.5, -88.5, 104, -104, 1e4, -1e4, 1e19, -1e19]
    + [3e38, -3e38, INF, -INF, NAN]
)
UNARY = {name: getattr(torch, name) for name in (
    "neg abs sign exp expm1 log log1p log2 sqrt rsqrt square reciprocal relu sigmoid tanh sin cos tan asin acos atan sinh cosh asinh "
    "acosh atanh erf floor ceil round trunc"
).split()} | {
    "softplus": F.softplus, "logSigmoid": F.logsigmoid, "gelu": F.gelu, "silu": F.silu, "mish": F.mish, "leakyRelu": F.leaky_relu,
    "elu": F.elu, "selu": F.selu, "relu6": F.relu6, "hardtanh": F.hardtanh, "hardSigmoid": F.hardsigmoid, "hardSwish": F.hardswish,
    "softsign": F.softsign,
}
DOMAIN = {"log": (0.1, 4), "log1p": (-0.5, 4), "log2": (0.1, 4), "sqrt": (0.1, 4), "rsqrt": (0.1, 4), "acosh": (1.1, 4)} | {
    n: (-0.9, 0.9) for n in ("asin", "acos", "atanh")
}


def unary():
    for name, fn in UNARY.items():
        low, high = DOMAIN.get(name, (-3, 3))
        # PyTorch's gelu(inf) is inf or NaN, by the element's place in the vector.
        case(f"{name} extreme", fn, EXTREME[EXTREME != INF] if name == "gelu" else EXTREME)
        case(f"{name} empty", fn, torch.zeros(2, 0, 3))
        case(f"{name} transposed", fn, f(3, 4, low=low, high=high), view="transposed")
        case(f"{name} stepped", fn, f(5, 3, low=low, high=high), view="stepped")
        case(f"{name} expanded", fn, f(4, low=low, high=high), view="expanded")
        case(f"{name} float64", fn, f(5, low=low, high=high).double())


GRID = torch.tensor([0.0, -0.0, 1, -1, 0.5, -2.5, 7, 3e38, -3e38, 1e-30, INF, -INF, NAN])
ARITHMETIC = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "pow": torch.pow, "atan2": torch.atan2, "remainder": torch.remainder, "floorDivide": torch.floor_divide,
}
COMPARISON = {n: getattr(torch, n) for n in "eq ne lt le gt ge".split()} | {
    "logicalAnd": torch.logical_and, "logicalOr": torch.logical_or, "logicalXor": torch.logical_xor,
}


def binary():
    a, b = GRID.repeat_interleave(len(GRID)), GRID.repeat(len(GRID))
    for name, fn in (ARITHMETIC | COMPARISON).items():
        grad = name in ARITHMETIC and name != "floorDivide"
        positive = {"low": 0.3, "high": 3} if name in ("pow", "div", "remainder", "floorDivide") else {}
        case(f"{name} grid", fn, a, b, grad=grad)
        case(f"{name} broadcast both", fn, f(2, 1, 4, **positive), f(3, 1, **positive), grad=grad)
        case(f"{name} broadcast row", fn, f(3, 4, **positive), f(1, 4, **positive), grad=grad)
        case(f"{name} one element", fn, f(2, 3, **positive), f(1, 1, **positive), grad=grad)
        case(f"{name} scalars", fn, f(1, **positive)[0], f(3, **positive), grad=grad)
        case(f"{name} empty", fn, torch.zeros(0, 3), torch.ones(1, 3), grad=grad)
        case(f"{name} empty broadcast", fn, torch.zeros(2, 0), torch.ones(2, 1), grad=grad)
        case(f"{name} transposed", fn, f(3, 4, **positive), f(3, 4, **positive), view="transposed", grad=grad)
        case(f"{name} stepped", fn, f(5, 2, **positive), f(5, 2, **positive), view="stepped", grad=grad)
        case(f"{name} inner", fn, f(5, 2, **positive), f(5, 1, **positive), view="inner", grad=grad)
        case(f"{name} float64", fn, f(3, **positive).double(), f(3, **positive).double(), grad=grad)
        if name in ("pow", "atan2"):
            continue
        for dtype in (torch.int64, torch.int32, torch.int16, torch.uint8):
            # No division by zero: PyTorch raises for integers.
            left = torch.tensor([7, 100, 3, 0, 5, 127], dtype=dtype)
            right = torch.tensor([2, 3, 3, 5, 7, 127], dtype=dtype)
            case(f"{name} {dtype}".replace("torch.", ""), fn, left, right)
        case(f"{name} negative int64", fn, i64(7, -7, 7, -7, -8, 0), i64(2, 2, -2, -2, 4, -3))
    big = i64(2**62, -(2**62), 2**53 + 1, -(2**63), 2**63 - 1)
    for name in ("add", "sub", "mul", "maximum", "minimum", "eq", "lt"):
        case(f"{name} big int64", (ARITHMETIC | COMPARISON)[name], big, i64(2**62, 5, 2**53, 1, 1))


REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin, "variance": torch.var, "std": torch.std,
}


def reductions():
    for name, fn in REDUCTIONS.items():
        options = (lambda keep: {"keepDim": keep}) if name in ("variance", "std") else (lambda keep: keep)
        for dims in (0, 1, -1, [0, 2], [0, 1], [1, 2], [0, 1, 2]):
            case(f"{name} {dims}", lambda t, d=dims, fn=fn: fn(t, dim=d), f(2, 3, 4), key=name, args=[dims])
        case(f"{name} kept", lambda t, fn=fn: fn(t, dim=[0, 2], keepdim=True), f(2, 3, 4), key=name, args=[[0, 2], options(True)])
        case(f"{name} transposed", lambda t, fn=fn: fn(t, dim=0), f(3, 4), key=name, args=[0], view="transposed")
        case(f"{name} stepped", lambda t, fn=fn: fn(t, dim=1), f(5, 4), key=name, args=[1], view="stepped")
        case(f"{name} expanded", lambda t, fn=fn: fn(t, dim=0), f(4), key=name, args=[0], view="expanded")
        case(f"{name} zero size", lambda t, fn=fn: fn(t, dim=2), torch.zeros(2, 0, 3), key=name, args=[2])
        case(f"{name} long", lambda t, fn=fn: fn(t, dim=1), f(2, 1500), key=name, args=[1], long=True)
        if name not in ("variance", "std"):
            extreme = torch.tensor([[1.0, INF, -2], [NAN, 1, 2], [-INF, 1, 3], [3e38, 3e38, -3e38]])
            case(f"{name} extreme", lambda t, fn=fn: fn(t, dim=1), extreme, key=name, args=[1])
    for name in ("sum", "prod"):
        fn = getattr(torch, name)
        for shape, dim in (((0, 3), 0), ((2, 0), 1), ((0,), 0)):
            case(f"{name} empty {shape}", lambda t, fn=fn, d=dim: fn(t, dim=d), torch.zeros(*shape), key=name, args=[dim])
        for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):
            case(f"{name} {dtype}".replace("torch.", ""), fn, torch.tensor([[3, 0, 1], [2, 2, 1]]).to(dtype), key=name)
    case("mean empty", torch.mean, torch.zeros(0), key="mean")
    for dim in (0, 1, 2):
        case(f"prod {dim} of 3", lambda t, d=dim: t.prod(d), f(2, 3, 4), key="prod", args=[dim])
    case("prod zeros in rows", lambda t: t.prod(1), torch.tensor([[0.0, 2, 3], [0, 0, 3], [1, 2, 3]]), key="prod", args=[1])
    case("prod long", lambda t: t.prod(0), f(60, 3, low=0.5, high=1.5), key="prod", args=[0], long=True)
    ties = torch.tensor([[1.0, 3, 3, 3], [2, 2, 2, 2], [-1, -1, 0, 0]])
    for name in ("amax", "amin"):
        case(f"{name} tied all", getattr(torch, name), ties, key=name)
        case(f"{name} tied two dims", lambda t, n=name: getattr(torch, n)(t, dim=[0, 1]), ties, key=name, args=[[0, 1]])
    for name, ours in (("max", "maxValues"), ("min", "minValues")):
        case(f"{name} tied", lambda t, n=name: getattr(torch, n)(t, 1).values, ties, key=ours, args=[1])
        case(f"{name} nan", lambda t, n=name: getattr(torch, n)(t, 0).values, torch.tensor([[1.0, NAN], [2, 0]]), key=ours, args=[0])
    for name, ours in (("argmax", "argMax"), ("argmin", "argMin")):
        for dim in (None, 0, 1):
            case(f"{ours} {dim}", lambda t, n=name, d=dim: getattr(torch, n)(t, d), ties, key=ours, args=[] if dim is None else [dim])
    for name in ("any", "all"):
        fn = getattr(torch, name)
        case(f"{name} bool", lambda t, fn=fn: fn(t, 1), torch.tensor([[True, False], [True, True], [False, False]]), key=name, args=[1])
        case(f"{name} float", lambda t, fn=fn: fn(t, 0), torch.tensor([[0.0, NAN], [0, 2]]), key=name, args=[0], grad=False)
        case(f"{name} empty", lambda t, fn=fn: fn(t, 1), torch.zeros(2, 0), key=name, args=[1], grad=False)
    for name, ours in (("cumsum", "cumsum"), ("cumprod", "cumprod")):
        fn = getattr(torch, name)
        for dim in (0, 1, -1):
            case(f"{ours} {dim}", lambda t, fn=fn, d=dim: fn(t, d), f(3, 2, 4, low=0.4), key=ours, args=[dim])
        case(f"{ours} empty", lambda t, fn=fn: fn(t, 1), torch.zeros(2, 0), key=ours, args=[1])
        case(f"{ours} transposed", lambda t, fn=fn: fn(t, 1), f(3, 4, low=0.4), key=ours, args=[1], view="transposed")
        case(f"{ours} extreme", lambda t, fn=fn: fn(t, 0), torch.tensor([1.0, 2, INF, 1, NAN, 3]), key=ours, args=[0], grad=False)
        case(f"{ours} int32", lambda t, fn=fn: fn(t, 0), torch.tensor([3, 4, 5], dtype=torch.int32), key=ours, args=[0])
    case("cumprod zero", lambda t: t.cumprod(0), torch.tensor([2.0, 0, 3, 4]), key="cumprod", args=[0])
    case("cumprod two zeros", lambda t: t.cumprod(1), torch.tensor([[2.0, 0, 3, 0, 5], [0, 1, 2, 3, 4]]), key="cumprod", args=[1])
    for p in (1, 2, 3, 0.5, INF, -INF, 0):
        arg = {INF: "inf", -INF: "-inf"}.get(p, p)
        case(f"norm {p}", lambda t, p=p: torch.linalg.vector_norm(t, p, dim=1), f(3, 4), key="norm", args=[arg, 1])
        case(f"norm {p} all kept", lambda t, p=p: torch.linalg.vector_norm(t, p, dim=(0, 1), keepdim=True), f(3, 4), key="norm", args=[arg, [0, 1], True])
    case("norm with zero row", lambda t: torch.linalg.vector_norm(t, 2, dim=1), torch.tensor([[0.0, 0], [3, 4]]), key="norm", args=[2, 1])
    case("norm infinity tied", lambda t: torch.linalg.vector_norm(t, INF, dim=1), torch.tensor([[2.0, -2, 1]]), key="norm", args=["inf", 1])
    case("norm long", torch.linalg.vector_norm, f(2500), key="norm", long=True)
    case("normalize", lambda t: F.normalize(t, dim=1), f(3, 4), args=[2, 1])
    case("normalize zero", lambda t: F.normalize(t, dim=1), torch.tensor([[0.0, 0], [3, 4]]), key="normalize", args=[2, 1], grad=False)
    case("cosineSimilarity", lambda a, b: F.cosine_similarity(a, b, dim=1), f(3, 4), f(3, 4), args=[1])
    for correction in (0, 1, 2):
        case(f"variance {correction}", lambda t, c=correction: t.var(1, correction=c), f(3, 5), key="variance", args=[1, {"correction": correction}])
    case("variance of one", lambda t: t.var(1), f(3, 1), key="variance", args=[1], grad=False)
    case("variance of equal", lambda t: t.var(1), torch.full((2, 3), 0.1), key="variance", args=[1])
    case("variance far from zero", lambda t: t.var(1), f(3, 50) + 1000, key="variance", args=[1], long=True)
    for name, fn in (("softmax", F.softmax), ("logSoftmax", F.log_softmax), ("logSumExp", torch.logsumexp)):
        for dim in (0, 1, -1):
            case(f"{name} {dim} of 3", lambda t, fn=fn, d=dim: fn(t, d), f(2, 3, 4), key=name, args=[dim])
        case(f"{name} empty", lambda t, fn=fn: fn(t, 1), torch.zeros(0, 3), key=name, args=[1])
        case(f"{name} transposed", lambda t, fn=fn: fn(t, 1), f(3, 4), key=name, args=[1], view="transposed")
        case(f"{name} ties", lambda t, fn=fn: fn(t, 1), torch.ones(2, 3), key=name, args=[1])
        far = torch.tensor([[1000.0, 999, -1000], [-INF, 0, 1], [-1000, -1001, -1002]])
        case(f"{name} far", lambda t, fn=fn: fn(t, 1), far, key=name, args=[1])
        case(f"{name} nan", lambda t, fn=fn: fn(t, 1), torch.tensor([[1.0, NAN], [INF, 0], [-INF, -INF]]), key=name, args=[1], grad=False)
        case(f"{name} long", lambda t, fn=fn: fn(t, 0), f(1500), key=name, args=[0], long=True)


def products():
    for name, a, b in (
        ("rows", (1, 5), (5, 1)), ("wide", (3, 2), (2, 9)), ("batch of one", (1, 2, 3), (4, 3, 2)), ("matrix by batch", (2, 3), (4, 3, 2)),
        ("batch by matrix", (4, 2, 3), (3, 2)), ("batch by vector", (4, 2, 3), (3,)), ("vector by batch", (3,), (4, 3, 2)),
        ("no rows", (0, 3), (3, 2)), ("no columns", (2, 3), (3, 0)), ("no terms", (2, 0), (0, 3)), ("no batches", (0, 2, 3), (0, 3, 2)),
    ):
        case(f"matmul {name}", torch.matmul, f(*a), f(*b), key="matmul", long=True)
    case("matmul transposed", torch.matmul, f(3, 4), f(5, 3), key="matmul", view="transposed", long=True)
    case("matmul stepped", torch.matmul, f(5, 3), f(6, 4), key="matmul", view="stepped", long=True)
    case("matmul extreme", torch.matmul, torch.tensor([[INF, 0], [NAN, 1], [3e38, 3e38]]), torch.tensor([[1.0, 0], [1, 2]]), key="matmul", grad=False)
    case("matmul blocks", torch.matmul, f(33, 65), f(65, 34), key="matmul", long=True)
    case("matmul float64", torch.matmul, f(3, 4).double(), f(4, 2).double(), key="matmul")
    case("bmm", torch.bmm, f(2, 3, 4), f(2, 4, 2), long=True)
    case("mm", torch.mm, f(3, 4), f(4, 2), long=True)
    case("dot", torch.dot, f(5), f(5), long=True)
    case("outer", torch.outer, f(3), f(4))
    case("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), f(2), f(3, 4), f(4, 2), args=[{"beta": 0.5, "alpha": 2}], long=True)
    case("linear batch", F.linear, f(2, 5, 3), f(4, 3), f(4), key="linear", long=True)
    case("linear no bias", F.linear, f(2, 3), f(4, 3), key="linear", long=True)
    case("linear no rows", F.linear, f(0, 3), f(4, 3), f(4), key="linear", long=True)
    eye = torch.eye(3)
    for name, fn in (("inverse", torch.linalg.inv), ("det", torch.linalg.det)):
        case(f"{name} one by one", fn, f(2, 1, 1, low=1), key=name, long=True)
        case(f"{name} no batches", fn, torch.zeros(0, 3, 3), key=name)
        case(f"{name} transposed", fn, f(3, 3) + 3 * eye, key=name, view="transposed", long=True)
        case(f"{name} of five", fn, f(5, 5) + 4 * torch.eye(5), key=name, long=True)
    case("det singular", torch.linalg.det, torch.tensor([[1.0, 2], [2, 4]]), key="det", grad=False)
    case("solve batch", torch.linalg.solve, f(2, 3, 3) + 4 * eye, f(2, 3, 2), key="solve", long=True)
    case("solve broadcast", torch.linalg.solve, f(3, 3) + 4 * eye, f(2, 3, 2), key="solve", long=True)
    case("solve vector", torch.linalg.solve, f(3, 3) + 4 * eye, f(3), key="solve", long=True)
    case("cholesky batch", lambda t: torch.linalg.cholesky(t @ t.mT + 4 * torch.eye(3, dtype=t.dtype)), f(2, 3, 3), key="choleskyOfSquare", long=True)
    for causal in (False, True):
        case(f"attention causal {causal}", lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), f(2, 2, 3, 4), f(2, 2, 3, 4), f(2, 2, 3, 5), key="scaledDotProductAttention", args=[{"causal": causal}], long=True)


def indexing():
    table = i64([[0, 2, 2], [1, 1, 0]])
    for dim in (0, 1, -1):
        case(f"indexSelect {dim}", lambda t, i, d=dim: t.index_select(d, i), f(3, 4), i64(2, 0, 2, 1), key="indexSelectBy", args=[dim])
        shape = {0: (4, 4)}.get(dim, (3, 4))
        case(f"indexAdd {dim}", lambda t, i, s, d=dim: t.index_add(d, i, s), f(3, 4), i64(2, 0, 2, 1), f(*shape), key="indexAddBy", args=[dim])
    case("indexSelect none", lambda t, i: t.index_select(0, i), f(3, 4), torch.zeros(0, dtype=torch.int64), key="indexSelectBy", args=[0])
    case("indexSelect stepped", lambda t, i: t.index_select(1, i), f(5, 3), i64(2, 2, 0), key="indexSelectStepped", args=[1])
    case("gather 0", lambda t, i: t.gather(0, i), f(3, 3), table, key="gatherBy", args=[0])
    case("gather none", lambda t, i: t.gather(1, i), f(2, 3), torch.zeros(2, 0, dtype=torch.int64), key="gatherBy", args=[1])
    case("scatter", lambda t, i, s: t.scatter(1, i, s), f(2, 3), i64([[0, 2], [1, 0]]), f(2, 2), key="scatterBy", args=[1])
    case("scatterAdd 0", lambda t, i, s: t.scatter_add(0, i, s), f(3, 3), table, f(2, 3), key="scatterAddBy", args=[0])
    case("oneHot", lambda i: F.one_hot(i, 4), i64(3, 0, 3), args=[4])
    mask = torch.tensor([[True, False, True], [False, False, True]])
    case("where mask", torch.where, mask, f(2, 3), f(3), key="where")
    case("where column", torch.where, mask[:, :1], f(2, 3), f(1, 1), key="where")
    case("where extreme", torch.where, torch.tensor([True, False, True]), torch.tensor([NAN, INF, 1]), torch.tensor([1.0, 2, NAN]), key="where")
    case("where empty", torch.where, mask[:0], f(0, 3), f(1), key="where")
    case("maskedFill", lambda t, m: t.masked_fill(m, -INF), f(2, 3), mask, args=["-inf"])
    case("maskedSelect", torch.masked_select, f(2, 3), mask)
    case("maskedSelect nothing", torch.masked_select, f(2, 3), mask & False, key="maskedSelect")
    for low, high in ((-1, None), (None, 0.5), (-1, 1), (1, -1)):
        case(f"clamp {low} {high}", lambda t, a=low, b=high: t.clamp(a, b), torch.tensor([-2.0, -1, 0, 0.5, 1, 2, NAN, INF, -INF]), key="clamp", args=[low, high] if low is not None else ["undefined", high])
    tied = torch.tensor([[3.0, 1, 3, 2], [1, 1, 5, 1]])
    for descending in (False, True):
        for dim in (0, 1):
            case(f"sort {dim} {descending}", lambda t, d=dim, e=descending: t.sort(dim=d, descending=e, stable=True).values, tied, key="sortValues", args=[dim, descending])
            case(f"argSort {dim} {descending}", lambda t, d=dim, e=descending: t.argsort(dim=d, descending=e, stable=True), tied, key="argSort", args=[dim, descending], grad=False)
    case("sort empty", lambda t: t.sort(dim=1).values, torch.zeros(2, 0), key="sortValues", args=[1])
    case("sort nan", lambda t: t.sort(dim=0, stable=True).values, torch.tensor([NAN, 1, -INF, INF, 0]), key="sortValues", args=[0])
    case("topK smallest", lambda t: t.topk(3, 1, largest=False).values, f(2, 5), key="topKValues", args=[3, 1, False])
    case("topK int64", lambda t: t.topk(2).values, i64(5, 9, -2, 7), key="topKValues", args=[2])
    case("unique", lambda t: t.unique(), torch.tensor([3.0, 1, 3, 2, 1]), key="uniqueValues", grad=False)
    case("bincount", lambda t: t.bincount(), i64(3, 1, 3, 0), grad=False)
    case("bincount weights", lambda t, w: t.bincount(w), i64(3, 1, 3, 0), f(4), key="bincount", grad=False)
    case("nonzero", torch.nonzero, torch.tensor([[0.0, 1], [NAN, 0]]), grad=False)


def shapes():
    for name, fn, args in (
        ("reshape", lambda t: t.reshape(4, 6), [[4, 6]]), ("flatten", lambda t: t.flatten(1), [1]), ("transpose", lambda t: t.transpose(0, 2), [0, 2]),
        ("permute", lambda t: t.permute(2, 0, 1), [[2, 0, 1]]), ("narrow", lambda t: t.narrow(2, 1, 2), [2, 1, 2]), ("narrow", lambda t: t.narrow(1, 2, 0), [1, 2, 0]),
        ("select", lambda t: t.select(1, -1), [1, -1]), ("slice", lambda t: t[:, :, 0:4:3], [2, 0, 4, 3]), ("slice", lambda t: t[:, -2:], [1, -2]),
        ("unsqueeze", lambda t: t.unsqueeze(-1), [-1]), ("squeeze", lambda t: t.squeeze(0), [0]), ("expand", lambda t: t.expand(5, 2, 3, 4), [[5, 2, 3, 4]]),
        ("tile", lambda t: t.tile(2, 1, 3, 1), [[2, 1, 3, 1]]), ("roll", lambda t: t.roll(-3, 2), [-3, 2]), ("flip", lambda t: t.flip([0, 2]), [[0, 2]]),
        ("tril", lambda t: t.tril(1), [1]), ("triu", lambda t: t.triu(-1), [-1]), ("diagonal", lambda t: t.diagonal(dim1=-2, dim2=-1), []),
        ("diagEmbed", lambda t: t.diag_embed(), []), ("pad", lambda t: F.pad(t, (-1, 2, 1, 0), value=-0.5), [[-1, 2, 1, 0], -0.5]),
        ("clone", lambda t: t.clone(), []),
    ):
        case(f"{name} {args}", fn, f(2, 3, 4), key=f".{name}", args=args)
        if name not in ("transpose", "diagEmbed"):
            case(f"{name} {args} transposed", fn, f(2, 4, 3), key=f".{name}", args=args, view="transposed")
    case("trace", torch.trace, f(3, 4))
    case("concat", lambda a, b: torch.cat([a, b, a], 1), f(2, 3), f(2, 1), key="concatThree", args=[1])
    case("concat empty", lambda a, b: torch.cat([a, b, a], 0), f(2, 3), f(0, 3), key="concatThree", args=[0])
    case("concat promoted", lambda a, b: torch.cat([a, b, a], 0), f(2).double(), f(1), key="concatThree", args=[0])
    case("stack", lambda a, b: torch.stack([a, b, a], -1), f(2, 3), f(2, 3), key="stackThree", args=[-1])
    case("stack transposed", lambda a, b: torch.stack([a, b, a], 0), f(2, 3), f(2, 3), key="stackThree", args=[0], view="transposed")


def images():
    for name, x, w, options, ours in (
        ("plain", (2, 2, 5, 4), (3, 2, 2, 3), {}, {}), ("one by one", (2, 3, 3, 3), (4, 3, 1, 1), {}, {}),
        ("strided", (1, 2, 7, 8), (2, 2, 3, 3), {"stride": (2, 3)}, {"stride": [2, 3]}), ("padded", (1, 2, 4, 4), (2, 2, 3, 3), {"padding": (2, 1)}, {"padding": [2, 1]}),
        ("dilated", (1, 1, 7, 7), (2, 1, 3, 2), {"dilation": (2, 3)}, {"dilation": [2, 3]}), ("depthwise", (2, 3, 5, 5), (6, 1, 3, 3), {"groups": 3, "padding": 1}, {"groups": 3, "padding": 1}),
        ("no images", (0, 2, 5, 4), (3, 2, 2, 3), {}, {}), ("whole", (2, 2, 3, 3), (5, 2, 3, 3), {}, {}),
    ):
        case(f"conv2d {name}", lambda x, w, o=options: F.conv2d(x, w, **o), f(*x), f(*w), key="conv2d", args=[ours], long=True)
        if name not in ("depthwise", "no images"):
            back = (x[0], w[0], *x[2:])
            case(f"convTranspose2d {name}", lambda x, w, o=options: F.conv_transpose2d(x, w, **o), f(*back), f(*w), key="convTranspose2d", args=[ours], long=True)
    case("conv2d transposed", F.conv2d, f(1, 2, 5, 4), f(3, 2, 2, 3), key="conv2d", view="transposed", long=True)
    case("conv1d strided", lambda x, w: F.conv1d(x, w, stride=2, dilation=2), f(2, 3, 9), f(2, 3, 3), key="conv1d", args=[{"stride": 2, "dilation": 2}], long=True)
    tied = torch.tensor([[[[1.0, 1, 2, 2], [1, 1, 2, 2], [NAN, 0, -INF, -INF], [0, 0, -INF, -INF]]]])
    for kernel, stride, padding in ((2, 2, 0), (2, 1, 1), (3, 2, 1), ((1, 3), (1, 2), (0, 1))):
        args = [kernel if isinstance(kernel, int) else list(kernel), {"stride": stride if isinstance(stride, int) else list(stride), "padding": padding if isinstance(padding, int) else list(padding)}]
        case(f"maxPool2d {kernel} {stride}", lambda t, k=kernel, s=stride, p=padding: F.max_pool2d(t, k, s, p), f(2, 2, 6, 5), key="maxPool2d", args=args)
        case(f"maxPool2d tied {kernel} {stride}", lambda t, k=kernel, s=stride, p=padding: F.max_pool2d(t, k, s, p), tied, key="maxPool2d", args=args)
        case(f"avgPool2d {kernel} {stride}", lambda t, k=kernel, s=stride, p=padding: F.avg_pool2d(t, k, s, p), f(2, 2, 6, 5), key="avgPool2d", args=args)
    case("maxPool2d transposed", lambda t: F.max_pool2d(t, 2), f(1, 2, 4, 6), key="maxPool2d", args=[2], view="transposed")
    case("avgPool2d transposed", lambda t: F.avg_pool2d(t, 2), f(1, 2, 4, 6), key="avgPool2d", args=[2], view="transposed")
    for size in ((1, 1), (2, 2), (5, 3)):
        case(f"adaptiveAvgPool2d {size}", lambda t, s=size: F.adaptive_avg_pool2d(t, s), f(2, 2, 5, 7), key="adaptiveAvgPool2d", args=[list(size)])


def normalisation():
    case("layerNorm two dims", lambda t, w, b: F.layer_norm(t, (3, 4), w, b), f(2, 3, 4), f(3, 4), f(3, 4), key="layerNormOver", args=[[3, 4]], long=True)
    case("layerNorm plain", lambda t: F.layer_norm(t, (4,)), f(3, 4), key="layerNormOver", args=[[4]], long=True)
    case("layerNorm equal", lambda t: F.layer_norm(t, (4,)), torch.full((2, 4), 0.3), key="layerNormOver", args=[[4]], long=True)
    case("layerNorm transposed", lambda t: F.layer_norm(t, (3,)), f(3, 4), key="layerNormOver", args=[[3]], view="transposed", long=True)
    case("layerNorm far", lambda t: F.layer_norm(t, (40,)), f(2, 40) + 100, key="layerNormOver", args=[[40]], long=True)
    case("layerNorm no rows", lambda t: F.layer_norm(t, (4,)), torch.zeros(0, 4), key="layerNormOver", args=[[4]])
    for groups in (1, 2, 4):
        case(f"groupNorm {groups}", lambda t, g=groups: F.group_norm(t, g), f(2, 4, 3), key="groupNorm", args=[groups], long=True)
    case("batchNorm images", lambda t: F.batch_norm(t, None, None, training=True), f(3, 2, 4, 4), key="batchNormPlain", long=True)
    case("batchNorm running", lambda t, m, v, w, b: F.batch_norm(t, m.detach(), v.detach(), w, b, False), f(4, 3), f(3), f(3, low=0.5), f(3), f(3), key="batchNormRunning", long=True)
    case("batchNorm equal", lambda t: F.batch_norm(t, None, None, training=True), torch.full((4, 2), 0.7), key="batchNormPlain", long=True)


def losses():
    near = torch.tensor([-2.0, -1, -0.5, 0, 0.5, 1, 2])
    for name, fn in (("mseLoss", F.mse_loss), ("l1Loss", F.l1_loss), ("smoothL1Loss", F.smooth_l1_loss), ("huberLoss", F.huber_loss)):
        for reduction in ("mean", "sum", "none"):
            case(f"{name} {reduction}", lambda a, b, fn=fn, r=reduction: fn(a, b, reduction=r), f(3, 4), f(3, 4), key=name, args=[{"reduction": reduction}])
        case(f"{name} kinks", lambda a, b, fn=fn: fn(a, b, reduction="none"), near, torch.zeros(7), key=name, args=[{"reduction": "none"}])
        case(f"{name} empty", lambda a, b, fn=fn: fn(a, b, reduction="sum"), torch.zeros(0, 2), torch.zeros(0, 2), key=name, args=[{"reduction": "sum"}])
        case(f"{name} transposed", fn, f(3, 4), f(3, 4), key=name, view="transposed")
    probabilities, hard = torch.tensor([0.0, 1e-10, 0.3, 0.9, 1.0, 0.0]), torch.tensor([0.0, 1, 0.5, 1, 1, 1])
    for reduction in ("mean", "sum", "none"):
        case(f"binaryCrossEntropy {reduction}", lambda a, b, r=reduction: F.binary_cross_entropy(a, b, reduction=r), probabilities, hard, key="binaryCrossEntropyTo", args=[{"reduction": reduction}])
        case(f"binaryCrossEntropyWithLogits {reduction}", lambda a, b, r=reduction: F.binary_cross_entropy_with_logits(a, b, reduction=r), torch.tensor([-100.0, -20, 0, 0.5, 20, 100]), hard, key="binaryCrossEntropyWithLogitsTo", args=[{"reduction": reduction}])
        case(f"klDiv {reduction}", lambda a, b, r=reduction: F.kl_div(a, b, reduction=r), f(2, 3, low=-4, high=-0.1), torch.tensor([[0.0, 0.1, 0.9], [0.2, 0.8, 0]]), key="klDivTo", args=[{"reduction": reduction}])
        y = i64(1, -100, 4, 0)
        weight = torch.tensor([1.0, 2, 0.5, 1, 3])
        for smoothing in (0, 0.1):
            case(f"crossEntropy {reduction} {smoothing}", lambda t, w, r=reduction, s=smoothing: F.cross_entropy(t, y, weight=w.detach(), reduction=r, label_smoothing=s), f(4, 5), weight, key="crossEntropyWith", args=[{"reduction": reduction, "labelSmoothing": smoothing}])
        case(f"nllLoss {reduction}", lambda t, r=reduction: F.nll_loss(t, y, reduction=r), f(4, 5), key="nllLossOf", args=[{"reduction": reduction}])
    case("crossEntropy far", lambda t: F.cross_entropy(t, i64(0, 1)), torch.tensor([[1000.0, 0, -1000], [1000, 0, -1000]]), key="crossEntropyFirst")
    case("crossEntropy tied", lambda t: F.cross_entropy(t, i64(0, 1)), torch.zeros(2, 3), key="crossEntropyFirst")
    case("crossEntropy infinite", lambda t: F.cross_entropy(t, i64(0, 1)), torch.tensor([[0.0, -INF, 1], [-INF, 0, 0]]), key="crossEntropyFirst")
    case("crossEntropy transposed", lambda t: F.cross_entropy(t, i64(0, 1)), f(3, 2), key="crossEntropyFirst", view="transposed")


def sparse():
    def coo(values, dense_dim=False):
        return torch.sparse_coo_tensor(i64([[2, 0, 2]]) if dense_dim else i64([[2, 0, 2], [1, 0, 1]]), values, (3, 4) if dense_dim else (3, 2))

    case("sparse to dense", lambda v: coo(v).to_dense(), f(3), key="sparse:dense")
    case("sparse rows to dense", lambda v: coo(v, True).to_dense(), f(3, 4), key="sparse:rows")
    case("sparse coalesced", lambda v: coo(v).coalesce().to_dense(), f(3), key="sparse:coalesce")
    case("sparse and sparse", lambda v, w: (coo(v) + coo(w)).to_dense(), f(3), f(3), key="sparse:sum")
    case("dense and sparse", lambda d, v: d + coo(v), f(3, 2), f(3), key="sparse:mixed")
    case("sparse times number", lambda v: (coo(v) * 2.5).to_dense(), f(3), key="sparse:scaled")
    case("sparse times dense", lambda v, d: (coo(v).coalesce() * d).to_dense(), f(3), f(3, 2), key="sparse:times")
    case("sparse product", lambda v, d: torch.sparse.mm(coo(v), d), f(3), f(2, 4), key="sparse:matmul", long=True)
    weights = f(6, 3)
    for mode in ("sum", "mean"):
        case(f"embedding bag {mode}", lambda w, m=mode: F.embedding_bag(i64(1, 2, 4, 5, 4), w, i64(0, 2, 2), mode=m), weights, key=f"bag:{mode}")
    case("embedding", lambda w: F.embedding(i64([[1, 1], [5, 0]]), w), weights, key="embedding")


def complexes():
    def pairs(fn):
        return lambda *parts: torch.view_as_real(fn(*[torch.complex(a, b) for a, b in zip(parts[::2], parts[1::2])]))

    two = [f(2, 3) for _ in range(4)]
    for name, fn in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div)):
        case(f"complex {name}", pairs(fn), *two, key=f"complex:{name}")
    case("complex mul broadcast", pairs(torch.mul), f(2, 3), f(2, 3), f(3), f(3), key="complex:mul")
    case("complex matmul", pairs(torch.matmul), f(2, 3), f(2, 3), f(3, 2), f(3, 2), key="complex:matmul", long=True)
    for name in "neg exp log square conj".split():
        case(f"complex {name}", pairs(lambda t, n=name: getattr(torch, n)(t).resolve_conj()), f(5), f(5), key=f"complex:{name}")
    for name in "sum mean".split():
        case(f"complex {name}", pairs(lambda t, n=name: getattr(t, n)(0)), f(3, 2), f(3, 2), key=f"complex:{name}0")
    for name in "abs angle".split():
        case(f"complex {name}", lambda a, b, n=name: getattr(torch, n)(torch.complex(a, b)), f(5), f(5), key=f"complexTo:{name}")
    case("complex abs zero", lambda a, b: torch.complex(a, b).abs(), torch.tensor([0.0, 3]), torch.tensor([0.0, 4]), key="complexTo:abs")


def record():
    for group in (unary, binary, reductions, products, indexing, shapes, images, normalisation, losses, sparse, complexes):
        group()
