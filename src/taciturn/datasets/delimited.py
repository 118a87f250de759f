"""Read .csv, .tsv and .txt files, also gzipped: any separator, what the cells of each column look like.

A file is read twice, in pieces: first to see what each column can be, then to convert it. So memory is that of the
converted columns.
"""

import codecs
import csv
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from taciturn.datasets.cells import ColumnBuilder, KindOfColumn, Parse, parsers
from taciturn.datasets.files import RawData, damaged_file, label_column, open_binary
from taciturn.datasets.table import Column, Table, contexts_of
from taciturn.errors import InvalidData

SEPARATORS = (",", ";", "\t", "|")

SAMPLE_SIZE = 2**20
"""How many bytes are read at once, and how many characters the separator is told from, in at most `SAMPLE_ROWS`."""

SAMPLE_ROWS = 200
PIECE_CELLS = 50_000
"""How many cells are held as text."""


class TextFile(NamedTuple):
    """A file of separated values: how its bytes become text, what separates its cells, and its header."""

    path: Path
    encoding: str
    separator: str
    header: list[str]

    def pieces(self) -> Iterator[list[list[str]]]:
        """Yield the rows below the header, some at a time; a row of another length is refused."""
        with open_binary(self.path) as file, io.TextIOWrapper(file, self.encoding, newline="") as text:
            rows = _rows(text, self.separator)
            next(rows)
            done = 0
            while piece := list(islice(rows, max(1, PIECE_CELLS // len(self.header)))):
                check_lengths(piece, self.header, first=done)
                yield piece
                done += len(piece)


def check_lengths(rows: Sequence[Sequence[str]], header: Sequence[str], *, first: int = 0) -> None:
    """Raise where a row has more or fewer cells than the header; `first` is the number of the first row."""
    for i, row in enumerate(rows, start=first):
        if len(row) != len(header):
            raise InvalidData(f"row {i} has {len(row)} cells; the header has {len(header)}")


def read_delimited(path: Path, label: str | None) -> RawData:
    """Read a header and one observation per row; the column `label` names the right arms."""
    try:
        file = _open_table(path, label)
        position, kinds = label_column(file.header, label), parsers(decimal_comma=file.separator == ";")
        columns, labels = convert(file.header, file.pieces, position, kinds)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged_file(path, error) from None
    except csv.Error as error:
        raise InvalidData(f"{path.name}: not a text file of separated values ({error})") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name}: the text is neither UTF-8 nor Windows-1252; save it as UTF-8") from None
    except InvalidData as error:
        raise InvalidData(f"{path.name}: {error}") from None
    return RawData(contexts_of(Table(columns)), labels, features=[column.name for column in columns])


def _rows(text: TextIO, separator: str) -> Iterator[list[str]]:
    """Yield the cells of each row, the header first; empty lines are no rows."""
    return (row for row in csv.reader(text, delimiter=separator, skipinitialspace=True) if row)


def _encoding(path: Path) -> str:
    """Return UTF-16 where its mark is there, UTF-8 where all bytes are, otherwise Windows-1252."""
    with open_binary(path) as file:
        head = file.read(SAMPLE_SIZE)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in head:
            raise InvalidData("not a text file of separated values (it holds zero bytes)")
        file.seek(0)
        return "utf-8-sig" if _is_utf8(file) else "cp1252"


def _is_utf8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while piece := file.read(SAMPLE_SIZE):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _open_table(path: Path, label: str | None) -> TextFile:
    """Return how a file is to be read."""
    encoding = _encoding(path)
    with open_binary(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        sample = text.read(SAMPLE_SIZE)
    if not sample.strip():
        raise InvalidData("no rows below the header, and no header")
    separator, header = _separator(sample, label)
    return TextFile(path, encoding, separator, [name or f"column {i}" for i, name in enumerate(header)])


def _separator(sample: str, label: str | None) -> tuple[str, list[str]]:
    """Return the separator, and the header that it gives.

    The best one makes the label a column; then, the rows as long as the header; then, the most columns.
    """
    found = []
    for separator in SEPARATORS:
        rows = list(islice(_rows(io.StringIO(sample, newline=""), separator), SAMPLE_ROWS))
        header = [name.strip() for name in rows[0]]
        whole = rows[1:-1] or rows[1:]  # the sample may end within its last row
        fitting = sum(len(row) == len(header) for row in whole) / max(len(whole), 1)
        found.append(((label in header, len(header) > 1, fitting, len(header)), separator, header))
    _, separator, header = max(found, key=lambda candidate: candidate[0])
    return separator, header


def convert(
    header: Sequence[str], pieces: Callable[[], Iterable[list[list[str]]]], label: int, kinds: dict[str, Parse]
) -> tuple[list[Column], list[str]]:
    """Return all columns but the label's, and the labels.

    `pieces` returns the rows below the header from the first one on, some at a time; it is called twice.
    """
    looks = [KindOfColumn(kinds) for _ in header]
    for piece in pieces():
        for look, cells in zip(looks, zip(*piece, strict=True), strict=True):
            look.look(cells)
    builders = [ColumnBuilder(name, look.kind, kinds.get(look.kind)) for name, look in zip(header, looks, strict=True)]
    del builders[label]
    labels: list[str] = []
    for piece in pieces():
        columns = list(zip(*piece, strict=True))
        labels += map(str.strip, columns.pop(label))
        for builder, cells in zip(builders, columns, strict=True):
            builder.add(cells)
    if not labels:
        raise InvalidData("no rows below the header")
    return [builder.column() for builder in builders], labels
