"""Spans: what they are called, how they nest, whose trace they continue, and what they never hold."""

import json
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import taciturn
from process_kit import served
from service_kit import Web
from taciturn.errors import TaciturnError
from taciturn.service.config import Settings
from taciturn.service.journal.base import JournalUnavailable
from taciturn.service.journal.sqlite import SQLiteJournal
from taciturn.service.run import opened_app, run
from tracing_kit import receiving, spans_of

PAGE = (Path(__file__).parents[2] / "docs" / "interop.md").read_text(encoding="utf-8")
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "swordfish"  # noqa: S105 - to look for
DECIDE, REWARD = "POST /v1/agents/{agent}/decisions", "PUT /v1/agents/{agent}/decisions/{id}/reward"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test")
    provider.shutdown()


@pytest.fixture
def journal(tmp_path):
    with closing(SQLiteJournal(tmp_path / "journal.db")) as journal:
        yield journal


@pytest.fixture
def ask(tracer, exporter, journal, tmp_path):
    """Asks a service with spans that has the agent `shop`."""
    with opened_app(journal, tmp_path, tracer=tracer) as (app, _), Web(app) as ask:
        assert ask("POST", "/v1/agents", json={"name": "shop", "arms": 2, "kind": "linucb"}).status_code == 201
        exporter.clear()
        yield ask


def family(exporter):
    """The spans by name, in the order in which they ended; each name is there once."""
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert len(spans) == len(exporter.get_finished_spans())
    exporter.clear()
    return spans


def test_a_request_its_operation_and_its_commit_are_one_trace_that_continues_the_callers(ask, exporter):
    contexts = [{"note": SECRET}, {"note": "b"}, {"note": "c"}]
    body = {"contexts": contexts, "request_id": SECRET}
    assert ask("POST", "/v1/agents/shop/decisions", json=body, headers={"traceparent": CALLER}).status_code == 200
    spans = family(exporter)
    assert set(spans) == {DECIDE, "decide", "commit"}
    request, decide, commit = (spans[name] for name in (DECIDE, "decide", "commit"))
    assert {f"{span.context.trace_id:032x}" for span in (request, decide, commit)} == {CALLER.split("-")[1]}
    assert f"{request.parent.span_id:016x}" == CALLER.split("-")[2]
    assert [decide.parent.span_id, commit.parent.span_id] == [request.context.span_id, decide.context.span_id]
    assert request.start_time <= decide.start_time <= commit.start_time <= commit.end_time
    assert decide.end_time <= request.end_time
    route = {"http.request.method": "POST", "http.route": "/v1/agents/{agent}/decisions"}
    assert dict(request.attributes) == route | {"http.response.status_code": 200}
    assert dict(decide.attributes) == {"taciturn.agent": "shop", "taciturn.batch_size": 3}
    assert dict(commit.attributes) == {"taciturn.entries": 1}

    ask("PUT", "/v1/agents/shop/decisions/0/reward", json={"reward": 1})
    spans = family(exporter)
    assert set(spans) == {REWARD, "reward", "commit"} and spans[REWARD].parent is None


@pytest.mark.parametrize(
    "header", ["", "00-zz-b7ad6b7169203331-01", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ü" * 99]
)
def test_a_traceparent_that_is_not_valid_begins_a_new_trace(ask, exporter, header):
    assert ask("GET", "/v1/agents", headers={"traceparent": header.encode("latin-1")}).status_code == 200
    assert family(exporter)["GET /v1/agents"].parent is None


def test_a_caller_that_is_not_sampled_is_not_traced(ask, exporter):
    assert ask("GET", "/v1/agents/shop", headers={"traceparent": CALLER[:-2] + "00"}).status_code == 200
    assert family(exporter) == {}


def test_probes_and_the_page_have_no_spans(ask, exporter):
    for path in ("/healthz", "/readyz", "/metrics", "/", "/agents/shop", "/openapi.json", "/none"):
        ask("GET", path)
    assert family(exporter) == {}


def test_errors_are_named_by_their_type_and_nothing_that_was_sent_is_in_a_span(ask, exporter):
    agent = f"/v1/agents/{SECRET}%20{SECRET}"
    for method, path, body, status in (
        ("POST", "/v1/agents/shop/decisions", {"context": {SECRET: {SECRET: [[SECRET]]}}}, 422),
        ("POST", "/v1/agents/shop/decisions", {"context": [1], SECRET: SECRET}, 422),
        ("POST", f"{agent}/decisions", {"context": [1]}, 404),
        ("DELETE", f"/v1/agents/shop/arms/{SECRET}", None, 404),
        ("PUT", "/v1/agents/shop/decisions/99/reward", {"reward": 1}, 404),
        (SECRET.upper(), "/v1/agents/shop", None, 405),
    ):
        answer = ask(
            method, f"{path}?{SECRET}", json=body, headers={"x-a": SECRET, "authorization": f"Bearer {SECRET}"}
        )
        assert answer.status_code == status
        spans = exporter.get_finished_spans()
        assert spans[-1].attributes["http.response.status_code"] == status
        assert all(SECRET not in span.to_json().lower() for span in spans)
        assert not any(span.events for span in spans)
        exporter.clear()
    ask("PUT", "/v1/agents/shop/decisions/99/reward", json={"reward": 1})
    assert family(exporter)["reward"].attributes["error.type"] == "UnknownDecision"


def test_a_commit_that_fails_is_an_error(ask, exporter, journal, monkeypatch):
    def fail(_):
        raise JournalUnavailable("the disk is full")

    monkeypatch.setattr(journal, "append", fail)
    assert ask("POST", "/v1/agents/shop/decisions", json={"context": [1.0]}).status_code == 503
    spans = family(exporter)
    assert spans["commit"].attributes["error.type"] == "JournalUnavailable"
    assert not spans["commit"].status.is_ok and not spans[DECIDE].status.is_ok


def test_the_python_client_sends_the_span_that_it_is_in(tracer):
    sent = []

    def answer(request):
        sent.append(request.headers.get("traceparent"))
        return httpx.Response(200, json={"agents": []})

    http = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x")
    with taciturn.Client("http://x", http=http) as client:
        with tracer.start_as_current_span("mine") as span:
            client.agents()
        client.agents()
    assert sent[0].startswith(f"00-{span.get_span_context().trace_id:032x}-{span.get_span_context().span_id:016x}-")
    assert sent[1:] == [None]


def test_without_otel_nothing_of_it_is_loaded():
    code = "import sys, taciturn.service.run, taciturn.client; print([m for m in sys.modules if 'opentelemetry' in m])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize("several", [{"workers": 2}, {"engine": "ray"}])
def test_otel_with_several_processes_is_refused(several):
    with pytest.raises(TaciturnError, match="--otel is for a service of one process"):
        run(Settings(otel=True, postgres="x", **several), print)


def test_spans_of_a_running_service_reach_an_otlp_receiver(tmp_path, monkeypatch):
    """With the command of the documentation, but for the ports."""
    (variable, name) = re.search(r"^\$ (OTEL_\w+)=\S+ taciturn serve (--otel)$", PAGE, re.MULTILINE).groups()
    with receiving() as (receiver, received):
        monkeypatch.setenv(variable, receiver)
        with served(tmp_path, name) as address, httpx.Client(base_url=address, timeout=120) as http:
            http.post("/v1/agents", json={"name": "shop", "arms": 2, "kind": "linucb"}).raise_for_status()
            body = {"context": {"note": SECRET}}
            http.post("/v1/agents/shop/decisions", json=body, headers={"traceparent": CALLER}).raise_for_status()
    assert {path for path, _ in received} == {"/v1/traces"}
    sources = [source for _, request in received for source in request.resource_spans]
    assert all(
        {"taciturn"} == {a.value.string_value for a in s.resource.attributes if a.key == "service.name"}
        for s in sources
    )
    names = sorted(span.name for span in spans_of(received) if span.trace_id.hex() == CALLER.split("-")[1])
    assert names == sorted([DECIDE, "decide", "commit"])
    assert SECRET not in json.dumps([str(request) for _, request in received])
