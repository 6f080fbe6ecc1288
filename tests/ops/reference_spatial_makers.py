"""Makers of sample arguments for what works over spatial dims: convolution, pooling, resampling, grid samples."""

import torch
from reference_makers import Maker, real_only, with_nan


def convolutions(m: Maker):
    return [
        (m(2, 4, 7), m(6, 2, 3), m(6), [2], [1], [1], False, [0], 2),
        (m(2, 3, 5, 6), m(4, 3, 2, 3), None, [1, 2], [1, 0], [2, 1], False, [0, 0], 1),
        (m(2, 4, 5, 6), m(4, 3, 3, 2), m(6), [2, 1], [1, 0], [1, 2], True, [1, 0], 2),
        (m(1, 2, 3, 4, 3), m(2, 2, 2, 2, 2), m(2), [1, 1, 1], [1, 0, 1], [1, 1, 1], False, [0, 0, 0], 1),
        (m(1, 2, 5), m(2, 3, 3), None, [2], [1], [1], True, [1], 1),
    ]


def convolution_gradients(m: Maker):
    out = []
    for x, w, bias, stride, padding, dilation, transposed, extra, groups in convolutions(m):
        y = torch.ops.aten.convolution(x, w, bias, stride, padding, dilation, transposed, extra, groups)
        g = m(*y.shape)
        out.append(
            (g, x, w, [y.shape[1]], stride, padding, dilation, transposed, extra, groups, [True, True, True])
        )
    return out


def max_pools(m: Maker):
    return [(m.distinct(1, 2, 6, 7), [3, 2], [2, 2], [1, 1], [1, 1], False), (m.distinct(2, 6, 5), [2], [], [0], [2], True), (with_nan(m)[None], [2, 2], [1, 1])]  # fmt: skip


def max_pool_gradients(m: Maker):
    x = m.distinct(1, 2, 6, 7)
    y, at = torch.ops.aten.max_pool2d_with_indices(x, [3, 2], [2, 2], [1, 1], [1, 1], False)
    return [(m(*y.shape), x, [3, 2], [2, 2], [1, 1], [1, 1], False, at)]


AVERAGES = [([3, 2], [2, 2], [1, 1], False, True, None), ([3, 3], [2, 2], [1, 1], True, False, None), ([2], [], [0], True, True, 3), ([3, 3], [2, 2], [1, 1], True, True, None)]  # fmt: skip


def averages(m: Maker):
    return [(m(1, 2, 6, 7), *a) for a in AVERAGES] + [(m(2, 6, 5), *AVERAGES[1])]


def average_gradients(m: Maker):
    return _average_gradients(m, torch.ops.aten.avg_pool2d, m(1, 2, 6, 7), AVERAGES)


def _average_gradients(m: Maker, forward, x, averages):
    return [(m(*forward(x, *a).shape), x, *(a if a[1] else (a[0], [2], *a[2:]))) for a in averages]


SOLID_AVERAGES = [([3, 2, 2], [2, 2, 1], [1, 1, 0], False, True, None), ([3, 3, 2], [2, 2, 2], [1, 1, 1], True, False, None), ([2], [], [0], True, True, 3)]  # fmt: skip


def solid_averages(m: Maker):
    return [(m(1, 2, 5, 6, 4), *a) for a in SOLID_AVERAGES] + [(m(2, 5, 4, 6), *SOLID_AVERAGES[1])]


def solid_average_gradients(m: Maker):
    return _average_gradients(m, torch.ops.aten.avg_pool3d, m(1, 2, 5, 6, 4), SOLID_AVERAGES)


def solid_max_pools(m: Maker):
    nan = m.distinct(1, 3, 4, 4)
    if m.dtype.is_floating_point:
        nan[0, 1, 2, 2] = float("nan")
    return [
        (m.distinct(1, 2, 4, 5, 3), [3, 2, 2], [2, 2, 1], [1, 1, 0], [1, 1, 1], False),
        (m.distinct(2, 5, 6, 3), [2], [], [0], [2, 2, 1], True),
        (nan, [2, 2, 2], [1, 1, 1]),
    ]


def solid_max_pool_gradients(m: Maker):
    out = []
    for x, kernel, stride, padding, dilation, ceil in solid_max_pools(m)[:2]:
        stride = stride or kernel
        y, at = torch.ops.aten.max_pool3d_with_indices(x, kernel, stride, padding, dilation, ceil)
        out.append((m(*y.shape), x, kernel, stride, padding, dilation, ceil, at))
    return out


def adaptive_max_pools(space: tuple, sizes: list):
    """With and without a batch; windows that overlap and such that do not."""
    return lambda m: [(m.distinct(*lead, *space), size) for size in sizes for lead in ((2,), (1, 2))]


def adaptive_max_pool_gradients(forward, space: tuple, sizes: list):
    def made(m: Maker):
        out = []
        for x, size in adaptive_max_pools(space, sizes)(m):
            y, at = forward(x, size)
            out.append((m(*y.shape), x, at))
        return out

    return real_only(made)


ADAPTIVE_PLANES = ((6, 7), [[3, 4], [1, 1], [6, 2]])
ADAPTIVE_SOLIDS = ((4, 5, 3), [[2, 3, 2], [1, 1, 1]])


def unpools(pool, space: tuple, after: tuple):
    def made(m: Maker):
        x = m.distinct(2, *space)
        y, at = pool(x, [2])
        return [(y, at, list(space), *after), (y[None], at[None], list(space), *after)]

    return made


def grids(spatial: int, modes: tuple):
    """Samples of (input, grid, mode, padding, align_corners); some points are outside."""

    def made(m: Maker):
        out = []
        for mode in modes:
            for padding in range(3):
                for align in (False, True):
                    space = (4, 5, 3)[:spatial]
                    grid = (m.unit(2, *(3, 2, 2)[:spatial], spatial) * 3 - 1.5).to(m.dtype)
                    out.append((m(2, 2, *space), grid, mode, padding, align))
        return out

    return made


def grid_gradients(spatial: int, modes: tuple):
    def made(m: Maker):
        out = []
        for x, grid, *how in grids(spatial, modes)(m):
            out.append((m(2, 2, *grid.shape[1:-1]), x, grid, *how, [True, True]))
        return out

    return real_only(made)


def of_float_and_byte(maker):
    """uint8, and the floating types."""

    def made(m: Maker):
        if m.dtype != torch.uint8 and not m.dtype.is_floating_point:
            raise NotImplementedError
        return maker(m)

    return made


def resized(space: tuple, sizes: list, align: bool):
    """Forward samples: (self, output_size, [align_corners], scales ...)."""

    def made(m: Maker):
        out = []
        for size in sizes:
            scales = [None] * len(space)
            given = [s / n for s, n in zip(size, space)]
            for corners in (False, True) if align else (None,):
                flags = () if corners is None else (corners,)
                out += [(m(2, 2, *space), size, *flags, *scales), (m(2, 2, *space), size, *flags, *given)]
        return out

    return made


def resized_gradients(space: tuple, sizes: list, align: bool):
    def made(m: Maker):
        out = []
        for size in sizes:
            for corners in (False, True) if align else (None,):
                flags = () if corners is None else (corners,)
                out.append((m(2, 2, *size), size, [2, 2, *space], *flags, *[None] * len(space)))
        return out

    return made


LINES = ((5,), [[8], [3], [10], [5], [1]])
PLANES = ((5, 4), [[8, 7], [3, 2], [10, 8], [5, 9]])
SOLIDS = ((3, 4, 2), [[5, 3, 4]])
