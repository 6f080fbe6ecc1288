"""The strip of the saved view: op time by tier over the cell and the memory curve, as SVG and PNG."""

from __future__ import annotations

import base64
import functools
import io
import math
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from torch_fl import batch as batches
from torch_fl import words
from torch_fl_core.trace.layout import TIER_NAMES, Flag, Kind

WIDTH, HEIGHT, LEFT = 1172, 128, 26
_COLUMNS, _PITCH = 376, 3
_BAR_TOP, _BAR_BASE = 18, 44
_CURVE_TOP, _CURVE_BASE = 66, 108
COLOURS = {"native": "#1d4e94", "jit": "#0e7f73", "reference": "#bf8300", "cpu": "#c03a1b"}
_DARK = {"native": "#5c93ea", "jit": "#5ad8c0", "reference": "#f2b632", "cpu": "#ff7d5c"}
# Ranges that PyTorch itself records.
_NOT_THE_USERS = ("Optimizer.", "enumerate(DataLoader)", "## Call", "Torch-Compiled Region", "TorchDynamo")
_MEMORY, _MEMORY_DARK = "#b9d6f2", "#2f5d8a"


@dataclass
class Strip:
    """What the strip shows, in its own pixels."""

    wall_us: float
    bars: list[tuple[int, float, str]] = field(default_factory=list)  # column, height 0..1, tier
    ranges: list[tuple[float, str]] = field(default_factory=list)  # x, text
    device: str = ""
    peak: int = 0
    steps: list[tuple[float, float]] = field(default_factory=list)  # x, share of the peak

    @property
    def alt(self) -> str:
        """The strip in words."""
        memory = f"; {self.device} memory below, peak {words.size(self.peak)}" if self.peak else ""
        return f"Op time over the whole cell, coloured by tier{memory}"

    def ticks(self) -> list[tuple[float, str]]:
        """Axis labels: (x, text), in one unit."""
        step = _round_step(self.wall_us / 6)
        unit, scale = ("ms", 1e3) if self.wall_us < 10e6 else ("s", 1e6)
        if self.wall_us < 5e3:
            unit, scale = "µs", 1.0
        count = int(self.wall_us / step) + 1
        return [(self.x(i * step), f"{i * step / scale:g} {unit}") for i in range(count)]

    def x(self, us: float) -> float:
        """Horizontal place of a time."""
        return LEFT + min(1.0, us / self.wall_us) * _COLUMNS * _PITCH


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(least, 1e-3)))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= least)


def of_bundle(bundle: dict[str, Any]) -> Strip:
    """The strip of a bundle, from its batches and memory curve."""
    wall = max(float(bundle["summary"]["wall_us"]), 1.0)
    parts = [batches.decode(base64.b64decode(text))[1] for text in bundle["batches"]]
    records = np.concatenate(parts) if parts else np.empty(0, batches.BATCH_DTYPE)
    strip = Strip(wall)
    strip.bars = _bars(records[records["kind"] == Kind.KERNEL], wall)
    strip.ranges = _ranges(strip, records, bundle["strings"])
    peaks = bundle["summary"]["peak_bytes"]
    if peaks:
        strip.device = max(peaks, key=lambda name: peaks[name])
        strip.peak = peaks[strip.device]
        curve = bundle["tables"]["memory_curve"].get(strip.device, [])
        strip.steps = [(strip.x(us), size / max(strip.peak, 1)) for us, size in curve]
    return strip


def _bars(kernels: np.ndarray, wall: float) -> list[tuple[int, float, str]]:
    width = wall / _COLUMNS
    used = np.zeros((5, _COLUMNS))
    begin = np.clip(kernels["begin"], 0, wall)
    end = np.clip(kernels["begin"] + kernels["duration"], 0, wall)
    first = np.minimum((begin / width).astype(int), _COLUMNS - 1)
    last = np.minimum((end / width).astype(int), _COLUMNS - 1)
    tier = kernels["tier"].astype(int)
    known = (tier > 0) & (tier < 5)
    inside = known & (first == last)
    np.add.at(used, (tier[inside], first[inside]), (end - begin)[inside])
    for i in np.flatnonzero(known & ~inside).tolist():
        edges = np.arange(first[i], last[i] + 2) * width
        parts = np.minimum(edges[1:], end[i]) - np.maximum(edges[:-1], begin[i])
        used[tier[i], first[i] : last[i] + 1] += np.maximum(parts, 0)
    total = used.sum(axis=0)
    most = used.argmax(axis=0)
    return [(i, min(1.0, total[i] / width), TIER_NAMES[most[i]]) for i in np.flatnonzero(total).tolist()]


def _ranges(strip: Strip, records: np.ndarray, strings: dict[str, str]) -> list[tuple[float, str]]:
    user = records[(records["kind"] == Kind.OP) & (records["flags"] & int(Flag.USER_RANGE) != 0)]
    out: list[tuple[float, str]] = []
    free = 0.0
    for record in user[np.argsort(user["begin"], kind="stable")]:
        x = strip.x(max(0.0, float(record["begin"])))
        text = " ".join(strings.get(str(int(record["name"])), "").split())[:40]
        if text and not text.startswith(_NOT_THE_USERS) and x >= free and x < WIDTH - 40:
            out.append((x, text))
            free = x + 8 + 6.2 * len(text)
    return out


def _bar_path(strip: Strip, tier: str) -> str:
    parts = []
    for column, height, name in strip.bars:
        if name == tier:
            tall = max(1.0, height * (_BAR_BASE - _BAR_TOP))
            parts.append(f"M{LEFT + column * _PITCH} {_BAR_BASE - tall:.1f}h2.6v{tall:.1f}h-2.6z")
    return "".join(parts)


def _curve(strip: Strip) -> list[tuple[float, float]]:
    tall = _CURVE_BASE - _CURVE_TOP
    points: list[tuple[float, float]] = []
    for x, part in strip.steps:
        y = _CURVE_BASE - part * tall
        if points:
            points.append((x, points[-1][1]))
        points.append((x, y))
    return points


def svg(strip: Strip) -> str:
    """The strip as one SVG document with its own colours for light and dark pages."""
    light = "".join(f".{t}{{fill:{c}}}" for t, c in COLOURS.items())
    dark = "".join(f".{t}{{fill:{c}}}" for t, c in _DARK.items())
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}"><style>text{{font:10.5px system-ui,sans-serif;fill:#666}}'
        f".m{{fill:{_MEMORY}}}{light}@media(prefers-color-scheme:dark){{text{{fill:#aaa}}"
        f".m{{fill:{_MEMORY_DARK}}}{dark}}}</style>"
    ]
    out += [f'<path class="{tier}" d="{_bar_path(strip, tier)}"/>' for tier in words.TIERS]
    out += [f'<text x="{x + 4:.1f}" y="12">{escape(text)}</text>' for x, text in strip.ranges]
    points = _curve(strip)
    if points:
        memory = f"memory, {strip.device}, peak {words.size(strip.peak)}"
        line = "".join(f"L{x:.1f} {y:.1f}" for x, y in points)
        first, last = points[0][0], points[-1][0]
        path = f"M{first:.1f} {_CURVE_BASE}{line}L{last:.1f} {_CURVE_BASE}z"
        out.append(f'<text x="12" y="60">{escape(memory)}</text><path class="m" d="{path}"/>')
    for x, text in strip.ticks():
        out.append(f'<text x="{x:.1f}" y="124" text-anchor="middle">{text}</text>')
    return "".join(out) + "</svg>"


def data_uri(strip: Strip) -> str:
    """The SVG as a data URI for `<img src>`."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg(strip).encode()).decode()


@functools.cache
def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(11)


def png(strip: Strip, title: str) -> str:
    """The strip with one line of text above it as PNG, base64."""
    from PIL import Image, ImageDraw

    top = 20
    image = Image.new("RGB", (WIDTH, HEIGHT + top), "white")
    draw = ImageDraw.Draw(image)

    def write(x: float, y: float, text: str, fill: str = "#555555") -> None:
        # Characters that the built-in font lacks are drawn as boxes.
        draw.text((x, y), text, fill=fill, font=_font())

    write(LEFT, 4, title, "#000000")
    for column, height, tier in strip.bars:
        tall = max(1.0, height * (_BAR_BASE - _BAR_TOP))
        x = LEFT + column * _PITCH
        box = (x, top + _BAR_BASE - tall, x + 2, top + _BAR_BASE)
        draw.rectangle(box, fill=COLOURS[tier])
    for x, text in strip.ranges:
        write(x + 4, top + 2, text)
    points = _curve(strip)
    if len(points) > 1:
        base = (points[-1][0], _CURVE_BASE)
        outline = [(points[0][0], _CURVE_BASE), *points, base]
        draw.polygon([(x, top + y) for x, y in outline], fill=_MEMORY)
        write(12, top + 50, f"memory, {strip.device}, peak {words.size(strip.peak)}")
    for x, text in strip.ticks():
        write(x - 3 * len(text), top + 113, text)
    data = io.BytesIO()
    image.save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()
