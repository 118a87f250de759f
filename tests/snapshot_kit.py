"""Places of snapshots for tests: a folder, the memory of this process, and a real S3 server."""

from pathlib import Path

import fsspec

from taciturn.service.journal.remote_files import RemoteFiles
from taciturn.service.journal.snapshot_files import LocalFiles
from taciturn.service.journal.snapshots import Snapshots


class Place:
    """A place by its URL, whose files tests read and damage without the class that they test."""

    def __init__(self, url):
        self.url = url
        self._system, self._root = fsspec.core.url_to_fs(url, skip_instance_cache=True)

    def files(self):
        return LocalFiles(Path(self.url)) if "://" not in self.url else RemoteFiles(self.url)

    def snapshots(self, **options):
        return Snapshots(self.files(), **options)

    def names(self):
        self._system.invalidate_cache()
        return sorted(path.rpartition("/")[2] for path in self._system.find(self._root))

    def read(self, name):
        return self._system.cat_file(f"{self._root}/{name}")

    def write(self, name, content):
        self._system.pipe_file(f"{self._root}/{name}", content)

    def remove(self, name):
        self._system.rm_file(f"{self._root}/{name}")


def found(snapshots, agent):
    """Positions and contents of an agent's states, the newest first."""
    return [(position, path.read_bytes()) for position, path in snapshots.newest_first(agent)]
