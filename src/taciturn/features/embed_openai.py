"""Embeddings from an endpoint that speaks the protocol of OpenAI: POST {base}/embeddings."""

import os
import re
import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from taciturn.errors import EmbeddingFailed, TaciturnError
from taciturn.retry import retry_after
from taciturn.validate import base_address

PREFIX = "openai:"
DEFAULT_BASE_URL = "https://api.openai.com/v1"
MAX_INPUTS = 256
"""Texts in one request."""

TIMEOUT = (5.0, 30.0)
"""Seconds to connect, and seconds without receiving data."""

LONGEST_ANSWER = 60.0
"""Seconds in which an answer must be complete."""

PAUSES = (0.5, 2.0)
"""Seconds before the second and before the third attempt, which is the last."""

LONGEST_PAUSE = 20.0
"""Seconds that the endpoint may ask to wait with Retry-After; if it asks for more, there is no further attempt."""

BYTES_PER_TEXT = 250_000
"""Largest size of an answer for each text: 8192 numbers with all their digits, and a margin."""

HINTS = {
    400: "a text may be too long for the model",
    401: "OPENAI_API_KEY is sent only to the address in OPENAI_BASE_URL",
    403: "OPENAI_API_KEY is sent only to the address in OPENAI_BASE_URL",
    404: "check the model and the address, which ends in /v1 in most cases",
}


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Item]


class _Failure(NamedTuple):
    """Why an attempt failed, whether another one may succeed, and the seconds that the endpoint asks to wait."""

    reason: str
    temporary: bool = False
    wait: float = 0.0


class OpenAIEndpoint:
    """Embeds texts by a model of an endpoint; `name` is ``openai:<model>@<base url>``.

    The key in OPENAI_API_KEY is read at every request, and sent only if the base URL is that of OPENAI_BASE_URL (or
    OpenAI's own where that is not set): a name may come with a file from a stranger, whose address must not get the
    key.
    """

    def __init__(self, name: str) -> None:
        match = re.fullmatch(r"openai:(?P<model>(?:(?!://)\S)*?[^\s@])(?:@(?P<url>https?://.*))?", name)
        if match is None:
            raise TaciturnError("the name of this embedder is not valid; openai:<model> or openai:<model>@http://… is")
        self.model = match["model"]
        self.base_url = _checked_base_url(match["url"] or _environment_base_url())
        self.name = f"{PREFIX}{self.model}@{self.base_url}"

    def __call__(self, texts: list[str]) -> list[list[float]]:
        """The embeddings of the texts in their order, n lists of numbers."""
        batches = [texts[start : start + MAX_INPUTS] for start in range(0, len(texts), MAX_INPUTS)]
        return [vector for batch in batches for vector in self._embed_batch(batch)]

    def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        inputs = [text or " " for text in texts]  # endpoints refuse an empty input, and with it the whole batch
        content = self._post(msgspec.json.encode({"model": self.model, "input": inputs}), len(texts) * BYTES_PER_TEXT)
        try:
            items = msgspec.json.decode(content, type=_Answer).data
        except (msgspec.DecodeError, RecursionError):
            items = None
        if items is None:
            raise self._failed('its answer is not {"data": [{"index": …, "embedding": [numbers]}, …]}')
        items.sort(key=lambda item: item.index)
        if [item.index for item in items] != list(range(len(texts))):
            raise self._failed(f"its answer has {len(items)} embeddings, not one for each of {len(texts)} texts")
        return [item.embedding for item in items]

    def _post(self, body: bytes, limit: int) -> bytes:
        """The content of the answer; raises the reason of the last attempt, outside of any handler of exceptions.

        (An exception that is raised inside one refers to the other, whose text or frames may hold the key.)
        """
        result = self._attempt(body, limit)
        for pause in PAUSES:
            if isinstance(result, bytes) or not result.temporary or result.wait > LONGEST_PAUSE:
                break
            time.sleep(max(pause, result.wait))
            result = self._attempt(body, limit)
        if isinstance(result, bytes):
            return result
        raise self._failed(result.reason)

    def _attempt(self, body: bytes, limit: int) -> bytes | _Failure:
        import requests  # noqa: PLC0415 - slow to import, and needed by few

        no_answer = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
        key = self._key()
        if not all("!" <= character <= "~" for character in key):
            return _Failure("OPENAI_API_KEY has a character that no key has")
        # An answer that is not compressed is as large as it looks.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        try:
            with requests.post(
                f"{self.base_url}/embeddings",
                data=body,
                headers=headers | ({"Authorization": f"Bearer {key}"} if key else {}),
                auth=_as_it_is,
                timeout=TIMEOUT,
                stream=True,
                allow_redirects=False,
            ) as response:
                return _content(response, limit) if response.status_code == 200 else _refusal(response)
        except no_answer as error:
            return _Failure(f"it does not answer ({type(error).__name__})", temporary=True)
        except requests.RequestException as error:  # its text can have headers, and with them the key
            return _Failure(f"the request cannot be sent ({type(error).__name__})")

    def _key(self) -> str:
        """The key for this address; empty if there is none."""
        is_ours = self.base_url == _environment_base_url().rstrip("/")
        return os.environ.get("OPENAI_API_KEY", "").strip() if is_ours else ""

    def _failed(self, reason: str) -> EmbeddingFailed:
        return EmbeddingFailed(f"the embedder {self.name} failed: {reason}")


def _as_it_is(request: Any) -> Any:
    """Authorize by the headers alone; without this, requests replaces them by what ~/.netrc says."""
    return request


def _content(response: Any, limit: int) -> bytes | _Failure:
    """The content of an answer, unless it is larger than the limit, compressed, or takes too long."""
    if response.headers.get("content-encoding", "identity") != "identity":
        return _Failure("its answer is compressed, which was not asked for")
    content, deadline = bytearray(), time.monotonic() + LONGEST_ANSWER
    for piece in response.iter_content(1 << 14):
        content += piece
        if len(content) > limit:
            return _Failure(f"its answer is larger than {limit} bytes")
        if time.monotonic() > deadline:
            return _Failure(f"its answer takes longer than {LONGEST_ANSWER:g} s")
    return bytes(content)


def _refusal(response: Any) -> _Failure:
    status = response.status_code
    if 300 <= status < 400:
        return _Failure(f"it answered {status}; redirects are not followed, give the address where they lead")
    hint = f"; {HINTS[status]}" if status in HINTS else ""
    wait = retry_after(response.headers, datetime.now(UTC))
    asked = f" and asks to wait {wait:g} s" if wait > LONGEST_PAUSE else ""
    return _Failure(f"it answered {status}{asked}{hint}", temporary=status == 429 or status >= 500, wait=wait)


def _environment_base_url() -> str:
    return os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL


def _checked_base_url(url: str) -> str:
    """The address without a slash at its end; the error does not show it, as a key may be there by mistake."""
    address = base_address(url)
    if address is None:
        raise TaciturnError(
            "the address of the embeddings is not valid; http://127.0.0.1:8000/v1 is, "
            "without a user, a password or a query (a key is given in OPENAI_API_KEY)"
        )
    return address
