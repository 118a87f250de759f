"""The mean cost of decisions keeps to the budget, after any number of them."""

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_kit import SHOP, running, shop
from service_kit import MemoryJournal
from taciturn.router.budget import affordable
from taciturn.service.journal.repair import backup, restore
from taciturn.service.journal.sqlite import SQLiteJournal

COSTS = st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=5)


@given(COSTS, st.floats(0, 10), st.lists(st.integers(0, 99), max_size=30))
def test_the_total_is_never_ahead_by_more_than_one_decision_for_the_dearest_arm(prices, more, picks):
    costs = {f"arm {i}": price for i, price in enumerate(prices)}
    budget, counts = min(prices) + more, dict.fromkeys(costs, 0)
    for n, pick in enumerate(picks, 1):
        fitting = affordable(costs, counts, budget)
        counts[fitting[pick % len(fitting)]] += 1  # whatever the agent chooses among them
        total = sum(costs[arm] * counts[arm] for arm in costs)
        assert total <= n * budget + max(prices) + 1e-9


def test_what_is_saved_can_be_spent():
    costs = {"small": 1.0, "large": 10.0}
    assert affordable(costs, {"small": 0, "large": 0}, 2.0) == ["small", "large"]
    assert affordable(costs, {"small": 0, "large": 1}, 2.0) == ["small"]
    assert affordable(costs, {"small": 5, "large": 1}, 2.0) == ["small"]
    assert affordable(costs, {"small": 6, "large": 1}, 2.0) == ["small", "large"]


def priced():
    return shop(
        refunds={"cost": 10},
        delivery={"cost": 1},
        account={"cost": 2},
        budget={"per_decision": 2},
        session={"sticky": False},
    )


def total_of(arms):
    return sum({"refunds": 10, "delivery": 1, "account": 2}[arm] for arm in arms)


def test_a_router_keeps_to_its_budget_and_over_restarts_too(tmp_path):
    journal, arms = MemoryJournal(), []
    for _ in range(2):
        with running(tmp_path, priced(), journal) as router:
            for text in SHOP["refunds"] * 4:
                arms.append(router.route(text)["arm"])
                assert total_of(arms) <= 2 * len(arms) + 10
    assert arms.count("refunds") >= 2  # not only the first: what was saved is spent


def test_a_budget_is_kept_by_requests_at_once(tmp_path):
    asked = [("POST", "/v1/route", {"json": {"text": text}}) for text in SHOP["refunds"] * 4]
    with running(tmp_path, priced()) as router:
        arms = [answer.json()["arm"] for answer in router.web.together(asked)]
    assert "refunds" in arms
    assert total_of(arms) <= 2 * len(arms) + 10


def test_a_restored_router_has_spent_what_it_had_and_is_in_its_mode(tmp_path):
    """Also over a folder with the notes of another router."""
    old, new = tmp_path / "old", tmp_path / "new"
    content = priced() | {"session": {"sticky": True}}
    for folder in (old, new):
        folder.mkdir()
    with closing(SQLiteJournal(old / "journal.db")) as journal:
        for mode in ({"mode": "observe", "default": "refunds"}, {}):  # the budget begins after a few decisions
            with running(old, content | mode | {"budget": {"per_decision": 3 if mode else 2}}, journal) as router:
                spent = [router.route("I want my money back", session=f"{len(mode)}-{i}") for i in range(3)]
        backup(old / "journal.db", tmp_path / "backup")
    assert [made["arm"] == "refunds" for made in spent] == [True, False, False]
    notes = {name: (old / name).read_bytes() for name in ("budget.json", "mode.json")}
    (new / "budget.json").write_text("{}")
    restore(tmp_path / "backup", new / "journal.db")
    assert {name: (new / name).read_bytes() for name in notes} == notes
    with closing(SQLiteJournal(new / "journal.db")) as journal, running(new, content, journal) as router:
        turn = router.route("and now", session="0-0")
        assert (turn["sticky"], turn["id"]) == (True, spent[0]["id"])  # of the same mode
        assert not router.route("and now", session="2-0")["sticky"]  # of the mode before
        assert router.route("I want my money back")["arm"] != "refunds"  # it was spent before the backup


def test_what_is_decided_around_a_router_counts_as_spent(tmp_path):
    with running(tmp_path, priced()) as router:
        around = {"context": {"text": "I want my money back"}, "allowed": ["refunds"]}
        assert router.web("POST", "/v1/agents/shop/decisions", json=around).json()["arm"] == "refunds"
        assert router.route("I want my money back")["arm"] != "refunds"


def test_two_routers_in_a_folder_have_budgets_of_their_own(tmp_path):
    journal, first = MemoryJournal(), []
    for name in ("shop", "other", "shop", "other"):
        with running(tmp_path, priced() | {"name": name}, journal) as router:
            first.append(router.route("I want my money back")["arm"])
    assert [arm == "refunds" for arm in first] == [True, True, False, False]


def test_a_budget_begins_anew_with_other_costs(tmp_path):
    journal = MemoryJournal()
    with running(tmp_path, priced(), journal) as router:
        assert [router.route("I want my money back")["arm"] for _ in range(2)] != ["refunds", "refunds"]
    with running(tmp_path, priced() | {"budget": {"per_decision": 3}}, journal) as router:
        assert router.route("I want my money back")["arm"] == "refunds"


@pytest.mark.parametrize("content", ["{", "[]", '{"x": 5}', ""])
def test_a_damaged_file_of_the_budget_begins_it_anew(tmp_path, content):
    (tmp_path / "budget.json").write_text(content)
    with running(tmp_path, priced()) as router:
        assert router.route("I want my money back")["arm"] == "refunds"


def test_a_retry_costs_nothing(tmp_path):
    with running(tmp_path, priced()) as router:
        ids = {router.route("I want my money back", request_id="r")["id"] for _ in range(5)}
        assert len(ids) == 1
        assert sum(router.agent(lambda session: session.agent.times_chosen)) == 1
