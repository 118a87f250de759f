"""What an agent must hold, recomputed from its decisions alone."""

import numpy as np

import taciturn
from oracles import covariance, minibatch, ridge
from taciturn.agents.classifiers import Static
from taciturn.agents.parts.linear_arms import LinearArms
from taciturn.agents.parts.ridge import ArmRidge
from taciturn.agents.table import LABELLED


def ridge_states(agent):
    """Each ridge regression that an agent holds over contexts, with the A (K, D, D) and b (K, D) that it must have."""
    parts = agent.state_dict()["parts"]
    viewucb = isinstance(agent, taciturn.ViewUCB)
    found = [(parts.get("ridge"), {"unit_rows": viewucb}), (parts.get("warmup", {}).get("linucb"), {"imputed": False})]
    for part, options in found:
        if part is not None and "form" not in part:
            state = ridge.state_of(part)
            yield state, ridge.from_decisions(agent, state.theta.shape[1], agent.ridge, **options)


def other_forms(agent):
    """The linear parts of an agent that do not keep their matrices exactly."""
    parts = agent._ridge if hasattr(agent, "_ridge") else None, getattr(getattr(agent, "_warmup", None), "linucb", None)
    return [part for part in parts if isinstance(part, LinearArms) and not isinstance(part._form, ArmRidge)]


def check_evidence(agent):
    """All evidence inside an agent is what its decisions say, from scratch.

    Regressions and sums keep what evicted contexts taught; they are checked while nothing was evicted.
    """
    state, held = agent.state_dict(), agent.decisions
    value, arm, silent = held.learned_rewards, held.arms, held.states == 2
    if state["lifecycle"]["stats"]["forgotten"] == 0:
        for found, (A, b) in ridge_states(agent):
            ridge.check(found, A, b)
        for form in other_forms(agent):
            covariance.check(agent, form)
        if "counts" in state["parts"]:
            expected = np.bincount(arm, np.nan_to_num(value), minlength=len(agent.arm_names))
            np.testing.assert_allclose(state["parts"]["counts"]["earned"], expected, atol=1e-12)
    columns = state["table"]["columns"]
    labels = np.where(~silent & (value > 0.5), arm, -1)
    if isinstance(agent, taciturn.GCNUCB):
        check_gcnucb(agent, columns)
    elif isinstance(agent, taciturn.ViewUCB):
        check_viewucb(agent, columns)
    elif "labels" in columns:  # one network for all arms, of ROGCN or an imputer; a model that is refitted
        learned = held.states == LABELLED if isinstance(agent, Static) else True
        np.testing.assert_array_equal(columns["labels"], np.where(learned, labels, -1))
    if "cluster_reward" in columns:
        np.testing.assert_array_equal(columns["cluster_reward"], np.where(silent, np.nan, value))
    if "classifier_label" in columns:
        np.testing.assert_array_equal(columns["classifier_label"], labels)


def labels_all_arms(agent):
    """Whether each decision has an observed reward of 1 that labels all arms (T,)."""
    held = agent.decisions
    return (held.learned_rewards == 1) & (held.states != 2) & agent.one_right_arm


def check_gcnucb(agent, columns):
    """The rewards that each arm's regression learns, and the labels of each arm's network (T, K)."""
    value, arm, silent = agent.decisions.learned_rewards, agent.decisions.arms, agent.decisions.states == 2
    expected = np.full((len(value), len(agent.arm_names)), np.nan)
    known = ~np.isnan(value)
    expected[known, arm[known]] = value[known]
    for node in np.flatnonzero(labels_all_arms(agent)):
        n_arms = columns["n_arms_known"][node]
        expected[node, :n_arms] = np.arange(n_arms) == arm[node]
    np.testing.assert_array_equal(columns["arm_rewards"], expected)
    labels = np.where(np.isnan(expected) | silent[:, None], -1, expected > 0.5)
    np.testing.assert_array_equal(columns["labels"], labels)
    if agent.batch_size is not None:
        check_running_sums(agent, columns["embeddings"], expected)


def check_running_sums(agent, embeddings, rewards):
    """Sums that are corrected step by step are those of the embeddings and rewards held, to the last bit."""
    squares, products = agent._running.sums
    wanted_squares, wanted_products = minibatch.sums(embeddings, rewards)
    assert squares.tolist() == wanted_squares
    assert products.tolist() == wanted_products


def check_viewucb(agent, columns):
    """Targets and their weights (T, K), apart from soft labels, and the arm that turned out wrong (T,)."""
    value, arm, silent = agent.decisions.learned_rewards, agent.decisions.arms, agent.decisions.states == 2
    targets, weights, all_arms = columns["targets"], columns["target_weights"], labels_all_arms(agent)
    rejected = ~silent & (value == 0) & agent.one_right_arm
    np.testing.assert_array_equal(columns["rejected_arm"], np.where(rejected, arm, -1))
    assert (weights[np.isnan(value)] == 0).all()
    assert all((weights[node, : columns["n_arms_known"][node]] == 1).all() for node in np.flatnonzero(all_arms))
    np.testing.assert_array_equal(targets[all_arms].argmax(axis=1), arm[all_arms])
    one_arm = ~np.isnan(value) & ~all_arms
    assert (weights[one_arm, arm[one_arm]] == 1).all()
    np.testing.assert_allclose(targets[one_arm, arm[one_arm]], value[one_arm])
