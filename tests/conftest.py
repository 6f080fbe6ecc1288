"""Shared by all Python tests: says which build is tested, and refuses a source folder in its place."""

import importlib.util
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("torch_fl_core", "torch_fl", "fl_widgets")


def _place(package: str) -> pathlib.Path | None:
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.origin).resolve().parent if spec and spec.origin else None


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("TORCH_FL_TEST_INSTALLED") != "1":
        return
    for package in PACKAGES:
        place = _place(package)
        if place is None:
            raise pytest.UsageError(f"{package} is not installed: run 'make build'")
        if place.is_relative_to(ROOT) and ".venv" not in place.relative_to(ROOT).parts:
            raise pytest.UsageError(
                f"{package} comes from the source folder {place}, not from what was installed"
            )


def pytest_report_header(config: pytest.Config) -> str:
    return "tested: " + ", ".join(f"{p} from {_place(p) or 'nowhere'}" for p in PACKAGES)


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The root of the source tree."""
    return ROOT
