"""ViewUCB where several arms can be good: graded rewards, taken-back answers, silence that is learned, files."""

import numpy as np
import pytest

import taciturn


def run(agent, steps, reward, seed=0):
    """The arms chosen in so many steps on random contexts, and the last decision."""
    rng = np.random.default_rng(seed)
    chosen = []
    for _ in range(steps):
        decision = agent.decide(rng.normal(size=3))
        chosen.append(decision.arm)
        agent.feedback(decision.id, reward(decision.arm, rng))
    return chosen, decision


def test_differences_of_a_twentieth_are_found():
    """A width for rewards of 0 and 1 would drown them: the agent would choose all arms alike to the end."""
    agent = taciturn.ViewUCB(arms=3, one_right_arm=False)
    mean = (0.83, 0.79, 0.88)
    chosen, _ = run(agent, 1200, lambda arm, rng: float(np.clip(mean[arm] + 0.1 * rng.normal(), 0, 1)))
    assert chosen[-400:].count(2) > 360


def test_a_constant_that_is_learned_in_silence_counts():
    """Clicks or silence, where silence is taken for a zero: the arm that is clicked more often must win."""
    agent = taciturn.ViewUCB(arms=["a", "b"], one_right_arm=False, silence=0.0)
    chosen, _ = run(agent, 600, lambda arm, rng: 1.0 if rng.random() < (0.8 if arm == "a" else 0.1) else None)
    assert chosen[-200:].count("a") > 180


@pytest.mark.parametrize("one_right_arm", [True, False])
def test_answers_that_are_all_taken_back_leave_the_priors(one_right_arm):
    agent = taciturn.ViewUCB(arms=["a", "b", "c"], one_right_arm=one_right_arm)
    run(agent, 100, lambda arm, _rng: float(arm != "a"))
    for id in list(agent.decisions):
        agent.withdraw(id)
    chosen, decision = run(agent, 60, lambda _arm, _rng: None, seed=1)
    np.testing.assert_allclose(decision.scores, 1 / 3 if one_right_arm else 0.5, atol=1e-6)
    assert min(chosen.count(arm) for arm in "abc") > 10, "it explores again"


def test_a_copy_that_disappoints_can_be_saved(tmp_path):
    agent = taciturn.ViewUCB(arms=["a", "b"], one_right_arm=False, max_nodes=200, alpha=0)
    run(agent, 300, lambda _arm, _rng: 1.0)
    agent.add_arm("c", like="a")
    run(agent, 300, lambda _arm, _rng: None)
    rng = np.random.default_rng(2)
    for step in range(40):
        decision = agent.decide(rng.normal(size=3), allowed=["c"])
        agent.feedback(decision.id, None if step else 0.0)
    agent.save(tmp_path / "agent.taciturn")
    again = taciturn.load(tmp_path / "agent.taciturn")
    x = rng.normal(size=3)
    np.testing.assert_array_equal(again.decide(x).scores, agent.decide(x).scores)


@pytest.mark.parametrize("one_right_arm", [True, False])
def test_an_agent_whose_numbers_have_grown_a_millionfold_can_be_saved(tmp_path, one_right_arm):
    """With a solve deferred, θ of before scores: moved to the new scale it was too long for a file to be read."""
    rng = np.random.default_rng(0)
    agent = taciturn.ViewUCB(arms=2, one_right_arm=one_right_arm)
    for scale in (1.0, 1e6):
        for _ in range(250):
            decision = agent.decide({"amount": rng.normal() * scale})
            agent.feedback(decision.id, float(rng.integers(2)))
            if scale > 1 and agent.next_id % 20 == 0:
                agent.save(tmp_path / "agent.taciturn")
                again = taciturn.load(tmp_path / "agent.taciturn")
                assert again.next_id == agent.next_id
        agent.defer_training()
