"""The command `taciturn route`: what it prints, how it refuses, and that a kill loses nothing acknowledged."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import requests
import yaml

from cli_kit import taciturn
from router_kit import shop
from tracing_kit import receiving, spans_of

COMMAND = [sys.executable, "-m", "taciturn", "route"]


def said(tmp_path, *arguments, code=0):
    """What the command prints, on stdout if it succeeds and on stderr if not."""
    done = taciturn(tmp_path, "route", *arguments)
    assert (done.returncode or 0) == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def write(tmp_path, content):
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


@contextmanager
def started(tmp_path, *arguments):
    """A router as a process, and its address."""
    command = [*COMMAND, "shop.yaml", "--port", "0", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        try:
            about, line = process.stdout.readline(), process.stdout.readline()
            yield process, re.search(r"http://localhost:\d+", line)[0], about
        finally:
            process.kill()


def test_check_prints_what_a_file_says_and_what_is_wrong(tmp_path):
    write(tmp_path, shop(refunds={"cost": 2}, budget={"per_decision": 1}, default="account"))
    lines = said(tmp_path, "shop.yaml", "--check").splitlines()
    assert lines[0].startswith("shop routes, at 1 a decision on average; a session stays with its arm for 3600 s")
    assert lines[1] == "  refunds: 3 examples, costs 2"
    assert said(tmp_path, "shop.yaml", "--check", "--observe").startswith("shop observes, and answers account always")
    write(tmp_path, shop(budgt={}))
    assert (
        said(tmp_path, "shop.yaml", code=2)
        == "taciturn: shop.yaml, line 18: budgt: there is no such key; did you mean budget?\n"
    )
    write(tmp_path, shop())
    assert "name it in the file, as default: ARM" in said(tmp_path, "shop.yaml", "--observe", code=2)
    assert "cannot be read" in said(tmp_path, "none.yaml", code=2)


def test_other_machines_do_not_reach_a_router_without_keys(tmp_path):
    write(tmp_path, shop())
    command = [*COMMAND, "shop.yaml", "--host", "0.0.0.0"]  # noqa: S104 - it is refused
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "can be reached from other machines" in done.stderr


def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path):
    write(tmp_path, shop())
    texts = [f"where is parcel {i}" if i % 2 else f"refund order {i}" for i in range(40)]
    with started(tmp_path) as (process, url, about):
        assert about == "taciturn: a new router; 9 examples learned\n"

        def ask(i):
            try:
                asked = {"text": texts[i], "session": f"s{i}", "request_id": f"r{i}"}
                made = requests.post(f"{url}/v1/route", json=asked, timeout=30).json()
                thumb = {"session": f"s{i}", "rating": "up" if i % 3 else "down"}
                rated = requests.post(f"{url}/v1/feedback", json=thumb, timeout=30)
            except requests.RequestException:
                return None
            finally:
                if i == 25:
                    process.kill()
            return (made["id"], made["arm"], rated.json()["reward"]) if rated.ok else None

        with ThreadPoolExecutor(4) as threads:
            acknowledged = {i: made for i, made in enumerate(threads.map(ask, range(40))) if made is not None}
        process.wait()
    assert len(acknowledged) >= 20
    with started(tmp_path) as (_, url, about):
        assert about == "taciturn: the router goes on where it stopped\n"
        for i, (id, arm, reward) in acknowledged.items():
            why = requests.get(f"{url}/v1/route/{id}", timeout=30).json()
            assert (why["text"], why["session"], why["arm"], why["reward"]) == (texts[i], f"s{i}", arm, reward)
            turn = requests.post(f"{url}/v1/route", json={"text": "and now", "session": f"s{i}"}, timeout=30).json()
            assert (turn["id"], turn["sticky"]) == (id, True)


def test_the_settings_of_the_service_hold_for_a_router_spans_too(tmp_path, monkeypatch):
    write(tmp_path, shop())
    with receiving() as (receiver, received):
        monkeypatch.setenv("TACITURN_OTEL", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver)
        with started(tmp_path) as (process, url, _):
            requests.post(f"{url}/v1/route", json={"text": "where is my parcel"}, timeout=30).raise_for_status()
            process.terminate()
            process.wait()
    assert sorted(span.name for span in spans_of(received)) == ["POST /v1/route", "commit", "decide", "query"]
