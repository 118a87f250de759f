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


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | optional, "required": list(required)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, NULL]}


NULL, INTEGER, NUMBER, TEXT = ({"type": kind} for kind in ("null", "integer", "number", "string"))
NUMBER_OR_NULL = {"type": ["number", "null"]}
ARM, SCORES = reference("Arm"), _list(NUMBER_OR_NULL)
ANYTHING = {"type": "object", "additionalProperties": True}
PLAIN: dict[Any, dict[str, Any]] = {int: INTEGER, float: NUMBER, str: TEXT, bool: {"type": "boolean"}}


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
    return _object({name: _of_type(hint) for name, hint in hints.items()} | others)


def _bin(predicted: str) -> dict[str, Any]:
    return _object({predicted: NUMBER, "observed": NUMBER, "count": INTEGER})


ANSWERS: dict[str, Any] = {
    "Arm": {"description": "The name of an arm.", "type": ["string", "integer"]},
    "Decision": _object({"id": INTEGER, "arm": ARM, "scores": SCORES, "widths": SCORES, "propensity": NUMBER}),
    "Decisions": _object({"decisions": _list(reference("Decision"))}),
    "Agent": _object(
        {
            "name": TEXT,
            "kind": TEXT,
            "arms": _list(ARM),
            "active": _list(ARM),
            "params": ANYTHING,
            "corrections": {"type": "boolean"},
            "features": INTEGER,
            "kinds": {"type": "object", "additionalProperties": {"enum": list(KINDS)}},
            "columns": INTEGER,
            "scaling": {"enum": list(SCALINGS)},
        }
    ),
    "AgentName": _object({"name": TEXT}),
    "Agents": _object({"agents": _list(reference("AgentName"))}),
    "Feedback": _object({"id": INTEGER, "reward": NUMBER_OR_NULL, "outcome": {"enum": ["taken", "corrected", "same"]}}),
    "Neighbor": _of_class(Neighbor),
    "Explanation": _object(
        {
            "imputed_reward": NUMBER_OR_NULL,
            "propensity": NUMBER,
            "arms": _list(ARM),
            "scores": SCORES,
            "widths": SCORES,
            "second": _or_null(ARM),
            "supporting": _list(reference("Neighbor")),
            "opposing": _list(reference("Neighbor")),
            "imputed_share": NUMBER,
            "text": TEXT,
        }
    ),
    "DecisionDetails": _object(
        {
            "id": INTEGER,
            "arm": ARM,
            "reward": NUMBER_OR_NULL,
            "state": {"enum": list(STATES)},
            "explanation": reference("Explanation"),
        },
        remembered={"type": "object", "additionalProperties": TEXT},
    ),
    "Calibration": _object({"truths": INTEGER, "brier": NUMBER, "bins": _list(_bin("imputed"))}),
    "AnswerRates": _object(
        {"rate": NUMBER, "lowest": NUMBER, "highest": NUMBER, "explained": NUMBER, "bins": _list(_bin("estimated"))}
    ),
    "Covariance": _of_class(Covariance),
    "Health": _of_class(
        Health,
        calibration=_or_null(reference("Calibration")),
        answers=_or_null(reference("AnswerRates")),
        covariance=_or_null(reference("Covariance")),
    ),
    "State": _object({"status": TEXT}),
    "Problem": _object({"type": TEXT, "title": TEXT, "status": INTEGER}, detail=TEXT, field=TEXT),
}
"""The schemas by name."""
