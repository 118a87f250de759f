"""JSON schemas of the answers, for the OpenAPI document; each has a name, which generated code takes over."""

from types import UnionType
from typing import Any, get_args, get_type_hints

from taciturn.agents.intake import SCALINGS
from taciturn.contracts import STATES
from taciturn.features.schema import KINDS
from taciturn.introspection import Covariance, Health, Neighbor


def reference(name: str) -> dict[str, Any]:
    """A reference to the schema of this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_with(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of an object with these properties."""
    return {"type": "object", "properties": required | optional, "required": list(required)}


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


NULL, INTEGER, NUMBER, TEXT, BOOLEAN = ({"type": kind} for kind in ("null", "integer", "number", "string", "boolean"))
NUMBER_OR_NULL, TEXT_OR_NULL = {"type": ["number", "null"]}, {"type": ["string", "null"]}
ARM, SCORES = reference("Arm"), list_of(NUMBER_OR_NULL)
ANYTHING = {"type": "object", "additionalProperties": True}
PLAIN: dict[Any, dict[str, Any]] = {int: INTEGER, float: NUMBER, str: TEXT, bool: BOOLEAN}


def _of_type(hint: Any) -> dict[str, Any]:
    """The schema of a field: a plain type, an arm, or such a type or None."""
    if hint in PLAIN:
        return PLAIN[hint]
    options = [option for option in get_args(hint) if option is not type(None)]
    if isinstance(hint, UnionType) and len(options) == 1:
        return {"type": [PLAIN[options[0]]["type"], "null"]}
    return ARM


def _of_class(kind: type, **others: Any) -> dict[str, Any]:
    """The schema of an object with the fields of a class; of `others` in place of those that are no plain types."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in others}
    return object_with({name: _of_type(hint) for name, hint in hints.items()} | others)


def _bin(predicted: str) -> dict[str, Any]:
    return object_with({predicted: NUMBER, "observed": NUMBER, "count": INTEGER})


ANSWERS: dict[str, Any] = {
    "Arm": {"description": "The name of an arm.", "type": ["string", "integer"]},
    "Decision": object_with({"id": INTEGER, "arm": ARM, "scores": SCORES, "widths": SCORES, "propensity": NUMBER}),
    "Decisions": object_with({"decisions": list_of(reference("Decision"))}),
    "Agent": object_with(
        {
            "name": TEXT,
            "kind": TEXT,
            "arms": list_of(ARM),
            "active": list_of(ARM),
            "params": ANYTHING,
            "corrections": BOOLEAN,
            "features": INTEGER,
            "kinds": {"type": "object", "additionalProperties": {"enum": list(KINDS)}},
            "columns": INTEGER,
            "scaling": {"enum": list(SCALINGS)},
        }
    ),
    "AgentName": object_with({"name": TEXT}),
    "Agents": object_with({"agents": list_of(reference("AgentName"))}),
    "Feedback": object_with(
        {"id": INTEGER, "reward": NUMBER_OR_NULL, "outcome": {"enum": ["taken", "corrected", "same"]}}
    ),
    "Neighbor": _of_class(Neighbor),
    "Explanation": object_with(
        {
            "imputed_reward": NUMBER_OR_NULL,
            "propensity": NUMBER,
            "arms": list_of(ARM),
            "scores": SCORES,
            "widths": SCORES,
            "second": _or_null(ARM),
            "supporting": list_of(reference("Neighbor")),
            "opposing": list_of(reference("Neighbor")),
            "imputed_share": NUMBER,
            "text": TEXT,
        }
    ),
    "DecisionDetails": object_with(
        {
            "id": INTEGER,
            "arm": ARM,
            "reward": NUMBER_OR_NULL,
            "state": {"enum": list(STATES)},
            "explanation": reference("Explanation"),
        },
        remembered={"type": "object", "additionalProperties": TEXT},
    ),
    "Calibration": object_with({"truths": INTEGER, "brier": NUMBER, "bins": list_of(_bin("imputed"))}),
    "AnswerRates": object_with(
        {"rate": NUMBER, "lowest": NUMBER, "highest": NUMBER, "explained": NUMBER, "bins": list_of(_bin("estimated"))}
    ),
    "Covariance": _of_class(Covariance),
    "Health": _of_class(
        Health,
        calibration=_or_null(reference("Calibration")),
        answers=_or_null(reference("AnswerRates")),
        covariance=_or_null(reference("Covariance")),
    ),
    "State": object_with({"status": TEXT}),
    "Problem": object_with({"type": TEXT, "title": TEXT, "status": INTEGER}, detail=TEXT, field=TEXT),
}
"""The schemas by name."""
