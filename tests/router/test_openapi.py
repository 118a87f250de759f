"""The OpenAPI document of a router describes its routes too: chat completions in `test_proxy.py`, the others here."""

import pytest

from openapi_kit import check_document, errors
from router_kit import running, shop
from taciturn.service.api.keys import Keyring, digest
from taciturn.service.journal.base import Key


@pytest.mark.parametrize("keys", [[], [Key("w", digest("taciturn_w"), "write")]])
def test_the_document_is_complete(tmp_path, keys):
    with running(tmp_path, keyring=Keyring(keys)) as router:
        document = router.web("GET", "/openapi.json").json()
        check_document(document)
        written = {path: [*document["paths"][path]] for path in document["paths"] if "agents" not in path}
        assert written == {
            "/v1/route": ["post"],
            "/v1/route/{id}": ["get"],
            "/v1/feedback": ["post"],
            "/v1/models": ["get"],
            "/v1/chat/completions": ["post"],
            "/healthz": ["get"],
            "/readyz": ["get"],
            "/metrics": ["get"],
        }
        assert "POST /v1/chat/completions" in router.web("GET", "/docs").text
        chat = document["paths"]["/v1/chat/completions"]["post"]
        assert ("security" in chat, "401" in chat["responses"]) == (bool(keys), bool(keys))


def test_answers_have_the_documented_fields_and_no_others(tmp_path):
    with running(tmp_path, shop(mode="observe", default="account")) as router:
        document = router.web("GET", "/openapi.json").json()
        made = router.route("where is my parcel", session="s1")
        answers = {"Routed": made, "Feedback": router.feedback(id=made["id"], rating="up")}
        answers |= {"RoutedDetails": router.why(made["id"]), "Reason": made["because"][0]}
        answers["Models"] = router.web("GET", "/v1/models").json()
        wrong = {name: errors(document, name, answer) for name, answer in answers.items()}
        assert wrong == {name: [] for name in answers}
        assert errors(document, "Routed", made | {"more": 1}) and errors(document, "Routed", made | {"sticky": "no"})
    with running(tmp_path, shop()) as router:
        assert errors(document, "Routed", router.route("where is my parcel")) == []
