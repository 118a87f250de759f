"""Contexts on the page: values by name and in words, the columns of an agent, and the question of one right arm."""

import re
from html import unescape

from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from page_kit import page_app
from service_kit import MemoryJournal, Web
from taciturn.service.core.service import Service
from taciturn.service.web.context_words import MAX_WORDS, in_words

NOTE = "where is my parcel"
CONTEXT = {
    "age": 41,
    "country": "DE",
    "note": NOTE,
    "tags": ["late", "new"],
    "at": "2026-11-16T09:30",
    "since": "2020-02-29",
    "shop": {"kind": "a=b"},
    "v": [0.5, -2],
}
SHOWN = {
    "age": 41.0,
    "country": "DE",
    "tags": "late, new",
    "at": "2026-11-16 09:30",
    "since": "2020-02-29",
    "shop.kind": "a=b",
    "v[0]": 0.5,
    "v[1]": -2.0,
}


def pairs_of(agent, context):
    made = agent.decide(context)
    found = in_words(agent.decisions.context(made.id), agent.feature_names, agent.feature_kinds)
    assert [one.size for one in found] == sorted((one.size for one in found), reverse=True)
    return [(one.name, one.value) for one in found]


def words_of(agent, context):
    return dict(pairs_of(agent, context))


def test_a_context_is_shown_by_name_and_value_in_words():
    agent = taciturn.make("linucb", arms=2)
    shown = words_of(agent, CONTEXT)
    assert set(shown.pop("note").split(", ")) == set(NOTE.split())
    assert shown == SHOWN
    missing = words_of(agent, dict.fromkeys(CONTEXT, None) | {"age": 3, "shop": {"kind": None}})
    assert missing == {"age": 3.0} | dict.fromkeys(
        ["country", "note", "tags", "at", "since", "shop.kind", "v"], "missing"
    )
    long = words_of(agent, {"note": " ".join(f"w{number}" for number in range(40))})["note"]
    assert (long.count(","), long.endswith(" …")) == (MAX_WORDS - 1, True)


def test_a_context_by_position_is_shown_with_what_is_missing():
    assert words_of(taciturn.make("linucb", arms=2), [0.0, None, -3.0]) == {"1": "missing", "2": -3.0}


NAMES = st.text(st.sampled_from("a=:?.[]0"), min_size=1, max_size=4)


@settings(max_examples=100)
@given(context=st.dictionaries(NAMES, st.sampled_from([2.0, "x", "x=y", "a?"]), min_size=1, max_size=4))
def test_signs_in_names_and_words_are_told_apart(context):
    """Numbers are shown under their names; a word's column and value are told apart, or at least not lost."""
    shown = pairs_of(taciturn.make("linucb", arms=2), context)
    assert {pair for pair in shown if isinstance(pair[1], float)} == {
        pair for pair in context.items() if isinstance(pair[1], float)
    }
    words = [
        [f"{name}={value}" for name, value in pairs if isinstance(value, str)] for pairs in (shown, context.items())
    ]
    assert set(words[0]) == set(words[1])


def test_pages_show_contexts_columns_and_scale():
    service = Service(MemoryJournal())
    with Web(page_app(service)) as ask:
        ask("POST", "/v1/agents", json={"name": "x", "kind": "linucb", "arms": 2})
        empty = ask("GET", "/agents/x").text
        ask("POST", "/v1/agents/x/decisions", json={"context": CONTEXT | {"<b>": "<script>"}})
        agent, decision = ask("GET", "/agents/x").text, ask("GET", "/agents/x/decisions/0").text
        ask("POST", "/v1/agents", json={"name": "y", "kind": "linucb", "arms": 2, "params": {"scaling": "none"}})
        ask("POST", "/v1/agents/y/decisions", json={"context": [1, 2]})
        other = ask("GET", "/agents/y").text
    service.close()
    pairs = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", decision))
    plain = {unescape(name).replace("<wbr>", ""): unescape(value).replace("<wbr>", "") for name, value in pairs.items()}
    assert (plain["country"], plain["age"], plain["<b>"]) == ("DE", "41", "<script>")
    assert "<script>" not in pairs.values()
    columns = re.findall(r'<tr><th scope="row" class="name">([^<]*)</th><td>(\w+)</td></tr>', agent)
    assert ("country", "category") in columns
    assert ("note", "text") in columns
    assert "The first context settles" in empty
    assert "brought to a common scale" in agent
    assert "2 numbers without names" in other
    assert "Contexts are taken as they are" in other


def test_the_form_explains_one_right_arm_with_an_example_of_both():
    service = Service(MemoryJournal())
    with Web(page_app(service)) as ask:
        page = ask("GET", "/").text
    service.close()
    assert re.findall(r'name="one_right_arm" value="(\w+)"( checked)?', page) == [("yes", " checked"), ("no", "")]
    assert "which queue a ticket belongs to" in page
    assert "which of three articles gets a click" in page


# In a browser.


def test_a_text_and_words_are_tried_on_the_page(window, new_site):
    site = new_site(MemoryJournal())
    service = site.service
    window.open(site.url)
    window.until_seen("#create")
    window.type("#name", "desk")
    window.type("#arms", "a\nb")
    window.find('input[name="one_right_arm"][value="no"]').click()
    window.find("#create [type=submit]").click()
    window.until(lambda: window.driver.current_url.endswith("/agents/desk"), "the new agent was never shown")
    window.until_seen("#fact-decisions")
    assert service.call("desk", lambda session: session.agent.one_right_arm) is False
    contexts = ("age = 41\ncountry = DE\nnote = where is it\nvip = true\nzip =", '{"age": 2, "tags": ["new"]}')
    for id, typed in enumerate(contexts):
        window.type("#context", typed)
        window.find("#try [type=submit]").click()
        window.until_text("#tried", f"Decision {id}:")
    window.until_text("#tried .features", "tags")
    kinds = service.call("desk", lambda session: dict(session.agent.feature_kinds))
    assert kinds == {"age": "number", "country": "category", "note": "text", "vip": "number", "tags": "tags"}
