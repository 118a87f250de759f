"""How much to trust each view: a small regression on what the views said before they knew, and what then came of it."""

import numpy as np
from numpy.typing import NDArray

from taciturn.agents.storage import storable

Floats = NDArray[np.float64]

TRUST = 15.0
"""What all views together are trusted at first; scores are cosines, so this is how sure a perfect match makes."""

TRUST_PRIOR, BIAS_PRIOR = 1.0, 30.0
"""How strongly trust is held to where it began, relative to its square, and the arms' biases to zero."""

STEPS = 6


@storable
class Trust:
    """From the scores of V views (V, K) to probabilities of K arms.

        p = softmax(Σ_v β_v s_v + b)        β ≥ 0

    where one arm is right, and a logistic function of the same where arms are right or wrong on their own. β (V,) and b
    (K,) maximise the likelihood of the answers that came, ``Σ log p`` of the arms that were right and ``Σ log(1 − p)``
    of those that were wrong, given the scores that the views had before the answer, and a Gaussian prior.
    """

    def __init__(self, views: int, arms: int, *, exclusive: bool) -> None:
        self._exclusive = exclusive
        self._first = np.full(views, TRUST / views)
        self.views = self._first.copy()
        self.bias = np.zeros(arms)

    def fits(self, views: int, arms: int) -> bool:
        """Whether it is for so many views and arms."""
        return (self.views.shape, self._first.shape, self.bias.shape) == ((views,), (views,), (arms,))

    def add_arm(self, like: int | None) -> None:
        """One arm more, with the bias of another or with none."""
        self.bias = np.append(self.bias, 0.0 if like is None else self.bias[like])

    def probabilities(self, scores: NDArray[np.float32]) -> Floats:
        """(…, K) for scores (…, V, K)."""
        return self._probabilities(scores, self.views, self.bias)

    def _probabilities(self, scores: NDArray[np.float32], views: Floats, bias: Floats) -> Floats:
        logits = np.einsum("v,...vk->...k", views, scores) + bias
        if not self._exclusive:
            return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -500, 500))))
        raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))

    def refit(self, scores: NDArray[np.float32], arms: NDArray[np.int32], rewards: Floats) -> None:
        """A few damped Newton steps on N answers: what the views had said (N, V, K), the arms chosen, their rewards.

        The biases' curvature is taken arm by arm, so that many arms are no burden.
        """
        if not len(arms):
            return
        scores = scores.astype(float)
        each = np.arange(len(arms))
        hold = TRUST_PRIOR / self._first**2

        def loss(views: Floats, bias: Floats) -> float:
            p = np.clip(self._probabilities(scores, views, bias)[each, arms], 1e-6, 1 - 1e-6)
            likelihood = rewards * np.log(p) + (1 - rewards) * np.log(1 - p)
            prior = (hold * (views - self._first) ** 2).sum() + BIAS_PRIOR * (bias**2).sum()
            return float(prior / 2 - likelihood.sum())

        best = loss(self.views, self.bias)
        for _ in range(STEPS):
            p = self._probabilities(scores, self.views, self.bias)
            chosen = np.clip(p[each, arms], 1e-6, 1 - 1e-6)
            if self._exclusive:  # the logarithm of the chosen arm's probability by its views and by the biases
                by_view = scores[each, :, arms] - np.einsum("nk,nvk->nv", p, scores)
                by_bias = -p
                by_bias[each, arms] += 1.0
            else:
                by_view = (1 - chosen)[:, None] * scores[each, :, arms]
                by_bias = np.zeros_like(p)
                by_bias[each, arms] = 1 - chosen
            odds = chosen / (1 - chosen)
            slope = rewards - (1 - rewards) * odds
            weight = rewards + (1 - rewards) * odds
            down_view = hold * (self.views - self._first) - slope @ by_view
            down_bias = BIAS_PRIOR * self.bias - slope @ by_bias
            step_view = np.linalg.solve((by_view * weight[:, None]).T @ by_view + np.diag(hold), down_view)
            step_bias = down_bias / (weight @ by_bias**2 + BIAS_PRIOR)
            for pace in (1.0, 0.5, 0.25, 0.125, 0.0625):
                views, bias = np.maximum(self.views - pace * step_view, 0.0), self.bias - pace * step_bias
                found = loss(views, bias)
                if found < best:
                    self.views, self.bias, best = views, bias, found
                    break
            else:
                return
