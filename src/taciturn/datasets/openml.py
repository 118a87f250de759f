"""Data sets of OpenML, downloaded by their number through scikit-learn and kept as one .npz file each.

scikit-learn's own cache would be read as text at every use, half a minute of work for MNIST.
"""

import http.client
import json
import socket
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.error import HTTPError, URLError

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from taciturn.bars import bars
from taciturn.datasets.entry import CatalogEntry
from taciturn.datasets.fetch import TIMEOUT
from taciturn.datasets.files import RawData
from taciturn.datasets.formats import npz_arrays
from taciturn.datasets.table import Table, contexts_of, make_column
from taciturn.system import atomic_write


@dataclass(frozen=True)
class OpenMLFile:
    """A data set of OpenML. scikit-learn downloads it and compares it with the MD5 that OpenML publishes."""

    by_hand: ClassVar[str] = "Fetch it on a machine with a connection, and copy the file to"
    number: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"openml-{self.number}.npz"

    @property
    def url(self) -> str:
        """The page of the data set, for errors."""
        return f"https://www.openml.org/d/{self.number}"

    def download(self, folder: Path, *, progress: bool | None) -> None:
        """Download to a temporary folder, verify, convert and move into place."""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with tempfile.TemporaryDirectory(dir=folder) as scratch, bars(*columns, shown=progress) as bar:
            bar.add_task(f"OpenML {self.number}", total=None)
            arrays = _arrays(_fetch(self.number, scratch))
        atomic_write(folder / self.name, lambda path: _save(path, arrays))


def _fetch(number: int, folder: str) -> Any:
    """Return what `fetch_openml` does; raise `OSError` with one line where it fails."""
    from sklearn.datasets import fetch_openml  # noqa: PLC0415 - slow to import, and only these data sets need it

    try:
        with warnings.catch_warnings(), _timeout(TIMEOUT):
            warnings.simplefilter("ignore")  # it warns of every retry; the last failure is an error
            return fetch_openml(data_id=number, data_home=folder, as_frame=False, parser="liac-arff")
    except HTTPError as error:
        raise OSError(f"the server responded {error.code} {error.reason}") from None
    except URLError:
        raise OSError("no connection") from None
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError) as error:
        raise OSError(f"the response is not one of OpenML ({type(error).__name__}: {error})") from None
    except (http.client.HTTPException, EOFError, zlib.error) as error:
        raise OSError(f"the download was interrupted ({error})") from None
    except ValueError as error:
        if "md5" in str(error):
            raise OSError("the downloaded file does not have the MD5 that OpenML publishes") from None
        raise


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """Limit how long a new connection waits for data: `fetch_openml` waits for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _arrays(found: Any) -> dict[str, NDArray[Any]]:
    """Return `X` (N, D), labels `y` (N,), `features` (D,), and `words_i` where column i of X holds indices of words."""
    features = list(map(str, found.feature_names))
    words = {i: found.categories[name] for i, name in enumerate(features) if name in (found.categories or {})}
    return {
        "X": _compact(np.asarray(found.data, dtype=np.float64)),
        "y": np.array(list(map(str, found.target))),
        "features": np.array(features),
        **{f"words_{i}": np.array(list(map(str, values))) for i, values in words.items()},
    }


def _compact(X: NDArray[np.float64]) -> NDArray[Any]:
    """Return pixels as bytes, other numbers as they are."""
    with np.errstate(invalid="ignore"):  # NaN, which differs from every byte
        as_bytes = X.astype(np.uint8)
    return as_bytes if np.array_equal(as_bytes, X) else X


def _save(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    with path.open("wb") as file:  # np.savez would add an ending to a path
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_openml(path: Path) -> RawData:
    """Read the file that `OpenMLFile` saved."""
    arrays = npz_arrays(path)
    X, labels, features = arrays["X"], arrays["y"], arrays["features"].tolist()
    if not np.isnan(X).any() and not any(name.startswith("words_") for name in arrays):
        return RawData(X, labels, features=features)
    columns = [make_column(name, _values(X[:, i], arrays.get(f"words_{i}"))) for i, name in enumerate(features)]
    return RawData(contexts_of(Table(columns)), labels, features=features)


def _values(numbers: NDArray[Any], words: NDArray[Any] | None) -> list[float | str | None]:
    """Return the values of a column (N,): the numbers, or the words that they are indices of; None where missing."""
    texts = None if words is None else words.tolist()
    return [None if np.isnan(i) else float(i) if texts is None else texts[int(i)] for i in numbers]


def _openml(number: int, about: str, shape: str, terms: str = "not stated by its authors") -> CatalogEntry:
    file = OpenMLFile(number)
    return CatalogEntry(about, shape, terms, f"OpenML {number}", (file.name,), (file,), read_openml)


OPENML: dict[str, CatalogEntry] = {
    "mnist": _openml(554, "handwritten digits, 28×28 pixels", "70000 × 784, 10 arms"),
    "fashion-mnist": _openml(40996, "pieces of clothing, 28×28 pixels", "70000 × 784, 10 arms", "MIT"),
    "isolet": _openml(300, "spoken letters", "7797 × 617, 26 arms", "CC BY 4.0 (UCI 54)"),
    "har": _openml(1478, "what people do, from a phone's sensors", "10299 × 561, 6 arms", "CC BY 4.0 (UCI 240)"),
    "optdigits": _openml(28, "handwritten digits, 8×8 counts", "5620 × 64, 10 arms", "CC BY 4.0 (UCI 80)"),
    "segment": _openml(40984, "pieces of outdoor images, measured", "2310 rows, 7 arms", "CC BY 4.0 (UCI 50)"),
    "vehicle": _openml(54, "silhouettes of four vehicles, measured", "846 × 18, 4 arms", "CC BY 4.0 (UCI 149)"),
    "waveform": _openml(60, "waves of three kinds, with noise", "5000 × 40, 3 arms", "CC BY 4.0 (UCI 108)"),
    "texture": _openml(40499, "patches of eleven textures, measured", "5500 × 40, 11 arms"),
    "phoneme": _openml(1489, "sounds of speech: nasal or oral", "5404 × 5, 2 arms"),
    "electricity": _openml(151, "a market's price of electricity: up or down", "45312 × 8 words and numbers, 2 arms"),
    "credit-g": _openml(
        31,
        "applicants for credit, words and numbers: good or bad",
        "1000 × 20 words and numbers, 2 arms",
        "CC BY 4.0 (UCI 144)",
    ),
    "kr-vs-kp": _openml(3, "ends of chess games in words: won or not", "3196 × 36 words, 2 arms", "CC BY 4.0 (UCI 22)"),
}
