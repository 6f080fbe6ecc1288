"""Speed of ral devices against torch CPU eager, as ratios (below 1: the device is faster).

  python bench/run.py [--device ral:0] [--quick] [--check] [--rows NAME...] [--output FILE]

A row's ratio is the median over fresh processes (5; --quick: 1) of the ratio of two medians (of 11
interleaved runs; --quick: 5) in one process. Beside it: the same under RAL_FALLBACK=native, and the
tiers that ran, from the trace. Then the growth of `import torch` and the cost of the default magic.
The result is printed and written as JSON to bench/results/<date>.json. A missed bar is reported; the
exit status is 0 all the same, unless --check asks for 1.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
CHILD_LIMIT_S = 600
MAGIC_STEPS = 300
SETTLE_LIMIT_S = 60
SETTLE_STEPS = 12


# ---- in the measured process -------------------------------------------------------------------------
def settle(device: str, step: Callable[[], object]) -> None:
    """Run until operators have their tiers: some calls are measured, then kernels are built beside them, then measured."""
    import torch

    deadline = time.monotonic() + SETTLE_LIMIT_S
    quiet = 0
    while quiet < SETTLE_STEPS and time.monotonic() < deadline:
        step()
        quiet = 0 if device.startswith("ral") and torch.ral.pending_builds() else quiet + 1


def measure(name: str, device: str, runs: int) -> dict[str, Any]:
    """Interleaved runs of one workload on `device` and on the CPU; times in milliseconds a step."""
    import torch
    from workloads import WORKLOADS

    workload = WORKLOADS[name]
    wait = torch.accelerator.synchronize if torch.device(device).type != "cpu" else lambda: None
    steps = {"device": workload.build(device), "cpu": (workload.cpu or workload.build)("cpu")}
    times: dict[str, list[float]] = {side: [] for side in steps}
    settle(device, steps["device"])
    for run in range(-2, runs):  # two for warming up: compilation, pools, pages
        for side, step in steps.items():
            begin = time.perf_counter()
            for _ in range(workload.inner):
                step()
            wait()
            if run >= 0:
                times[side].append((time.perf_counter() - begin) * 1e3 / workload.inner)
    device_ms, cpu_ms = median(times["device"]), median(times["cpu"])
    return {
        "device_ms": device_ms,
        "cpu_ms": cpu_ms,
        "ratio": device_ms / cpu_ms,
        "tiers": tiers(steps["device"], device),
    }


def tiers(step: Any, device: str) -> dict[str, list[str]]:
    """Tier to the ops that it ran in one step."""
    if not device.startswith("ral"):
        return {}
    from torch_fl_core import trace

    with trace.record() as recorded:
        step()
    frame = recorded.kernels
    found: dict[str, set[str]] = {}
    for op, tier in zip(frame["op"], frame["tier"], strict=True):
        found.setdefault(tier, set()).add(op)
    return {tier: sorted(ops) for tier, ops in sorted(found.items())}


def child(rows: list[str], device: str, runs: int) -> None:
    """Print one JSON object: row to measurement, or to {"error": ...} where an op could not run."""
    sys.path.insert(0, str(HERE))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    results = {}
    for name in rows:
        try:
            results[name] = measure(name, device, runs)
        except NotImplementedError as error:  # native alone: an op without a native kernel
            results[name] = {"error": " ".join(str(error).split())[:200]}
    answers.write(json.dumps(results))
    answers.close()


def magic_child(device: str, runs: int) -> None:
    """Print the median time of a cell of MLP steps without and with %%ral_profile, in milliseconds.

    The cells run in an IPython kernel as nbclient would run them: no page looks on.
    """
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(HERE))

    def run(code: str) -> str:
        said: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                said.append(message["content"]["text"])

        reply = client.execute_interactive(code, output_hook=hear, timeout=CHILD_LIMIT_S)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"a cell failed: {reply['content'].get('evalue')}")
        return "".join(said)

    try:
        run(
            "%load_ext torch_fl\n"
            "import time, torch\n"
            "from workloads import mlp_step\n"
            f"step = mlp_step({device!r})\n"
            "from run import settle\n"
            f"settle({device!r}, step)\n"
        )
        body = (
            "torch.accelerator.synchronize()\n"
            "begin = time.perf_counter()\n"
            f"for _ in range({MAGIC_STEPS}):\n"
            "    step()\n"
            "torch.accelerator.synchronize()\n"
            "took_ms = (time.perf_counter() - begin) * 1e3\n"
        )
        cells = {"plain_ms": body, "magic_ms": "%%ral_profile\n" + body}
        times: dict[str, list[float]] = {name: [] for name in cells}
        for number in range(-1, runs):
            for name, cell in cells.items():
                run(cell)
                if number >= 0:
                    times[name].append(float(run("print(took_ms)")))
        print(json.dumps({name: median(values) for name, values in times.items()}))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


# ---- in the parent -----------------------------------------------------------------------------------
def run_child(arguments: list[str], **env: str) -> dict[str, Any]:
    """The JSON that a fresh process of this file prints; {"error": ...} where it failed."""
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), *arguments],
        env=dict(os.environ, **env),
        capture_output=True,
        text=True,
        timeout=CHILD_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        return {"error": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:300]}
    return json.loads(done.stdout)


def bench_row(name: str, device: str, processes: int, runs: int) -> dict[str, Any]:
    """One row: medians over fresh processes, the native column, the bar."""
    from workloads import WORKLOADS

    arguments = ["--child", name, "--device", device, "--runs", str(runs)]
    found, native = [], []
    for _ in range(processes):
        found.append(run_child(arguments).get(name) or {"error": "the process failed"})
        native.append(
            run_child(arguments, RAL_FALLBACK="native").get(name) or {"error": "the process failed"}
        )
    row: dict[str, Any] = {"row": name, "bar": WORKLOADS[name].bar}
    good = [f for f in found if "error" not in f]
    if len(good) < processes:
        row["error"] = next(f["error"] for f in found if "error" in f)
    else:
        for key in ("ratio", "device_ms", "cpu_ms"):
            row[key] = round(median(f[key] for f in good), 5)
        row["ratios"] = [round(f["ratio"], 4) for f in good]
        row["tiers"] = good[-1]["tiers"]
    good = [f for f in native if "error" not in f]
    if len(good) < processes:
        row["native_error"] = next(f["error"] for f in native if "error" in f)
    else:
        row["native_ratio"] = round(median(f["ratio"] for f in good), 4)
        row["native_ratios"] = [round(f["ratio"], 4) for f in good]
    row["met"] = None if row["bar"] is None else "error" not in row and row["ratio"] <= row["bar"]
    return row


def bench_import(processes: int) -> dict[str, Any]:
    """`import torch` with and without the package's autoload, in milliseconds, interleaved."""
    from workloads import IMPORT_BAR_MS

    code = "import time; t = time.perf_counter(); import torch; print((time.perf_counter() - t) * 1e3)"
    times: dict[str, list[float]] = {"0": [], "1": []}
    for run in range(-1, processes):
        for autoload, values in times.items():
            env = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
            done = subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
            )
            if run >= 0:
                values.append(float(done.stdout.split()[-1]))
    growth = median(b - a for a, b in zip(times["0"], times["1"], strict=True))
    return {
        "row": "import torch",
        "without_ms": round(median(times["0"]), 1),
        "with_ms": round(median(times["1"]), 1),
        "growth_ms": round(growth, 1),
        "bar": IMPORT_BAR_MS,
        "met": growth <= IMPORT_BAR_MS,
    }


def bench_magic(device: str, processes: int, runs: int) -> dict[str, Any]:
    """The MLP step under the default magic (source lines on, no page) against none."""
    from workloads import MAGIC_BAR

    row: dict[str, Any] = {"row": "magic on mlp_step", "bar": MAGIC_BAR, "met": False}
    found = [run_child(["--magic-child", "--device", device, "--runs", str(runs)]) for _ in range(processes)]
    errors = [f["error"] for f in found if "error" in f]
    if errors:
        return row | {"error": errors[0]}
    ratios = [f["magic_ms"] / f["plain_ms"] for f in found]
    row |= {key: round(median(f[key] for f in found) / MAGIC_STEPS, 4) for key in ("plain_ms", "magic_ms")}
    row |= {"ratio": round(median(ratios), 4), "ratios": [round(r, 4) for r in ratios]}
    return row | {"met": row["ratio"] <= MAGIC_BAR}


def table(rows: list[dict[str, Any]]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| row | device ms | CPU ms | ratio | bar | RAL_FALLBACK=native | tiers that ran |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["row"] == "import torch":
            cells = [f"{row['with_ms']:.0f}", f"{row['without_ms']:.0f}", f"+{row['growth_ms']:.1f} ms"]
            cells += [f"{row['bar']:.0f} ms {verdict(row)}", "", ""]
        elif "error" in row:
            cells = ["", "", f"error: {row['error']}", bar_text(row), native_text(row), ""]
        else:
            device_ms, cpu_ms = (
                row.get("device_ms", row.get("magic_ms")),
                row.get("cpu_ms", row.get("plain_ms")),
            )
            ran = "; ".join(f"{tier}: {', '.join(ops)}" for tier, ops in row.get("tiers", {}).items())
            cells = [
                f"{device_ms:.4g}",
                f"{cpu_ms:.4g}",
                f"{row['ratio']:.2f}",
                bar_text(row),
                native_text(row),
                ran,
            ]
        lines.append(f"| {row['row']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bar_text(row: dict[str, Any]) -> str:
    """The bar and whether it was met."""
    return "" if row["bar"] is None else f"{row['bar']} {verdict(row)}"


def verdict(row: dict[str, Any]) -> str:
    """One word."""
    return "met" if row["met"] else "MISSED"


def native_text(row: dict[str, Any]) -> str:
    """The native column."""
    if "native_ratio" in row:
        return f"{row['native_ratio']:.2f}"
    return f"cannot: {row['native_error'][:60]}" if "native_error" in row else ""


def machine() -> dict[str, Any]:
    """Where the numbers come from."""
    import torch

    cpu = next((s.split(":", 1)[1].strip() for s in open("/proc/cpuinfo") if s.startswith("model name")), "")
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "devices": torch.ral.devices() if hasattr(torch, "ral") else [],
    }


def main() -> int:
    """Command line."""
    sys.path.insert(0, str(HERE))
    from workloads import WORKLOADS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="ral:0")
    parser.add_argument("--quick", action="store_true", help="1 process of 5 runs")
    parser.add_argument("--check", action="store_true", help="exit status 1 when a bar is missed")
    parser.add_argument("--rows", nargs="+", choices=[*WORKLOADS, "import", "magic"])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--magic-child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=11, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.device, options.runs)
        return 0
    if options.magic_child:
        magic_child(options.device, options.runs)
        return 0

    processes, runs = (1, 5) if options.quick else (5, 11)
    rows = []
    for name in options.rows or [*WORKLOADS, "import", "magic"]:
        print(f"... {name}", file=sys.stderr, flush=True)
        if name == "import":
            rows.append(bench_import(5 if options.quick else 11))
        elif name == "magic":
            rows.append(bench_magic(options.device, processes, runs))
        else:
            rows.append(bench_row(name, options.device, processes, runs))
    now = datetime.datetime.now().astimezone()
    print(table(rows))
    missed = [row["row"] for row in rows if row["met"] is False]
    print(f"Bars missed: {', '.join(missed) or 'none'}")
    output = options.output or HERE / "results" / f"{now:%Y-%m-%dT%H%M%S}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    result = {"date": now.isoformat(timespec="seconds"), "quick": options.quick, "device": options.device}
    output.write_text(json.dumps(result | {"machine": machine(), "rows": rows}, indent=1) + "\n")
    print(f"Written to {output}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
