"""Read text files out of archives: .tgz, .zip and wheels, also a .zip within a .zip."""

import io
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO

from taciturn.datasets.files import damaged_file
from taciturn.errors import InvalidData
from taciturn.system import format_bytes

MEMBER_LIMIT = 256 * 2**20  # bytes of one file inside an archive


def read_members(path: Path, *endings: str) -> list[str]:
    """Return the text of an archive's members with these endings; or of the file itself where it is not an archive.

    ``bank.zip!bank-full.csv`` is a member of an archive in the archive.
    """
    try:
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                names = archive.getnames()
                files = (archive.extractfile(_member_name(path, names, ending)) for ending in endings)
                return [_text(_content(file)) for file in files]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return [_text(_zipped(path, archive, ending)) for ending in endings]
        if path.suffix in (".tgz", ".zip", ".whl"):
            raise damaged_file(path, "not an archive")
        with path.open("rb") as file:
            return [_text(_content(file))]
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged_file(path, error) from None


def _zipped(path: Path, archive: zipfile.ZipFile, ending: str) -> bytes:
    outer, _, inner = ending.partition("!")
    with archive.open(_member_name(path, archive.namelist(), outer)) as file:
        content = _content(file)
    if not inner:
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as nested:
        return _zipped(path, nested, inner)


def _member_name(path: Path, names: list[str], ending: str) -> str:
    for name in names:
        if name.endswith(ending):
            return name
    raise InvalidData(f"{path.name}: no file {ending!r} in this archive")


def _content(file: IO[bytes] | None) -> bytes:
    content = b"" if file is None else file.read(MEMBER_LIMIT + 1)  # a folder in a .tgz has no content
    if len(content) > MEMBER_LIMIT:
        raise InvalidData(f"a file in the archive is larger than {format_bytes(MEMBER_LIMIT)}")
    return content


def _text(content: bytes) -> str:
    return content.decode("utf-8", errors="replace")
