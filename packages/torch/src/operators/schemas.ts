/** @file The operators that are called by schema, in the words of torch 2.13: overloads, order of arguments, defaults. */

/** One overload a line. */
export const SCHEMAS: readonly string[] = String.raw`
abs(Tensor self) -> Tensor
acos(Tensor self) -> Tensor
acosh(Tensor self) -> Tensor
asin(Tensor self) -> Tensor
asinh(Tensor self) -> Tensor
atan(Tensor self) -> Tensor
atanh(Tensor self) -> Tensor
ceil(Tensor self) -> Tensor
cos(Tensor self) -> Tensor
cosh(Tensor self) -> Tensor
erf(Tensor self) -> Tensor
exp(Tensor self) -> Tensor
expm1(Tensor self) -> Tensor
floor(Tensor self) -> Tensor
isfinite(Tensor self) -> Tensor
isinf(Tensor self) -> Tensor
isnan(Tensor self) -> Tensor
log(Tensor self) -> Tensor
log1p(Tensor self) -> Tensor
log2(Tensor self) -> Tensor
log_sigmoid(Tensor self) -> Tensor
logical_not(Tensor self) -> Tensor
neg(Tensor self) -> Tensor
reciprocal(Tensor self) -> Tensor
relu(Tensor self) -> Tensor
round(Tensor self) -> Tensor
rsqrt(Tensor self) -> Tensor
sigmoid(Tensor self) -> Tensor
sign(Tensor self) -> Tensor
sin(Tensor self) -> Tensor
sinh(Tensor self) -> Tensor
sqrt(Tensor self) -> Tensor
square(Tensor self) -> Tensor
tan(Tensor self) -> Tensor
tanh(Tensor self) -> Tensor
trunc(Tensor self) -> Tensor
hardsigmoid(Tensor self) -> Tensor
hardswish(Tensor self) -> Tensor
mish(Tensor self) -> Tensor
relu6(Tensor self) -> Tensor
selu(Tensor self) -> Tensor
silu(Tensor self) -> Tensor
real(Tensor(a) self) -> Tensor(a)
imag(Tensor(a) self) -> Tensor(a)
conj(Tensor(a) self) -> Tensor(a)
angle(Tensor self) -> Tensor
trace(Tensor self) -> Tensor
nonzero(Tensor self) -> Tensor
linalg_det(Tensor A) -> Tensor
linalg_inv(Tensor A) -> Tensor
all(Tensor self) -> Tensor
any(Tensor self) -> Tensor
max(Tensor self) -> Tensor
min(Tensor self) -> Tensor
t(Tensor(a) self) -> Tensor(a)
detach(Tensor(a) self) -> Tensor(a)
add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
add.int(int a, int b) -> int
add.float(float a, float b) -> float
sub.int(int a, int b) -> int
mul.int(int a, int b) -> int
mul.float(float a, float b) -> float
sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
mul.Tensor(Tensor self, Tensor other) -> Tensor
mul.Scalar(Tensor self, Scalar other) -> Tensor
div.Tensor(Tensor self, Tensor other) -> Tensor
div.Scalar(Tensor self, Scalar other) -> Tensor
floor_divide(Tensor self, Tensor other) -> Tensor
floor_divide.Scalar(Tensor self, Scalar other) -> Tensor
remainder.Tensor(Tensor self, Tensor other) -> Tensor
remainder.Scalar(Tensor self, Scalar other) -> Tensor
pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor
pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor
eq.Tensor(Tensor self, Tensor other) -> Tensor
eq.Scalar(Tensor self, Scalar other) -> Tensor
ne.Tensor(Tensor self, Tensor other) -> Tensor
ne.Scalar(Tensor self, Scalar other) -> Tensor
lt.Tensor(Tensor self, Tensor other) -> Tensor
lt.Scalar(Tensor self, Scalar other) -> Tensor
le.Tensor(Tensor self, Tensor other) -> Tensor
le.Scalar(Tensor self, Scalar other) -> Tensor
gt.Tensor(Tensor self, Tensor other) -> Tensor
gt.Scalar(Tensor self, Scalar other) -> Tensor
ge.Tensor(Tensor self, Tensor other) -> Tensor
ge.Scalar(Tensor self, Scalar other) -> Tensor
maximum(Tensor self, Tensor other) -> Tensor
minimum(Tensor self, Tensor other) -> Tensor
max.other(Tensor self, Tensor other) -> Tensor
min.other(Tensor self, Tensor other) -> Tensor
atan2(Tensor self, Tensor other) -> Tensor
logical_and(Tensor self, Tensor other) -> Tensor
logical_or(Tensor self, Tensor other) -> Tensor
logical_xor(Tensor self, Tensor other) -> Tensor
matmul(Tensor self, Tensor other) -> Tensor
mm(Tensor self, Tensor mat2) -> Tensor
linalg_multi_dot(Tensor[] tensors) -> Tensor
bmm(Tensor self, Tensor mat2) -> Tensor
dot(Tensor self, Tensor tensor) -> Tensor
outer(Tensor self, Tensor vec2) -> Tensor
addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor
cat(Tensor[] tensors, int dim=0) -> Tensor
split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
stack(Tensor[] tensors, int dim=0) -> Tensor
sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
var(Tensor self, bool unbiased=True) -> Tensor
std(Tensor self, bool unbiased=True) -> Tensor
norm.Scalar(Tensor self, Scalar p=2) -> Tensor
softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
gelu(Tensor self, *, str approximate="none") -> Tensor
leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
prelu(Tensor self, Tensor weight) -> Tensor
softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
masked_select(Tensor self, Tensor mask) -> Tensor
index_select(Tensor self, int dim, Tensor index) -> Tensor
gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor
scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
one_hot(Tensor self, int num_classes=-1) -> Tensor
tril(Tensor self, SymInt diagonal=0) -> Tensor
triu(Tensor self, SymInt diagonal=0) -> Tensor
flip(Tensor self, int[] dims) -> Tensor
tile(Tensor self, SymInt[] dims) -> Tensor
roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor
argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor
huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor
binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor
binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor
nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor
cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor
conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor
avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor
adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor
group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor
dropout(Tensor input, float p, bool train) -> Tensor
lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor
view(Tensor(a) self, SymInt[] size) -> Tensor(a)
reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
permute(Tensor(a) self, int[] dims) -> Tensor(a)
transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
squeeze(Tensor(a) self) -> Tensor(a)
squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)
expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)
flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)
clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)
contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)
zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
zero_(Tensor(a!) self) -> Tensor(a!)
fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
neg_(Tensor(a!) self) -> Tensor(a!)
cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor
complex(Tensor real, Tensor imag) -> Tensor
size.int(Tensor self, int dim) -> int
numel(Tensor self) -> int
item(Tensor self) -> Scalar
`
  .trim()
  .split('\n')
  .map((line) => `aten::${line}`);
