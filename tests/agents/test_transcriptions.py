"""Whole runs against the paper's pseudo-code, arm by arm."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import taciturn
from oracles import agents as oracle
from taciturn.experiments.checks import toy_data
from taciturn.streams.stream import Stream

STEPS = 60
settings = pytest.mark.parametrize(("seed", "edges"), [(0, False), (1, True), (2, False)])


def noisy_stream(seed, edges, missing=0.33):
    """Toy data with enough noise that all agents make mistakes; a third of the rewards are missing."""
    data = toy_data(rows=STEPS + 3, seed=seed, edges=edges)
    blurred = data.X.toarray() + np.random.default_rng(seed).random(data.X.shape) * 0.25
    data = replace(data, X=sp.csr_matrix(np.where(blurred < 0.1, 0.0, blurred)))
    return Stream(data, missing=missing, seed=seed)


def run(name, stream, seed, **params):
    agent = taciturn.make(name, arms=stream.arms, preset="paper", scaling="none", seed=seed, **params)
    return taciturn.evaluate(agent, stream).choices.tolist()


@settings
@pytest.mark.parametrize("warmup", [0, 25])
def test_gcnucb(seed, edges, warmup):
    stream = noisy_stream(seed, edges)
    assert run("gcnucb", stream, seed, warmup=warmup) == oracle.run_gcnucb(stream, seed, STEPS, warmup)


@settings
def test_rogcn(seed, edges):
    stream = noisy_stream(seed, edges)
    assert run("rogcn", stream, seed) == oracle.run_rogcn(stream, seed, STEPS)


@settings
@pytest.mark.parametrize("normalize", [False, True])
def test_linucb(seed, edges, normalize):
    stream = noisy_stream(seed, edges)
    assert run("linucb", stream, seed, normalize_theta=normalize) == oracle.run_linucb(stream, STEPS, normalize)


@settings
@pytest.mark.parametrize("bounded", [False, True])
def test_bilinucb_with_a_network_as_imputer(seed, edges, bounded):
    stream = noisy_stream(seed, edges)
    name = "bilinucb-gcn" if bounded else "ilinucb-gcn"
    assert run(name, stream, seed, warmup=25) == oracle.run_bilinucb_gcn(stream, seed, STEPS, 25, bounded)


@settings
@pytest.mark.parametrize(("hops", "missing"), [(0, 0.33), (3, 0.33), (3, 0.85)])
def test_viewucb(seed, edges, hops, missing):
    stream = noisy_stream(seed, edges, missing)
    agent = taciturn.ViewUCB(arms=stream.arms, seed=seed, hops=hops, ties="first", refit_growth=0.05, scaling="none")
    wanted = oracle.run_viewucb(stream, seed, STEPS, hops, refit_growth=0.05)
    assert taciturn.evaluate(agent, stream).choices.tolist() == wanted


def test_different_agents_choose_differently_on_these_streams():
    stream = noisy_stream(0, False)
    runs = [
        run(name, stream, 0, **({"warmup": 0} if name == "gcnucb" else {})) for name in ("linucb", "rogcn", "gcnucb")
    ]
    assert len({tuple(choices) for choices in runs}) == 3
