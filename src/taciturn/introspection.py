"""What an agent says about itself: why an arm was chosen, and how it is doing."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.contracts import STATES, Arm
from taciturn.display import Displayed, Summary, Table, counts, name_text, percent
from taciturn.intervals import score_text
from taciturn.system import format_bytes


class Neighbor(NamedTuple):
    """A neighboring context whose reward supports or opposes an arm.

    `reward` is that of its own `arm`, observed or `imputed`; `closeness` is its weight in the graph over one and two
    steps, or the cosine where there is no graph.
    """

    id: int
    arm: Arm
    reward: float
    imputed: bool
    closeness: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Explanation(Displayed):
    """Why an arm was chosen.

    `id`, `arm`, `state` and `propensity` are those of the decision, as are `scores` and `widths` (K,), in the order of
    `arms` and NaN for arms that were added later; `supporting` and `opposing` are the neighbors as they are now,
    closest first. `reward` is what was observed, `imputed_reward` what was learned in silence, None where there is
    none; `imputed_share` is the share of imputed rewards among all that were learned for this arm; `second` is the arm
    with the next highest bound.
    """

    id: int
    arm: Arm
    state: str
    reward: float | None
    imputed_reward: float | None
    propensity: float
    arms: tuple[Arm, ...]
    scores: NDArray[np.float64]
    widths: NDArray[np.float64]
    second: Arm | None
    supporting: tuple[Neighbor, ...]
    opposing: tuple[Neighbor, ...]
    imputed_share: float

    def __str__(self) -> str:
        """A few lines of text."""
        lines = [f"decision {self.id} is {self.state}: {self._bound(self.arm)}"]
        if self.second is not None:
            lines.append(f"second: {self._bound(self.second)}")
        lines += [
            f"{side}: decision {id}, {arm}, {reward}, {closeness} close"
            for side, id, arm, reward, closeness in self._neighbors()
        ]
        lines.append(f"imputed share of what was learned for {name_text(self.arm)}: {self.imputed_share:.0%}")
        return "\n".join(lines)

    __repr__ = __str__

    def _bound(self, arm: Arm) -> str:
        k = self.arms.index(arm)
        return f"{name_text(arm)}, {score_text(float(self.scores[k]), float(self.widths[k]))}"

    def _neighbors(self) -> list[tuple[str, ...]]:
        """Of each neighbor its side, id, arm, reward and closeness."""
        sides = [("supporting", near) for near in self.supporting] + [("opposing", near) for near in self.opposing]
        return [
            (
                side,
                str(near.id),
                name_text(near.arm),
                f"{'imputed reward' if near.imputed else 'reward'} {near.reward:.2g}",
                f"{near.closeness:.2f}",
            )
            for side, near in sides
        ]

    def _summary(self) -> Summary:
        facts = {"state": self.state, "chosen": self._bound(self.arm)}
        if self.second is not None:
            facts["second"] = self._bound(self.second)
        facts |= {"propensity": f"{self.propensity:.3g}", "imputed share": percent(self.imputed_share)}
        neighbors = Table(("neighbor", "decision", "arm", "reward", "closeness"), self._neighbors())
        return Summary(f"Why decision {self.id}", facts, (neighbors,) if neighbors.rows else ())


class Calibration(NamedTuple):
    """How well imputed rewards predicted those that came late.

    `truths` is the number of late rewards, `brier` the mean squared error, and `bins` has for each tenth of the range
    with any: the mean imputed reward, the mean observed reward, and their number.
    """

    truths: int
    brier: float
    bins: tuple[tuple[float, float, int], ...]


class AnswerRates(NamedTuple):
    """How likely an answer is, estimated from context and arm by a logistic regression; each from other decisions.

    `rate` is the share of decisions that were answered, of the last 2000 that are settled; 90 % of them have an
    estimate from `lowest` to `highest`. `explained` is the share of the uncertainty that context and arm explain; 0
    where that is not clear and silence looks random, so that all estimates are the rate. `bins` has for each tenth of
    the range with any: the mean estimate, the share that was answered, and their number.
    """

    rate: float
    lowest: float
    highest: float
    explained: float
    bins: tuple[tuple[float, float, int], ...]


class Covariance(NamedTuple):
    """How a linear agent keeps the covariances of its arms.

    `form` is "exact", "history" (exact too, through the contexts that were learned) or "sketch". Of a sketch: `rank` is
    how many features it has; `width_ratio` is how large the widths of a few of the last contexts are, as a share of the
    exact ones, None where that is not known; `unsolved` is the residual of the normal equations of θ, as a share of
    their longer side, which is 0 for the ridge solution.
    """

    form: str
    rank: int | None = None
    width_ratio: float | None = None
    unsolved: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Health(Displayed):
    """How an agent is doing.

    decisions              made in all
    remembered             contexts that the agent holds; of them pending, rewarded, silent, labelled
    late, corrected        rewards that came after silence; rewards that were changed
    expired                decisions that became silent by `expire_after`
    withdrawn, forgotten   decisions withdrawn; contexts evicted at `max_nodes`, of them `evicted_pending` were pending
    imputed_share          share of imputed rewards among all that are learned
    calibration            of imputed rewards; None before any late reward
    answers                how likely an answer is by context and arm; None before a hundred decisions are settled
    covariance             how the covariances of the arms are kept; None of agents that have none
    recall                 share of the nearest neighbors that the search finds; None where it is exact, or not needed
    reward_rate            mean of the observed rewards that are held; `recent_reward_rate` of the last hundred
    drift                  recent rate less the one before, in standard errors; None where there are too few rewards
    memory                 bytes in arrays
    """

    decisions: int
    remembered: int
    pending: int
    rewarded: int
    silent: int
    labelled: int
    late: int
    corrected: int
    expired: int
    withdrawn: int
    forgotten: int
    evicted_pending: int
    imputed_share: float
    calibration: Calibration | None
    answers: AnswerRates | None
    covariance: Covariance | None = None
    recall: float | None = None
    reward_rate: float | None
    recent_reward_rate: float | None
    drift: float | None
    memory: int

    def _summary(self) -> Summary:
        held = {state: getattr(self, state) for state in STATES}
        events = ("late", "corrected", "expired", "withdrawn", "forgotten")
        facts = {
            "remembered": f"{self.remembered} contexts: {counts(held)}",
            "events": counts({name: getattr(self, name) for name in events}),
            "reward rate": f"{percent(self.reward_rate)}, recently {percent(self.recent_reward_rate)}",
            "imputed share": percent(self.imputed_share),
            "memory": format_bytes(self.memory),
        }
        if self.drift is not None:
            facts["drift"] = f"{self.drift:+.1f} standard errors"
        if self.calibration is not None:
            facts["calibration"] = (
                f"Brier score {self.calibration.brier:.3f} over {self.calibration.truths} late rewards"
            )
        if self.answers is not None:
            facts["answers"] = _answers_text(self.answers)
        if self.covariance is not None:
            facts["covariance"] = covariance_text(self.covariance)
        if self.recall is not None:
            facts["neighbors"] = f"{percent(self.recall)} of the nearest are found"
        return Summary(f"Health after {self.decisions} decisions", facts)


def _answers_text(answers: AnswerRates) -> str:
    if answers.explained == 0:
        return f"{percent(answers.rate)} of decisions, with no clear difference by context and arm"
    spread = f"{percent(answers.lowest)} to {percent(answers.highest)}"
    return f"{percent(answers.rate)} of decisions, by context and arm {spread}"


def covariance_text(covariance: Covariance) -> str:
    """In words, as "sketch of rank 256 (widths 0.9 of the exact ones)"."""
    if covariance.form == "history":
        return "exact, through the history"
    if covariance.rank is None:
        return covariance.form
    ratio = "" if covariance.width_ratio is None else f" (widths {covariance.width_ratio:.2g} of the exact ones)"
    return f"{covariance.form} of rank {covariance.rank}{ratio}"
