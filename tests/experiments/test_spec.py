"""Experiments from TOML files."""

from pathlib import Path

import pytest

from taciturn.errors import TaciturnError, UnknownName
from taciturn.experiments.checks import toy_data
from taciturn.experiments.spec import AXES, Experiment, expand, read_spec


def test_a_file_can_have_a_cost_weight(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text('data = ["model-routing"]\nmethods = ["linucb"]\ncost_weight = 0.1\n')
    assert read_spec(file) == {"data": ["model-routing"], "methods": ["linucb"], "cost_weight": 0.1}


def test_a_file_is_read_as_fields_of_an_experiment(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text('data = ["digits", "cora"]\nmethods = "linucb"\nmissing = [0.5, "reward:0.2"]\nseeds = 3\n')
    keys = {"data": ["digits", "cora"], "methods": ["linucb"], "missing": [0.5, "reward:0.2"], "seeds": 3}
    assert read_spec(file) == keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('metods = ["linucb"]', "unknown key 'metods'; did you mean 'methods'"),
        ('seeds = "three"', "Expected `int`, got `str` - at .*seeds"),
        ("preset = 3", "at .*preset"),
        ("seeds = true", "at .*seeds"),
        ('cost_weight = "much"', "Expected `float`, got `str` - at .*cost_weight"),
        ("cost_weight = true", "at .*cost_weight"),
        ("params = 3", "at .*params"),
        ("seeds = ", "not a TOML file"),
    ],
)
def test_wrong_keys_and_values_are_reported(tmp_path, text, message):
    file = tmp_path / "spec.toml"
    file.write_text(text)
    with pytest.raises(TaciturnError, match=message) as error:
        read_spec(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("axis", AXES)
def test_an_axis_without_values_is_refused(axis):
    """Such an experiment had no runs and ended with an empty table."""
    given = {"datasets": [toy_data()], "methods": ["majority"], "seeds": range(1)}
    with pytest.raises(TaciturnError, match=f"^{axis} is empty"):
        expand(Experiment(**given | {axis: []}))


def runs_of(method):
    return expand(Experiment(datasets=[toy_data()], methods=[method], seeds=range(1)))


def test_a_command_with_an_open_quotation_is_refused_before_anything_runs():
    with pytest.raises(TaciturnError, match="No closing quotation"):
        runs_of("command:sh 'mine")


def test_a_script_within_a_command_is_part_of_what_its_runs_are_known_by():
    """Words that are too long to be the name of a file raised an OSError."""
    ids = {run.id for length in (300, 301) for run in runs_of(f"command:sh -c 'echo {'x' * length}'")}
    assert len(ids) == 2


def test_a_file_of_a_command_that_cannot_be_read_is_one_line(tmp_path, monkeypatch):
    file = tmp_path / "mine.sh"
    file.write_text("")
    runs = runs_of(f"command:sh {file}")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched, pytest.raises(TaciturnError, match=r"cannot read .*mine\.sh.* denied$"):
        patched.setattr(Path, "open", refuse)
        runs_of(f"command:sh {file}")
    assert runs_of(f"command:sh {file}")[0].id == runs[0].id


@pytest.mark.parametrize(("name", "found"), [("vw", "vw-bag"), ("cb", "cb-adaptive")])
def test_a_library_for_a_method_is_answered_by_one_of_its_methods(name, found):
    with pytest.raises(UnknownName, match=f"unknown method '{name}'; did you mean '{found}'"):
        runs_of(name)
