"""Prints "<folder of torch>;<version without local part>" without importing torch."""

import importlib.metadata
import importlib.util
import pathlib
import sys

spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit("no module named torch")
version = importlib.metadata.version("torch").partition("+")[0]
print(f"{pathlib.Path(spec.origin).parent.as_posix()};{version}", end="")
