"""The cluster's files in deploy/: valid for the programs that read them, and in agreement with taciturn."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import click
import jsonschema
import kubernetes_validate
import pytest
import typer
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from taciturn.cli.commands import app
from taciturn.service.config import from_environment, from_flags, resolve

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))
STYLE = YamlLintConfig("{extends: default, rules: {line-length: {max: 120}, document-start: disable}}")
KUBERNETES = "1.31"
LAUNCHER = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text())
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kuberay.yaml").read_text()))
# The fields of ray.io/v1 in the reference of KubeRay (docs/reference/api.md), of those that are not for jobs.
CLUSTER_FIELDS = {
    *("autoscalerOptions", "enableInTreeAutoscaling", "gcsFaultToleranceOptions", "headGroupSpec"),
    *("headServiceAnnotations", "managedBy", "rayVersion", "suspend", "workerGroupSpecs"),
}
HEAD_FIELDS = {"enableIngress", "headService", "rayStartParams", "serviceType", "template"}
WORKER_FIELDS = {
    *("groupName", "idleTimeoutSeconds", "maxReplicas", "minReplicas", "numOfHosts", "rayStartParams", "replicas"),
    *("scaleStrategy", "suspend", "template"),
}


def of_kind(kind, name="taciturn"):
    (found,) = [one for one in OBJECTS if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found["spec"]


CLUSTER = of_kind("RayCluster")
HEAD, (WORKERS,) = CLUSTER["headGroupSpec"], CLUSTER["workerGroupSpecs"]
SERVE = of_kind("Deployment")["template"]
TEMPLATES = {"head": HEAD["template"], "worker": WORKERS["template"], "serve": SERVE}


def container(part):
    (only,) = TEMPLATES[part]["spec"]["containers"]
    return only


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_yaml_is_clean(path):
    assert [str(problem) for problem in linter.run(path.read_text(), STYLE)] == []


# Ray's launcher.


def test_launcher_file_is_valid_for_ray():
    schema = Path(importlib.util.find_spec("ray").origin).parent / "autoscaler" / "ray-schema.json"
    jsonschema.validate(LAUNCHER, json.loads(schema.read_text()))


def test_launcher_installs_what_it_starts():
    commands = [command for name, commands in LAUNCHER.items() if name.endswith("commands") for command in commands]
    programs = {program for command in commands for program in re.findall(r"~/taciturn/bin/([a-z]+)", command)}
    assert programs == {"pip", "python", "ray", "taciturn"}
    assert any(command == "python3 -m venv ~/taciturn" for command in commands)
    ports = {port for command in commands for port in re.findall(r"(?:--port=|RAY_HEAD_IP:)(\d+)", command)}
    assert ports == {"6379"}  # workers ask the head where it listens


# Kubernetes.


@pytest.mark.parametrize("object", [one for one in OBJECTS if one["kind"] != "RayCluster"], ids=lambda one: one["kind"])
def test_object_is_valid_for_kubernetes(object):
    kubernetes_validate.validate(object, KUBERNETES, strict=True)


@pytest.mark.parametrize("part", TEMPLATES)
def test_pod_is_valid_for_kubernetes_has_bounds_and_no_privileges(part):
    template = TEMPLATES[part]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]}
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)
    assert template["spec"]["securityContext"] == {"runAsNonRoot": True, "runAsUser": 999}
    assert container(part)["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    for bound in ("requests", "limits"):
        assert container(part)["resources"][bound].keys() == {"cpu", "memory"}


def test_ray_cluster_has_only_fields_of_its_definition():
    assert [one["apiVersion"] for one in OBJECTS if one["kind"] == "RayCluster"] == ["ray.io/v1"]
    assert CLUSTER.keys() <= CLUSTER_FIELDS
    assert HEAD.keys() <= HEAD_FIELDS
    assert WORKERS.keys() <= WORKER_FIELDS
    assert WORKERS["minReplicas"] == WORKERS["replicas"] == WORKERS["maxReplicas"]
    for params in (HEAD["rayStartParams"], WORKERS["rayStartParams"]):
        assert all(isinstance(value, str) for value in params.values())  # numbers are refused


def test_services_policies_and_budget_select_the_pods_that_there_are():
    labels = {part: template["metadata"]["labels"] for part, template in TEMPLATES.items()}
    assert labels == {part: {"app": "taciturn", "part": part} for part in TEMPLATES}
    ports = {port["name"]: port["containerPort"] for port in container("worker")["ports"]}
    for name in ("taciturn", "taciturn-fronts"):
        service = of_kind("Service", name)
        assert service["selector"] == labels["worker"]
        assert [ports[port["targetPort"]] for port in service["ports"]] == [8420]
    budget = of_kind("PodDisruptionBudget")
    assert budget["selector"]["matchLabels"] == labels["worker"]
    assert budget["minAvailable"] == WORKERS["replicas"] - 1  # of such pods Kubernetes knows no maxUnavailable
    assert of_kind("Deployment")["selector"]["matchLabels"] == labels["serve"]
    policy = of_kind("NetworkPolicy")
    assert policy["podSelector"]["matchLabels"] == {"app": "taciturn"}
    assert policy["ingress"][1:] == [{"ports": [{"port": 8420}]}]  # from elsewhere


def test_probes_ask_what_the_service_answers():
    assert container("worker")["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert "livenessProbe" not in container("worker")  # a worker without a front is alive
    serve = container("serve")
    urls = {
        name: re.findall(r"http://([a-z-]+):8420(/[a-z]+)", serve[name]["exec"]["command"][-1])
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    alive = [("taciturn-fronts", "/healthz")]
    assert urls == {"startupProbe": alive, "livenessProbe": alive, "readinessProbe": [("taciturn", "/readyz")]}
    assert of_kind("Service", "taciturn-fronts")["publishNotReadyAddresses"]


def test_secrets_are_those_that_there_are():
    keys = {one["metadata"]["name"]: set(one["stringData"]) for one in OBJECTS if one["kind"] == "Secret"}
    for part in ("head", "worker"):
        assert [source["secretRef"]["name"] for source in container(part)["envFrom"]] == ["taciturn-storage"]
    (variable,) = container("serve")["env"]
    reference = variable["valueFrom"]["secretKeyRef"]
    assert reference["key"] in keys[reference["name"]]
    assert resolve([from_environment({variable["name"]: "host=postgres"})])[0].postgres == "host=postgres"


def test_image_is_one_with_all_that_is_needed():
    assert len({container(part)["image"] for part in TEMPLATES}) == 1
    text = (DEPLOY / "kuberay.yaml").read_text()
    extras = re.search(r"--build-arg EXTRAS=(\S+)", text)[1].split(",")
    recipe = (DEPLOY / "Containerfile").read_text()
    assert set(extras) >= {"serve", "postgres", "ray", "s3"}
    assert f"EXTRAS={','.join(extras)}" in recipe  # which says how as well
    assert "ARG EXTRAS=serve,postgres\n" in recipe
    assert "useradd --system --uid 999 " in recipe  # the number that the pods run as
    assert f"'[{','.join(extras)}]'" in " ".join(LAUNCHER["setup_commands"])


# taciturn's own commands.


def flags_of(command):
    """The flags of a command of taciturn."""
    found = typer.main.get_command(app).get_command(click.Context(click.Command("taciturn")), command)
    return {flag for option in found.params for flag in option.opts}


def given_flags(words):
    """The settings that words of `taciturn serve` give, by flag."""
    flat = [part for word in words for part in word.split("=", 1)]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def serving_words():
    """The words after `taciturn serve`, of both files."""
    (started,) = [line for line in LAUNCHER["head_start_ray_commands"] if "taciturn serve" in line]
    words = shlex.split(started)
    yield words[words.index("serve") + 1 :]
    arguments = container("serve")["args"]
    assert arguments[:2] == ["taciturn", "serve"]
    yield arguments[2:]


def test_served_with_flags_that_there_are_and_values_that_they_take():
    for words in serving_words():
        flags = given_flags(words)
        assert flags.keys() <= flags_of("serve")
        settings, _ = resolve([from_flags({flag[2:].replace("-", "_"): value for flag, value in flags.items()}, [])])
        assert (settings.engine, settings.host, settings.port) == ("ray", "0.0.0.0", 8420)  # noqa: S104
        assert settings.snapshots.startswith("s3://")
        assert settings.address in {"auto", "ray://taciturn-head-svc:10001"}


def test_head_is_reached_where_it_listens():
    """KubeRay calls the service of the head NAME-head-svc; Ray's server for drivers elsewhere has port 10001."""
    flags = given_flags(container("serve")["args"][2:])
    name = next(one["metadata"]["name"] for one in OBJECTS if one["kind"] == "RayCluster")
    ports = {port["name"]: port["containerPort"] for port in container("head")["ports"]}
    assert flags["--address"] == f"ray://{name}-head-svc:{ports['client']}"
