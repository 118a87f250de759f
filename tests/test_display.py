"""What people see in a shell or notebook: short, escaped, and public names only."""

import ast
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from oracles.zoo import AGENTS, ARMS, contexts
from rewards_kit import graded_data
from taciturn.agents.base import BaseAgent
from taciturn.client import RemoteAgent
from taciturn.client.connection import Connection
from taciturn.experiments.checks import toy_data

MAX_LINES, MAX_LINE = 14, 400
TAGS = {"div", "strong", "table", "tr", "th", "td"}
STYLES = {
    "line-height",
    "border-collapse",
    "margin",
    "text-align",
    "padding",
    "border",
    "background",
}  # none of which has a colour of its own, so that light and dark pages both show it

weird_text = st.one_of(
    st.text(),
    st.text(max_size=20).map(lambda text: f"<script>{text}</script>"),
    st.text(min_size=1, max_size=9).map(lambda text: text * 500),
    st.sampled_from(["a\nb", "\x1b[31mred", "&lt;", "\ud800", "\u202edrawkcab", '" onclick="x', "ß漢字🙂", "http://x"]),
)
weird_names = st.lists(
    st.one_of(
        weird_text, st.integers(), st.tuples(weird_text, st.integers()), st.integers(200, 400).map(lambda n: 2**n)
    ),
    min_size=2,
    max_size=12,
    unique_by=lambda name: (hash(name), str(name)),
).filter(lambda names: len(set(names)) == len(names))


class Reader(HTMLParser):
    """Collects the text of HTML, and refuses all tags and attributes that are not needed for a table."""

    def __init__(self):
        super().__init__()
        self.text, self.open = [], []

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS
        self.open.append(tag)
        for name, value in attributes:
            assert name == "style"
            assert {rule.partition(":")[0] for rule in value.split(";")} <= STYLES

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def handle_comment(self, data):
        raise AssertionError(data)


def read(html):
    """The text of a piece of HTML that is closed, harmless and without colours."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return " ".join(reader.text)


def check_shown(thing):
    """The repr is a few lines that any terminal can print; the HTML is harmless, and short too."""
    text, html = repr(thing), thing._repr_html_()
    assert len(text.splitlines()) <= MAX_LINES
    assert max(map(len, text.splitlines())) <= MAX_LINE
    assert all(character.isprintable() or character == "\n" for character in text)
    assert len(html) < 10_000
    html.encode()
    return text, read(html)


def everything_shown(names):
    """One of everything that shows itself, with arms of these names."""
    agent = taciturn.LinUCB(arms=names)
    agent.warm_start(np.eye(2), names[:2])
    decisions = [agent.decide(x) for x in np.eye(2) + 0.1]
    agent.feedback(decisions[0].id, 1)
    agent.feedback(decisions[1].id, None)
    y = np.arange(3 * len(names)) % len(names)
    data = taciturn.Dataset(str(names[0]), sp.csr_matrix(np.ones((len(y), 2))), y, names, source=str(names[1]))
    stream = taciturn.Stream(data, missing=0.5)
    trace = taciturn.evaluate(taciturn.LinUCB(arms=names), stream)
    return [agent, *decisions, agent.explain(decisions[1].id), agent.health(), agent.decisions, data, stream, trace]


@settings(max_examples=40)
@given(weird_names)
def test_everything_is_short_and_escaped_whatever_the_arms_are_called(names):
    for thing in everything_shown(names):
        check_shown(thing)


def test_ten_thousand_arms_are_counted_and_the_first_few_named():
    agent = taciturn.LinUCB(arms=[f"arm {k}" for k in range(10_000)])
    decision = agent.decide([1.0])
    for thing in (agent, decision, agent.explain(decision.id), agent.health(), agent.decisions):
        check_shown(thing)
    assert "10000: 'arm 0', 'arm 1', 'arm 2', 'arm 3', 'arm 4', …" in repr(agent)


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_shows_its_class_arms_changed_settings_features_and_decisions(name):
    agent = AGENTS[name](arms=ARMS, seed=7, epsilon=0.25, scaling="none")  # naive Bayes takes no negative features
    assert "none yet" in repr(agent)
    X = contexts(8)
    agent.warm_start(X[:3], ARMS)
    ids = [agent.decide(x).id for x in X[3:]]
    agent.feedback(ids[0], 1)
    agent.feedback(ids[1], None)
    text, html = check_shown(agent)
    for shown in (text, html):
        assert shown.startswith(type(agent).__name__)
        assert "3: 'left', 'middle', 'right'" in shown
        assert "seed=7" in shown
        assert "epsilon=0.25" in shown
        assert "ties" not in shown  # it has its default
        assert "3 pending, 1 rewarded, 1 silent, 3 labelled" in shown
        assert f"{X.shape[1]} by position" in shown


def test_an_agent_says_how_many_arms_are_retired_and_of_which_kinds_the_columns_are():
    agent = taciturn.LinUCB(arms=ARMS)
    agent.decide({"late": 1.0, "age": 41, "country": "DE", "note": "where is my parcel", "tags": ["web"]})
    agent.retire_arm("left")
    assert "(1 retired)" in repr(agent)
    assert f"{agent.n_features} of 2 numbers, 1 category, 1 text, 1 tags" in repr(agent)
    assert re.search(r"settings +defaults", repr(agent))


def test_an_agent_of_a_user_is_shown_the_same_way_unless_it_has_a_repr_of_its_own():
    @dataclass(kw_only=True, eq=False)
    class Settings:
        """Parameters that are shared by some agents."""

        gain: float = 1.0

    @dataclass(kw_only=True, eq=False)
    class Mine(Settings, taciturn.LinUCB):
        """An agent of mine."""

        def __repr__(self):
            return "mine"

    @dataclass(kw_only=True, eq=False)
    class Plain(Settings, taciturn.LinUCB):
        """Another."""

    @dataclass(kw_only=True, eq=False)
    class Child(Mine):
        """A kind of mine."""

    assert repr(Mine(arms=2)) == repr(Child(arms=2)) == "mine"
    assert repr(Plain(arms=2, gain=2.0)).startswith("Plain")
    assert "gain=2.0" in repr(Plain(arms=2, gain=2.0))


def test_a_trace_shows_accuracy_silence_and_the_best_constant_arm():
    stream = taciturn.Stream(toy_data(), missing=0.4, seed=0)
    trace = taciturn.evaluate(taciturn.LinUCB(arms=stream.arms), stream)
    arm, share = trace.best_constant_arm
    assert (arm, share) == stream.best_constant_arm
    text, html = check_shown(trace)
    for shown in (text, html):
        assert f"87 steps, {100 * trace.accuracy:.1f} % right" in shown
        assert "35 steps" in shown  # are silent
        assert f"{arm!r}, {100 * share:.1f} %" in shown


def test_a_trace_of_graded_rewards_shows_their_mean_and_the_regret():
    stream = taciturn.Stream(graded_data(), missing=0.4, seed=0)
    trace = taciturn.evaluate(taciturn.LinUCB(arms=stream.arms, one_right_arm=False), stream)
    arm, mean = stream.best_constant_arm
    for shown in check_shown(trace):
        assert f"60 steps, mean reward {trace.mean_reward:.3f}" in shown
        assert f"{arm!r}, reward {mean:.3f}" in shown
        assert f"{trace.regret:.1f}" in shown
        assert "%" not in shown


def test_an_explanation_lists_its_neighbors_in_html():
    agent = taciturn.LinUCB(arms=ARMS)
    agent.warm_start(np.ones((2, 2)), ["left", "right"])
    found = agent.explain(agent.decide([1.0, 1.0]).id)
    text, html = check_shown(found)
    assert text == str(found)
    assert "supporting" in html
    assert "opposing" in html


def test_a_health_shows_what_is_known_and_leaves_out_what_is_not():
    agent = taciturn.LinUCB(arms=ARMS, silence=0.5)
    text, _ = check_shown(agent.health())
    assert "calibration" not in text
    for x in np.eye(3):
        id = agent.decide(x).id
        agent.feedback(id, None)
        agent.feedback(id, 1)
    text, html = check_shown(agent.health())
    for shown in (text, html):
        assert "3 late" in shown
        assert "over 3 late rewards" in shown
        assert "100.0 %" in shown


def test_an_agent_of_a_service_shows_its_name_kind_and_arms_and_no_key():
    about = {"name": "<shop>", "kind": "viewucb", "params": {}, "arms": ARMS, "active": ARMS}
    agent = RemoteAgent(Connection("http://me:swordfish@x:1", "swordfish", patience=0, timeout=1), about)
    for shown in check_shown(agent):
        assert shown.startswith("RemoteAgent <shop> at http://x:1")
        assert "viewucb" in shown
        assert "3: 'left'" in shown
        assert "swordfish" not in shown


# Tab completion.


def test_the_package_completes_to_its_public_names_and_all_of_them_exist():
    assert set(dir(taciturn)) == {*taciturn.__all__, "__version__"}
    for name in taciturn.__all__:
        assert getattr(taciturn, name) is not None
    assert set(dir(taciturn)) == {*taciturn.__all__, "__version__"}  # also once everything is loaded


def test_type_checkers_see_the_names_that_are_loaded_lazily():
    tree = ast.parse(Path(taciturn.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(imported) == set(taciturn.__all__)
    assert {name: imported[name] for name in taciturn._MODULES} == taciturn._MODULES


def test_objects_complete_to_public_names_and_to_all_of_them():
    for thing in everything_shown(ARMS):
        names = dir(thing)
        assert not [name for name in names if name.startswith("_")]
        public = {name for kind in type(thing).__mro__ for name in vars(kind) if not name.startswith("_")}
        assert public <= set(names)


def test_an_agent_completes_to_verbs_and_parameters():
    assert {"decide", "feedback", "explain", "alpha", "seed", "arms"} <= set(dir(taciturn.LinUCB(arms=2)))
    assert {"plot", "accuracy", "rewards"} <= set(dir(everything_shown(ARMS)[-1]))


def test_a_base_agent_is_abstract_still():
    with pytest.raises(TypeError, match="abstract"):
        BaseAgent(arms=2)
