"""Labelled rows are learned once, and what contexts said is remembered as long as their decisions are held."""

import pytest

from service_kit import MemoryJournal, Web
from taciturn.errors import TaciturnError
from taciturn.service.api.local import create_app
from taciturn.service.core import remembered as remembered_values
from taciturn.service.core.operations import Create, Decide, DecideRequest, Label, LabelledRow, Withdraw
from taciturn.service.core.remembered import MAX_CHARACTERS
from taciturn.service.core.service import Service
from taciturn.service.core.session import EVICTED
from taciturn.service.journal.snapshots import Snapshots

ROWS = [LabelledRow({"note": "late parcel", "who": "x"}, "a"), LabelledRow({"note": "no refund", "who": "y"}, "b")]


def create(service, **params):
    op = Create("x", ["a", "b"], "linucb", {"features": {"ignore": ["who"]}} | params, remember=["note", "who"])
    service.call("x", service.limits.bounded_create(op))


def decide(service, note):
    service.call("x", Decide(DecideRequest(context={"note": note, "who": "me"})))


def remembered(service):
    return service.call("x", lambda session: session.remembered.state_dict() | {"values": session.remembered.values})


def test_a_row_is_labelled_once_and_can_be_withdrawn():
    journal = MemoryJournal()
    service = Service(journal)
    create(service)
    service.call("x", Label(ROWS[:1]))
    service.call("x", Label([*ROWS, ROWS[0]]))
    labelled = lambda: service.call("x", lambda session: session.health()["labelled"])  # noqa: E731 - used twice
    assert labelled() == 2
    assert sorted(remembered(service)["labels"].values()) == [0, 1]
    service.call("x", Withdraw(0))
    assert list(remembered(service)["labels"].values()) == [1]
    service.call("x", Label(ROWS))
    assert labelled() == 2
    before = remembered(service)
    service.close()
    service = Service(journal)
    assert remembered(service) == before
    service.close()


def test_a_row_with_an_unknown_arm_changes_nothing():
    service = Service(MemoryJournal())
    create(service)
    with pytest.raises(TaciturnError):
        service.call("x", Label([ROWS[0], LabelledRow({"note": "what is this"}, "c")]))
    assert remembered(service)["labels"] == {}
    assert service.call("x", lambda session: session.health()["labelled"]) == 0
    service.close()


def test_what_is_remembered_is_bounded_and_survives_in_snapshots(tmp_path):
    journal, snapshots = MemoryJournal(), Snapshots(tmp_path)
    service = Service(journal, snapshots)
    create(service, max_nodes=20)
    service.call("x", Label(ROWS))
    for i in range(20 + 2 * EVICTED):
        decide(service, f"note {i} " + "long " * 300)
    values = remembered(service)["values"]
    held = service.call("x", lambda session: set(session.agent.decisions))
    assert held <= values.keys()
    assert len(values) <= 20 + EVICTED
    assert all(len(found["note"]) == MAX_CHARACTERS for found in values.values())
    assert len(remembered(service)["labels"]) == 2  # evicted, and what they taught is not learned again
    service.call("x", Label(ROWS))
    assert service.call("x", lambda session: session.agent.next_id) == 22 + 2 * EVICTED
    service.close()
    journal.records = [record._replace(body=b"{}") for record in journal.records]  # only the snapshot has it now
    service = Service(journal, snapshots)
    assert remembered(service)["values"] == values
    service.close()


def test_it_takes_a_bounded_share_of_the_memory_that_is_counted(monkeypatch):
    """What a stranger had remembered counted nowhere: sixteen columns of emojis took a gigabyte."""
    monkeypatch.setattr(remembered_values, "MAX_NBYTES", 50_000)
    journal = MemoryJournal()
    service = Service(journal)
    create(service)
    for i in range(100):
        decide(service, f"{i}" + "😀" * (i % 60))
    found = service.call("x", lambda session: session.remembered)
    sizes = [400 + 4 * sum(map(len, values.values())) for values in found.values.values()]
    assert 49_000 < found.nbytes == sum(sizes) <= 50_000
    assert list(found.values) == list(range(100 - len(sizes), 100)), "the oldest are forgotten"
    agent = service.call("x", lambda session: session.agent)
    assert service.memory_in_use() >= agent.memory_in_use() + 40_000
    service.close()
    service = Service(journal)
    assert service.call("x", lambda session: session.remembered.nbytes) == found.nbytes
    service.close()


def test_it_is_shown_with_explanations_over_http():
    service = Service(MemoryJournal())
    with Web(create_app(service)) as web:
        about = {"name": "x", "arms": ["a", "b"], "kind": "linucb", "remember": ["text"]}
        assert web("POST", "/v1/agents", json=about).status_code == 201
        web("POST", "/v1/agents/x/decisions", json={"context": "where is my parcel"})
        assert web("GET", "/v1/agents/x/decisions/0").json()["remembered"] == {"text": "where is my parcel"}
        too_many = about | {"name": "y", "remember": ["c"] * 17}
        assert web("POST", "/v1/agents", json=too_many).status_code == 422
    service.close()
