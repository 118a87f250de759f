"""What `taciturn serve --engine ray` and `taciturn scale` say when they cannot do what is asked."""

import socket
import sys

import pytest

from cli_kit import taciturn

NOWHERE = "host=127.0.0.1 port=1 dbname=x password=secret"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--workers", "2"], "--workers needs --postgres"),
        (["serve", "--engine", "ray"], "--engine ray needs --postgres"),
        (["serve", "--engine", "spark"], "local or ray is"),
        (["serve", "--shards", "2"], "add --engine ray"),
        (["serve", "--address", "auto"], "add --engine ray"),
        (["serve", "--workers", "65", "--postgres", NOWHERE], "from 0 to 64"),
        (
            ["serve", "--workers", "2", "--address", "auto", "--postgres", NOWHERE],
            "say --engine ray --shards N instead",
        ),
        (["serve", "--workers", "2", "--postgres", NOWHERE], "Connection refused"),
        (["scale", "2", "--postgres", NOWHERE], "Connection refused"),
        (["scale", "0", "--postgres", NOWHERE], "greater than or equal to 1"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line_without_the_password(tmp_path, words, said):
    pytest.importorskip("ray.serve")
    done = taciturn(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr.replace("\n", " ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "secret" not in done.stderr


@pytest.mark.parametrize("missing", ["ray", "ray.serve"])
def test_what_is_not_installed_is_named_with_how_to_install_it(tmp_path, monkeypatch, missing):
    for module in [name for name in sys.modules if "cluster" in name or name == "taciturn.ray_connection"]:
        if module.startswith("taciturn."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr("ray.serve", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    done = taciturn(tmp_path, "serve", "--workers", "2", "--postgres", NOWHERE)
    assert "needs ray" in done.stderr
    assert "[ray]" in done.stderr


def test_a_database_without_shards_cannot_be_scaled(tmp_path, server):
    done = taciturn(tmp_path, "scale", "2", "--postgres", server.address)
    assert "no shards have been started here" in done.stderr


def test_a_service_that_is_refused_has_changed_nothing(tmp_path, server):
    pytest.importorskip("ray.serve")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, said in ((["--host", "192.0.2.1"], "there is no key"), (["--port", port], "cannot listen on")):
            done = taciturn(tmp_path, "serve", "--workers", "3", "--postgres", server.address, *words)
            assert said in done.stderr
    assert server.tamper("SELECT to_regclass('taciturn_shards')") == [(None,)]
