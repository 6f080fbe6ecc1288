"""What the default magic costs with its page open: `python bench/page.py` (needs chromium; three minutes).

A real JupyterLab runs MLP training steps in cells with and without %%ral_profile, in turn, while the page draws.
Prints the medians, their ratio (wanted: at most 1.10) and, from the page's own clock, sent to painted in milliseconds
(wanted: 300 at the median). A last cell trains for ten seconds: batches painted a second (wanted: 5). Never part of a test.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from statistics import median

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/browser"))
import lab as jlab  # noqa: E402

ROUNDS = 25
STEPS = 300
SETUP = f"""%load_ext torch_fl
import json, sys, time, torch
sys.path.insert(0, {str(ROOT / "bench")!r})
from workloads import mlp_step
from run import settle
step = mlp_step("ral:0")
settle("ral:0", step)
times = {{"plain": [], "magic": []}}"""
BODY = """begin = time.perf_counter()
for _ in range({steps}):
    step()
torch.ral.synchronize()
times["{name}"].append((time.perf_counter() - begin) * 1e3 / {steps})"""

PAINTS = "globalThis.__torchFl?.paints ?? []"  # of live batches, each once
TEN_SECONDS = """%%ral_profile
begin = time.perf_counter()
while time.perf_counter() - begin < 10:
    step()"""


def write(sources: list[str], path: pathlib.Path) -> int:
    """Writes a notebook of these cells; returns their number."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(s) for s in sources], metadata={"kernelspec": kernel}
    )
    nbformat.write(book, path)
    return len(sources)


def notebook(path: pathlib.Path, answer: pathlib.Path) -> int:
    """Writes the notebook; returns its number of cells."""
    sources = [SETUP]
    for _ in range(ROUNDS):
        sources.append(BODY.format(steps=STEPS, name="plain"))
        sources.append("%%ral_profile\n" + BODY.format(steps=STEPS, name="magic"))
    sources.append(TEN_SECONDS)
    sources.append(f"json.dump(times, open({str(answer)!r}, 'w'))")
    return write(sources, path)


def main() -> int:
    """Runs it once; exit status 1 where no browser is installed."""
    executable = jlab.chromium()
    if executable is None:
        print("no chromium on this machine (Debian, Ubuntu: apt install chromium)", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "state").mkdir()
        (work / "books").mkdir()
        count = notebook(work / "books/page.ipynb", work / "times.json")
        with jlab.browser_page(executable) as page, jlab.serve(work / "books", work / "state") as server:
            page.add_init_script("globalThis.__torchFlTest = true")
            jlab.open_notebook(page, server, "page.ipynb")
            seen = 0
            for index in range(count):
                if index == count - 2:
                    seen = len(page.evaluate(PAINTS))
                jlab.run_cell(page, index)
                jlab.wait_until_run(page, index, index + 1, 120)
            paints = page.evaluate(PAINTS)
        times = json.loads((work / "times.json").read_text())
    plain, magic = median(times["plain"][1:]), median(times["magic"][1:])
    print(
        f"mlp_step {plain:.2f} ms, under the magic with its page open {magic:.2f} ms: {magic / plain:.2f} (bar 1.10)"
    )
    if paints:
        waits = [p["painted_ms"] - p["sent_ms"] for p in paints]
        print(f"sent to painted: median {median(waits):.0f} ms of {len(paints)} paints (bar 300)")
        print(f"ten-second cell: {len(paints[seen:]) / 10:.1f} batches painted a second (bar 5)")
    else:
        print("sent to painted: the page recorded no paints")
    return 0


if __name__ == "__main__":
    sys.exit(main())
