"""Records calls of PyTorch functions: inputs, results, gradients, and how far float32 itself is off."""
import json
import math
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).parent
NAN, INF = math.nan, math.inf
torch.manual_seed(0)
torch.set_num_threads(1)

cases = []


def plain(value):
    """Numbers as JSON has them; NaN, infinities and integers beyond 2^53 as strings."""
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def pack(t, exact=None, slack=1):
    """
    A tensor as JSON. `exact`, the same in float64, gives `error`: by how much PyTorch's own float32 is off at worst, or `errors`: the
    same of single elements of half precision; and `rescued`: results that only float32 has no number for. With a `slack` of two, ours
    may be off to the other side.
    """
    t = t.detach()
    if t.is_sparse:
        t = t.to_dense()
    # Through text, a float32 takes half the digits of the same number as a double.
    values = [float(str(v)) for v in t.flatten().numpy()] if t.dtype == torch.float32 else t.flatten().tolist()
    record = {
        "dtype": str(t.dtype).removeprefix("torch."),
        "shape": list(t.shape),
        "data": [plain(v) for v in values],
    }
    if exact is not None and t.dtype in (torch.float32, torch.float16, torch.bfloat16):
        exact = (exact.to_dense() if exact.is_sparse else exact).detach().double()
        gaps = (exact - t.double()).abs()
        finite = gaps[gaps.isfinite()]
        if t.dtype != torch.float32:
            record["errors"] = {str(i): float(f"{gaps.flatten()[i].item() * slack * 1.01:.2e}") for i in off_by_more(t, gaps)}
        elif finite.numel() > 0 and finite.max() > 0:
            record["error"] = float(f"{finite.max().item() * slack * 1.01:.2e}")
        # Where float32 overflowed on PyTorch's way, but the result has a value: that counts too.
        rescued = {
            str(i): e for i, (e, v) in enumerate(zip(exact.flatten().tolist(), t.flatten().tolist()))
            if math.isfinite(e) and not math.isfinite(v)
        }
        if rescued:
            record["rescued"] = rescued
    return record


def off_by_more(t, gaps):
    """Where half precision is off by more than its last place, one worst for all would hide every small element."""
    step = 1e-3 if t.dtype == torch.float16 else 8e-3
    return [i for i, (g, v) in enumerate(zip(gaps.flatten().tolist(), t.flatten().tolist())) if math.isfinite(g) and g > step / 2 * abs(v)]


def f(*shape, low=-2.0, high=2.0):
    return torch.rand(*shape) * (high - low) + low


def i64(*values):
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.int64)


VIEWS = {
    None: lambda t: t,
    "transposed": lambda t: t.transpose(-1, -2) if t.dim() > 1 else t,
    "stepped": lambda t: t[::2] if t.dim() > 0 else t,
    "inner": lambda t: t.narrow(0, 1, t.shape[0] - 2) if t.dim() > 0 else t,
    "expanded": lambda t: t.expand(3, *t.shape),
}


def run(fn, inputs, grad, view, dtype=None):
    leaves = [
        (t.to(dtype) if dtype is not None and t.dtype == torch.float32 else t.clone()).requires_grad_(
            grad and t.dtype.is_floating_point
        )
        for t in inputs
    ]
    out = fn(*[VIEWS[view](t) for t in leaves])
    weights = None
    if out.requires_grad:
        weights = torch.arange(out.numel(), dtype=torch.float64).mul(0.7).sin().add(1.1).to(out.dtype).reshape(out.shape)
        # In both precisions the same seed.
        seed = weights.float().to(out.dtype) if out.dtype == torch.float64 and dtype is not None else weights
        out.backward(seed)
    return leaves, out, weights


def case(name, fn, *inputs, grad=True, key=None, args=None, view=None, long=False):
    """
    One call: inputs, result, and the gradient of each float input for fixed weights on the result. `key` names our function, `args`
    what follows the tensors; `view` makes the inputs views of the recorded tensors. `long` is for sums and products of many terms.
    """
    leaves, out, weights = run(fn, inputs, grad, view)
    exact_leaves, exact = [None] * len(leaves), None
    if any(t.dtype == torch.float32 for t in inputs):
        try:
            exact_leaves, exact, _ = run(fn, inputs, grad, view, torch.float64)
        except RuntimeError:
            pass  # A constant inside keeps it from running in float64.
    if exact is not None and exact.shape != out.shape:
        exact = None
    record = {"name": name, "fn": key or name.split(" ")[0], "inputs": [pack(t) for t in inputs]}
    if args is not None:
        record["args"] = args
    if view is not None:
        record["view"] = view
    if long:
        record["long"] = True
    record["output"] = pack(out, exact)
    if weights is not None:
        record["weights"] = pack(weights)
        record["grads"] = [
            None if t.grad is None else pack(t.grad, None if e is None else e.grad)
            for t, e in zip(leaves, exact_leaves, strict=True)
        ]
    cases.append(record)


def differences(kept, made, path=""):
    """Where two JSON values differ; numbers may by a part in a million, `error` and the version of torch at will."""
    if isinstance(kept, dict) and isinstance(made, dict):
        for name in sorted(kept.keys() | made.keys()):
            if name in ("error", "errors", "torch"):
                continue
            if name not in kept or name not in made:
                yield f"{path}.{name}: only in what {'is kept' if name in kept else 'was made'}"
            else:
                yield from differences(kept[name], made[name], f"{path}.{name}")
    elif isinstance(kept, list) and isinstance(made, list):
        if len(kept) != len(made):
            yield f"{path}: {len(kept)} kept, {len(made)} made"
        for i, (a, b) in enumerate(zip(kept, made)):
            label = a.get("name", i) if isinstance(a, dict) else i
            yield from differences(a, b, f"{path}[{label}]")
    elif isinstance(kept, (int, float)) and isinstance(made, (int, float)) and not isinstance(kept, bool):
        if abs(kept - made) > 1e-6 * max(abs(kept), 1e-3):
            yield f"{path}: {kept} kept, {made} made"
    elif kept != made:
        yield f"{path}: {kept} kept, {made} made"


def keep(file, made):
    """Compares with the kept file, or replaces it."""
    target = HERE / file
    made = json.loads(json.dumps(made))
    if "--write" in sys.argv:
        target.write_text(json.dumps(made, separators=(",", ":")) + "\n")
        return
    compare(file, json.loads(target.read_text()), made)


def compare(file, kept, made):
    found = list(differences(kept, made))
    for line in found[:20]:
        print(f"{file}{line}", file=sys.stderr)
    if found:
        sys.exit(f"{file} is not what this torch computes: {len(found)} differences. `npm run golden -- --write` keeps the new values.")
    print(f"{file} is what this torch computes")


def keep_lines(file, made):
    """As `keep`, one record a line."""
    target = HERE / file
    if "--write" in sys.argv:
        target.write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in made) + "\n]\n")
        return
    compare(file, json.loads(target.read_text()), json.loads(json.dumps(made)))
