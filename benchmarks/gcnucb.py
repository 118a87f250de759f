"""GCNUCB compared with a straightforward implementation in PyTorch Geometric, one model per arm, on Cora.

At every step both add the context to the graph, train every arm's network for one step on all its labels, recompute
all embeddings, fit the regressions from scratch and compare the bounds.
"""

import numpy as np
import torch
from common import SEED, Stopwatch, Table, main, shown, times, versions
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import taciturn
from taciturn.kernels import gcn

FIRST, LAST = 600, 8


class Network(torch.nn.Module):
    """One arm's network."""

    def __init__(self, features):
        super().__init__()
        self.first = GCNConv(features, 16, bias=False)
        self.second = GCNConv(16, 2, bias=False)
        groups = [
            {"params": self.first.parameters(), "weight_decay": 5e-4},
            {"params": self.second.parameters()},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=0.01)

    def forward(self, x, edges):
        hidden = torch.relu(self.first(dropout(x, training=self.training), edges))
        return self.second(dropout(hidden, training=self.training), edges)

    def train_step(self, x, edges, labels):
        self.train()
        self.optimizer.zero_grad()
        known = labels >= 0
        cross_entropy(self(x, edges)[known], labels[known]).backward()
        self.optimizer.step()

    @torch.no_grad()
    def embedding(self, x, edges):
        """Â ReLU(ÂX W1), the second convolution without its weights."""
        self.eval()
        hidden = torch.relu(self.first(x, edges))
        index, weight = gcn_norm(edges, None, len(x))
        return self.second.propagate(index, x=hidden, edge_weight=weight)


class PlainGCNUCB:
    """The algorithm with PyTorch Geometric; it learns from taciturn's decisions, so that both have the same labels."""

    def __init__(self, arms, features):
        torch.manual_seed(SEED)
        self.networks = [Network(features) for _ in range(arms)]
        self.x = torch.zeros((0, features))
        self.edges = torch.zeros((2, 0), dtype=torch.long)
        self.labels = torch.zeros((0, arms), dtype=torch.long)
        self.rewards = np.zeros((0, arms))

    def arrive(self, x, neighbors):
        node, arms = len(self.x), len(self.networks)
        self.x = torch.cat([self.x, torch.from_numpy(x).float()])
        pairs = torch.tensor([[node] * len(neighbors) + neighbors, neighbors + [node] * len(neighbors)])
        self.edges = torch.cat([self.edges, pairs.long()], dim=1)
        self.labels = torch.cat([self.labels, torch.full((1, arms), -1)])
        self.rewards = np.vstack([self.rewards, np.full(arms, np.nan)])

    def decide(self):
        bounds = []
        for k, network in enumerate(self.networks):
            network.train_step(self.x, self.edges, self.labels[:, k])
            g = network.embedding(self.x, self.edges).numpy().astype(float)
            g /= np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-12)
            known = ~np.isnan(self.rewards[:, k])
            A = np.eye(g.shape[1]) + g[known].T @ g[known]
            theta = np.linalg.solve(A, g[known].T @ self.rewards[known, k])
            theta /= max(np.linalg.norm(theta), 1e-12)
            bounds.append(theta @ g[-1] + 0.25 * np.sqrt(g[-1] @ np.linalg.solve(A, g[-1])))
        return int(np.argmax(bounds))

    def learn(self, agent, node):
        """Copy taciturn's labels and rewards of a context."""
        columns = agent.state_dict()["table"]["columns"]
        self.labels[node] = torch.from_numpy(columns["labels"][node].astype(np.int64))
        self.rewards[node] = columns["arm_rewards"][node]


def compare():
    data = taciturn.load_dataset("cora", scaling="l1")
    stream = taciturn.Stream(data, missing=0.25, seed=SEED)
    warm = taciturn.make("gcnucb", arms=data.arms, preset="paper", seed=SEED, warmup=0)
    taciturn.evaluate(warm, taciturn.Stream(data, missing=0.25, seed=SEED, steps=50))
    agent = taciturn.make("gcnucb", arms=data.arms, preset="paper", seed=SEED)
    plain = PlainGCNUCB(len(data.arms), data.X.shape[1])
    start = stream.start
    for node, x in enumerate(start.contexts.toarray()):
        plain.arrive(x[None], [int(min(e)) for e in start.edges if max(e) == node])
    for node in agent.warm_start(start.contexts, start.arms, start.edges):
        plain.learn(agent, node)
    ours, theirs = [], []
    for i, round in enumerate(stream):
        our_watch, their_watch = Stopwatch(), Stopwatch()
        with our_watch():
            decision = agent.decide(round.context, round.neighbors)
        plain.arrive(round.context.toarray(), list(round.neighbors))
        if i < FIRST or i >= len(stream) - LAST:
            with their_watch():
                plain.decide()
            theirs.append(their_watch.milliseconds)
        reward = stream.respond(round, decision.arm)
        with our_watch():
            agent.feedback(decision.id, reward)
        ours.append(2 * our_watch.milliseconds)
        plain.learn(agent, decision.id)
    check_same_maths(agent, plain)
    rows = [
        (f"the first {FIRST} steps", np.mean(ours[:FIRST]), np.mean(theirs[:FIRST])),
        (f"at t = {len(data.y)} (the last {LAST} steps)", np.mean(ours[-LAST:]), np.mean(theirs[-LAST:])),
    ]
    return Table(
        "GCNUCB, one step on Cora",
        "Milliseconds per step: add to the graph, train, embed, decide, learn. With taciturn's weights PyTorch "
        "Geometric gives the same embeddings and, without dropout, the same gradients. "
        + versions("torch", "torch-geometric"),
        ["steps", "taciturn", "PyTorch Geometric", "ratio"],
        [[name, shown(mine), shown(other), times(other, mine)] for name, mine, other in rows],
    )


def check_same_maths(agent, plain):
    """Copy our weights to the other implementation: embeddings and gradients must be equal."""
    encoder, state = agent._encoder, agent.state_dict()
    contexts, labels = agent._contexts.rows, state["table"]["columns"]["labels"]
    w2 = state["parts"]["encoder"]["w2"]
    w1 = state["parts"]["encoder"]["w1"].reshape(agent.n_features, -1)
    size = w2.shape[1]
    embeddings = encoder.embeddings().copy()
    work = gcn.new_workspace(len(labels), len(contexts.columns), w1, w2)
    parts = encoder.graph.adjacency, contexts, labels, w1, w2
    grads = gcn.gradients(*parts, 5e-4, 0.0, np.zeros(2, np.uint64), work)
    for k, network in enumerate(plain.networks):
        with torch.no_grad():
            network.first.lin.weight[:] = torch.from_numpy(w1[:, k * size : (k + 1) * size].T)
            network.second.lin.weight[:] = torch.from_numpy(w2[k].T)
        theirs = network.embedding(plain.x, plain.edges).numpy()
        np.testing.assert_allclose(embeddings[:, k], theirs, atol=1e-5)
        network.eval()
        network.zero_grad()
        known = plain.labels[:, k] >= 0
        cross_entropy(network(plain.x, plain.edges)[known], plain.labels[known, k]).backward()
        first = network.first.lin.weight.grad.numpy().T + 5e-4 * w1[:, k * size : (k + 1) * size]
        np.testing.assert_allclose(grads[0][:, k * size : (k + 1) * size], first, atol=1e-5)
        np.testing.assert_allclose(grads[1][k], network.second.lin.weight.grad.numpy().T, atol=1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(compare)
