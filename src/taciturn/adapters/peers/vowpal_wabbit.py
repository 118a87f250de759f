"""Contextual bandits of Vowpal Wabbit."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from vowpalwabbit import Workspace

from taciturn.adapters.peers.base import Peer, library_seed
from taciturn.adapters.peers.library import Events, named_rows
from taciturn.agents.parts.part import Sizes
from taciturn.errors import TaciturnError
from taciturn.validate import check_choice, check_number

OPTIONS = {
    *("squarecb", "gamma_scale", "gamma_exponent", "elim", "regcb", "regcbopt", "mellowness", "bag", "greedify"),
    *("cover", "psi", "nounif", "epsilon", "first", "synthcover", "softmax", "lambda", "rnd"),
    *("l", "learning_rate", "power_t", "initial_t", "l1", "l2", "sgd", "adaptive", "invariant", "normalized", "coin"),
}
"""What `options` may name: exploration and learning, and nothing that reads or writes files."""

MIN_BITS, MAX_BITS = 18, 24
"""The weights are a table of 2¹⁸ to 2²⁴."""

COSTS = "--cb_min_cost -1 --cb_max_cost 0"
"""The range of −reward, which intervals of confidence are computed in; by default it is that of costs from 0 to 1."""

SMALLEST = float(np.finfo(np.float32).tiny)

WEIGHT_BYTES = 16
"""A weight, its sum of squared gradients, its scale, and one that is spare, in single precision."""


class Adf:
    """A workspace that takes a line for the context and one for each arm, crossed with one another."""

    def __init__(self, options: str, n_arms: int) -> None:
        try:
            self._workspace: Any = Workspace(options)
        except RuntimeError as error:
            raise TaciturnError(f"Vowpal Wabbit refuses {options!r}: {' '.join(str(error).split())}") from None
        self._arms = [f"|a {arm}" for arm in range(n_arms)]

    def learn(self, events: Events) -> None:
        """One example for each event, whose cost is −reward."""
        rest = (part.tolist() for part in (events.arms, events.rewards, events.chances))
        for features, arm, reward, chance in zip(named_rows(events.rows), *rest, strict=True):
            lines = [_shared_line(features), *self._arms]
            lines[1 + arm] = f"0:{-reward:.9g}:{chance:.9g} {lines[1 + arm]}"
            self._workspace.learn(lines)

    def scores(self, row: sp.csr_matrix) -> NDArray[np.float64]:
        """The probabilities of the arms (K,)."""
        (features,) = named_rows(row)
        return np.asarray(self._workspace.predict([_shared_line(features), *self._arms]), np.float64)


def _shared_line(features: dict[int, float]) -> str:
    """A context as text; a feature whose name is a number is not hashed, so that none of them collide.

    What is 0 in single precision is left out: an exponent below that is read as NaN.
    """
    told = [f"{name}:{value:.9g}" for name, value in features.items() if abs(value) > SMALLEST]
    return "shared |s " + " ".join(told)


def _check_options(options: object) -> None:
    """Raise unless options are those of `OPTIONS`, with numbers: any other word would be a file."""
    if not isinstance(options, str):
        raise TaciturnError(f"options={options!r} is not allowed; a text as on Vowpal Wabbit's command line is")
    for word in options.split():
        name, _, value = word.lstrip("-").partition("=") if word.startswith("-") else ("", "", word)
        if name and name not in OPTIONS:
            raise TaciturnError(f"options={options!r} is not allowed: {word} is none of {sorted(OPTIONS)}")
        if value and not _is_number(value):
            raise TaciturnError(f"options={options!r} is not allowed: {value} is not a number")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(kw_only=True, eq=False)
class VowpalWabbit(Peer):
    """Vowpal Wabbit's ``--cb_explore_adf``: a linear regression of costs on the context crossed with the arm.

    It returns a probability for each arm, of which one is drawn; the propensity is that probability. A labelled row is
    one example for each arm, of probability 1.

    Arguments, beside those of `Peer`:
        options: how it explores and learns, as on its command line: "--squarecb --gamma_scale 100 -l 0.1".
        cb_type: how it estimates the costs of arms that were not chosen: "mtr", or "dr", "ips" or "dm" where the
            exploration takes them (bag, cover and epsilon do).
        interactions: which groups of features are crossed: s is the context, a the arm.
        bits: of the hash of features; None takes four weights for each feature and arm, from 18 to 24.
    """

    tag = "vowpalwabbit"
    package: ClassVar[str] = "vowpalwabbit"
    stochastic: ClassVar[bool] = True
    resumes: ClassVar[bool] = True

    options: str = "--squarecb"
    cb_type: str = "mtr"
    interactions: str = "sa"
    bits: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        super().__post_init__()
        _check_options(self.options)
        check_choice("cb_type", self.cb_type, ("mtr", "dr", "ips", "dm"))
        if not isinstance(self.interactions, str) or not self.interactions or set(self.interactions) - set("sa"):
            raise TaciturnError(f"interactions={self.interactions!r} is not allowed; the letters s and a are")
        if self.bits is not None:
            check_number("bits", self.bits, 1, MAX_BITS, whole=True)

    def _bits(self, n_arms: int, n_features: int) -> int:
        if self.bits is not None:
            return self.bits
        return int(np.clip(np.ceil(np.log2(4.0 * n_arms * max(n_features, 1))), MIN_BITS, MAX_BITS))

    def _new_library(self, n_arms: int, n_features: int) -> Adf:
        chosen = f"--cb_explore_adf {self.options} --cb_type {self.cb_type} --interactions {self.interactions}"
        if {"--squarecb", "--regcb", "--regcbopt"} & set(self.options.split()):  # others do not know them
            chosen += f" {COSTS}"
        bits, seed = self._bits(n_arms, n_features), library_seed(self.seed)
        return Adf(f"{chosen} --noconstant -b {bits} --random_seed {seed} --quiet", n_arms)

    def _library_nbytes(self, sizes: Sizes) -> float:
        return float(WEIGHT_BYTES * 2 ** self._bits(sizes.arms, sizes.features))
