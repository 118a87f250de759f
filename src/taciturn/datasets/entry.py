"""What the catalog says of a named data set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from taciturn.contracts import Arm
from taciturn.datasets.fetch import Source
from taciturn.datasets.files import RawData


@dataclass(frozen=True)
class CatalogEntry:
    """A named data set.

    `files` are the names of files that it can be read from, preferred ones first; none where scikit-learn includes it.
    `sources` are where to download them, in order. `arms` are given where the file's labels are indices of arms.
    """

    about: str
    shape: str
    terms: str
    home: str
    files: tuple[str, ...]
    sources: tuple[Source, ...]
    read: Callable[[Path], RawData]
    arms: Sequence[Arm] | None = None
