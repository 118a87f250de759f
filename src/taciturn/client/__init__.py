"""Client of a service: its agents have the methods and errors of an agent in this process."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from taciturn.client.compare import is_as_asked, same_agent
from taciturn.client.connection import Connection, ServiceUnavailable, agent_path
from taciturn.client.remote import RemoteAgent
from taciturn.contracts import Arm
from taciturn.features.schema import Features

__all__ = ["Client", "RemoteAgent", "ServiceUnavailable"]

URL, KEY = "TACITURN_URL", "TACITURN_KEY"


class Client:
    """A connection to a service.

    A request without an answer, or with the answer "retry later", is sent again after a pause: as long as the service
    asks for, or with longer and longer pauses. Every request is carried out once, however often it was sent.

    Arguments:
        url: its address, as ``http://localhost:8420``; by default that of the variable TACITURN_URL, with the key in
            TACITURN_KEY.
        key: the token of an API key, if the service needs one.
        patience: seconds for which a request is sent again; 0 for never.
        timeout: seconds to wait for each answer.
        http: your own `httpx.Client`, instead of one made from `url` and `timeout`.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience: float = 30.0,
        timeout: float = 30.0,
        http: httpx.Client | None = None,
    ) -> None:
        if url is None:
            url, key = os.environ.get(URL, "http://localhost:8420"), os.environ.get(KEY) if key is None else key
        self.connection = Connection(url, key, patience=patience, timeout=timeout, http=http)

    def __repr__(self) -> str:
        return f"Client({self.connection.address!r})"

    def __enter__(self) -> Self:
        """Close the client at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def agents(self) -> list[str]:
        """The names of all agents."""
        return [agent["name"] for agent in self.connection.send("GET", "/v1/agents").result()["agents"]]

    def agent(self, name: str) -> RemoteAgent:
        """The existing agent `name`."""
        return RemoteAgent(self.connection, self._about(name))

    def create(
        self, name: str, *, arms: Sequence[Arm] | int, kind: str = "viewucb", corrections: bool = True, **params: Any
    ) -> RemoteAgent:
        """Create an agent.

        Arguments:
            name: what the service calls it.
            arms: the arms by name, or how many there are.
            kind: a method's name, as for `taciturn.make`.
            corrections: whether feedback can be changed later.
            params: the parameters of its kind.
        """
        names = arms if isinstance(arms, int) else list(arms)
        if params.get("features") is not None:
            params["features"] = Features.of(params["features"]).as_dict()
        body = {"name": name, "kind": kind, "arms": names, "params": params, "corrections": corrections}
        reply = self.connection.send("POST", "/v1/agents", body)
        if reply.repeated and reply.slug == "name-taken" and is_as_asked(about := self._about(name), body):
            return RemoteAgent(self.connection, about)  # the answer to an earlier attempt was lost
        return RemoteAgent(self.connection, reply.result())

    def load(self, name: str, path: str | Path) -> RemoteAgent:
        """Create the agent `name` from the file at `path`, which `save` wrote."""
        place, file = f"{agent_path(name)}/file", Path(path).read_bytes()
        reply = self.connection.send("POST", place, file=file)
        if reply.repeated and reply.slug == "name-taken":  # perhaps the answer to an earlier attempt was lost
            existing = self.agent(name)
            if same_agent(file, self.connection.send("GET", place).content()):
                return existing
        return RemoteAgent(self.connection, reply.result())

    def delete(self, name: str) -> None:
        """Delete the agent `name` permanently."""
        reply = self.connection.send("DELETE", agent_path(name))
        if not (reply.repeated and reply.slug == "unknown-agent"):
            reply.result()

    def _about(self, name: str) -> dict[str, Any]:
        about: dict[str, Any] = self.connection.send("GET", agent_path(name)).result()
        return about
