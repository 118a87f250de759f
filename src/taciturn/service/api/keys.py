"""API keys: a token is shown once and only its digest is kept."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Key

SCOPES = ("read", "write")


def new_token() -> str:
    """A token that nobody can guess: 32 random bytes behind a prefix by which leaked ones are found."""
    return "taciturn_" + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """What is kept of a token. It is random and long, so that a plain SHA-256 gives nothing away."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Keyring:
    """All keys, to be asked what a token may do."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = tuple(keys)
        for key in self._keys:
            if key.scope not in SCOPES:
                raise TaciturnError(f"key {key.name!r} has the scope {key.scope!r}; a key may 'read' or 'write'")

    def scope_of(self, token: str) -> str | None:
        """What a token may do, None where it is unknown; takes as long for every token, so that time tells nothing."""
        given = digest(token)
        scope = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, given):
                scope = key.scope
        return scope
