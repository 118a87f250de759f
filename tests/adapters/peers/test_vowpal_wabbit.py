"""What only Vowpal Wabbit takes."""

import numpy as np
import pytest

import taciturn
from taciturn.errors import TaciturnError
from taciturn.experiments.checks import ARMS, toy_data

ROWS = list(toy_data().X.toarray())


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"options": "--squarecb -f model"}, "-f is none of"),
        ({"options": "--squarecb --extra_metrics=file"}, "--extra_metrics=file is none of"),
        ({"options": "--squarecb notes.txt"}, "notes.txt is not a number"),
        ({"options": "--squarecb --gamma_scale=notes.txt"}, "notes.txt is not a number"),
        ({"options": "--squarecb --gamma_scale '1"}, "'1 is not a number"),
        ({"options": 3}, "text as on Vowpal Wabbit's command line is"),
        ({"cb_type": "mrt"}, "cb_type='mrt' is not allowed"),
        ({"interactions": "sx"}, "the letters s and a are"),
        ({"bits": 40}, "bits"),
    ],
)
def test_what_it_must_not_be_given_is_refused(params, problem):
    with pytest.raises(TaciturnError, match=problem):
        taciturn.make("vw-squarecb", arms=ARMS, **params)


def test_options_that_do_not_go_together_are_refused_in_one_line():
    agent = taciturn.make("vw-squarecb", arms=ARMS, cb_type="dr")
    with pytest.raises(TaciturnError, match="^Vowpal Wabbit refuses .*cb_type") as refused:
        agent.decide(ROWS[0])
    assert "\n" not in str(refused.value)
    assert len(agent.decisions) == 0


def test_propensities_are_the_chances_that_it_gives_its_arms():
    agent = taciturn.make("vw-squarecb", arms=ARMS, options="--squarecb", seed=0)
    for row in ROWS[:30]:
        decision = agent.decide(row)
        agent.feedback(decision.id, float(decision.arm == "left"))
    decision = agent.decide(ROWS[30])
    np.testing.assert_allclose(decision.scores.sum(), 1.0, atol=1e-6)
    assert decision.propensity == pytest.approx(decision.scores[ARMS.index(decision.arm)], abs=1e-6)
    forks = [agent.fork(seed=seed) for seed in range(60)]
    drawn = [fork.decide(ROWS[31], allowed=["middle", "right"]) for fork in forks]
    middle, right = drawn[0].scores[1:]
    assert {decision.arm for decision in drawn} == {"middle", "right"}
    assert {round(decision.propensity, 9) for decision in drawn} == {
        round(chance / (middle + right), 9) for chance in (middle, right)
    }


def test_more_features_and_arms_have_more_weights():
    agent = taciturn.make("vw-squarecb", arms=100)
    assert agent._bits(100, 10) == 18
    assert agent._bits(100, 10_000) == 22
    assert agent._bits(10_000, 100_000) == 24
    assert agent.memory_estimate(10_000, arms=100) > 16 * 2**22


def test_numbers_below_single_precision_count_as_zeros():
    """Vowpal Wabbit reads 1e-160 as NaN."""
    tiny, zeros = (taciturn.make("vw-squarecb", arms=ARMS, scaling="none", seed=0) for _ in range(2))
    for row in ROWS[:30]:
        decisions = tiny.decide([1.0, *1e-160 * row]), zeros.decide([1.0, *0.0 * row])
        np.testing.assert_array_equal(decisions[0].scores, decisions[1].scores)
        for agent, decision in zip((tiny, zeros), decisions, strict=True):
            agent.feedback(decision.id, float(decision.arm == "left"))
