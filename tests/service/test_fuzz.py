"""Requests that the OpenAPI document allows, and others, are answered as the document says."""

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from service_kit import MemoryJournal
from taciturn.agents.warm import compile_kernels
from taciturn.registry import METHODS
from taciturn.service.api.keys import Keyring, digest, new_token
from taciturn.service.api.local import create_app
from taciturn.service.core.limits import Limits
from taciturn.service.core.operations import Create, Decide, DecideRequest
from taciturn.service.core.service import Service
from taciturn.service.journal.base import Key

TOKEN = new_token()


SERVICE = Service(MemoryJournal(), limits=Limits(agents=50, arms=20, dimension=200, batch=20, nodes=10_000))


@pytest.fixture(scope="module", autouse=True)
def agents_and_decisions():
    """A few, so that requests can find some; not while tests are collected, which every process does."""
    compile_kernels(METHODS)  # with an empty cache that takes longer than a request may
    for name in "ab":
        SERVICE.call(name, SERVICE.limits.bounded_create(Create(name, ["x", "y"], "linucb")))
        named = {"late": 1.0, "country": "DE", "note": "where is it", "tags": ["new"], "at": "2026-11-16", "no": None}
        SERVICE.call(name, Decide(DecideRequest(contexts=[named] * 20)))  # so that most contexts with names are valid


# Whether a context, an id, a file or params are valid depends on the agent, not on the schema: 410 and 422 are right.
EXPECTED = ["2xx", "401", "403", "404", "409", "410", "422", "429"]
# A body that breaks the schema can be megabytes: 413 is right too.
REFUSED = ["400", "401", "403", "404", "405", "406", "409", "410", "413", "415", "422", "429"]
CHECKS = {
    "positive_data_acceptance": {"expected-statuses": EXPECTED},
    "negative_data_rejection": {"expected-statuses": REFUSED},
}
CONFIG = SchemathesisConfig.from_dict({"checks": CHECKS})
APP = create_app(SERVICE, Keyring([Key("fuzz", digest(TOKEN), "write")]))
schema = schemathesis.openapi.from_asgi("/openapi.json", APP, config=CONFIG)


@schema.parametrize()
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_documented(case):
    if case.meta.generation.mode.is_positive and case.operation.path.count("/") > 3:
        case.path_parameters["agent"] = "a"  # an existing one; random names and ids hardly ever exist
        if "id" in case.path_parameters:
            case.path_parameters["id"] = int(case.path_parameters["id"]) % 30
    case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"})


def test_a_reused_request_id_is_documented():
    """Generated requests rarely have the id of another."""
    decide = schema.raw_schema["paths"]["/v1/agents/{agent}/decisions"]["post"]
    assert "409" in decide["responses"]
