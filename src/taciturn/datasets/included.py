"""The data sets that come with scikit-learn: they need no file."""

from functools import partial
from pathlib import Path

from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.files import RawData


def _read(_: Path, loader: str, *, named: bool) -> RawData:
    from sklearn import datasets  # noqa: PLC0415 - slow to import, and only these data sets need it

    given = getattr(datasets, loader)()
    features = list(map(str, given.feature_names)) if named else None
    return RawData(given.data, given.target, features=features, arms=given.target_names.tolist())


def _included(about: str, shape: str, number: int, loader: str, *, named: bool = True) -> CatalogEntry:
    """Return the entry of what a function of scikit-learn returns, number `number` at UCI; pixels are not `named`."""
    terms, home = f"CC BY 4.0 (UCI {number})", "scikit-learn"
    read = partial(_read, loader=loader, named=named)
    return CatalogEntry(about, shape, terms, home, files=(), sources=(), read=read)


INCLUDED: dict[str, CatalogEntry] = {
    "digits": _included("handwritten digits, 8×8 pixels", "1797 × 64, 10 arms", 80, "load_digits", named=False),
    "breast-cancer": _included("cells of tumors: malignant or benign", "569 × 30, 2 arms", 17, "load_breast_cancer"),
    "wine": _included("chemistry of wines from three growers", "178 × 13, 3 arms", 109, "load_wine"),
    "iris": _included("flowers of three species, measured", "150 × 4, 3 arms", 53, "load_iris"),
}
