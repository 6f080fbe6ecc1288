"""Notebook cases (shared/cases/notebook_cases.md) that need no browser, on the real device by nbclient."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from torch_fl.bundle import MIME

pytest.importorskip("torch")

SETUP = """
%load_ext torch_fl
import asyncio, json, math, os, threading, time, torch, torch_fl
DEV = 'ral:0'
def export_json(path): torch_fl.last().to_chrome(path)
def export_html(path): torch_fl.last().to_html(path)
def recording(): return torch_fl.recording()
def sync(): torch.ral.synchronize()
"""

CHECK = """
def load(path):
    with open(path, encoding='utf-8') as f:
        d = json.load(f)
    return d['traceEvents'] if isinstance(d, dict) else d
def check(path):
    ev, lanes, count = load(path), {}, {}
    for e in ev:
        if e.get('ph') != 'X':
            continue
        assert math.isfinite(e['ts']) and e['ts'] > 0, ('zero or odd start', e)
        assert math.isfinite(e['dur']) and e['dur'] >= 0, ('negative time', e)
        lanes.setdefault((e['pid'], e['tid']), []).append(e)
        if e.get('cat') == 'kernel':
            count[e['name']] = count.get(e['name'], 0) + 1
    for lane, es in lanes.items():
        es.sort(key=lambda e: (e['ts'], -e['dur']))
        open_ = []
        for e in es:
            while open_ and e['ts'] >= open_[-1]['ts'] + open_[-1]['dur'] - 1e-9:
                open_.pop()
            if open_:
                assert e['ts'] + e['dur'] <= open_[-1]['ts'] + open_[-1]['dur'] + 1e-3, \\
                    ('overlap', lane, open_[-1]['name'], e['name'])
            open_.append(e)
    return count
def how_many(path, part):
    return sum(n for name, n in check(path).items() if part in name)
"""


class Book:
    """A notebook of the set-up cells and others, and what running it gave."""

    def __init__(self, folder: Path, *cells: str) -> None:
        every = [nbformat.v4.new_code_cell(text.strip("\n")) for text in (SETUP, CHECK, *cells)]
        self.book = nbformat.v4.new_notebook(cells=every)
        self.client = NotebookClient(
            self.book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        )

    def run(self) -> Book:
        self.client.execute()
        return self

    def outputs(self, cell: int) -> list[Any]:
        return self.book.cells[cell + 2].outputs

    def text(self, cell: int) -> str:
        return "".join(o.text for o in self.outputs(cell) if o.output_type == "stream").strip()

    def bundle(self, cell: int) -> dict[str, Any]:
        shown = [o.data[MIME] for o in self.outputs(cell) if MIME in o.get("data", {})]
        assert len(shown) == 1
        return shown[0]


def test_nb01_an_exception_stops_the_run(tmp_path: Path) -> None:
    cells = (
        "%%ral_profile\nbefore = torch.ones(4, device=DEV) + 1\n"
        "with open('/no/such/file/for/nb01') as f:\n    data = f.read()",
        "print('cell B ran')",
    )
    book = Book(tmp_path, *cells)
    with pytest.raises(CellExecutionError, match="FileNotFoundError"):
        book.run()
    assert len([o for o in book.outputs(0) if o.output_type == "error"]) == 1
    bundle = book.bundle(0)
    assert bundle["summary"]["state"] == "failed" and bundle["summary"]["failed_line"] == 3
    assert sum(row["count"] for row in bundle["tables"]["lines"] if row["line"] == 2) >= 1
    assert not book.outputs(1)
    # The cell that a user runs by hand afterwards.
    book = Book(tmp_path, cells[0], "print(before.cpu().tolist(), recording())")
    book.book.cells[2].metadata["tags"] = ["raises-exception"]
    assert book.run().text(1) == "[2.0, 2.0, 2.0, 2.0] False"


def test_nb03_names_survive(tmp_path: Path) -> None:
    book = Book(
        tmp_path,
        """%%ral_profile
from math import pi as my_pi
a = torch.arange(3, device=DEV)
n = globals().get('n', 0) + 1
def double(t):
    return t * 2
for k in range(3):
    pass
b = double(a); c = b.sum()""",
        "print(round(my_pi, 2), a.cpu().tolist(), k, b.cpu().tolist(), int(c), double(a).cpu().tolist(), n)",
        "%%ral_profile\nz = torch.ones(1, device=DEV)",
        "print(z.item())",
    ).run()
    assert book.text(1) == "3.14 [0, 1, 2] 2 [0, 2, 4] 6 [0, 2, 4] 1"
    assert book.text(3) == "1.0"


def test_nb05_a_cell_may_await(tmp_path: Path) -> None:
    book = Book(
        tmp_path,
        """%%ral_profile
async def step(k):
    y = torch.ones(8, 8, device=DEV) * k
    await asyncio.sleep(0.05)
    return (y @ y).sum().item()
got = await asyncio.gather(*[step(k) for k in (1, 2, 3)])""",
        "print(got); export_json('nb05.json'); print(how_many('nb05.json', 'mm'))",
    ).run()
    assert book.text(1).splitlines() == ["[512.0, 2048.0, 4608.0]", "3"]


def test_nb07_after_a_failure_the_next_is_clean(tmp_path: Path) -> None:
    fail = "%%ral_profile\ntorch.ones(5, device=DEV) + 1\nraise RuntimeError('on purpose')"
    book = Book(
        tmp_path,
        *[fail] * 5,
        "%%ral_profile\ntorch.ones(5, device=DEV) * 2",
        "export_json('nb07.json'); print(how_many('nb07.json', 'mul'), how_many('nb07.json', 'add'))",
    )
    for cell in book.book.cells[2:7]:
        cell.metadata["tags"] = ["raises-exception"]
    assert book.run().text(6) == "1 0"


def test_nb09_odd_names_keep_files_readable(tmp_path: Path) -> None:
    book = Book(
        tmp_path,
        r"""%%ral_profile
for name in ['quote " here', 'back\\slash C:\\new\\tab', 'новый 日本 ✓ 🚀', 'ctrl \x01 \n end', '</script><b>x', '', 'n' * 5000,
             '{"device": "ral"}', "single ' quote", 'lone \ud800 half']:
    with torch.profiler.record_function(name):
        torch.ones(2, device=DEV) + 1""",
        r"""export_json('nb09.json'); check('nb09.json'); export_html('nb09.html')
names = {e['name'] for e in load('nb09.json') if e.get('ph') == 'X'}
print([any(s in n for n in names) for s in ['quote " here', 'C:\\new\\tab', 'новый 日本 ✓ 🚀', '</script><b>x']])
h = open('nb09.html', encoding='utf-8').read(); print('</script><b>x' in h)""",
    )
    book.book.cells[2].metadata["tags"] = ["raises-exception"]  # PyTorch itself may refuse a lone surrogate
    book.run()
    assert book.text(1).splitlines() == ["[True, True, True, True]", "False"]


def test_nb11_nothing_lost_at_the_start(tmp_path: Path) -> None:
    profiled = """%%ral_profile
w0 = time.time()
for _ in range(50):
    x @ x
sync(); w1 = time.time()"""
    verify = """export_json('nb11.json'); n = how_many('nb11.json', 'mm'); ev = [e for e in load('nb11.json') if e.get('ph') == 'X']
span = (max(e['ts'] + e['dur'] for e in ev) - min(e['ts'] for e in ev)) / 1e6
print(n % 50, n >= 50, span <= (w1 - w0) + 0.05)"""
    first = "x = torch.ones(16, 16, device=DEV); x @ x; sync(); time.sleep(1)"
    book = Book(tmp_path, first, *[profiled, verify] * 3).run()
    assert [book.text(i) for i in (2, 4, 6)] == ["0 True True"] * 3


def test_nb13_other_threads_are_there(tmp_path: Path) -> None:
    book = Book(
        tmp_path,
        """%%ral_profile
def job(k):
    for _ in range(10):
        torch.full((50,), float(k), device=DEV).mul(2)
ts = [threading.Thread(target=job, args=(k,), name=f'nb13-{k}') for k in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
p = torch.ones(3, device=DEV, requires_grad=True); p.exp().sum().backward(); sync()""",
        """export_json('nb13.json'); ev = load('nb13.json')
print(how_many('nb13.json', 'mul') >= 30, len({(e['pid'], e['tid']) for e in ev if e.get('ph') == 'X'}) >= 3)
print(sum('nb13-' in str(e.get('args')) for e in ev if e.get('ph') == 'M') >= 3)
print(torch_fl.last().kernels['backward'].any())""",
        """%%ral_profile
late = threading.Thread(target=lambda: [(time.sleep(0.01), torch.ones(4, device=DEV).mul(2)) for _ in range(60)])
late.start()""",
        "late.join(); print(len(torch_fl.last().kernels) < 60)",
    ).run()
    assert book.text(1).split() == ["True"] * 4
    assert book.text(3) == "True"


def test_nb15_html_export_shows_the_profile(tmp_path: Path) -> None:
    from nbconvert import HTMLExporter, MarkdownExporter

    book = Book(
        tmp_path, "%%ral_profile\ny = torch.ones(128, 128, device=DEV)\nfor _ in range(10): y = y @ y * 0.01"
    ).run()
    data = next(o.data for o in book.outputs(0) if o.output_type == "display_data")
    assert {"text/html", "image/png", "text/plain"} < set(data)
    assert "y = y @ y * 0.01" in data["text/plain"]
    assert "widgets" not in book.book.metadata
    for exporter in (HTMLExporter, MarkdownExporter):
        page = exporter().from_notebook_node(book.book)[0]
        assert "y = y @ y * 0.01" in page and "Op time" in page


def test_nb17_a_very_long_profile(tmp_path: Path) -> None:
    loop = "z = torch.zeros(4, device=DEV)\nfor _ in range(200_000):\n    z.add_(1)\nsync()"
    book = Book(
        tmp_path,
        loop,  # warms up: the kernel is built and measured
        f"t = time.perf_counter()\n{loop}\nplain = time.perf_counter() - t",
        f"%%ral_profile\nt = time.perf_counter()\n{loop}\ntaken = time.perf_counter() - t",
        """print(z[0].item()); export_json('nb17.json'); n = how_many('nb17.json', 'add'); p = torch_fl.last()
print(n == 200_000 or p.dropped > 0, n, p.dropped)
print(round(taken / plain, 2))""",
    ).run()
    value, whole, ratio = book.text(3).splitlines()
    assert value == "200000.0" and whole.startswith("True")
    assert len(json.dumps(book.outputs(2))) < 5_000_000
    print(f"NB-17: {ratio} times the unprofiled time; bench/ measures it")


def test_nb21_work_is_on_the_right_lines(tmp_path: Path) -> None:
    source = """%%ral_profile -o p
def heavy(n):
    return torch.ones(n, n, device=DEV) @ torch.ones(n, n, device=DEV)
def light():
    return torch.ones(1, device=DEV) + 1
for _ in range(5):
    heavy(300)
    light()
sync()"""
    where = """k = p.kernels
def place(op): return sorted({(int(l), int(i.rpartition(':')[2])) for l, i in zip(k[k.op == op].line, k[k.op == op].inner)})
print(place('mm'), place('add'), len({i.partition(':')[0] for i in k.inner}))"""
    book = Book(tmp_path, source, where, "\n" + source, where, "%%ral_profile -o p\nheavy(300)", where)
    book.book.cells[4].source = "\n" + source  # Book strips blank lines
    book.book.cells.append(nbformat.v4.new_code_cell("heavy('no number')"))
    book.book.cells[-1].metadata["tags"] = ["raises-exception"]
    book.run()
    assert book.text(1) == "[(7, 3)] [(8, 5)] 1"
    assert book.text(3) == "[(8, 4)] [(9, 6)] 1"
    assert book.text(5) == "[(2, 4)] [] 1"
    error = next(o for o in book.outputs(6) if o.output_type == "error")
    traceback = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))  # without its colours
    assert "    return torch.ones(n, n, device=DEV)" in traceback


def test_leaks_are_told_with_their_holder(tmp_path: Path) -> None:
    book = Book(
        tmp_path,
        "w = torch.ones(64, 64, device=DEV, requires_grad=True); sync()",
        """%%ral_profile
hist, held = [], []
for _ in range(5):
    loss = (w @ w).exp().sum()
    hist.append(loss)
    held.append(torch.zeros(1000, device=DEV))""",
    ).run()
    leaks = {row["line"]: row for row in book.bundle(1)["tables"]["leaks"]}
    assert list(leaks) == [4] and leaks[4]["count"] >= 5
    assert leaks[4]["kept_by"] == "hist" and leaks[4]["bytes"] >= 5 * 64 * 64 * 4


def test_other_magics(tmp_path: Path) -> None:
    book = Book(
        tmp_path,
        "%ral_devices",
        "%ral_memory --json",
        "%%ral_profile -q\nnet = torch.nn.Linear(8, 4)\nx = torch.randn(16, 8)\nnet.to(DEV)(x.to(DEV)).sum().item()\nnet.cpu()",
        "%%ral_compare -d ral:0 -d cpu -r 3 -o c\ny = net(x)\nloss = y.pow(2).sum()\nloss.backward()",
        "print(sorted(set(c.values.verdict) - {'same', 'close'}), sorted(c.values.name), next(net.parameters()).device)",
    ).run()
    html = book.outputs(0)[0].data["text/html"]
    assert "ral:0" in html and "opencl" in html
    assert json.loads(book.text(1))[0]["device"] == "ral:0"
    assert book.text(4).startswith("[] [") and book.text(4).endswith("cpu")
    assert "net.weight.grad" in book.text(4)
