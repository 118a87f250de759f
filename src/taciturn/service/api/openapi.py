"""The OpenAPI document: made of the shapes that requests are read with, and of what the routes say about themselves."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from taciturn import __version__
from taciturn.service.api.problems import TITLES
from taciturn.service.core.operations import NAME, AddArm, Ask, Create, Heard, Reward
from taciturn.service.core.session import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    "Feedbacks": _object(
        {
            "taken": {"type": "integer"},
            "refused": {
                "type": "array",
                "items": _object(
                    {
                        "id": {"type": "integer"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                    }
                ),
            },
        }
    ),
    "Look": _object(
        {
            "id": {"type": "integer"},
            "arm": ARM,
            "reward": {"type": ["number", "null"]},
            "state": {"enum": ["pending", "rewarded", "silent", "labelled"]},
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
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
PLACES: dict[str, Any] = {
    "agent": {"type": "string", "pattern": NAME.pattern},
    "id": {"type": "integer", "minimum": 0, "maximum": 2**53},
    "arm": {"type": "string", "minLength": 1, "maxLength": 200},
}


def document(endpoints: Iterable[Endpoint], limits: Limits, *, keyed: bool) -> dict[str, Any]:
    """The whole document of a service with its limits, whose routes need a key or not."""
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        path = endpoint.path.replace(":path", "")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path, keyed=keyed)
    components: dict[str, Any] = {"schemas": _requests(limits) | ANSWERS}
    if keyed:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    info = {"title": "taciturn", "version": __version__, "description": "Decisions that learn from silence."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _requests(limits: Limits) -> dict[str, Any]:
    _, found = msgspec.json.schema_components((Create, Ask, Heard, Reward, AddArm))
    ask, create = found["Ask"], found["Create"]["properties"]
    context = _context(limits.dimension)
    ask["properties"]["context"] = context
    ask["properties"]["contexts"] |= {"items": context, "maxItems": limits.batch}
    ask["oneOf"] = [{"required": ["context"]}, {"required": ["contexts"]}]
    create["kind"]["enum"] = sorted(KINDS)
    names, number = create["arms"]["anyOf"]
    create["arms"] = {"anyOf": [names | {"minItems": 2, "maxItems": limits.arms}, number | {"maximum": limits.arms}]}
    found["Rewards"] = {"type": "array", "items": _ref("Reward"), "minItems": 1, "maxItems": limits.batch}
    return found


def _context(most: int) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "number"}, "maxItems": most}
    places = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": most - 1}, "maxItems": most}
    parts = {"indices": places, "values": numbers, "size": {"type": "integer", "minimum": 1, "maximum": most}}
    return {
        "description": "An array of numbers, named features, or the entries of a sparse row that are not zero.",
        "anyOf": [
            numbers | {"minItems": 1},
            {"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1, "maxProperties": most},
            {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False},
        ],
    }


def _operation(endpoint: Endpoint, path: str, *, keyed: bool) -> dict[str, Any]:
    places = [name for name in PLACES if f"{{{name}}}" in path]
    wrong = {"500", "503"}
    operation: dict[str, Any] = {"summary": endpoint.about, "operationId": endpoint.name}
    if places:
        operation["parameters"] = [{"name": n, "in": "path", "required": True, "schema": PLACES[n]} for n in places]
        wrong |= {"404", "429"}
    if endpoint.takes is not None:
        schema = {"type": "string", "format": "binary"} if endpoint.takes == "file" else _ref(endpoint.takes)
        media = {"schema": schema} | ({} if endpoint.example is None else {"example": endpoint.example})
        operation["requestBody"] = {"required": True, "content": {endpoint.media: media}}
        wrong |= {"400", "413", "415", "422", "429"}
    if endpoint.scope is not None and keyed:
        operation["security"] = [{"key": []}]
        wrong |= {"401", "403"}
    good = {"description": endpoint.about}
    if endpoint.gives is not None:
        good["content"] = {endpoint.gives[0]: {"schema": endpoint.gives[1]}}  # type: ignore[assignment]
    wrong |= set(map(str, endpoint.refuses))
    problems = {status: {"description": "A problem.", "content": PROBLEM} for status in sorted(wrong)}
    return operation | {"responses": {str(endpoint.good): good} | problems}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def page(endpoints: Iterable[Endpoint]) -> bytes:
    """The routes and problems for people, as one page that needs nothing else."""
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
