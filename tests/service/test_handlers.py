"""HTTP around handlers that have no service at hand: all that they know of agents goes through bytes."""

import re

import pytest

from service_kit import MemoryJournal, Web
from taciturn.service.api.asgi import build_app
from taciturn.service.api.bodies import Budget
from taciturn.service.api.keys import Keyring
from taciturn.service.api.local import create_app
from taciturn.service.api.metrics import Metrics
from taciturn.service.api.problems import Problem, problem_of
from taciturn.service.core.service import Service


class Forwarding:
    """Handlers that pass on parameters, bodies and problems as plain data, as to another process."""

    def __init__(self, handlers, metrics):
        self._handlers, self._metrics = handlers, metrics
        self.calls = []

    def __getattr__(self, name):
        async def forward(path, body):
            self.calls.append(name)
            assert all(isinstance(text, str) for pair in path.items() for text in pair)
            try:
                answer = await getattr(self._handlers, name)(dict(path), bytes(body))
            except Exception as error:  # noqa: BLE001 - as another process would
                found = problem_of(error)
                raise Problem(found.status, found.slug, found.detail, found.field) from None
            assert isinstance(answer, bytes)
            return answer

        return forward

    async def metrics(self, _, __):
        return self._metrics.text()


@pytest.fixture
def both():
    """A service, its own application, and one that forwards to the handlers of an equal service."""
    services = [Service(MemoryJournal(), clock=lambda: 5.0) for _ in range(2)]
    limits = services[0].limits
    budget = Budget(limits.in_flight)
    metrics = Metrics(budget=budget)
    handlers = Forwarding(create_app(services[1]).handlers, metrics)
    forwarding = build_app(handlers, keyring=Keyring(), limits=limits, metrics=metrics, budget=budget)
    with Web(create_app(services[0])) as local, Web(forwarding) as remote:
        remote.handlers = handlers
        yield local, remote
    for service in services:
        service.close()


REQUESTS = [
    ("POST", "/v1/agents", {"name": "x", "kind": "linucb", "arms": ["a", "b", 3]}),
    ("POST", "/v1/agents", {"name": "x", "arms": 2}),
    ("GET", "/v1/agents", None),
    ("GET", "/v1/agents/x", None),
    ("GET", "/v1/agents/none", None),
    ("POST", "/v1/agents/x/decisions", {"context": {"late": 1.0}}),
    ("POST", "/v1/agents/x/decisions", {"contexts": [{"late": 1.0}, {"late": 0.5}]}),
    ("POST", "/v1/agents/x/decisions", {"context": {"late": "?"}, "x": 1}),
    ("PUT", "/v1/agents/x/decisions/0/reward", {"reward": 1}),
    ("PUT", "/v1/agents/x/decisions/0/reward", {"reward": 7}),
    ("PUT", "/v1/agents/x/rewards", [{"id": 1, "reward": 1}, {"id": 99, "reward": 1}]),
    ("GET", "/v1/agents/x/decisions/0", None),
    ("GET", "/v1/agents/x/decisions/zero", None),
    ("DELETE", "/v1/agents/x/decisions/2", None),
    ("POST", "/v1/agents/x/arms", {"arm": "c/d", "like": 3}),
    ("DELETE", "/v1/agents/x/arms/c/d", None),
    ("GET", "/v1/agents/x/health", None),
    ("GET", "/v1/agents/x/file", None),
    ("DELETE", "/v1/agents/x", None),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/openapi.json", None),
    ("GET", "/docs", None),
    ("GET", "/nothing", None),
    ("PATCH", "/v1/agents", None),
]


def test_forwarded_requests_are_answered_as_local_ones(both):
    local, remote = both
    for method, path, body in REQUESTS:
        sent = {} if body is None else {"json": body}
        expected, found = (ask(method, path, **sent) for ask in (local, remote))
        assert (found.status_code, found.content) == (expected.status_code, expected.content), (method, path)
        assert found.headers == expected.headers
    file = {"content": b"no file", "headers": {"content-type": "application/octet-stream"}}
    assert local("POST", "/v1/agents/y/file", **file).content == remote("POST", "/v1/agents/y/file", **file).content
    assert set(remote.handlers.calls) == {
        *("decide", "reward", "rewards", "withdraw", "explain", "create", "agents", "agent", "delete"),
        *("add_arm", "retire_arm", "health", "save", "load", "alive", "ready"),
    }


def names(text):
    return set(re.findall(r"^# TYPE taciturn_(\S+)", text, re.MULTILINE))


def test_metrics_without_a_service_are_of_requests_only(both):
    local, remote = both
    for ask in both:
        ask("GET", "/v1/agents/none")
    forwarded, served = (ask("GET", "/metrics").text for ask in (remote, local))
    assert 'taciturn_request_seconds_count{method="GET",route="/v1/agents/{agent}",status="404"} 1.0' in forwarded
    assert "taciturn_in_flight_limit_bytes 5.12e+08" in forwarded
    assert names(forwarded) < names(served)
    assert names(served) - names(forwarded) >= {"ready", "journal_position", "agents", "decisions_total"}
    assert "taciturn_in" not in Metrics().text().decode()
