"""API keys: tokens, digests and scopes."""

import base64
import hashlib
import hmac

import pytest

from taciturn.errors import TaciturnError
from taciturn.service.api import keys
from taciturn.service.api.keys import Keyring, digest, new_token
from taciturn.service.journal.base import Key


def test_token_is_32_random_bytes_and_digest_its_sha256():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    for token in tokens:
        assert token.startswith("taciturn_")
        assert len(base64.urlsafe_b64decode(token.removeprefix("taciturn_") + "=")) == 32
        assert digest(token) == hashlib.sha256(token.encode()).digest()


def test_every_key_is_compared_in_constant_time_whichever_matches(monkeypatch):
    tokens = [new_token() for _ in range(3)]
    scopes = ["read", "write", "read"]
    ring = Keyring(Key(str(i), digest(token), scopes[i]) for i, token in enumerate(tokens))
    compared = []

    def compare(one, two):
        compared.append((one, two))
        return hmac.compare_digest(one, two)

    monkeypatch.setattr(keys, "hmac", type("hmac", (), {"compare_digest": staticmethod(compare)}))
    for token, scope in [*zip(tokens, scopes, strict=True), (tokens[0][:-1], None), ("", None), ("\ud800", None)]:
        compared.clear()
        found = ring.find(token)
        assert (found and found.scope) == scope
        assert compared == [(digest(each), digest(token)) for each in tokens]
    assert Keyring([]).find(tokens[0]) is None


def test_unknown_scope_is_refused():
    with pytest.raises(TaciturnError, match="key 'web' has the scope 'admin'; a key may 'read' or 'write'"):
        Keyring([Key("web", bytes(32), "admin")])
