"""Client of a service: its agents have the methods and errors of an agent in this process."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import msgspec
import numpy as np
import scipy.sparse as sp

from taciturn import errors
from taciturn.contracts import Arm, Calibration, Context, Decision, Explanation, Health, Neighbor
from taciturn.errors import TaciturnError

ERRORS: dict[str, type[TaciturnError]] = {
    "unknown-decision": errors.UnknownDecision,
    "forgotten-decision": errors.ForgottenDecision,
    "already-answered": errors.AlreadyAnswered,
    "invalid-context": errors.InvalidContext,
    "invalid-reward": errors.InvalidReward,
    "unknown-arm": errors.UnknownArm,
    "unknown-name": errors.UnknownName,
    "invalid-file": errors.InvalidData,
}
ERRORS_BY_FIELD: dict[str, type[TaciturnError]] = {"neighbors": errors.UnknownDecision, "allowed": errors.UnknownArm}
RETRY_STATUSES = (429, 503)


class ServiceUnavailable(TaciturnError):
    """A service that could not be reached, or answered "retry later", in all attempts."""


class Client:
    """A connection to a service.

    Arguments:
        url: its address, as ``http://localhost:8420``.
        key: the token of an API key, if the service needs one.
        attempts: how often a request is sent if there is no answer, or the answer is "retry later".
        timeout: seconds to wait for an answer.
        http: your own `httpx.Client`, instead of one made from `url` and `timeout`.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        attempts: int = 4,
        timeout: float = 30.0,
        http: httpx.Client | None = None,
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, timeout=timeout) if http is None else http
        self._http.headers.update(headers)
        self._attempts = attempts
        self._sleep: Callable[[float], object] = time.sleep

    def __enter__(self) -> Self:
        """Close the client at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def agents(self) -> list[str]:
        """The names of all agents."""
        return [agent["name"] for agent in self.ask("GET", "/v1/agents")["agents"]]

    def agent(self, name: str) -> "RemoteAgent":
        """An existing agent."""
        return RemoteAgent(self, self.ask("GET", f"/v1/agents/{_segment(name)}"))

    def create(
        self, name: str, *, arms: Sequence[Arm] | int, kind: str = "viewucb", corrections: bool = True, **params: Any
    ) -> "RemoteAgent":
        """Create an agent; `params` are those of its kind, as in `taciturn.make`."""
        names = arms if isinstance(arms, int) else list(arms)
        body = {"name": name, "kind": kind, "arms": names, "params": params, "corrections": corrections}
        return RemoteAgent(self, self.ask("POST", "/v1/agents", body))

    def load(self, name: str, path: str | Path) -> "RemoteAgent":
        """Create an agent from a file that `save` wrote."""
        return RemoteAgent(self, self.ask("POST", f"/v1/agents/{_segment(name)}/file", file=Path(path).read_bytes()))

    def delete(self, name: str) -> None:
        """Delete an agent permanently."""
        self.ask("DELETE", f"/v1/agents/{_segment(name)}")

    def ask(self, method: str, path: str, body: Any = None, *, file: bytes | None = None, raw: bool = False) -> Any:
        """Send a request, with retries, and return its answer; the request must be idempotent."""
        content, kind = file, "application/octet-stream"
        if body is not None:
            content, kind = msgspec.json.encode(body, enc_hook=_plain), "application/json"
        headers = {} if content is None else {"content-type": kind}
        for attempt in range(1, self._attempts + 1):
            try:
                answer = self._http.request(method, path, content=content, headers=headers)
            except httpx.TransportError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code not in RETRY_STATUSES:
                    return _result(answer, retried=attempt > 1, raw=raw)
                reason = str(_problem(answer))
            if attempt < self._attempts:
                self._sleep(0.1 * 2**attempt)
        raise ServiceUnavailable(f"{method} {path} was tried {self._attempts} times; {reason}")


class RemoteAgent:
    """An agent of a service, with the methods of an agent in this process."""

    def __init__(self, client: Client, about: dict[str, Any]) -> None:
        self._client = client
        self._update(about)

    def _update(self, about: dict[str, Any]) -> None:
        self.name: str = about["name"]
        self.kind: str = about["kind"]
        self.params: dict[str, Any] = about["params"]
        self.arm_names: tuple[Arm, ...] = tuple(about["arms"])
        self.active_arms: tuple[Arm, ...] = tuple(about["active"])

    def decide(
        self, x: Context, neighbors: Sequence[int] | None = None, *, allowed: Sequence[Arm] | None = None
    ) -> Decision:
        """Choose an arm for a context: a 1-d array, a sparse matrix of one row, or {feature: value}."""
        return _decision(self._decide({"context": _context(x), "neighbors": _list(neighbors)}, allowed))

    def decide_batch(
        self,
        X: Any,
        neighbors: Sequence[Sequence[int] | None] | None = None,
        *,
        allowed: Sequence[Arm] | None = None,
    ) -> list[Decision]:
        """Choose an arm for each row of a matrix, or item of a list of contexts."""
        near = None if neighbors is None else [_list(ids) for ids in neighbors]
        rows = [X.tocsr()[i] for i in range(X.shape[0])] if sp.issparse(X) else X
        found = self._decide({"contexts": [_context(x) for x in rows], "neighbors": near}, allowed)
        return [_decision(one) for one in found["decisions"]]

    def _decide(self, body: dict[str, Any], allowed: Sequence[Arm] | None) -> Any:
        """Send a request to decide, with a request id: retries are decided only once."""
        body |= {"allowed": _list(allowed), "request_id": secrets.token_hex(16)}
        return self._client.ask("POST", self._path("/decisions"), body)

    def feedback(self, id: int, reward: float | None) -> None:
        """Give a decision its reward from 0 to 1; None if none will come."""
        self._client.ask("PUT", self._path(f"/decisions/{_id(id)}/reward"), {"reward": reward})

    def feedback_batch(self, rewards: Mapping[int, float | None]) -> dict[int, str]:
        """Give many decisions their rewards; returns the ids that were refused, and why."""
        body = [{"id": id, "reward": reward} for id, reward in rewards.items()]
        answer = self._client.ask("PUT", self._path("/rewards"), body)
        return {refused["id"]: refused["detail"] for refused in answer["refused"]}

    def withdraw(self, id: int) -> None:
        """Remove a decision that was never shown, and what was learned from it."""
        self._client.ask("DELETE", self._path(f"/decisions/{_id(id)}"))

    def explain(self, id: int) -> Explanation:
        """Why this arm was chosen, and the state and reward of the decision."""
        answer = self._client.ask("GET", self._path(f"/decisions/{_id(id)}"))
        parts = answer["explanation"] | {name: answer[name] for name in ("id", "arm", "state", "reward")}
        parts.pop("text")
        parts |= {"arms": tuple(parts["arms"]), "scores": _floats(parts["scores"]), "widths": _floats(parts["widths"])}
        for side in ("supporting", "opposing"):
            parts[side] = tuple(Neighbor(**neighbor) for neighbor in parts[side])
        return Explanation(**parts)

    def health(self) -> Health:
        """The agent's diagnostics."""
        health = self._client.ask("GET", self._path("/health"))
        if found := health["calibration"]:
            bins = tuple((row["imputed"], row["observed"], row["count"]) for row in found["bins"])
            health["calibration"] = Calibration(found["truths"], found["brier"], bins)
        return Health(**health)

    def add_arm(self, name: Arm, like: Arm | None = None) -> None:
        """Add an arm, or bring a retired one back; a new one starts with what is known of `like`."""
        self._update(self._client.ask("POST", self._path("/arms"), {"arm": name, "like": like}))

    def retire_arm(self, name: Arm) -> None:
        """Never choose an arm again."""
        self._update(self._client.ask("DELETE", self._path(f"/arms/{_segment(str(name))}")))

    def save(self, path: str | Path) -> None:
        """Write the agent to a file; `taciturn.load` reads it in this process, `Client.load` in a service."""
        Path(path).write_bytes(self._client.ask("GET", self._path("/file"), raw=True))

    def _path(self, rest: str) -> str:
        return f"/v1/agents/{_segment(self.name)}{rest}"


def _segment(text: str) -> str:
    """Percent-encode text as one segment of a path."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else _percent(c) for c in text)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _id(id: Any) -> int:
    if isinstance(id, bool) or not isinstance(id, int | np.integer) or id < 0:
        raise errors.UnknownDecision(f"unknown decision {id!r}")
    return int(id)


def _context(x: Any) -> Any:
    """A context in the form that JSON can hold."""
    if isinstance(x, Mapping) and not sp.issparse(x):
        return {str(name): value for name, value in x.items()}
    if sp.issparse(x):
        row = sp.csr_matrix(x.reshape(1, -1) if x.ndim == 1 else x)
        if row.shape[0] != 1:
            raise errors.InvalidContext(f"one context is one row; this sparse matrix has {row.shape[0]}")
        return {"indices": row.indices, "values": row.data, "size": row.shape[1]}
    return x if isinstance(x, list) else np.asarray(x).tolist()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TaciturnError(f"a {type(value).__name__} cannot be sent to a service")


def _list(given: Iterable[Any] | None) -> list[Any] | None:
    return None if given is None else list(given)


def _floats(values: list[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values])


def _decision(found: dict[str, Any]) -> Decision:
    parts = (_floats(found["scores"]), _floats(found["widths"]), found["propensity"])
    return Decision(found["id"], found["arm"], *parts)


def _result(answer: httpx.Response, *, retried: bool, raw: bool) -> Any:
    """The decoded answer. A retried DELETE that finds nothing has succeeded before."""
    if answer.request.method == "DELETE" and retried and answer.status_code in (404, 410):
        return None
    if answer.status_code >= 400:
        raise _problem(answer)
    return answer.content if raw else msgspec.json.decode(answer.content) if answer.content else None


def _problem(answer: httpx.Response) -> TaciturnError:
    """The error of this package for a problem."""
    try:
        problem = msgspec.json.decode(answer.content, type=dict[str, Any])
        slug = problem["type"].rpartition("problem-")[2]
        kind = ERRORS.get(slug) or ERRORS_BY_FIELD.get(problem.get("field", "")) or TaciturnError
        return kind(f"{problem['detail']} ({answer.status_code})" if kind is TaciturnError else problem["detail"])
    except (msgspec.DecodeError, KeyError):
        return TaciturnError(f"the service answered {answer.status_code}, and not in the form of taciturn")
