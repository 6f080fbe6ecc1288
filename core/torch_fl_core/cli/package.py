"""Plugin packages: a folder or archive is checked and copied, file by file, with harmless names, kinds, sizes and modes."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from .output import Failed
from .places import VENDOR, library_name

ARCHIVES = (".tar.gz", ".tgz", ".zip")
MAX_BYTES = 512 << 20
MAX_FILES = 4096
_CHUNK = 1 << 20


class Entry(NamedTuple):
    """A regular file of a package: its name inside, and how to read it."""

    name: str
    open: Callable[[], IO[bytes]]


def unpack(source: Path, target: Path) -> str:
    """Copies a plugin's folder or archive below `target`, as `target`/<vendor>/..., and returns the vendor.

    Raises Failed where it holds anything but plain files, is too large, or is not exactly one plugin.
    """
    if source.is_dir():
        vendor = _vendor_of(source)
        entries = _folder_entries(source, vendor)
    elif source.name.endswith(ARCHIVES):
        entries = _zip_entries(source) if source.name.endswith(".zip") else _tar_entries(source)
    else:
        raise Failed(f"{source} is neither a folder nor an archive ({', '.join(ARCHIVES)})")
    try:
        _copy(entries, target)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        gzip.BadGzipFile,
        NotImplementedError,
    ) as error:
        raise Failed(f"{source} is no sound archive: {error}") from error
    return _only_plugin(source, target)


def checked_name(name: str) -> PurePosixPath:
    """A file's name inside a package. Raises Failed where it is absolute or leaves the package."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise Failed(f"the package holds {name!r}, a name that is absolute or leads out of it")
    return path


def _copy(entries: Iterator[Entry], target: Path) -> None:
    target.mkdir()
    left, count = MAX_BYTES, 0
    for entry in entries:
        count += 1
        if count > MAX_FILES:
            raise Failed(f"the package holds more than {MAX_FILES} files")
        path = target / checked_name(entry.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            out = open(path, "xb")
        except (FileExistsError, NotADirectoryError):
            raise Failed(f"the package holds {entry.name!r} twice") from None
        with out, entry.open() as data:
            while chunk := data.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise Failed(f"the package holds more than {MAX_BYTES >> 20} MiB")
                out.write(chunk)
    for folder, names, files in os.walk(target):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o755)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o755 if name.endswith(".so") else 0o644)


def _only_plugin(source: Path, target: Path) -> str:
    tops = sorted(p.name for p in target.iterdir())
    vendors = [name for name in tops if (target / name / library_name(name)).is_file()]
    if len(tops) != 1 or vendors != tops:
        held = ", ".join(tops[:5]) or "nothing"
        raise Failed(
            f"{source} must hold exactly one plugin, <vendor>/lib<vendor>_plugin.so; it holds {held}"
        )
    if not VENDOR.match(vendors[0]):
        raise Failed(
            f"{vendors[0]!r} is no plugin name: a lower-case letter, then lower-case letters, digits and _"
        )
    return vendors[0]


# ---- Folders ---------------------------------------------------------------------------------------


def _vendor_of(folder: Path) -> str:
    """The vendor of a plugin's folder, from its library's name."""
    names = sorted(p.name for p in folder.glob("lib*_plugin.so"))
    if len(names) != 1:
        found = ", ".join(names) or "none; build it first (make)"
        raise Failed(f"{folder} must hold one lib<vendor>_plugin.so; found: {found}")
    return names[0].removeprefix("lib").removesuffix("_plugin.so")


def _folder_entries(folder: Path, vendor: str) -> Iterator[Entry]:
    """The folder's files, hidden ones left out."""
    for place, names, files in os.walk(folder, onerror=_raise):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in [*names, *sorted(files)]:
            path = Path(place) / name
            mode = path.lstat().st_mode
            if name.startswith(".") or stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise Failed(f"{path} is a link or a special file; a plugin holds plain files only")
            inside = PurePosixPath(vendor, path.relative_to(folder).as_posix())
            yield Entry(str(inside), lambda path=path: open(path, "rb"))


def _raise(error: OSError) -> None:
    raise error


# ---- Archives --------------------------------------------------------------------------------------


class _Bounded(io.RawIOBase):
    """A stream that fails beyond a size: what a small archive unpacks to has no other bound."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._stream, self._left = stream, limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, _CHUNK) if size >= 0 else _CHUNK)
        self._left -= len(data)
        if self._left < 0:
            raise Failed(f"the archive holds more than {MAX_BYTES >> 20} MiB")
        return data


def _tar_entries(source: Path) -> Iterator[Entry]:
    with (
        gzip.open(source) as stream,
        tarfile.open(fileobj=_Bounded(stream, MAX_BYTES + (16 << 20)), mode="r|") as tar,
    ):
        for member in tar:
            if member.isdir():
                continue  # folders are made for the files in them
            if not member.isreg() or member.issparse():
                raise Failed(f"the archive holds {member.name!r}, which is a link or a special file")
            yield Entry(member.name, lambda member=member: tar.extractfile(member))


def _zip_entries(source: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.is_dir():
                continue
            if kind not in (0, stat.S_IFREG):
                raise Failed(f"the archive holds {info.filename!r}, which is a link or a special file")
            if info.flag_bits & 1:
                raise Failed(f"the archive holds {info.filename!r}, which is encrypted")
            yield Entry(info.filename, lambda info=info: archive.open(info))
