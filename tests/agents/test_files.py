"""A file that was ever written by this format loads forever, and its agent decides as it would have then."""

import json

import numpy as np
import pytest

import taciturn
from golden import files


def expectations(folder):
    """What the agents of a folder decide, as it was written with them."""
    if not (folder / files.EXPECTED).is_file():
        pytest.fail(f"{folder} holds no files; python tests/golden/files.py {folder.parent} writes them, once")
    return json.loads((folder / files.EXPECTED).read_text())


@pytest.fixture(scope="module")
def expected():
    """Format 4 had no scale, and no settings of features."""
    found = expectations(files.FOLDER)
    for agent in found.values():
        agent["params"] |= {"features": None, "scaling": "none"}
    return found


@pytest.fixture(scope="module")
def expected_scaled():
    return expectations(files.SCALED_FOLDER)


def check_description(found, wanted):
    """Equal in everything, but for parameters that came later; scores and widths up to 1e-6."""
    found = json.loads(json.dumps(found))
    found["params"] = {name: value for name, value in found["params"].items() if name in wanted["params"]}
    for part in ("scores", "widths"):
        np.testing.assert_allclose(found["next"][part], wanted["next"][part], rtol=0, atol=1e-6)
        found["next"][part] = wanted["next"][part]
    assert found == wanted


def test_there_is_a_file_of_every_kind_of_agent(expected):
    names = {path.stem for path in files.FOLDER.glob("*.taciturn")}
    assert expected.keys() == names == files.AGENTS.keys()
    assert sum(path.stat().st_size for path in files.FOLDER.iterdir()) < 500_000


@pytest.mark.parametrize("name", files.AGENTS)
def test_a_file_loads_and_its_agent_decides_as_it_did(name, expected, tmp_path):
    agent = taciturn.load(files.FOLDER / f"{name}.taciturn")
    check_description(files.description(agent), expected[name])
    agent.save(tmp_path / "agent")
    again = taciturn.load(tmp_path / "agent")
    check_description(files.description(again), expected[name])
    for id, state in list(expected[name]["states"].items())[-6:]:
        if state != "labelled":
            again.feedback(int(id), 1)
            again.feedback(int(id), 0)
    again.train_pending(50)
    decision = again.decide({"group 1": 1.0, "never seen": 1.0}, at=40.0)
    assert np.isfinite(decision.scores).all()


@pytest.mark.parametrize("name", files.SCALED)
def test_a_file_with_a_scale_loads_and_its_agent_decides_as_it_did(name, expected_scaled, tmp_path):
    agent = taciturn.load(files.SCALED_FOLDER / f"{name}.taciturn")
    check_description(files.description(agent), expected_scaled[name])
    scale = agent.state_dict()["intake"]["scale"]
    assert len(scale["bins"]["columns"])
    assert (scale["flag"] >= 0).any()
    assert set(agent.feature_kinds.values()) == {"number", "category", "text"}
    agent.save(tmp_path / "agent")
    again = taciturn.load(tmp_path / "agent")
    check_description(files.description(again), expected_scaled[name])
    for id, state in list(expected_scaled[name]["states"].items())[-6:]:
        again.feedback(int(id), 1)
        again.feedback(int(id), None if state == "silent" else 0)
    again.train_pending(50)
    for step in range(100, 140):  # the scale is renewed
        decision = again.decide(files.mixed_context(step))
        assert np.isfinite(decision.scores).all()
    assert again.state_dict()["intake"]["scale"]["renewed_at"] > scale["renewed_at"]


def test_the_files_with_a_scale_are_few_and_small(expected_scaled):
    names = {path.stem for path in files.SCALED_FOLDER.glob("*.taciturn")}
    assert expected_scaled.keys() == names == set(files.SCALED)
    assert sum(path.stat().st_size for path in files.SCALED_FOLDER.iterdir()) < 800_000


@pytest.mark.parametrize("name", files.AGENTS)
def test_the_script_makes_agents_with_everything_that_a_file_can_hold(name):
    """Files are worth what is in them: every state, counts of every kind, and ViewUCB in the middle of a solve."""
    agent = files.trained(name)
    held = files.description(agent)
    assert set(held["states"].values()) == {"pending", "rewarded", "silent", "labelled"}
    counts = held["health"]
    assert min(counts[count] for count in ("late", "corrected", "expired", "withdrawn", "forgotten")) > 0
    assert (held["active_arms"], len(held["feature_names"])) == (["left", 7, "new"], 7)
    if name == "viewucb-in-solve":
        assert agent.state_dict()["parts"]["solver"]["cg"] is not None
    if name.startswith("gcnucb"):
        assert ("linucb" in agent.state_dict()["parts"]["warmup"]) == (name == "gcnucb-in-warmup")
