"""The service over HTTP: keys, limits, answers and problems."""

import json
import threading
from concurrent.futures import Future

import pytest
from starlette.routing import Route

from service_kit import MemoryJournal, Web
from taciturn.errors import TaciturnError
from taciturn.service.api.asgi import HEADERS
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.api.local import create_app
from taciturn.service.core.jobs import Job
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import Create, Decide, DecideRequest
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key

TOKENS = {"read": "taciturn_reader", "write": "taciturn_writer"}
KEYS = Keyring([Key(scope, digest(token), scope) for scope, token in TOKENS.items()])
CREATE = {"name": "x", "kind": "linucb", "arms": ["a", "b"]}
OPEN = {"/healthz", "/readyz", "/openapi.json", "/docs"}
FILE = {"content-type": "application/octet-stream"}


@pytest.fixture
def web():
    """Opens services with some limits and keys, to send requests to."""
    parts = []

    def make(limits=None, keyring=None, token=None, **options):
        service = Service(MemoryJournal(), limits=Limits(**limits or {}), **options)
        asking = Web(create_app(service, keyring), token)
        parts.append((asking, service))
        asking.service = service
        return asking

    yield make
    for asking, service in parts:
        asking.__exit__()
        service.close()


def problem(answer, status, slug, field=None):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content = answer.json()
    assert content["type"] == f"/docs#problem-{slug}"
    assert (content["status"], content.get("field")) == (status, field)
    return content["detail"]


def every_route():
    service = Service(MemoryJournal())
    app = create_app(service, KEYS)
    service.close()
    for route in app.routes:
        assert isinstance(route, Route)
        for method, endpoint in route.endpoint.methods.items():
            path = route.path.replace("{agent}", "x").replace("{id}", "0").replace("{arm:path}", "a")
            yield method, path, endpoint.scope


ROUTES = list(every_route())


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_every_route_needs_its_scope(web, method, path, scope):
    asking = web(keyring=KEYS)

    def ask(header):
        return asking(method, path, content=b"{}", headers={} if header is None else {"authorization": header})

    if path in OPEN:
        assert scope is None
        assert ask(None).status_code == 200
        return
    for wrong in (
        None,
        "Bearer ",
        "Bearer taciturn_nobody",
        "Basic " + TOKENS["write"],
        TOKENS["write"],
        "Bearer \xe9",
    ):
        answer = ask(wrong if wrong is None else wrong.encode("latin-1"))
        problem(answer, 401, "no-key")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert scope == ("read" if method == "GET" else "write")
    if scope == "write":
        problem(ask("Bearer " + TOKENS["read"]), 403, "not-allowed")
    for token in [TOKENS["write"]] + [TOKENS["read"]] * (scope == "read"):
        assert ask("bearer " + token).status_code not in (401, 403)


def test_life_cycle_of_a_decision(web):
    ask = web()
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201
    first = ask("POST", "/v1/agents/x/decisions", json={"context": {"late": 1, "parcel": 0.5}, "request_id": "r"})
    assert set(first.json()) == {"id", "arm", "scores", "widths", "propensity"}
    again = ask("POST", "/v1/agents/x/decisions", json={"context": {"late": 1, "parcel": 0.5}, "request_id": "r"})
    assert again.content == first.content
    reward = "/v1/agents/x/decisions/0/reward"
    outcomes = [ask("PUT", reward, json={"reward": r}).json()["outcome"] for r in (None, None, 1, 1, 0)]
    assert outcomes == ["taken", "same", "taken", "same", "corrected"]
    details = ask("GET", "/v1/agents/x/decisions/0").json()
    assert (details["state"], details["reward"], details["explanation"]["arms"]) == ("rewarded", 0.0, ["a", "b"])
    health = ask("GET", "/v1/agents/x/health").json()
    assert (health["late"], health["corrected"], health["decisions"]) == (1, 1, 1)
    batch = ask("PUT", "/v1/agents/x/rewards", json=[{"id": 0, "reward": 1}, {"id": 7, "reward": 1}]).json()
    assert (batch["taken"], batch["refused"][0]["status"]) == (1, 404)
    near = {"contexts": [{"late": 1}, {"new": 1}], "neighbors": [[0], None], "allowed": ["b"]}
    assert [d["arm"] for d in ask("POST", "/v1/agents/x/decisions", json=near).json()["decisions"]] == ["b", "b"]
    assert ask("DELETE", "/v1/agents/x/decisions/0").status_code == 204
    problem(ask("GET", "/v1/agents/x/decisions/0"), 410, "forgotten-decision")
    problem(ask("PUT", reward, json={"reward": 1}), 410, "forgotten-decision")
    problem(ask("PUT", "/v1/agents/x/decisions/99/reward", json={"reward": 1}), 404, "unknown-decision")
    assert ask("POST", "/v1/agents/x/arms", json={"arm": "c/d", "like": "a"}).json()["arms"] == ["a", "b", "c/d"]
    assert ask("DELETE", "/v1/agents/x/arms/c%2Fd").json()["active"] == ["a", "b"]
    file = ask("GET", "/v1/agents/x/file")
    assert ask("POST", "/v1/agents/y/file", content=file.content, headers=FILE).status_code == 201
    problem(ask("POST", "/v1/agents/y/file", content=file.content, headers=FILE), 409, "name-taken", "name")
    problem(ask("POST", "/v1/agents/z/file", content=file.content[:-1], headers=FILE), 422, "invalid-file")
    assert [a["name"] for a in ask("GET", "/v1/agents").json()["agents"]] == ["x", "y"]
    text = ask("GET", "/metrics").text
    assert 'taciturn_decisions_total{agent="x"} 3.0' in text
    assert 'taciturn_rewards_total{agent="x",outcome="corrected"} 2.0' in text
    assert ask("DELETE", "/v1/agents/x").status_code == 204
    problem(ask("GET", "/v1/agents/x"), 404, "unknown-agent")


def test_corrections_can_be_forbidden(web):
    ask = web()
    ask("POST", "/v1/agents", json=CREATE | {"corrections": False})
    ask("POST", "/v1/agents/x/decisions", json={"context": [1.0]})
    reward = "/v1/agents/x/decisions/0/reward"
    assert ask("PUT", reward, json={"reward": None}).status_code == 200  # silence: a reward may still follow
    assert [ask("PUT", reward, json={"reward": r}).status_code for r in (1, 1, 0, None)] == [200, 200, 409, 409]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "context"),
        ({"context": [1], "contexts": [[1]]}, "context"),
        ({"context": []}, "context"),
        ({"context": None}, "context"),
        ({"context": ["1"]}, "context[0]"),
        ({"context": [1, 2, 3]}, "context"),
        ({"context": [1e300, 1]}, "context"),
        ({"context": {"a": 1}}, "context"),
        ({"context": {"a": [1]}}, "context"),
        ({"context": {"indices": [0], "values": [1]}}, "context"),
        ({"context": {"indices": [0], "values": [1, 2], "size": 2}}, "context"),
        ({"context": {"indices": [2], "values": [1], "size": 2}}, "context"),
        ({"context": {"indices": [0.5], "values": [1], "size": 2}}, "context"),
        ({"context": {"indices": [0], "values": [1], "size": 1e30}}, "context"),
        ({"contexts": []}, "contexts"),
        ({"context": [1, 1], "neighbors": [5]}, "neighbors"),
        ({"contexts": [[1, 1]], "neighbors": [0]}, "neighbors"),
        ({"context": [1, 1], "allowed": ["nobody"]}, "allowed"),
        ({"context": [1, 1], "allowed": []}, "allowed"),
        ({"context": [1, 1], "request_id": ""}, "request_id"),
        ({"context": [1, 1], "more": 1}, None),
    ],
)
def test_invalid_request_names_its_field_and_changes_nothing(web, body, field):
    ask = web()
    ask("POST", "/v1/agents", json=CREATE)
    ask("POST", "/v1/agents/x/decisions", json={"context": [1, 2]})
    answer = ask("POST", "/v1/agents/x/decisions", json=body)
    problem(answer, 422, answer.json()["type"].partition("problem-")[2], field)
    assert ask("POST", "/v1/agents/x/decisions", json={"context": [1, 2]}).json()["id"] == 1


def test_bodies_have_the_declared_type_and_size(web):
    ask = web({"body": 100, "file": 50})
    plain = {"content-type": "text/plain"}  # what a page of another site can send without a preflight request
    problem(ask("POST", "/v1/agents", content=json.dumps(CREATE), headers=plain), 415, "wrong-type")
    as_json = {"content-type": "application/json; charset=utf-8"}
    for broken in (b"", b"{", b"\xff", b'{"name": "\xff"}', b"[" * 99):
        answer = ask("POST", "/v1/agents", content=broken, headers=as_json)
        problem(answer, answer.status_code, answer.json()["type"].partition("problem-")[2], answer.json().get("field"))
        assert answer.status_code in (400, 422)
    problem(ask("POST", "/v1/agents", content=b" " * 101, headers=as_json), 413, "too-large")

    async def endless():
        while True:
            yield b" " * 60

    problem(ask("POST", "/v1/agents", content=endless(), headers=as_json), 413, "too-large")
    problem(ask("POST", "/v1/agents/x/file", content=b" " * 51, headers=FILE), 413, "too-large")


def test_every_limit_is_enforced(web):
    limits = {"dimension": 3, "batch": 2, "edges": 2, "arms": 2, "agents": 1, "pending": 2, "waiting": 1, "nodes": 100}
    ask = web(limits)
    problem(ask("POST", "/v1/agents", json=CREATE | {"arms": 3}), 422, "validation-error", "arms")
    for name in ("../x", "x\n", "", "X", "x" * 65):
        problem(ask("POST", "/v1/agents", json=CREATE | {"name": name}), 422, "validation-error", "name")
    problem(ask("POST", "/v1/agents/X/file", content=b"", headers=FILE), 422, "validation-error", "name")
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201
    problem(ask("POST", "/v1/agents", json=CREATE | {"name": "y"}), 429, "limit-exceeded")
    problem(ask("POST", "/v1/agents/x/arms", json={"arm": "c"}), 429, "limit-exceeded")
    decisions = "/v1/agents/x/decisions"
    problem(ask("POST", decisions, json={"contexts": [{"a": 1}] * 3}), 422, "validation-error", "contexts")
    problem(ask("POST", decisions, json={"context": [0] * 4}), 422, "validation-error", "context")
    answer = ask("POST", decisions, json={"context": {"a": 1}, "neighbors": [0] * 3})
    problem(answer, 422, "validation-error", "neighbors")
    assert ask("POST", decisions, json={"context": {"a": 1, "b": 1}}).status_code == 200
    problem(ask("POST", decisions, json={"context": {"c": 1, "d": 1}}), 422, "validation-error", "context")
    assert ask("POST", decisions, json={"context": {"c": 1}}).status_code == 200
    assert ask("GET", decisions + "/0").json()["state"] == "pending"
    assert ask("POST", decisions, json={"context": {"a": 1}}).status_code == 200
    assert [ask("GET", f"{decisions}/{id}").json()["state"] for id in range(3)] == ["silent", "pending", "pending"]
    problem(ask("PUT", "/v1/agents/x/rewards", json=[{"id": 0, "reward": 0}] * 3), 422, "validation-error")


def test_request_that_times_out_in_the_queue_is_not_carried_out(web):
    ask = web({"seconds": 0.05, "waiting": 1})
    ask.service.put("x", Job(Create("x", 2, "linucb"), created := Future()))
    created.result(10)
    hold, held = threading.Event(), threading.Event()
    ask.service.put("x", Job(lambda _: (held.set(), hold.wait()), Future()))
    assert held.wait(10)
    decide = ("POST", "/v1/agents/x/decisions", {"json": {"context": [1.0]}})
    statuses = sorted(answer.status_code for answer in ask.together([decide] * 3))
    assert statuses == [429, 429, 503]
    hold.set()
    ask.service.limits = Limits()  # with a longer timeout
    assert ask.service.call("x", lambda session: session.agent.health().decisions) == 0


def test_unforeseen_error_is_a_number_and_a_line_in_the_log(web, monkeypatch, caplog):
    ask = web()
    monkeypatch.setattr(Service, "names", lambda _: 1 / 0)
    detail = problem(ask("GET", "/v1/agents"), 500, "internal")
    assert "ZeroDivisionError" not in detail
    assert detail.split()[1].strip(";") in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_every_answer_has_the_headers_and_without_keys_only_localhost_is_served(web):
    ask = web()
    for method, path in (("GET", "/docs"), ("GET", "/nothing"), ("PATCH", "/v1/agents"), ("GET", "/v1/agents/x")):
        answer = ask(method, path)
        assert {name.decode() for name, _ in HEADERS} | {"content-security-policy"} <= set(answer.headers)
    assert ask("PATCH", "/v1/agents").headers["allow"] == "GET, POST, HEAD"
    assert "http" not in ask("GET", "/docs").text.replace("over HTTP", "").replace("taciturn: HTTP", "")
    problem(ask("GET", "/v1/agents", headers={"host": "evil.example"}), 421, "wrong-host")
    assert ask("GET", "/v1/agents", headers={"host": "127.0.0.1:8000"}).status_code == 200
    assert web(keyring=KEYS)("GET", "/healthz", headers={"host": "taciturn.example"}).status_code == 200


def test_service_is_unavailable_during_recovery(web):
    ask = web()
    ask("POST", "/v1/agents", json=CREATE)
    ask.service.writable.clear()
    problem(ask("GET", "/readyz"), 503, "unavailable")
    problem(ask("POST", "/v1/agents/x/decisions", json={"context": [1]}), 503, "unavailable")
    assert ask("GET", "/healthz").status_code == 200
    assert ask("GET", "/v1/agents/x").status_code == 200, "reads go on"
    ask.service.writable.set()


def test_agent_that_could_never_decide_is_not_created(web):
    """gcnucb with 100 arms and 2048 hidden units was created, and its first decision took all memory."""
    ask = web()
    large = {"kind": "gcnucb", "arms": 100, "params": {"hidden": 2048}}
    for given in (large, {"kind": "linucb", "arms": 2, "params": {"memory_limit": 1}}):
        detail = problem(ask("POST", "/v1/agents", json={"name": "x", **given}), 422, "validation-error", "params")
        assert "this agent takes about" in detail
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201


def test_parameters_out_of_bounds_are_refused_and_others_serve(web):
    """An alpha of 1.7e308 made an agent whose first decision stopped all others."""
    ask = web()
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201
    answer = ask("POST", "/v1/agents", json={"name": "y", "kind": "linucb", "arms": 2, "params": {"alpha": 1.7e308}})
    assert "alpha=1.7e+308 is not allowed" in problem(answer, 422, "validation-error")
    assert ask("POST", "/v1/agents/x/decisions", json={"context": [1]}).status_code == 200


def test_all_agents_together_are_bounded(web):
    ask = web({"total_memory": 3_000_000, "nodes": 16})
    wide = {f"f{i}": 1.0 for i in range(200)}
    assert ask("POST", "/v1/agents", json=CREATE).status_code == 201
    assert ask("POST", "/v1/agents", json=CREATE | {"name": "y"}).status_code == 201
    assert ask("POST", "/v1/agents/x/decisions", json={"context": wide}).status_code == 200
    problem(ask("POST", "/v1/agents/y/decisions", json={"context": wide}), 429, "limit-exceeded")
    assert ask("POST", "/v1/agents/y/decisions", json={"context": {"a": 1.0}}).status_code == 200
    more = {f"g{i}": 1.0 for i in range(5000)}
    problem(ask("POST", "/v1/agents/y/decisions", json={"context": more}), 422, "validation-error", "context")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"context": {f"f{i}": 1 for i in range(4)}}, "context"),
        ({"contexts": [{"a": 1, "b": 1}, {"c": 1, "d": 1}]}, "contexts"),
    ],
)
def test_limit_on_features_applies_to_the_first_request_with_named_features(web, body, field):
    """The names of a batch used to be counted only for an agent that had some already."""
    ask = web({"dimension": 3})
    ask("POST", "/v1/agents", json=CREATE)
    problem(ask("POST", "/v1/agents/x/decisions", json=body), 422, "validation-error", field)
    assert ask("GET", "/v1/agents/x").json()["features"] == 0
    assert ask("GET", "/v1/agents/x/health").json()["decisions"] == 0
    sparse = {"indices": [0], "values": [1], "size": 3}  # whose keys are not names of features
    assert ask("POST", "/v1/agents/x/decisions", json={"contexts": [sparse, [1, 0, 0]]}).status_code == 200


def test_limit_on_features_applies_without_http(web):
    service = web({"dimension": 3}).service
    service.call("x", service.limits.bounded_create(Create("x", 2, "linucb")))
    with pytest.raises(TaciturnError, match="4 features; 3 are allowed"):
        service.call("x", Decide(DecideRequest({f"f{i}": 1.0 for i in range(4)})))
    assert service.call("x", lambda session: session.agent.health().decisions) == 0
