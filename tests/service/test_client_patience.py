"""The client while the service is away, and what it never shows. Time is simulated; lost answers are really lost."""

import ssl
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taciturn
from service_kit import FakeTime, MemoryJournal, Web
from taciturn.client import Client, ServiceUnavailable
from taciturn.client.compare import is_as_asked
from taciturn.client.connection import FIRST_PAUSE, LONGEST_PAUSE
from taciturn.errors import ForgottenDecision, RequestIdReused, TaciturnError, UnknownArm, UnknownDecision
from taciturn.retry import retry_after
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Answering(httpx.BaseTransport):
    """Answers with what a function returns for each request; an exception is raised instead."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []

    def handle_request(self, request):
        self.requests.append(request)
        found = self.answer(request)
        if isinstance(found, Exception):
            raise found
        return found


def client_of(transport, **options):
    client = Client("http://x", http=httpx.Client(transport=transport, base_url="http://x"), **options)
    client.time = FakeTime(client)
    return client


def problem(status, slug="unavailable", headers=None, **more):
    content = {"type": f"/docs#problem-{slug}", "detail": "what is wrong", **more}
    return httpx.Response(status, json=content, headers=headers)


def until(seconds, client, then, headers=None, status=503):
    """Answers "retry later" until so many seconds have passed."""
    return lambda _: then if client.time.now >= seconds else problem(status, headers=headers)


# How long it waits.


@given(away=st.floats(0, 29.5), status=st.sampled_from([429, 502, 503, 504]))
def test_a_service_that_is_back_within_the_patience_is_reached(away, status):
    transport = Answering(None)
    with client_of(transport) as client:
        transport.answer = until(away, client, httpx.Response(200, json={"agents": []}), status=status)
        assert client.agents() == []
        assert away <= client.time.now <= 30
        assert client.time.now <= away + LONGEST_PAUSE
        doubled = zip(client.time.pauses, [FIRST_PAUSE * 2**i for i in range(99)], strict=False)
        assert all(pause <= min(expected, LONGEST_PAUSE) for pause, expected in doubled)


@given(patience=st.floats(0, 100))
def test_it_gives_up_exactly_when_the_patience_ends(patience):
    with client_of(Answering(lambda _: httpx.ConnectError("refused")), patience=patience) as client:
        with pytest.raises(ServiceUnavailable, match="refused"):
            client.agents()
        assert client.time.now == pytest.approx(patience)


@given(asked=st.integers(0, 10**12))
def test_pauses_are_as_long_as_the_service_asks_but_within_the_patience(asked):
    transport = Answering(None)
    with client_of(transport) as client:
        transport.answer = until(1e-9, client, httpx.Response(200, json={"agents": []}), {"retry-after": str(asked)})
        assert client.agents() == []
        assert client.time.pauses == [pytest.approx(min(asked + FIRST_PAUSE, 30))]


@pytest.mark.parametrize("patience", [-1, float("nan"), float("inf"), "30", None])
def test_a_patience_that_is_no_number_of_seconds_is_refused(patience):
    with pytest.raises(TaciturnError, match="patience="):
        Client("http://x", patience=patience)


def test_pauses_differ_between_clients():
    factors = {Client("http://x").connection.jitter() for _ in range(20)}
    assert len(factors) == 20
    assert all(0.5 <= factor <= 1 for factor in factors)


@given(ahead=st.integers(-1000, 10**6), skew=st.integers(-(10**6), 10**6))
def test_retry_after_as_a_date_counts_from_the_date_of_the_answer(ahead, skew):
    there = NOON + timedelta(seconds=skew)  # the clock of the service
    headers = {"retry-after": format_datetime(there + timedelta(seconds=ahead), usegmt=True)}
    dated = httpx.Headers(headers | {"date": format_datetime(there, usegmt=True)})
    assert retry_after(dated, NOON) == max(ahead, 0)
    assert retry_after(httpx.Headers(headers), there) == max(ahead, 0)


@given(text=st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_a_retry_after_that_cannot_be_read_is_no_error(text):
    assert retry_after(httpx.Headers({"retry-after": text}), NOON) >= 0


def test_an_error_that_waiting_cannot_cure_is_raised_immediately():
    for error in (httpx.UnsupportedProtocol("ftp"), httpx.LocalProtocolError("illegal"), httpx.TooManyRedirects("x")):
        with client_of(Answering(lambda _, error=error: error)) as client:
            with pytest.raises(TaciturnError, match=f"cannot be sent to http://x: {type(error).__name__}"):
                client.agents()
            assert client.time.pauses == []
    for answer in (httpx.Response(301, headers={"location": "https://x"}), httpx.Response(200, text="<html>")):
        with (
            client_of(Answering(lambda _, answer=answer: answer)) as client,
            pytest.raises(TaciturnError, match="not in the form of taciturn"),
        ):
            client.agents()


class Plain(BaseHTTPRequestHandler):
    """Answers without encryption."""

    def log_message(self, *_):
        pass


def test_https_at_a_port_without_it_is_one_line_at_once():
    with HTTPServer(("127.0.0.1", 0), Plain) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        address = f"https://127.0.0.1:{server.server_port}"
        with Client(address) as client:
            time = FakeTime(client)
            with pytest.raises(TaciturnError) as caught:
                client.agents()
        server.shutdown()
        serving.join()
    assert str(caught.value).startswith(f"{address} cannot be reached by https: it does not speak TLS; give")
    assert time.pauses == []


def tls_error(kind, reason):
    error = httpx.ConnectError("in words of OpenSSL")
    error.__cause__ = kind(1, "in words of OpenSSL")
    error.__cause__.reason, error.__cause__.verify_message = reason, "self-signed certificate"
    return error


def test_a_certificate_that_is_refused_is_not_tried_again_and_a_cut_connection_is():
    refused = tls_error(ssl.SSLCertVerificationError, "CERTIFICATE_VERIFY_FAILED")
    with client_of(Answering(lambda _: refused)) as client:
        with pytest.raises(TaciturnError, match=r"its certificate is not accepted \(self-signed certificate\)"):
            client.agents()
        assert client.time.pauses == []
    cut = tls_error(ssl.SSLEOFError, "UNEXPECTED_EOF_WHILE_READING")
    with client_of(Answering(lambda _: cut)) as client:
        with pytest.raises(ServiceUnavailable):
            client.agents()
        assert client.time.now == pytest.approx(30)


@pytest.mark.parametrize("port", [0, -1, 65536, 99999])
def test_a_port_that_there_is_not_is_refused_at_once(port):
    with pytest.raises(TaciturnError, match=f"has the port {port}; 1 to 65535 are possible"):
        Client(f"http://localhost:{port}")


# Lost answers.


class Losing(httpx.BaseTransport):
    """Hands requests to a service; the answers of the next `lose` are lost after the request was carried out."""

    def __init__(self, ask):
        self.ask, self.lose = ask, 0

    def handle_request(self, request):
        path = request.url.raw_path.decode()
        answer = self.ask(request.method, path, content=request.read(), headers=dict(request.headers))
        if self.lose:
            self.lose -= 1
            raise httpx.ReadError("the answer was lost")
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)


@pytest.fixture
def losing():
    service = Service(MemoryJournal())
    with Web(create_app(service)) as ask:
        yield Losing(ask)
    service.close()


@pytest.fixture
def client(losing):
    with Client("http://localhost", http=httpx.Client(transport=losing, base_url="http://localhost")) as client:
        client.time = FakeTime(client)
        yield client


PARAMS = [
    {},
    {"seed": 3, "epsilon": 0.25, "max_nodes": 500, "memory_limit": 1e6},
    {"max_nodes": 10**9, "memory_limit": 1e15},  # more than the service allows
    {"kind": "bilinucb-kmeans", "seed": 2},
    {"kind": "gcnucb", "preset": "paper"},
    {"corrections": False, "max_nodes": None},
    {"features": {"text": ["note"]}, "scaling": "l2"},
]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("arms", [3, ["a", "b", 3]])
def test_create_succeeds_after_a_lost_answer(client, losing, params, lost, arms):
    given = {"kind": "linucb", "arms": arms} | params
    losing.lose = lost
    agent = client.create("x", **given)
    whole = client.agent("x")
    assert (agent.kind, agent.params, agent.arm_names) == (whole.kind, whole.params, whole.arm_names)
    with pytest.raises(TaciturnError, match="there is an agent 'x'"):
        client.create("x", **given)  # its first answer says so


@pytest.mark.parametrize("other", [{"kind": "viewucb"}, {"arms": 4}, {"seed": 8}, {"corrections": False}])
def test_create_never_takes_another_agent_for_its_own(client, losing, other):
    mine = {"kind": "linucb", "arms": 3, "seed": 7}
    client.create("x", **mine | other)
    losing.lose = 1
    with pytest.raises(TaciturnError, match="there is an agent 'x'"):
        client.create("x", **mine)


def test_retired_arms_are_not_as_asked():
    about = {"kind": "k", "arms": [0, 1], "active": [0], "corrections": True, "params": {}}
    asked = {"kind": "k", "arms": 2, "corrections": True, "params": {"seed": np.int64(0)}}
    assert not is_as_asked(about, asked)
    assert is_as_asked(about | {"active": [0, 1]}, asked)
    assert not is_as_asked(about | {"active": [0, 1], "params": {"seed": 1}}, asked)


def test_add_retire_and_delete_succeed_after_a_lost_answer(client, losing):
    agent = client.create("x", arms=["a", "b"], kind="linucb")
    losing.lose = 1
    agent.add_arm("c", like="a")
    assert agent.active_arms == client.agent("x").active_arms == ("a", "b", "c")
    losing.lose = 1
    agent.retire_arm("b")
    assert agent.active_arms == client.agent("x").active_arms == ("a", "c")
    losing.lose = 1
    agent.add_arm("b")
    assert agent.active_arms == client.agent("x").active_arms == ("a", "b", "c")
    losing.lose = 1
    client.delete("x")
    assert client.agents() == []


def test_errors_stay_errors_after_a_lost_answer(client, losing):
    agent = client.create("x", arms=["a", "b"], kind="linucb")
    agent.decide([1.0])
    agent.withdraw(0)
    for do, error in (
        (lambda: agent.add_arm("a"), TaciturnError),
        (lambda: agent.add_arm("c", like="z"), TaciturnError),
        (lambda: agent.retire_arm("z"), UnknownArm),
        (lambda: agent.withdraw(9), UnknownDecision),
        (lambda: agent.feedback(0, 1), ForgottenDecision),
        (lambda: agent.decide({"f": 1.0}), taciturn.TaciturnError),
    ):
        losing.lose = 1
        with pytest.raises(error):
            do()
    client.delete("x")
    with pytest.raises(TaciturnError, match="no agent 'x'"):
        client.delete("x")


@pytest.mark.parametrize("kind", ["linucb", "viewucb", "bilinucb-kmeans"])
def test_load_succeeds_after_a_lost_answer(client, losing, tmp_path, kind):
    bare, other = (taciturn.make(kind, arms=3, seed=seed) for seed in (1, 1))
    for i in range(6):
        for agent in (bare, other):
            agent.feedback(agent.decide([1.0, i]).id, (0, 1, None)[i % 3])
    other.decide([1.0, 2.0])
    for agent, name in ((bare, "bare"), (other, "other")):
        agent.save(tmp_path / name)
    losing.lose = 2
    loaded = client.load("x", tmp_path / "bare")
    assert (loaded.arm_names, loaded.health().decisions) == ((0, 1, 2), 6)
    losing.lose = 1
    with pytest.raises(TaciturnError, match="there is an agent 'x'"):
        client.load("x", tmp_path / "other")
    (tmp_path / "none").write_bytes(b"no agent")
    losing.lose = 1
    with pytest.raises(TaciturnError):
        client.load("x", tmp_path / "none")


# Request ids.


def test_a_request_id_of_the_caller_is_decided_on_once(client):
    agent = client.create("x", arms=2, kind="linucb")
    first = agent.decide([1.0], request_id="order 17")
    again = client.agent("x").decide([1.0], request_id="order 17")
    assert (first.id, first.arm) == (again.id, again.arm)
    several = [agent.decide_batch([[1.0], [2.0]], request_id="orders") for _ in range(2)]
    assert [[one.id for one in batch] for batch in several] == [[1, 2], [1, 2]]
    assert agent.decide([1.0]).id == 3


def test_another_request_with_the_same_id_is_an_error():
    about = {"name": "x", "kind": "linucb", "params": {}, "arms": [0, 1], "active": [0, 1]}
    reused = problem(409, "request-id-reused", field="request_id")
    transport = Answering(lambda request: reused if request.method == "POST" else httpx.Response(200, json=about))
    with client_of(transport) as client, pytest.raises(RequestIdReused, match="what is wrong"):
        client.agent("x").decide([1.0], request_id="a")


# What is never shown.

KEYS = ["swordfish\nhidden", "swordfísh", "sword fish", "swordfish\x7f", "\tswordfish", "swordfish\r", "рыба-меч"]


def parts_of(key):
    return {key[i : i + 4] for i in range(len(key) - 3)}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key, monkeypatch):
    monkeypatch.setenv("TACITURN_KEY", key)
    for make in (lambda: Client("http://x", key), Client):
        with pytest.raises(TaciturnError, match="character") as caught:
            make()
        shown = f"{caught.value} {caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
        assert not {part for part in parts_of(key) if part in shown}


@pytest.mark.parametrize("key", ["", 7, b"taciturn_secret"])
def test_a_key_must_be_text(key):
    with pytest.raises(TaciturnError, match="empty or no text"):
        Client("http://x", key)


@pytest.mark.parametrize(
    "error", [httpx.LocalProtocolError("Illegal header value b'Bearer swordfish-2'"), httpx.ConnectError("refused")]
)
def test_no_error_and_no_repr_shows_the_key(error):
    transport = Answering(lambda _: error)
    with client_of(transport, key="swordfish-2") as client:
        assert repr(client) == "Client('http://x')"
        with pytest.raises(TaciturnError) as caught:
            client.agents()
    assert transport.requests[0].headers["authorization"] == "Bearer swordfish-2"
    assert caught.value.__suppress_context__ or "swordfish" not in repr(caught.value.__context__)
    assert not {part for part in parts_of("swordfish-2") if part in str(caught.value)}


@pytest.mark.parametrize("url", ["swordfish-2", "localhost:8420", "ftp://x", "http://", "", 7, "http://[::1"])
def test_an_address_that_is_none_is_refused_and_not_shown(url):
    with pytest.raises(TaciturnError, match="http://localhost:8420 is") as caught:
        Client(url)
    assert "swordfish" not in repr(caught.value)
    assert repr(Client("http://me:swordfish-2@x:1/")) == "Client('http://x:1')"


def test_address_and_key_of_the_environment(monkeypatch):
    monkeypatch.setenv("TACITURN_URL", "http://there:1")
    monkeypatch.setenv("TACITURN_KEY", "swordfish-2")

    def sent_by(*given):
        transport = Answering(lambda _: httpx.Response(200, json={"agents": []}))
        with Client(*given, http=httpx.Client(transport=transport, base_url="http://x")) as client:
            client.agents()
            return client.connection.address, transport.requests[0].headers.get("authorization")

    assert sent_by() == ("http://there:1", "Bearer swordfish-2")
    assert sent_by(None, "other") == ("http://there:1", "Bearer other")
    assert sent_by("http://elsewhere") == ("http://elsewhere", None), "the key is not for other services"
    monkeypatch.delenv("TACITURN_URL")
    assert sent_by()[0] == "http://localhost:8420"


def test_pauses_grow():
    with client_of(Answering(lambda _: httpx.ReadTimeout("slow")), patience=1000) as client:
        with pytest.raises(ServiceUnavailable):
            client.agents()
        *pauses, _ = client.time.pauses
    assert all(one <= other for one, other in pairwise(pauses))
    assert max(pauses) == LONGEST_PAUSE
