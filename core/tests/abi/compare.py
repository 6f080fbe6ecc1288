"""What a change of the headers breaks: a layout (of dump.py) against the baseline of an ABI version.

python core/tests/abi/compare.py    compares the working tree with the baseline; exit status 1 for a break
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline-0.9.json"
#: Constants that grow with additions.
_GROWING = ("RAL_ABI_MINOR", "RAL_ABI_VERSION", "RAL_DTYPE_COUNT")


def differences(baseline: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """One line for each thing that a plugin or reader built against `baseline` would trip over; [] for none.

    Allowed: new structs, constants, typedefs and functions; new members at the end of a struct that begins with
    struct_size, beyond its former size (a former struct_size must not reach them); a higher minor version.
    """
    found = []
    for tag, was in baseline["structs"].items():
        current = now["structs"].get(tag)
        found += [f"struct {tag} is gone"] if current is None else _struct(tag, was, current)
    for name, value in baseline["constants"].items():
        current = now["constants"].get(name)
        if current is None:
            found.append(f"constant {name} is gone (it was {value})")
        elif current != value and not (name in _GROWING and current > value):
            found.append(f"constant {name} is {current}, it was {value}")
    for section, title in (("typedefs", "type"), ("functions", "function")):
        for name, kind in baseline[section].items():
            current = now[section].get(name, "gone")
            if current != kind:
                found.append(f"{title} {name} is {current}, it was {kind}")
    return found


def _struct(tag: str, was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = []
    names = [member["name"] for member in was["members"]]
    current = {member["name"]: member for member in now["members"]}
    for member in was["members"]:
        other = current.get(member["name"])
        if other is None:
            found.append(f"{tag}.{member['name']} is gone")
            continue
        changes = [
            f"{key} {other[key]}, was {member[key]}"
            for key in ("type", "offset", "size")
            if other[key] != member[key]
        ]
        found += [f"{tag}.{member['name']}: {'; '.join(changes)}"] if changes else []
    added = [member for member in now["members"] if member["name"] not in names]
    if names[0] != "struct_size":
        found += [f"{tag}.{m['name']} is new, but {tag} has no struct_size and may not grow" for m in added]
        if now["size"] != was["size"]:
            found.append(f"{tag} has {now['size']} bytes, it had {was['size']}")
        return found
    if now["size"] < was["size"]:
        found.append(f"{tag} has {now['size']} bytes, it had {was['size']}")
    return found + [
        f"{tag}.{m['name']} is new at offset {m['offset']}, inside the former {was['size']} bytes: add members at the end"
        for m in added
        if m["offset"] < was["size"]
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    import dump

    broken = differences(json.loads(BASELINE.read_text()), dump.layout())
    print("\n".join(broken) or "The layout holds the baseline unchanged.")
    sys.exit(bool(broken))
