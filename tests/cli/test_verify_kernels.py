"""ralctl verify judges kernels in every aspect, on the reference tier's own kernels: as they are, and with a fault."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugin_sources import needs_compiler
from reference_plugin import entry, make_reference_plugin, reference_ops

from torch_fl_core.cli import places, ralctl

pytestmark = needs_compiler

Verify = Callable[..., tuple[int, dict[str, Any]]]
# Operators of the reference tier that ral-verify has no arguments for.
WITHOUT_ARGUMENTS = {
    "aten::_fft_c2c", "aten::_fft_c2r", "aten::_fft_r2c", "aten::angle", "aten::log_sigmoid_backward",
    "aten::log_sigmoid_forward", "aten::norm.ScalarOpt_dim_dtype", "aten::where.Scalar", "aten::max_unpool2d",
    "aten::max_unpool3d",
    # Factories and results whose sizes depend on values.
    "aten::arange.start_out", "aten::eye.m_out", "aten::eye.out", "aten::linspace.out", "aten::logspace.out",
    "aten::tril_indices", "aten::triu_indices", "aten::_unique2", "aten::masked_select", "aten::nonzero",
}  # fmt: skip


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Builds a plugin of those entries and judges it: exit status and report."""

    def judged(entries: list[dict[str, object]], *options: str) -> tuple[int, dict[str, Any]]:
        folder = make_reference_plugin(tmp_path, entries)
        status = ralctl.main(["verify", "--json", "--no-speed", *options, str(folder)])
        return status, json.loads(capsys.readouterr().out)

    return judged


def kernels_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (device,) = report["devices"]
    return {kernel["op"]: kernel for kernel in device["kernels"]}


# ---- Right kernels ---------------------------------------------------------------------------------


def test_the_reference_tier_passes_its_own_judgement(verify: Verify) -> None:
    status, report = verify([entry(op) for op in reference_ops()])
    kernels = kernels_of(report)
    assert status == 0
    assert set(kernels) == set(reference_ops())
    assert {op for op, kernel in kernels.items() if kernel["not_judged_reason"]} == WITHOUT_ARGUMENTS
    assert (report["totals"]["cases_failed"], report["totals"]["cases_declined"]) == (0, 0)
    for op in (
        "convolution",
        "topk",
        "embedding",
        "native_batch_norm",
        "index_put",
        "max_pool2d_with_indices",
    ):
        assert kernels[f"aten::{op}"]["aspects"]["values"]["passed"] >= 10, op


def test_every_aspect_is_judged_where_the_manifest_promises_it(verify: Verify) -> None:
    _, report = verify(
        [entry("aten::mul.Tensor"), entry("aten::where.self"), entry("aten::masked_fill.Tensor")]
    )
    kernels = kernels_of(report)
    for aspect, counts in kernels["aten::mul.Tensor"]["aspects"].items():
        assert counts["passed"] >= 2, aspect
        assert counts["not_judged_reason"] is None
    assert kernels["aten::where.self"]["aspects"]["mixed types"]["passed"] >= 3
    assert kernels["aten::masked_fill.Tensor"]["aspects"]["host numbers"]["passed"] >= 3


def test_what_the_manifest_has_no_word_for_is_named(verify: Verify) -> None:
    _, report = verify(
        [entry("aten::bitwise_not", dtypes=["int32"]), entry("aten::_softmax", dtypes=["float32"])]
    )
    kernels = kernels_of(report)
    reasons = {op: {a: c["not_judged_reason"] for a, c in k["aspects"].items()} for op, k in kernels.items()}
    assert reasons["aten::bitwise_not"]["NaN and infinity"] == "the manifest entry lists no floating type"
    assert reasons["aten::bitwise_not"]["complex types"] == "the manifest entry lists no complex type"
    assert reasons["aten::_softmax"]["in place"] == "the operator has no in-place form"
    assert reasons["aten::_softmax"]["mixed types"] == "the operator takes tensors of one type"
    assert reasons["aten::_softmax"]["NaN and infinity"] is None


SCHEMA_TYPES = {
    **dict.fromkeys("TBV", {"Tensor", "Optional[Tensor]"}), **dict.fromkeys("ZIXH", {"Tensor", "Optional[Tensor]"}),
    "L": {"List[Tensor]"}, "O": {"List[Optional[Tensor]]"}, "l": {"List[int]", "Optional[List[int]]"},
    "m": {"List[bool]"}, "b": {"bool", "Optional[bool]"}, "s": {"str", "Optional[str]"}, "D": {"int", "Optional[int]"},
    "i": {"int", "Optional[int]", "number", "Optional[number]"}, "c": {"number", "Optional[number]"},
    "d": {"float", "Optional[float]", "number", "Optional[number]"},
}  # fmt: skip


def fits(word: str, wanted: str) -> bool:
    """Is this word of a pattern an argument of that type of PyTorch's?"""
    return wanted.startswith("Optional") if word == "n" else wanted in SCHEMA_TYPES[word[0]]


def test_arguments_follow_pytorchs_schemas(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = make_reference_plugin(tmp_path, [entry(op) for op in reference_ops()])
    done = subprocess.run(
        [places.package_folder() / "ral-verify", "--no-speed", "--dtypes", "float32,complex64", folder],
        capture_output=True,
        text=True,
        check=True,
    )
    patterns: dict[str, set[str]] = {}
    for event in map(json.loads, done.stdout.splitlines()):
        if "part" in event:
            found = patterns.setdefault(event["name"], set())
        elif event.get("aspect") and "case" in event:
            found.add(re.match(r"\((.*)\), (float32|complex64),", event["case"])[1])
    ops = [op for op in patterns if op.startswith("aten::") and op not in WITHOUT_ARGUMENTS]
    assert len(ops) > 300
    for op in ops:
        name, _, overload = op.removeprefix("aten::").partition(".")
        schema = getattr(getattr(torch.ops.aten, name), overload or "default")._schema
        types = [str(argument.type) for argument in schema.arguments]
        assert patterns[op], op
        for pattern in patterns[op]:
            words = pattern.split(" ")
            assert len(words) == len(types), f"{pattern} for {schema}"
            assert all(map(fits, words, types)), f"{pattern} for {schema}"


# ---- Wrong kernels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "op", "aspect"),
    [
        ("nan", "aten::relu", "NaN and infinity"),
        ("nan", "aten::maximum", "NaN and infinity"),
        ("nan", "aten::sum.dim_IntList", "NaN and infinity"),
        ("infinity", "aten::add.Tensor", "NaN and infinity"),
        ("in_place", "aten::mul.Tensor", "in place"),
        ("in_place", "aten::tanh", "in place"),
        ("in_place", "aten::index_add", "in place"),
        ("complex", "aten::mul.Tensor", "complex types"),
        ("complex", "aten::mm", "complex types"),
        ("mixed", "aten::add.Tensor", "mixed types"),
        ("mixed", "aten::lt.Tensor", "mixed types"),
        ("number", "aten::mul.Tensor", "host numbers"),
    ],
)
def test_a_fault_of_one_aspect_is_found_there(verify: Verify, fault: str, op: str, aspect: str) -> None:
    status, report = verify([entry(op, fault)])
    aspects = kernels_of(report)[op]["aspects"]
    related = {aspect, "complex types"} if fault == "complex" else {aspect}
    failed = {name for name, counts in aspects.items() if counts["failed"]}
    assert status == 1
    assert aspect in failed
    if fault != "complex":  # its fault shows wherever a complex tensor takes part
        assert failed == related
    assert aspects["values"]["failed"] == 0


@pytest.mark.parametrize("op", sorted({"aten::convolution", "aten::topk", "aten::embedding", "aten::gather"}))
def test_wrong_values_of_layers_are_found(verify: Verify, op: str) -> None:
    status, report = verify([entry(op, "values", ["float32", "int64"])])
    assert status == 1
    assert kernels_of(report)[op]["aspects"]["values"]["failed"] >= 5


# ---- Kernels that crash or hang --------------------------------------------------------------------


def test_a_crash_leaves_the_other_kernels_results(verify: Verify, tmp_path: Path, capsys: Any) -> None:
    ops = ("aten::abs", "aten::exp", "aten::neg", "aten::sin")
    status, report = verify([entry(op, "crash" if op in ops[1:3] else "right", ["float32"]) for op in ops])
    kernels = kernels_of(report)
    assert status == 1
    assert report["error"] is None
    assert [kernels[op]["failed"] for op in ops] == [0, 1, 1, 0]
    assert all(kernels[op]["passed"] > 5 for op in ops)
    (failure,) = kernels["aten::exp"]["failures"]
    assert failure["case"] == "(T), float32, rank 0"
    assert failure["message"] == "the plugin crashed (SIGSEGV); the kernel's other cases were not run"
    (device,) = report["devices"]
    assert device["memory"]["passed"] >= 60
    assert ralctl.main(["verify", "--no-speed", str(tmp_path / "refchip")]) == 1
    assert (
        "FAILED ral:0 aten::exp (T), float32, rank 0: the plugin crashed (SIGSEGV)" in capsys.readouterr().out
    )


def test_a_kernel_that_hangs_leaves_the_other_kernels_results(verify: Verify) -> None:
    ops = ("aten::abs", "aten::exp", "aten::sin")
    entries = [entry(op, "hang" if op == "aten::exp" else "right", ["float32"]) for op in ops]
    status, report = verify(entries, "--kernel-timeout", "20")
    kernels = kernels_of(report)
    assert status == 1
    assert [kernels[op]["failed"] for op in ops] == [0, 1, 0]
    assert all(kernels[op]["passed"] > 5 for op in ("aten::abs", "aten::sin"))
    (failure,) = kernels["aten::exp"]["failures"]
    assert failure["case"] == "(T), float32, rank 2"
    assert failure["message"].startswith("the plugin hangs: no end after 20 s")
