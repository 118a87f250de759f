"""Views of the page from several services."""

import asyncio
from contextlib import closing

from service_kit import MemoryJournal
from taciturn.service.core.operations import Create, Decide, DecideRequest, Reward
from taciturn.service.core.service import Service
from taciturn.service.web.latency import Latencies
from taciturn.service.web.rendering import list_of_agents
from taciturn.service.web.views import Views


def service_with(*names):
    """A service with agents that have decided, not over HTTP: its pages show no latencies, which are never the same."""
    service = Service(MemoryJournal(), clock=lambda: 5.0)
    for name in names:
        service.call(name, Create(name, ["a", "b", 3], "linucb"))
        for late in (0.0, 0.5, 1.0):
            service.call(name, Decide(DecideRequest(context={"late": late})))
        service.call(name, Reward(0, 1.0))
    return service


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
