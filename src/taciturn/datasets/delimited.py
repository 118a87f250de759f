"""Read .csv, .tsv and .txt files, also gzipped: any separator, what the cells of each column look like.

A file is read twice, in pieces: first to see what each column can be, then to convert it. So memory is that of the
converted columns.
"""

import codecs
import csv
import datetime as dt
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from taciturn.datasets.files import MISSING, RawData, damaged_file, open_binary
from taciturn.datasets.table import Column, Table, contexts_of, number_column, words_column
from taciturn.errors import InvalidData
from taciturn.validate import LARGEST

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
        kinds = _column_kinds(file)
        *columns, labels = _columns(file, kinds, file.header.index(str(label)))
    except (OSError, EOFError, zlib.error) as error:
        raise damaged_file(path, error) from None
    except csv.Error as error:
        raise InvalidData(f"{path.name}: not a text file of separated values ({error})") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name}: the text is neither UTF-8 nor Windows-1252; save it as UTF-8") from None
    if not columns:
        raise InvalidData(f"{path.name}: there is no column beside the label {label!r}")
    return RawData(contexts_of(Table(columns)), labels.values, features=[column.name for column in columns])


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
        rows = [row for row in csv.reader(io.StringIO(sample, newline=""), delimiter=separator) if row]
        header = [name.strip() for name in rows[0]] if rows else []
        whole = rows[1:-1] or rows[1:]  # the sample may end within its last row
        fitting = sum(len(row) == len(header) for row in whole) / max(len(whole), 1)
        score = (label in header, len(header) > 1, fitting, len(header))
        if not best or score > best[0]:
            best = (score, separator, header)
    return best[1], best[2]


def _number(cell: str) -> float:
    value = float(cell)
    if "_" in cell or (abs(value) >= LARGEST and cell.lstrip("+-").isdigit()):  # such long numbers identify something
        raise ValueError(cell)
    return value


def _comma_number(cell: str) -> float:
    return _number(cell.replace(",", "."))


def _flag(cell: str) -> bool:
    if cell.lower() not in ("true", "false"):
        raise ValueError(cell)
    return cell.lower() == "true"


def _date(cell: str) -> dt.datetime:
    if not re.match(r"\d{4}-\d{2}-\d{2}", cell):
        raise ValueError(cell)
    return dt.datetime.fromisoformat(cell)


Parse = Callable[[str], Any]


def _parsers(file: TextFile) -> dict[str, Parse]:
    """Return what turns a cell into a value of each kind, or raises `ValueError`."""
    return {"number": _comma_number if file.separator == ";" else _number, "flag": _flag, "date": _date}


def _column_kinds(file: TextFile) -> list[str]:
    """Return the kind of each column: number, flag or date where all cells with a value are, empty or words."""
    parsers = _parsers(file)
    possible = [list(parsers) for _ in file.header]
    empty = [True] * len(file.header)
    for piece in file.pieces():
        for c, cells in enumerate(zip(*piece, strict=True)):
            present = [cell for given in cells if (cell := given.strip()) not in MISSING]
            empty[c] = empty[c] and not present
            possible[c] = [kind for kind in possible[c] if _all_parse(parsers[kind], present)]
    return [
        "empty" if nothing else kinds[0] if kinds else "words" for nothing, kinds in zip(empty, possible, strict=True)
    ]


def _all_parse(parse: Parse, cells: Sequence[str]) -> bool:
    try:
        for cell in cells:
            parse(cell)
    except ValueError:
        return False
    return True


def _columns(file: TextFile, kinds: list[str], label: int) -> list[Column]:
    """Return the columns of the given kinds, the label's last and as text."""
    parsers = _parsers(file) | {"words": str, "empty": str}
    kinds = [*kinds]
    kinds[label] = "label"
    values: list[list[Any]] = [[] for _ in kinds]
    known: list[dict[Any, Any]] = [{} for _ in kinds]  # equal words are held once
    for piece in file.pieces():
        for c, cells in enumerate(zip(*piece, strict=True)):
            stripped = [cell.strip() for cell in cells]
            if c == label:
                values[c] += [known[c].setdefault(cell, cell) for cell in stripped]
            elif kinds[c] == "number":
                parse = parsers["number"]
                values[c].append(np.array([np.nan if cell in MISSING else parse(cell) for cell in stripped]))
            else:
                parse = parsers[kinds[c]]
                parsed = (None if cell in MISSING else parse(cell) for cell in stripped)
                values[c] += [known[c].setdefault(value, value) for value in parsed]
    if not values[label]:
        raise InvalidData(f"{file.path.name}: no rows below the header")
    try:
        made = [_column(*parts) for parts in zip(file.header, kinds, values, strict=True)]
    except InvalidData as error:
        raise InvalidData(f"{file.path.name}: {error}") from None
    return [*made[:label], *made[label + 1 :], made[label]]


def _column(name: str, kind: str, values: list[Any]) -> Column:
    if kind == "number":
        return number_column(name, np.concatenate(values))
    return words_column(name, values) if kind == "words" else Column(name, kind, values)
