"""A forged file with a correct checksum is refused in one line, or makes an agent that works or refuses in one line."""

import os

import numpy as np
import pytest

import taciturn
from forgery_kit import forge
from golden import files
from taciturn.agents import storage
from taciturn.service.core.session import SERVED_METHODS

EVERY = int(os.environ.get("TACITURN_FORGERIES", "97"))
"""Which forgeries are tried: every so many; 1 tries all, a few thousand of each file, which takes half an hour."""

OLD = sorted(set(files.AGENTS) - {"bilinucb-classifier"})
"""Files that must load for ever; classifiers are not allowed in files from others."""


@pytest.fixture(scope="module")
def forged(tmp_path_factory):
    """What became of the forgeries of each file, by its name."""
    folder = tmp_path_factory.mktemp("new")
    for kind in SERVED_METHODS:
        taciturn.make(kind, arms=["a", "b"]).save(folder / kind)
    paths = [files.FOLDER / f"{name}.taciturn" for name in OLD] + [folder / kind for kind in SERVED_METHODS]
    names = [("old", name) for name in OLD] + [("new", kind) for kind in SERVED_METHODS]
    return dict(zip(names, forge(paths, EVERY), strict=True))


@pytest.mark.parametrize("name", OLD)
def test_a_forgery_of_a_file_that_must_load_for_ever_is_harmless(name, forged):
    """Neither a crash nor an error that is not taciturn's."""
    refused, used, unclean = forged["old", name]
    assert unclean == []
    assert refused > 5
    assert used > 0


@pytest.mark.parametrize("kind", SERVED_METHODS)
def test_a_forgery_of_a_new_agent_is_harmless(kind, forged):
    refused, used, unclean = forged["new", kind]
    assert unclean == []
    assert refused + used > 5


def test_what_follows_from_other_state_is_not_read_from_a_file():
    """Forged contexts at unit length and 1/λ are made anew, bit for bit; distances are not even in a file."""
    agent = storage.load(files.FOLDER / "viewucb-in-solve.taciturn")
    content = storage.dumps(agent)
    state = agent.state_dict()
    derived = [state["parts"]["unit_contexts"]["values"], state["parts"]["ridge"]["scale"]]
    assert not {"distances", "squares"} & state["parts"]["graph"]["slots"].keys(), "distances are not in the file"
    for array in derived:
        array[...] = 0.25
    forged = storage.dumps(agent)
    assert forged != content
    assert storage.dumps(storage.loads(forged, "forged")) == content


def test_an_imputer_in_a_file_has_its_settings_and_nothing_else():
    from taciturn.agents.parts.imputers import KMeansImputer

    agent = taciturn.BILinUCB(arms=2, imputer=KMeansImputer(clusters=3))
    vars(agent.imputer)["impute"] = 5
    vars(agent.imputer)["_kmeans"] = np.zeros(3)
    loaded = storage.loads(storage.dumps(agent), "agent", trusted=False)
    assert vars(loaded.imputer) == {"clusters": 3}
    vars(agent.imputer)["clusters"] = 10**9
    with pytest.raises(taciturn.TaciturnError, match="clusters"):
        storage.loads(storage.dumps(agent), "agent", trusted=False)
