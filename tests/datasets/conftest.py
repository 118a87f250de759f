"""Fixtures for downloads: a server on loopback, no waiting between retries, and folders for data of their own."""

import threading
import time
from http.server import ThreadingHTTPServer

import pytest

from download_kit import Handler
from taciturn.datasets import catalog, fetch


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.paths, server.requested = {}, []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def no_waiting(monkeypatch):
    """pooch sleeps between retries; tests must not."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for TACITURN_DATA, with the cache in it."""
    monkeypatch.setenv("TACITURN_DATA", str(tmp_path))
    for module in (fetch, catalog):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path
