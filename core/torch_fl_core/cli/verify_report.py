"""The report of `ralctl verify`: put together from ral-verify's events, and its text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from .output import table_text

ASPECTS = ("values", "complex types", "NaN and infinity", "in place", "mixed types", "host numbers")
RESULTS = ("passed", "failed", "declined", "without_reference")
_FAILURES_SHOWN = 5
_COLUMNS = ("KERNEL", "SYMBOL", "RESULT", "PASSED", "FAILED", "DECLINED", "US")


class Report:
    """What the events said so far. `events.h` of ral-verify describes them."""

    def __init__(self) -> None:
        self.plugin: dict[str, Any] = {}
        self.error: str | None = None
        self.said: list[str] = []  # its last lines of stderr, where it broke off
        self.done = False
        self._devices: dict[str, dict[str, Any]] = {}
        self._part: dict[str, Any] = {}
        self._number = -1
        self._case: dict[str, Any] | None = None
        self._answered = True

    @property
    def number(self) -> int:
        """Of the part that began last; -1 before the first."""
        return self._number

    @property
    def at(self) -> str:
        """What is being done."""
        if not self._part:
            return "loading the plugin"
        name, symbol = self._part["op"], self._part["symbol"]
        what = f"{name} [{symbol}]" if symbol else name
        case = self._case["case"] if self._case else "its start"
        return f"{what} {case} on {self._part['device']}"

    def take(self, event: dict[str, Any]) -> None:
        if "plugin" in event:
            self.plugin = event
        elif "part" in event:
            self._begin(event)
        elif "device" in event:
            self._devices.setdefault(
                event["device"], {"id": event["device"], "name": event["name"], "kernels": []}
            )
        elif "not_judged" in event and event["aspect"]:
            self._part["aspects"][event["aspect"]]["not_judged_reason"] = event["not_judged"]
        elif "not_judged" in event:
            self._part["not_judged_reason"] = event["not_judged"]
        elif "case" in event:
            self._case, self._answered = event, False
        elif "result" in event:
            self._answered = True
            self._count(event["result"], self._case["case"] if self._case else "", event.get("message", ""))
        elif "measured" in event:
            self._part[event["measured"]] = event["value"]
            if event["value"] is None:
                self._part[f"{event['measured']}_missing_reason"] = event["message"]
        elif "done" in event:
            self.done = True

    def fail(self, how: str) -> None:
        """The part at hand broke off: the plugin crashed, or hung."""
        case = self._case["case"] if self._case else "its start"
        where = f"after {case}" if self._case and self._answered else case
        self._count("failed", where, f"{how}; the kernel's other cases were not run")

    def document(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        for part in self._parts():
            reasons = [aspect["without_reference_reason"] for aspect in part["aspects"].values()]
            judged = any(part[result] for result in RESULTS[:3])
            if not judged and not part["not_judged_reason"]:
                named = next((f"the reference tier: {reason}" for reason in reasons if reason), None)
                part["not_judged_reason"] = named or part["aspects"]["values"]["not_judged_reason"]
        report = {name: self.plugin.get(name, "") for name in ("plugin", "version", "path")}
        report |= {"problems": self.plugin.get("problems", []), "devices": list(self._devices.values())}
        report |= {"error": self.error, "at": self.at if self.error else None, "stderr": self.said}
        return report | {"totals": self._totals()}

    def _begin(self, event: dict[str, Any]) -> None:
        self._number, self._case, self._answered = event["part"], None, True
        device = self._devices[event["device"]]
        counts: dict[str, Any] = dict.fromkeys(RESULTS, 0)
        part: dict[str, Any] = {
            "op": event["name"],
            "symbol": event["symbol"],
            "device": event["device"],
            **counts,
        }
        part |= {"failures": [], "declined_reason": None}
        if event["symbol"]:
            empty = {**counts, "not_judged_reason": None, "without_reference_reason": None}
            part |= {"not_judged_reason": None, "ns": None, "ns_missing_reason": None}
            part |= {"aspects": {aspect: dict(empty) for aspect in ASPECTS}}
            device["kernels"].append(part)
        else:
            device[event["name"]] = part
        self._part = part

    def _count(self, result: str, case: str, message: str) -> None:
        part = self._part
        part[result] += 1
        aspect = part["aspects"].get(self._case["aspect"]) if "aspects" in part and self._case else None
        if aspect:
            aspect[result] += 1
        if aspect and result == "without_reference":
            aspect["without_reference_reason"] = aspect["without_reference_reason"] or message
        if result == "declined":
            part["declined_reason"] = part["declined_reason"] or f"{case}: {message}"
        if result == "failed" and len(part["failures"]) < _FAILURES_SHOWN:
            part["failures"].append({"case": case, "message": message})

    def _parts(self) -> Iterator[dict[str, Any]]:
        """All kernels."""
        for device in self._devices.values():
            yield from device["kernels"]

    def _totals(self) -> dict[str, int]:
        kernels = list(self._parts())
        results = Counter(result_of(kernel) for kernel in kernels)
        totals = {"kernels": len(kernels)}
        totals |= {result: results[result] for result in ("passed", "failed", "declined", "not_judged")}
        totals |= {f"cases_{result}": sum(kernel[result] for kernel in kernels) for result in RESULTS}
        others = [d[part] for d in self._devices.values() for part in ("memory", "streams") if part in d]
        failures = totals["cases_failed"] + sum(part["failed"] for part in others)
        failures += len(self.plugin.get("problems", [])) + (self.error is not None)
        return totals | {"failures": failures}


def result_of(kernel: dict[str, Any]) -> str:
    if kernel["failed"]:
        return "failed"
    if kernel["passed"]:
        return "passed"
    return "not_judged" if kernel["not_judged_reason"] else "declined"


def report_text(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [f"Plugin {report['plugin']} {report['version']} in {report['path']}"]
    for device in report["devices"]:
        lines += ["", f"{device['id']}: {device['name']}"]
        if device["kernels"]:
            lines += [table_text(_COLUMNS, [_row(kernel) for kernel in device["kernels"]])]
        lines += [_checks_line(part, device[part]) for part in ("memory", "streams") if part in device]
        lines += _aspect_lines(device["kernels"])
    lines += ["", *(f"FAILED {text}" for text in _failures(report)), _totals_line(report["totals"])]
    return "\n".join(lines)


def count_of(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _row(kernel: dict[str, Any]) -> list[str]:
    us = "" if kernel["ns"] is None else f"{kernel['ns'] / 1000:.1f}"
    result = {"failed": "FAILED", "not_judged": f"not judged: {kernel['not_judged_reason']}"}
    found = result_of(kernel)
    counts = [str(kernel[name]) for name in ("passed", "failed", "declined")]
    return [kernel["op"], kernel["symbol"], result.get(found, found), *counts, us]


def _checks_line(part: str, checks: dict[str, Any]) -> str:
    speeds = [
        f"{name.removesuffix('_gb_s').replace('_', ' ')} {value:.2f} GB/s"
        for name, value in checks.items()
        if name.endswith("_gb_s")
    ]
    return ", ".join([f"{part}: {checks['passed']} passed, {checks['failed']} failed", *speeds])


def _aspect_lines(kernels: list[dict[str, Any]]) -> list[str]:
    """For each aspect: its cases, and the kernels that were not judged in it, by reason."""
    lines = []
    judged = [kernel for kernel in kernels if not kernel["not_judged_reason"]]
    for aspect in ASPECTS if judged else ():
        found = [kernel["aspects"][aspect] for kernel in judged]
        counts = [sum(each[result] for each in found) for result in RESULTS[:3]]
        reasons = Counter(_why_not(each) for each in found)
        lines.append(
            f"{aspect}: {counts[0]} passed, {counts[1]} failed, {counts[2]} declined"
            + "".join(
                f"; {count_of(n, 'kernel')} not judged: {why}" for why, n in reasons.most_common() if why
            )
        )
    return lines


def _why_not(aspect: dict[str, Any]) -> str | None:
    if any(aspect[result] for result in RESULTS[:3]):
        return None
    if aspect["without_reference_reason"]:
        return f"the reference tier: {aspect['without_reference_reason']}"
    return aspect["not_judged_reason"] or "the kernel broke off before"


def _failures(report: dict[str, Any]) -> list[str]:
    lines = [f"manifest: {problem}" for problem in report["problems"]]
    for device in report["devices"]:
        for part in [*device["kernels"], *(device[name] for name in ("memory", "streams") if name in device)]:
            name, found = part["op"], part["failures"]
            lines += [f"{device['id']} {name} {each['case']}: {each['message']}" for each in found]
            if part["failed"] > len(found):
                lines.append(f"{device['id']} {name}: {count_of(part['failed'] - len(found), 'more case')}")
    return lines + ([report["error"]] if report["error"] else [])


def _totals_line(totals: dict[str, int]) -> str:
    return (
        f"{count_of(totals['kernels'], 'kernel')}: {totals['passed']} passed, {totals['failed']} failed, "
        f"{totals['declined']} declined, {totals['not_judged']} not judged; "
        f"{count_of(totals['cases_passed'], 'case')} passed, {totals['cases_failed']} failed, "
        f"{totals['cases_declined']} declined, {totals['cases_without_reference']} without a reference. "
        "US: one call on about a million float32 elements."
    )
