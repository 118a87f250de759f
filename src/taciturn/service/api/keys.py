"""API keys: a token is shown once, and only its digest is stored."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

from taciturn.errors import TaciturnError
from taciturn.service.journal.base import Key

SCOPES = ("read", "write")


def new_token() -> str:
    """A random token of 32 bytes, with a prefix by which scanners find leaked ones."""
    return "taciturn_" + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """The SHA-256 of a token, which is random and long enough for a hash without salt."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Keyring:
    """All keys of a service, which can change while it runs.

    Without any key everyone on this machine is let in. From the first key on a key is required, for good: dropping the
    last one must not open a service that other machines reach.
    """

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys: tuple[Key, ...] = ()
        self.required = False
        self.replace(keys)

    def replace(self, keys: Iterable[Key]) -> None:
        """Accept these keys from now on, and no others."""
        keys = tuple(keys)
        for key in keys:
            if key.scope not in SCOPES:
                raise TaciturnError(f"key {key.name!r} has the scope {key.scope!r}; a key may 'read' or 'write'")
        self._keys = keys
        self.required |= bool(keys)

    def find(self, token: str) -> Key | None:
        """The key of a token, None if it is unknown; takes the same time for every token, to reveal nothing."""
        given = digest(token)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, given):
                found = key
        return found
