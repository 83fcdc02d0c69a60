"""Operations on complex tensors, with their gradients: complex.json. Run by `npm run golden`, as make.py."""
import warnings

import torch
import torch.nn.functional as F

from recording import keep, plain

torch.manual_seed(0)
cases = []


def pack(t):
    """A tensor as JSON; a complex element is two numbers."""
    t = t.detach().resolve_conj().resolve_neg()
    dtype = str(t.dtype).removeprefix("torch.")
    shape = list(t.shape)
    if t.is_complex():
        t = torch.view_as_real(t)
    values = [float(str(v)) for v in t.flatten().numpy()] if t.dtype == torch.float32 else t.flatten().tolist()
    return {"dtype": dtype, "shape": shape, "data": [plain(v) for v in values]}


def weights_of(out):
    """What the gradient of a result is weighted with: all different, and complex where the result is."""
    steps = torch.arange(out.numel(), dtype=torch.float64)
    re, im = steps.mul(0.7).sin().add(1.1), steps.mul(1.3).cos().mul(0.8)
    values = torch.complex(re, im) if out.is_complex() else re
    return values.to(out.dtype).reshape(out.shape)


def exact(fn, inputs, grad):
    """The result and the gradients in double precision: PyTorch's own single precision is off where parts cancel."""
    wide = {torch.complex64: torch.complex128, torch.float32: torch.float64}
    leaves = [t.to(wide.get(t.dtype, t.dtype)).requires_grad_(grad and t.dtype in wide) for t in inputs]
    return leaves, fn(*leaves)


def case(name, fn, *inputs, key=None, args=(), grad=True):
    """One call: inputs, the result in complex64, computed in complex128, and the gradient of each input for fixed weights."""
    single = fn(*inputs)
    leaves, out = exact(fn, inputs, grad)
    record = {"name": name, "fn": key or name.split(" ")[0], "inputs": [pack(t) for t in inputs]}
    if args:
        record["args"] = list(args)
    record["output"] = pack(out.to(single.dtype))
    if grad and out.requires_grad:
        weights = weights_of(single)
        out.backward(weights.to(out.dtype))
        record["weights"] = pack(weights)
        record["grads"] = [None if t.grad is None else pack(t.grad.to(i.dtype)) for t, i in zip(leaves, inputs, strict=True)]
    cases.append(record)


def z(*shape, low=-2.0, high=2.0):
    draw = lambda: torch.rand(*shape) * (high - low) + low
    return torch.complex(draw(), draw())


def f(*shape):
    return torch.rand(*shape) * 4 - 2


# On both sides of every branch cut: the sign of a zero says on which.
CUT = torch.complex(
    torch.tensor([-3.0, -3, -1, -1, -0.5, -0.5, 0.5, 0.5, 1, 1, 3, 3, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0]),
    torch.tensor([0.0, -0.0, 0, -0.0, 0, -0.0, 0, -0.0, 0, -0.0, 0, -0.0, 2, 2, -2, -2, 0.5, 0.5, -0.5, -0.5]),
)
LARGE = torch.complex(torch.tensor([1e4, -1e4, 1e-4, 3e4, -1e-6, 20, -20]), torch.tensor([1e-4, 1e4, -1e4, -3e4, 1e-6, 1, -3]))
UNARY = (
    "neg abs angle conj exp expm1 log log1p log2 sqrt rsqrt square reciprocal sigmoid sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh"
).split()
# Where single precision ends.
OVERFLOWING = {"exp", "expm1", "sin", "cos", "sinh", "cosh", "tan", "sigmoid", "tanh"}


def unary():
    for name in UNARY:
        fn = getattr(torch, name)
        case(name, fn, z(3, 4))
        # At poles and at the ends of cuts there is no gradient to compare.
        case(f"{name} at cuts", fn, CUT[(CUT != 1) & (CUT != -1)], grad=False)
        if name not in OVERFLOWING:
            case(f"{name} large", fn, LARGE)
        case(f"{name} transposed", lambda t, fn=fn: fn(t.t()), z(2, 3), key=f"transposed:{name}")
    case("silu", F.silu, z(5), grad=False)
    case("softsign", F.softsign, z(5))
    for name in ("real", "imag"):
        case(name, getattr(torch, name), z(4))
    case("complex", torch.complex, f(3), f(3))
    special = torch.complex(
        torch.tensor([0, 1, float("nan"), float("inf"), 0, float("-inf"), 2]), torch.tensor([0, 0, 1, 2, float("nan"), float("nan"), -1])
    )
    for ours, name in (("isNaN", "isnan"), ("isInf", "isinf"), ("isFinite", "isfinite"), ("logicalNot", "logical_not")):
        case(ours, getattr(torch, name), special, grad=False)


BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow}


def binary():
    for name, fn in BINARY.items():
        case(name, fn, z(2, 3), z(2, 3))
        case(f"{name} broadcast", fn, z(2, 1, 3), z(4, 1))
        case(f"{name} by real", fn, z(2, 3), f(3).abs() + 0.2)
        case(f"{name} of real", fn, f(2, 3).abs() + 0.2, z(3))
        case(f"{name} number", lambda t, fn=fn: fn(t, 2.5), z(4), args=[2.5])
        case(f"{name} square", lambda t, fn=fn: fn(t, 2), z(4), args=[2])
    # Not 0 to the power 0: NaN of two tensors and 1 of a number, where we have 1.
    case("pow zeros", torch.pow, torch.tensor([0j, 0j, 1 + 1j]), torch.tensor([2 + 0j, 1 + 1j, 0j]))
    case("pow of zero", lambda t: t.pow(-1), torch.zeros(2, dtype=torch.complex64), key="pow", args=[-1], grad=False)
    case("div by zero", torch.div, torch.tensor([1 + 1j, 0j]), torch.zeros(2, dtype=torch.complex64), grad=False)
    pair = (torch.tensor([1 + 1j, 2 + 0j, 0j, 0 + 1j]), torch.tensor([1 + 1j, 2 + 1j, 0j, 0j]))
    for ours, name in (("eq", "eq"), ("ne", "ne"), ("logicalAnd", "logical_and"), ("logicalOr", "logical_or"), ("logicalXor", "logical_xor")):
        case(ours, getattr(torch, name), *pair, grad=False)
    case("where", lambda a, b: torch.where(torch.tensor([True, False, True]), a, b), z(2, 3), z(3), key="whereMask")
    case("where real", lambda a, b: torch.where(torch.tensor([True, False, True]), a, b), z(2, 3), f(3), key="whereMask", grad=False)
    case("maskedFill", lambda a: a.masked_fill(torch.tensor([True, False, True]), 2), z(2, 3), key="maskedFillMask", args=[2])
    case("lerp", lambda a, b: torch.lerp(a, b, 0.3), z(4), z(4), args=[0.3])
    case("alpha", lambda a, b: torch.sub(a, b, alpha=2.5), z(4), z(4), key="sub", args=[{"alpha": 2.5}])


def reductions():
    for name in ("sum", "mean", "prod"):
        fn = getattr(torch, name)
        case(name, fn, z(2, 3))
        for dim in (0, 1, 2):
            case(f"{name} {dim}", lambda t, fn=fn, d=dim: fn(t, d), z(2, 3, 4), args=[dim])
    for name in ("sum", "mean"):
        case(f"{name} two dims", lambda t, fn=getattr(torch, name): fn(t, [0, 2]), z(2, 3, 4), args=[[0, 2]])
    for count in (1, 2):
        t = z(4)
        t[:count] = 0
        case(f"prod with {count} zeros", torch.prod, t)
        case(f"cumprod with {count} zeros", lambda t: t.cumprod(0), t, args=[0])
    for name in ("cumsum", "cumprod"):
        for dim in (0, 1):
            case(f"{name} {dim}", lambda t, n=name, d=dim: getattr(t, n)(d), z(3, 4), args=[dim])
    case("logSumExp", lambda t: t.logsumexp(1), z(2, 3), args=[1])
    case("variance", torch.var, z(5))
    case("std", lambda t: torch.std(t, 1), z(2, 4), args=[1])
    for p in (1, 2, 3):
        case(f"norm {p}", lambda t, p=p: torch.norm(t, p), z(5), args=[p])
    case("normalize", F.normalize, z(2, 3))
    rows = torch.tensor([[0j, 1j], [0j, 0j], [1 + 0j, 2j]])
    for name in ("any", "all"):
        case(name, lambda t, n=name: getattr(torch, n)(t, 1), rows, args=[1], grad=False)
    case("nonzero", torch.nonzero, rows, grad=False)


def structure():
    case("indexSelect", lambda t: t.index_select(0, torch.tensor([2, 0, 2])), z(3, 2), key="indexSelectRows")
    case("indexAdd", lambda t, s: t.index_add(0, torch.tensor([2, 0, 2]), s), z(3, 2), z(3, 2), key="indexAddRows")
    table = torch.tensor([[0, 2, 2], [1, 1, 0]])
    case("gather", lambda t: t.gather(1, table), z(2, 3), key="gatherTable")
    case("scatterAdd", lambda t, s: t.scatter_add(1, table, s), z(2, 3), z(2, 3), key="scatterAddTable")
    case("scatter", lambda t, s: t.scatter(1, torch.tensor([[0, 2, 1], [1, 2, 0]]), s), z(2, 3), z(2, 3), key="scatterTable")
    case("concat", lambda a, b: torch.cat([a, b], 1), z(2, 3), z(2, 1), key="concatTwo")
    case("concat real", lambda a, b: torch.cat([a, b], 1), z(2, 3), f(2, 1), key="concatTwo")
    case("stack", lambda a, b: torch.stack([a, b], 1), z(2, 3), z(2, 3), key="stackTwo")
    for name in ("tril", "triu", "diagonal", "trace"):
        case(name, getattr(torch, name), z(3, 3))
    case("diagEmbed", torch.diag_embed, z(2, 3))
    case("flip", lambda t: t.flip([0, 1]), z(2, 3), args=[[0, 1]])
    case("roll", lambda t: t.roll(1, 1), z(2, 3), args=[1, 1])
    case("tile", lambda t: t.tile(2, 1), z(2, 3), args=[[2, 1]])
    case("pad", lambda t: F.pad(t, (1, 2), value=0.5), z(2, 3), args=[[1, 2], 0.5])
    case("maskedSelect", lambda t: t.masked_select(torch.tensor([True, False, True])), z(2, 3), key="maskedSelectMask")
    case("expand", lambda t: t.expand(2, 3, 4), z(3, 1), args=[[2, 3, 4]], key=".expand")
    case("permute", lambda t: t.permute(2, 0, 1), z(2, 3, 2), args=[[2, 0, 1]], key=".permute")
    case("slice", lambda t: t[:, 0:5:2], z(2, 5), args=[1, 0, 5, 2], key=".slice")
    case("to real", lambda t: t.to(torch.float64 if t.dtype == torch.complex128 else torch.float32), z(4), key=".to", args=["float32"])


def products():
    case("matmul", torch.matmul, z(3, 4), z(4, 2))
    case("matmul transposed", lambda a, b: a.t() @ b.t(), z(4, 3), z(2, 4), key="transposed:matmul")
    case("matmul batch", torch.matmul, z(2, 1, 3, 4), z(3, 4, 2))
    case("matmul vectors", torch.matmul, z(4), z(4))
    case("matmul large", torch.matmul, z(20, 40), z(40, 30))
    case("dot", torch.dot, z(4), z(4))
    case("addmm", lambda a, b, c: torch.addmm(a, b, c, alpha=0.5, beta=2), z(3, 2), z(3, 4), z(4, 2), args=[{"alpha": 0.5, "beta": 2}])
    case("outer", torch.outer, z(2), z(3))
    case("linear", F.linear, z(2, 3), z(4, 3), z(4))
    case("conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), z(2, 2, 5, 4), z(4, 2, 3, 3), z(4), key="conv2dStrided")
    case("conv1d", lambda x, w: F.conv1d(x, w, padding=1), z(1, 2, 5), z(3, 2, 3), key="conv1dPadded")
    case("convTranspose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2), z(1, 2, 3, 2), z(2, 3, 2, 2), key="convTranspose2dStrided")


def changed(fn):
    def run(*inputs):
        t = inputs[0] * 1
        fn(t, *inputs[1:])
        return t

    return run


def inplace():
    for name in ("add_", "sub_", "mul_", "div_", "pow_"):
        case(f"in place {name}", changed(lambda a, b, n=name: getattr(a, n)(b)), z(2, 3), z(3), key=f"changed:{name}")
        case(f"in place {name} real", changed(lambda a, b, n=name: getattr(a, n)(b)), z(2, 3), f(3).abs() + 0.2, key=f"changed:{name}")
        case(f"in place {name} number", changed(lambda a, n=name: getattr(a, n)(1.5)), z(2, 3), key=f"changed:{name}", args=[1.5])
    for name in ("neg_", "exp_", "sqrt_", "sigmoid_", "tanh_"):
        case(f"in place {name}", changed(lambda a, n=name: getattr(a, n)()), z(2, 3), key=f"changed:{name}")
    case("in place copy_", changed(lambda a, b: a.copy_(b)), z(2, 3), z(3), key="changed:copy_")
    case("diagonal changed", changed(lambda a, b: a.diagonal().mul_(b)), z(3, 3), z(3), key="changedDiagonal")
    case("row changed", changed(lambda a, b: a[1].mul_(b)), z(3, 3), z(3), key="changedRow")
    case("column changed", changed(lambda a, b: a.t()[1].mul_(b)), z(3, 3), z(3), key="changedColumn")


def second():
    """The gradient of a gradient: of a real function of the first."""
    def of(fn):
        def run(t):
            leaf = t if t.requires_grad else t.clone().requires_grad_()
            out = fn(leaf)
            (g,) = torch.autograd.grad(out, leaf, weights_of(out), create_graph=True)
            return g

        return run

    for name in ("sin", "tanh", "sqrt", "reciprocal", "log", "exp", "abs", "asin", "atanh", "angle"):
        case(f"second {name}", of(getattr(torch, name)), z(4), key=f"second:{name}")
    case("second mul", of(lambda t: t * t * t), z(4), key="second:cube")
    case("second prod", of(lambda t: t.prod()), z(3), key="second:prod")
    case("second cumprod", of(lambda t: t.cumprod(0)), z(3), key="second:cumprod0")
    case("second matmul", of(lambda t: t @ t), z(3, 3), key="second:square")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Of imaginary parts that a conversion drops.
    for part in (unary, binary, reductions, structure, products, inplace, second):
        part()
    keep("complex.json", {"torch": torch.__version__, "cases": cases})
    print(len(cases), "complex cases")
