"""Arms that come and go, arms that are allowed, and chance among them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taciturn
from oracles.book import check_against_the_book
from oracles.zoo import AGENTS, ARMS, contexts
from taciturn.errors import TaciturnError, UnknownArm


@pytest.mark.parametrize("name", AGENTS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_arms_come_and_go_while_decisions_live(name, data):
    agent = AGENTS[name](arms=ARMS, seed=1)
    retired = set()
    for step, x in enumerate(contexts(16, data.draw(st.integers(0, 3)))):
        what = data.draw(st.sampled_from(["nothing", "nothing", "add", "retire", "bring back"]))
        if what == "add":
            agent.add_arm(f"arm {step}")
        elif what == "retire" and len(agent.active_arms) > 1:
            gone = data.draw(st.sampled_from(agent.active_arms))
            agent.retire_arm(gone)
            retired.add(gone)
        elif what == "bring back" and retired:
            back = data.draw(st.sampled_from(sorted(retired)))
            agent.add_arm(back)
            retired.remove(back)
        allowed = None
        if data.draw(st.booleans()):
            allowed = data.draw(st.lists(st.sampled_from(agent.active_arms), min_size=1, unique=True))
        decision = agent.decide(x, allowed=allowed)
        assert decision.arm in (allowed or agent.active_arms)
        assert decision.arm not in retired
        assert len(decision.scores) == len(agent.arm_names)
        assert np.isfinite(decision.scores).all()
        for _ in range(data.draw(st.integers(0, 2))):  # for retired arms, and for decisions before an arm came, too
            agent.feedback(data.draw(st.integers(0, step)), data.draw(st.sampled_from([0, 1, None])))
    check_against_the_book(agent)


@pytest.mark.parametrize("name", AGENTS)
def test_a_new_arm_begins_with_what_is_known_of_another(name):
    agent = AGENTS[name](arms=ARMS, seed=1)
    agent.warm_start(contexts(6), ARMS * 2)
    for step, x in enumerate(contexts(30, 1)):
        agent.feedback(agent.decide(x).id, (1, 0, None)[step % 3])
    agent.add_arm("twin", like="middle")
    agent.add_arm("stranger")
    twin = agent.fork()
    x = contexts(1, 2)[0]
    if name.startswith(("viewucb", "linucb", "majority")) or "bilinucb" in name:
        decision = twin.decide(x)
        assert decision.scores[3] == pytest.approx(decision.scores[1], rel=1e-5)
        assert decision.widths[3] == pytest.approx(decision.widths[1], rel=1e-5)
    for step, x in enumerate(contexts(12, 3)):
        decision = agent.decide(x, allowed=["twin"] if step % 2 else None)
        agent.feedback(decision.id, (1, 0)[step % 2])
        assert np.isfinite(decision.scores).all()
    for id in range(6, 20):
        agent.feedback(id, 0)


def test_wrong_arms_are_refused_and_nothing_has_changed():
    agent = taciturn.LinUCB(arms=ARMS)
    agent.decide([1.0])
    for wrong, message in ((["left", "nowhere"], "'nowhere'"), ([], "at least one"), ("left", "a list"), (5, "a list")):
        with pytest.raises(UnknownArm, match=message):
            agent.decide([1.0], allowed=wrong)
    with pytest.raises(TaciturnError, match="already"):
        agent.add_arm("left")
    with pytest.raises(TaciturnError, match="text, a number"):
        agent.add_arm(["left"])
    with pytest.raises(UnknownArm, match="nowhere"):
        agent.add_arm("new", like="nowhere")
    with pytest.raises(UnknownArm, match="nowhere"):
        agent.retire_arm("nowhere")
    agent.retire_arm("left")
    agent.retire_arm("left")
    agent.retire_arm("right")
    with pytest.raises(TaciturnError, match="last arm"):
        agent.retire_arm("middle")
    with pytest.raises(UnknownArm, match="not retired"):
        agent.decide([1.0], allowed=["left"])
    assert agent.decide([1.0]).arm == "middle"
    assert agent.health().decisions == 2


@pytest.mark.parametrize("chance", [{"epsilon": 0.4}, {"temperature": 0.7}, {"epsilon": 0.3, "temperature": 0.5}])
def test_propensities_are_honest(chance):
    """Each arm is chosen as often as its propensity says, and the mean of one over it is the number of arms allowed."""
    agent = taciturn.LinUCB(arms=4, **chance, max_nodes=16)
    agent.warm_start(np.eye(4), range(4))
    counts, propensities = np.zeros(4), np.full(4, np.nan)
    for _ in range(4000):
        decision = agent.decide([0.9, 0.5, 0.1, 0.7], allowed=[0, 1, 3])
        counts[decision.arm] += 1
        propensities[decision.arm] = decision.propensity
    assert counts[2] == 0
    taken = [0, 1, 3]
    assert propensities[taken].sum() == pytest.approx(1.0)
    spread = np.sqrt(4000 * propensities[taken] * (1 - propensities[taken]))
    assert (np.abs(counts[taken] - 4000 * propensities[taken]) < 4 * spread).all()
    again = taciturn.LinUCB(arms=4, **chance, seed=1)
    assert {again.decide([1.0]).arm for _ in range(60)} == {0, 1, 2, 3}


def test_without_chance_the_choice_is_certain_and_draws_nothing():
    agent = taciturn.LinUCB(arms=3)
    before = agent._chance.bit_generator.state
    assert agent.decide([1.0]).propensity == 1.0
    assert agent._chance.bit_generator.state == before


@pytest.mark.parametrize("arms", [2, 2000])
def test_thousands_of_arms(arms):
    """What an arm costs is arithmetic, not a step of Python: 2000 arms make about as many calls as two."""
    for kind in (taciturn.LinUCB, taciturn.ViewUCB):
        agent = kind(arms=arms)
        for step in range(8):
            decision = agent.decide(contexts(1, step)[0])
            agent.feedback(decision.id, step % 2)
        assert len(decision.scores) == arms
    small = taciturn.GCNUCB(arms=arms, hidden=4, warmup=2)
    for step in range(5):
        small.feedback(small.decide(contexts(1, step)[0]).id, step % 2)


def test_calls_do_not_grow_with_arms():
    import sys

    def calls(kind, arms):
        agent, count = kind(arms=arms), 0
        agent.feedback(agent.decide(contexts(1)[0]).id, 1)

        def trace(*_):
            nonlocal count
            count += 1

        sys.setprofile(trace)
        try:
            for step in range(6):
                agent.feedback(agent.decide(contexts(1, step)[0]).id, (1, 0, None)[step % 3])
        finally:
            sys.setprofile(None)
        return count

    for kind in (taciturn.LinUCB, taciturn.ViewUCB, taciturn.BILinUCB, taciturn.GCNUCB, taciturn.ROGCN):
        calls(kind, 3)
        assert calls(kind, 300) <= 1.2 * calls(kind, 3), kind


def test_memory_is_estimated_before_it_is_taken():
    limited = taciturn.LinUCB(arms=2000, memory_limit=1e8)
    with pytest.raises(
        TaciturnError, match=r"LinUCB with 2000 arms and 300 features takes about 1.75 GB; memory_limit is 100 MB"
    ):
        limited.decide(np.ones(300))
    assert limited.decide([1.0, 2.0]).id == 0, "it was refused before anything was settled"
    grows = taciturn.LinUCB(arms=2, memory_limit=20_000)
    grows.decide({"a": 1.0, "b": 1.0})
    with pytest.raises(TaciturnError, match="memory_limit is 20 kB"):
        for arm in range(100):
            grows.add_arm(f"arm {arm}")
    assert len(grows.arm_names) == len(grows.decide({"a": 1.0}).scores)
    with pytest.raises(TaciturnError, match="memory_limit is 20 kB"):
        grows.decide({f"feature {i}": 1.0 for i in range(200)})


@pytest.mark.parametrize("name", ["linucb", "rogcn", "bilinucb-gcn", "gcnucb", "viewucb"])
@pytest.mark.parametrize(("arms", "features"), [(3, 200), (40, 30), (5, 4)])
def test_the_estimate_is_near_what_is_held(name, arms, features):
    agent = taciturn.make(
        name, arms=arms, max_nodes=500, **({"warmup": 0} if name in ("bilinucb-gcn", "gcnucb") else {})
    )
    agent.warm_start(np.random.default_rng(0).random((500, features)), np.arange(500) % arms)
    assert 0.5 < agent.memory_estimate(features) / agent.health().memory < 1.5
