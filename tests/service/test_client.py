"""The client beside an agent of this process: equal answers and errors, over a real connection."""

import socket
import threading
from fractions import Fraction

import httpx
import numpy as np
import pytest
import scipy.sparse as sp
import uvicorn

import taciturn
from service_kit import FakeTime, MemoryJournal
from taciturn.client import Client, ServiceUnavailable
from taciturn.client.connection import ERRORS
from taciturn.errors import (
    AlreadyAnswered,
    ForgottenDecision,
    InvalidContext,
    InvalidReward,
    TaciturnError,
    UnknownArm,
    UnknownDecision,
)
from taciturn.service.api.local import create_app
from taciturn.service.core.service import Service

ARMS = ["a", "b", 3]
BOUNDS = {"max_nodes": 20_000, "memory_limit": 2e9}


@pytest.fixture(scope="module")
def url():
    """A real server, for the module."""
    service = Service(MemoryJournal())
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="error", ws="none"))
    ready = threading.Event()
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    startup = server.startup

    async def started(sockets=None):
        await startup(sockets)
        ready.set()

    server.startup = started
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    assert ready.wait(30)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    bound.close()
    service.close()


@pytest.fixture
def client(url):
    with Client(url) as found:
        yield found


def equal(one, other):
    assert (one.id, one.arm, one.propensity) == (other.id, other.arm, other.propensity)
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.widths, other.widths)


def test_same_methods_and_results_as_a_local_agent(client, tmp_path):
    remote = client.create("verbs", arms=ARMS, kind="linucb", epsilon=0.2, seed=3, expire_after=None)
    bare = taciturn.make("linucb", arms=ARMS, epsilon=0.2, seed=3, **BOUNDS)
    rng = np.random.default_rng(0)
    forms = [lambda x: x, lambda x: x.tolist(), sp.csr_matrix, sp.coo_array, tuple]
    for i in range(20):
        x = rng.normal(size=5)
        near = None if i < 3 else np.array([0, i - 1])
        decision = remote.decide(forms[i % len(forms)](x), near, allowed=None if i % 2 else ["a", 3])
        equal(decision, bare.decide(x, near, allowed=None if i % 2 else ["a", 3]))
        reward = (0, 1, None, np.float32(0.5))[i % 4]
        remote.feedback(decision.id, reward)
        bare.feedback(decision.id, reward)
    X = sp.csr_matrix(rng.normal(size=(4, 5)))
    for one, other in zip(remote.decide_batch(X), bare.decide_batch(X), strict=True):
        equal(one, other)
    assert remote.feedback_batch({20: 1, 21: None, 99: 1}).keys() == {99}
    bare.feedback(20, 1)
    bare.feedback(21, None)
    remote.withdraw(4)
    bare.withdraw(4)
    for agent in (remote, bare):
        agent.add_arm("d/é", "a")
        agent.retire_arm("b")
    assert (remote.arm_names, remote.active_arms) == (bare.arm_names, bare.active_arms)
    assert remote.health() == bare.health()
    assert str(remote.explain(7)) == str(bare.explain(7))
    remote.save(tmp_path / "agent")
    copy, second = taciturn.load(tmp_path / "agent"), client.load("second", tmp_path / "agent")
    x = rng.normal(size=5)
    for agent in (remote, copy, second, client.agent("verbs")):
        decision = agent.decide(x)
        if agent is remote:
            expected = bare.decide(x)
        if decision.id == expected.id:
            equal(decision, expected)
    assert {"verbs", "second"} <= set(client.agents())
    client.delete("second")
    assert "second" not in client.agents()


def test_health_with_calibrations_is_that_of_a_local_agent(client):
    remote = client.create("healthy", arms=ARMS, kind="bilinucb-kmeans", seed=3, expire_after=None)
    bare = taciturn.make("bilinucb-kmeans", arms=ARMS, seed=3, **BOUNDS)
    X = np.random.default_rng(1).normal(size=(160, 3))
    for agent in (remote, bare):
        ids = [decision.id for decision in agent.decide_batch(X)]
        for id in ids:
            agent.feedback(id, 1 if X[id, 0] > 0 else None)
        for id in ids[:20]:
            agent.feedback(id, 1)
    assert remote.health() == bare.health()
    assert remote.health().answers.explained > 0
    assert remote.health().calibration.truths > 0


def test_named_features(client):
    remote, bare = client.create("named", kind="linucb", arms=2), taciturn.LinUCB(arms=2, **BOUNDS)
    for x in ({"late": 1.0}, {"late": np.float32(2), "new": 1}):
        equal(remote.decide(x), bare.decide(x))


@pytest.mark.parametrize(
    ("do", "error"),
    [
        (lambda a: a.decide([1.0, 2.0, 3.0]), InvalidContext),
        (lambda a: a.decide(sp.csr_matrix(np.ones((2, 2)))), InvalidContext),
        (lambda a: a.decide([1.0, 2.0], [77]), UnknownDecision),
        (lambda a: a.decide([1.0, 2.0], allowed=["z"]), UnknownArm),
        (lambda a: a.feedback(77, 1), UnknownDecision),
        (lambda a: a.feedback(-1, 1), UnknownDecision),
        (lambda a: a.feedback(1, 1), ForgottenDecision),
        (lambda a: a.feedback(0, 0), AlreadyAnswered),
        (lambda a: a.feedback(0, 2), taciturn.TaciturnError),
        (lambda a: a.explain(1), ForgottenDecision),
        (lambda a: a.retire_arm("z"), UnknownArm),
        (lambda a: a.add_arm("a"), taciturn.TaciturnError),
    ],
)
def test_same_errors_as_a_local_agent(client, do, error):
    if "errors" not in client.agents():
        agent = client.create("errors", arms=["a", "b"], kind="linucb", corrections=False)
        agent.decide_batch([[1.0, 2.0], [2.0, 1.0]])
        agent.feedback(0, 1)
        agent.withdraw(1)
    with pytest.raises(error):
        do(client.agent("errors"))


class Lossy(httpx.BaseTransport):
    """Sends requests and drops the next `lose` answers; answers the next `later` requests with 503."""

    def __init__(self):
        self.inner, self.lose, self.later, self.sent = httpx.HTTPTransport(), 0, 0, 0

    def handle_request(self, request):
        self.sent += 1
        if self.later:
            self.later -= 1
            return httpx.Response(503, json={"type": "/docs#problem-unavailable", "detail": "later"})
        response = self.inner.handle_request(request)
        if self.lose:
            self.lose -= 1
            response.read()
            response.close()
            raise httpx.ReadError("the answer was lost")
        return response

    def close(self):
        self.inner.close()


@pytest.fixture
def lossy():
    return Lossy()


@pytest.fixture
def lossy_client(url, lossy):
    with Client(url, http=httpx.Client(transport=lossy, base_url=url)) as client:
        client.time = FakeTime(client)
        yield client


def test_retry_never_decides_twice(lossy_client, lossy):
    agent = lossy_client.create("lossy", arms=2, kind="linucb")
    lossy.lose, lossy.later = 2, 1
    first = agent.decide([1.0])
    assert (first.id, agent.decide([1.0]).id) == (0, 1)
    lossy.lose = 1
    agent.feedback(0, 1)
    lossy.lose = 1
    agent.withdraw(1)
    assert agent.health().decisions == 2
    assert len(lossy_client.time.pauses) == 5
    lossy.lose = 99
    with pytest.raises(ServiceUnavailable, match="in 30 s; ReadError"):
        agent.decide([1.0])


def test_answer_of_another_server_is_an_error():
    transport = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    with (
        Client("http://x", patience=0, http=httpx.Client(transport=transport, base_url="http://x")) as client,
        pytest.raises(taciturn.TaciturnError, match="answered 502"),
    ):
        client.agents()
    assert ERRORS["invalid-reward"] is InvalidReward


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), np.float32("nan"), np.array([np.nan, 1.0])])
def test_what_json_cannot_say_is_not_sent(client, wrong):
    """NaN was sent as null: a reward became silence, and a setting was as if not given."""
    remote = client.create("finite", arms=2, kind="linucb")
    id = remote.decide([1.0, 2.0]).id
    remote.feedback(id, 1)
    for call in (
        lambda: remote.feedback(id, wrong),
        lambda: remote.feedback_batch({id: wrong}),
        lambda: client.create("other", arms=2, kind="linucb", expire_after=wrong),
    ):
        with pytest.raises(TaciturnError, match="cannot be sent"):
            call()
    with pytest.raises(TaciturnError, match="a dict of ids"):
        remote.feedback_batch([(id, 1)])
    assert remote.explain(id).state == "rewarded"
    client.delete("finite")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"a": float("inf")}, "'a' is inf; a finite number is needed"),
        ({"a": {"b": np.float32("-inf")}}, "'a.b' is -inf"),
        ({"a": 2**60}, "or text"),
        ({"a": 10**400}, "'a' is .a whole number of 1329 bits.; a whole number from"),
        ({"a": {"b": [-(10**5000)]}}, "'a.b' is .a whole number of"),
        ({"a": Fraction(-(10**400))}, "'a' is -inf; a finite number is needed"),
        ([10**400, 1.0], "a whole number that is too large; a finite number is needed"),
        ({"a": object()}, "'a' is <object"),
        (np.array([1.0, np.inf]), "inf at feature 1"),
        ([[1.0], [2.0]], "one row"),
    ],
)
def test_contexts_that_json_cannot_say_are_not_sent(client, wrong, message):
    remote = client.create("finite", arms=2, kind="linucb")
    for call in (lambda: remote.decide(wrong), lambda: remote.decide_batch([wrong])):
        with pytest.raises(InvalidContext, match=message):
            call()
    assert client.agent("finite").health().decisions == 0
    client.delete("finite")


def test_features_of_the_library_are_sent(client):
    features = taciturn.Features(text=["note"], ignore=["id"])
    remote = client.create("columns", arms=2, kind="linucb", features=features)
    assert remote.params["features"] == {"text": ["note"], "ignore": ["id"], "max_features": 100_000}
    client.delete("columns")


@pytest.mark.parametrize("context", [f'{{"n": 1{"0" * 400}}}', f"[1{'0' * 400}, 1]", f'{{"n": [1{"0" * 5000}]}}'])
def test_a_whole_number_beyond_a_float_is_a_problem_of_one_line(client, url, context):
    client.create("beyond", arms=2, kind="linucb")
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{url}/v1/agents/beyond/decisions", content=f'{{"context": {context}}}', headers=headers)
    assert answer.status_code in {400, 422}
    assert "\n" not in answer.json()["detail"]
    client.delete("beyond")


@pytest.mark.parametrize("name", ["support/file", "../agents", "", "Shop", "a b", "a\nb", "a" * 65, "shop\n", 5, None])
def test_a_name_that_no_agent_can_have_is_not_asked_for(name, tmp_path):
    (tmp_path / "file").write_bytes(b"")

    def answer(request):
        raise AssertionError(request.url)

    with Client("http://test", http=httpx.Client(transport=httpx.MockTransport(answer))) as client:
        for call in (client.agent, client.delete, lambda name: client.load(name, tmp_path / "file")):
            with pytest.raises(TaciturnError, match="cannot be the name of an agent; small letters") as error:
                call(name)
            assert "\n" not in str(error.value)
