"""What makes the sample arguments of reference_samples.py: tensors of one dtype, and lists of samples of a shape."""

import torch

I64 = torch.int64


class Maker:
    """Tensors of one dtype from a generator of fixed seed."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(7)

    def __call__(self, *shape: int) -> torch.Tensor:
        return self.scaled(shape, 2)

    def scaled(self, shape, by: float) -> torch.Tensor:
        if self.dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self.generator).bool()
        if self.dtype.is_complex:
            wide = torch.randn(*shape, 2, generator=self.generator, dtype=torch.float64) * by
            return torch.view_as_complex(wide).to(self.dtype)
        if self.dtype.is_floating_point:
            return (torch.randn(shape, generator=self.generator, dtype=torch.float64) * by).to(self.dtype)
        low = -5 if self.dtype.is_signed else 0
        return torch.randint(low, 9, shape, generator=self.generator).to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        t = self(*shape)
        if self.dtype == torch.bool or self.dtype.is_complex:
            return t
        if self.dtype.is_floating_point:
            return t.abs() + 1
        return (t.to(I64).abs() + 1).to(self.dtype)

    def unit(self, *shape: int) -> torch.Tensor:
        """Between 0 and 1."""
        return torch.rand(shape, generator=self.generator, dtype=torch.float64).to(self.dtype)

    def distinct(self, *shape: int) -> torch.Tensor:
        n = torch.Size(shape).numel()
        return torch.randperm(n, generator=self.generator).reshape(shape).to(self.dtype)

    def index(self, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, high, shape, generator=self.generator)

    def mask(self, *shape: int) -> torch.Tensor:
        return torch.randint(0, 2, shape, generator=self.generator).bool()

    def special(self) -> torch.Tensor:
        """Zeros, ones, borders of activations, halves; NaN and infinities where the dtype has them."""
        values = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0]
        if self.dtype != torch.bool and self.dtype.is_signed:
            values += [-1.0, -2.0, -3.0, -4.0]
        if self.dtype.is_floating_point:
            nan, inf = float("nan"), float("inf")
            values += [-0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.25, 1e-3, nan, inf, -inf, 30.0, -30.0]
        return torch.tensor(values).to(self.dtype)


def unary(m: Maker):
    return [(m(3, 4),), (m.special(),) if not m.dtype.is_complex else (m(5),), (m(),), (m(0, 3),)]


def binary(m: Maker):
    return [
        (m(3, 4), m(3, 4)),
        (m(3, 1), m(4)),
        (m.special(), m.special().flip(0)),
        (m(), m(2)),
        (m(0, 2), m(2)),
    ]


def positive_binary(m: Maker):
    return [(m(3, 4), m.positive(3, 4)), (m(3, 1), m.positive(4)), (m(), m.positive(2))]


def floating(m: Maker) -> bool:
    return m.dtype.is_floating_point or m.dtype.is_complex


def real_only(maker):
    def made(m: Maker):
        if not m.dtype.is_floating_point:
            raise NotImplementedError
        return maker(m)

    return made


def scalars(*values):
    """Unary with numbers after the tensor."""
    return lambda m: [(a[0], *values) for a in unary(m)]


def with_scalar(m: Maker):
    out = [(m(3, 4), 2), (m(), 3)]
    if floating(m):
        out += [(m(3, 4), 0.5), (m.special() if not m.dtype.is_complex else m(2), -1.5)]
    return out


def gradient(*after):
    """(grad_output, self, numbers ...)."""

    def made(m: Maker):
        at = m.special()
        return [(m(3, 4), m(3, 4), *after), (m(len(at)), at, *after), (m(0), m(0), *after)]

    return real_only(made)


def dims(m: Maker):
    """Reductions with dim, keepdim."""
    return [
        (m(3, 4), [1], False),
        (m(3, 4, 2), [0, 2], True),
        (m(3, 4), [], False),
        (m(), [0], False),
        (m(3, 2), [-1], True),
    ]


def dim(m: Maker):
    return [(m(3, 4), 1, False), (m(3, 4, 2), 0, True), (m(), 0, False), (m(3, 2), -1, True)]


def with_nan(m: Maker) -> torch.Tensor:
    t = m(3, 4)
    if m.dtype.is_floating_point:
        t[1, 2] = float("nan")
    return t


def extremum_dim(m: Maker):
    return [*dim(m), (with_nan(m), 1, False), (m.special().reshape(-1), 0, False), (m(0, 3), 1, False)]


def adding(a, b, c):
    """addmm and its like: with beta and alpha."""

    def made(m: Maker):
        out = [(m(*a), m(*b), m(*c)), (m(*a), m(*b), m(*c), {"beta": 2, "alpha": 3})]
        broken = torch.full(a, float("nan") if m.dtype.is_floating_point else 1).to(m.dtype)
        return [*out, (broken, m(*b), m(*c), {"beta": 0, "alpha": 1})]

    return made


def batch_norm(training: bool):
    def made(m: Maker):
        if not m.dtype.is_floating_point:
            raise NotImplementedError
        stats = (m.unit(3), m.unit(3) + 0.5)
        return [(m(4, 3, 5), m(3), m(3), *stats, training, 0.1, 1e-5), (m(4, 3, 2, 2), None, None, *stats, training, 0.3, 1e-3)]  # fmt: skip

    return made


def batch_norm_backward(m: Maker):
    x = m(4, 3, 5)
    out = torch.ops.aten.native_batch_norm(x, m(3), m(3), m.unit(3), m.unit(3), True, 0.1, 1e-5)
    stats = (m.unit(3), m.unit(3) + 0.5)
    every = [True, True, True]
    return [(m(4, 3, 5), x, m(3), *stats, out[1], out[2], True, 1e-5, every), (m(4, 3, 5), x, m(3), *stats, out[1], out[2], False, 1e-5, every)]  # fmt: skip


def layer_norm_backward(m: Maker):
    x = m(2, 3, 4)
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [3, 4], None, None, 1e-5)
    return [(m(2, 3, 4), x, [3, 4], mean, rstd, m(3, 4), m(3, 4), [True, True, True])]


def scatter(m: Maker):
    return [(m(4, 5), 0, m.index(4, 2, 5), m(3, 5)), (m(6), 0, m.index(6, 9), m(9)), (m(4, 5), -1, torch.empty(0, dtype=I64), m(3, 5)), (m(), 0, torch.tensor(0), m())]  # fmt: skip


def scatter_once(m: Maker):
    order = torch.stack([torch.randperm(4, generator=m.generator) for _ in range(5)], 1)
    return [(m(4, 5), 0, order[:2], m(3, 5)), (m(), 0, torch.tensor(0), m())]


def indices(m: Maker):
    i = torch.tensor([1, -1, 0])
    mask = torch.tensor([True, False, True, True])
    return [
        (m(4, 5), [i]),
        (m(4, 5), [None, i]),
        (m(4, 5, 3), [i, None, torch.tensor([[0], [2]])]),
        (m(4, 5, 3), [None, i, torch.tensor([[0], [2]])]),
        (m(4, 5), [mask]),
        (m(4, 5), [mask, torch.tensor([2])]),
        (m(2, 2, 3), [torch.tensor([[True, False], [True, True]])]),
        (m(4, 5), [torch.tensor(3, dtype=torch.int32)]),
        (m(4, 5), [torch.empty(0, dtype=I64)]),
    ]


def puts(accumulate: bool):
    def made(m: Maker):
        i = torch.tensor([1, -1, 0] if not accumulate else [1, 1, 0])
        return [(m(4, 5), [i], m(3, 5), accumulate), (m(4, 5), [None, i], m(1), accumulate), (m(4), [torch.tensor([True, False, True, True])], m(3), accumulate)]  # fmt: skip

    return made


def uniques(m: Maker):
    given = m(3, 4)
    if m.dtype.is_floating_point:
        given = m.special().round()
    return [(given, True, inverse, counts) for inverse in (False, True) for counts in (False, True)] + [
        (m(0, 3), True, True, True),
        (m(), True, True, True),
    ]


def transforms(m: Maker):
    lengths = [1, 2, 6, 7, 12]
    out = [(m(2, n), [1], norm, True) for n in lengths for norm in (0, 2)]
    return [*out, (m(3, 4, 5), [0, 2], 1, False), (m(3, 4), [0, 1], 0, True)]


def transforms_to_real(m: Maker):
    half = [(m(2, n // 2 + 1), [1], norm, n) for n in (1, 2, 6, 7, 12) for norm in (0, 2)]
    for t, *_ in half:
        t.imag[:, 0] = 0
        t.imag[:, -1] = 0
    grid = torch.fft.rfftn(torch.randn(3, 4, 6, generator=m.generator)).to(m.dtype)
    return [*half, (grid, [0, 2], 1, 6), (grid, [0, 1, 2], 0, 6), (grid, [0, 1, 2], 2, 7)]


def group_norm_backward(m: Maker):
    x = m(2, 6, 5)
    _, mean, rstd = torch.ops.aten.native_group_norm(x, None, None, 2, 6, 5, 3, 1e-5)
    every = [True, True, True]
    return [(m(2, 6, 5), x, mean, rstd, m(6), 2, 6, 5, 3, every)]


def losses(*after):
    return real_only(lambda m: [(m(3, 4), m(3, 4), reduction, *after) for reduction in range(3)])


def loss_gradients(*after):
    def made(m: Maker):
        grads = [m(3, 4), m(), m()]
        return [(grads[r], m(3, 4), m(3, 4), r, *after) for r in range(3)]

    return real_only(made)


def entropies(m: Maker):
    return [(m.unit(3, 4), m.unit(3, 4), w, r) for r in range(3) for w in (None, m.unit(3, 4), m.unit(4))]


def likelihoods(m: Maker):
    if not m.dtype.is_floating_point:
        raise NotImplementedError
    target = torch.tensor([1, 3, -100, 0])
    out = [(m(4, 5), target, w, r, -100) for r in range(3) for w in (None, m.unit(5))]
    return [*out, (m(5), torch.tensor(2), m.unit(5), 1, -100), (m(4, 5), target.abs() % 5, None, 1, 3)]


def planar_likelihoods(m: Maker):
    return [(m(2, 5, 3, 2), m.index(5, 2, 3, 2), w, r, 1) for r in range(3) for w in (None, m.unit(5))]


def likelihood_gradients(forward, maker):
    def made(m: Maker):
        out = []
        for x, target, weight, reduction, ignored in maker(m):
            y, total = forward(x, target, weight, reduction, ignored)
            out.append((m(*y.shape), x, target, weight, reduction, ignored, total))
        return out

    return made


def log_sigmoid_gradients(m: Maker):
    if m.dtype not in (torch.float32, torch.float64):
        raise NotImplementedError  # PyTorch's buffer is rounded to a half; ours is not read
    out = []
    for x in (m(3, 4), m.special()):
        out.append((m(*x.shape), x, torch.ops.aten.log_sigmoid_forward(x)[1]))
    return out


def softmaxes(m: Maker):
    return [(m(3, 4), 1, False), (m(2, 3, 2), 0, False), (m(), 0, False), (m(0, 3), 1, False)]


def softmax_gradients(op):
    return real_only(lambda m: [(m(3, 4), op(m(3, 4), 1), 1, m.dtype), (m(), op(m(), 0), 0, m.dtype)])


def sorts(m: Maker):
    return [(m(3, 6), 1, False), (m(3, 6), 0, True), (m(), -1, False)]


def cats(m: Maker):
    return [([m(2, 3), m(1, 3)], 0), ([m(2, 3), m(2, 1), m(2, 2)], -1), ([torch.empty(0, dtype=m.dtype), m(2, 3)], 0), ([m(0, 3), m(2, 3)], 0)]  # fmt: skip


def fills(value):
    return lambda m: [(m(3, 4), value), (m(), value), (m(0), value)]


def wheres(first, second):
    def made(m: Maker):
        return [(m.mask(3, 4), m(3, 4) if first is None else first, m(4) if second is None else second)]

    return made


def divisions(m: Maker):
    out = []
    for mode in (None, "trunc", "floor"):
        out += [(*args, {"rounding_mode": mode}) for args in positive_binary(m)]
        if m.dtype.is_floating_point:
            out += [
                (m(3, 4), m(3, 4), {"rounding_mode": mode}),
                (m.special(), m.special().flip(0), {"rounding_mode": mode}),
            ]
    return out


def with_dtype(m: Maker):
    return [
        (m(3, 4),),
        (m(),),
        (m(0, 3),),
        (m(3, 4), {"dtype": torch.float64}),
        (m(3, 4), {"dtype": torch.bool}),
        (m(0, 3), {"dtype": torch.bool}),
    ]


def dims_with_dtype(m: Maker):
    return [
        *dims(m),
        (m(3, 4), [0], False, {"dtype": torch.float64}),
        (with_nan(m), [1], False, {"dtype": torch.bool}),
        (m(0, 3), [0], True),
    ]


def copies(m: Maker):
    others = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, m.dtype]
    return [(torch.zeros(3, 4, dtype=d), m(3, 4)) for d in others] + [
        (m(3, 4), m(4)),
        (torch.zeros(3, dtype=I64), m(3)),
    ]


def casts(m: Maker):
    kinds = [
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int32,
        torch.bool,
        torch.complex128,
        torch.uint64,
    ]
    return [(m.positive(3, 4), {"dtype": d}) for d in kinds]
