"""Shared fixtures, and the table of slow tests.

Data beyond what ships with scikit-learn comes through TACITURN_DATA; without it those tests skip and say why.
"""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

import taciturn

HERE = Path(__file__).parent

# `make check` leaves slow tests out, `make test` runs all. An entry here is a folder, a module, or a module and the
# start of a test's name (`module.py::test_start`). An entry that matches no test is an error whenever the whole suite
# is collected, so that this table follows when tests are renamed.
SLOW_TESTS = (
    "golden",  # every method with three seeds, compiled once more for a generic processor
    "test_cli.py",  # runs experiments, and starts the command
    "test_notebook.py",  # starts a Jupyter kernel
    "test_reproduction.py",  # experiments of the paper
    "adapters/peers/test_every_peer.py::test_it_is_clearly_better",  # runs experiments
    "adapters/peers/test_every_peer.py::test_it_passes_check_agent",  # other libraries take their time
    "adapters/peers/test_same_choices.py::test_contextualbandits_over",  # hundreds of fits
    "agents/test_arms.py::test_arms_are_added_and_retired_while_decisions_are_pending",  # long runs of every agent
    "agents/test_arms.py::test_arms_are_chosen_as_often_as_their_propensities_say",  # counts thousands of choices
    "agents/test_bounds.py::test_a_number_out_of_bounds_is_refused_in_one_line_that_names_it",  # every parameter
    "agents/test_bounds.py::test_the_largest_contexts",  # long runs of every agent
    "agents/test_forged_files.py::test_a_forgery",  # loads thousands of files
    "agents/test_every_agent.py::test_every_agent_passes[None-extratrees",  # hundreds of fits
    "agents/test_every_agent.py::test_every_agent_passes[paper",  # the default settings are checked always
    "agents/test_every_agent.py::test_every_agent_passes_with_several_right_arms",
    "agents/test_eviction.py::test_a_bounded_agent_keeps_size_and_evidence_over_a_long_run",  # long runs
    "agents/test_graph.py::test_the_graph_after_any_arrivals",  # makes every graph from scratch as well
    "agents/test_memory.py",  # fills the memory of many processes
    "agents/test_scaled_agents.py::test_evidence_follows",  # long runs of every agent, saved again and again
    "agents/test_scaled_agents.py::test_a_bounded_agent_with_deferred_training",  # likewise
    "agents/test_storage.py::test_every_flipped_bit_and_every_truncation_is_refused",  # loads a file thousands of times
    "agents/test_storage.py::test_a_forged_array_or_number_is_refused_or_harmless",  # likewise
    "adapters/test_mcp.py",  # starts a service and programs
    "adapters/test_program.py",  # starts programs
    "clients",  # compiles TypeScript, and starts a service
    "datasets/test_fetch.py",  # starts pip
    "docs/test_pages.py::test_the_code_of_a_page",  # all code of the documentation; runs experiments
    "docs/test_pictures.py::test_pictures_are_taken",  # starts a service and a browser
    "docs/test_site.py::test_a_warning_fails_the_build",  # builds a site
    "experiments/test_axes.py",  # runs experiments with every method
    "experiments/test_runner.py",  # runs experiments
    "experiments/test_engines.py",  # starts and kills worker processes
    "experiments/test_graded.py::test_every_method_runs_on_graded_rewards",  # runs experiments
    "experiments/test_graded.py::test_records_have_rewards_regret_and_the_constant_arm",  # likewise
    "experiments/test_ray.py",  # starts Ray
    "experiments/test_reproduce.py",  # the report on the whole paper
    "features/test_scale.py",  # long runs of every agent
    "kernels/test_compiling.py",  # compiles with an empty cache
    "router/test_command.py",  # starts and kills routers
    "router/test_page.py",  # a browser
    "router/test_readme.py",  # starts routers
    "reports/test_graded.py",  # runs experiments
    "reports/test_page.py",  # runs an experiment and draws its figures
    "service/test_client_restart.py",  # starts and kills servers
    "service/test_attacks.py",  # starts services
    "service/test_commands.py",  # starts services
    "service/test_compaction.py",  # generated histories
    "service/test_contexts.py::test_mixed_contexts_have_the_same_answers_after_a_kill",  # starts and kills processes
    "service/test_crash.py",  # kills servers a hundred times
    "service/test_fencing.py",  # freezes PostgreSQL
    "service/test_fuzz.py",  # generated requests
    "service/test_journal.py",  # damages files at every position; PostgreSQL
    "service/test_live_keys.py",  # starts the command
    "service/test_machine.py",  # generated sequences of requests
    "service/test_tracing.py::test_spans_of_a_running_service_reach_an_otlp_receiver",  # starts a service
    "service/test_tracing.py::test_without_otel_nothing_of_it_is_loaded",  # starts a process
    "service/test_schema.py",  # migrates journals of both databases
)
# A test is slow wherever it is if it uses one of these fixtures, or gets one by a parameter of the same name.
SLOW_FIXTURES = (
    "browser",
    "window",  # of a browser
    "postgres",
    "postgres_programs",
    "real",  # data sets
    "real_folder",
    "s3",  # a server
    "built_site",  # of the documentation
    "repeats",  # thousands of logs, of which the estimators' averages are taken
)

# Coverage is not measured in these: what they run is compiled or measured elsewhere, and tracing doubles their time.
UNTRACED_TESTS = (
    "golden",
    "kernels",
    "test_notebook.py",
    "test_reproduction.py",
    "agents/test_arms.py::test_arms_are_added_and_retired_while_decisions_are_pending",
    "agents/test_arms.py::test_arms_are_chosen_as_often_as_their_propensities_say",
    "agents/test_bounds.py::test_a_number_out_of_bounds_is_refused_in_one_line_that_names_it",
    "agents/test_bounds.py::test_the_largest_contexts",
    "agents/test_eviction.py::test_a_bounded_agent_keeps_size_and_evidence_over_a_long_run",
    "agents/test_every_agent.py::test_every_agent_passes",
    "agents/test_forged_files.py",
    "agents/test_graph.py::test_the_graph_after_any_arrivals",
    "agents/test_lifecycle.py::test_evidence_is_that_of_the_last_feedback_after_any_history",
    "agents/test_memory.py",
    "agents/test_neighbor_index.py::test_nearly_all",
    "agents/test_residual_view.py::test_it_follows_clusters_that_no_linear_view_can",
    "agents/test_storage.py::test_every_flipped_bit_and_every_truncation_is_refused",
    "agents/test_storage.py::test_a_forged_array_or_number_is_refused_or_harmless",
    "agents/test_table.py::test_a_node_table_equals_a_list_of_decisions",
    "agents/test_table.py::test_a_row_store_equals_a_list_of_rows",
    "agents/test_transcriptions.py",
    "agents/test_scaled_agents.py::test_a_bounded_agent_with_deferred_training",
    "agents/test_scaled_agents.py::test_evidence_follows",
    "docs",
    "experiments/test_engines.py",
    "experiments/test_late.py",
    "experiments/test_ray.py",
    "features/test_contexts.py::test_values_of_every_kind[",
    "features/test_scale.py",
    "service/test_client_restart.py",
    "service/test_crash.py",
    "service/test_journal.py::test_flipped_bit_is_detected_or_changes_no_record",
    "service/test_journal.py::test_truncated_file_reports_the_last_good_record_and_repair_keeps_up_to_it",
    "service/test_machine.py",
    "service/test_ray_service.py",
    "test_ope.py::test_estimators_are_unbiased",
)

settings.register_profile("local", deadline=None)  # no test depends on the clock, and the machine may be busy
settings.register_profile("ci", deadline=None, derandomize=True)  # what lands is judged on the same examples every time
settings.load_profile("ci" if "CI" in os.environ else "local")


@pytest.hookimpl(tryfirst=True)  # before -m and -k select
def pytest_collection_modifyitems(config, items):
    """Mark the slow tests, and refuse entries of the tables that match none."""
    unmatched = {*SLOW_TESTS, *SLOW_FIXTURES, *UNTRACED_TESTS}
    for item in items:
        slow, untraced = (
            entries_matching(item, SLOW_TESTS) | slow_fixtures(item),
            entries_matching(item, UNTRACED_TESTS),
        )
        unmatched -= slow | untraced
        if slow:
            item.add_marker(pytest.mark.slow)
        if untraced:
            item.add_marker(pytest.mark.no_cover)
    whole_suite = [config.rootpath / argument for argument in config.args] == [HERE]
    if unmatched and whole_suite and not config.getoption("lf", default=False):
        message = f"tests/conftest.py: no test matches these entries of its tables: {sorted(unmatched)}"
        # Reported as a collection error, because pytest-xdist loses the text of an exception raised in its workers.
        config.hook.pytest_collectreport(report=pytest.CollectReport("tests/conftest.py", "failed", message, []))


def entries_matching(item, table):
    """The entries of a table that name this test."""
    path = item.path.relative_to(HERE)
    places = {path.as_posix(), *(parent.as_posix() for parent in path.parents)}
    name = f"{path.as_posix()}::{item.name}"
    return {entry for entry in table if entry in places or ("::" in entry and name.startswith(entry))}


def slow_fixtures(item):
    """The entries of `SLOW_FIXTURES` that this test uses, or gets by a parameter."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    used = {*getattr(item, "fixturenames", ()), *(value for value in parameters if isinstance(value, str))}
    return used.intersection(SLOW_FIXTURES)


@pytest.fixture(autouse=True)
def untraced_children(request, monkeypatch):
    """Processes that a test without coverage starts are not traced either."""
    if request.node.get_closest_marker("no_cover"):
        for name in [name for name in os.environ if name.startswith("COVERAGE_PROCESS")]:
            monkeypatch.delenv(name)


@pytest.fixture
def memory(tmp_path):
    """A folder in memory if the system has one, for thousands of damaged files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else tmp_path) as folder:  # noqa: S108
        yield Path(folder)


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
