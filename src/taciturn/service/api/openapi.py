"""The OpenAPI document, made from the schemas that requests are decoded with and from the table of routes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from taciturn import __version__
from taciturn.agents.intake import SCALINGS
from taciturn.contracts import STATES
from taciturn.features.named import MAX_DEPTH
from taciturn.features.schema import KINDS
from taciturn.service.api.problems import MEDIA_TYPE, TITLES
from taciturn.service.api.schemas import RewardBatchAnswer, RewardBody
from taciturn.service.core.contexts import MAX_EXACT, MAX_NAME, MAX_TEXT
from taciturn.service.core.operations import NAME, AddArm, Create, DecideRequest, Reward
from taciturn.service.core.session import SERVED_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from taciturn.service.api.routes import Endpoint
    from taciturn.service.core.limits import Limits

ARM = {"type": ["string", "integer"]}
SCORES = {"type": "array", "items": {"type": ["number", "null"]}}
NAMES = {"type": "array", "items": ARM}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | optional, "required": list(required)}


DECISION = _object(
    {
        "id": {"type": "integer"},
        "arm": ARM,
        "scores": SCORES,
        "widths": SCORES,
        "propensity": {"type": "number"},
    }
)
ANSWERS: dict[str, Any] = {
    "Decision": DECISION,
    "Decisions": _object({"decisions": {"type": "array", "items": DECISION}}),
    "Agent": _object(
        {
            "name": {"type": "string"},
            "kind": {"type": "string"},
            "arms": NAMES,
            "active": NAMES,
            "params": {"type": "object"},
            "corrections": {"type": "boolean"},
            "features": {"type": "integer"},
            "kinds": {"type": "object", "additionalProperties": {"enum": list(KINDS)}},
            "columns": {"type": "integer"},
            "scaling": {"enum": list(SCALINGS)},
        }
    ),
    "Agents": _object({"agents": {"type": "array", "items": _object({"name": {"type": "string"}})}}),
    "Feedback": _object(
        {
            "id": {"type": "integer"},
            "reward": {"type": ["number", "null"]},
            "outcome": {"enum": ["taken", "corrected", "same"]},
        }
    ),
    "DecisionDetails": _object(
        {
            "id": {"type": "integer"},
            "arm": ARM,
            "reward": {"type": ["number", "null"]},
            "state": {"enum": list(STATES)},
            "explanation": {"type": "object"},
        }
    ),
    "Health": _object({"decisions": {"type": "integer"}, "pending": {"type": "integer"}}),
    "State": _object({"status": {"type": "string"}}),
    "Problem": _object(
        {"type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"}},
        detail={"type": "string"},
        field={"type": "string"},
    ),
}
PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
PATH_PARAMETERS: dict[str, Any] = {
    "agent": {"type": "string", "pattern": NAME.pattern},
    "id": {"type": "integer", "minimum": 0, "maximum": MAX_EXACT},
    "arm": {"type": "string", "minLength": 1, "maxLength": 200},
}


def document(
    endpoints: Iterable[Endpoint], limits: Limits, *, keyed: bool, schemas: Mapping[str, Any]
) -> dict[str, Any]:
    """The document of a service with these limits, whose routes need a key or not; `schemas` are further ones."""
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = endpoint.path.replace(":path", "")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path, keyed=keyed)
    components: dict[str, Any] = {"schemas": _requests(limits) | ANSWERS | dict(schemas)}
    if keyed:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    info = {"title": "taciturn", "version": __version__, "description": "Decisions that learn from silence."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _requests(limits: Limits) -> dict[str, Any]:
    _, found = msgspec.json.schema_components((Create, DecideRequest, RewardBody, Reward, AddArm, RewardBatchAnswer))
    decide, create = found["DecideRequest"], found["Create"]["properties"]
    context = _context(limits.dimension)
    decide["properties"]["context"] = context
    decide["properties"]["contexts"] |= {"items": context, "maxItems": limits.batch}
    decide["oneOf"] = [{"required": ["context"]}, {"required": ["contexts"]}]
    create["kind"]["enum"] = sorted(SERVED_METHODS)
    names, number = create["arms"]["anyOf"]
    create["arms"] = {"anyOf": [names | {"minItems": 2, "maxItems": limits.arms}, number | {"maximum": limits.arms}]}
    found["ContextValue"] = _context_value(limits.dimension)
    found["Rewards"] = {"type": "array", "items": _ref("Reward"), "minItems": 1, "maxItems": limits.batch}
    return found


def _context(max_features: int) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": ["number", "null"]}, "maxItems": max_features}
    indices = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0, "maximum": max_features - 1},
        "maxItems": max_features,
    }
    parts = {"indices": indices, "values": numbers, "size": {"type": "integer", "minimum": 1, "maximum": max_features}}
    return {
        "description": "An array of numbers, named features, the non-zero entries of a sparse row, or a text. null is "
        "a missing value. A named feature is a number, a truth value, a word (a category), a text of several words, a "
        "date (2026-11-16, 2026-11-16T09:30), a list of words or of numbers, or an object of such features, "
        f"at most {MAX_DEPTH} deep.",
        "anyOf": [
            numbers | {"minItems": 1},
            {
                "type": "object",
                "additionalProperties": _ref("ContextValue"),
                "propertyNames": {"maxLength": MAX_NAME},
                "minProperties": 1,
                "maxProperties": max_features,
            },
            {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False},
            {"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
        ],
    }


def _context_value(max_features: int) -> dict[str, Any]:
    item = {"anyOf": [{"type": "string", "maxLength": MAX_NAME}, {"type": ["number", "boolean", "null"]}]}
    return {
        "description": "The value of a named feature.",
        "anyOf": [
            {"type": ["number", "boolean", "null"]},
            {"type": "string", "maxLength": MAX_TEXT},
            {"type": "array", "items": item, "maxItems": max_features},
            {"type": "object", "additionalProperties": _ref("ContextValue"), "maxProperties": max_features},
        ],
    }


def _operation(endpoint: Endpoint, path: str, *, keyed: bool) -> dict[str, Any]:
    in_path = [name for name in PATH_PARAMETERS if f"{{{name}}}" in path]
    refused = {"500", "503"}
    operation: dict[str, Any] = {"summary": endpoint.about, "operationId": endpoint.name}
    if in_path:
        operation["parameters"] = [
            {"name": n, "in": "path", "required": True, "schema": PATH_PARAMETERS[n]} for n in in_path
        ]
        refused |= {"404", "429"}
    if endpoint.takes is not None:
        schema = {"type": "string", "format": "binary"} if endpoint.takes == "file" else _ref(endpoint.takes)
        media = {"schema": schema} | ({} if endpoint.example is None else {"example": endpoint.example})
        operation["requestBody"] = {"required": True, "content": {endpoint.content_type: media}}
        refused |= {"400", "413", "415", "422", "429"}
    if endpoint.scope is not None and keyed:
        operation["security"] = [{"key": []}]
        refused |= {"401", "403"}
    good = {"description": endpoint.about}
    if endpoint.gives is not None:
        good["content"] = {endpoint.gives[0]: {"schema": endpoint.gives[1]}}  # type: ignore[assignment]
    refused |= set(map(str, endpoint.refuses))
    problems = {status: {"description": "A problem.", "content": PROBLEM} for status in sorted(refused)}
    return operation | {"responses": {str(endpoint.good): good} | problems}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def page(endpoints: Iterable[Endpoint]) -> bytes:
    """The routes and problems as one HTML page without other files."""
    rows = []
    for endpoint in endpoints:
        example = (
            "" if endpoint.example is None else msgspec.json.format(msgspec.json.encode(endpoint.example)).decode()
        )
        rows.append(
            f"<section><h2><code>{endpoint.method} {escape(endpoint.path.replace(':path', ''))}</code></h2>"
            f"<p>{escape(endpoint.about)}{f' (scope {endpoint.scope})' if endpoint.scope else ''}</p>"
            + (f"<pre>{escape(example)}</pre>" if example else "")
            + "</section>"
        )
    problems = "".join(f'<dt id="problem-{slug}">{slug}</dt><dd>{escape(title)}</dd>' for slug, title in TITLES.items())
    style = "body{font:16px/1.5 system-ui;max-width:48rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>taciturn: HTTP</title><style>{style}</style>'
        '<h1>taciturn over HTTP</h1><p>For programs: <a href="/openapi.json">openapi.json</a></p>'
        f"{''.join(rows)}<h2>Problems</h2><dl>{problems}</dl></html>"
    ).encode()
