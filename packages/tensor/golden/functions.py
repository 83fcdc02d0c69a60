"""What each function of this package is in PyTorch."""
import torch
import torch.nn.functional as F


def camel(name):
    head, *rest = name.split("_")
    return head + "".join(w.capitalize() for w in rest)


def pair(v):
    return tuple(v) if isinstance(v, list) else v


def reduced(name):
    """dim and keepDim in order, or none of them."""
    fn = getattr(torch, name)

    def run(t, dim=None, keep=False):
        if dim is None:
            return fn(t)
        return fn(t, dim=dim, keepdim=keep)

    return run


def spread(name):
    fn = getattr(torch, name)
    return lambda t, dim=None, o={}: fn(t, dim=dim, correction=o.get("correction", 1), keepdim=o.get("keepDim", False))


def options(o, **names):
    """The options given, under their names in PyTorch."""
    return {names.get(k, camel_back(k)): pair(v) for k, v in o.items()}


def camel_back(name):
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


def scaled(name):
    fn = getattr(torch.Tensor, name)
    return lambda a, b, o={}: fn(a, b, **o)


def attention(q, k, v, o={}):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=o.get("mask"), is_causal=o.get("causal", False), scale=o.get("scale"))


def batch_norm(t, o={}):
    return F.batch_norm(
        t, o.get("runningMean"), o.get("runningVar"), o.get("weight"), o.get("bias"), o.get("training", True), o.get("momentum", 0.1),
        o.get("eps", 1e-5),
    )


def sparse_embedding(table, ids):
    return F.embedding(ids, table, sparse=True)


FUNCTIONS = {
    n: getattr(torch, n)
    for n in (
        "neg abs sign exp expm1 log log1p log2 sqrt rsqrt square reciprocal relu sigmoid tanh sin cos tan asin acos atan sinh cosh asinh "
        "acosh atanh erf floor ceil round trunc div pow maximum minimum atan2 remainder eq ne lt le gt ge mul matmul bmm mm dot outer "
        "trace clone where tril triu argmax argmin nonzero inverse det complex real imag conj angle"
    ).split()
}
FUNCTIONS |= {n: reduced(n) for n in "sum mean prod amax amin any all logsumexp max min argmax argmin".split()}
FUNCTIONS |= {
    camel(n): f
    for n, f in {
        "logical_not": torch.logical_not, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
        "logical_xor": torch.logical_xor, "floor_divide": torch.floor_divide,
        "is_na_n": torch.isnan, "is_inf": torch.isinf, "is_finite": torch.isfinite,
        "softplus": F.softplus, "log_sigmoid": F.logsigmoid, "silu": F.silu, "mish": F.mish, "leaky_relu": F.leaky_relu, "elu": F.elu,
        "selu": F.selu, "relu6": F.relu6, "hardtanh": F.hardtanh, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish,
        "softsign": F.softsign, "prelu": F.prelu, "lerp": torch.lerp, "one_hot": F.one_hot, "masked_fill": torch.masked_fill,
        "masked_select": torch.masked_select, "index_select": torch.index_select, "gather": torch.gather, "scatter": torch.scatter,
        "scatter_add": torch.scatter_add, "index_add": lambda t, d, i, s: t.index_add(d, i, s), "bincount": torch.bincount,
        "cumsum": torch.cumsum, "cumprod": torch.cumprod,
    }.items()
}
FUNCTIONS |= {
    "isNaN": torch.isnan,
    "gelu": lambda t, a="none": F.gelu(t, approximate=a),
    "add": scaled("add"),
    "sub": scaled("sub"),
    "variance": spread("var"),
    "std": spread("std"),
    "norm": lambda t, p=2, dim=None, keep=False: torch.linalg.vector_norm(t, p, dim=pair(dim) if dim is not None else None, keepdim=keep),
    "normalize": lambda t, p=2, dim=1, eps=1e-12: F.normalize(t, p=p, dim=dim, eps=eps),
    "cosineSimilarity": lambda a, b, dim=1, eps=1e-8: F.cosine_similarity(a, b, dim=dim, eps=eps),
    "logSumExp": FUNCTIONS["logsumexp"],
    "argMax": FUNCTIONS["argmax"],
    "argMin": FUNCTIONS["argmin"],
    "softmax": lambda t, dim: F.softmax(t, dim),
    "logSoftmax": lambda t, dim: F.log_softmax(t, dim),
    "clamp": lambda t, low=None, high=None: t.clamp(low, high),
    "sort": lambda t, dim=-1, down=False: t.sort(dim=dim, descending=down, stable=True),
    "argSort": lambda t, dim=-1, down=False: t.argsort(dim=dim, descending=down, stable=True),
    "topK": lambda t, k, dim=-1, largest=True: t.topk(k, dim, largest),
    "unique": lambda t: dict(zip(("values", "inverse", "counts"), t.unique(return_inverse=True, return_counts=True), strict=True)),
    "item": lambda t, i: t[i],
    "get": lambda t, name: t[name] if isinstance(t, dict) else getattr(t, name),
    # Sparse tensors: as they lie, not coalesced first.
    "sparse": lambda i, v, size: torch.sparse_coo_tensor(i, v, size),
    "rawIndices": lambda t: t._indices(),
    "rawValues": lambda t: t._values(),
    "coalesced": lambda t: torch.tensor(t.is_coalesced()),
    "coalesce": lambda t: t.coalesce(),
    "toDense": lambda t: t.to_dense(),
    "neg": torch.neg,
    # Views.
    "select": lambda t, d, i: t.select(d, i),
    "slice": lambda t, d, start=0, end=None, step=1: torch.ops.aten.slice(t, d, start, end, step),
    "narrow": lambda t, d, start, n: t.narrow(d, start, n),
    "split": lambda t, sizes, d=0: t.split(sizes, d),
    "chunk": lambda t, n, d=0: t.chunk(n, d),
    "unbind": lambda t, d=0: t.unbind(d),
    "transpose": lambda t, a, b: t.transpose(a, b),
    "permute": lambda t, dims: t.permute(dims),
    "expand": lambda t, shape: t.expand(shape),
    "squeeze": lambda t, d=None: t.squeeze() if d is None else t.squeeze(d),
    "unsqueeze": lambda t, d: t.unsqueeze(d),
    "view": lambda t, shape: t.view(shape),
    "reshape": lambda t, shape: t.reshape(shape),
    "flatten": lambda t, a=0, b=-1: t.flatten(a, b),
    "diagonal": lambda t: t.diagonal(dim1=-2, dim2=-1),
    "alias": lambda t: torch.ops.aten.alias(t),
    "detach": lambda t: t.detach(),
    "contiguous": lambda t: t.contiguous(),
    "to": lambda t, dtype: t.to(getattr(torch, dtype)),
    # Changes in place.
    "copy_": lambda t, s: t.copy_(s),
    "fill_": lambda t, v: t.fill_(v),
    "add_": scaled("add_"),
    "sub_": scaled("sub_"),
    **{n: (lambda t, *a, n=n: getattr(t, n)(*a)) for n in "zero_ mul_ div_ pow_ neg_ exp_ sqrt_ relu_ sigmoid_ tanh_".split()},
    # Shapes.
    "concat": lambda ts, d=0: torch.cat(ts, d),
    "stack": lambda ts, d=0: torch.stack(ts, d),
    "flip": lambda t, dims: t.flip(dims),
    "roll": lambda t, n, d=None: t.roll(n, d),
    "tile": lambda t, counts: t.tile(counts),
    "pad": lambda t, pads, value=0: F.pad(t, pads, value=value),
    "diagEmbed": lambda t: t.diag_embed(),
    "cholesky": torch.linalg.cholesky,
    "inverse": torch.linalg.inv,
    "det": torch.linalg.det,
    "solve": torch.linalg.solve,
    "addmm": lambda c, a, b, o={}: torch.addmm(c, a, b, **o),
    "linear": lambda x, w, b=None: F.linear(x, w, b),
    # Layers and losses.
    "conv1d": lambda x, w, o={}: F.conv1d(x, w, **options(o)),
    "conv2d": lambda x, w, o={}: F.conv2d(x, w, **options(o)),
    "convTranspose2d": lambda x, w, o={}: F.conv_transpose2d(x, w, **options(o)),
    "maxPool2d": lambda t, k, o={}: F.max_pool2d(t, pair(k), **options(o)),
    "avgPool2d": lambda t, k, o={}: F.avg_pool2d(t, pair(k), **options(o)),
    "adaptiveAvgPool2d": lambda t, s: F.adaptive_avg_pool2d(t, pair(s)),
    "layerNorm": lambda t, shape, w=None, b=None, eps=1e-5: F.layer_norm(t, shape, w, b, eps),
    "groupNorm": lambda t, g, w=None, b=None, eps=1e-5: F.group_norm(t, g, w, b, eps),
    "batchNorm": batch_norm,
    "scaledDotProductAttention": attention,
    "embedding": lambda table, ids: F.embedding(ids, table),
    "sparseEmbedding": sparse_embedding,
    **{
        n: (lambda a, b, o={}, f=f: f(a, b, **options(o)))
        for n, f in {
            "mseLoss": F.mse_loss, "l1Loss": F.l1_loss, "smoothL1Loss": F.smooth_l1_loss, "huberLoss": F.huber_loss,
            "binaryCrossEntropy": F.binary_cross_entropy, "binaryCrossEntropyWithLogits": F.binary_cross_entropy_with_logits,
            "klDiv": F.kl_div, "nllLoss": F.nll_loss, "crossEntropy": F.cross_entropy,
        }.items()
    },
}
