"""Draws made-up profiles with the built front end and saves pictures, for looking at them.

``python tests/frontend/screenshots.py OUT_FOLDER`` needs ``fl_widgets/static`` (``make build``), playwright
and Debian's chromium. Nothing here is a test: the browser test proper lives with the notebook tests.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from made_up import live_messages, made_up_bundle, play
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
THEME = """
body{--jp-layout-color0:#fff;--jp-layout-color1:#fff;
--jp-ui-font-color0:#000;--jp-ui-font-color1:rgba(0,0,0,.87);
--jp-ui-font-color2:rgba(0,0,0,.6);
--jp-border-color2:#e0e0e0;--jp-border-color3:#eee;--jp-brand-color1:#1976d2;margin:12px}
body[data-jp-theme-light=false]{--jp-layout-color0:#111;--jp-layout-color1:#212121;
--jp-ui-font-color0:#fff;
--jp-ui-font-color1:rgba(255,255,255,.87);
--jp-ui-font-color2:rgba(255,255,255,.62);
--jp-border-color2:#424242;--jp-border-color3:#333;
--jp-brand-color1:#42a5f5;background:#111}
"""


def page_of(dark: bool, body: str) -> str:
    """A page that stands in for JupyterLab's theme."""
    light = "false" if dark else "true"
    head = f'<!doctype html><meta charset="utf-8"><style>{THEME}</style>'
    return f'{head}<body data-jp-theme-light="{light}">{body}</body>'


def inline(data: object) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data).replace("<", "\\u003c")


def done(page: Page, out: Path, dark: bool, bundle: dict[str, object], name: str) -> None:
    """All four tabs of a finished cell, drawn by the report build."""
    script = (ROOT / "fl_widgets/static/report.js").read_text("utf-8")
    data = f'<script type="application/json" id="torch-fl-bundle">{inline(bundle)}</script>'
    html = f'<div id="torch-fl"></div>{data}<script>{script}</script>'
    page.set_content(page_of(dark, html))
    for tab in ("Timeline", "Memory", "Fallback", "Lines"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(150)
        page.screenshot(path=out / f"{name}_{tab.lower()}_{'dark' if dark else 'light'}.png", full_page=True)


def live(page: Page, out: Path, dark: bool, messages: list[tuple[dict[str, object], bytes]]) -> None:
    """A running cell, drawn by the widget build from live messages."""
    data = [{"content": c, "buffer": base64.b64encode(b).decode("ascii")} for c, b in messages]
    script = (ROOT / "fl_widgets/static/widget.js").read_text("utf-8")
    page.set_content(page_of(dark, '<div id="home"></div>'))
    page.evaluate(
        """async ([script, data]) => {
          globalThis.__torchFlTest = true;
          const url = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
          const widget = (await import(url)).default();
          const listeners = [];
          const model = {on: (_, f) => listeners.push(f), off: () => {}, send: m => { window.sent = m; }};
          widget.initialize({model});
          widget.render({model, el: document.getElementById('home')});
          for (const {content, buffer} of data) {
            const bytes = Uint8Array.from(atob(buffer), c => c.charCodeAt(0));
            content.sent_ms = Date.now();
            listeners.forEach(f => f(content, [new DataView(bytes.buffer)]));
            await new Promise(done => setTimeout(done, 60));
          }
        }""",
        [script, data],
    )
    page.wait_for_timeout(400)
    page.screenshot(path=out / f"live_{'dark' if dark else 'light'}.png", full_page=True)
    print(
        page.evaluate(
            """JSON.stringify({sent: window.sent, paints: window.__torchFl.paints.length,
              states: window.__torchFl.states, draw: window.__torchFl.draw_ms.map(x => +x.toFixed(1))})"""
        )
    )


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    cell = play()
    bundle = made_up_bundle(cell)
    failed = made_up_bundle(cell, 300_000, "failed")
    messages = live_messages(cell, 420_000)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": 1290, "height": 700})
        page.on("console", lambda m: print("console:", m.text))
        page.on("pageerror", lambda e: print("page error:", e))
        for dark in (False, True):
            done(page, out, dark, bundle, "done")
            live(page, out, dark, messages)
        done(page, out, False, failed, "failed")
        browser.close()


if __name__ == "__main__":
    main()
