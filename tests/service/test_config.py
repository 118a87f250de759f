"""Settings from flags, variables and a file: their precedence, their errors, and that none is left out."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from taciturn.cli.commands import app
from taciturn.errors import TaciturnError
from taciturn.service.config import (
    NAMES,
    Settings,
    from_environment,
    from_file,
    from_flags,
    resolve,
    to_toml,
    unknown_variables,
)
from taciturn.service.core.limits import Limits

DEPLOY, DOCS = (Path(__file__).parents[2] / folder for folder in ("deploy", "docs"))
LIMITS = tuple(field.name for field in fields(Limits))
TEXT = ("one", "two", "three")
UNSET = {"postgres", "address", "snapshots"}
"""Settings without a default."""


def written(folder, text):
    path = folder / "taciturn.toml"
    path.write_text(text)
    return path


@given(given=st.tuples(*(st.none() | st.integers(1, 65535) for _ in range(6))))
def test_flags_come_before_variables_before_the_file_before_defaults(tmp_path_factory, given):
    flag, variable, line, flag_limit, variable_limit, line_limit = given
    lines = ([f"port = {line}"] if line else []) + ["[limits]"] + ([f"body = {line_limit}"] if line_limit else [])
    file = written(tmp_path_factory.mktemp("config"), "\n".join(lines))
    environment = {"TACITURN_PORT": str(variable)} if variable else {}
    environment |= {"TACITURN_LIMIT_BODY": str(variable_limit)} if variable_limit else {}
    flags = from_flags({"port": flag, "host": None}, [f"body={flag_limit}"] if flag_limit else [])
    settings, origins = resolve([flags, from_environment(environment), from_file(file)])
    assert settings.port == (flag or variable or line or 8420)
    assert settings.limits.body == (flag_limit or variable_limit or line_limit or Limits().body)
    ranked = zip(("flag", "environment", str(file)), (flag, variable, line), strict=True)
    assert origins.get("port") == next((origin for origin, value in ranked if value), None)


def test_every_setting_is_a_flag_a_variable_and_a_line(tmp_path):
    options = {name for option in get_command(app).commands["serve"].params for name in option.opts}
    assert {f"--{name.replace('_', '-')}" for name in NAMES} | {"--limit", "--config"} <= options
    wanted = Settings(
        host="::1",
        port=1,
        data_dir="elsewhere",
        postgres="dbname=x",
        durability="normal",
        learn_budget_ms=2.5,
        snapshot_every=3,
        snapshot_seconds=1.5,
        engine="ray",
        address="auto",
        shards=3,
        fronts=4,
        workers=5,
        lease_seconds=6.5,
        snapshots="s3://bucket",
        log_level="error",
        log_contexts=True,
        otel=True,
        limits=Limits(**{name: kind(7) for name, kind in Limits.__annotations__.items()}),
    )
    values = {name: getattr(wanted, name) for name in NAMES}
    assert all(value != getattr(Settings(), name) for name, value in values.items())
    text = {f"TACITURN_{name.upper()}": str(value) for name, value in values.items()}
    text |= {f"TACITURN_LIMIT_{name.upper()}": "7" for name in LIMITS}
    assert resolve([from_environment(text)])[0] == wanted
    assert resolve([from_flags(values, [f"{name}=7" for name in LIMITS])])[0] == wanted
    hidden = msgspec.structs.replace(wanted, postgres=None)  # which can hold a password
    assert resolve([from_file(written(tmp_path, to_toml(wanted, {})))])[0] == hidden


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "prot is not a setting; did you mean port?"),
        ("[limits]\nbodi = 1", "bodi is not a limit; did you mean body?"),
        ("[limits]\nxyzzy = 1", "xyzzy is not a limit; there are body, file,"),
        ("port = 'x'", 'port = "x" is not allowed; a whole number from 0 to 65535 is'),
        ("port = 70000", "port = 70000 is not allowed; a whole number from 0 to 65535 is"),
        ("host = ''", 'host = "" is not allowed; text that is not empty is'),
        ("log_contexts = 3", "log_contexts = 3 is not allowed; true or false is"),
        ("log_level = 'loud'", 'log_level = "loud" is not allowed; debug, info, warning or error is'),
        ("[limits]\nseconds = 0", "limits.seconds = 0 is not allowed; a number from 0.01 to 1e+09 is"),
        ("[limits]\nbody = 1.5", "limits.body = 1.5 is not allowed; a whole number from 1 to 1e+12 is"),
        ("limits = 3", "limits is a table"),
        ("port = ", "is no TOML: Invalid value"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line_that_names_it(tmp_path, text, message):
    with pytest.raises(TaciturnError) as error:
        resolve([from_file(written(tmp_path, text))])
    assert str(tmp_path / "taciturn.toml") in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_wrong_in_a_variable_or_a_flag_is_one_line_that_names_it(tmp_path):
    with pytest.raises(TaciturnError, match="environment: bdy is not a limit; did you mean body"):
        resolve([from_environment({"TACITURN_LIMIT_BDY": "1"})])
    with pytest.raises(TaciturnError, match='flag: limits.body = "" is not allowed'):
        resolve([from_flags({}, ["body"])])
    with pytest.raises(TaciturnError, match="No such file"):
        from_file(tmp_path / "nowhere.toml")
    assert resolve([from_environment({"TACITURN_DATA": "/data", "PATH": "/bin"})]) == (Settings(), {})


NUMBERS = [
    name
    for name in NAMES
    if isinstance(getattr(Settings(), name), int | float) and name not in {"log_contexts", "otel"}
]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e-300", "-1", "1e300", "-1e300", "1" * 400])
def test_absurd_numbers_are_refused_by_name_with_what_is_allowed_wherever_they_are_given(tmp_path, value):
    for name in NUMBERS:
        for source in (
            from_flags({name: value}, ()),
            from_environment({f"TACITURN_{name.upper()}": value}),
            from_file(written(tmp_path, f"{name} = {value}")),
        ):
            with pytest.raises(
                TaciturnError, match=rf"^[^\n]*{name} = .* is not allowed; a .*number from .* to .* is$"
            ):
                resolve([source])
    for name in LIMITS:
        for source in (
            from_flags({}, [f"{name}={value}"]),
            from_environment({f"TACITURN_LIMIT_{name.upper()}": value}),
            from_file(written(tmp_path, f"[limits]\n{name} = {value}")),
        ):
            with pytest.raises(
                TaciturnError, match=rf"^[^\n]*limits.{name} = .* is not allowed; a .*number from .* is$"
            ):
                resolve([source])


def test_variables_that_nothing_reads_are_named_with_what_may_have_been_meant():
    known = {f"TACITURN_{name.upper()}": "1" for name in NAMES} | {"TACITURN_LIMIT_BODY": "1", "TACITURN": "1"}
    known |= dict.fromkeys(("TACITURN_CONFIG", "TACITURN_DATA", "TACITURN_URL", "TACITURN_KEY", "PATH"), "1")
    assert unknown_variables(known) == []
    ignored = "is ignored, since there is no such setting"
    assert unknown_variables(known | {"TACITURN_PROT": "1", "TACITURN_XYZZY_PLUGH_FROTZ": "2"}) == [
        f"TACITURN_PROT {ignored}; did you mean TACITURN_PORT?",
        f"TACITURN_XYZZY_PLUGH_FROTZ {ignored}",
    ]


def test_passwords_are_not_shown():
    for secret in (
        "password = hunter2",
        "password='hunt\\'er2 hunter2'",
        "host=db password=hunter2 user=x",
        "host=db password='hunter2'",
        "postgresql://x:hunter2@db/y",
    ):
        assert "hunter2" not in to_toml(Settings(postgres=secret), {})
        assert "postgres is set" in to_toml(Settings(postgres=secret), {})


def test_the_example_in_the_documentation_has_every_setting_with_its_default():
    (text,) = re.findall(r"```toml\n(.*?)```", (DOCS / "running.md").read_text(), re.DOTALL)
    example = tomllib.loads(text)
    assert {**example, "limits": None}.keys() - {"limits"} == set(NAMES) - UNSET
    assert set(re.findall("^# ([a-z]+) = ", text, re.MULTILINE)) == UNSET
    assert set(example["limits"]) == set(LIMITS)
    assert msgspec.convert(example, Settings) == Settings()


def test_the_example_to_deploy_is_valid():
    settings, origins = resolve([from_file(DEPLOY / "taciturn.toml")])
    assert origins
    assert settings.host == "0.0.0.0"  # noqa: S104 - in a container, whose ports are published on the loopback address
