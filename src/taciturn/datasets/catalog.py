"""The catalog of named data sets, and `load_dataset`, which takes a name or a path."""

from pathlib import Path
from typing import Any

from taciturn.contracts import Dataset
from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.everyday import EVERYDAY
from taciturn.datasets.fetch import cache_folder, fetch, find_file
from taciturn.datasets.files import RawData, to_dataset
from taciturn.datasets.formats import data_name, read_edges, read_file
from taciturn.datasets.frames import is_frame, read_frame
from taciturn.datasets.included import INCLUDED
from taciturn.datasets.openml import OPENML
from taciturn.datasets.paper import PAPER
from taciturn.datasets.uci import UCI
from taciturn.errors import DataUnavailable, InvalidData, TaciturnError
from taciturn.registry import unknown_name
from taciturn.validate import shown

CATALOG: dict[str, CatalogEntry] = {**INCLUDED, **PAPER, **EVERYDAY, **UCI, **OPENML}


def local_file(name: str) -> Path | None:
    """Return the file of a data set on this machine, or None; data sets included in scikit-learn have none."""
    return find_file(CATALOG[name].files)


def how_to_get(name: str) -> str:
    """Return what to do for a data set that is not on this machine."""
    entry = CATALOG[name]
    if entry.sources:
        return f"`taciturn datasets fetch {name}` downloads it"
    return (
        f"there is no download; get it from {entry.home} and save it as {cache_folder() / entry.files[0]}, "
        "or set TACITURN_DATA to the folder that holds it"
    )


def require_local(name: str) -> None:
    """Raise `DataUnavailable` with what to do unless a data set is on this machine or scikit-learn includes it."""
    if CATALOG[name].files and local_file(name) is None:
        raise DataUnavailable(f"{name} is not on this machine: {how_to_get(name)}")


def fetch_dataset(name: str, *, progress: bool | None = False) -> Path | None:
    """Download a data set unless its file is on this machine; return the file, None if scikit-learn includes it."""
    if name not in CATALOG:
        raise unknown_name("data set", name, CATALOG)
    entry = CATALOG[name]
    found = local_file(name)
    if found is not None or not entry.files:
        return found
    if not entry.sources:
        raise DataUnavailable(f"{name}: {how_to_get(name)}")
    try:
        return fetch(entry.sources, cache_folder(), progress=progress)
    except DataUnavailable as error:
        raise DataUnavailable(f"{name}: {error}") from None


def load_dataset(
    source: Any,
    *,
    scaling: str = "none",
    label: Any = None,
    edges: str | Path | None = None,
    name: str | None = None,
    progress: bool | None = None,
) -> Dataset:
    """Load a data set by name, or your own from a file or a frame.

    A named data set is read from the folder in ``TACITURN_DATA``, else from the user's cache, and downloaded otherwise.

    Arguments:
        source: a name that `taciturn datasets` lists; a .csv, .tsv, .txt (these also gzipped), .parquet, .npz or .svm
            file; or a frame of pandas or polars, or a table of pyarrow.
        scaling: "none", since agents scale what they are given; or scale rows to unit "l1" norm (as the paper does) or
            "l2" norm.
        label: the column, or array, of your own data that holds the right arm; for a frame also the right arms
            themselves.
        edges: a file of pairs of row indices, the graph of your own data.
        name: what tables call your own data; by default the file's name, or "frame".
        progress: whether to show a bar while downloading; by default in a notebook or terminal, after two seconds.
    """
    if isinstance(source, str | Path) and str(source) in CATALOG:
        if label is not None or edges is not None or name is not None:
            raise InvalidData(f"{source} has its own; label, edges and name are for your own files and frames")
        return _load_named(str(source), scaling, progress=progress)
    raw, own_name, origin = _read_frame(source, label, name) if is_frame(source) else _read_own(source, label)
    if edges is not None:
        raw = raw._replace(edges=read_edges(Path(edges)))
    return to_dataset(name or own_name, raw, scaling=scaling, source=origin)


def _read_frame(frame: Any, label: Any, name: str | None) -> tuple[RawData, str, str]:
    """Return the contents of a frame, its name and its kind."""
    try:
        return read_frame(frame, label), "frame", f"{type(frame).__module__.partition('.')[0]} {type(frame).__name__}"
    except InvalidData as error:
        raise InvalidData(f"{name or 'frame'}: {error}") from None


def _read_own(source: Any, label: Any) -> tuple[RawData, str, str]:
    """Return the contents of a file, the name of its data set and its own."""
    if not isinstance(source, str | Path):
        raise InvalidData(f"a data set is a name, a file or a frame of pandas, polars or pyarrow, not {shown(source)}")
    path = Path(source)
    if not path.suffix:
        raise unknown_name("data set", str(source), CATALOG)
    if not path.is_file():
        raise InvalidData(f"no file {source}")
    if label is not None and not isinstance(label, str):
        raise InvalidData(f"{path.name}: label={shown(label)} is not allowed; the name of a column is")
    return read_file(path, label), data_name(path), path.name


def _load_named(name: str, scaling: str, *, progress: bool | None) -> Dataset:
    entry = CATALOG[name]
    path = fetch_dataset(name, progress=progress)
    try:
        raw = entry.read(path or Path())
    except TaciturnError:
        raise
    except (KeyError, IndexError, ValueError) as error:  # a complete file with other contents
        raise InvalidData(f"{path}: this is not the file of {name} ({type(error).__name__}: {error})") from None
    if entry.arms is not None:
        raw = raw._replace(arms=entry.arms)
    return to_dataset(name, raw, scaling=scaling, source=path.name if path else "scikit-learn")
