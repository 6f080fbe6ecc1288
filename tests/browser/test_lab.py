"""The main job in a real browser: the quickstart's training cell seen live, saved, reopened and exported.

One journey through JupyterLab (fixture `journey`) notes what a person would see; the tests read its notes.
Pictures are left in tests/browser/output/.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import nbformat
import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
try:
    import lab as jlab
finally:
    sys.path.pop(0)

BUNDLE = "application/vnd.torch-fl.profile+json"
OUTPUT = HERE / "output"
CELL_TIMEOUT_S = 300
# A server that knows no kernel at all: JupyterLab would start the notebook's own one by itself.
NO_KERNELS = (
    "--KernelSpecManager.allowed_kernelspecs=['none']",
    "--KernelSpecManager.ensure_native_kernel=False",
)

pytestmark = pytest.mark.browser

# Samples what the profiled cell's output shows: the header's text and a small copy of every canvas.
WATCH = """
(index) => {
  const small = document.createElement('canvas');
  small.width = 96; small.height = 48;
  const pen = small.getContext('2d', {willReadFrequently: true});
  const seen = window.__seen = {start: performance.now(), samples: 0, paints: [], states: []};
  let last = '';
  window.__watch = setInterval(() => {
    const view = document.querySelectorAll('.jp-Notebook .jp-Cell')[index]?.querySelector('.rfl');
    if (!view) return;
    let key = view.querySelector('.rfl-hd')?.innerText ?? '';
    const state = view.querySelector('.rfl-hd b')?.innerText ?? '';
    for (const canvas of view.querySelectorAll('canvas')) {
      if (!canvas.width || !canvas.height) continue;
      pen.clearRect(0, 0, 96, 48);
      pen.drawImage(canvas, 0, 0, 96, 48);
      let hash = 0;
      for (const v of pen.getImageData(0, 0, 96, 48).data) hash = (hash * 31 + v) | 0;
      key += '|' + hash;
    }
    seen.samples += 1;
    if (key !== last) { last = key; seen.paints.push([performance.now() - seen.start, state]); }
    if (seen.states.at(-1) !== state) seen.states.push(state);
  }, 50);
}
"""


@dataclasses.dataclass
class Journey:
    """What was seen on the way."""

    panel_before: str = ""
    panel_busy: str = ""
    devices_table: str = ""
    states: list[str] = dataclasses.field(default_factory=list)
    running_paints: int = 0
    running_s: float = 0.0
    cell_s: float = 0.0
    tabs: list[str] = dataclasses.field(default_factory=list)
    final_header: str = ""
    fallback_rows: list[str] = dataclasses.field(default_factory=list)
    line_rows: list[str] = dataclasses.field(default_factory=list)
    saved: pathlib.Path | None = None
    reopened_header: str = ""
    reopened_texts: dict[str, str] = dataclasses.field(default_factory=dict)
    reopened_ink: int = 0
    found: list[str] = dataclasses.field(default_factory=list)
    found_card: str = ""
    measured: str = ""
    view_kept: bool = False
    kernels_after_reopening: int = -1
    console_errors: list[str] = dataclasses.field(default_factory=list)


def view(page, index: int):
    """The profile view in the output of the cell at `index`."""
    return jlab.cell(page, index).locator(".jp-OutputArea .rfl").first


def open_tab(profile, name: str) -> None:
    tab = profile.locator(".rfl-tab", has_text=name).first
    tab.click()
    assert tab.get_attribute("aria-selected") == "true", f"a click on the tab {name} did nothing"


def panel(page):
    return page.locator("#torch-fl-devices")


def train(page, seen: Journey, sources: list[str]) -> int:
    """Runs the quickstart up to and with its profiled training cell, and watches that one."""
    training = next(i for i, text in enumerate(sources) if text.startswith("%%ral_profile"))
    count = 0
    for index in range(training):
        if sources[index]:
            count += 1
            jlab.run_cell(page, index)
            jlab.wait_until_run(page, index, count, CELL_TIMEOUT_S)
            if "%ral_devices" in sources[index]:
                seen.devices_table = jlab.cell(page, index).locator(".jp-OutputArea").inner_text()
    page.evaluate(WATCH, training)
    begin = time.monotonic()
    jlab.run_cell(page, training)
    page.wait_for_function("window.__seen.states.includes('Running')", timeout=CELL_TIMEOUT_S * 1000)
    page.wait_for_timeout(2_500)  # the panel asks the server every second or two
    # Not the kernel's indicator: a message served in a subshell makes JupyterLab show "idle" for a moment.
    text = panel(page).inner_text()
    if jlab.prompt(page, training) == "[*]:":
        seen.panel_busy = text
        page.screenshot(path=OUTPUT / "running.png")
    jlab.wait_until_run(page, training, count + 1, CELL_TIMEOUT_S)
    seen.cell_s = time.monotonic() - begin
    page.wait_for_function("window.__seen.states.at(-1) !== 'Running'", timeout=30_000)
    noted = page.evaluate("(clearInterval(window.__watch), window.__seen)")
    seen.states = noted["states"]
    running = [at for at, state in noted["paints"] if state == "Running"]
    seen.running_paints = len(running)
    seen.running_s = (running[-1] - running[0]) / 1000 if running else 0.0
    return training


def picture(page, training: int) -> None:
    """The whole profiled cell, for docs/images/profiled_cell.png; needs a window as high as the cell."""
    before = page.viewport_size
    page.set_viewport_size({"width": 1500, "height": 1500})
    page.wait_for_timeout(1_000)
    jlab.cell(page, training).scroll_into_view_if_needed()
    jlab.cell(page, training).screenshot(path=OUTPUT / "profiled_cell.png")
    page.set_viewport_size(before)
    page.wait_for_timeout(1_000)


def read_profile(page, seen: Journey, training: int) -> None:
    profile = view(page, training)
    seen.final_header = profile.locator(".rfl-hd").inner_text()
    seen.tabs = profile.locator(".rfl-tab").all_inner_texts()
    profile.scroll_into_view_if_needed()
    page.screenshot(path=OUTPUT / "done.png")
    picture(page, training)
    open_tab(profile, "Fallback")
    seen.fallback_rows = profile.locator("tbody tr").all_inner_texts()
    profile.screenshot(path=OUTPUT / "fallback.png")
    open_tab(profile, "Lines")
    seen.line_rows = profile.locator("tbody tr").all_inner_texts()
    open_tab(profile, "Timeline")


def save(page, notebook: pathlib.Path, training: int) -> None:
    page.keyboard.press("Control+s")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        cells = json.loads(notebook.read_text())["cells"]
        if any(BUNDLE in o.get("data", {}) for o in cells[training].get("outputs", [])):
            return
        page.wait_for_timeout(300)
    raise AssertionError("the saved notebook holds no profile bundle")


def reopen(page, seen: Journey, server: jlab.Lab, training: int) -> None:
    """Opens the saved notebook where no kernel runs and uses the view."""
    jlab.open_notebook(page, server, "quickstart.ipynb", kernel=False)
    kernels = page.request.get(f"{server.base}/api/kernels?token={server.token}").json()
    seen.kernels_after_reopening = len(kernels)
    profile = view(page, training)
    profile.wait_for(timeout=30_000)
    seen.reopened_header = profile.locator(".rfl-hd").inner_text()
    for name in ("Timeline", "Memory", "Fallback", "Lines"):
        open_tab(profile, name)
        seen.reopened_texts[name] = profile.inner_text()
    open_tab(profile, "Timeline")
    page.wait_for_timeout(500)
    seen.reopened_ink = page.evaluate(
        """(index) => {
             const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[index];
             const canvas = cell.querySelector('.rfl-stage canvas');
             const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
             return new Set(new Uint32Array(pixels.buffer)).size;
           }""",
        training,
    )
    profile.scroll_into_view_if_needed()
    page.screenshot(path=OUTPUT / "reopened.png")
    use_keys(page, seen, profile)


def use_keys(page, seen: Journey, profile) -> None:
    """Finds and measures with the keyboard alone; JupyterLab's own keys (m makes a cell Markdown) must not answer."""
    profile.locator(".rfl-stage").focus()
    page.keyboard.press("/")
    page.keyboard.type("CONV")
    found = profile.locator(".rfl-find .rfl-small")
    seen.found.append(found.inner_text())
    page.keyboard.press("Enter")
    seen.found.append(found.inner_text())
    page.screenshot(path=OUTPUT / "found.png")
    seen.found_card = profile.locator(".rfl-side").inner_text()
    page.keyboard.press("Escape")
    seen.found.append(found.inner_text())
    page.keyboard.press("m")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    seen.measured = profile.locator(".rfl-stage .rfl-live").inner_text()
    page.screenshot(path=OUTPUT / "measured.png")
    seen.view_kept = profile.is_visible()


@pytest.fixture(scope="module")
def journey(tmp_path_factory) -> Journey:
    executable = jlab.chromium()
    if executable is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: .ci/run installs Debian's")
        pytest.skip("no Chromium on this machine (Debian, Ubuntu: apt install chromium)")
    OUTPUT.mkdir(exist_ok=True)
    folder, state = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("state")
    notebook = pathlib.Path(shutil.copy(ROOT / "notebooks/quickstart.ipynb", folder))
    cells = nbformat.read(notebook, 4).cells
    sources = [c.source.lstrip() if c.cell_type == "code" else "" for c in cells]
    seen = Journey(saved=notebook)
    with jlab.browser_page(executable) as page:
        page.on("pageerror", lambda error: seen.console_errors.append(str(error)))
        try:
            with jlab.serve(folder, state) as server:
                jlab.open_notebook(page, server, "quickstart.ipynb")
                page.locator('.jp-SideBar [data-id="torch-fl-devices"]').click()
                page.wait_for_timeout(2_500)
                seen.panel_before = panel(page).inner_text()
                training = train(page, seen, sources)
                read_profile(page, seen, training)
                save(page, notebook, training)
            with jlab.serve(folder, state, *NO_KERNELS) as server:
                reopen(page, seen, server, training)
        except Exception:
            page.screenshot(path=OUTPUT / "failed.png")
            raise
    print(
        f"\ntraining cell {seen.cell_s:.1f} s; live view: {seen.running_paints} distinct painted states "
        f"in {seen.running_s:.1f} s = {seen.running_paints / max(seen.running_s, 1e-9):.1f} a second"
    )
    return seen


def test_panel_says_how_to_load_the_extension(journey):
    assert "%load_ext torch_fl" in journey.panel_before


def test_devices_table(journey):
    assert "ral:0" in journey.devices_table
    assert "opencl" in journey.devices_table
    assert re.search(r"LOADED|READY", journey.devices_table)


def test_view_moves_while_the_cell_runs(journey):
    assert "Running" in journey.states
    assert journey.running_paints > 3, journey.states
    print(f"{journey.running_paints} states in {journey.running_s:.1f} s")


def test_panel_answers_while_the_cell_is_busy(journey):
    assert "ral:0" in journey.panel_busy
    assert re.search(r"\d (B|KiB|MiB|GiB)", journey.panel_busy), "no memory in use is shown"


def test_final_view(journey):
    assert journey.states[-1] == "Done"
    assert [re.match("[A-Z][a-z]+", tab)[0] for tab in journey.tabs] == [
        "Timeline",
        "Memory",
        "Fallback",
        "Lines",
    ]
    assert re.search(r"peak memory\s*\d", journey.final_header)
    assert journey.fallback_rows, "no fallback decision is listed"
    assert any("line" in row or re.search(r"\d", row) for row in journey.line_rows)


def test_reopened_without_a_kernel_the_view_is_there_and_interactive(journey):
    assert journey.kernels_after_reopening == 0
    assert journey.reopened_header.startswith("Done")
    assert len(set(journey.reopened_texts.values())) == 4, "the tabs show the same"
    assert journey.reopened_ink > 3, "the timeline is blank"


def test_the_keyboard_finds_and_measures(journey):
    every, gone_to, after_escape = journey.found
    assert re.match(r"[1-9]", every), "no convolution was found in a cell that trains one"
    assert re.fullmatch(rf"[\d\u2009]+ of {every}", gone_to)
    assert "conv" in journey.found_card, "neither the op nor a tensor of it bears the name"
    assert after_escape == ""
    assert re.fullmatch(r"[\d.]+ (ns|µs|ms|s)", journey.measured)
    assert journey.view_kept


def test_saved_output_has_every_form(journey):
    cells = json.loads(journey.saved.read_text())["cells"]
    data = next(o["data"] for c in cells for o in c.get("outputs", []) if BUNDLE in o.get("data", {}))
    assert "<table" in "".join(data["text/html"])
    assert "<script" not in "".join(data["text/html"])
    assert "Done" in "".join(data["text/plain"])
    assert len("".join(data["image/png"])) > 1000
    assert len(json.dumps(data[BUNDLE])) <= 2**20


def test_exported_html_can_be_read(journey, tmp_path):
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "html",
        "--output-dir",
        str(tmp_path),
        str(journey.saved),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "quickstart.html").read_text()
    assert "convolution" in html and "Done" in html
    assert re.search(r"<table.*?(native|cpu)", html, re.DOTALL)


def test_page_raised_no_error(journey):
    assert journey.console_errors == []
