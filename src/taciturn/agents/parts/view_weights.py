"""How much each view counts: a small regression of the answers that came on what the views had scored before."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.parts.part import Part, require
from taciturn.kernels import views

Floats = NDArray[np.float64]

BETA_PRIOR, BIAS_PRIOR = 1.0, 30.0
"""The priors: β_v ~ N(β₀, β₀² / BETA_PRIOR) around its first value β₀, and b_k ~ N(0, 1 / BIAS_PRIOR)."""

NEWTON_STEPS = 6


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
    """

    def __init__(self, initial: Floats, *, exclusive: bool) -> None:
        super().__init__()
        self._exclusive, self._initial = exclusive, initial
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
        return np.asarray(views.combine(view_scores, self.beta.data, self.bias.data, exclusive=self._exclusive))

    def refit(self, view_scores: NDArray[np.float32], arms: NDArray[np.int32], rewards: Floats) -> None:
        """A few damped Newton steps on N answers: what the views had scored (N, V, K), the arms chosen, their rewards.

        The biases' curvature is taken arm by arm, so that its cost does not grow with the square of the arms.
        """
        if not len(arms):
            return
        s, each = view_scores.astype(float), np.arange(len(arms))
        prior_precision = BETA_PRIOR / self._initial**2

        def loss(beta: Floats, bias: Floats) -> float:
            p = np.clip(views.combine(s, beta, bias, exclusive=self._exclusive)[each, arms], 1e-6, 1 - 1e-6)
            likelihood = rewards * np.log(p) + (1 - rewards) * np.log(1 - p)
            prior = (prior_precision * (beta - self._initial) ** 2).sum() + BIAS_PRIOR * (bias**2).sum()
            return float(prior / 2 - likelihood.sum())

        best = loss(self.beta.data, self.bias.data)
        for _ in range(NEWTON_STEPS):
            p = self.probabilities(s)
            chosen = np.clip(p[each, arms], 1e-6, 1 - 1e-6)
            if self._exclusive:  # derivatives of log p_chosen by β and b
                d_beta = s[each, :, arms] - np.einsum("nk,nvk->nv", p, s)
                d_bias = -p
                d_bias[each, arms] += 1.0
            else:
                d_beta = (1 - chosen)[:, None] * s[each, :, arms]
                d_bias = np.zeros_like(p)
                d_bias[each, arms] = 1 - chosen
            odds = chosen / (1 - chosen)
            slope = rewards - (1 - rewards) * odds
            weight = rewards + (1 - rewards) * odds
            grad_beta = prior_precision * (self.beta.data - self._initial) - slope @ d_beta
            grad_bias = BIAS_PRIOR * self.bias.data - slope @ d_bias
            step_beta = np.linalg.solve((d_beta * weight[:, None]).T @ d_beta + np.diag(prior_precision), grad_beta)
            step_bias = grad_bias / (weight @ d_bias**2 + BIAS_PRIOR)
            for damping in (1.0, 0.5, 0.25, 0.125, 0.0625):
                beta = np.maximum(self.beta.data - damping * step_beta, 0.0)
                bias = self.bias.data - damping * step_bias
                found = loss(beta, bias)
                if found < best:
                    self.beta.data, self.bias.data, best = beta, bias, found
                    break
            else:
                return
