"""How much each view counts: a small regression of the answers that came on what the views had scored before."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import Part, require
from taciturn.kernels import views

Floats = NDArray[np.float64]

BETA_PRIOR = 1.0
"""The prior of β_v is N(β₀, β₀² / BETA_PRIOR) around its first value β₀."""

WEAKEST_PRIOR, STRONGEST_PRIOR = 8.0, 30.0
"""The prior of b_k is N(0, 1/τ): τ is the strongest, or, if `adaptive`, as much less as the answers say. With one of 1
an arm that was wrong a few times at the start, where nothing was known of it, is hardly ever tried again."""

ABSENT = -1e3
"""The view scores of an arm that was not there: a probability of zero."""

NEWTON_STEPS = 6


def bias_precision_of(right: Floats) -> float:
    """τ for numbers of right answers by arm (K,): the inverse of how much their logarithms vary.

    What they would vary by chance if all arms were equal is taken off: about ``1/n`` for an arm with n of them.
    """
    right = right + 0.5
    variance = float(np.log(right).var() - (1.0 / right).mean())
    return min(max(1.0 / max(variance, 1e-6), WEAKEST_PRIOR), STRONGEST_PRIOR)


class Answered(NamedTuple):
    """N answers that weights are fitted to."""

    view_scores: NDArray[np.float32]  # what the views had scored before (N, V, K)
    arms: NDArray[np.int32]  # that were chosen (N,)
    rewards: Floats  # (N,)
    known: NDArray[np.bool_]  # of which arms something has told where they are right (K,)


class ViewWeights(Part):
    """From the scores of V views (V, K) to probabilities of K arms.

        p = softmax(Σ_v β_v s_v + b)        β ≥ 0

    where one arm is right (`exclusive`), and a logistic function of the same where arms are right or wrong on their
    own. β (V,) and b (K,) maximize the likelihood of the answers that came, ``Σ log p`` of the arms that were right and
    ``Σ log(1 − p)`` of those that were wrong, given the scores that the views had before the answer, and a Gaussian
    prior.

    Arguments:
        initial: the weights β₀ (V,) at first.
        exclusive: whether one arm is right.
        adaptive: whether the prior of the biases is wider where some arms are right far more often than others. An arm
            that is not known then keeps the bias of a mean arm: that it was wrong elsewhere does not make it rare.
    """

    def __init__(self, initial: Floats, *, exclusive: bool, adaptive: bool = False) -> None:
        super().__init__()
        self._exclusive, self._initial, self._adaptive = exclusive, initial, adaptive
        self.beta = self.array("beta", np.float64, len(initial))
        self.bias = self.array("bias", np.float64, "arm")

    def allocate(self, n_arms: int, n_features: int) -> None:
        """The first weights, no biases."""
        super().allocate(n_arms, n_features)
        self.beta.data = self._initial.copy()

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Weights are finite."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        require(np.isfinite(self.beta.data).all() and np.isfinite(self.bias.data).all(), "weights are not finite")

    def probabilities(self, view_scores: NDArray[np.float32]) -> Floats:
        """(…, K) for scores (…, V, K)."""
        return self.from_logits(self.logits(view_scores))

    def logits(self, view_scores: NDArray[np.float32], arms: slice = slice(None)) -> Floats:
        """``Σ_v β_v s_v + b`` of some arms (…, A) for scores (…, V′, A); views that lack at the end score 0."""
        beta = self.beta.data[: view_scores.shape[-2]]
        return np.asarray(np.einsum("v,...vk->...k", beta, view_scores) + self.bias.data[arms])

    def from_logits(self, logits: Floats) -> Floats:
        """Probabilities (…, K) for logits of all arms (…, K)."""
        return np.asarray(views.probabilities(logits, exclusive=self._exclusive))

    def refit(self, answers: Answered) -> None:
        """A few damped Newton steps on the answers."""
        if not len(answers.arms):  # all were taken back
            self.beta.data, self.bias.data = self._initial.copy(), np.zeros_like(self.bias.data)
            return
        posterior = _Posterior(answers, self._initial, exclusive=self._exclusive, adaptive=self._adaptive)
        self.bias.data[posterior.fixed] = 0.0
        best = posterior.loss(self.beta.data, self.bias.data)
        for _ in range(NEWTON_STEPS):
            step_beta, step_bias = posterior.newton_step(self.beta.data, self.bias.data)
            for damping in (1.0, 0.5, 0.25, 0.125, 0.0625):
                beta = np.maximum(self.beta.data - damping * step_beta, 0.0)
                bias = self.bias.data - damping * step_bias
                found = posterior.loss(beta, bias)
                if found < best:
                    self.beta.data, self.bias.data, best = beta, bias, found
                    break
            else:
                return


class _Posterior:
    """Of β and b given N answers, as a loss: the negative logarithm. See `ViewWeights`."""

    def __init__(self, answers: Answered, initial: Floats, *, exclusive: bool, adaptive: bool) -> None:
        self._scores, self._arms, self._rewards = answers.view_scores.astype(float), answers.arms, answers.rewards
        self._each, self._exclusive, self._initial = np.arange(len(answers.arms)), exclusive, initial
        self._beta_precision, self._bias_precision = BETA_PRIOR / initial**2, STRONGEST_PRIOR
        self.fixed = np.zeros(self._scores.shape[2], np.bool_)  # arms whose bias stays 0, the mean of the others
        if adaptive:
            right = np.bincount(answers.arms, answers.rewards, minlength=len(self.fixed)).astype(float)
            self._bias_precision = bias_precision_of(right[(self._scores[:, 0] > ABSENT).any(axis=0)])
            self.fixed = ~answers.known

    def _probabilities(self, beta: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Of all arms (N, K), and of those chosen (N,), which are never 0 or 1."""
        p = np.asarray(views.combine(self._scores, beta, bias, exclusive=self._exclusive))
        return p, np.clip(p[self._each, self._arms], 1e-6, 1 - 1e-6)

    def loss(self, beta: Floats, bias: Floats) -> float:
        _, p = self._probabilities(beta, bias)
        likelihood = self._rewards * np.log(p) + (1 - self._rewards) * np.log(1 - p)
        prior = (self._beta_precision * (beta - self._initial) ** 2).sum() + self._bias_precision * (bias**2).sum()
        return float(prior / 2 - likelihood.sum())

    def newton_step(self, beta: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """What to take off β and b; the curvature by b is taken arm by arm, so that it does not cost K²."""
        s, each, arms, rewards = self._scores, self._each, self._arms, self._rewards
        p, chosen = self._probabilities(beta, bias)
        if self._exclusive:  # derivatives of log p of the arms chosen by β and b
            d_beta = s[each, :, arms] - np.einsum("nk,nvk->nv", p, s)
            d_bias = -p
            d_bias[each, arms] += 1.0
        else:
            d_beta = (1 - chosen)[:, None] * s[each, :, arms]
            d_bias = np.zeros_like(p)
            d_bias[each, arms] = 1 - chosen
        odds = chosen / (1 - chosen)
        slope, weight = rewards - (1 - rewards) * odds, rewards + (1 - rewards) * odds
        grad_beta = self._beta_precision * (beta - self._initial) - slope @ d_beta
        curvature = (d_beta * weight[:, None]).T @ d_beta + np.diag(self._beta_precision)
        grad_bias = self._bias_precision * bias - slope @ d_bias
        step_bias = grad_bias / (weight @ d_bias**2 + self._bias_precision)
        if self.fixed.any() and not self.fixed.all():
            step_bias -= step_bias[~self.fixed].mean()
        return np.linalg.solve(curvature, grad_beta), np.where(self.fixed, 0.0, step_bias)


ARM_PRECISION, VIEW_PRECISION = 1.0, 1.0
"""Priors where several arms can be good: b_k ~ N(0, 1 / ARM_PRECISION), β_v ~ N(0, 1 / VIEW_PRECISION), β_v ≥ 0."""

SMALLEST_VARIANCE, SMALLEST_DISPERSION = 1e-4, 1e-3
"""No variance p(1 − p), and no dispersion, counts as less: rewards that are all equal must not make all certain."""

LARGEST_DISPERSION = 10.0
"""Rewards from 0 to 1 vary no more than those of a coin, so that more comes of few answers that nobody expected."""

LARGEST_STEP = 2.0
"""No Newton step changes a weight, or log-odds, by more: far from the solution the curvature says little."""


class IndependentWeights(ViewWeights):
    """From the scores of V views (V, K) to expected rewards of K arms of which several can be good, with their errors.

        p_k = σ(c + b_k + Σ_v β_v s_vk)        β ≥ 0

    c is what all rewards together say. The views know nothing until they have proved it: β begins at 0. Rewards may be
    anything from 0 to 1 and vary less, or more, than those of a coin: β and b maximize the quasi-likelihood
    ``Σ (r log p + (1 − r) log(1 − p)) / φ`` and a Gaussian prior, where the dispersion φ, the mean of
    ``(r − p)² / p(1 − p)``, is that of the answers. So errors are in the units of the rewards, whatever these are.

    An answer is about one arm, so that the curvature by b is diagonal. With its entries d_k, the mean scores u_k (V,)
    of the answers of arm k and the covariance C (V, V) of β, the variance of a log-odds is
    ``1/d_k + (s_k − u_k)ᵀC(s_k − u_k)``.
    """

    SAVED: ClassVar[dict[str, str]] = {"common": "_common", "dispersion": "_dispersion"}

    def __init__(self, n_views: int) -> None:
        super().__init__(np.zeros(n_views), exclusive=False)
        self._common, self._dispersion = 0.0, 1.0
        self._information = self.array("information", np.float64, "arm")  # d without its prior
        self._mean_scores = self.array("mean_scores", np.float64, n_views, "arm")
        self._covariance = self.array("covariance", np.float64, n_views, n_views)
        # What was known of the arm that an arm began as a copy of; zeros for all others.
        self._prior_information = self.array("prior_information", np.float64, "arm", new_arm=0.0)
        self._prior_logits = self.array("prior_logits", np.float64, "arm", new_arm=0.0)
        self._prior_scores = self.array("prior_scores", np.float64, n_views, "arm", new_arm=0.0)

    def allocate(self, n_arms: int, n_features: int) -> None:
        """The priors."""
        super().allocate(n_arms, n_features)
        self._covariance.data = np.eye(len(self._initial)) / VIEW_PRECISION

    def add_arm(self, like: int | None) -> None:
        """One arm more; what was known of the arm `like` is its prior."""
        known = self._precision
        super().add_arm(like)
        if like is not None:
            self._prior_information.data[-1] = known[like] - ARM_PRECISION
            self._prior_logits.data[-1] = self._common + self.bias.data[like]
            self._prior_scores.data[:, -1] = self._mean_scores.data[:, like] * known[like]
            self._information.data[-1] = 0.0

    @property
    def _precision(self) -> Floats:
        """The curvature d by b (K,)."""
        return np.asarray(ARM_PRECISION + self._prior_information.data + self._information.data)

    def load_state_dict(self, state: dict[str, Any], n_arms: int, n_features: int, n_nodes: int) -> None:
        """Variances are finite and not negative."""
        super().load_state_dict(state, n_arms, n_features, n_nodes)
        informations = self._information.data, self._prior_information.data
        others = self._mean_scores.data, self._covariance.data, self._prior_logits.data, self._prior_scores.data
        require(all(np.isfinite(array).all() for array in (*informations, *others)), "weights are not finite")
        require(all((array >= 0).all() for array in informations), "an information is negative")
        require(abs(self._common) <= 100 and 0 < self._dispersion <= 1e3, "the dispersion is not sound")

    def logits(self, view_scores: NDArray[np.float32], arms: slice = slice(None)) -> Floats:
        """``c + b + Σ_v β_v s_v``; see `ViewWeights.logits`."""
        beta = self.beta.data[: view_scores.shape[-2]]
        return np.asarray(np.einsum("v,...vk->...k", beta, view_scores) + (self._common + self.bias.data[arms]))

    def errors(self, view_scores: NDArray[np.float32]) -> Floats:
        """Standard errors of the expected rewards (K,) for scores (V, K)."""
        p = self.probabilities(view_scores)
        away = view_scores - self._mean_scores.data
        of_views = np.einsum("vk,vw,wk->k", away, self._covariance.data, away)
        variance = 1.0 / self._precision + np.maximum(of_views, 0.0)
        return np.asarray(p * (1.0 - p) * np.sqrt(variance))

    def refit(self, answers: Answered) -> None:
        """Newton steps on N answers, exact in β and b together: see `ViewWeights.refit`."""
        view_scores, arms, rewards, _ = answers
        if not len(arms):
            self._forget()
            return
        scores = view_scores[np.arange(len(arms)), :, arms].astype(float)  # (N, V)
        mean = (rewards.sum() + 0.5) / (len(arms) + 1.0)
        self._common = float(np.log(mean / (1.0 - mean)))
        for _ in range(NEWTON_STEPS):
            self._step(scores, arms, rewards)
        p, variance = self._of_answers(scores, arms)
        found = float((((rewards - p) ** 2 / variance).sum() + 1.0) / (len(arms) + 1.0))
        self._dispersion = min(max(found, SMALLEST_DISPERSION), LARGEST_DISPERSION)
        self._step(scores, arms, rewards)

    def _forget(self) -> None:
        """There are no answers, or no longer any: the priors."""
        self._common, self._dispersion = 0.0, 1.0
        self.beta.data, self._information.data = self._initial.copy(), np.zeros_like(self.bias.data)
        self.bias.data = np.where(self._prior_information.data > 0, self._prior_logits.data, 0.0)
        self._mean_scores.data = self._prior_scores.data / self._precision
        self._covariance.data = np.eye(len(self._initial)) / VIEW_PRECISION

    def _of_answers(self, scores: Floats, arms: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Expected rewards of answers (N,) and the variances p(1 − p) that a coin would have."""
        logits = self._common + self.bias.data[arms] + scores @ self.beta.data
        p = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
        return p, np.maximum(p * (1.0 - p), SMALLEST_VARIANCE)

    def _step(self, scores: Floats, arms: NDArray[np.int32], rewards: Floats) -> None:
        """One Newton step: the curvature by b is diagonal, so that only its complement (V, V) by β is solved."""
        n_arms = len(self.bias.data)
        p, variance = self._of_answers(scores, arms)
        weight = variance / self._dispersion
        self._information.data = np.bincount(arms, weight, minlength=n_arms)
        d, copied = self._precision, self._prior_information.data > 0
        crossed = np.zeros((n_arms, scores.shape[1]))
        np.add.at(crossed, arms, scores * weight[:, None])
        self._mean_scores.data = (self._prior_scores.data + crossed.T) / d
        of_beta = (scores * weight[:, None]).T @ scores + VIEW_PRECISION * np.eye(scores.shape[1])
        self._covariance.data = np.linalg.inv(of_beta - (crossed / d[:, None]).T @ crossed)
        slope = (rewards - p) / self._dispersion
        grad_beta = VIEW_PRECISION * self.beta.data - slope @ scores
        prior = np.where(copied, self._prior_logits.data - self._common, 0.0)
        of_prior = (ARM_PRECISION + self._prior_information.data) * (self.bias.data - prior)
        grad_bias = of_prior - np.bincount(arms, slope, minlength=n_arms)
        step = self._covariance.data @ (grad_beta - (grad_bias / d) @ crossed)
        beta = np.maximum(self.beta.data - np.clip(step, -LARGEST_STEP, LARGEST_STEP), 0.0)
        of_bias = (grad_bias + crossed @ (beta - self.beta.data)) / d
        self.bias.data = self.bias.data - np.clip(of_bias, -LARGEST_STEP, LARGEST_STEP)
        self.beta.data = beta
