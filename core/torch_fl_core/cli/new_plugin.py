"""`ralctl new-plugin`: a copy of the template plugin under a vendor's name, ready to build."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from .output import Failed, add_json, show
from .places import VENDOR, package_folder

_SOURCES = ("template_plugin.c", "kernel_manifest.json", "Makefile")


class NewPlugin:
    """a new plugin's folder, made from the template: builds with `make` and loads at once"""

    name = "new-plugin"
    examples = ("ralctl new-plugin mychip", "ralctl new-plugin mychip --output ~/work")

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "vendor", metavar="NAME", type=vendor_name, help="the plugin's name: a-z, then a-z, 0-9 and _"
        )
        parser.add_argument(
            "--output",
            type=Path,
            default=Path(),
            metavar="DIR",
            help="folder to make the folder NAME in (default: this one)",
        )
        add_json(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        folder = make_plugin(args.vendor, args.output)
        files, commands = sorted(p.name for p in folder.iterdir()), next_commands(args.vendor, args.output)
        text = "\n".join([f"Made {folder}: {', '.join(files)}. Next:\n", *(f"  {c}" for c in commands)])
        show(args.json, {"made": str(folder), "files": files, "next": commands}, text)
        return 0


def vendor_name(text: str) -> str:
    """`text` if it can be a vendor's name; argparse's error otherwise."""
    if not VENDOR.match(text) or len(text) > 64:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no plugin name: a lower-case letter, then lower-case letters, digits and _, 64 at most"
        )
    return text


def template_folder() -> Path:
    """The template's sources: in the installed package, else in the source checkout."""
    checkout = Path(__file__).resolve().parents[2] / "plugins" / "template"
    for folder in (package_folder() / "template", checkout):
        if all((folder / name).is_file() for name in _SOURCES):
            return folder
    raise Failed(f"the template plugin is not in {package_folder()}; install torch_fl_core again")


def make_plugin(vendor: str, output: Path) -> Path:
    """Makes `output`/`vendor` and returns it. Raises Failed where that is a file or a folder with something in it."""
    folder = output / vendor
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise Failed(f"{folder} exists and is not an empty folder; choose another name or --output")
    source = template_folder()
    texts = {
        name.replace("template", vendor): (source / name).read_text().replace("template", vendor)
        for name in _SOURCES
    }
    texts["include/ral/plugin.h"] = (package_folder() / "include/ral/plugin.h").read_text()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    for made in (folder, folder / "include", folder / "include/ral"):
        made.chmod(0o755)  # whatever the umask: the RAL refuses plugins that others may write to
    return folder


def next_commands(vendor: str, output: Path) -> list[str]:
    """What to run next: build, look, install."""
    folder, place = shlex.quote(str(output / vendor)), shlex.quote(str(output))
    return [
        f"make -C {folder}",
        f"RAL_PLUGIN_PATH={place} ralctl plugin-status",
        f"ralctl install {folder if '/' in folder else './' + folder}",
    ]
