"""A child process of the OpInfo sweep: runs one op at a time as the parent names it.

  python opinfo_worker.py MODE DEVICE      MODE is forward, backward, variants, native or reference

Reads op names from standard input, one a line, and answers each with one line of JSON:
{"op", "status": "pass"|"fail"|"none", "error", "samples", "passed_on", "copies", "views", "tiers": {tier: [aten op, ...]},
"seconds"}. "none" means that no sample applies. A crash or a hang is the parent's to notice.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import opinfo_samples as sam
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

DTYPE = torch.float32
FORWARD_SAMPLES = 20
BACKWARD_SAMPLES = 3
NATIVE_SAMPLES = 6
VARIANT_SAMPLES = 4
HANG_S = 50


class Outcome:
    """What became of one op's samples."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.samples = 0
        self.passed_on = 0
        self.copies = 0
        self.views = 0
        self.error = ""
        self.tiers: dict[str, list[str]] = {}

    def failed(self, where: str, error: BaseException) -> None:
        """Keep the first failure."""
        if not self.error:
            text = " ".join(str(error).split())
            self.error = f"{where}: {type(error).__name__}: {text[:600]}"

    def as_dict(self) -> dict[str, Any]:
        status = "fail" if self.error else "pass" if self.samples else "none"
        return {
            "op": self.op,
            "status": status,
            "error": self.error,
            "samples": self.samples,
            "passed_on": self.passed_on,
            "copies": self.copies,
            "views": self.views,
            "tiers": self.tiers,
        }


def op_name(op: Any) -> str:
    """OpInfo's name with its variant: "div.floor_rounding"."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def run(op: Any, sample: Any, seed: int) -> Any:
    """The op's result on a sample, all generators seeded first."""
    sam.seed_all(seed)
    return op(sample.input, *sample.args, **sample.kwargs)


def cpu_samples(op: Any, requires_grad: bool, limit: int) -> Iterator[tuple[int, Any]]:
    """Numbered CPU samples; the n-th op sees the same values in every run."""
    sam.seed_all(1)
    found = op.sample_inputs("cpu", DTYPE, requires_grad=requires_grad)
    return enumerate(itertools.islice(found, limit))


def on_cpu(op: Any, sample: Any) -> tuple[Any, bool]:
    """CPU result on a copy of the sample (some samples ask for in-place work), and whether it is one of many:
    random, or memory as it was found. The result is None where the CPU refuses.
    """
    sam.seed_all(2)
    inputs = sam.copied(sample, "cpu", op)
    try:
        with sam.Draws() as draws:
            result = op(inputs.input, *inputs.args, **inputs.kwargs)
        return result, draws.drew or op.name in sam.UNINITIALISED or op.name in sam.GROWN
    except Exception:  # whatever the CPU refuses is not asked of the device
        return None, False


@contextmanager
def tiers_of(outcome: Outcome, device_type: str) -> Iterator[None]:
    """Record which tiers ran, by the trace."""
    if device_type == "cpu":
        yield
        return
    from torch_fl_core import trace

    with trace.record() as recorded:
        yield
    found = defaultdict(set)
    frame = recorded.kernels
    for name, tier in zip(frame["op"], frame["tier"], strict=True):
        found[tier].add(name)
    outcome.copies = len(recorded.copies)
    outcome.views = int((recorded.memory["parent"] > 0).sum())
    outcome.tiers = {tier: sorted(names) for tier, names in found.items()}


def forward(op: Any, device: str, outcome: Outcome) -> None:
    """Values against the CPU's float32; metadata and repeatability for what is random."""
    kind = torch.device(device).type
    for number, sample in cpu_samples(op, False, FORWARD_SAMPLES):
        want, free = on_cpu(op, sample)
        if want is None:
            continue
        outcome.samples += 1
        try:
            got = run(op, sam.copied(sample, device, op), 2)
            sam.check_metadata(got, want, kind)
            if op.name in sam.UNINITIALISED or op.name in sam.GROWN:
                continue
            if not free and not close(got, want):
                again = on_cpu(op, sample)[0]
                assert not close(again, want), difference(
                    got, want
                )  # a few CPU kernels do not repeat themselves
            elif free:
                again = run(op, sam.copied(sample, device, op), 2)
                assert close(got, again), f"the same seed gave other values: {difference(again, got)}"
        except Exception as error:  # every failure is reported
            outcome.failed(f"sample {number} {describe(sample)}", error)


def gradients(op: Any, sample: Any, seed: int) -> tuple[list[Any], list[torch.Tensor]] | None:
    """Gradients of a weighted sum of the op's outputs for each leaf of the sample."""
    result = run(op, sample, seed)
    outputs = [
        t
        for t in tree_leaves(sample.output_process_fn_grad(result))
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    leaves = []
    for t in tree_leaves((sample.input, sample.args, sample.kwargs)):
        if isinstance(t, torch.Tensor) and t.requires_grad and not any(t is known for known in leaves):
            leaves.append(t)
    if not outputs or not leaves:
        return None
    weights = torch.Generator().manual_seed(4)
    cotangents = [
        torch.rand(t.shape, generator=weights, dtype=torch.float32).add_(0.5).to(t.dtype).to(t.device)
        for t in outputs
    ]
    grads = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
    return list(grads), [t.detach() for t in outputs]


def backward(op: Any, device: str, outcome: Outcome) -> None:
    """Gradients against the CPU's float32."""
    kind = torch.device(device).type
    if not op.supports_autograd or DTYPE not in op.supported_backward_dtypes("cpu"):
        return
    for number, sample in cpu_samples(op, True, BACKWARD_SAMPLES):
        try:
            sam.seed_all(2)
            with sam.Draws() as draws:
                want = gradients(op, sam.copied(sample, "cpu", op), 2)
        except Exception:  # whatever the CPU refuses is not asked of the device
            continue
        if want is None:
            continue
        outcome.samples += 1
        try:
            got = gradients(op, sam.copied(sample, device, op), 2)
            assert got is not None, "the device's result needs no gradient"
            sam.check_metadata(got, want, kind)
            assert [g is None for g in got[0]] == [w is None for w in want[0]], "other gradients are None"
            if not draws.drew:
                sam.check_values(got, want)
        except Exception as error:  # every failure is reported
            outcome.failed(f"sample {number} {describe(sample)}", error)


def variants(op: Any, device: str, outcome: Outcome) -> None:
    """The in-place form and `out=` (right size, empty, transposed) against the functional result on the CPU."""
    for number, sample in cpu_samples(op, False, VARIANT_SAMPLES):
        want, free = on_cpu(op, sample)
        if want is None or free:
            continue
        for name, call in variant_calls(op, want):
            try:
                with sam.Draws() as draws:
                    expected = call(sam.copied(sample, "cpu", op))
            except Exception:  # whatever the CPU refuses is not asked of the device
                continue
            if draws.drew:
                continue
            outcome.samples += 1
            try:
                got = call(sam.copied(sample, device, op))
                sam.check_metadata(got, expected, torch.device(device).type)
                if got.dtype == want.dtype and close(got, want):
                    continue  # a few of PyTorch's own CPU out= forms are wrong (gelu, ihfft2)
                sam.check_values(got, expected)
            except Exception as error:  # every failure is reported
                outcome.failed(f"sample {number} {name} {describe(sample)}", error)


def close(got: Any, want: Any) -> bool:
    """Whether the values agree."""
    return not difference(got, want)


def difference(got: Any, want: Any) -> str:
    """How the values differ; "" where they agree."""
    try:
        sam.check_values(got, want)
    except AssertionError as error:
        return str(error)
    return ""


def variant_calls(op: Any, want: Any) -> Iterator[tuple[str, Any]]:
    """Named functions from a sample to the result of a variant of the op."""
    if op.inplace_variant is not None:
        yield "in place", lambda s: op.inplace_variant(s.input, *s.args, **s.kwargs)
    if not op.supports_out or not isinstance(want, torch.Tensor) or want.layout != torch.strided:
        return

    def with_out(make: Any) -> Any:
        def call(sample: Any) -> torch.Tensor:
            device = sample.kwargs.get("device") or next(
                (t.device for t in tree_leaves((sample.input, sample.args)) if isinstance(t, torch.Tensor)),
                torch.device("cpu"),
            )
            out = make(want.shape, want.dtype, device)
            returned = op(sample.input, *sample.args, **sample.kwargs, out=out)
            assert returned is out, "out= was not returned"
            return out

        return call

    yield "out=", with_out(lambda shape, dtype, device: torch.zeros(shape, dtype=dtype, device=device))
    yield "out= empty", with_out(lambda shape, dtype, device: torch.empty(0, dtype=dtype, device=device))
    if want.dim() >= 2:
        yield (
            "out= transposed",
            with_out(
                lambda shape, dtype, device: torch.zeros(
                    (shape[-1], *shape[1:-1], shape[0]), dtype=dtype, device=device
                ).transpose(0, -1)
            ),
        )


def one_tier(op: Any, device: str, outcome: Outcome) -> None:
    """Under RAL_FALLBACK=native or =reference: every layout against float64; refused calls are counted, not failed."""
    kind = torch.device(device).type
    found = list(cpu_samples(op, False, NATIVE_SAMPLES))
    # Every layout is a program to build: they are tried on the two samples of the highest rank.
    by_rank = sorted(found, key=lambda pair: -sam.rank(pair[1]))
    varied_samples = [] if op.name in sam.STORAGE else [number for number, _ in by_rank[:2]]
    for number, sample in found:
        for layout, varied in sam.layouts(sample, number in varied_samples):
            float32, free = on_cpu(op, varied)
            exact, _ = on_cpu(op, sam.in_float64(varied))
            if float32 is None or exact is None or free:
                continue
            try:
                got = run(op, sam.copied(varied, device, op), 2)
                sam.check_metadata(got, float32, kind)
                sam.check_against_float64(got, exact, float32)
                outcome.samples += 1
            except NotImplementedError as error:
                if "no tier may run" not in str(error):
                    outcome.failed(f"sample {number} {layout} {describe(varied)}", error)
                outcome.passed_on += 1
                if layout == "plain":
                    break
            except Exception as error:  # every failure is reported
                outcome.failed(f"sample {number} {layout} {describe(varied)}", error)


def describe(sample: Any) -> str:
    """A sample in a few words."""

    def one(item: Any) -> str:
        if isinstance(item, torch.Tensor):
            strides = "" if item.layout != torch.strided or item.is_contiguous() else f"/{item.stride()}"
            return f"{str(item.dtype)[6:]}{tuple(item.shape)}{strides}"
        return repr(item)[:40]

    parts = [one(x) for x in tree_leaves((sample.input, sample.args))]
    parts += [f"{k}={one(v)}" for k, v in sample.kwargs.items()]
    return f"({', '.join(parts)})"[:300]


MODES = {"forward": forward, "backward": backward, "variants": variants}
MODES |= {"native": one_tier, "reference": one_tier}


def main(mode: str, device: str) -> None:
    """Serve ops until standard input ends."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever an op prints must not look like an answer
    torch.set_num_threads(1)
    torch.empty(1, device=device)
    table = {op_name(op): op for op in op_db if DTYPE in op.supported_dtypes("cpu")}
    answers.write(json.dumps({"ready": list(table)}) + "\n")
    for line in sys.stdin:
        name = line.strip()
        outcome = Outcome(name)
        begin = time.monotonic()
        faulthandler.dump_traceback_later(HANG_S)  # before the parent loses patience: shows where
        try:
            with tiers_of(outcome, torch.device(device).type):
                MODES[mode](table[name], device, outcome)
        except Exception as error:  # a fault of the sweep itself must show up as a failure
            outcome.failed("the sweep itself", error)
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps({**outcome.as_dict(), "seconds": round(time.monotonic() - begin, 3)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
