"""Runs programs (program.ts) on PyTorch. A question is {"programs": [...], "conditioning": bool}, the answer a list of outcomes."""
import re
import warnings
from contextlib import ExitStack
from copy import deepcopy

import torch
import torch.nn.functional as F
from packed import INF, serve
from torch.nn.attention import SDPBackend, sdpa_kernel

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
# Parts that do not fit are refused here, and make PyTorch read foreign memory without.
torch.sparse.check_sparse_tensor_invariants.enable()

DTYPES = {
    name: getattr(torch, name)
    for name in "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()
}
NAMES = {dtype: name for name, dtype in DTYPES.items()} | {torch.complex128: "complex128"}
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23}


# What the texts of statements may call.


def pattern(size, seed, dtype):
    """The elements that patternOf in values.ts makes."""
    if dtype == torch.bool:
        return (torch.arange(size) * 7919 + seed * 131) % 3 == 0
    i = (torch.arange(size) * 7919 + seed * 104729) % 8191 - 4095
    if dtype.is_complex:
        return torch.complex(pattern(size, seed, torch.float32), pattern(size, seed + 1, torch.float32))
    return (i.double() / 2048).to(dtype) if dtype.is_floating_point else ((i % 7 + 7) % 7).to(dtype)


def weights(t):
    """What a result is weighted by in a backward pass: no weight is zero, every dtype holds them."""
    i = torch.arange(t.numel())
    w = (i * 37 % 16).double() / 8 - 0.9375
    if t.dtype.is_complex:
        w = torch.complex(w, (i * 29 % 16).double() / 8 - 0.9375)
    return w.to(t.dtype).reshape(t.shape)


def backward(t, **options):
    """Weighted gradients of a result; of one that requires none, nothing."""
    if isinstance(t, torch.Tensor) and t.requires_grad:
        dense = t.to_dense() if t.is_sparse else t
        dense.backward(weights(dense), **options)


def filled(module, seed):
    """A module with its parameters set to multiples of 1/128."""
    if mode.exact:
        module.double()
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            i = torch.arange(p.numel())
            p.copy_((((i * 7919 + k * 104729 + seed * 1299709) % 127 - 63).double() / 128).reshape(p.shape))
            if mode.perturbs:
                p.mul_(1 + noise(p, EPS["float32"]))
    return module


def no_grad(run):
    with torch.no_grad():
        return run()


def key(items):
    """An index from its items: slices are texts such as '1:3'."""

    def one(item):
        if item == "..." or not isinstance(item, str):
            return ... if isinstance(item, str) else item
        return slice(*(int(part) if part else None for part in item.split(":")))

    return tuple(one(item) for item in items)


def put(t, items, value):
    """Writes through an index."""
    t[key(items)] = value
    return t


def secondly(t, leaf):
    """The recorded gradient of a result, or the result where it has none."""
    if not isinstance(t, torch.Tensor) or not t.requires_grad:
        return t
    grad = torch.autograd.grad(t, leaf, weights(t), create_graph=True, allow_unused=True)[0]
    return t.detach() if grad is None else grad


def attention(options):
    """Arguments of an attention, whose masks have names of their own."""
    return {{"mask": "attn_mask"}.get(k, k): v for k, v in options.items()}


def encoding(options):
    """Arguments of a stack of encoder layers, whose mask has its own name."""
    return {{"attn_mask": "mask"}.get(k, k): v for k, v in options.items()}


def two_groups():
    params = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    return torch.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.05}], lr=0.1, momentum=0.9)


def rates(make):
    """The rates, and the momentum, of both groups at each of twelve steps of a schedule."""
    optimizer = two_groups()
    scheduler = make(optimizer)

    def seen():
        return [v for group in optimizer.param_groups for v in (group["lr"], group["momentum"])]

    rows = [seen()]
    for _ in range(11):
        scheduler.step()
        rows.append(seen())
    return torch.tensor(rows, dtype=torch.float64)


def plateau(metrics, **options):
    """The rates at each metric of a plateau."""
    optimizer = two_groups()
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    rows = []
    for metric in metrics:
        scheduler.step(metric)
        rows.append([group["lr"] for group in optimizer.param_groups])
    return torch.tensor(rows, dtype=torch.float64)


def followed(make, kind, reload, metrics, anew=None):
    """
    The rates, momenta and last rates of both groups at each of 14 steps of a schedule. Before step `reload` the state dicts of the
    optimiser and of the schedule go into a new optimiser and its new schedule, made by `anew`, which go on.
    """

    def begin(by):
        params = [torch.zeros(1, requires_grad=True) for _ in range(2)]
        options = {} if kind == "Adam" else {"momentum": 0.9}
        optimizer = getattr(torch.optim, kind)([{"params": params[:1]}, {"params": params[1:], "lr": 0.05}], lr=0.1, **options)
        return optimizer, by(optimizer)

    optimizer, scheduler = begin(make)

    def seen():
        rates = [v for group in optimizer.param_groups for v in (group["lr"], group["betas"][0] if kind == "Adam" else group["momentum"])]
        return rates + list(scheduler.get_last_lr())

    rows = [seen()]
    for i in range(14):
        if i == reload:
            saved = deepcopy(optimizer.state_dict()), deepcopy(scheduler.state_dict())
            optimizer, scheduler = begin(anew or make)
            optimizer.load_state_dict(saved[0])
            scheduler.load_state_dict(saved[1])
        if metrics is None:
            scheduler.step()
        else:
            scheduler.step(metrics[i])
        rows.append(seen())
    return torch.tensor(rows, dtype=torch.float64)


class Mode:
    """Whether programs run as they are, in double precision, or in double precision with rounding errors put in."""

    exact = False
    perturbs = False
    generator = torch.Generator()
    # Whether the arguments of functions of each element are off, too.
    derivatives = False
    # Whether what is exactly one stays so, as what is zero does.
    keeps_ones = False
    # The epsilon of the program's widest-spaced dtype.
    coarsest = 0.0


mode = Mode()


def convert_exactly(name):
    """A conversion by its name is, as one by its dtype, to double precision where all is."""
    usual = getattr(torch.Tensor, name)
    setattr(torch.Tensor, name, lambda t: t.double() if mode.exact else usual(t))


for each in ("float", "half", "bfloat16"):
    convert_exactly(each)


def unscale_by_singles():
    """Scales, which are powers of two, are of single precision in any case: the scaler takes no others."""
    usual = torch.amp.GradScaler._unscale_grads_

    def unscaled(scaler, optimizer, inverse, *rest):
        return usual(scaler, optimizer, inverse.to(torch.float32), *rest)

    torch.amp.GradScaler._unscale_grads_ = unscaled


unscale_by_singles()


def dtype_of(name):
    if mode.exact and name != "float64" and name in EPS:
        return torch.complex128 if name == "complex64" else torch.float64
    return DTYPES[name]


def noise(t, eps):
    """Relative errors of up to eps."""
    return (torch.rand(t.shape, generator=mode.generator, dtype=torch.float64) * 2 - 1) * eps


SCOPE = {
    "torch": torch, "F": F, "nn": torch.nn, "optim": torch.optim, "backward": backward, "weights": weights, "filled": filled,
    "aten": torch.ops.aten, "no_grad": no_grad, "key": key, "put": put, "secondly": secondly, "rates": rates, "plateau": plateau, "followed": followed, "lr_scheduler": torch.optim.lr_scheduler, "attention": attention, "encoding": encoding, "INF": INF, "deepcopy": deepcopy, "pattern": pattern,
}
compiled = {}


def body_of(text):
    """The text of a statement as a function of its arguments, and how many it takes. A leading ! marks one without a value."""
    if text not in compiled:
        count = max((int(i) + 1 for i in re.findall(r"\$(\d)", text)), default=0)
        source = re.sub(r"\$(\d)", r"_\1", text)
        source = source[1:] if source.startswith("!") else f"return {source}"
        scope = dict(SCOPE)
        exec(f"def run({', '.join(f'_{i}' for i in range(count))}):\n    {source}\n", scope)
        compiled[text] = scope["run"], count
    return compiled[text]


# One program.


def make_input(line):
    dtype, shape = DTYPES[line["dtype"]], line["shape"]
    if line["data"] is None:
        size = 1
        for n in shape:
            size *= n
        t = pattern(size, line["pattern"], dtype).reshape(shape)
    elif len(line["data"]) == 0:
        t = torch.empty(shape, dtype=dtype)
    else:
        t = torch.frombuffer(line["data"], dtype=dtype).reshape(shape)
    if mode.exact and (dtype.is_floating_point or dtype.is_complex):
        t = t.to(torch.complex128 if dtype.is_complex else torch.float64)
    # The bytes serve several runs, and programs may write.
    t = t.clone()
    return t.requires_grad_() if line["requiresGrad"] else t


SNAKE = {
    "keepDim": "keepdim", "causal": "is_causal", "mask": "attn_mask", "layers": "num_layers", "lrDecay": "lr_decay",
}


def snake(name):
    return SNAKE.get(name) or "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def argument(arg, values, wobble):
    if isinstance(arg, dict):
        if "ref" in arg:
            value = values[arg["ref"]]
            if wobble and isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128) and not value.is_sparse:
                wobbled = value * (1 + noise(value, wobble))
                return torch.where(value == 1, value, wobbled) if mode.keeps_ones else wobbled
            return value
        if "dtype" in arg:
            return dtype_of(arg["dtype"])
        if "options" in arg:
            return {snake(k): argument(v, values, wobble) for k, v in arg["options"].items()}
    if isinstance(arg, list):
        return [argument(one, values, wobble) for one in arg]
    return arg


def run_line(line, values, eps):
    """The value of a line; `eps` is that of the dtype it has without exactness."""
    if "shape" in line:
        return make_input(line)
    body, count = body_of(line["py"])
    rounding = line["rounding"]
    # Sums of half precision are added up in single precision.
    wobbles = mode.perturbs and (rounding == "sums" or mode.derivatives and rounding in ("once", "inPlace"))
    wobble = min(eps or 1, EPS["float32"]) if wobbles else None
    args = [argument(arg, values, wobble) for arg in line["args"][:count]]
    if mode.perturbs and rounding == "step":
        for t in stepped(args[0]):
            t.data.mul_(1 + noise(t, mode.coarsest / 2))
    result = body(*args)
    if mode.perturbs and rounding == "step":
        for t in stepped(args[0]):
            t.data.mul_(1 + noise(t, mode.coarsest / 2))
    elif mode.perturbs and eps and rounding != "never" and is_float(result):
        if rounding == "inPlace" or not any(shares(result, arg) for arg in args):
            perturb(result, eps / 2)
    return result


def stepped(optimizer):
    """What an optimiser's step reads and writes."""
    groups = [p for group in optimizer.param_groups for p in group["params"]]
    state = [t for p in groups for name, t in optimizer.state.get(p, {}).items() if name != "step"]
    return [t for t in groups + state + [p.grad for p in groups] if is_float(t)]


def is_float(t):
    return isinstance(t, torch.Tensor) and not t.is_sparse and (t.is_floating_point() or t.is_complex())


def shares(a, b):
    return isinstance(b, torch.Tensor) and not b.is_sparse and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def perturb(t, eps):
    """Puts errors into a result, seen also by whatever has remembered it, and into its gradient."""
    if 0 not in t.stride():
        t.data.mul_(1 + noise(t, eps))
    if t.requires_grad and not t.is_leaf:
        t.register_hook(lambda g: g if g is None or g.is_sparse else g * (1 + noise(g, eps)))


def seen(t):
    if t is None:
        return {"nothing": True}
    if isinstance(t, (bool, str)):
        return {"plain": t}
    if isinstance(t, (int, float)):
        return {"plain": t if abs(t) < 2**53 or isinstance(t, float) else float(t)}
    if isinstance(t, complex):
        return {"plain": str(t)}
    if not isinstance(t, torch.Tensor):
        return {"plain": str(t)}
    dense = t.detach()
    if t.is_sparse:
        dense = dense.to_dense()
    dense = dense.resolve_conj().resolve_neg().contiguous()
    if dense.dtype not in NAMES:
        dense_bytes = b""
    elif dense.dtype == torch.bfloat16:
        dense_bytes = dense.view(torch.int16).numpy(force=True).tobytes()
    else:
        dense_bytes = dense.numpy(force=True).tobytes()
    return {
        "dtype": NAMES.get(t.dtype) or str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "data": dense_bytes,
        "requiresGrad": t.requires_grad, "sparse": t.is_sparse,
    }


def observe(path, value, found):
    if isinstance(value, torch.nn.Module):
        for name, t in value.state_dict(keep_vars=True).items():
            found[f"{path}.{name}"] = t
            if isinstance(t, torch.nn.Parameter):
                found[f"{path}.{name}.grad"] = t.grad
    elif isinstance(value, torch.optim.Optimizer):
        for i, state in value.state_dict()["state"].items():
            for name, t in state.items():
                if t is not None:
                    found[f"{path}.{i}.{name}"] = float(t) if name == "step" else t
    elif isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        found[f"{path}.rates"] = torch.tensor(value.get_last_lr(), dtype=torch.float64)
    elif isinstance(value, torch.amp.GradScaler):
        found[f"{path}.scale"] = value.get_scale()
    elif isinstance(value, (list, tuple)):
        found[f"{path}.length"] = len(value)
        for i, one in enumerate(value):
            observe(f"{path}.{i}", one, found)
    else:
        found[path] = value


def run(program, dtypes=None):
    """Everything to be seen after the program, the refusal if there was one, and the dtype of every line."""
    with ExitStack() as kernels:
        # Fused attentions have first derivatives only.
        if any(records(line) for line in program["lines"]):
            kernels.enter_context(sdpa_kernel(SDPBackend.MATH))
        return run_lines(program, dtypes)


def run_lines(program, dtypes):
    values, refusal = [], None
    for at, line in enumerate(program["lines"]):
        eps = EPS.get(dtypes[at]) if dtypes else None
        try:
            values.append(run_line(line, values, eps))
        except Exception as error:
            refusal = {"at": at, "name": type(error).__name__, "message": str(error)[:400]}
            break
    found = {}
    for at, value in enumerate(values):
        observe(str(at), value, found)
        line = program["lines"][at]
        if "shape" in line and line["requiresGrad"]:
            found[f"{at}.grad"] = value.grad
    made = [NAMES.get(v.dtype) if isinstance(v, torch.Tensor) else None for v in values]
    return found, refusal, made


def wide(t):
    """A tensor's elements as doubles, complex ones as pairs."""
    t = t.detach()
    if t.is_sparse:
        t = t.to_dense()
    t = t.resolve_conj().resolve_neg()
    return torch.view_as_real(t.to(torch.complex128)) if t.is_complex() else t.double()


RUNS = 6


def conditioning(program, dtypes, refusal):
    """Values in double precision, and how far they move when every operation's result is off by half an ulp or less."""

    def values():
        found, refused, _ = run(program, dtypes)
        # What is refused of one dtype may be accepted of another; what comes before counts in any case.
        early = refused is not None and (refusal is None or refused["at"] < refusal["at"])
        return None if early else {path: wide(t) for path, t in found.items() if isinstance(t, torch.Tensor)}

    mode.exact = True
    mode.coarsest = max((EPS.get(line.get("dtype"), 0.0) for line in program["lines"]), default=0.0)
    try:
        exact = values()
        if exact is None:
            return {}
        mode.perturbs = True
        mode.generator.manual_seed(1)
        moved = {path: torch.zeros_like(t) for path, t in exact.items()}
        for i in range(RUNS):
            # A derivative of one function is several operations, whose terms may cancel: as if its argument were off.
            mode.derivatives = i % 2 == 1
            others = values()
            # An argument that left its range, such as a probability above 1: the others tell enough.
            if others is None:
                mode.keeps_ones = True
                others = values()
                mode.keeps_ones = False
            if others is None:
                continue
            for path, t in exact.items():
                other = others.get(path) if not mode.derivatives or is_derivative(program, path) else None
                if other is not None and other.shape == t.shape:
                    gap = torch.where((other == t) | (other.isnan() & t.isnan()), 0.0, (other - t).abs())
                    moved[path] = torch.maximum(moved[path], gap.nan_to_num(INF, INF, INF))
        return {path: {"values": raw(t), "moved": raw(moved[path])} for path, t in exact.items()}
    finally:
        mode.exact = mode.perturbs = mode.derivatives = mode.keeps_ones = False


def is_derivative(program, path):
    """Whether a path is a gradient, or follows from one."""
    line = int(path.split(".", 1)[0])
    return path.endswith(".grad") or any(records(one) for one in program["lines"][: line + 1])


def records(line):
    """Whether a line makes a gradient that can be differentiated again."""
    return "create_graph" in line.get("py", "") or "secondly" in line.get("py", "")


def raw(t):
    return t.contiguous().numpy(force=True).tobytes()


def answer(program, wants_conditioning):
    found, refusal, dtypes = run(program)
    try:
        outcome = {"seen": {path: seen(value) for path, value in found.items()}}
    except RuntimeError as error:
        # Such as a sparse tensor of a negative size, which is made and cannot be read.
        found, refusal, outcome = {}, {"at": -1, "name": "Unreadable", "message": str(error)}, {"seen": {}}
    if refusal:
        outcome["refusal"] = refusal
    if wants_conditioning:
        padded = dtypes + [None] * len(program["lines"])
        exact = conditioning(program, padded, refusal) if found else {}
        return {"outcome": outcome, "conditioning": {"exact": exact}}
    return outcome


serve(
    {"torch": torch.__version__},
    lambda batch: [answer(program, batch["conditioning"]) for program in batch["programs"]],
)
