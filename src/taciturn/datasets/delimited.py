"""Read .csv, .tsv and .txt files, also gzipped: any separator, what the cells of each column look like.

A file is read twice, in pieces: first to see what each column can be, then to convert it. So memory is that of the
converted columns.
"""

import codecs
import csv
import io
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from taciturn.datasets.cells import ColumnBuilder, KindOfColumn, parsers
from taciturn.datasets.files import RawData, damaged_file, open_binary
from taciturn.datasets.table import Column, Table, contexts_of
from taciturn.errors import InvalidData

SEPARATORS = (",", ";", "\t", "|")

SAMPLE_BYTES = 2**16
PIECE_ROWS = 5000
PIECE_BYTES = 2**20


class TextFile(NamedTuple):
    """A file of separated values: how its bytes become text, what separates its cells, and its header."""

    path: Path
    encoding: str
    separator: str
    header: list[str]

    def pieces(self) -> Iterator[list[list[str]]]:
        """Yield the rows below the header, some thousand at a time; rows of other lengths are refused."""
        with open_binary(self.path) as file, io.TextIOWrapper(file, self.encoding, newline="") as text:
            reader = csv.reader(text, delimiter=self.separator, skipinitialspace=True)
            rows = (row for row in reader if row)
            next(rows)
            done = 0
            while piece := list(islice(rows, PIECE_ROWS)):
                for i, row in enumerate(piece):
                    if len(row) != len(self.header):
                        where = f"{self.path.name}: row {done + i}"
                        raise InvalidData(f"{where} has {len(row)} cells; the header has {len(self.header)}")
                yield piece
                done += len(piece)


def read_delimited(path: Path, label: str | None) -> RawData:
    """Read a header and one observation per row; the column `label` names the right arms."""
    try:
        file = _open_table(path, label)
        columns, labels = _convert(file, str(label))
    except (OSError, EOFError, zlib.error) as error:
        raise damaged_file(path, error) from None
    except csv.Error as error:
        raise InvalidData(f"{path.name}: not a text file of separated values ({error})") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name}: the text is neither UTF-8 nor Windows-1252; save it as UTF-8") from None
    if not columns:
        raise InvalidData(f"{path.name}: there is no column beside the label {label!r}")
    return RawData(contexts_of(Table(columns)), labels, features=[column.name for column in columns])


def _encoding(path: Path) -> str:
    """Return UTF-16 where its mark is there, UTF-8 where all bytes are, otherwise Windows-1252."""
    with open_binary(path) as file:
        head = file.read(SAMPLE_BYTES)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in head:
            raise InvalidData(f"{path.name}: not a text file of separated values (it holds zero bytes)")
        file.seek(0)
        return "utf-8-sig" if _is_utf8(file) else "cp1252"


def _is_utf8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while piece := file.read(PIECE_BYTES):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _open_table(path: Path, label: str | None) -> TextFile:
    encoding = _encoding(path)
    with open_binary(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        sample = text.read(SAMPLE_BYTES)
    separator, header = _separator(sample, label)
    names = [name.strip() or f"column {i}" for i, name in enumerate(header)]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if not sample.strip():
        raise InvalidData(f"{path.name}: no rows below the header")
    if twice:
        raise InvalidData(f"{path.name}: two columns are called {twice[0]!r}")
    there_are = f"(there are: {', '.join(names[:20])})"
    if label is None:
        raise InvalidData(f"{path.name}: give the column that holds the label (label=… or --label) {there_are}")
    if label not in names:
        raise InvalidData(f"{path.name}: no column {label!r} {there_are}")
    return TextFile(path, encoding, separator, names)


def _separator(sample: str, label: str | None) -> tuple[str, list[str]]:
    """Return the separator, and the header that it gives.

    The best one makes the label a column; then, the rows as long as the header; then, the most columns.
    """
    best: tuple[Any, ...] = ()
    for separator in SEPARATORS:
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=separator, skipinitialspace=True)
        rows = [row for row in reader if row]
        header = [name.strip() for name in rows[0]] if rows else []
        whole = rows[1:-1] or rows[1:]  # the sample may end within its last row
        fitting = sum(len(row) == len(header) for row in whole) / max(len(whole), 1)
        score = (label in header, len(header) > 1, fitting, len(header))
        if not best or score > best[0]:
            best = (score, separator, header)
    return best[1], best[2]


def _convert(file: TextFile, label: str) -> tuple[list[Column], list[str]]:
    """Return all columns but the label's, and the labels."""
    kinds = parsers(decimal_comma=file.separator == ";")
    looks = [KindOfColumn(kinds) for _ in file.header]
    for piece in file.pieces():
        for look, cells in zip(looks, zip(*piece, strict=True), strict=True):
            look.look(cells)
    builders = [ColumnBuilder(name, k.kind, kinds.get(k.kind)) for name, k in zip(file.header, looks, strict=True)]
    at = file.header.index(label)
    del builders[at]
    labels: list[str] = []
    for piece in file.pieces():
        columns = list(zip(*piece, strict=True))
        labels += map(str.strip, columns.pop(at))
        for builder, cells in zip(builders, columns, strict=True):
            builder.add(cells)
    if not labels:
        raise InvalidData(f"{file.path.name}: no rows below the header")
    try:
        return [builder.column() for builder in builders], labels
    except InvalidData as error:
        raise InvalidData(f"{file.path.name}: {error}") from None
