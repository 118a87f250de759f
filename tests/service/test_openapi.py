"""The OpenAPI document is complete: every reference leads somewhere, and answers have the fields that it names."""

from inspect import cleandoc

import pytest

from openapi_kit import check_document, errors
from service_kit import MemoryJournal, Web
from taciturn.service.api.local import create_app
from taciturn.service.core.limits import Limits
from taciturn.service.core.service import Service


@pytest.fixture(scope="module")
def ask():
    service = Service(MemoryJournal(), limits=Limits(seconds=600))  # the first requests may compile kernels
    with Web(create_app(service)) as ask:
        yield ask
    service.close()


@pytest.fixture(scope="module")
def document(ask):
    return ask("GET", "/openapi.json").json()


def test_the_document_is_complete(document):
    check_document(document)


def test_descriptions_are_the_same_on_every_python(document):
    """Python 3.13 takes the indentation out of docstrings; earlier ones keep it."""
    about = [schema["description"] for schema in document["components"]["schemas"].values() if "description" in schema]
    assert any("\n" in text for text in about)
    assert about == [cleandoc(text) for text in about]


def test_answers_have_the_documented_fields_and_no_others(ask, document):
    """Also those that are null at first: the calibration of late rewards, rates of answers, the covariance."""
    agent = ask("POST", "/v1/agents", json={"name": "shop", "arms": ["a", 2], "kind": "bilinucb-kmeans"}).json()
    contexts = [{"x": i % 7, "note": f"a text of {i} words"} for i in range(120)]
    first = {"context": contexts[0], "neighbors": None}
    one = ask("POST", "/v1/agents/shop/decisions", json=first).json()
    several = ask("POST", "/v1/agents/shop/decisions", json={"contexts": contexts}).json()
    silent = [{"id": id, "reward": None} for id in range(1, 120, 2)]
    rewards = [{"id": id, "reward": id % 4 / 4} for id in range(0, 120, 2)]
    for batch in (silent, rewards, [{"id": 1, "reward": 1}, {"id": 7, "reward": 0}, {"id": 999, "reward": 1}]):
        answer = ask("PUT", "/v1/agents/shop/rewards", json=batch).json()
    details, health = (ask("GET", f"/v1/agents/shop/{rest}").json() for rest in ("decisions/120", "health"))
    assert answer["refused"] and (details["explanation"]["supporting"] or details["explanation"]["opposing"])
    assert health["calibration"]["bins"] and health["answers"]["bins"] and health["covariance"]
    feedback = ask("PUT", "/v1/agents/shop/decisions/120/reward", json={"reward": 1}).json()
    answers = {"Decision": one, "Decisions": several, "RewardBatchAnswer": answer, "DecisionDetails": details}
    answers |= {"Health": health, "Agent": agent, "Feedback": feedback, "Agents": ask("GET", "/v1/agents").json()}
    answers["Problem"] = ask("GET", "/v1/agents/none").json()
    assert {name: errors(document, name, answer) for name, answer in answers.items()} == {name: [] for name in answers}
    assert errors(document, "Health", health | {"more": 1}) and errors(document, "Decision", one | {"id": "1"})
