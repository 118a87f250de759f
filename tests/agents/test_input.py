"""Input of agents: every accepted form, and one-line errors for everything else."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import MultinomialNB

import taciturn
from taciturn.agents import storage
from taciturn.errors import (
    AlreadyAnswered,
    InvalidContext,
    InvalidData,
    InvalidReward,
    TaciturnError,
    UnknownArm,
    UnknownDecision,
    UnknownName,
)
from taciturn.registry import METHODS, preset_file

BAD_PARAMETERS = [
    ({"arms": 1}, "at least 2 arms"),
    ({"arms": ["a"]}, "at least 2 arms"),
    ({"arms": ["a", "a"]}, "its own"),
    ({"seed": -1}, "seed=-1"),
    ({"seed": 0.5}, "seed=0.5"),
    ({"arms": 3.5}, "a list of names is, or how many"),
    ({"arms": "abc"}, "a list of names"),
    ({"arms": None}, "a list of names"),
    ({"arms": [["a"], ["b"]]}, "a name can be"),
    ({"arms": np.eye(2)}, "a list of names"),
    ({"alpha": -1}, "alpha=-1 is not allowed; a number from 0 to 1e.06 is"),
    ({"alpha": float("inf")}, "alpha=inf"),
    ({"ridge": 0}, "ridge=0 is not allowed; a number from 1e-09 to 1e.09 is"),
    ({"learning_rate": float("inf")}, "learning_rate=inf"),
    ({"alpha": float("nan")}, "alpha=nan"),
    ({"warmup": 1.5}, "warmup=1.5 is not allowed; a whole number"),
    ({"hidden": 0}, "hidden=0"),
    ({"dropout": 1.0}, "dropout=1.0"),
    ({"neighbors": 0}, "neighbors=0"),
    ({"normalize_theta": "yes"}, "normalize_theta='yes' is not allowed; True or False is"),
    ({"one_right_arm": 1}, "one_right_arm=1"),
    ({"ties": "random"}, "'balance' or 'first'"),
]


@pytest.mark.parametrize(("params", "message"), BAD_PARAMETERS)
def test_errors_of_parameters_give_name_value_and_what_is_allowed(params, message):
    with pytest.raises(ValueError, match=message) as error:
        taciturn.GCNUCB(**{"arms": 3, **params})
    assert "\n" not in str(error.value)


def test_invalid_imputers_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'kmeans'"):
        taciturn.BILinUCB(arms=2, imputer="kmean")
    with pytest.raises(TaciturnError, match="partial_fit and predict_proba"):
        taciturn.BILinUCB(arms=2, imputer=SGDClassifier())  # hinge loss: no probabilities
    with pytest.raises(TaciturnError, match="bounded"):
        taciturn.BILinUCB(arms=2, bounded="no")
    with pytest.raises(TaciturnError, match="clusters=1"):
        taciturn.BILinUCB(arms=2, imputer="kmeans", imputer_params={"clusters": 1})
    with pytest.raises(TaciturnError, match="dropout=2"):
        taciturn.BILinUCB(arms=2, imputer_params={"dropout": 2})
    with pytest.raises(UnknownName, match="parameter of imputer kmeans 'cluster'; did you mean 'clusters'"):
        taciturn.BILinUCB(arms=2, imputer="kmeans", imputer_params={"cluster": 5})
    with pytest.raises(TaciturnError, match="settings go with the name"):
        taciturn.BILinUCB(arms=2, imputer=MultinomialNB(), imputer_params={"alpha": 1})
    with pytest.raises(TaciturnError, match="imputer="):
        taciturn.BILinUCB(arms=2, imputer=MultinomialNB)  # the class


def test_make_checks_names_presets_and_parameters():
    with pytest.raises(UnknownName, match="did you mean 'gcnucb'.*bilinucb-gcn"):
        taciturn.make("gcnucbb", arms=2)
    with pytest.raises(UnknownName, match="paper"):
        taciturn.make("linucb", arms=2, preset="papers")
    with pytest.raises(TaciturnError, match="parameter of linucb 'alfa'; did you mean 'alpha'"):
        taciturn.make("linucb", arms=2, alfa=1)
    for name in METHODS:
        agent = taciturn.make(name, arms=["a", "b"], preset="paper", seed=3)
        printed = METHODS[name].family in preset_file("paper")["agents"]
        assert agent.params["ties"] == ("first" if printed else "balance"), "a preset changes its own methods only"
        assert agent.params["arms"] == ["a", "b"]
        assert type(agent)(**agent.params).params == agent.params
    assert taciturn.make("gcnucb", arms=2, preset="paper").params["normalize_theta"] is True
    assert taciturn.make("ilinucb-random", arms=2, preset="paper").params["bounded"] is False


@pytest.mark.parametrize("scaling", ["auto", "none"])
def test_invalid_contexts_are_refused(scaling):
    agent, without_rows = taciturn.LinUCB(arms=2, scaling=scaling), sp.csr_matrix((1, 3))
    without_rows.indptr = np.zeros(0, np.int32)
    agent.decide([1.0, 0.0, 2.0])
    for context, message in [
        ([1.0, 0.0, -np.inf], "holds -inf at feature 2"),
        ([1.0, 2.0], "has 2 features; this agent's contexts have 3"),
        ([], "empty"),
        (np.zeros((2, 3)), "shape"),
        (sp.csr_matrix((2, 3)), "one row"),
        (sp.dok_matrix((1, 4)), "has 4 features"),
        ("abc", "arrays of 3 features, not {name: value}"),
        (b"abc", "cannot be of type bytes; a mapping of names to values"),
        (7, "cannot be of type int; a mapping"),
        (None, "context"),
        ([[1.0], [1.0, 2.0]], "not this list"),
        ([1.0, 1j, 0.0], "arrays of 3 features|array of numbers"),
        (["a", "b", "c"], "a list of words can be tags or columns"),
        ([1e101, 0.0, 0.0], "at feature 0; a finite number is needed, of at most 1e"),
        (sp.csr_matrix([[1j, 0, 0]]), "complex128 values"),
        (without_rows, "broken: it has no row"),
        ({"a": 1.0}, "arrays of 3 features"),
    ]:
        with pytest.raises(InvalidContext, match=message) as error:
            agent.decide(context)
        assert "\n" not in str(error.value)
    assert agent.decide(sp.csr_array([[0.0, 1.0, 0.0]])).id == 1, "refused contexts take no id"


def test_a_sparse_row_of_which_a_part_was_replaced_by_a_list_is_read():
    agent, row = taciturn.LinUCB(arms=2), sp.csr_matrix([[1.0, 0.0, 2.0]])
    expected = [agent.decide(row).scores, agent.decide(row).scores]
    for part in ("indptr", "indices", "data"):
        replaced = row.copy()
        setattr(replaced, part, getattr(row, part).tolist())
        np.testing.assert_array_equal(agent.decide(replaced).scores, expected[1])


def test_named_features_get_columns_in_order_of_appearance():
    named, positional = (taciturn.LinUCB(arms=2, scaling="none") for _ in range(2))
    examples = [{"red": 1.0}, {"blue": 2.0, "red": 1.0}, {"green": 1.0, "blue": 0.5}, {"red": 1.0, "green": 3.0}]
    columns = ["red", "blue", "green"]
    for step, features in enumerate(examples * 40):
        left = named.decide(features)
        right = positional.decide([features.get(name, 0.0) for name in columns])
        assert left.arm == right.arm
        np.testing.assert_allclose(left.scores, right.scores, atol=1e-12)
        np.testing.assert_allclose(left.widths, right.widths, atol=1e-12)
        for agent, decision in ((named, left), (positional, right)):
            agent.feedback(decision.id, step % 2)
    for context, message in [
        ({}, "names no feature"),
        ({"red": "x"}, "'red' is 'x', a category; it was a number so far, and a number is needed"),
        ({"red": 10**400}, "'red' is .a whole number of 1329 bits.; a finite number is needed"),
        ([1.0, 2.0, 3.0], "have names"),
    ]:
        with pytest.raises(InvalidContext, match=message):
            named.decide(context)


class Thing:
    def __repr__(self):
        return "a thing\nof two lines"


REFUSED_VALUES = [
    ({"age": "old"}, "feature 'age' is 'old', a category; it was a number so far, and a number is needed"),
    ({"age": [1, 2]}, r"feature 'age' is \[1, 2\], a vector; it was a number so far"),
    ({"age": 10**400}, "feature 'age' is .*; a finite number is needed, of at most 1e"),
    ({"age": float("inf")}, "feature 'age' is inf; a finite number is needed"),
    ({"age": "2026-11-16"}, "feature 'age' is '2026-11-16', a date; it was a number so far"),
    ({"age": Thing()}, r"feature 'age' is a thing of two lines \(Thing\); a number, a word, text"),
    ({"new": Thing()}, r"feature 'new' is a thing of two lines \(Thing\)"),
    ({"new": 1j}, r"feature 'new' is 1j \(complex\)"),
    ({"new": b"bytes"}, r"feature 'new' is b'bytes' \(bytes\)"),
    ({"new": [1.0, float("inf")]}, r"feature 'new\[1\]' is inf; a finite number is needed"),
    ({"when": 5}, "feature 'when' is 5, a number; it was a date so far, and a date is needed"),
    ({"when": "2026-13-45"}, "feature 'when' is '2026-13-45', a category; it was a date so far, and a date is needed"),
    ({"country": 5}, "feature 'country' is 5, a number; it was a category so far"),
    ({float("nan"): 1.0}, "named NaN"),
    ({}, "names no feature"),
]


@pytest.mark.parametrize(("context", "message"), REFUSED_VALUES, ids=lambda part: " ".join(repr(part).split())[:40])
def test_values_that_no_column_takes_are_refused_by_the_name_of_the_feature(context, message):
    agent = taciturn.LinUCB(arms=2)
    agent.decide({"age": 30, "country": "DE", "when": "2026-11-16"})
    before = storage.dumps(agent)
    with pytest.raises(InvalidContext, match=message) as error:
        agent.decide(context)
    assert "\n" not in str(error.value)
    assert storage.dumps(agent) == before, "a refused context changes nothing"


def test_warm_start_accepts_named_features():
    agent = taciturn.GCNUCB(arms=["x", "y"], warmup=0)
    ids = agent.warm_start([{"a": 1.0}, {"b": 1.0, "c": 2.0}], ["x", "y"])
    assert ids == [0, 1]
    assert agent.decide({"a": 1.0}).arm == "x"
    assert agent.decide({"b": 1.0, "c": 2.0, "d": 0.1}).arm == "y"


def test_a_refused_warm_start_changes_nothing():
    agent = taciturn.LinUCB(arms=["x", "y"])
    X0 = np.eye(3)
    for X, y, edges, error, message in [
        (X0, ["x", "y"], None, TaciturnError, "3 contexts and 2 arms"),
        (X0, ["x", "y", "z"], None, UnknownArm, "unknown arm 'z' in row 2 .*x, y"),
        (X0, [0, 1, 2], None, UnknownArm, "unknown arm 0"),
        (X0, ["x", "y", "x"], [[0, 3]], InvalidData, r"edge \[0, 3\]"),
        (X0, ["x", "y", "x"], [[0, 1, 2], [1, 2, 0]], InvalidData, "pairs of row indices"),
        (X0, ["x", "y", "x"], [[0.9, 1.7]], InvalidData, "pairs of row indices"),
        (X0, ["x", "y", "x"], [[0, 1], [2]], InvalidData, "pairs of row indices"),
        (X0, ["x", "y", "x"], [10**30, 1], InvalidData, "pairs of row indices"),
        (X0, None, None, UnknownArm, "one name a row"),
        (X0, [["x"], ["y"], ["x"]], None, UnknownArm, "unknown arm"),
        (None, ["x"], None, InvalidContext, "contexts are a matrix, a frame or a list of contexts"),
        ([[1.0, 2.0], [1.0]], ["x", "y"], None, InvalidContext, "row 1: the context has 1 features"),
        (X0 + np.inf, ["x", "y", "x"], None, InvalidContext, "row 0: .*inf at feature 0"),
        ([], [], None, InvalidContext, "no contexts"),
    ]:
        with pytest.raises(error, match=message):
            agent.warm_start(X, y, edges)
    assert agent.warm_start([[1.0, 2.0, 3.0, 4.0]], ["x"], edges=[]) == [0], (
        "neither rows nor the number of features were kept"
    )


def test_warm_start_accepts_arms_as_indices():
    agent = taciturn.LinUCB(arms=["x", "y"], alpha=0)
    agent.warm_start(np.eye(2), np.array([1, 0]))
    assert agent.decide([1.0, 0.0]).arm == "y"


def test_feedback_needs_a_reward_from_0_to_1_and_a_known_decision():
    agent = taciturn.LinUCB(arms=2)
    (labelled,) = agent.warm_start([[1.0, 0.0]], [0])
    first, second = agent.decide([1.0, 0.0]), agent.decide([0.0, 1.0])
    for wrong in (-0.1, 1.1, float("nan"), "1", [1]):
        with pytest.raises(InvalidReward, match="from 0 to 1"):
            agent.feedback(first.id, wrong)
    for unknown in (-1, 99, "0", None, 1.0, True):
        with pytest.raises(UnknownDecision):
            agent.feedback(unknown, 1)
    agent.feedback(second.id, np.float32(0.5))
    agent.feedback(first.id, None)
    assert [agent.state(id) for id in (first.id, second.id, labelled)] == ["silent", "rewarded", "labelled"]
    with pytest.raises(AlreadyAnswered, match="labelled row"):
        agent.feedback(labelled, 1)


def test_wrong_arguments_beside_contexts_are_refused_in_one_line_that_names_them():
    agent = taciturn.LinUCB(arms=2)
    agent.decide({"age": 41.0})
    for wrong in ("no", 1, None):
        with pytest.raises(TaciturnError, match=r"on=.* is not allowed; True or False is"):
            agent.defer_training(on=wrong)
    assert not agent.deferred
    for wrong in ("9", 0, 2.5, None):
        with pytest.raises(TaciturnError, match="most="):
            agent.limit_features(wrong)
    with pytest.raises(UnknownDecision, match=r"^unknown decision \(a whole number of 1329 bits\); there are 1 ids"):
        agent.feedback(10**400, 1)


def within_itself():
    found = [1.0]
    found.append(found)
    return found


@pytest.mark.parametrize(
    "wrong",
    [
        lambda agent, long: agent.feedback(0, long),
        lambda agent, _: agent.feedback(0, np.ones((40, 40))),
        lambda agent, long: agent.retire_arm({long: 1}),
        lambda agent, long: agent.retire_arm(long),
        lambda agent, long: agent.warm_start(np.ones((2, 3)), long),
        lambda agent, long: agent.warm_start(np.ones((2, 3)), [0, long]),
        lambda agent, long: agent.decide(np.ones(3), neighbors=long),
        lambda agent, long: agent.decide(np.ones(3), allowed=[long]),
        lambda agent, long: agent.decide(np.ones(3), allowed=long),
        lambda agent, long: agent.decide(np.ones(3), at=long),
        lambda agent, _: agent.decide_batch(np.datetime64("2020-01-01")),
        lambda agent, _: agent.warm_start(np.float64(3), [0]),
        lambda agent, _: agent.warm_start(np.array(3.0), [0]),
        lambda agent, _: agent.warm_start(np.ones((1, 3)), np.array(0)),
        lambda agent, _: agent.decide_batch(np.array(3.0)),
        lambda agent, _: agent.decide_batch(np.array("words")),
        lambda agent, _: agent.decide([1.0, [2.0, [3.0]], 4.0]),
        lambda agent, _: agent.decide(within_itself()),
    ],
)
def test_whatever_is_wrong_is_said_in_one_short_line(wrong):
    agent = taciturn.LinUCB(arms=3)
    agent.decide(np.ones(3))
    with pytest.raises(TaciturnError) as refused:
        wrong(agent, "x" * 10**6)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)
    assert agent.next_id == 1


def test_neighbors_are_a_list_of_known_ids():
    agent = taciturn.GCNUCB(arms=2)
    ids = agent.warm_start(np.eye(2), [0, 1], edges=[(0, 1), (1, 0), (1, 1)])
    for wrong, message in (
        ([0, 2], "unknown decision 2"),
        (5, "list of ids"),
        ([-1], "-1"),
        ([0.0], "0.0"),
        ("ab", "'a'"),
    ):
        with pytest.raises(UnknownDecision, match=message):
            agent.decide([1.0, 0.0], neighbors=wrong)
    first = agent.decide([1.0, 0.0], neighbors=np.array([ids[0], ids[0]]))
    batch = agent.decide_batch(np.eye(2), neighbors=[[first.id], iter([first.id, first.id + 1])])
    assert [decision.id for decision in batch] == [3, 4]
    edges = agent.state_dict()["parts"]["encoder"]["graph"]["edges"]
    pairs = list(zip(edges["sources"].tolist(), edges["targets"].tolist(), strict=True))
    assert pairs == [(1, 0), (2, 0), (3, 2), (4, 2), (4, 3)]


@pytest.mark.parametrize("name", METHODS)
def test_contexts_with_and_without_neighbors_mix(name):
    """Decisions that named rows of a warm start without a graph were once refused."""
    agent = taciturn.make(name, arms=2, **({"warmup": 0} if name == "gcnucb" or "ilinucb" in name else {}))
    ids = agent.warm_start(np.eye(2), [0, 1])
    for step in range(12):
        decision = agent.decide(np.eye(2)[step % 2], neighbors=[ids[step % 2]] if step % 3 else None)
        assert np.isfinite(decision.scores).all()
        agent.feedback(decision.id, (1, 0, None)[step % 3])
        ids.append(decision.id)


def test_more_features_than_memory_holds_are_refused_and_change_nothing():
    agent = taciturn.LinUCB(arms=2, covariance="exact")
    with pytest.raises(TaciturnError, match="2 arms and 10000001 features takes about .* TB; memory_limit is"):
        agent.decide(sp.csr_matrix((1, 10**7)))
    assert agent.decide([1.0, 2.0]).id == 0


def test_small_scores_are_not_ties():
    agent = taciturn.LinUCB(arms=["bad", "good"], alpha=0, ties="first")
    agent.warm_start([[1e-5, 0.0]], ["good"])
    assert agent.decide([1e-5, 0.0]).arm == "good"


def test_many_new_feature_names_cause_few_copies():
    """Each new name once copied all of the state, so that time grew with the cube of the number of names."""
    agent = taciturn.LinUCB(arms=2)
    widths = set()
    for name in range(300):
        decision = agent.decide({f"n{name}": 1.0, "n0": 1.0})
        agent.feedback(decision.id, name % 2)
        widths.add(agent.state_dict()["parts"]["ridge"]["theta"].shape[1])
    assert len(widths) <= 10


def test_ties_are_balanced_or_go_to_the_first_arm():
    spread = taciturn.LinUCB(arms=4)
    assert sorted(spread.decide([1.0]).arm for _ in range(8)) == [0, 0, 1, 1, 2, 2, 3, 3]
    first = taciturn.LinUCB(arms=4, ties="first")
    assert {first.decide([1.0]).arm for _ in range(8)} == {0}


def test_with_several_right_arms_a_reward_labels_only_the_chosen_arm():
    agent = taciturn.LinUCB(arms=2, one_right_arm=False, alpha=0)
    for _ in range(20):
        decision = agent.decide([1.0])
        agent.feedback(decision.id, 1)
    scores = agent.decide([1.0]).scores
    assert scores[decision.arm] > 0.9
    assert scores[1 - decision.arm] <= 1.0
    other = taciturn.LinUCB(arms=2, alpha=0)
    decision = other.decide([1.0])
    other.feedback(decision.id, 1)
    assert other.decide([1.0]).scores[1 - decision.arm] == 0.0
