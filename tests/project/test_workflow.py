"""Versions of Python, commands and linters are the same wherever they are written down."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

HOME = Path(__file__).parents[2]
MAKEFILE = (HOME / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((HOME / ".github/workflows/test.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((HOME / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
PYTHONS = [name.split(" :: ")[-1] for name in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]


def recipe(target):
    """The commands of a target of the Makefile, its variables replaced."""
    (lines,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in lines.splitlines()]


def steps(job):
    """The commands of a job of the workflow."""
    return [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]


def test_the_workflow_runs_ci_run_on_every_supported_python():
    assert steps("all") == [".ci/run"]
    assert WORKFLOW["jobs"]["all"]["strategy"]["matrix"]["python"] == PYTHONS
    assert WORKFLOW["jobs"]["floors"]["strategy"]["matrix"]["python"] == PYTHONS
    assert os.access(HOME / ".ci/run", os.X_OK)


def test_supported_versions_of_python_are_the_same_everywhere():
    numbers = [int(version.split(".")[1]) for version in PYTHONS]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{numbers[0]},<3.{numbers[-1] + 1}"
    assert f"(3, {numbers[0]}) <= sys.version_info[:2] <= (3, {numbers[-1]})" in MAKEFILE
    for text in (MAKEFILE, (HOME / "README.md").read_text(encoding="utf-8")):
        assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in text


def test_the_workflow_may_only_read_and_every_job_ends():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["concurrency"]["cancel-in-progress"]
    for job in WORKFLOW["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert "uses" not in step or re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
            assert "${{ github.event" not in step.get("run", "")  # text of strangers never becomes a command


@pytest.mark.parametrize("job", ["floors", "release"])
def test_a_job_runs_a_target_of_the_makefile(job):
    (command,) = steps(job)
    assert command.split()[:2] == ["make", job]
    assert recipe(job)
    if job == "floors":
        matrix = WORKFLOW["jobs"][job]["strategy"]["matrix"]
        assert f"VERSIONS ?= {' '.join(matrix['versions'])}\n" in MAKEFILE


def test_hooks_run_the_commands_of_make_lint():
    (local,) = HOOKS
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == recipe("lint")
    for hook in local["hooks"]:
        assert hook["language"] in {"system", "unsupported"}
        assert hook["pass_filenames"] is False  # all files, as make lint
        assert {"python", "toml"} <= set(hook["types_or"])  # settings are in pyproject.toml


@pytest.fixture
def ci_commands(tmp_path):
    """What .ci/run starts on a machine where nothing is installed, as root or not."""

    def commands(user):
        programs, folder = tmp_path / f"bin-{user}", tmp_path / f"checkout-{user}" / ".ci"
        programs.mkdir()
        folder.mkdir(parents=True)
        shutil.copy(HOME / ".ci/run", folder / "run")
        log = tmp_path / f"log-{user}"
        stubs = {
            "id": f"echo {user}",
            "apt-get": f'echo apt-get "$@" >> {log}',
            "make": f'echo make "$@" >> {log}',
            "sudo": f'printf "sudo " >> {log}; "$@"',
            "ls": "exit 2",  # no PostgreSQL either
        }
        for name, body in stubs.items():
            (programs / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        for name in ("dirname", "env", "sh", "bash"):
            (programs / name).symlink_to(shutil.which(name))
        subprocess.run([folder / "run"], env={"PATH": str(programs)}, check=True)
        return log.read_text(encoding="utf-8").splitlines()

    return commands


@pytest.mark.parametrize(("user", "prefix"), [(0, ""), (1001, "sudo ")])
def test_ci_run_installs_what_is_missing_as_root_or_through_sudo(ci_commands, user, prefix):
    install = f"{prefix}apt-get install -y -qq --no-install-recommends"
    assert ci_commands(user) == [
        f"{prefix}apt-get update -qq",
        f"{install} chromium chromium-driver",
        f"{prefix}apt-get update -qq",
        f"{install} postgresql",
        f"{prefix}apt-get update -qq",
        f"{install} nodejs npm",
        "make test COVERAGE=1",
        "make faults",
    ]
