"""The site, built once for all tests of a process, and a browser that looks at it."""

import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files

import pytest

from browser_kit import chromium
from docs_kit import HOME, TOOLS


@pytest.fixture(scope="session")
def built_site(tmp_path_factory):
    """The folder of the built site. It has the pictures of docs/; that they can be taken anew is a test of its own."""
    folder = tmp_path_factory.mktemp("site") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "docsite", "--stored-pictures", "--out", folder],
        cwd=HOME,
        env=TOOLS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(built_site):
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=built_site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser():
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    return (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
