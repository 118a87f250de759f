"""LinUCB compared with contextualbandits and MABWiser, over whole streams with a quarter of the rewards missing.

All learn from taciturn's decisions and their rewards, for the chosen arm only (`one_right_arm=False`), as the other
libraries do. After the stream, the upper bounds must be equal.
"""

import warnings

import contextualbandits.online
import numpy as np
from common import SEED, Stopwatch, Table, main, shown, times, versions
from mabwiser.mab import MAB, LearningPolicy

import taciturn
from taciturn.agents.warm import compile_kernels

ALPHA, RIDGE = 0.25, 1.0
MABWISER_STEPS = {"cnae9": 40, "cora": 12, "warfarin": 400}
"""MABWiser is slow and takes the same time at every step, so only the first steps are run."""


def compare():
    rows = [compare_on(name) for name in MABWISER_STEPS]
    return Table(
        "LinUCB, decide and feedback",
        "Milliseconds per step, mean / median over the whole stream (MABWiser: over its first steps, as its time per "
        f"step is constant), α = {ALPHA}, ridge {RIDGE}. After the last step the upper bounds of all arms agree within "
        "numerical precision; contextualbandits uses single precision, its default. The mean has the steps in which "
        "taciturn folds 64 updates into a matrix. The last column is taciturn with the paper's rule, where a reward of "
        "1 labels all arms. " + versions("contextualbandits", "mabwiser"),
        [
            "stream",
            "arms × features",
            "taciturn",
            "contextualbandits",
            "MABWiser",
            "contextualbandits / taciturn",
            "MABWiser / taciturn",
            "taciturn, all arms labelled",
        ],
        rows,
    )


def compare_on(name):
    data = taciturn.load_dataset(name, scaling="l1")
    stream = taciturn.Stream(data, missing=0.25, seed=SEED)
    arms = len(data.arms)
    compile_kernels(["linucb"])  # a few steps would not reach the kernels that fold whole blocks
    ours = run(data, stream, one_right_arm=False)
    all_arms = run(data, stream, one_right_arm=True)
    theirs = Stopwatch()
    mabwiser = Stopwatch()
    agent = fresh(data, one_right_arm=False)
    peer = contextualbandits.online.LinUCB(arms, ALPHA, RIDGE, fit_intercept=False, method="sm", random_state=1)
    slow = MAB(list(range(arms)), LearningPolicy.LinUCB(alpha=ALPHA, l2_lambda=RIDGE), seed=SEED)
    slow_steps = MABWISER_STEPS[name]
    zeros = np.zeros((arms, data.X.shape[1]))  # both must be fitted first; zeros leave them unchanged
    peer.partial_fit(zeros, np.arange(arms), np.zeros(arms))
    slow.fit(list(range(arms)), [0] * arms, zeros)
    for i, round in enumerate(stream):
        decision = agent.decide(round.context)
        arm, x = data.arms.index(decision.arm), round.context.toarray()  # dense is the fastest input of the others
        reward = stream.respond(round, decision.arm)
        agent.feedback(decision.id, reward)
        with theirs():
            peer.predict(x)
            if reward is not None:
                peer.partial_fit(x, np.array([arm]), np.array([reward]))
        if i < slow_steps:
            with mabwiser():
                slow.predict(x)
                if reward is not None:
                    slow.partial_fit([arm], [reward], x)
            if i + 1 == slow_steps:
                expected = slow.predict_expectations(x)
                check_bounds(agent, [expected[k] for k in range(arms)], x, 1e-6)
    check_bounds(agent, peer.decision_function(x)[0], x, 2e-3)
    return [
        name,
        f"{arms} × {data.X.shape[1]}",
        *(f"{shown(watch.milliseconds)} / {shown(watch.median)}" for watch in (ours, theirs, mabwiser)),
        *(
            f"{times(watch.milliseconds, ours.milliseconds)} / {times(watch.median, ours.median)}"
            for watch in (theirs, mabwiser)
        ),
        f"{shown(all_arms.milliseconds)} / {shown(all_arms.median)}",
    ]


def fresh(data, *, one_right_arm):
    own = {"alpha": ALPHA, "ridge": RIDGE, "scaling": "none"}  # rows as they are, as the others take them
    return taciturn.make("linucb", arms=data.arms, one_right_arm=one_right_arm, seed=SEED, **own)


def run(data, stream, *, one_right_arm):
    """Time decide and feedback only."""
    agent, watch = fresh(data, one_right_arm=one_right_arm), Stopwatch()
    for round in stream:
        with watch():
            decision = agent.decide(round.context)
        reward = stream.respond(round, decision.arm)
        with watch():
            agent.feedback(decision.id, reward)
    watch.laps = [a + b for a, b in zip(watch.laps[::2], watch.laps[1::2], strict=True)]
    return watch


def check_bounds(agent, theirs, x, tolerance):
    """Check that the upper bounds at a context are equal; a decision changes no regression."""
    decision = agent.decide(x[0])
    np.testing.assert_allclose(decision.scores + decision.widths, theirs, rtol=tolerance, atol=tolerance)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(compare)
