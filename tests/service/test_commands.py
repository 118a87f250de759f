"""The commands of the service; those that serve as a shell runs them, the others in this process."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from cli_kit import taciturn


def in_a_process(folder, *words, **variables):
    command = [sys.executable, "-m", "taciturn", *map(str, words)]
    environment = os.environ | variables
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def serving(folder, *words):
    command = [sys.executable, "-m", "taciturn", "serve", "--port", "0", "--log-level", "warning", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        found = re.search(r"http://localhost:(\d+)/", line)
        assert found, line + process.stderr.read()
        try:
            yield process, f"http://127.0.0.1:{found[1]}"
        finally:
            process.kill()


def ask(address, method="GET", body=None, token=None):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, content, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        content = answer.read()
        return json.loads(content) if content else None


def test_stop_start_backup_and_restore(tmp_path):
    with serving(tmp_path) as (process, address):
        ask(f"{address}/v1/agents", "POST", {"name": "shop", "kind": "linucb", "arms": ["a", "b"]})
        decision = ask(f"{address}/v1/agents/shop/decisions", "POST", {"context": {"late": 1, "angry": 2}})
        ask(f"{address}/v1/agents/shop/decisions/{decision['id']}/reward", "PUT", {"reward": 1})
        copied = taciturn(tmp_path, "backup", "copy")
        assert copied.stdout == "copy holds the journal up to entry 3\n", copied.stderr
        second = in_a_process(tmp_path, "serve")
        assert (second.returncode, second.stderr.count("\n")) == (2, 1)
        assert f"in use by process {process.pid}" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    restored = taciturn(tmp_path, "restore", "copy", "--data-dir", "new")
    assert restored.stdout == "new holds the journal up to entry 3\n", restored.stderr
    assert "not overwritten" in taciturn(tmp_path, "restore", "copy", "--data-dir", "new").stderr
    after = []
    for folder in ("taciturn-data", "new"):
        assert "nothing was wrong" in taciturn(tmp_path, "repair", "--data-dir", folder).stdout
        with serving(tmp_path, "--data-dir", folder) as (_, address):
            assert ask(f"{address}/v1/agents/shop/decisions/{decision['id']}")["state"] == "rewarded"
            after.append(ask(f"{address}/v1/agents/shop/decisions", "POST", {"context": {"late": 1}}))
    assert after[0] == after[1]


def test_keys_are_shown_once_and_required(tmp_path):
    refused = in_a_process(tmp_path, "serve", "--host", "192.0.2.1")
    assert refused.returncode == 2
    assert refused.stderr == (
        "taciturn: --host 192.0.2.1 can be reached from other machines, and there is no key; "
        "make one first: taciturn keys add NAME\n"
    )
    tokens = {}
    for scope in ("read", "write"):
        made = taciturn(tmp_path, "keys", "add", f"to-{scope}", "--scope", scope, "--json")
        tokens[scope] = json.loads(made.stdout)["token"]
    listed = json.loads(taciturn(tmp_path, "keys", "list", "--json").stdout)
    assert listed == [{"name": "to-read", "scope": "read"}, {"name": "to-write", "scope": "write"}]
    journal = (tmp_path / "taciturn-data" / "journal.db").read_bytes()
    assert not any(token.encode() in journal for token in tokens.values())
    with serving(tmp_path) as (_, address):
        agent = {"name": "shop", "kind": "linucb", "arms": 2}
        for token, status in ((None, 401), ("taciturn_guess", 401), (tokens["read"], 403)):
            with pytest.raises(urllib.error.HTTPError) as error:
                ask(f"{address}/v1/agents", "POST", agent, token)
            assert error.value.code == status
            error.value.close()
        ask(f"{address}/v1/agents", "POST", agent, tokens["write"])
        assert [one["name"] for one in ask(f"{address}/v1/agents", token=tokens["read"])["agents"]] == ["shop"]
    assert taciturn(tmp_path, "keys", "drop", "to-read").stdout == "to-read is removed\n"
    again = taciturn(tmp_path, "keys", "drop", "to-read")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("serve", "--log-level", "loud"), "debug, info, warning or error"),
        (("serve", "--durability", "some"), "full or normal"),
        (("keys", "add", "x", "--scope", "all"), "read or write"),
        (("keys", "add", ""), "cannot be the name of a key"),
        (("keys", "add", "a\nb"), "cannot be the name of a key"),
        (("serve", "--limit", "seconds=inf"), 'limits.seconds = "inf" is not allowed; a number from 0.01 to 1e+09 is'),
        (("backup", "copy", "--data-dir", "nowhere"), "no such file"),
        (("repair", "--data-dir", "nowhere"), "no such file"),
        (("compact", "--data-dir", "nowhere"), "there is no journal"),
        (("keys", "list", "--postgres", "host=/nowhere dbname=x"), "PostgreSQL /nowhere/x: "),
    ],
)
def test_errors_are_one_line_and_nothing_is_created(words, message, tmp_path):
    done = taciturn(tmp_path, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_restore_that_fails_creates_nothing(tmp_path):
    (tmp_path / "copy").write_bytes(b"no journal" * 1000)
    for source in ("copy", "nowhere"):
        done = taciturn(tmp_path, "restore", source, "--data-dir", "new")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize(
    "words", [("backup", "x"), ("restore", "file"), ("repair",), ("compact",), ("keys", "list"), ("keys", "add", "x")]
)
def test_a_file_in_place_of_the_data_folder_is_one_line(words, tmp_path):
    (tmp_path / "file").write_text("mine")
    done = taciturn(tmp_path, *words, "--data-dir", "file")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert re.search("--data-dir.* 'file' is a file", done.stderr)
    assert (tmp_path / "file").read_text() == "mine"


def test_serve_names_a_file_in_place_of_its_folder_and_a_variable_that_is_not_one_of_its_own(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = in_a_process(tmp_path, "serve", "--data-dir", "file/data", TACITURN_PROT="1", TACITURN_URL="http://x")
    warning, line = done.stderr.splitlines()
    assert json.loads(warning)["message"].endswith(
        "TACITURN_PROT is ignored, since there is no such setting; did you mean TACITURN_PORT?"
    )
    assert json.loads(warning)["level"] == "warning"
    assert (done.returncode, line) == (
        2,
        "taciturn: --data-dir file/data: file is a file; name a folder, which is made if there is none",
    )
