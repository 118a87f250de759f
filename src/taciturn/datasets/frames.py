"""Frames of pandas and polars, tables of pyarrow and .parquet files; none of the packages is imported without need."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from taciturn.datasets.files import RawData, damaged_file, label_column
from taciturn.datasets.table import Table, contexts_of, make_column
from taciturn.errors import InvalidData, TaciturnError, how_to_install

PACKAGES = ("pandas", "polars", "pyarrow")


def is_frame(given: object) -> bool:
    """Whether this is a frame of pandas or polars, or a table of pyarrow."""
    return type(given).__module__.partition(".")[0] in PACKAGES and hasattr(type(given), "columns")


def read_frame(frame: Any, label: Any) -> RawData:
    """Read a frame; `label` is the name of the column with the right arms, or the right arms themselves."""
    columns = list(_columns(frame))
    if isinstance(label, int) and not isinstance(label, bool) and str(label) in [name for name, _ in columns]:
        label = str(label)  # columns of a frame without names are numbered
    if label is None or isinstance(label, str):
        labels = _values(columns.pop(label_column([name for name, _ in columns], label))[1])
    else:
        labels = _values(label)
    if not labels:
        raise InvalidData("there are no rows")
    table = Table([make_column(name, _values(values)) for name, values in columns])
    return RawData(contexts_of(table), labels, features=[name for name, _ in columns])


def read_parquet(path: Path, label: str | None) -> RawData:
    """Read a .parquet file with pyarrow."""
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise TaciturnError(f"{path.name}: .parquet needs pyarrow; {how_to_install('parquet')} installs it") from None
    try:
        table = parquet.read_table(path)
    except (OSError, ArrowException) as error:
        raise damaged_file(path, " ".join(str(error).split())[:200]) from None
    try:
        return read_frame(table, label)
    except InvalidData as error:
        raise InvalidData(f"{path.name}: {error}") from None


def _columns(frame: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names of a frame's columns and the columns."""
    if hasattr(frame, "column_names"):  # pyarrow
        yield from zip(frame.column_names, frame.columns, strict=True)
    elif hasattr(frame, "iter_columns"):  # polars
        yield from ((column.name, column) for column in frame.iter_columns())
    elif hasattr(frame, "items"):  # pandas
        yield from ((str(name), column) for name, column in frame.items())
    else:
        raise InvalidData(f"a {type(frame).__name__} has no rows yet; collect it first")


def _values(column: Any) -> list[Any]:
    """Return the values of a column of any of the packages, or of an array or list, as Python objects."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
