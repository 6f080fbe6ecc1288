"""Environment variables of the RAL: names that nothing reads (typing errors) and values that cannot be used."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from .finding import Finding

_TIERS = ("native", "jit", "reference", "cpu")
_LEVELS = ("debug", "info", "warning", "error")


def _switch(value: str) -> str:
    return "" if value.strip() in ("", "0", "1") else "is neither 0 nor 1"


def _tiers(value: str) -> str:
    words = [word.strip() for word in value.split(",")] if value.strip() else []
    wrong = [word for word in words if word not in _TIERS]
    if wrong:
        return f"names {wrong[0]!r}; the tiers are {', '.join(_TIERS)}"
    return "names a tier twice" if len(set(words)) < len(words) else ""


def _level(value: str) -> str:
    return "" if value in ("", *_LEVELS) else f"is none of {', '.join(_LEVELS)}"


def _devices(value: str) -> str:
    words = value.split(",") if value else []
    return (
        ""
        if all(word.strip() for word in words)
        else "has an empty word; it takes indices, names and vendors"
    )


def _count(value: str) -> str:
    return "" if value.isdecimal() and int(value) > 0 else "is no number above 0"


def _fraction(value: str) -> str:
    try:
        return "" if not value or 0 < float(value) <= 1 else "is not above 0 and at most 1"
    except ValueError:
        return "is no number such as 0.5"


def _parts(value: str) -> str:
    return "" if not value or value.isdecimal() and 1 <= int(value) <= 64 else "is no number from 1 to 64"


def _folders(value: str) -> str:
    wrong = [folder for folder in value.split(":") if folder and not Path(folder).is_dir()]
    return f"names {wrong[0]}, which is no folder" if wrong else ""


def _file(value: str) -> str:
    return "" if not value or os.access(value, os.R_OK) and Path(value).is_file() else "is no readable file"


#: Every variable that is read, and what checks its value: "" or what is wrong with it.
KNOWN: dict[str, Callable[[str], str]] = {
    "RAL_AUTOLOAD": _switch,
    "RAL_FALLBACK": _tiers,
    "RAL_FALLBACK_STRICT": _switch,
    "RAL_LOG": _level,
    "RAL_MEMORY_FRACTION": _fraction,
    "RAL_OPENCL_SUBDEVICES": _parts,
    "RAL_OPENCL_SVM": _switch,
    "RAL_PLUGIN_ALLOW": _file,
    "RAL_PLUGIN_PATH": _folders,
    "RAL_POCL_PATH": _file,
    "RAL_TRACE_RECORDS": _count,
    "RAL_VISIBLE_DEVICES": _devices,
    "TORCH_FL_ADAPTER_PATH": _file,
}


def findings(environ: Mapping[str, str]) -> list[Finding]:
    """Findings on the variables that are set."""
    found = [_finding(name, environ[name]) for name in sorted(environ) if _ours(name)]
    return found or [Finding("ok", "no environment variable RAL_* is set")]


def _ours(name: str) -> bool:
    return name in KNOWN or name.startswith("RAL_")


def _finding(name: str, value: str) -> Finding:
    if name not in KNOWN:
        near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.75)
        if near:
            return Finding("problem", f"{name} is set, but nothing reads it", f"did you mean {near[0]}?")
        return Finding(
            "note", f"{name} is set, but torch_fl does not read it", "unset it, unless a plugin reads it"
        )
    wrong = KNOWN[name](value)
    if wrong:
        return Finding("problem", f"{name}={value} {wrong}", f"mend it, or unset {name}")
    return Finding("ok", f"{name}={value}")
