"""What the page shows of a decision: its context and its time, against the plain way to find them."""

import re
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from page_kit import page_app
from service_kit import MemoryJournal, Web
from taciturn.service.core.operations import Create, Decide, DecideRequest
from taciturn.service.core.service import Service
from taciturn.service.core.session import Session
from taciturn.service.web import decision_view
from taciturn.service.web.rendering import breakable, iso, when

values = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


def session_of(**params):
    session = Session()
    session.apply(Create("x", 2, "linucb", params))
    return session


def decide(session, context, at=None):
    (decision,) = session.apply(Decide(DecideRequest(context=context), at))
    return decision.id


@settings(max_examples=50)
@given(contexts=st.lists(st.dictionaries(st.text(min_size=1), values, min_size=1, max_size=40), min_size=1, max_size=4))
def test_named_features_are_shown_largest_first(contexts):
    session = session_of()
    for id in [decide(session, context) for context in contexts]:
        found, given = decision_view.capture(session, id), contexts[id]
        present = {name: value for name, value in given.items() if value}
        shown = dict(found["features"])
        assert len(found["features"]) == len(shown) == min(len(present), decision_view.MAX_FEATURES)
        assert len(shown) + found["more_features"] == len(present)
        assert all(present[name] == value for name, value in shown.items())
        sizes = [abs(value) for _, value in found["features"]]
        assert sizes == sorted(map(abs, present.values()), reverse=True)[: len(sizes)]
        assert found["named"]


@settings(max_examples=50)
@given(context=st.lists(values, min_size=1, max_size=60))
def test_features_by_position_have_their_number(context):
    session = session_of()
    found = decision_view.capture(session, decide(session, context))
    assert all(context[int(name)] == value for name, value in found["features"])
    assert len(found["features"]) + found["more_features"] == np.count_nonzero(context)
    assert not found["named"]


def test_time_of_a_decision_is_a_time_only_if_the_agent_keeps_times():
    counted, timed = session_of(), session_of(expire_after=60.0)
    for i in range(5):
        decide(counted, [1.0])
        decide(timed, [1.0], at=1000.0 + i)
    (row,) = timed.agent.warm_start([[1.0]], [0])
    found = [decision_view.capture(session, 3) for session in (counted, timed)]
    assert [(one["at"], one["nth"], one["of"]) for one in found] == [(None, 4, 5), (1003.0, None, 5)]
    labelled = decision_view.capture(timed, row)
    assert (labelled["at"], labelled["nth"]) == (None, None)


@given(seconds=st.integers(0, 4 * 10**9))
def test_times_are_shown_in_utc(seconds):
    assert datetime.fromisoformat(iso(seconds)) == datetime.fromtimestamp(seconds, UTC)
    assert datetime.strptime(when(seconds), "%Y-%m-%d %H:%M:%S %Z").replace(tzinfo=UTC).timestamp() == seconds


def test_a_time_that_is_none_is_a_dash():
    assert [when(seconds) for seconds in (np.nan, np.inf, -np.inf, 1e30)] == ["–"] * 4


@given(text=st.text())
def test_names_that_may_be_broken_are_escaped_and_complete(text):
    assert breakable(text).replace("<wbr>", "") == escape(text)


def test_names_are_broken_only_behind_signs():
    assert breakable("send_mail/to.all") == "send_<wbr>mail/<wbr>to.<wbr>all"
    assert breakable("plain words, and-more") == "plain words, and-more"


@pytest.mark.parametrize("timed", [False, True])
def test_the_page_of_a_decision(timed):
    service = Service(MemoryJournal(), clock=lambda: 1_800_000_000.0)
    with Web(page_app(service)) as ask:
        params = {"expire_after": 3600 if timed else None}
        ask("POST", "/v1/agents", json={"name": "x", "kind": "linucb", "arms": 2, "params": params})
        for context in ({"late": 1, "<i>": -3}, {"late": 0}):
            ask("POST", "/v1/agents/x/decisions", json={"context": context})
        first, second = (ask("GET", f"/agents/x/decisions/{id}").text for id in (0, 1))
        recent = ask("GET", "/agents/x").text
    service.close()
    time = '<time datetime="2027-01-15T08:00:00Z">2027-01-15 08:00:00 UTC</time>'
    assert (time in first, time in recent) == (timed, timed)
    assert ("Decision 1 of 2." in first) != timed
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", first) == [("&lt;i&gt;", "-3"), ("late", "1")]
    assert "All features are zero." in second
