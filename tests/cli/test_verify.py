"""ralctl verify: right plugins pass; wrong, crashing and stalling ones are named with the case at hand."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plugin_sources import CRASHING, REFUSING, compile_plugin, needs_compiler

from torch_fl_core.cli import new_plugin, places, ralctl

SUM = "z[i] = x[i] + alpha * y[i]"
LOOP = f"for (int64_t i = 0; i < count; ++i) {SUM};"


def verify(capsys: Any, *argv: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON report."""
    status = ralctl.main(["verify", "--json", *map(str, argv)])
    return status, json.loads(capsys.readouterr().out)


def kernels_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (device,) = report["devices"]
    return {kernel["op"]: kernel for kernel in device["kernels"]}


def changed(folder: Path, old: str, new: str, **manifest: object) -> Path:
    """A copy of the template with `old` replaced in its source, and a changed copy of its manifest entry added."""
    made = new_plugin.make_plugin("oddchip", folder)
    source = made / "oddchip_plugin.c"
    text = source.read_text()
    assert old in text
    source.write_text("#include <signal.h>\n#include <stdlib.h>\n" + text.replace(old, new))
    if manifest:
        document = json.loads((made / "kernel_manifest.json").read_text())
        document["kernels"].append({**document["kernels"][0], **manifest})
        (made / "kernel_manifest.json").write_text(json.dumps(document))
    done = subprocess.run(["make", "CFLAGS=-O1"], cwd=made, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made


# ---- Plugins that are right ------------------------------------------------------------------------


def test_the_template_passes(built: Path, capsys: Any) -> None:
    status, report = verify(capsys, built)
    add = kernels_of(report)["aten::add.Tensor"]
    assert status == 0
    assert (report["plugin"], report["problems"]) == ("mychip", [])
    assert (add["failed"], add["not_judged_reason"]) == (0, None)
    values = add["aspects"]["values"]
    assert (values["passed"] >= 5, values["failed"], values["declined"]) == (True, 0, 0)
    assert add["ns"] > 0
    (device,) = report["devices"]
    assert device["memory"]["passed"] >= 60
    assert device["streams"]["passed"] >= 3
    assert all(device["memory"][name] > 0 for name in ("host_to_device_gb_s", "device_to_device_gb_s"))
    assert report["totals"]["failures"] == 0


def test_the_text_names_kernels_and_totals(built: Path, capsys: Any) -> None:
    assert ralctl.main(["verify", "--no-speed", str(built)]) == 0
    text = capsys.readouterr().out
    assert "aten::add.Tensor  add     passed" in text
    assert "\n1 kernel: 1 passed, 0 failed, 0 declined, 0 not judged; " in text
    assert (
        "complex types: 0 passed, 0 failed, 0 declined; 1 kernel not judged: the manifest entry lists" in text
    )
    assert "FAILED" not in text.replace("FAILED  DECLINED", "")


def test_the_opencl_plugin_passes(capsys: Any) -> None:
    folder = places.package_folder() / "plugins/opencl"
    ops = ("--ops", "add,mul,sum,argmax,mm", "--dtypes", "float32,int64", "--no-speed")
    status, report = verify(capsys, folder, *ops)
    assert status == 0
    for device in report["devices"]:
        kernels = {kernel["op"]: kernel for kernel in device["kernels"]}
        names = (
            "add.Tensor",
            "add.Scalar",
            "mul.Tensor",
            "mul.Scalar",
            "sum",
            "sum.dim_IntList",
            "argmax",
            "mm",
        )
        assert set(kernels) == {f"aten::{name}" for name in names}
        assert all(k["passed"] > 5 and not k["not_judged_reason"] for k in kernels.values())


# ---- Plugins that are wrong ------------------------------------------------------------------------


@needs_compiler
def test_wrong_values_are_named(tmp_path: Path, capsys: Any) -> None:
    folder = changed(tmp_path, SUM, f"{SUM} + 1")
    status, report = verify(capsys, folder, "--no-speed")
    add = kernels_of(report)["aten::add.Tensor"]
    assert status == 1
    assert add["failed"] > 0
    assert report["totals"]["failed"] == 1
    assert "(T T i1), float32, rank 2" in [failure["case"] for failure in add["failures"]]
    assert "2145 of 2145 elements of [33, 65] float32 are wrong" in add["failures"][0]["message"]
    assert ralctl.main(["verify", "--no-speed", str(folder)]) == 1
    assert "FAILED ral:0 aten::add.Tensor (T T i1), float32, rank 2: output 0:" in capsys.readouterr().out


@needs_compiler
def test_one_wrong_element_is_enough(tmp_path: Path, capsys: Any) -> None:
    folder = changed(tmp_path, LOOP, f"{LOOP} if (count > 64) z[64] += 0.01f;")
    status, report = verify(capsys, folder, "--no-speed")
    assert status == 1
    assert "1 of 2145 elements" in kernels_of(report)["aten::add.Tensor"]["failures"][0]["message"]


@needs_compiler
def test_a_write_beyond_the_output_is_found(tmp_path: Path, capsys: Any) -> None:
    folder = changed(tmp_path, LOOP, LOOP.replace("< count", "<= count"))
    status, report = verify(capsys, folder, "--no-speed")
    assert status == 1
    assert "wrote beyond its output" in kernels_of(report)["aten::add.Tensor"]["failures"][0]["message"]


@needs_compiler
def test_what_is_not_judged_does_not_pass(tmp_path: Path, capsys: Any) -> None:
    refusal = 'return fail(RAL_ERROR_UNSUPPORTED, "not today");'
    folder = changed(tmp_path, "float alpha;", f"{refusal} float alpha;", op_name="aten::my_own_op")
    status, report = verify(capsys, folder, "--no-speed")
    kernels = kernels_of(report)
    assert status == 0
    assert kernels["aten::my_own_op"]["not_judged_reason"] == "the reference tier has no aten::my_own_op"
    assert kernels["aten::add.Tensor"]["declined"] >= 5
    assert "not today" in kernels["aten::add.Tensor"]["declined_reason"]
    totals = report["totals"]
    assert (totals["passed"], totals["declined"], totals["not_judged"]) == (0, 1, 1)


@needs_compiler
def test_a_plugin_that_hangs_is_ended(tmp_path: Path, capsys: Any) -> None:
    folder = changed(tmp_path, LOOP, "for (volatile int hang = 1; hang;) {}")
    status, report = verify(capsys, folder, "--no-speed", "--timeout", "8")
    assert status == 1
    assert "not done after 8 s, while at: aten::add.Tensor [add] (T T i1), float32, rank 2" in report["error"]
    (device,) = report["devices"]
    assert device["memory"]["passed"] >= 60


@needs_compiler
@pytest.mark.parametrize("status_of_exit", [0, 2])
def test_exit_in_a_kernel_is_a_failure(tmp_path: Path, capsys: Any, status_of_exit: int) -> None:
    folder = changed(tmp_path, LOOP, f"if (out->ndim == 0) exit({status_of_exit}); {LOOP}")
    status, report = verify(capsys, folder, "--no-speed")
    (failure,) = kernels_of(report)["aten::add.Tensor"]["failures"]
    assert status == 1
    assert failure["case"] == "(T T i1), float32, rank 0"
    assert f"ended the process with status {status_of_exit}" in failure["message"]


@needs_compiler
def test_what_a_plugin_prints_is_no_result(tmp_path: Path, capsys: Any) -> None:
    noise = 'printf("{\\"result\\": \\"failed\\", \\"message\\": \\"\\"}\\n{"); fflush(stdout);'
    status, report = verify(capsys, changed(tmp_path, LOOP, f"{noise} {LOOP}"), "--no-speed")
    assert status == 0
    assert kernels_of(report)["aten::add.Tensor"]["passed"] >= 5


@needs_compiler
def test_a_crash_at_load_is_reported(tmp_path: Path, capsys: Any) -> None:
    status, report = verify(capsys, compile_plugin(tmp_path, "badchip", CRASHING))
    assert status == 1
    assert "crashed (SIGSEGV) while at: loading" in report["error"]


@needs_compiler
def test_what_the_loader_finds_wrong_is_a_failure(tmp_path: Path, capsys: Any) -> None:
    folder = changed(tmp_path, LOOP, LOOP, op_name="aten::neg", symbol="there_is_no_such_symbol")
    status, report = verify(capsys, folder, "--no-speed")
    assert status == 1
    (problem,) = report["problems"]
    assert "there_is_no_such_symbol" in problem
    assert kernels_of(report)["aten::add.Tensor"]["failed"] == 0


@needs_compiler
def test_a_plugin_with_another_name_is_judged(tmp_path: Path, capsys: Any) -> None:
    folder = changed(tmp_path, '.name = "oddchip"', '.name = "otherchip"')
    status, report = verify(capsys, folder, "--no-speed")
    assert status == 1
    assert 'calls itself "otherchip"' in report["problems"][0]
    assert kernels_of(report)["aten::add.Tensor"]["passed"] >= 5


# ---- Usage and plugins that do not load: status 2 --------------------------------------------------


@needs_compiler
def test_a_refused_plugin_is_status_2(tmp_path: Path, capsys: Any) -> None:
    folder = compile_plugin(tmp_path, "badchip", REFUSING)
    assert ralctl.main(["verify", str(folder)]) == 2
    said = capsys.readouterr().err
    assert "the plugin badchip in" in said
    assert "TEXT" in said


def test_a_folder_without_a_plugin_is_status_2(tmp_path: Path, capsys: Any) -> None:
    for path, said in ((tmp_path, "holds no lib<vendor>_plugin.so"), (tmp_path / "gone", "is not there")):
        assert ralctl.main(["verify", str(path)]) == 2
        text = capsys.readouterr().err
        assert text.startswith("ralctl verify: ")
        assert str(path) in text
        assert said in text


def test_unknown_names_are_status_2(built: Path, capsys: Any) -> None:
    assert ralctl.main(["verify", str(built), "--ops", "add,fly"]) == 2
    assert 'names "fly"' in capsys.readouterr().err
    assert ralctl.main(["verify", str(built), "--dtypes", "float33"]) == 2
    assert '"float33" is no data type' in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], [".", "--timeout", "0"], [".", "--timeout", "soon"]])
def test_wrong_options_are_status_2(argv: list[str], capsys: Any) -> None:
    assert ralctl.main(["verify", *argv]) == 2
    assert "usage: ralctl verify" in capsys.readouterr().err


def test_help_has_examples(capsys: Any) -> None:
    assert ralctl.main(["verify", "--help"]) == 0
    assert "examples:\n  ralctl verify ./mychip" in capsys.readouterr().out
