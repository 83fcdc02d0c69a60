"""What PyTorch answers, for the tests of this package to compare with: operations.json, matrix.json, layers.json,
optimizers.json, and the programs of views.json, edges.json and values.json.

Run by `npm run golden`; needs Python with torch and numpy. Without arguments it compares with what is kept and fails on a difference;
`--write` keeps the new values.
"""
import torch
import torch.nn.functional as F

import edges
import matrix
import values
import views
from program import programs
from recording import case, cases, f, i64, keep, keep_lines, pack, INF, NAN

special = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, INF, -INF, NAN])
for name in "neg abs sign exp expm1 sigmoid tanh relu floor ceil trunc round square sin cos atan asinh erf".split():
    case(f"{name} special", lambda t, n=name: getattr(torch, n)(t), special, grad=False)
for name in "neg abs sign exp expm1 sigmoid tanh relu square sin cos tan atan sinh cosh asinh erf".split():
    case(name, lambda t, n=name: getattr(torch, n)(t), torch.cat([f(7), torch.zeros(1)]))
for name in "log log1p log2 sqrt rsqrt reciprocal".split():
    case(name, lambda t, n=name: getattr(torch, n)(t), f(8, low=0.1, high=4))
for name in "asin acos atanh".split():
    case(name, lambda t, n=name: getattr(torch, n)(t), f(8, low=-0.9, high=0.9))
case("acosh", torch.acosh, f(8, low=1.1, high=4))
case("softplus", F.softplus, torch.tensor([-30.0, -1, 0, 1, 19.9, 20.1, 30]))
case("logSigmoid", F.logsigmoid, torch.tensor([-40.0, -1, 0, 1, 40]))

ties = (torch.tensor([[1.0, 2, 3], [4, 4, 0]]), torch.tensor([2.0, 2, 3]))
case("add", torch.add, f(2, 3), f(3))
case("add alpha", lambda a, b: torch.add(a, b, alpha=2.5), f(2, 3), f(2, 1), key="addAlpha")
case("sub", torch.sub, f(2, 3), f(2, 1))
case("mul", torch.mul, f(2, 1, 3), f(4, 1))
case("div", torch.div, f(2, 3), f(3, low=0.5))
case("div integers", torch.div, i64(7, -7, 1), i64(2, 2, 3))
case("div by zero", torch.div, torch.tensor([1.0, -1, 0]), torch.zeros(3), grad=False)
case("floorDivide", torch.floor_divide, torch.tensor([7.0, -7, 7.5]), torch.tensor([2.0, 2, -2]), grad=False)
case("floorDivide int64", torch.floor_divide, i64(7, -7, -8), i64(2, 2, 3))
case("remainder", torch.remainder, torch.tensor([7.0, -7, 7.5]), torch.tensor([2.0, 2, -2]))
case("remainder int32", torch.remainder, torch.tensor([7, -7, 9], dtype=torch.int32), torch.tensor([4, 4, -4], dtype=torch.int32))
case("pow", torch.pow, f(4, low=0.2), f(4))
case("pow zeros", torch.pow, torch.tensor([0.0, 0, 0, 2]), torch.tensor([0.0, 2, 1, 0]))
case("pow scalar", lambda a: a**3, f(4), key="cube")
case("maximum ties", torch.maximum, *ties)
case("minimum ties", torch.minimum, *ties)
case("maximum nan", torch.maximum, torch.tensor([NAN, 1.0]), torch.tensor([1.0, NAN]), grad=False)
case("atan2", torch.atan2, torch.tensor([0.0, 1, -1, 0, 2]), torch.tensor([0.0, 0, -1, -1, 3]))
for name in "eq ne lt le gt ge".split():
    case(f"{name} ties", lambda a, b, n=name: getattr(torch, n)(a, b), *ties, grad=False)
case("clamp", lambda t: t.clamp(-1, 1), torch.tensor([-2.0, -1, 0, 1, 2]))
case("where", lambda a, b: torch.where(torch.tensor([True, False, True]), a, b), f(2, 3), f(3))

# Promotion.
small = torch.tensor([3, 200], dtype=torch.uint8)
case("add uint8 int8", torch.add, small, torch.tensor([1, -1], dtype=torch.int8), key="add")
case("add bool bool", torch.add, torch.tensor([True, False]), torch.tensor([True, False]), key="add")
case("mul bool bool", torch.mul, torch.tensor([True, False]), torch.tensor([True, True]), key="mul")
case("add int64 float32", torch.add, i64(1, 2), f(2), key="add")
case("add float16", torch.add, f(4).half(), f(4).half(), key="add", grad=False)
case("mul bfloat16", torch.mul, f(4).bfloat16(), f(4).bfloat16(), key="mul", grad=False)
case("add half float", torch.add, f(3).half(), f(3), key="add", grad=False)
case("add float64", torch.add, f(3).double(), f(3), key="add")
case("add zero dim", torch.add, f(3), torch.tensor(2.5, dtype=torch.float64), key="add")
case("add wraps", torch.add, torch.tensor([2**31 - 1], dtype=torch.int32), torch.tensor([1], dtype=torch.int32), key="add")
case("mul wraps", torch.mul, torch.tensor([123456789], dtype=torch.int32), torch.tensor([987654321], dtype=torch.int32), key="mul")

for dim, tag in ((None, ""), (0, " 0"), (-1, " 1")):
    kwargs = {} if dim is None else {"dim": dim}
    for name in ("sum", "mean", "prod"):
        case(name + tag, lambda t, n=name, k=kwargs: getattr(torch, n)(t, **k), f(3, 4), key=f"{name}{'' if dim is None else dim}")
case("prod one zero", torch.prod, torch.tensor([2.0, 0, 3]), key="prod")
case("prod two zeros", torch.prod, torch.tensor([2.0, 0, 0]), key="prod")
case("sum int32", torch.sum, torch.tensor([1, 2, 3], dtype=torch.int32), key="sum")
case("sum bool", torch.sum, torch.tensor([True, True]), key="sum")
case("sum empty", torch.sum, torch.zeros(0, 3), key="sum")
case("mean long", torch.mean, f(30, 100), key="mean", long=True)
case("amax ties", lambda t: t.amax(1), torch.tensor([[1.0, 3, 3], [2, 2, 2]]), key="amax1")
case("amin ties", lambda t: t.amin(1), torch.tensor([[1.0, 3, 1], [2, 2, 2]]), key="amin1")
case("max dim", lambda t: t.max(1).values, torch.tensor([[1.0, 3, 3], [2, 2, 2]]), key="maxValues1")
case("argMax ties", lambda t: t.argmax(1), torch.tensor([[1.0, 3, 3], [NAN, 9, NAN]]), grad=False, key="argMax1")
case("argMin", lambda t: t.argmin(), f(3, 4), grad=False)
case("cumsum", lambda t: t.cumsum(1), f(2, 5), key="cumsum1")
case("cumprod", lambda t: t.cumprod(0), f(4, 2, low=0.5), key="cumprod0")
case("variance", lambda t: t.var(1), f(3, 5), key="variance1")
case("std", lambda t: t.std(), f(3, 5))
case("norm", lambda t: t.norm(dim=1), f(3, 4), key="norm1")
case("norm zero", lambda t: t.norm(), torch.zeros(3), key="norm")
case("norm one", lambda t: t.norm(p=1), f(5), key="normP1")

case("softmax", lambda t: t.softmax(1), f(3, 5), key="softmax1")
case("softmax large", lambda t: t.softmax(1), torch.tensor([[1000.0, 1000, -1000]]), key="softmax1")
case("logSoftmax", lambda t: t.log_softmax(0), f(3, 5), key="logSoftmax0")
case("logSumExp", lambda t: t.logsumexp(1), f(3, 5), key="logSumExp1")

case("matmul", torch.matmul, f(5, 7), f(7, 3), long=True)
case("matmul large", torch.matmul, f(24, 200), f(200, 30), key="matmul", long=True)
case("matmul vector matrix", torch.matmul, f(4), f(4, 3), key="matmul", long=True)
case("matmul matrix vector", torch.matmul, f(3, 4), f(4), key="matmul", long=True)
case("matmul dot", torch.matmul, f(4), f(4), key="matmul", long=True)
case("matmul batch", torch.matmul, f(2, 1, 3, 4), f(5, 4, 2), key="matmul", long=True)
case("matmul empty", torch.matmul, torch.zeros(2, 0), torch.zeros(0, 3), key="matmul")
case("matmul int64", torch.matmul, i64([[1, 2], [3, 4]]), i64([[5, 6], [7, 8]]), key="matmul")
case("linear", F.linear, f(2, 3), f(4, 3), f(4), long=True)
case("inverse", torch.linalg.inv, f(2, 3, 3) + 4 * torch.eye(3), long=True)
case("det", torch.linalg.det, f(2, 3, 3), long=True)
case("solve", torch.linalg.solve, f(3, 3) + 4 * torch.eye(3), f(3, 2), long=True)
spd = f(3, 3)
case("cholesky", torch.linalg.cholesky, spd @ spd.T + 3 * torch.eye(3), long=True)

case("indexSelect", lambda t: t.index_select(0, i64(2, 0, 2)), f(3, 2), key="indexSelect0")
case("indexAdd", lambda t, s: t.index_add(0, i64(2, 0, 2), s), f(3, 2), f(3, 2), key="indexAdd0")
case("gather", lambda t: t.gather(1, i64([[0, 2, 2], [1, 1, 0]])), f(2, 3), key="gather1")
case("scatterAdd", lambda t, s: t.scatter_add(1, i64([[0, 2, 2], [1, 1, 0]]), s), f(2, 3), f(2, 3), key="scatterAdd1")
case("sort", lambda t: t.sort(dim=1, descending=True, stable=True).values, torch.tensor([[3.0, 1, 2], [1, 1, 5]]), key="sortDown1")
case("argSort nan", lambda t: t.argsort(stable=True), torch.tensor([NAN, 1.0, -INF, NAN, 0.0]), grad=False, key="argSort")
case("topK", lambda t: t.topk(2, 1).values, f(3, 5), key="topK2")
case("tril", lambda t: t.tril(-1), f(3, 4), key="trilDown")
case("flip", lambda t: t.flip([0, 1]), f(2, 3))
case("roll", lambda t: t.roll(2, 1), f(2, 5), key="roll2")
case("tile", lambda t: t.tile(2, 3), f(2, 2), key="tile23")
case("pad", lambda t: F.pad(t, (1, 2, 0, 1), value=0.5), f(2, 3))

for name in "gelu silu mish selu hardtanh hardSwish hardSigmoid softsign relu6".split():
    torch_name = {"hardSwish": "hardswish", "hardSigmoid": "hardsigmoid"}.get(name, name)
    case(name, lambda t, n=torch_name: getattr(F, n)(t), torch.tensor([-7.0, -3, -1, -0.5, 0.5, 1, 3, 5, 7]))
case("gelu tanh", lambda t: F.gelu(t, approximate="tanh"), f(6), key="geluTanh")
case("leakyRelu", F.leaky_relu, torch.tensor([-1.0, 0, 2]))
case("elu", F.elu, torch.tensor([-3.0, -0.5, 0.5, 2]))
case("layerNorm", lambda t, w, b: F.layer_norm(t, (4,), w, b), f(3, 4), f(4), f(4), long=True)
case("groupNorm", lambda t, w, b: F.group_norm(t, 2, w, b), f(2, 4, 3), f(4), f(4), long=True)
case("batchNorm", lambda t, w, b: F.batch_norm(t, None, None, w, b, True), f(4, 3, 2), f(3), f(3), long=True)
case("conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), f(2, 3, 7, 6), f(4, 3, 3, 3), f(4), long=True)
case("conv2d groups", lambda x, w: F.conv2d(x, w, dilation=2, groups=2), f(1, 4, 7, 7), f(6, 2, 3, 2), key="conv2dGroups", long=True)
case("conv1d", lambda x, w: F.conv1d(x, w, padding=1), f(2, 3, 8), f(4, 3, 3), long=True)
case("convTranspose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), f(1, 3, 4, 4), f(3, 2, 3, 3), long=True)
case("maxPool2d ties", lambda x: F.max_pool2d(x, 2, stride=1), torch.tensor([[[[1.0, 1, 2], [1, 0, 2], [3, 3, 3]]]]), key="maxPool2dStride1")
case("maxPool2d", lambda x: F.max_pool2d(x, 3, stride=2, padding=1), f(2, 2, 6, 7), key="maxPool2dPadded")
case("avgPool2d", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1), f(2, 2, 6, 7), key="avgPool2dPadded")
case("adaptiveAvgPool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), f(1, 2, 5, 7))
case("attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), f(2, 4, 3), f(2, 4, 3), f(2, 4, 3), long=True)

case("mseLoss", F.mse_loss, f(3, 4), f(3, 4))
case("l1Loss", F.l1_loss, f(5), f(5))
case("smoothL1Loss", F.smooth_l1_loss, f(6), f(6))
case("huberLoss", lambda a, b: F.huber_loss(a, b, delta=0.5), f(6), f(6), key="huberHalf")
case("binaryCrossEntropy", F.binary_cross_entropy, torch.tensor([0.0, 0.3, 0.9, 1.0]), torch.tensor([0.0, 1, 0.5, 1]), grad=False)
case("binaryCrossEntropyWithLogits", F.binary_cross_entropy_with_logits, f(6, low=-40, high=40), torch.tensor([0.0, 1, 0.5, 1, 0, 0.2]), grad=False)
case("klDiv", lambda a, b: F.kl_div(a, b, reduction="sum"), f(6, high=-0.1), torch.tensor([0.0, 0.1, 0.2, 0.3, 0.2, 0.2]), grad=False, key="klDivSum")
target = i64(1, 0, -100, 4)
weight = torch.tensor([1.0, 2, 0.5, 1, 3])
case("crossEntropy", lambda t: F.cross_entropy(t, i64(1, 0, 2, 4)), f(4, 5), key="crossEntropyPlain")
case("crossEntropy ignore", lambda t: F.cross_entropy(t, target), f(4, 5), key="crossEntropyIgnore")
case("crossEntropy all", lambda t: F.cross_entropy(t, target, weight=weight, label_smoothing=0.2), f(4, 5), key="crossEntropyAll")
case("crossEntropy images", lambda t: F.cross_entropy(t, i64([[[0, 1], [2, 1]]])), f(1, 3, 2, 2), key="crossEntropyImages")
case("crossEntropy soft", lambda t: F.cross_entropy(t, torch.softmax(torch.arange(15.0).reshape(3, 5), 1)), f(3, 5), key="crossEntropySoft")

# In-place changes and views, as whole programs of one input.
def through_view(t):
    x = t * 2
    x[1].mul_(5)
    return x + x[1]

def view_written(t):
    x = t * 2
    row = x[0]
    x.mul_(t)
    row.add_(1)
    return x * row

def copied(t):
    x = torch.zeros(2, 3)
    x[:, 1].copy_(t[:, 0] * 3)
    return x * t

def chained(t):
    x = t.clone()
    x.mul_(t).sub_(0.5).sigmoid_()
    return x

def transposed_view(t):
    x = t * 1
    x.t()[1:].mul_(3)
    return x

case("throughView", through_view, f(2, 3))
case("viewWritten", view_written, f(2, 3))
case("copied", copied, f(2, 3))
case("chained", chained, f(2, 3))
case("transposedView", transposed_view, f(2, 3))

# Higher derivatives.
def second(fn):
    def run(t):
        (g,) = torch.autograd.grad(fn(t).sum(), t, create_graph=True)
        return g

    return run

for name in "tanh sigmoid exp".split():
    case(f"second {name}", second(lambda t, n=name: getattr(torch, n)(t) * t), f(4), key=f"second:{name}")
case("second softmax", second(lambda t: t.softmax(1) ** 2), f(2, 3), key="second:softmax")
case("second matmul", second(lambda t: (t @ t.T).square()), f(3, 3), key="second:matmul", long=True)

# Layers with given weights.
def lstm_run(layer, x):
    out, (h, c) = layer(x)
    (out.sum() + 2 * h.sum() + 3 * c.sum()).backward()
    return out, h, c

lstm = torch.nn.LSTM(3, 4, num_layers=2)
exact_lstm = torch.nn.LSTM(3, 4, num_layers=2).double()
exact_lstm.load_state_dict(lstm.state_dict())
x = f(5, 2, 3)
results, exact_results = lstm_run(lstm, x), lstm_run(exact_lstm, x.double())
layers = {
    "lstm": {
        "state": {n: pack(p) for n, p in lstm.state_dict().items()},
        "x": pack(x),
        **{n: pack(t, e) for n, t, e in zip(("output", "h", "c"), results, exact_results, strict=True)},
        "grads": {
            n: pack(p.grad, e.grad) for (n, p), e in zip(lstm.named_parameters(), exact_lstm.parameters(), strict=True)
        },
    }
}
bag = torch.nn.EmbeddingBag(6, 3, mode="mean")
ids, offsets = i64(1, 2, 4, 5, 4, 3), i64(0, 2, 2)
pooled = bag(ids, offsets)
(pooled * torch.arange(9.0).reshape(3, 3)).sum().backward()
layers["embeddingBag"] = {
    "weight": pack(bag.weight),
    "ids": pack(ids),
    "offsets": pack(offsets),
    "output": pack(pooled),
    "grad": pack(bag.weight.grad),
}

# Optimisers: five steps from the same start with the same gradients.
start = f(4)
gradients = [f(4) for _ in range(5)]
configs = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.05}),
    ("Adamax", {"lr": 0.05}),
    ("Adagrad", {"lr": 0.05}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.01}),
    ("Adadelta", {}),
    ("RMSprop", {"lr": 0.05}),
    ("RMSprop", {"lr": 0.05, "momentum": 0.9, "centered": True}),
    ("Rprop", {"lr": 0.05}),
]
runs = []
for name, options in configs:
    p = start.clone().requires_grad_()
    opt = getattr(torch.optim, name)([p], **options)
    values = []
    for g in gradients:
        p.grad = g.clone()
        opt.step()
        values.append(pack(p))
    runs.append({"name": name, "options": options, "values": values})

keep("operations.json", {"torch": torch.__version__, "cases": cases})
count = len(cases)
cases.clear()
matrix.record()
keep("matrix.json", {"torch": torch.__version__, "cases": cases})
keep("layers.json", layers)
keep("optimizers.json", {"start": pack(start), "gradients": [pack(g) for g in gradients], "runs": runs})
ran = 0
for module, file in ((views, "views.json"), (edges, "edges.json"), (values, "values.json")):
    torch.manual_seed(0)
    module.record()
    keep_lines(file, programs)
    ran += len(programs)
    programs.clear()
print(count + len(cases), "cases,", ran, "programs,", len(runs), "optimiser runs, torch", torch.__version__)
