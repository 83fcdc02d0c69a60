"""
Small programs: tensors, a list of calls, and what PyTorch makes of them: values, gradients, or the call that refuses.

A call is [result, function, arguments...]. Names are those of this package; "$x" is the tensor x. `functions.py` says what each is in
PyTorch. test/programs.test.ts runs the same calls.
"""
import torch

from functions import FUNCTIONS
from recording import INF, NAN, pack

WORDS = {"inf": INF, "-inf": -INF, "nan": NAN}

# Words of a refusal that ours has to say too; what PyTorch says else is its own way of naming things.
PHRASES = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "a leaf Variable that requires grad is being used in an in-place operation",
    "has been modified by an inplace operation",
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled",
    "A view was created in no_grad mode and its base or another view of its base has been modified inplace with grad mode enabled",
    "is a view and is being modified inplace. This view is the output of a function that returns multiple views",
    "is a view and its base or another view of its base has been modified inplace. This view is the output of a function that returns multiple views",
    "some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
    "more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.",
    "can't be cast to the desired output type",
    "doesn't match the broadcast shape",
    "does not require grad and does not have a grad_fn",
    "must match the size of tensor b",
    "is invalid for input of size",
    "cannot be concatenated",
    "cannot be multiplied",
    "Size does not match at",
    "cannot be applied to a 0-dim tensor",
    "non-zero size",
    "have no identity",
    "output padding must be smaller than either stride or dilation",
)


def resolve(value, env):
    if isinstance(value, str):
        if value.startswith("$"):
            return env[value[1:]]
        return WORDS.get(value, value)
    if isinstance(value, list):
        return [resolve(v, env) for v in value]
    if isinstance(value, dict):
        return {k: resolve(v, env) for k, v in value.items()}
    return value


def weights(t):
    """Different for each element, and exact in every floating dtype."""
    i = torch.arange(t.numel(), dtype=torch.float64)
    return (((i * 7) % 11 + 1) / 4).to(t.dtype).reshape(t.shape)


class Refused(Exception):
    pass


def execute(given, grads, steps, reads, dtype=None):
    env = {}
    for name, t in given.items():
        t = t.clone()
        if dtype is not None and t.dtype.is_floating_point:
            t = t.to(dtype)
        env[name] = t.requires_grad_() if name in grads else t
    for i, (out, fn, *args) in enumerate(steps):
        recorded = not fn.startswith("noGrad:")
        run = FUNCTIONS[fn.removeprefix("noGrad:")]
        try:
            with torch.set_grad_enabled(recorded):
                result = run(*[resolve(a, env) for a in args])
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError) as error:
            raise Refused(i, str(error)) from error
        if out:
            env[out] = result
    values = {name: env[name] for name in reads}
    roots = [t for t in values.values() if torch.is_tensor(t) and t.requires_grad]
    if roots:
        try:
            torch.autograd.backward(roots, [weights(t) for t in roots])
        except (RuntimeError, NotImplementedError) as error:
            raise Refused("backward", str(error)) from error
    return env, values


def phrase(message):
    return max((p for p in PHRASES if p in message), key=len, default="")


# What only PyTorch's implementation cannot do: nothing to be like.
LIMITS = ("returned an invalid gradient", "backward(): Expected grad_output to have non-zero size", "integer multiplication overflow")

programs = []


def program(name, given, steps, reads=("y",), grads=None, long=False):
    """
    Runs and records; `long` is for sums and products of many terms. `grads` are the leaves that require gradients: by default every floating one. The roots are what of `reads`
    requires gradients, each with weights of its own.
    """
    given = {k: v.detach() for k, v in given.items()}
    if grads is None:
        grads = [k for k, v in given.items() if v.dtype.is_floating_point]
    record = {
        "name": name,
        "given": {k: pack(v) for k, v in given.items()},
        "leaves": list(grads),
        "steps": [list(s) for s in steps],
        "reads": list(reads),
    }
    if long:
        record["long"] = True
    try:
        env, values = execute(given, grads, steps, reads)
    except Refused as refused:
        step, message = refused.args
        if any(words in message for words in LIMITS) or step == "backward" and "more than one element" in message:
            return None
        record["refused"] = {"step": step, "says": phrase(message)}
        programs.append(record)
        return record
    exact_env, exact = {}, {}
    if any(v.dtype in (torch.float32, torch.float16, torch.bfloat16) for v in given.values()):
        try:
            exact_env, exact = execute(given, grads, steps, reads, torch.float64)
        except Refused:
            pass  # A constant inside keeps it from running in float64.

    def packed(t, e):
        return pack(t, e if e is not None and e.shape == t.shape else None, slack=2)

    record["values"] = {k: packed(v, exact.get(k)) if torch.is_tensor(v) else v for k, v in values.items()}
    record["grads"] = {
        k: None if env[k].grad is None else packed(env[k].grad, exact_env[k].grad if k in exact_env else None) for k in grads
    }
    programs.append(record)
    return record
