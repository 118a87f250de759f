"""The table of methods: its typed fields, presets and agents given by import path."""

import pytest

import taciturn
from taciturn.errors import UnknownName
from taciturn.registry import METHODS, import_agent, is_import_path, method_params, preset_file


def test_every_family_is_a_section_of_the_preset_file_and_every_section_has_a_method():
    families = {method.family for method in METHODS.values()} - {None}
    assert families == set(preset_file("paper")["agents"]) - {"all"}


def test_bounded_and_unbounded_imputation_are_different_families():
    assert METHODS["bilinucb-gcn"].family == "bilinucb"
    assert METHODS["ilinucb-gcn"].family == "ilinucb"
    assert METHODS["ilinucb-gcn"].params["bounded"] is False


def test_references_are_marked_by_a_field():
    references = {name for name, method in METHODS.items() if method.reference}
    assert references == {"majority", "oracle-full", "labelspreading", "knn", "logreg", "extratrees", "static"}


def test_a_preset_leaves_methods_without_a_family_unchanged():
    assert method_params("viewucb", "paper") == method_params("viewucb")
    assert method_params("linucb", "paper")["ties"] == "first"


def test_an_agent_is_made_by_import_path():
    path = "taciturn.agents.linucb:LinUCB"
    assert is_import_path(path)
    assert not is_import_path("linucb")
    assert import_agent(path) is taciturn.LinUCB
    assert taciturn.make(path, arms=2, alpha=0.1).params["alpha"] == 0.1
    for wrong in ("taciturn.agents.linucb:Absent", "absent_module:Agent", ":"):
        with pytest.raises(UnknownName, match="give it as package.module:Class"):
            import_agent(wrong)


@pytest.mark.parametrize("name", [None, 3, METHODS["linucb"]])
def test_what_is_no_name_is_an_unknown_method(name):
    with pytest.raises(UnknownName, match="unknown method .*there are: "):
        taciturn.make(name, arms=2)
