"""The paper's pseudo-code, transcribed line by line: dense, one arm at a time, everything from scratch at every step.

Random numbers are drawn as in the library: from the generator of the seed, first the weights, then two keys of dropout
masks for each training step.
"""

import numpy as np

from oracles import fourier, gcn, knn, views
from taciturn.agents.parts.view_weights import Answered, ViewWeights


def argmax_first(values):
    """Return the first index whose value is within 1e-9 of the maximum."""
    return int(np.flatnonzero(np.array(values) >= max(values) - 1e-9)[0])


def unit(vector):
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else vector


class LinUCB:
    def __init__(self, arms, dimension, alpha=0.25, normalize=False):
        self.A = [np.eye(dimension) for _ in range(arms)]
        self.b = [np.zeros(dimension) for _ in range(arms)]
        self.alpha, self.normalize = alpha, normalize

    def bounds(self, x):
        mu, sigma = [], []
        for A, b in zip(self.A, self.b, strict=True):
            inverse = np.linalg.inv(A)
            theta = inverse @ b
            mu.append((unit(theta) if self.normalize else theta) @ x)
            sigma.append(self.alpha * np.sqrt(x @ inverse @ x))
        return np.array(mu), np.array(sigma)

    def predict(self, x):
        return argmax_first(np.add(*self.bounds(x)))

    def learn(self, x, arm, h):
        if h == 1:
            for k in range(len(self.A)):
                self.A[k] = self.A[k] + np.outer(x, x)
            self.b[arm] = self.b[arm] + x
        elif h == 0:
            self.A[arm] = self.A[arm] + np.outer(x, x)

    def impute(self, x, arm, reward):
        self.A[arm] = self.A[arm] + np.outer(x, x)
        self.b[arm] = self.b[arm] + reward * x


class Networks:
    """H dense networks over one growing graph, each with its own weights and optimizers."""

    def __init__(self, seed, dimension, heads, classes, k=5, hidden=16):
        self.rng = np.random.default_rng([seed, 1])
        self.heads, self.hidden, self.k = heads, hidden, k
        self.W1 = np.hsplit(self.glorot((dimension, heads * hidden), dimension + hidden), heads)
        self.W2 = np.vsplit(self.glorot((heads * hidden, classes), hidden + classes), heads)
        self.adam = [(gcn.Adam(0.01), gcn.Adam(0.01)) for _ in range(heads)]
        self.X, self.y, self.edges = np.zeros((0, dimension)), np.zeros((0, heads), int), None

    def glorot(self, shape, fans):
        limit = np.sqrt(6.0 / fans)
        return self.rng.uniform(-limit, limit, shape).astype(np.float32).astype(float)

    def append(self, x, neighbors):
        if neighbors is not None:
            self.edges = (self.edges or []) + [(len(self.X), other) for other in neighbors]
        self.X = np.vstack([self.X, x])
        self.y = np.vstack([self.y, np.full(self.heads, -1)])

    @property
    def A_hat(self):
        A = knn.similarity(self.X, self.k) if self.edges is None else knn.given(self.edges, len(self.X))
        return knn.normalized(A)

    def train(self, steps):
        A_hat = self.A_hat
        for _ in range(steps):
            key_in, key_hidden = self.rng.integers(0, 2**64, size=2, dtype=np.uint64)
            input_mask = gcn.input_mask(key_in, self.X, 0.5)
            for h in range(self.heads):
                hidden_mask = gcn.mask(key_hidden, (len(self.X), self.hidden), 0.5, h * self.hidden)
                _, g1, g2 = gcn.loss_and_gradients(
                    A_hat, self.X, self.y[:, h], self.W1[h], self.W2[h], 5e-4, input_mask, hidden_mask
                )
                self.W1[h] = self.adam[h][0].step(self.W1[h], g1)
                self.W2[h] = self.adam[h][1].step(self.W2[h], g2)

    def embeddings(self, h):
        return gcn.embedding(self.A_hat, self.X, self.W1[h])

    def probabilities(self, h):
        return gcn.softmax(self.embeddings(h) @ self.W2[h])


def start_rows(start, networks):
    """Append the labelled start to `networks`, with edges to earlier rows; return its contexts (K, D)."""
    X0 = start.contexts.toarray()
    for i, x in enumerate(X0):
        near = None if start.edges is None else [int(min(e)) for e in start.edges if max(e) == i]
        networks.append(x, near)
    return X0


def run_gcnucb(stream, seed, steps, warmup, alpha=0.25):
    """Algorithm 3. Return the chosen arms as indices."""
    K = len(stream.arms)
    networks = Networks(seed, stream.dataset.X.shape[1], heads=K, classes=2)
    linucb = LinUCB(K, stream.dataset.X.shape[1])
    C, r = [[] for _ in range(K)], [[] for _ in range(K)]
    for t, x in enumerate(start_rows(stream.start, networks)):
        linucb.learn(x, t, 1)
        for k in range(K):
            networks.y[t, k] = k == t
            C[k].append(t)
            r[k].append(float(k == t))
    networks.train(100)
    chosen = []
    for rnd in list(stream)[:steps]:
        x, t = rnd.context.toarray()[0], rnd.position
        networks.append(x, rnd.neighbors)
        networks.train(1)
        if len(chosen) < warmup:
            arm = linucb.predict(x)
        else:
            ucb = []
            for k in range(K):
                g = np.array([unit(row) for row in networks.embeddings(k)])
                A = np.eye(g.shape[1]) + sum(np.outer(g[i], g[i]) for i in C[k])
                theta = unit(np.linalg.inv(A) @ sum(reward * g[i] for i, reward in zip(C[k], r[k], strict=True)))
                ucb.append(theta @ g[t] + alpha * np.sqrt(g[t] @ np.linalg.inv(A) @ g[t]))
            arm = argmax_first(ucb)
        chosen.append(arm)
        h = stream.respond(rnd, stream.arms[arm])
        linucb.learn(x, arm, h)
        if h == 1:
            for k in range(K):
                networks.y[t, k] = k == arm
                C[k].append(t)
                r[k].append(float(k == arm))
        elif h == 0:
            networks.y[t, arm] = 0
            C[arm].append(t)
            r[arm].append(0.0)
        else:
            C[arm].append(t)
            r[arm].append(networks.probabilities(arm)[t, 1])
    return chosen


def run_rogcn(stream, seed, steps):
    """Algorithm 1. Return the chosen arms as indices."""
    networks = Networks(seed, stream.dataset.X.shape[1], heads=1, classes=len(stream.arms))
    for t, _ in enumerate(start_rows(stream.start, networks)):
        networks.y[t, 0] = t
    networks.train(100)
    chosen = []
    for rnd in list(stream)[:steps]:
        networks.append(rnd.context.toarray()[0], rnd.neighbors)
        networks.train(1)
        arm = argmax_first(networks.probabilities(0)[rnd.position])
        chosen.append(arm)
        if stream.respond(rnd, stream.arms[arm]) == 1:
            networks.y[rnd.position, 0] = arm
    return chosen


def run_linucb(stream, steps, normalize=False):
    """LINUCB with the updates of algorithm 2. Return the chosen arms as indices."""
    linucb = LinUCB(len(stream.arms), stream.dataset.X.shape[1], normalize=normalize)
    for t, x in enumerate(stream.start.contexts.toarray()):
        linucb.learn(x, t, 1)
    chosen = []
    for rnd in list(stream)[:steps]:
        x = rnd.context.toarray()[0]
        arm = linucb.predict(x)
        chosen.append(arm)
        linucb.learn(x, arm, stream.respond(rnd, stream.arms[arm]))
    return chosen


def run_bilinucb_gcn(stream, seed, steps, warmup, bounded):
    """Algorithm 2 with algorithm 1 as the imputer. Return the chosen arms as indices."""
    K = len(stream.arms)
    networks = Networks(seed, stream.dataset.X.shape[1], heads=1, classes=K)
    bandit, warmup_bandit = (LinUCB(K, stream.dataset.X.shape[1]) for _ in range(2))
    for t, x in enumerate(start_rows(stream.start, networks)):
        bandit.learn(x, t, 1)
        warmup_bandit.learn(x, t, 1)
        networks.y[t, 0] = t
    networks.train(100)
    chosen = []
    for rnd in list(stream)[:steps]:
        x, t = rnd.context.toarray()[0], rnd.position
        networks.append(x, rnd.neighbors)
        networks.train(1)
        arm = (warmup_bandit if len(chosen) < warmup else bandit).predict(x)
        chosen.append(arm)
        h = stream.respond(rnd, stream.arms[arm])
        warmup_bandit.learn(x, arm, h)
        if h is None:
            reward = networks.probabilities(0)[t, arm]
            if bounded:
                mu, sigma = bandit.bounds(x)
                reward = max(mu[arm] - sigma[arm], min(reward, mu[arm] + sigma[arm]))
            bandit.impute(x, arm, reward)
        else:
            bandit.learn(x, arm, h)
            if h == 1:
                networks.y[t, 0] = arm
    return chosen


class FourierRegression:
    """The view of random Fourier features, in double precision: contexts R as they are, θ, and the bandwidth h."""

    def __init__(self, seed, D, K):
        self.draws, self.R, self.theta = fourier.draws(seed, D), np.zeros((0, D)), np.zeros((256, K))
        self.h, self.measured_at, self.fresh, self.unit_theta = 1.0, 0, True, np.zeros((256, K))

    def append(self, x):
        self.R = np.vstack([self.R, x])
        if len(self.R) >= 2 * self.measured_at:
            self.measured_at = len(self.R)
            h = fourier.bandwidth(self.R)
            if abs(h - self.h) > 0.1 * self.h:
                self.h, self.theta, self.fresh = h, np.zeros_like(self.theta), True

    def features(self):
        return fourier.features(self.R, *self.draws, self.h)

    def solve(self, m, q, ridge):
        steps = 16 if self.fresh else 4
        self.theta = views.conjugate_gradients([self.features()], m, q, ridge, self.theta, steps)
        self.unit_theta, self.fresh = np.apply_along_axis(unit, 0, self.theta), False

    def scores(self):
        return (self.features() @ self.unit_theta)[:, None]


def run_viewucb(stream, seed, steps, hops, refit_growth, alpha=1.0, ridge=0.5, soft_label_weight=0.3):  # noqa: PLR0915
    """ViewUCB with the features of all views written out, in double precision. Return the chosen arms as indices.

    Only `ViewWeights`, which has tests of its own, is the library's.
    """
    K, V, D = len(stream.arms), hops + 1, stream.dataset.X.shape[1]
    X, edges, by_distance = np.zeros((0, D)), None, FourierRegression(seed, D, K)
    trust = [15.0 / V] * V + [2.0] + [2.0] * (hops > 0) + [1.5]
    view_weights = ViewWeights(np.array(trust), exclusive=True, adaptive=True)
    view_weights.allocate(K, D)
    theta, view_scores, rejected_arm, rewards, chosen = np.zeros((D, V * K)), {}, {}, {}, []
    q, m, expected = (np.zeros((steps + K, K)) for _ in range(3))
    A, b = [ridge * np.eye(D) for _ in range(K)], np.zeros((K, D))
    scales, n_scaled, n_silent, share = np.zeros((steps + K, V)), 0, 0, 1.0

    def graph():
        return knn.normalized(knn.similarity(X, 5) if edges is None else knn.given(edges, len(X)))

    def scores():
        unit_theta = np.apply_along_axis(unit, 0, theta)
        over_graph = [F @ unit_theta[:, v * K : (v + 1) * K] for v, F in enumerate(features())]
        return np.concatenate([np.stack(over_graph, axis=1), by_distance.scores()], axis=1)

    def with_residuals(t, scored):
        """The scores of context t by the views over the graph and by distances, and that of residuals."""
        if not hops:
            return scored
        reach = sum(np.linalg.matrix_power(graph(), h)[t] for h in range(1, hops + 1))
        evidence = reach[:, None] * m[: len(X)]
        residuals = (evidence * (q - expected)[: len(X)]).sum(axis=0) / (evidence.sum(axis=0) + 0.2)
        return np.concatenate([scored, residuals[None]])

    def expect(scored):
        """Probabilities by the scores of all views but those of residuals and of plain regressions."""
        return view_weights.probabilities(np.concatenate([scored, np.zeros((int(hops > 0) + 1, K))]))

    def features():
        A_hat = graph()
        return [np.linalg.matrix_power(A_hat, v) @ X * scales[: len(X), v : v + 1] for v in range(V)]

    def update_scales(rows):
        for v in range(V):
            scales[rows, v] = 1 / np.linalg.norm((np.linalg.matrix_power(graph(), v) @ X)[rows], axis=1)

    def update_soft_label(t, p):
        others = np.where(np.arange(K) == rejected_arm[t], 0.0, p)
        q[t], m[t] = others / others.sum(), soft_label_weight * min(1, 8 / (K - 1))
        m[t, rejected_arm[t]] = 1.0

    def solve():
        nonlocal theta, n_scaled, share
        share = (len(rewards) + 1) / (len(rewards) + n_silent + 1)
        if len(X) * 10 >= n_scaled * 11:
            n_scaled = len(X)
            update_scales(range(n_scaled))
        rewarded = sorted(rewards)
        view_weights.refit(
            Answered(
                np.array([view_scores[t] for t in rewarded]),
                np.array([chosen[t - K] for t in rewarded]),
                np.array([rewards[t] for t in rewarded]),
                np.ones(K, np.bool_),  # each has a labelled row
            )
        )
        current_scores = scores()
        for t in np.flatnonzero(m.any(axis=1)):
            expected[t] = expect(current_scores[t])
            if t in rejected_arm:
                update_soft_label(t, expected[t])
        count = len(X)
        theta = views.conjugate_gradients(features(), m[:count], q[:count], ridge, theta, 4)
        by_distance.solve(m[:count], q[:count], ridge)
        return count

    def learn(t, arm, h):
        if h == 1:
            q[t], m[t] = np.arange(K) == arm, 1.0
        else:
            rejected_arm[t] = arm
            update_soft_label(t, view_weights.probabilities(view_scores[t]))
        expected[t] = expect(view_scores[t][: V + 1]) if t in view_scores else 1 / K
        for k in range(K):
            if h == 1 or k == arm:
                A[k] = A[k] + np.outer(X[t], X[t])
                b[k] += h * (k == arm) * X[t]

    def append(x, neighbors):
        nonlocal X, edges
        if neighbors is not None:
            edges = (edges or []) + [(len(X), other) for other in neighbors]
        X = np.vstack([X, unit(x)])
        by_distance.append(x)

    for t, x in enumerate(stream.start.contexts.toarray()):
        near = stream.start.edges
        append(x, None if near is None else [int(min(e)) for e in near if max(e) == t])
    for t in range(K):
        learn(t, t, 1)
    solved_at, chosen = solve(), []
    for rnd in list(stream)[:steps]:
        t = rnd.position
        append(rnd.context.toarray()[0], rnd.neighbors)
        update_scales([t])
        if (t - solved_at) / t >= refit_growth:
            solved_at = solve()
        plain = np.array([[X[t] @ np.linalg.solve(A[k], b[k]) for k in range(K)]])
        view_scores[t] = np.concatenate([with_residuals(t, scores()[t]), plain])
        widths = [np.sqrt(X[t] @ np.linalg.inv(A[k]) @ X[t]) for k in range(K)]
        arm = argmax_first(
            view_weights.probabilities(view_scores[t]) + alpha * min(np.sqrt(share), 2 * share) * np.array(widths)
        )
        chosen.append(arm)
        h = stream.respond(rnd, stream.arms[arm])
        if h is None:
            n_silent += 1
        else:
            learn(t, arm, h)
            rewards[t] = h
    return chosen
