"""Agents whose contexts move with their scale: evidence follows, and a file resumes bit for bit at any time."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import taciturn
from oracles.evidence import check_evidence
from oracles.histories import KINDS, feedback_at_random, named
from oracles.zoo import AGENTS, ARMS
from taciturn.agents import storage
from taciturn.agents.parts import neighbor_lists

STEPS = 70
"""Renewals are due at 2, 3, 4, 6, 9, 13, 19, 28, 42 and 63 contexts, and bins are opened at the first from 40 on."""


def what_was_decided(decision):
    return decision.id, decision.arm, decision.scores.tolist(), decision.widths.tolist()


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "named") for name in AGENTS] + [(name, "by position") for name in ("linucb", "rogcn", "gcnucb", "viewucb")],
)
def test_evidence_follows_the_scale_and_a_file_resumes_bit_for_bit(name, kind):
    """A and b are those of the rows as they are now, whatever was renewed, corrected and withdrawn in between."""
    rng, make = np.random.default_rng(1), KINDS[kind]
    agent = AGENTS[name](arms=ARMS, seed=1)
    agent.warm_start([make(rng, 0) for _ in range(3)], ARMS)
    ids, loaded = [], agent
    for step in range(STEPS):
        if step % 6 == 0:
            content = storage.dumps(agent)
            assert storage.dumps(loaded) == content
            loaded = storage.loads(content, "agent")
        context, near = make(rng, step), ids[-1:] if step % 5 == 0 else None
        one, other = (held.decide(context, near) for held in (agent, loaded))
        assert what_was_decided(one) == what_was_decided(other)
        ids.append(one.id)
        feedback_at_random(rng, (agent, loaded), ids)
        if step % 5 == 0:
            check_evidence(agent)
    check_evidence(agent)
    assert agent.state_dict()["intake"]["scale"]["renewed_at"] > 30


@pytest.mark.parametrize("forget", ["oldest", "reservoir"])
@pytest.mark.parametrize("name", ["linucb", "bilinucb-kmeans", "gcnucb", "viewucb", "labelspreading"])
def test_a_bounded_agent_with_deferred_training_resumes_bit_for_bit(name, forget, monkeypatch):
    """Also where there are so many rows that neighbors stay what they were when rows move."""
    monkeypatch.setattr(neighbor_lists, "MAX_REBUILT", 12)
    rng = np.random.default_rng(2)
    agent = loaded = AGENTS[name](arms=ARMS, seed=1, max_nodes=24, forget=forget)
    agent.defer_training()
    ids = []
    for step in range(STEPS):
        if step % 6 == 0:
            loaded = storage.loads(storage.dumps(agent), "agent")
        context = named(rng, step)
        one, other = (held.decide(context) for held in (agent, loaded))
        assert what_was_decided(one) == what_was_decided(other)
        ids.append(one.id)
        feedback_at_random(rng, (agent, loaded), ids)
        assert agent.train_pending(step % 4) == loaded.train_pending(step % 4)


def test_linucb_keeps_what_evicted_contexts_taught_while_the_scale_moves():
    """What a regression has learned moves by S whether its contexts are held or not."""
    rng = np.random.default_rng(3)
    bounded, unbounded = taciturn.LinUCB(arms=3, max_nodes=64), taciturn.LinUCB(arms=3)
    for step in range(120):
        x = rng.normal(size=3) * [1.0, 1e3, 1e-3] + [0.0, 1e3, 0.0] + step / 50
        one, two = bounded.decide(x), unbounded.decide(x)
        np.testing.assert_allclose(one.scores, two.scores, atol=1e-6)
        np.testing.assert_allclose(one.widths, two.widths, atol=1e-6)
        bounded.feedback(one.id, step % 2)
        unbounded.feedback(two.id, step % 2)


def test_a_classifier_as_imputer_sees_the_numbers_of_now():
    """It kept to the features of the first context, where no number has varied yet: it saw none."""
    agent = taciturn.BILinUCB(arms=2, imputer=GaussianNB(), warmup=0)
    rng = np.random.default_rng(0)
    for step in range(60):
        decision = agent.decide({"x": float(step % 2) + 0.1 * rng.random()}, allowed=[step % 2])
        agent.feedback(decision.id, 1)
    imputed = []
    for x in (0.05, 1.05):
        asked = agent.fork()
        imputed.append(asked._impute(asked.decide({"x": x}, allowed=[0]).id, 0))
    assert imputed[0] > imputed[1]


def test_a_zero_that_is_far_from_all_others_is_bounded_as_any_outlier_is():
    """A zero in an array has no entry, and was not looked at."""
    agent, rng = taciturn.LinUCB(arms=2), np.random.default_rng(0)
    for _ in range(40):
        agent.decide([1e12 + rng.normal(), rng.normal()])
    agent.decide([0.0, 1.0])
    assert np.abs(agent._contexts[40].values).max() < 101


@pytest.mark.parametrize("scaling", ["auto", "none"])
@pytest.mark.parametrize("first", [{"a": None}, {"a": []}, {"a": ""}, {"a": np.nan, "b": None}], ids=str)
@pytest.mark.parametrize("name", ["linucb", "viewucb", "gcnucb", "majority"])
def test_a_first_context_without_any_value_is_a_context(name, first, scaling):
    """The agent had contexts but no feature, and its file could not be loaded."""
    agent = taciturn.make(name, arms=2, scaling=scaling)
    agent.feedback(agent.decide(first).id, 1)
    loaded = storage.loads(storage.dumps(agent), "agent", trusted=False)
    for x in ({"b": 1.0}, {"b": 2.0, "a": "word"}, first):
        one, other = agent.decide(x), loaded.decide(x)
        assert what_was_decided(one) == what_was_decided(other)


def test_bins_that_do_not_fit_into_the_memory_are_left_out():
    """They come with the 40th context by themselves: an agent that had room for its contexts must go on."""
    rng = np.random.default_rng(0)
    agent = taciturn.LinUCB(arms=3, memory_limit=300e3, covariance="exact")
    for step in range(80):
        decision = agent.decide({f"c{column}": float(rng.normal()) for column in range(8)})
        agent.feedback(decision.id, float(step % 2))
    assert agent.n_features == 8
    assert agent.memory_in_use() < 300e3
    with_bins = taciturn.LinUCB(arms=3, memory_limit=3e6, covariance="exact")
    for _ in range(80):
        with_bins.decide({f"c{column}": float(rng.normal()) for column in range(8)})
    assert with_bins.memory_in_use() > 300e3
