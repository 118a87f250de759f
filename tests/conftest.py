"""Data beyond what ships with scikit-learn comes through TACITURN_DATA; without it those tests skip and say why."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

import taciturn

settings.register_profile("ci", derandomize=True)  # what lands is judged on the same examples every time
if "CI" in os.environ:
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def real():
    """Load a real data set by name."""

    def load(name, **options):
        if "TACITURN_DATA" not in os.environ:
            pytest.skip("TACITURN_DATA does not name a folder with the real data sets")
        return taciturn.load_dataset(name, **options)

    return load


@pytest.fixture(scope="session")
def real_folder():
    """The folder of real data."""
    if "TACITURN_DATA" not in os.environ:
        pytest.skip("TACITURN_DATA does not name a folder with the real data sets")
    return Path(os.environ["TACITURN_DATA"])
