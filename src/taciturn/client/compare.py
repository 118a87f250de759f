"""Whether what the service has is what was asked for, where the answer to the first attempt was lost."""

import json
from typing import Any

import msgspec

from taciturn.client.connection import encode

CAPPED = ("max_nodes", "memory_limit")
"""Params that the service lowers to its own limits."""


def is_as_asked(about: dict[str, Any], body: dict[str, Any]) -> bool:
    """Whether the description of an agent is that of the agent that the body of a request to create asks for."""
    asked = msgspec.json.decode(encode(body))
    arms = list(range(asked["arms"])) if isinstance(asked["arms"], int) else asked["arms"]
    found = [about["kind"], about["arms"], about["active"], about["corrections"]]
    return found == [asked["kind"], arms, arms, asked["corrections"]] and all(
        _is_param(name, about["params"][name], value)
        for name, value in asked["params"].items()
        if name in about["params"]  # a preset is not: its params are
    )


def _is_param(name: str, found: Any, asked: Any) -> bool:
    """Whether a param is as it was asked for, or as the service has bounded it."""
    if name == "features":
        found, asked = ({k: v for k, v in (given or {}).items() if k != "max_features"} for given in (found, asked))
    return found == asked or (name in CAPPED and (asked is None or found < asked))


def same_agent(one: bytes, other: bytes) -> bool:
    """Whether two files hold an agent of the same class, params, arms and features, and as many decisions.

    The service lowers some params, and may have trained: therefore not all of it is compared.
    """
    try:
        return _identity(one) == _identity(other)
    except (LookupError, TypeError, ValueError):  # not a file of an agent
        return False


def _identity(file: bytes) -> tuple[Any, ...]:
    """What stays the same in the header of a file; see `taciturn.agents.storage` for its format."""
    length = int.from_bytes(file[9:17], "little")
    root = json.loads(file[17 : 17 + length])["root"]
    state = dict(root["state"]["dict"])
    lowered = {*CAPPED, "features", "scaling"}  # earlier versions had no features and no scaling
    params = {name: value for name, value in state["params"]["dict"] if name not in lowered}
    next_id = dict(state["table"]["dict"])["next_id"]
    return root["object"], params, state["arm_names"], _features(state), next_id


def _features(state: dict[str, Any]) -> tuple[Any, Any]:
    """The names of the features, and how many there are without names, as this version or an earlier one wrote them."""
    if "intake" in state:
        reader = dict(dict(state["intake"]["dict"])["reader"]["dict"])
        return reader["names"], reader["n_inputs"]
    names = state["feature_names"]
    return names, (state["n_features"] or None) if names is None else None
