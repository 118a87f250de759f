"""Text in, the arm out: routing, reasons, thumbs, sessions, and restarts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router_kit import SHOP, Clock, running, shop
from service_kit import MemoryJournal
from taciturn.errors import TaciturnError
from taciturn.router import sessions
from taciturn.router.setup import Changes
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.core.operations import Create
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key
from taciturn.service.journal.snapshots import Snapshots


@pytest.fixture(scope="module")
def router(tmp_path_factory):
    """A router that the tests below share; each uses sessions and texts of its own."""
    with running(tmp_path_factory.mktemp("router")) as router:
        yield router


def test_a_text_goes_where_its_nearest_examples_do_and_says_which(router):
    answer = router.route("I was charged twice, give my money back")
    assert answer["arm"] == "refunds"
    assert answer["propensity"] == 1
    assert answer["scores"]["refunds"] == max(answer["scores"].values())
    texts = [reason["text"] for reason in answer["because"]]
    assert len(texts) == 3 and set(texts) <= set(SHOP["refunds"])
    assert answer["words"].startswith("sent to refunds because of these three: “")
    assert all(f"“{text}” (an example of refunds)" in answer["words"] for text in texts)
    why = router.why(answer["id"])
    assert (why["arm"], why["text"], why["state"]) == ("refunds", "I was charged twice, give my money back", "pending")
    assert why["words"].startswith("sent to refunds because of these three: “")


def test_what_got_thumbs_speaks_for_later_texts(router):
    text = "my drone bought here explodes, reimburse it"
    first = router.route(text)
    assert router.feedback(id=first["id"], rating="up") == {"id": first["id"], "reward": 1.0, "outcome": "taken"}
    (reason, *_) = router.route(text)["because"]
    assert reason["text"] == text
    assert (reason["id"], reason["outcome"]) == (first["id"], "thumbs up")


def test_a_thumb_down_moves_a_text_to_another_arm(router):
    text = "quokka quokka quokka"
    first = router.route(text)
    router.feedback(id=first["id"], rating="down")
    assert router.route(text)["arm"] != first["arm"]


def test_a_request_id_is_answered_once(router):
    first = router.route("where did it go", request_id="r1")
    again = router.route("where did it go", request_id="r1")
    assert (again["id"], again["arm"]) == (first["id"], first["arm"])
    assert router.route("something else", 409, request_id="r1")["field"] == "request_id"
    assert router.feedback(message_id="r1", rating="like")["id"] == first["id"]


def test_a_session_stays_with_its_decision_and_its_thumbs_reach_it(router):
    first = router.route("the parcel is late", session="s1")
    later = router.route("I forgot my password", session="s1")
    assert not first["sticky"]
    assert later["sticky"]
    assert (later["id"], later["arm"], later["propensity"]) == (first["id"], first["arm"], first["propensity"])
    assert router.route("I forgot my password", session="s2")["arm"] == "account"
    assert router.feedback(chat_id="s1", rating=1)["id"] == first["id"]


def test_a_thumb_on_any_turn_of_a_session_reaches_its_decision_by_the_id_of_the_turn(router):
    first = router.route("the parcel is late", session="t1", request_id="t1-1")
    later = router.route("is it?", session="t1", request_id="t1-2")
    assert (later["id"], later["sticky"]) == (first["id"], True)
    for name in ("t1-1", "t1-2"):
        assert router.feedback(message_id=name, rating="like")["id"] == first["id"]


def test_a_request_id_within_a_session_is_answered_once_too(router):
    first = router.route("the parcel is late", session="t2", request_id="t2-1")
    second = router.route("is it?", session="t2", request_id="t2-2")
    assert router.route("the parcel is late", session="t2", request_id="t2-1") == first
    assert router.route("is it?", session="t2", request_id="t2-2") == second
    for name in ("t2-1", "t2-2"):
        for text, session in (("another text", "t2"), ("is it?", None), ("the parcel is late", "t3")):
            assert router.route(text, 409, session=session, request_id=name)["field"] == "request_id"


def test_a_thumb_for_a_withdrawn_decision_goes_to_that_of_its_session_which_came_after(router):
    first = router.route("the parcel is late", session="t4", request_id="t4-1")
    router.route("is it?", session="t4", request_id="t4-2")
    assert router.web("DELETE", f"/v1/agents/shop/decisions/{first['id']}").status_code == 204
    for name in ("t4-1", "t4-2"):
        assert router.feedback(410, message_id=name, rating="like")["status"] == 410
    after = router.route("the parcel is late", session="t4")
    assert after["id"] != first["id"]
    for name in ("t4-1", "t4-2"):
        assert router.feedback(message_id=name, chat_id="t4", rating="like")["id"] == after["id"]


def test_so_many_requests_that_stayed_are_known_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_STAYED", 3)
    with running(tmp_path) as router:
        first = router.route("the parcel is late", session="s")
        for i in range(5):
            router.route("is it?", session="s", request_id=f"r{i}")
        router.feedback(404, message_id="r1", rating="like")
        assert router.feedback(message_id="r2", rating="like")["id"] == first["id"]
        assert router.feedback(message_id="r1", chat_id="s", rating="like")["id"] == first["id"]


def test_two_first_texts_of_a_session_at_once_are_one_decision(router):
    requests = [("POST", "/v1/route", {"json": {"text": text, "session": "both"}}) for text in ("late", "no password")]
    answers = [answer.json() for answer in router.web.together(requests)]
    assert len({(answer["id"], answer["arm"]) for answer in answers}) == 1
    assert sorted(answer["sticky"] for answer in answers) == [False, True]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": ""}, 422),
        ({"text": " \n"}, 422),
        ({"text": 5}, 422),
        ({"text": None}, 422),
        ({"text": "x" * 50_001}, 422),
        ({"txt": "hello"}, 422),
        ({"text": "hello", "session": ""}, 422),
        ({"text": "hello", "session": "s" * 129}, 422),
        ({"text": "hello", "sent": "refunds"}, 422),
        (["hello"], 422),
        ({}, 422),
    ],
)
def test_a_wrong_request_is_refused(router, body, status):
    answer = router.web("POST", "/v1/route", json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_texts_of_every_kind_are_routed(router):
    for text in (
        "é" * 5000,
        "NA",
        "null",
        "?",
        "5",
        "2026-01-01",
        "\u200b",
        "🦊🦊",
        "x" * 50_000,
        "\u0000",
        "<script>alert(1)</script>",
        "١٢٣",
    ):
        assert router.route(text)["arm"] in SHOP
    assert router.web("POST", "/v1/route", content=b'{"text": "\\ud800"}', headers=_JSON).status_code in {400, 422}
    assert router.web("POST", "/v1/route", content=b"{", headers=_JSON).status_code == 400
    assert router.web("POST", "/v1/route", content=b'{"text": "a"}').status_code == 415


_JSON = {"content-type": "application/json"}


def test_decisions_that_there_are_not(router):
    assert router.web("GET", "/v1/route/99999").status_code == 404
    assert router.web("GET", "/v1/route/x").status_code == 404
    assert router.feedback(404, id=99999, rating="up")["title"] == "There is no such decision"
    assert router.feedback(404, session="never", rating="up")["title"] == "There is no such decision"
    assert router.feedback(409, id=0, rating="up")["title"] == "The feedback cannot be changed"  # an example


def test_an_example_can_be_asked_about_too(router):
    why = router.why(0)
    assert (why["arm"], why["text"], why["state"]) == ("refunds", "I want my money back", "labelled")


def test_a_decision_of_the_service_itself_is_explained_without_its_text(router):
    made = router.web("POST", "/v1/agents/shop/decisions", json={"context": {"other": "where is my parcel"}}).json()
    assert router.why(made["id"])["text"] is None


def test_keys_hold_for_the_router_too(tmp_path):
    keyring = Keyring([Key("r", digest("taciturn_r"), "read"), Key("w", digest("taciturn_w"), "write")])
    with running(tmp_path, keyring=keyring) as router:
        assert router.web("POST", "/v1/route", json={"text": "hello"}).status_code == 401
        headers = {"authorization": "Bearer taciturn_r"}
        assert router.web("POST", "/v1/route", json={"text": "hello"}, headers=headers).status_code == 403
        headers = {"authorization": "Bearer taciturn_w"}
        assert router.web("POST", "/v1/route", json={"text": "hello"}, headers=headers).status_code == 200


def test_without_examples_every_arm_is_tried_and_thumbs_teach(tmp_path):
    with running(tmp_path, {"name": "shop", "arms": {"a": None, "b": None, "c": None}}) as router:
        first = router.route("where is my parcel")
        assert first["because"] == []
        assert first["words"].endswith("so it is tried")
        assert {first["arm"]} | {router.route(f"text {i}")["arm"] for i in range(2)} == {"a", "b", "c"}
        router.feedback(id=first["id"], rating="up")
        again = router.route("where is my parcel")
        assert again["arm"] == first["arm"]
        assert again["words"].startswith(f"sent to {first['arm']} because of this one: “where is my parcel”")


def test_random_choices_have_their_probability(tmp_path):
    with running(tmp_path, shop(explore=0.3)) as router:
        made = [router.route("I want my money back") for _ in range(20)]
    for answer in made:
        assert answer["propensity"] == pytest.approx(0.8 if answer["arm"] == "refunds" else 0.1)
    assert len({answer["arm"] for answer in made}) > 1


def test_a_router_whose_agent_is_deleted_says_so_everywhere(tmp_path, caplog):
    with running(tmp_path) as router:
        assert router.web("GET", "/router").status_code == 200
        assert router.web("DELETE", "/v1/agents/shop").status_code == 204
        page = router.web("GET", "/router")
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "there is no agent &#39;shop&#39;" in page.text
        assert router.web("GET", "/router/arms.json").status_code == 404
        assert router.route("the parcel is late", 404)["title"] == "There is no such agent"
        assert router.feedback(404, message_id="m", rating="up")["title"] == "There is no such agent"
    assert not [record for record in caplog.records if record.exc_info]


# Restarts, and files that change.


@pytest.mark.parametrize("with_snapshots", [False, True])
def test_after_a_restart_all_is_as_it_was(tmp_path, with_snapshots):
    journal, clock = MemoryJournal(), Clock()
    snapshots = Snapshots(tmp_path / "snapshots") if with_snapshots else None
    options = {"clock": clock, "snapshots": snapshots}
    with running(tmp_path, journal=journal, **options) as router:
        assert router.changes == Changes(created=True, added=[], retired=[], taught=9, withdrawn=0)
        first = router.route("the parcel is late", session="s", request_id="r")
        router.feedback(id=first["id"], rating="up")
        why = router.why(first["id"])
    if with_snapshots:  # what is remembered comes from the snapshot, not from the entries before it
        journal.records = [record._replace(body=b"{}") for record in journal.records]
    with running(tmp_path, journal=journal, **options) as router:
        assert router.changes == Changes(created=False, added=[], retired=[], taught=0, withdrawn=0)
        assert router.why(first["id"]) == why
        assert router.route("anything", session="s")["id"] == first["id"]
        assert router.route("the parcel is late", session="s2", request_id="r", status=409)
        assert router.feedback(request_id="r", reward=0)["outcome"] == "corrected"
        assert router.agent(lambda session: session.health())["labelled"] == 9
        clock.now += 3600
        assert router.route("anything", session="s")["id"] != first["id"]


def test_every_prefix_of_the_journal_is_taught_up_to_the_file_and_each_example_once(tmp_path):
    """Killed half-way through its first start, a router learns the rest of the examples at the next."""
    journal = MemoryJournal()
    with running(tmp_path, journal=journal):
        pass
    cut = MemoryJournal()
    cut.records = journal.records[:1]  # the agent is there, its examples are not
    with running(tmp_path, journal=cut) as router:
        assert router.changes.taught == 9
        assert router.agent(lambda session: session.health())["labelled"] == 9


def test_a_changed_file_changes_the_agent_and_nothing_else(tmp_path):
    journal = MemoryJournal()
    with running(tmp_path, journal=journal) as router:
        made = router.route("I want my money back now", session="s")
        assert made["arm"] == "refunds"
    changed = shop(refunds={"examples": [*SHOP["refunds"][1:], "reimburse me"]})
    del changed["arms"]["account"]
    changed["arms"]["human"] = {"examples": ["let me talk to a person"]}
    with running(tmp_path, changed, journal) as router:
        expected = Changes(created=False, added=["human"], retired=["account"], taught=2, withdrawn=4)
        assert router.changes == expected
        answer = router.route("a person please, let me talk to someone")
        assert answer["arm"] == "human"
        assert answer["scores"].keys() == {"refunds", "delivery", "human"}
        assert router.route("I forgot my password")["arm"] != "account"
        assert router.route("more", session="s")["id"] == made["id"]
        reasons = [reason["text"] for reason in router.route("I want my money back")["because"]]
        assert SHOP["refunds"][0] not in reasons
    with running(tmp_path, journal=journal) as router:
        assert router.changes == Changes(created=False, added=["account"], retired=["human"], taught=4, withdrawn=2)
        assert router.route("I forgot my password")["arm"] == "account"


def test_a_retry_is_not_sent_to_an_arm_that_is_gone(tmp_path):
    journal, changed = MemoryJournal(), shop()
    del changed["arms"]["account"]
    with running(tmp_path, journal=journal) as router:
        first = router.route("I forgot my password", request_id="r")
        assert first["arm"] == "account"
    with running(tmp_path, changed, journal) as router:
        retried = router.route("I forgot my password", request_id="r")
        assert retried["arm"] != "account"
        assert router.route("I forgot my password", request_id="r")["id"] == retried["id"] != first["id"]


@pytest.mark.parametrize("changed", [{"right": "several"}, {"silence_after": "1h"}, {"explore": 0.5}])
def test_what_cannot_change_under_a_router_is_refused(tmp_path, changed):
    journal = MemoryJournal()
    with running(tmp_path, journal=journal):
        pass
    with (
        pytest.raises(TaciturnError, match=f"{next(iter(changed))} was another"),
        running(tmp_path, shop(**changed), journal),
    ):
        pass


def test_an_agent_of_the_service_with_the_same_name_is_left_alone(tmp_path):
    journal = MemoryJournal()
    service = Service(journal)
    service.call("shop", service.limits.bounded_create(Create("shop", ["a", "b"])))
    service.close()
    with pytest.raises(TaciturnError, match="'shop' that is no router"), running(tmp_path, journal=journal):
        pass


def test_a_decision_without_thumbs_becomes_silent(tmp_path):
    clock = Clock()
    with running(tmp_path, shop(silence_after="10m"), clock=clock) as router:
        first = router.route("the parcel is late")
        clock.now += 601
        router.route("the parcel is here")
        assert router.why(first["id"])["state"] == "silent"
        assert router.feedback(id=first["id"], rating="up")["outcome"] == "taken"


def test_nothing_is_acknowledged_that_is_not_in_the_journal(tmp_path):
    journal = MemoryJournal()
    with running(tmp_path, journal=journal) as router:
        before = len(journal.records)
        journal.failing = 1
        router.route("the parcel is late", 503, session="s")
        assert len(journal.records) == before


# Observe mode.


def test_in_observe_mode_the_default_is_answered_and_the_choice_is_logged(tmp_path):
    with running(tmp_path, shop(mode="observe", default="account")) as router:
        answer = router.route("I want my money back", session="s")
        assert (answer["arm"], answer["would"], answer["propensity"]) == ("account", "refunds", 1)
        assert answer["words"].startswith("sent to refunds because of these three: “I want my money back”")
        for _ in range(5):  # whatever is learned, what is sent stays
            router.feedback(id=router.route("I want my money back")["id"], rating="down")
        answer = router.route("I want my money back", session="s")
        assert (answer["arm"], answer["would"], answer["sticky"]) == ("account", "refunds", False)
        answer = router.route("I want my money back", sent="delivery")
        assert (answer["arm"], answer["would"]) == ("delivery", "refunds")
        assert router.route("I want my money back", 422, sent="none")["field"] == "sent"


def test_what_was_observed_is_no_session_to_stay_with_and_its_thumbs_find_it(tmp_path):
    journal, observing = MemoryJournal(), shop(mode="observe", default="account")
    with running(tmp_path, journal=journal) as router:
        old = router.route("I want my money back", session="old")
    for _ in range(2):
        with running(tmp_path, observing, journal) as router:
            observed = router.route("I want my money back", session="s")
            assert router.feedback(session="s", rating="down")["id"] == observed["id"]
    with running(tmp_path, observing, journal) as router:
        assert router.feedback(session="s", rating="up")["id"] == observed["id"]
    for _ in range(2):  # also where the first start in the other mode had no requests
        with running(tmp_path, journal=journal) as router:
            assert router.feedback(session="s", rating="down")["id"] == observed["id"]
    with running(tmp_path, journal=journal) as router:
        first = router.route("I want my money back", session="s")
        assert (first["sticky"], first["arm"]) == (False, "refunds")
        assert not router.route("I want my money back", session="old")["sticky"]
        assert router.feedback(id=old["id"], rating="up")["outcome"] == "taken"
    with running(tmp_path, journal=journal) as router:
        assert router.route("and now?", session="s")["id"] == first["id"]


@pytest.mark.parametrize("content", ["{", "[]", '{"shop": 5}', '{"shop": {"observe": false, "since": 9999}}', None])
def test_without_the_note_of_its_mode_sessions_begin_anew(tmp_path, content):
    journal, note = MemoryJournal(), tmp_path / "mode.json"
    with running(tmp_path, journal=journal) as router:
        router.route("the parcel is late", session="s")
    note.unlink() if content is None else note.write_text(content)
    with running(tmp_path, journal=journal) as router:
        assert not router.route("the parcel is late", session="s")["sticky"]
        assert router.route("is it?", session="s")["sticky"]


# Stickiness, for any turns.


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(["s", "t", None]), st.integers(0, 2500), st.integers(0, 2)), max_size=12))
def test_a_turn_is_new_only_without_a_session_or_after_its_time(shared, turns):
    router, clock = shared
    clock.now += 10_000
    latest = {}
    for session, seconds, arm in turns:
        clock.now += seconds
        known = router.agent(lambda session: session.agent.next_id)
        answer = router.route(SHOP[list(SHOP)[arm]][0], session=session)
        made = latest.get(session) if session is not None else None
        stays = made is not None and clock.now < made["at"] + 3600
        assert answer["sticky"] == stays
        assert answer["id"] == (made["id"] if stays else known)
        assert answer["arm"] == (made["arm"] if stays else list(SHOP)[arm])
        if not stays:
            latest[session] = answer | {"at": clock.now}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    clock = Clock()
    with running(tmp_path_factory.mktemp("sticky"), clock=clock) as router:
        yield router, clock


def test_without_stickiness_every_turn_is_a_decision(tmp_path):
    with running(tmp_path, shop(session={"sticky": False})) as router:
        first, second = (router.route(text, session="s") for text in ("parcel is late", "I forgot my password"))
        assert (first["arm"], second["arm"]) == ("delivery", "account")
        assert router.feedback(session="s", rating="up")["id"] == second["id"]
