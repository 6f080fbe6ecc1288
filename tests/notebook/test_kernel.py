"""Real kernels without a browser: outputs, live messages, errors, interrupts. On the fake core."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from torch_fl import batch as batches
from torch_fl.bundle import MIME
from torch_fl_core.trace.layout import Kind

pytestmark = pytest.mark.usefixtures("kernel_path")


def first_cell(folder: Path) -> str:
    return f"import fake_core, time\ncore = fake_core.install({str(folder / 'ral')!r})\n%load_ext torch_fl"


class Kernel:
    """A running kernel; `run` gives all iopub messages of one cell."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        # As a Jupyter Server would, so that a page may look on.
        self.manager.start_kernel(cwd=str(folder), env=dict(os.environ, JPY_SESSION_NAME="some.ipynb"))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, code: str, metadata: dict[str, Any] | None = None) -> str:
        message = self.client.session.msg(
            "execute_request",
            {"code": code, "silent": False, "store_history": True, "user_expressions": {},
             "allow_stdin": False, "stop_on_error": True},
        )  # fmt: skip
        message["metadata"].update(metadata or {})
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def collect(self, number: str, timeout: float = 60) -> list[dict[str, Any]]:
        out = []
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") != number:
                continue
            out.append(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return out
        raise AssertionError("the cell did not end")

    def run(self, code: str, metadata: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return self.collect(self.send(code, metadata))

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    made = Kernel(tmp_path)
    out = made.run(first_cell(tmp_path))
    assert not [m for m in out if m["msg_type"] == "error"], out
    yield made
    made.stop()


def of_type(messages: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [m for m in messages if m["msg_type"] in types]


def texts(messages: list[dict[str, Any]]) -> str:
    return "".join(m["content"]["text"] for m in of_type(messages, "stream"))


WORK = """%%ral_profile
for _ in range(12):
    core.op("mm", us=500)
    core.op("pool", us=500, tier="cpu")
    time.sleep(0.05)
"""


def test_live_batches_come_while_the_cell_runs(kernel: Kernel) -> None:
    out = kernel.run(WORK + "time.sleep(1)\n")  # until the last of it was sent
    shown = of_type(out, "display_data")
    assert len(shown) == 1
    first = shown[0]["content"]
    profile = first["transient"]["display_id"]
    assert first["data"][MIME]["summary"]["state"] == "running"
    assert first["data"][MIME]["profile"] == profile
    opened = of_type(out, "comm_open")
    assert [m["content"]["target_name"] for m in opened] == ["torch_fl.live"]
    assert opened[0]["content"]["data"] == {"profile": profile, "version": 1}
    live = of_type(out, "comm_msg")
    contents = [m["content"]["data"] for m in live]
    assert contents[-1] == {"type": "end"}
    sent = [(c, m) for c, m in zip(contents, live, strict=True) if c["type"] == "batch"]
    assert len(sent) >= 2  # some ten on an idle machine
    assert [c["number"] for c, _ in sent] == list(range(len(sent)))
    strings: dict[str, str] = {}
    names: list[str] = []
    for content, message in sent:
        strings.update(content["strings"])
        head, batch = batches.decode(bytes(message["buffers"][0]))
        assert head["number"] == content["number"]
        names += [strings[str(i)] for i in batch["name"][batch["kind"] == 2].tolist()]
        assert content["summary"]["state"] == "running"
    assert set(names) == {"mm", "pool"} and len(names) >= 12
    assert any("tables" in c for c, _ in sent)
    last = of_type(out, "update_display_data")[-1]["content"]
    assert last["transient"]["display_id"] == profile
    summary = last["data"][MIME]["summary"]
    assert summary["state"] == "done" and summary["op_count"]["native"] == 12
    assert set(last["data"]) == {MIME, "text/html", "image/png", "text/plain"}
    assert texts(out) == ""


def test_messages_of_all_threads_belong_to_the_cell(kernel: Kernel) -> None:
    number = kernel.send(WORK)
    assert (
        len(of_type(kernel.collect(number), "comm_msg")) >= 2
    )  # a batch and the end; collect() drops other parents


def test_nothing_is_sent_where_no_page_can_look_on(kernel: Kernel) -> None:
    kernel.run("import os; del os.environ['JPY_SESSION_NAME']")
    out = kernel.run(WORK)
    assert not of_type(out, "comm_open", "comm_msg")
    bundle = of_type(out, "update_display_data")[-1]["content"]["data"][MIME]
    assert bundle["summary"]["state"] == "done"
    assert (bundle["summary"]["op_count"]["native"], bundle["summary"]["op_count"]["cpu"]) == (12, 12)
    _, batch = batches.decode(base64.b64decode(bundle["batches"][0]))
    assert np.count_nonzero(batch["kind"] == Kind.KERNEL) == 24


def test_no_live_sends_nothing_while_it_runs(kernel: Kernel) -> None:
    out = kernel.run(WORK.replace("%%ral_profile", "%%ral_profile --no-live"))
    assert not of_type(out, "comm_open", "comm_msg")
    assert of_type(out, "update_display_data")[-1]["content"]["data"][MIME]["summary"]["state"] == "done"
    out = kernel.run("%%ral_profile -q -o p\ncore.op('mm')")
    assert not of_type(out, "comm_open", "display_data", "update_display_data")


def test_the_output_is_brought_up_to_date_while_it_runs(kernel: Kernel) -> None:
    out = kernel.run(WORK.replace("range(12)", "range(70)"))
    states = [m["content"]["data"][MIME]["summary"]["state"] for m in of_type(out, "update_display_data")]
    assert states[-1] == "done" and "running" in states[:-1]


def test_an_answering_page_is_noticed_and_replay_is_served(kernel: Kernel) -> None:
    out = kernel.run(WORK)
    comm = of_type(out, "comm_open")[0]["content"]["comm_id"]
    message = kernel.client.session.msg("comm_msg", {"comm_id": comm, "data": {"type": "replay"}})
    kernel.client.shell_channel.send(message)
    answer = kernel.collect(message["header"]["msg_id"])
    data = of_type(answer, "comm_msg")[0]["content"]["data"]
    assert data["type"] == "bundle" and data["bundle"]["summary"]["state"] == "done"
    assert "True" in texts(kernel.run("from torch_fl import live; print(live._lab_answered)"))


def test_a_page_that_knows_no_target_costs_nothing(kernel: Kernel) -> None:
    number = kernel.send(WORK)
    comm = None
    while comm is None:
        message = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "comm_open":
            comm = message["content"]["comm_id"]
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_close", {"comm_id": comm, "data": {}}))
    kernel.collect(number)
    out = kernel.run(WORK)
    assert not of_type(out, "error") and texts(out) == ""


def test_interrupt_keeps_the_profile(kernel: Kernel) -> None:
    number = kernel.send("%%ral_profile\ncore.op('mm')\ntime.sleep(60)\n")
    while True:
        message = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "comm_msg":
            break
    kernel.manager.interrupt_kernel()
    out = kernel.collect(number)
    assert [m["content"]["ename"] for m in of_type(out, "error")] == ["KeyboardInterrupt"]
    summary = of_type(out, "update_display_data")[-1]["content"]["data"][MIME]["summary"]
    assert (summary["state"], summary["failed_line"]) == ("failed", 3)
    assert "False 0" in texts(kernel.run("import torch_fl; print(torch_fl.recording(), core.acquired)"))


def test_interrupt_of_a_cell_that_awaits(kernel: Kernel) -> None:
    number = kernel.send(
        "%%ral_profile\nimport asyncio\ncore.op('mm')\nfor _ in range(600):\n    await asyncio.sleep(0.1)\n"
    )
    while True:
        message = kernel.client.get_iopub_msg(timeout=30)
        if message["msg_type"] == "comm_msg":
            break
    kernel.manager.interrupt_kernel()
    out = kernel.collect(number)
    assert of_type(out, "error")
    out = kernel.run("%%ral_profile -o p\ncore.op('add')")
    assert not of_type(out, "error")
    assert "['add'] False 0" in texts(
        kernel.run("import torch_fl; print(list(p.kernels.op), torch_fl.recording(), core.acquired)")
    )


def test_the_cells_that_await_interleave(kernel: Kernel) -> None:
    out = kernel.run(
        "%%ral_profile -o p\nimport asyncio\nseen = []\nasync def step(k):\n    core.op('mm')\n"
        "    seen.append(k)\n    await asyncio.sleep(0.05)\n    seen.append(-k)\n    return k\n"
        "got = await asyncio.gather(*[step(k) for k in (1, 2, 3)])\nprint(got, seen[:3])"
    )
    assert "[1, 2, 3] [1, 2, 3]" in texts(out)


def test_the_widget_is_shown_while_it_runs_where_no_extension_draws(kernel: Kernel) -> None:
    fake = (
        "import sys, types, ipywidgets, traitlets\nfrom torch_fl import live\n"
        "class ProfileWidget(ipywidgets.DOMWidget):\n"
        "    _view_name = traitlets.Unicode('V').tag(sync=True)\n"
        "sys.modules['fl_widgets'] = types.SimpleNamespace(ProfileWidget=ProfileWidget)\n"
        "live.widget_installed = lambda: True\nlive.lab_installed = lambda: False"
    )
    assert not of_type(kernel.run(fake), "error")
    view = "application/vnd.jupyter.widget-view+json"
    out = kernel.run(WORK, {"cellId": "abc"})
    assert view in of_type(out, "display_data")[0]["content"]["data"]
    assert view not in of_type(out, "update_display_data")[-1]["content"]["data"]
    model = of_type(out, "display_data")[0]["content"]["data"][view]["model_id"]
    custom = [
        m for m in of_type(out, "comm_msg")
        if m["content"]["comm_id"] == model and m["content"]["data"]["method"] == "custom"
    ]  # fmt: skip
    assert custom[-1]["content"]["data"]["content"] == {"type": "end"}
    assert custom[0]["content"]["data"]["content"]["type"] == "batch" and custom[0]["buffers"]
    out = kernel.run(WORK)  # no page looks on: nbclient sends no cell id
    assert view not in of_type(out, "display_data")[0]["content"]["data"]


def notebook(folder: Path, *cells: str) -> tuple[NotebookClient, Any]:
    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(c) for c in (first_cell(folder), *cells)]
    )
    client = NotebookClient(
        made, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client, made


def test_saved_notebooks_hold_one_output_with_all_forms(tmp_path: Path) -> None:
    client, made = notebook(tmp_path, WORK, "%%ral_profile\ncore.op('add')\n'last'")
    client.execute()
    assert "widgets" not in made.metadata
    outputs = made.cells[1].outputs
    assert [o.output_type for o in outputs] == ["display_data"]
    data = outputs[0].data
    assert data[MIME]["summary"]["state"] == "done" and "pool" in data["text/plain"]
    assert [o.output_type for o in made.cells[2].outputs] == ["display_data", "execute_result"]
    assert len(json.dumps(made)) < 2_000_000


def test_an_error_stops_the_run_once(tmp_path: Path) -> None:
    client, made = notebook(
        tmp_path,
        "%%ral_profile\ncore.op('add')\nwith open('/no/such/file/for/nb01') as f:\n    pass",
        "print('B ran')",
    )
    with pytest.raises(CellExecutionError, match="FileNotFoundError"):
        client.execute()
    errors = [o for o in made.cells[1].outputs if o.output_type == "error"]
    assert len(errors) == 1 and errors[0].ename == "FileNotFoundError"
    shown = next(o for o in made.cells[1].outputs if o.output_type == "display_data")
    assert shown.data[MIME]["summary"]["state"] == "failed"
    assert shown.data[MIME]["summary"]["op_count"]["native"] == 1
    assert not made.cells[2].outputs


def test_a_budget_fails_the_run(tmp_path: Path) -> None:
    client, made = notebook(tmp_path, "%ral_budget --wall 5ms\ntime.sleep(0.05)", "print('B ran')")
    with pytest.raises(CellExecutionError, match="over budget: wall"):
        client.execute()
    assert [o.ename for o in made.cells[1].outputs if o.output_type == "error"] == ["BudgetError"]


def test_html_export_reads_offline(tmp_path: Path) -> None:
    from nbconvert import HTMLExporter, MarkdownExporter

    client, made = notebook(tmp_path, WORK)
    client.execute()
    page = HTMLExporter().from_notebook_node(made)[0]
    assert "torch-fl-static" in page and "data:image/svg+xml;base64," in page and "no manifest entry" in page
    assert "pool" in MarkdownExporter().from_notebook_node(made)[0]
