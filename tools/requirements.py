"""Prints the requirements that the two pyproject.toml files name, one a line, for `pip install -r`.

usage: requirements.py [extra ...]   extras of the root pyproject.toml; "build-system" adds both
[build-system] tables. torch-fl-core is left out: the Makefile builds it.
"""

import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def requirements(extras: list[str]) -> list[str]:
    """Requirements of both distributions and of the named extras, without duplicates."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    core = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())
    found = core["project"]["dependencies"] + root["project"]["dependencies"]
    for extra in extras:
        if extra == "build-system":
            found += core["build-system"]["requires"] + root["build-system"]["requires"]
        else:
            found += root["project"]["optional-dependencies"][extra]
    return [line for line in dict.fromkeys(found) if not line.startswith("torch-fl-core")]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
