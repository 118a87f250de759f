"""The page around views and handlers that have no service at hand: all that they know of agents is text."""

import asyncio
import json
from contextlib import closing
from urllib.parse import urlencode

import pytest

from service_kit import MemoryJournal, Web
from taciturn.service.api.asgi import build_app
from taciturn.service.api.bodies import Budget
from taciturn.service.api.keys import Keyring
from taciturn.service.api.local import create_app
from taciturn.service.api.metrics import Metrics
from taciturn.service.core.operations import Create, Decide, DecideRequest, Reward
from taciturn.service.core.service import Service
from taciturn.service.web import add_page
from taciturn.service.web.forms import FORM
from taciturn.service.web.latency import Latencies
from taciturn.service.web.pages import Page
from taciturn.service.web.rendering import list_of_agents
from taciturn.service.web.views import Views


class ForwardedViews:
    """Views that pass on the parts as JSON, as from another process."""

    def __init__(self, service):
        self.latencies = Latencies()
        self._views = Views(service, self.latencies)

    async def agents(self):
        return list_of_agents([json.loads(json.dumps(await self._views.cards()))])

    async def agent(self, name):
        return json.loads(json.dumps(await self._views.agent(name)))

    async def decision(self, name, id):
        return json.loads(json.dumps(await self._views.decision(name, id)))


def service_with(*names):
    """A service with agents that have decided, not over HTTP: its pages show no latencies, which are never the same."""
    service = Service(MemoryJournal(), clock=lambda: 5.0)
    for name in names:
        service.call(name, Create(name, ["a", "b", 3], "linucb"))
        for late in (0.0, 0.5, 1.0):
            service.call(name, Decide(DecideRequest(context={"late": late})))
        service.call(name, Reward(0, 1.0))
    return service


@pytest.fixture
def both():
    """The application of a service with its page, and one that forwards to an equal service."""
    with closing(service_with("x", "y")) as near, closing(service_with("x", "y")) as far:
        local = create_app(near)
        add_page(local, near)
        limits, metrics, keyring, views = near.limits, Metrics(), Keyring(), ForwardedViews(far)
        handlers = create_app(far).handlers
        remote = build_app(handlers, keyring=keyring, limits=limits, metrics=metrics, budget=Budget(limits.in_flight))
        remote.router.routes.extend(Page(views, handlers, keyring=keyring, limits=limits).routes())
        with Web(local) as local_web, Web(remote) as remote_web:
            remote_web.latencies = views.latencies
            yield local_web, remote_web


PAGES = [
    *("/", "/agents/x", "/agents/none", "/agents/x/decisions/0", "/agents/x/decisions/9", "/agents/X"),
    *("/web/agents.json", "/web/agents/x/overview.json", "/web/agents/none/overview.json"),
    *("/web/agents/x/decisions/1.json", "/web/agents/x/decisions/one.json", "/web/static/page.js", "/web/static/none"),
]
FORMS = [
    ("x/arms", {"arm": "new", "like": "3"}),
    ("x/arms/retire", {"arm": "3"}),
    ("x/arms", {"arm": "3"}),
    ("x/arms/retire", {"arm": "b"}),
    ("x/arms", {"arm": "a"}),
    ("x/arms", {"arm": "n" * 201}),
    ("x/arms", {"arm": "other", "like": "none"}),
    ("x/arms", {"arm": ""}),
    ("none/arms", {"arm": ""}),
    ("x/arms/retire", {"arm": "none"}),
    ("none/arms/retire", {"arm": "a"}),
    ("y/delete", {"confirm": "x"}),
    ("y/delete", {"confirm": "y"}),
    ("y/delete", {"confirm": "y"}),
]


def answer(ask, *request, **more):
    found = ask(*request, **more)
    return found.status_code, found.headers, found.text


def test_forwarded_pages_and_forms_are_answered_as_local_ones(both):
    local, remote = both
    for page in PAGES:
        assert answer(remote, "GET", page) == answer(local, "GET", page)
    for form, fields in FORMS:
        for accept in ("application/json", "text/html"):  # the second says what the first has done
            headers = {"content-type": FORM, "accept": accept, "sec-fetch-site": "same-origin"}
            sent = {"content": urlencode(fields), "headers": headers}
            expected = answer(local, "POST", f"/agents/{form}", **sent)
            assert answer(remote, "POST", f"/agents/{form}", **sent) == expected
        assert answer(remote, "GET", "/v1/agents/x") == answer(local, "GET", "/v1/agents/x")
    assert remote("GET", "/v1/agents/x").json()["active"] == ["a", 3, "new"]
    assert remote("GET", "/v1/agents").json() == {"agents": [{"name": "x"}]}
    for page in PAGES:
        assert answer(remote, "GET", page) == answer(local, "GET", page)


def test_durations_are_measured_around_a_service_of_this_process_and_noted_by_others(both):
    local, remote = both
    assert "p99" not in local("GET", "/agents/x").text
    for ask in both:
        assert ask("POST", "/v1/agents/x/decisions", json={"context": {"late": 1.0}}).status_code == 200
    assert "p99" in local("GET", "/agents/x").text
    assert "p99" not in remote("GET", "/agents/x").text
    remote.latencies.note("x", 0.25)
    # A view is made anew only after new entries of its agent.
    assert remote("POST", "/v1/agents/x/decisions", json={"context": {"late": 1.0}}).status_code == 200
    assert "250.0 ms" in remote("GET", "/agents/x").text
    assert "250.0 ms" not in remote("GET", "/agents/y").text


def cards_of(*names):
    with closing(service_with(*names)) as service:
        return asyncio.run(Views(service, Latencies()).cards())


def test_cards_of_several_services_are_listed_as_those_of_one():
    first, second = cards_of("d", "b"), cards_of("c", "a")
    assert (list(first), list(second)) == (["b", "d"], ["a", "c"])
    with closing(service_with("a", "b", "c", "d")) as service:
        expected = asyncio.run(Views(service, Latencies()).agents())
    assert list_of_agents([first, second]) == list_of_agents([second, first]) == expected
    assert list_of_agents([first, second, {"b": first["b"]}]) == expected, "an agent that moved meanwhile is shown once"
    assert "No agent yet" in list_of_agents([{}, {}])["agents"]
