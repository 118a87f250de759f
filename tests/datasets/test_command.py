"""`taciturn datasets`: what is listed where, what is known without a download, and fetching without a network."""

import json
import socket
import urllib.request

import pytest

from cli_kit import taciturn
from taciturn.datasets.catalog import CATALOG
from taciturn.datasets.everyday import EVERYDAY
from taciturn.datasets.included import INCLUDED


@pytest.fixture
def offline(folder, monkeypatch):
    """A folder of data and a cache with a file each, and no way out."""
    (folder / "adult.zip").touch()
    (folder / "cache").mkdir()
    (folder / "cache" / "openml-554.npz").touch()

    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return folder


def test_data_sets_are_listed_by_where_they_are(offline):
    listed, heading = {}, None
    for line in taciturn(offline, "datasets").stdout.splitlines():
        if line[:1].strip():
            heading = line.strip()
        elif line[2:3].strip():
            listed.setdefault(heading, []).append(line.split()[0])
    assert listed == {
        "On this machine": [*INCLUDED, "adult", "mnist"],
        "Downloaded when asked for": [
            name for name, entry in CATALOG.items() if entry.sources and name not in ("adult", "mnist")
        ],
        "To be had by hand": ["warfarin", *EVERYDAY],
    }


def test_most_data_sets_take_two_lines_of_a_terminal(offline):
    lines = taciturn(offline, "datasets").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 2 * len(CATALOG) + 3 + 12


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("letter", "`taciturn datasets fetch letter` downloads it"),
        ("isolet", "`taciturn datasets fetch isolet` downloads it"),
        ("mushroom", "there is no download; get it from UCI 73"),
    ],
)
def test_info_of_a_data_set_that_is_not_here_says_how_to_get_it_and_downloads_nothing(name, how, offline):
    result = taciturn(offline, "datasets", "info", name)
    assert result.returncode == 0
    assert CATALOG[name].shape in result.stdout
    assert how in result.stdout
    facts = json.loads(taciturn(offline, "datasets", "info", name, "--json").stdout)
    assert (facts["here"], facts["download"], facts["file"]) == (False, name != "mushroom", None)
    assert "rows" not in facts


def test_info_with_a_label_of_a_named_data_set_is_refused_also_where_it_is_not_here(offline):
    result = taciturn(offline, "datasets", "info", "letter", "--label", "x")
    assert (result.returncode, result.stdout) == (2, "")
    assert "label, edges and name are for your own files" in result.stderr


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("name", ["letter", "isolet", "mushroom"])
def test_fetching_without_a_network_is_one_line_and_exit_code_2(name, folder, monkeypatch):
    for variable in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # nothing listens there
        monkeypatch.delenv(variable.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr(urllib.request, "_opener", None)  # which keeps the proxies of its first request
    result = taciturn(folder, "datasets", "fetch", name)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"taciturn: {name}: ")
    assert ("no connection" in result.stderr) == (name != "mushroom")
    assert "or set TACITURN_DATA to the folder that holds it" in result.stderr
    assert not [path for path in folder.rglob("*") if path.is_file()]
