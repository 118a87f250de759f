"""The data sets that come with scikit-learn: they need no file."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import distribution
from pathlib import Path

import numpy as np

from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.files import RawData

DIGITS = "sklearn/datasets/data/digits.csv.gz"


def _read_digits(_: Path) -> RawData:
    """Return what `load_digits` of scikit-learn does, which takes a second to import, from the file that it reads."""
    file = Path(str(distribution("scikit-learn").locate_file(DIGITS)))
    if not file.exists():
        return _read(_, "load_digits", named=False)
    table = np.loadtxt(file, delimiter=",")
    return RawData(table[:, :-1], table[:, -1].astype(int))


def _read(_: Path, loader: str, *, named: bool) -> RawData:
    from sklearn import datasets  # noqa: PLC0415 - slow to import, and only these data sets need it

    given = getattr(datasets, loader)()
    features = list(map(str, given.feature_names)) if named else None
    return RawData(given.data, given.target, features=features, arms=given.target_names.tolist())


def _included(about: str, shape: str, number: int, read: Callable[[Path], RawData]) -> CatalogEntry:
    """Return the entry of a data set that scikit-learn includes, number `number` at UCI."""
    terms, home = f"CC BY 4.0 (UCI {number})", "scikit-learn"
    return CatalogEntry(about, shape, terms, home, files=(), sources=(), read=read)


def _loaded(loader: str) -> Callable[[Path], RawData]:
    return partial(_read, loader=loader, named=True)


INCLUDED: dict[str, CatalogEntry] = {
    "digits": _included("handwritten digits, 8×8 pixels", "1797 × 64, 10 arms", 80, _read_digits),
    "breast-cancer": _included(
        "tumor cells: malignant or benign", "569 × 30, 2 arms", 17, _loaded("load_breast_cancer")
    ),
    "wine": _included("chemistry of wines from three growers", "178 × 13, 3 arms", 109, _loaded("load_wine")),
    "iris": _included("flowers of three species, measured", "150 × 4, 3 arms", 53, _loaded("load_iris")),
}
