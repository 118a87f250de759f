"""An agent of a service, with the methods of an agent in this process."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taciturn import errors
from taciturn.client.connection import Connection, Reply, agent_path, segment
from taciturn.contracts import Arm, Context, Decision
from taciturn.display import Displayed, Summary, counted, name_text
from taciturn.features.json_form import json_context, json_contexts
from taciturn.introspection import AnswerRates, Calibration, Covariance, Explanation, Health, Neighbor


class RemoteAgent(Displayed):
    """An agent of a service, with the methods of an agent in this process."""

    def __init__(self, connection: Connection, about: dict[str, Any]) -> None:
        self._connection = connection
        self._update(about)

    def _update(self, about: dict[str, Any]) -> None:
        self.name: str = about["name"]
        self.kind: str = about["kind"]
        self.params: dict[str, Any] = about["params"]
        self.arm_names: tuple[Arm, ...] = tuple(about["arms"])
        self.active_arms: tuple[Arm, ...] = tuple(about["active"])

    def _summary(self) -> Summary:
        title = f"RemoteAgent {name_text(self.name)} at {self._connection.address}"
        return Summary(title, {"kind": self.kind, "arms": counted(self.arm_names)})

    def decide(
        self,
        x: Context,
        neighbors: Sequence[int] | None = None,
        *,
        allowed: Sequence[Arm] | None = None,
        request_id: str | None = None,
    ) -> Decision:
        """Choose an arm for a context: all that an agent in this process takes, as far as JSON can say it.

        A request with a `request_id` of your own is decided on once, also if your program is started again in between:
        the same request with the same id gets the same decision, another one with that id raises `RequestIdReused`.
        """
        return _decision(self._decide({"context": json_context(x), "neighbors": _list(neighbors)}, allowed, request_id))

    def decide_batch(
        self,
        X: Any,
        neighbors: Sequence[Sequence[int] | None] | None = None,
        *,
        allowed: Sequence[Arm] | None = None,
        request_id: str | None = None,
    ) -> list[Decision]:
        """Choose an arm for each row of a matrix, frame or table, or item of a list; `request_id` as for `decide`."""
        near = None if neighbors is None else [_list(ids) for ids in neighbors]
        found = self._decide({"contexts": json_contexts(X), "neighbors": near}, allowed, request_id)
        return [_decision(one) for one in found["decisions"]]

    def _decide(self, body: dict[str, Any], allowed: Sequence[Arm] | None, request_id: str | None) -> Any:
        """Send a request to decide; it always has a request id, since a retry must not be decided on again."""
        body |= {"allowed": _list(allowed), "request_id": secrets.token_hex(16) if request_id is None else request_id}
        return self._send("POST", "/decisions", body).result()

    def feedback(self, id: int, reward: float | None) -> None:
        """Give a decision its reward from 0 to 1; None if none will come."""
        self._send("PUT", f"/decisions/{_id(id)}/reward", {"reward": reward}).result()

    def feedback_batch(self, rewards: Mapping[int, float | None]) -> dict[int, str]:
        """Give many decisions their rewards; returns the ids that were refused, and why."""
        if not isinstance(rewards, Mapping):
            raise errors.InvalidReward(f"rewards are a dict of ids and rewards, not a {type(rewards).__name__}")
        body = [{"id": id, "reward": reward} for id, reward in rewards.items()]
        answer = self._send("PUT", "/rewards", body).result()
        return {refused["id"]: refused["detail"] for refused in answer["refused"]}

    def withdraw(self, id: int) -> None:
        """Remove a decision that was never shown, and what was learned from it."""
        reply = self._send("DELETE", f"/decisions/{_id(id)}")
        if not (reply.repeated and reply.slug == "forgotten-decision"):  # an earlier attempt has removed it
            reply.result()

    def explain(self, id: int) -> Explanation:
        """Why this arm was chosen, and the state and reward of the decision."""
        answer = self._send("GET", f"/decisions/{_id(id)}").result()
        parts = answer["explanation"] | {name: answer[name] for name in ("id", "arm", "state", "reward")}
        parts.pop("text")
        parts |= {"arms": tuple(parts["arms"]), "scores": _floats(parts["scores"]), "widths": _floats(parts["widths"])}
        for side in ("supporting", "opposing"):
            parts[side] = tuple(Neighbor(**neighbor) for neighbor in parts[side])
        return Explanation(**parts)

    def health(self) -> Health:
        """The agent's diagnostics."""
        health = self._send("GET", "/health").result()
        if found := health["calibration"]:
            health["calibration"] = Calibration(**found | {"bins": _rows(found["bins"])})
        if found := health.get("answers"):
            health["answers"] = AnswerRates(**found | {"bins": _rows(found["bins"])})
        if found := health.get("covariance"):
            health["covariance"] = Covariance(**found)
        return Health(**{"answers": None} | health)

    def add_arm(self, name: Arm, like: Arm | None = None) -> None:
        """Add an arm, or bring a retired one back; a new one starts with what is known of `like`."""
        absent = name not in self.active_arms
        reply = self._send("POST", "/arms", {"arm": name, "like": like})
        if reply.repeated and absent and reply.slug:
            about = self._send("GET", "").result()
            if name in about["active"]:  # an earlier attempt has added it
                self._update(about)
                return
        self._update(reply.result())

    def retire_arm(self, name: Arm) -> None:
        """Never choose an arm again."""
        self._update(self._send("DELETE", f"/arms/{segment(str(name))}").result())

    def save(self, path: str | Path) -> None:
        """Write the agent to a file; `taciturn.load` reads it in this process, `Client.load` in a service."""
        Path(path).write_bytes(self._send("GET", "/file").content())

    def _send(self, method: str, rest: str, body: Any = None) -> Reply:
        return self._connection.send(method, f"{agent_path(self.name)}{rest}", body)


def _id(id: Any) -> int:
    if isinstance(id, bool) or not isinstance(id, int | np.integer) or id < 0:
        raise errors.UnknownDecision(f"unknown decision {id!r}")
    return int(id)


def _list(given: Iterable[Any] | None) -> list[Any] | None:
    return None if given is None else list(given)


def _floats(values: list[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values])


def _decision(found: dict[str, Any]) -> Decision:
    parts = (_floats(found["scores"]), _floats(found["widths"]), found["propensity"])
    return Decision(found["id"], found["arm"], *parts)


def _rows(bins: list[dict[str, Any]]) -> tuple[tuple[Any, ...], ...]:
    """The bins of a calibration as they were before they had names."""
    return tuple(tuple(row.values()) for row in bins)
