"""The access log has one line for each request, and the audit log one for each that creates, removes or copies."""

import json
import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_kit import MemoryJournal, Web
from taciturn.service.api import access
from taciturn.service.api.access import AccessLog
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key
from taciturn.service.web import add_page

CREATE = {"name": "x", "kind": "linucb", "arms": ["a", "b"]}
KEYS = Keyring([Key('the "shop"', digest("taciturn_s"), "write")])


@pytest.fixture
def log_of():
    """Sends requests and returns the lines of each log, in order."""

    def run(sent, *, keyring=None, token=None, **log):
        texts = []
        service = Service(MemoryJournal())
        with closing(service), closing(AccessLog(texts.append, **log)) as lines:
            app = create_app(service, keyring, access=lines)
            add_page(app, service, keyring)
            with Web(app, token) as ask:
                answers = [ask(method, path, **options) for method, path, options in sent]
        logs = {"taciturn.access": [], "taciturn.audit": []}
        for line in "".join(texts).splitlines():
            found = json.loads(line)
            logs[found["logger"]].append(found)
        return answers, *logs.values()

    return run


REQUESTS = [
    ("POST", "/v1/agents", {"json": CREATE}),
    ("POST", "/v1/agents/x/decisions", {"json": {"context": {"secret": 1.0}}}),
    ("PUT", "/v1/agents/x/decisions/0/reward", {"json": {"reward": 1}}),
    ("POST", "/v1/agents/x/decisions", {"json": {"context": 7}}),
    ("POST", "/v1/agents/x/arms", {"json": {"arm": "c"}}),
    ("DELETE", "/v1/agents/x/arms/c", {}),
    ("GET", "/v1/agents/x/file", {}),
    ("POST", "/v1/agents/y/file", {"content": b"?", "headers": {"content-type": "application/octet-stream"}}),
    ("PATCH", "/v1/agents", {}),
    ("GET", "/v1/agents/a%22%0A/health", {}),
    ("GET", "/", {}),
    ("GET", "/web/agents.json", {}),
    ("GET", "/nothing/here", {}),
    ("GET", "/healthz", {"headers": {"host": "evil.example"}}),
    ("DELETE", "/v1/agents/x", {}),
]


def test_every_request_is_one_line(log_of):
    answers, lines, _ = log_of(REQUESTS)
    assert [line["request"] for line in lines] == list(range(1, len(REQUESTS) + 1))
    for (method, _, options), answer, line in zip(REQUESTS, answers, lines, strict=True):
        assert (line["method"], line["status"], line["bytes_out"]) == (method, answer.status_code, len(answer.content))
        assert line["who"] == "anonymous"
        assert line["ms"] >= 0
        assert line["client"] == "127.0.0.1"
        assert "secret" not in json.dumps(line)
        assert line["bytes_in"] == (len(answer.request.content) if options.keys() & {"json", "content"} else 0)
    assert {line["route"] for line in lines} >= {
        "/v1/agents/{agent}/decisions",
        "/",
        "/web/agents.json",
        "/nothing/here",
    }
    assert lines[1]["agent"] == "x"


def test_creations_removals_and_copies_are_audited_at_every_level(log_of):
    for requests in (True, False):
        _, lines, audited = log_of(REQUESTS, requests=requests)
        assert bool(lines) == requests
        events = [(line["event"], line["status"]) for line in audited]
        assert events == [
            ("create", 201),
            ("add-arm", 201),
            ("retire-arm", 200),
            ("export", 200),
            ("import", 422),
            ("delete", 204),
        ]
        assert audited[0]["given"] == CREATE
        assert (audited[1]["given"], audited[2]["arm"]) == ({"arm": "c"}, "c")
        assert [line["agent"] for line in audited] == [None, "x", "x", "x", "y", "x"]


def test_lines_name_the_key_and_never_its_token(log_of):
    _, lines, _ = log_of(REQUESTS[:2], keyring=KEYS, token="taciturn_s")  # noqa: S106
    assert [line["who"] for line in lines] == ['the "shop"'] * 2
    assert "taciturn_s" not in json.dumps(lines).replace("taciturn.access", "")
    _, (refused,), _ = log_of(REQUESTS[1:2], keyring=KEYS)
    assert (refused["who"], refused["status"]) == ("anonymous", 401)


def test_contexts_are_logged_only_if_asked_for(log_of):
    as_json = {"content-type": "application/json"}
    spaced = ("POST", "/v1/agents/y/decisions", {"content": b'{\n"context":\n[1.0]}', "headers": as_json})
    create = ("POST", "/v1/agents", {"json": CREATE | {"name": "y"}})
    _, lines, _ = log_of([*REQUESTS[:4], create, spaced], contexts=True)
    shown = [line["body"] for line in lines if "body" in line]
    assert shown == [{"context": {"secret": 1.0}}, {"context": [1.0]}]


@given(texts=st.lists(st.text(st.characters(codec="utf-8")), min_size=4, max_size=4))
def test_whatever_a_request_says_its_line_is_one_line_of_json(texts):
    method, route, agent, key = texts
    written = []
    with closing(AccessLog(written.append)) as lines:
        scope = {"method": method, "path_params": {"agent": agent, "arm": key}, "taciturn.key": key, "client": None}
        lines.note(scope, "retireArm", route, 200, 0.25)
    first, second, end = "".join(written).split("\n")
    assert end == ""
    for line in (json.loads(first), json.loads(second)):
        assert (line["method"], line["route"], line["agent"], line["who"]) == (method, route, agent, key)
        assert line["ms"] == 250


def test_a_reader_that_hangs_delays_nothing_and_lost_lines_are_counted(monkeypatch):
    monkeypatch.setattr(access, "MAX_LINES", 10)
    reading, go, written = threading.Event(), threading.Event(), []

    def write(text):
        reading.set()
        assert go.wait(30)
        written.append(text)

    with closing(AccessLog(write)) as lines:
        lines.audit("first")
        assert reading.wait(30)
        for number in range(25):
            lines.audit("more", number=number)
        go.set()
    found = [json.loads(line) for line in "".join(written).splitlines()]
    assert [line.get("number") for line in found if line["event"] == "more"] == list(range(10))
    assert [line["count"] for line in found if line["event"] == "dropped-lines"] == [15]
