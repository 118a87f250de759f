"""Requests to a service, sent again while it does not answer."""

import math
import secrets
import ssl
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import numpy as np

from taciturn import errors
from taciturn.errors import InvalidContext, TaciturnError
from taciturn.retry import retry_after
from taciturn.validate import AGENT_NAME, check_number, shown

ERRORS: dict[str, type[TaciturnError]] = {
    "unknown-decision": errors.UnknownDecision,
    "forgotten-decision": errors.ForgottenDecision,
    "already-answered": errors.AlreadyAnswered,
    "invalid-context": errors.InvalidContext,
    "invalid-reward": errors.InvalidReward,
    "unknown-arm": errors.UnknownArm,
    "unknown-name": errors.UnknownName,
    "invalid-file": errors.InvalidData,
    "request-id-reused": errors.RequestIdReused,
}
ERRORS_BY_FIELD: dict[str, type[TaciturnError]] = {"neighbors": errors.UnknownDecision, "allowed": errors.UnknownArm}
RETRY_STATUSES = (429, 502, 503, 504)
"""Retry later; also the answers of a proxy whose service is being restarted."""

NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")
"""What OpenSSL says, by its version, about a server that answers without encryption."""

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
NO_ANSWER = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError)
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
"""Seconds before the second attempt, twice as many before each further one, and at most so many."""


class ServiceUnavailable(TaciturnError):
    """A service that could not be reached, or answered "retry later", for as long as the client was patient."""


class Reply:
    """The last answer to a request; `repeated` says that an earlier attempt may have been carried out."""

    def __init__(self, response: httpx.Response, *, repeated: bool) -> None:
        self._response, self.repeated = response, repeated

    @property
    def slug(self) -> str:
        """The kind of problem; empty if there is none."""
        return _slug(self._response) if self._response.is_error else ""

    def content(self) -> bytes:
        """The content; raises the error that the answer stands for."""
        if not self._response.is_success:
            raise problem_of(self._response)
        return self._response.content

    def result(self) -> Any:
        """The decoded content, None for no content; raises the error that the answer stands for."""
        content = self.content()
        try:
            return msgspec.json.decode(content) if content else None
        except msgspec.DecodeError:
            raise problem_of(self._response) from None


class Connection:
    """A connection to a service; for the arguments see `Client`.

    `clock` returns seconds, `sleep` waits for so many, and `jitter` returns a factor for pauses, so that many clients
    do not come back at the same moment.
    """

    def __init__(
        self, url: str, key: str | None, *, patience: float, timeout: float, http: httpx.Client | None = None
    ) -> None:
        address = _checked_url(url)
        check_number("patience", patience, 0, 86_400)
        self.address = f"{address.scheme}://{address.netloc.decode('ascii')}"
        self.patience = patience
        self.clock: Callable[[], float] = time.monotonic
        self.sleep: Callable[[float], object] = time.sleep
        self.jitter: Callable[[], float] = lambda: secrets.SystemRandom().uniform(0.5, 1.0)
        self._headers = {} if key is None else {"authorization": f"Bearer {_checked_key(key)}"}
        self._http = httpx.Client(base_url=address, timeout=timeout) if http is None else http

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, method: str, path: str, body: Any = None, *, file: bytes | None = None) -> Reply:
        """Send a request until it is answered, and return the answer; raises `ServiceUnavailable` if there is none."""
        content, headers = file, self._headers
        if body is not None:
            content = encode(body)
        if content is not None:
            kind = "application/json" if file is None else "application/octet-stream"
            headers = headers | {"content-type": kind}
        headers = _with_trace(headers)
        deadline, attempts, repeated = self.clock() + self.patience, 0, False
        while True:
            attempts, asked = attempts + 1, 0.0
            try:
                response = self._http.request(method, path, content=content, headers=headers)
            except NO_ANSWER as error:
                if (fault := _tls_fault(error)) is not None:
                    raise TaciturnError(f"{self.address} cannot be reached by https: {fault}") from None
                reason = f"{type(error).__name__}: {error}"
                may_be_done = not isinstance(error, NOT_SENT)
            except httpx.HTTPError as error:  # its text can have headers, and with them the key
                raise TaciturnError(
                    f"{method} {path} cannot be sent to {self.address}: {type(error).__name__}"
                ) from None
            else:
                if response.status_code not in RETRY_STATUSES:
                    return Reply(response, repeated=repeated)
                reason, may_be_done = str(problem_of(response)), response.status_code != 429
                asked = retry_after(response.headers, datetime.now(UTC))
            repeated |= may_be_done
            if (left := deadline - self.clock()) <= 0:
                raise ServiceUnavailable(f"{method} {path} was sent {attempts} times in {self.patience:g} s; {reason}")
            longest = min(FIRST_PAUSE * 2.0 ** (attempts - 1), LONGEST_PAUSE)
            self.sleep(min(asked + longest * self.jitter(), left))  # the last attempt is when the patience ends


def _with_trace(headers: dict[str, str]) -> dict[str, str]:
    """The headers, with the span of OpenTelemetry that the program is in, if it uses that."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return headers
    from opentelemetry import propagate  # noqa: PLC0415 - an extra, which the program has loaded

    propagate.inject(headers := dict(headers))
    return headers


def problem_of(response: httpx.Response) -> TaciturnError:
    """The error of this package for a problem."""
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
        kind = ERRORS.get(_slug(response)) or ERRORS_BY_FIELD.get(problem.get("field", "")) or TaciturnError
        return kind(f"{problem['detail']} ({response.status_code})" if kind is TaciturnError else problem["detail"])
    except (msgspec.DecodeError, KeyError):
        return TaciturnError(f"the service answered {response.status_code}, and not in the form of taciturn")


def _tls_fault(error: BaseException) -> str | None:
    """What is wrong with the encryption, in words, where that stays wrong however often it is tried; else None."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__ or found.__context__
    if isinstance(found, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({found.verify_message})"
    if found is None or found.reason not in NO_TLS:
        return None  # a connection that was cut off, perhaps by a restart
    return "it does not speak TLS; give the address with http:// or the port of a proxy that does"


def _slug(response: httpx.Response) -> str:
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.DecodeError:
        return ""
    return str(problem.get("type", "")).rpartition("problem-")[2]


def encode(body: Any) -> bytes:
    """The body of a request as JSON, which has no NaN and no infinity: they would be sent as null."""
    _check_finite(body)
    try:
        return msgspec.json.encode(body, enc_hook=_plain)
    except UnicodeEncodeError as error:
        raise InvalidContext(f"a text has half a character, {shown(error.object[error.start])}; remove it") from None


def agent_path(name: Any) -> str:
    """The path of an agent; a name that no agent can have would lead elsewhere."""
    if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
        raise TaciturnError(
            f"{shown(name)} cannot be the name of an agent; small letters, digits, - and _ can, at most 64"
        )
    return f"/v1/agents/{name}"


def segment(text: str) -> str:
    """Percent-encode text as one segment of a path."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else _percent(c) for c in text)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _check_finite(value: Any) -> None:
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        raise TaciturnError(f"{value} cannot be sent to a service; a finite number is needed")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for part in parts:
        _check_finite(part)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise TaciturnError("an array with NaN or infinity cannot be sent to a service; finite numbers are needed")
        return value.tolist()
    raise TaciturnError(f"a {type(value).__name__} cannot be sent to a service")


def _checked_key(key: Any) -> str:
    """The key, if it can be sent in a header; the error never shows it."""
    if not isinstance(key, str) or not key:
        raise TaciturnError("the key is empty or no text; give the token that `taciturn keys add` showed")
    if not all("!" <= character <= "~" for character in key):
        raise TaciturnError(
            "the key has a space, a line end or another character that no token has; "
            "give the token alone, as `taciturn keys add` showed it"
        )
    return key


def _checked_url(url: Any) -> httpx.URL:
    """The address as a URL; the error does not show it, as a key may be there by mistake."""
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        address = httpx.URL("")
    if address.scheme not in {"http", "https"} or not address.host:
        raise TaciturnError("the address of the service is not valid; http://localhost:8420 is")
    if address.port is not None and not 1 <= address.port <= 65535:
        raise TaciturnError(f"the address of the service has the port {address.port}; 1 to 65535 are possible")
    return address
