"""What is in deploy/: its files can be parsed, and name only what the service has."""

import configparser
import json
import re
from pathlib import Path

import pytest
import yaml

from service_kit import MemoryJournal, Web
from taciturn.service.api.local import create_app
from taciturn.service.api.metrics import MAX_NAMED
from taciturn.service.config import Settings, from_environment, resolve
from taciturn.service.core.service import Service

DEPLOY = Path(__file__).parents[2] / "deploy"
METRIC = re.compile(r"\b(?:taciturn|process)_[a-z_]+\b")


def answered(service, ask):
    """The metrics after every agent has answered what was asked of it when they were last read."""
    ask("GET", "/metrics")
    for name in service.names():
        service.call(name, lambda _: None)
    return ask("GET", "/metrics").text


@pytest.fixture
def service():
    with_journal = Service(MemoryJournal())
    yield with_journal
    with_journal.close()


@pytest.fixture
def ask(service):
    with Web(create_app(service, journal_bytes=lambda: 12)) as web:
        yield web


def create(ask, name):
    answer = ask("POST", "/v1/agents", json={"name": name, "kind": "linucb", "arms": 2})
    assert answer.status_code == 201


def test_every_metric_of_the_dashboard_exists(service, ask):
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    named = set()
    for panel in dashboard["panels"]:
        assert panel["targets"]
        for target in panel["targets"]:
            found = set(METRIC.findall(target["expr"]))
            assert found
            named |= found
    create(ask, "x")
    ask("POST", "/v1/agents/x/decisions", json={"context": [1]})
    ask("PUT", "/v1/agents/x/decisions/0/reward", json={"reward": 1})
    text = answered(service, ask)
    existing = set(re.findall(r"^([a-z_]+)(?:\{| )", text, re.MULTILINE))
    assert named - existing == set()
    ours = {name for name in existing if name.startswith("taciturn_") and not name.endswith(("_created", "_sum"))}
    assert ours - named == set()  # every metric of ours is on the dashboard


def test_metrics_say_how_agents_are_doing_without_waiting_for_them(service, ask):
    create(ask, "x")
    ask("POST", "/v1/agents/x/decisions", json={"contexts": [[1]] * 5})
    for id, reward in ((0, 1), (1, 0), (2, None)):
        ask("PUT", f"/v1/agents/x/decisions/{id}/reward", json={"reward": reward})
    text = answered(service, ask)
    health = ask("GET", "/v1/agents/x/health").json()
    for name, value in (("pending", 2), ("silent", 1), ("rewarded", 2), ("reward_rate", 0.5), ("imputed_share", 0)):
        assert health[name] == value
        assert f'taciturn_agent_{name}{{agent="x"}} {float(value)}' in text
    assert f'taciturn_agent_memory_bytes{{agent="x"}} {float(health["memory"])}' in text
    assert "taciturn_journal_bytes 12.0" in text
    assert "taciturn_journal_position 5.0" in text


def test_many_agents_share_one_label(ask):
    names = [f"a{number:03}" for number in range(MAX_NAMED + 3)]
    for name in names:
        create(ask, name)
        ask("POST", f"/v1/agents/{name}/decisions", json={"context": [1]})
    lines = re.findall(r'^taciturn_decisions_total\{agent="(.*)"\} (.*)$', ask("GET", "/metrics").text, re.MULTILINE)
    assert dict(lines) == dict.fromkeys(names[:MAX_NAMED], "1.0") | {"other": "3.0"}


def test_compose_publishes_only_on_this_machine_and_mounts_files_that_exist():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(compose["services"]) == {"taciturn", "postgres", "prometheus", "grafana"}
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            made = source in compose["volumes"] or source == "./prometheus.token"  # which the comment says how to make
            assert made or (DEPLOY / source).is_file()
    environment = compose["services"]["taciturn"]["environment"]
    assert len(resolve([from_environment(environment)])[1]) == len(environment)


def test_other_files_parse_and_name_settings_that_exist():
    for name in ("prometheus.yaml", "grafana/datasource.yaml", "grafana/provisioning.yaml"):
        assert yaml.safe_load((DEPLOY / name).read_text())
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "taciturn.service")
    assert unit["Service"]["UMask"] == "0077"
    container = (DEPLOY / "Containerfile").read_text()
    assert "HEALTHCHECK" in container
    for text in (unit["Service"]["Environment"], container):
        variables = dict(re.findall(r"\b(TACITURN_[A-Z_]+)=(\S+)", text))
        settings, origins = resolve([from_environment(variables)])
        assert len(origins) == len(variables) > 0
        assert settings != Settings()
