"""What people use for linear contextual bandits, with the same two verbs: `decide(x)` and `learn(x, arm, reward)`.

`form` makes of a context the input that a library takes fastest, outside the clock. A context is a list of words (all
of value 1), or an array (D,). Only taciturn is told of silence; the others, which have no notion of it, are not.
"""

import numpy as np
from common import SEED

HASHED_BITS = 18


class Taciturn:
    """An agent of taciturn, by the name of its method; words are tags."""

    def __init__(self, arms, features, method):
        import taciturn
        from taciturn.agents.warm import compile_kernels

        compile_kernels([method])  # or read from the cache; no time that is shown includes it
        self.agent = taciturn.make(method, arms=arms, seed=SEED)
        self.decision = None

    def form(self, context):
        return {"words": context} if isinstance(context, list) else context

    def warm_start(self, contexts, arms):
        self.agent.warm_start(np.array(contexts), arms)

    def decide(self, x):
        self.decision = self.agent.decide(x)
        return self.decision.arm

    def learn(self, x, arm, reward):
        self.agent.feedback(self.decision.id, reward)


class Peer:
    """The default: arrays of one row, and nothing learned in silence."""

    def form(self, context):
        return context[None, :]

    def warm_start(self, contexts, arms):
        for context, arm in zip(contexts, arms, strict=True):
            self.learn(self.form(context), arm, 1.0)

    def learn(self, x, arm, reward):
        if reward is not None:
            self._learn(x, arm, reward)


class VowpalWabbit(Peer):
    """Vowpal Wabbit: linear, online gradient steps on hashed features, a weight for each feature and arm.

    It returns probabilities of arms, from which one is drawn, as its documentation asks for.
    """

    def __init__(self, arms, features, options):
        from vowpalwabbit import Workspace

        self.rng = np.random.default_rng(SEED)
        # Four times as many weights as there are, so that few collide; it learns better here without a constant.
        bits = HASHED_BITS if features is None else max(HASHED_BITS, int(np.ceil(np.log2(4 * features * arms))))
        self.vw = Workspace(f"--cb_explore {arms} {options} --noconstant -b {bits} --random_seed {SEED} --quiet")
        self.probabilities = np.ones(arms)  # of labelled contexts; then of the last decision

    def form(self, context):
        if isinstance(context, list):
            return "| " + " ".join(context)
        nonzero = np.flatnonzero(context)
        return "| " + " ".join(f"f{j}:{value:.6g}" for j, value in zip(nonzero, context[nonzero], strict=True))

    def decide(self, x):
        self.probabilities = np.asarray(self.vw.predict(x))
        total = self.probabilities.cumsum()
        return int(np.searchsorted(total, self.rng.random() * total[-1], side="right"))

    def _learn(self, x, arm, reward):
        self.vw.learn(f"{arm + 1}:{-reward}:{self.probabilities[arm]:.6g} {x}")


class VowpalWabbitADF(VowpalWabbit):
    """Vowpal Wabbit with a line for each arm, whose name it crosses with the context."""

    def __init__(self, arms, features, options):
        from vowpalwabbit import Workspace

        self.rng = np.random.default_rng(SEED)
        self.vw = Workspace(
            f"--cb_explore_adf {options} --interactions sa --noconstant -b 22 --random_seed {SEED} --quiet"
        )
        self.names = [f"|a {k}" for k in range(arms)]
        self.probabilities = np.ones(arms)  # of labelled contexts; then of the last decision

    def form(self, context):
        return "shared |s " + super().form(context).removeprefix("| ")

    def decide(self, x):
        self.probabilities = np.asarray(self.vw.predict([x, *self.names]))
        total = self.probabilities.cumsum()
        return int(np.searchsorted(total, self.rng.random() * total[-1], side="right"))

    def _learn(self, x, arm, reward):
        lines = [x, *self.names]
        lines[arm + 1] = f"0:{-reward}:{self.probabilities[arm]:.6g} {lines[arm + 1]}"
        self.vw.learn(lines)


class ContextualBandits(Peer):
    """LinUCB of contextualbandits, Sherman-Morrison, single precision (its default)."""

    def __init__(self, arms, features):
        import contextualbandits.online

        self.bandit = contextualbandits.online.LinUCB(
            arms, alpha=0.25, lambda_=1.0, fit_intercept=False, method="sm", random_state=1
        )
        # It must be fitted first; zeros leave it unchanged.
        self.bandit.partial_fit(np.zeros((arms, features)), np.arange(arms), np.zeros(arms))

    def decide(self, x):
        return int(self.bandit.predict(x)[0])

    def _learn(self, x, arm, reward):
        self.bandit.partial_fit(x, np.array([arm]), np.array([reward]))


class MABWiser(Peer):
    """LinUCB of MABWiser."""

    def __init__(self, arms, features):
        from mabwiser.mab import MAB, LearningPolicy

        self.bandit = MAB(list(range(arms)), LearningPolicy.LinUCB(alpha=0.25, l2_lambda=1.0), seed=SEED)
        self.bandit.fit(list(range(arms)), [0] * arms, np.zeros((arms, features)))

    def decide(self, x):
        return self.bandit.predict(x)

    def _learn(self, x, arm, reward):
        self.bandit.partial_fit([arm], [reward], x)


class RiverLinUCB(Peer):
    """LinUCB of river, whose matrices grow with the features."""

    def __init__(self, arms, features):
        from river.bandit import LinUCBDisjoint

        self.arms = list(range(arms))
        self.bandit = LinUCBDisjoint(seed=SEED)

    def form(self, context):
        if isinstance(context, list):
            return dict.fromkeys(context, 1.0)
        nonzero = np.flatnonzero(context)
        return dict(zip(nonzero.tolist(), context[nonzero].tolist(), strict=True))

    def decide(self, x):
        return self.bandit.pull(self.arms, context=x)

    def _learn(self, x, arm, reward):
        self.bandit.update(arm, x, reward)


class RiverLogistic(RiverLinUCB):
    """A logistic regression of river an arm, and a random arm 5 % of the time: what it has for many sparse features."""

    EPSILON = 0.05

    def __init__(self, arms, features):
        from river.linear_model import LogisticRegression

        self.rng = np.random.default_rng(SEED)
        self.models = [LogisticRegression() for _ in range(arms)]

    def decide(self, x):
        if self.rng.random() < self.EPSILON:
            return int(self.rng.integers(len(self.models)))
        return int(np.argmax([model.predict_proba_one(x).get(True, 0.5) for model in self.models]))

    def _learn(self, x, arm, reward):
        self.models[arm].learn_one(x, reward > 0.5)


PEERS = {
    "linucb": lambda arms, features: Taciturn(arms, features, "linucb"),
    "viewucb": lambda arms, features: Taciturn(arms, features, "viewucb"),
    "vw": lambda arms, features: VowpalWabbit(arms, features, "--squarecb"),
    "vw epsilon": lambda arms, features: VowpalWabbit(arms, features, "--epsilon 0.05"),
    "vw adf": lambda arms, features: VowpalWabbitADF(arms, features, "--squarecb"),
    "contextualbandits": ContextualBandits,
    "mabwiser": MABWiser,
    "river linucb": RiverLinUCB,
    "river logistic": RiverLogistic,
}
