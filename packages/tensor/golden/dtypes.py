"""Which dtypes each operation takes, and what it gives for them: dtypes.json.

Every operation on each dtype alone, and on each pair of dtypes where it has two operands; what PyTorch raises for is kept as null. Run by
`npm run golden`, as make.py.
"""
import math

import torch
import torch.nn.functional as F

from recording import keep, plain

NAMES = "float16 bfloat16 float32 float64 complex64 int8 uint8 int16 int32 int64 bool".split()
DTYPES = {name: getattr(torch, name) for name in NAMES}

# Values that every floating dtype holds. The second operand has no zero: integers raise for dividing by it, which says nothing of dtypes.
SAMPLES = {
    "first": {
        "float": [0.5, 1.5, -2.5, 0, 3.5, 1, -0.25, 2, 0.75, -1, 4, 6],
        "int": [1, 2, -3, 0, 5, 4, -1, 2, 7, -6, 3, 1],
        "bool": [True, False, True, True, False, False, True, False, True, True, True, False],
        "imag": [1, -0.5, 0, 2, 0.5, -1, 1.5, 0, -2, 0.25, 1, -3],
    },
    "second": {
        "float": [2, 0.5, -1.5, 3, 1, 2.5, -2, 0.25, 1.5, 4, -0.5, 2],
        "int": [2, 1, -3, 3, 1, 2, -2, 4, 1, 5, -1, 2],
        "bool": [True] * 12,
        "imag": [-1, 0.5, 1, 0, 2, -0.5, 0.25, -2, 0, 1, 1.5, 0.5],
    },
    # Between 0 and 1, as probabilities are.
    "unit": {
        "float": [0.5, 0.25, 0.75, 0.125, 0.875, 0.5, 0.25, 0.5, 0.625, 0.375, 0.75, 0.25],
        "int": [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0],
        "bool": [False, True, True, False, True, False, False, True, True, True, False, False],
        "imag": [0] * 12,
    },
    # Rows of which each is a positive definite matrix of two by two.
    "definite": {
        "float": [4, 1, 1, 3, 2, 0.5, 0.5, 1, 3, -1, -1, 2],
        "int": [4, 1, 1, 3, 2, 1, 1, 2, 3, -1, -1, 2],
        "bool": [True, False, False, True] * 3,
        "imag": [0] * 12,
    },
}


def sample(kind, name, shape):
    rows, n = SAMPLES[kind], math.prod(shape)
    pick = lambda part: [rows[part][i % 12] for i in range(n)]
    dtype = DTYPES[name]
    if name == "complex64":
        values = [complex(a, b) for a, b in zip(pick("float"), pick("imag"))]
    elif dtype.is_floating_point:
        values = pick("float")
    elif name == "bool":
        values = pick("bool")
    else:
        values = [abs(v) for v in pick("int")] if name == "uint8" else pick("int")
    return torch.tensor(values, dtype=dtype).reshape(shape)


def numbers(t):
    """The elements as JSON has them; a complex one as two."""
    t = t.detach()
    if t.is_sparse:
        t = t.to_dense()
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj().resolve_neg())
    if t.dtype in (torch.float16, torch.bfloat16, torch.float32):
        # Through text, a float32 takes half the digits of the same number as a double.
        return [plain(float(str(v))) for v in t.float().flatten().numpy()]
    return [plain(v) for v in t.flatten().tolist()]


class Vary:
    """An input whose dtype varies: as the first or as the second of a pair."""

    def __init__(self, shape, turn=0, of=None):
        self.shape, self.turn = list(shape), turn
        self.of = of or ("first" if turn == 0 else "second")

    def make(self, pair):
        return sample(self.of, pair[self.turn], self.shape)

    def record(self):
        return {"of": self.of, "turn": self.turn, "shape": self.shape}


class Fixed:
    """An input that is the same for every dtype."""

    def __init__(self, values, dtype="int64"):
        self.values, self.dtype = values, dtype

    def make(self, pair):
        return torch.tensor(self.values, dtype=DTYPES[self.dtype])

    def record(self):
        return {"values": self.values, "dtype": self.dtype}


cases = []


def answer(fn, inputs, pair, values):
    try:
        out = fn(*[i.make(pair) for i in inputs])
    except Exception as error:  # noqa: BLE001 - whatever it raises, it does not take these dtypes
        text = str(error)
        # Of what this program may have wrong, not of dtypes.
        if isinstance(error, (AttributeError, NameError, AssertionError)):
            raise
        # It has the dtype, but no kernels for it.
        return "complex32" if "ComplexHalf" in text else None
    return [str(out.dtype).removeprefix("torch."), *(numbers(out) if values else [])]


def case(name, fn, *inputs, args=(), key=None, values=True):
    """
    One operation on every dtype, or on every pair of dtypes where one of the inputs is the second of a pair. `key` names our function,
    `args` what follows the tensors. `values` False keeps the result's dtype alone, for what is random, or costs much and says little.
    """
    inputs = [i if isinstance(i, (Vary, Fixed)) else Vary(i) for i in inputs]
    pairs = any(isinstance(i, Vary) and i.turn == 1 for i in inputs)
    every = [(a, b) for a in NAMES for b in NAMES] if pairs else [(a,) for a in NAMES]
    record = {"name": name, "fn": key or name.split(" ")[0], "inputs": [i.record() for i in inputs]}
    if args:
        record["args"] = list(args)
    record["answers"] = {",".join(p): answer(fn, inputs, p, values) for p in every}
    cases.append(record)


A, B = Vary([2, 3]), Vary([2, 3], 1)
SAME = Vary([2, 3], 0, "second")
INDEX = Fixed([1, 0, 1])


def unary():
    for name in (
        "neg abs sign exp expm1 log log1p log2 sqrt rsqrt square reciprocal relu sigmoid tanh sin cos tan asin acos atan sinh cosh asinh "
        "acosh atanh erf floor ceil round trunc"
    ).split():
        case(name, getattr(torch, name), A)
    for ours, name in (("logicalNot", "logical_not"), ("isNaN", "isnan"), ("isInf", "isinf"), ("isFinite", "isfinite")):
        case(ours, getattr(torch, name), A)
    for ours in "softplus logSigmoid gelu silu mish leakyRelu elu selu relu6 hardtanh hardSigmoid hardSwish softsign".split():
        case(ours, getattr(F, {"leakyRelu": "leaky_relu"}.get(ours, ours.lower())), A)
    case("gelu tanh", lambda t: F.gelu(t, approximate="tanh"), A, args=["tanh"])
    for name in "real imag conj angle".split():
        fn = getattr(torch, name)
        case(name, lambda t, fn=fn: fn(t).clone().resolve_conj(), A)
    case("complex", torch.complex, A, B)
    for bounds in ((1, 3), (0.5, 1.5), (None, 2), (-1, None)):
        given = ["none" if b is None else b for b in bounds]
        case(f"clamp {given}", lambda t, b=bounds: t.clamp(*b), A, args=given)
    mask = Fixed([[True, False, True], [False, True, True]], "bool")
    for value in (2, 1.5, -1):
        case(f"maskedFill {value}", lambda t, m, v=value: t.masked_fill(m, v), A, mask, args=[value])
    case("maskedFill by", lambda t, m: t.masked_fill(m, 1), Fixed([[1.0, 2, 3], [4, 5, 6]], "float32"), Vary([2, 3], 0, "unit"), args=[1])


ARITHMETIC = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum,
    "pow": torch.pow, "atan2": torch.atan2, "remainder": torch.remainder, "floorDivide": torch.floor_divide,
}
COMPARISON = {n: getattr(torch, n) for n in "eq ne lt le gt ge".split()} | {
    "logicalAnd": torch.logical_and, "logicalOr": torch.logical_or, "logicalXor": torch.logical_xor,
}


def binary():
    scalar, other = Vary([]), Vary([], 1)
    for name, fn in (ARITHMETIC | COMPARISON).items():
        case(name, fn, A, B)
        case(f"{name} by 0-dim", fn, A, other, values=False)
        case(f"{name} of 0-dim", fn, scalar, B, values=False)
        case(f"{name} 0-dim both", fn, scalar, other, values=False)
        if name in ("maximum", "minimum", "atan2", "logicalAnd", "logicalOr", "logicalXor"):
            continue
        for number in (2, 1.5, -1):
            case(f"{name} number {number}", lambda t, fn=fn, n=number: fn(t, n), A, args=[number])
    for name in ("add", "sub"):
        fn = ARITHMETIC[name]
        for alpha in (2, 1.5):
            case(f"{name} alpha {alpha}", lambda a, b, fn=fn, k=alpha: fn(a, b, alpha=k), A, B, args=[{"alpha": alpha}])
            case(f"{name} number alpha {alpha}", lambda a, fn=fn, k=alpha: fn(a, 3, alpha=k), A, args=[3, {"alpha": alpha}])


def inplace():
    for name in "add sub mul div pow".split():
        method = f"{name}_"
        case(method, lambda a, b, m=method: getattr(a, m)(b), A, B)
        case(f"{method} by 0-dim", lambda a, b, m=method: getattr(a, m)(b), A, Vary([], 1), values=False)
        for number in (2, 1.5):
            case(f"{method} number {number}", lambda a, m=method, n=number: getattr(a, m)(n), A, args=[number])
    for name in ("add", "sub"):
        case(f"{name}_ alpha", lambda a, b, m=f"{name}_": getattr(a, m)(b, alpha=1.5), A, B, args=[{"alpha": 1.5}])
    case("copy_", lambda a, b: a.copy_(b), A, B)
    for name in "neg exp sqrt relu sigmoid tanh zero".split():
        case(f"{name}_", lambda a, m=f"{name}_": getattr(a, m)(), A)
    for value in (2, 1.5, -1):
        case(f"fill_ {value}", lambda a, v=value: a.fill_(v), A, args=[value])


def reductions():
    for name in "sum mean prod amax amin any all".split():
        fn = getattr(torch, name)
        case(name, fn, A)
        case(f"{name} 0", lambda t, fn=fn: fn(t, dim=0), A, args=[0])
    for name in ("cumsum", "cumprod", "softmax"):
        case(name, lambda t, fn=getattr(torch, name): fn(t, dim=1), A, args=[1])
    case("logSoftmax", lambda t: torch.log_softmax(t, 1), A, args=[1])
    case("logSumExp", lambda t: torch.logsumexp(t, 1), A, args=[1])
    for name, ours in (("argmax", "argMax"), ("argmin", "argMin")):
        case(ours, getattr(torch, name), A)
        case(f"{ours} 0", lambda t, fn=getattr(torch, name): fn(t, 0), A, args=[0])
    case("variance", torch.var, A)
    case("std", torch.std, A)
    for p in (2, 1, 0, 3, math.inf, -math.inf):
        case(f"norm {p}", lambda t, p=p: torch.norm(t, p), A, args=[plain(float(p))])
    case("normalize", F.normalize, A)
    case("cosineSimilarity", lambda a, b: F.cosine_similarity(a, b), A, B)
    for name in ("max", "min"):
        case(f"{name} values", lambda t, n=name: getattr(t, n)(1).values, A, key=f"{name}Values", args=[1])
        case(f"{name} indices", lambda t, n=name: getattr(t, n)(1).indices, A, key=f"{name}Indices", args=[1])


def structure():
    case("argSort", lambda t: t.argsort(stable=True), A)
    case("sort values", lambda t: t.sort(stable=True).values, A, key="sortValues")
    case("topK values", lambda t: t.topk(2).values, A, key="topKValues", args=[2])
    case("nonzero", torch.nonzero, A)
    case("unique values", lambda t: torch.unique(t), A, key="uniqueValues")
    case("unique counts", lambda t: torch.unique(t, return_counts=True)[1], A, key="uniqueCounts")
    case("bincount", torch.bincount, Vary([6], 0, "unit"))
    case("bincount weights", lambda t, w: torch.bincount(t, w), Fixed([0, 1, 2, 1]), Vary([4]))
    square = Vary([3, 3])
    for name in "tril triu diagonal trace".split():
        case(name, lambda t, fn=getattr(torch, name): fn(t).clone(), square)
    case("diagEmbed", torch.diag_embed, A)
    case("flip", lambda t: t.flip([0, 1]), A, args=[[0, 1]])
    case("roll", lambda t: t.roll(1, 1), A, args=[1, 1])
    case("tile", lambda t: t.tile(2, 1), A, args=[[2, 1]])
    for value in (0, 1, 1.5):
        case(f"pad {value}", lambda t, v=value: F.pad(t, (1, 0), value=v), A, args=[[1, 0], value])
    case("maskedSelect", lambda t, m: t.masked_select(m), A, Fixed([[True, False, True], [False, True, True]], "bool"))
    case("maskedSelect by", lambda t, m: t.masked_select(m), Fixed([[1.0, 2, 3], [4, 5, 6]], "float32"), Vary([2, 3], 0, "unit"))
    case("concat", lambda a, b: torch.cat([a, b], 1), A, B, key="concatTwo", args=[1])
    case("stack", lambda a, b: torch.stack([a, b], 0), A, B, key="stackTwo", args=[0])
    case("where", lambda a, b: torch.where(torch.tensor([True, False, True]), a, b), A, B, key="whereMask")
    case("where 0-dim", lambda a, b: torch.where(torch.tensor([True, False, True]), a, b), A, Vary([], 1), key="whereMask")
    for number in (2, 1.5):
        case(
            f"where number {number}", lambda a, n=number: torch.where(torch.tensor([True, False, True]), a, n), A, key="whereMask",
            args=[number],
        )
    case("where by", lambda c: torch.where(c, torch.ones(2, 3), 0.0), Vary([2, 3], 0, "unit"), key="whereBy")
    case("to", lambda a, b: a.to(b.dtype), A, B, key="toDTypeOf")
    views = {
        "clone": lambda t: t.clone(), "contiguous": lambda t: t.t().contiguous(), "detach": lambda t: t.detach(),
        "reshape": lambda t: t.reshape(3, 2), "view": lambda t: t.view(6), "flatten": lambda t: t.flatten(),
        "transpose": lambda t: t.transpose(0, 1), "permute": lambda t: t.permute(1, 0), "narrow": lambda t: t.narrow(1, 1, 2),
        "select": lambda t: t.select(1, 2), "slice": lambda t: t[:, ::2], "expand": lambda t: t.expand(2, 2, 3),
        "squeeze": lambda t: t[:1].squeeze(0), "unsqueeze": lambda t: t.unsqueeze(1), "alias": lambda t: t.view_as(t),
        "split": lambda t: t.split(1, 1)[2], "chunk": lambda t: t.chunk(2, 1)[1], "unbind": lambda t: t.unbind(0)[1],
    }
    for name, fn in views.items():
        case(name, fn, A, key=f"view:{name}")


def indexing():
    case("indexSelect", lambda t, i: t.index_select(0, i), A, INDEX, key="indexSelectBy", args=[0])
    case("indexSelect by", lambda t, i: t.index_select(0, i), SAME_FLOAT, Vary([3], 0, "unit"), key="indexSelectBy", args=[0])
    rows = Fixed([[0, 1, 0], [1, 1, 0]])
    ids = Vary([2, 3], 0, "unit")
    case("gather", lambda t, i: t.gather(0, i), A, rows, key="gatherBy", args=[0])
    case("gather by", lambda t, i: t.gather(0, i), SAME_FLOAT, ids, key="gatherBy", args=[0])
    case("indexAdd", lambda t, i, s: t.index_add(0, i, s), A, Fixed([1, 0]), B, key="indexAddBy", args=[0])
    case("indexAdd by", lambda t, i, s: t.index_add(0, i, s), SAME_FLOAT, Vary([2], 0, "unit"), SAME_FLOAT, key="indexAddBy", args=[0])
    for name, ours in (("scatter", "scatter"), ("scatter_add", "scatterAdd")):
        fn = lambda t, i, s, n=name: getattr(t, n)(0, i, s)
        # No place twice: which of several wins, PyTorch leaves open.
        case(ours, fn, A, Fixed([[0, 1, 0], [1, 0, 1]]), B, key=f"{ours}By", args=[0])
        case(f"{ours} by", fn, SAME_FLOAT, Fixed([[0, 1, 0], [1, 0, 1]]), SAME_FLOAT, key=f"{ours}By", args=[0])
        case(f"{ours} by index", fn, SAME_FLOAT, Vary([1, 3], 0, "unit"), SAME_FLOAT, key=f"{ours}By", args=[0])
    case("oneHot", lambda i: F.one_hot(i, 3), Vary([4], 0, "unit"), args=[3])
    case("embedding", lambda w, i: F.embedding(i, w), A, INDEX)
    case("embedding by", lambda w, i: F.embedding(i, w), SAME_FLOAT, Vary([3], 0, "unit"))
    case("embeddingBag", lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 2]), mode="sum"), A, INDEX)


SAME_FLOAT = Fixed([[1.0, 2, 3], [4, 5, 6]], "float32")


def products():
    left, right, other = Vary([2, 3]), Vary([3, 2], 0, "second"), Vary([3, 2], 1)
    case("matmul", torch.matmul, left, other)
    case("mm", torch.mm, left, other)
    case("bmm", torch.bmm, Vary([2, 2, 3]), Vary([2, 3, 2], 1))
    case("dot", torch.dot, Vary([4]), Vary([4], 1))
    case("matmul vectors", torch.matmul, Vary([4]), Vary([4], 1))
    case("matmul vector", torch.matmul, left, Vary([3], 1))
    case("addmm", torch.addmm, Vary([2, 2]), left, right)
    case("addmm bias", torch.addmm, Vary([2, 2], 1), left, right)
    case("addmm factors", torch.addmm, Vary([2, 2]), left, other)
    case("addmm alpha", lambda a, b, c: torch.addmm(a, b, c, alpha=1.5, beta=0.5), Vary([2, 2]), left, right, args=[{"alpha": 1.5, "beta": 0.5}])
    case("outer", torch.outer, Vary([2]), Vary([3], 1))
    case("linear", F.linear, left, Vary([2, 3], 1))
    case("linear bias", F.linear, left, SAME, Vary([2], 1))
    case("lerp", lambda a, b: torch.lerp(a, b, 0.5), A, B, args=[0.5])
    case("lerp weight", lambda a, b, w: torch.lerp(a, b, w), A, SAME, B)
    images, filters = Vary([1, 2, 3, 3]), Vary([2, 2, 2, 2], 1)
    case("conv2d", F.conv2d, images, filters)
    case("conv2d bias", lambda x, w, b: F.conv2d(x, w, b), images, Vary([2, 2, 2, 2], 0, "second"), Vary([2], 1), key="conv2dBias")
    case("conv1d", F.conv1d, Vary([1, 2, 4]), Vary([2, 2, 2], 1))
    case("convTranspose2d", F.conv_transpose2d, Vary([1, 2, 2, 2]), filters)
    case("maxPool2d", lambda x: F.max_pool2d(x, 2), Vary([1, 1, 2, 4]), args=[2])
    case("avgPool2d", lambda x: F.avg_pool2d(x, 2), Vary([1, 1, 2, 4]), args=[2])
    case("adaptiveAvgPool2d", lambda x: F.adaptive_avg_pool2d(x, 2), Vary([1, 1, 3, 4]), args=[2])
    case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), Vary([1, 2, 3]), Vary([1, 2, 3], 1), Vary([1, 2, 3], 1), key="scaledDotProductAttention")


def linalg():
    matrix = Vary([2, 2, 2], 0, "definite")
    case("inverse", torch.linalg.inv, matrix)
    case("det", torch.linalg.det, matrix)
    case("cholesky", torch.linalg.cholesky, matrix)
    case("solve", torch.linalg.solve, Vary([2, 2], 0, "definite"), Vary([2, 3], 1))


def normalisation():
    case("layerNorm", lambda t: F.layer_norm(t, (3,)), A, args=[[3]])
    case("layerNorm weight", lambda t, w, b: F.layer_norm(t, (3,), w, b), A, Vary([3], 1), Vary([3], 1), key="layerNormOver", args=[[3]])
    case("groupNorm", lambda t: F.group_norm(t, 2), Vary([2, 4]), args=[2])
    case("groupNorm weight", lambda t, w, b: F.group_norm(t, 2, w, b), Vary([2, 4]), Vary([4], 1), Vary([4], 1), key="groupNormOf", args=[2])
    case("batchNorm", lambda t: F.batch_norm(t, None, None, training=True), Vary([4, 3]), key="batchNormPlain")
    case("batchNorm weight", lambda t, w, b: F.batch_norm(t, None, None, w, b, training=True), Vary([4, 3]), Vary([3], 1), Vary([3], 1), key="batchNormOf")
    case("dropout", lambda t: F.dropout(t, 0.5), A, args=[0.5], values=False)
    case("dropout off", lambda t: F.dropout(t, 0.5, training=False), A, args=[0.5, False])
    case("prelu", F.prelu, A, Vary([1], 1))


def losses():
    for ours, name in (("mseLoss", "mse_loss"), ("l1Loss", "l1_loss"), ("smoothL1Loss", "smooth_l1_loss"), ("huberLoss", "huber_loss")):
        case(ours, getattr(F, name), A, B)
    unit, other = Vary([2, 3], 0, "unit"), Vary([2, 3], 1, "unit")
    case("binaryCrossEntropy", F.binary_cross_entropy, unit, other)
    case("binaryCrossEntropyWithLogits", F.binary_cross_entropy_with_logits, A, other)
    case("klDiv", lambda a, b: F.kl_div(a, b, reduction="sum"), A, other, key="klDivSum")
    target = Fixed([1, 0])
    for ours, name in (("nllLoss", "nll_loss"), ("crossEntropy", "cross_entropy")):
        fn = getattr(F, name)
        case(ours, fn, A, target)
        case(f"{ours} target", fn, SAME_FLOAT, Vary([2], 0, "unit"))
        case(f"{ours} weight", lambda x, w, fn=fn: fn(x, torch.tensor([1, 0]), weight=w), A, Vary([3], 1), key=f"{ours}Weighted")
    case("crossEntropy soft", F.cross_entropy, A, other)


def sparse():
    def coo(values):
        return torch.sparse_coo_tensor(torch.tensor([[1, 0, 1]]), values, (2,))

    one, two = Vary([3]), Vary([3], 1)
    case("sparse dense", lambda v: coo(v).to_dense(), one, key="sparse:dense")
    case("sparse coalesce", lambda v: coo(v).coalesce().values(), one, key="sparse:coalesce")
    case("sparse sum", lambda v, w: (coo(v) + coo(w)).to_dense(), one, two, key="sparse:sum")
    case("sparse mixed", lambda d, v: d + coo(v), Vary([2]), two, key="sparse:mixed")
    case("sparse times 2", lambda v: (coo(v) * 2).to_dense(), one, key="sparse:double")


def creation():
    two = Vary([2])
    case("zeros", lambda t: torch.zeros(2, dtype=t.dtype), two, key="create:zeros")
    case("ones", lambda t: torch.ones(2, dtype=t.dtype), two, key="create:ones")
    case("full 2", lambda t: torch.full((2,), 2, dtype=t.dtype), two, key="create:full")
    case("eye", lambda t: torch.eye(2, dtype=t.dtype), two, key="create:eye")
    case("arange", lambda t: torch.arange(0, 3, 1, dtype=t.dtype), two, key="create:arange")
    case("linspace", lambda t: torch.linspace(0, 4, 3, dtype=t.dtype), two, key="create:linspace")
    case("rand", lambda t: torch.rand(2, dtype=t.dtype), two, key="create:rand", values=False)
    case("randn", lambda t: torch.randn(2, dtype=t.dtype), two, key="create:randn", values=False)
    case("randint", lambda t: torch.randint(1, 2, (2,), dtype=t.dtype), two, key="create:randint")
    case("zerosLike", torch.zeros_like, A)
    case("onesLike", torch.ones_like, A)
    case("requiresGrad", lambda t: t.clone().requires_grad_(), A, key="requiresGrad")


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.1}, "AdamW": {"lr": 0.1}, "Adamax": {"lr": 0.1}, "Adagrad": {"lr": 0.1},
    "Adadelta": {}, "RMSprop": {"lr": 0.1}, "Rprop": {"lr": 0.1}, "RAdam": {"lr": 0.1}, "SparseAdam": {"lr": 0.1},
}


def optimizers():
    for name, options in OPTIMIZERS.items():
        def run(p, g, name=name, options=options):
            p = p.clone().requires_grad_()
            opt = getattr(torch.optim, name)([p], **options)
            for _ in range(3):
                p.grad = g.to_sparse() if name == "SparseAdam" else g.clone()
                opt.step()
            return p

        case(f"optim {name}", run, Vary([4]), Vary([4], 0, "second"), key=f"optim:{name}", args=[options])


def record():
    for part in (unary, binary, inplace, reductions, structure, indexing, products, linalg, normalisation, losses, sparse, creation, optimizers):
        part()
    samples = {
        kind: {name: numbers(sample(kind, name, [12])) for name in NAMES} for kind in SAMPLES
    }
    keep("dtypes.json", {"torch": torch.__version__, "samples": samples, "cases": cases})
    taken = sum(a is not None for c in cases for a in c["answers"].values())
    print(len(cases), "cases,", sum(len(c["answers"]) for c in cases), "answers,", taken, "of them results")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    import warnings

    warnings.simplefilter("ignore")
    record()
