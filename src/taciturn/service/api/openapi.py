"""The OpenAPI document, made from the schemas that requests are decoded with and from the table of routes."""

from __future__ import annotations

from html import escape
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import msgspec

from taciturn import __version__
from taciturn.features.named import MAX_DEPTH
from taciturn.service.api.answer_schemas import ANSWERS, TEXT, reference
from taciturn.service.api.problems import MEDIA_TYPE, TITLES
from taciturn.service.api.schemas import RewardBatchAnswer, RewardBody
from taciturn.service.core.contexts import MAX_EXACT, MAX_NAME, MAX_TEXT
from taciturn.service.core.operations import NAME, AddArm, Create, DecideRequest, Reward
from taciturn.service.core.session import SERVED_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from taciturn.service.api.routes import Operation
    from taciturn.service.core.limits import Limits

PROBLEM = {"description": "A problem.", "content": {MEDIA_TYPE: {"schema": reference("Problem")}}}
PATH_PARAMETERS: dict[str, Any] = {
    "agent": {"type": "string", "pattern": NAME.pattern},
    "id": {"type": "integer", "minimum": 0, "maximum": MAX_EXACT},
    "arm": {"type": "string", "minLength": 1, "maxLength": 200},
}


def document(
    operations: Iterable[Operation], limits: Limits, *, keyed: bool, schemas: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The document of a service with these limits, whose routes need a key or not; `schemas` are further ones."""
    paths: dict[str, Any] = {}
    for operation in operations:
        path = operation.path.replace(":path", "")
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, path, keyed=keyed)
    components: dict[str, Any] = {
        "schemas": _requests(limits) | ANSWERS | dict(schemas or {}),
        "responses": {"Problem": PROBLEM},
    }
    if keyed:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    info = {"title": "taciturn", "version": __version__, "description": "Decisions that learn from silence."}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _requests(limits: Limits) -> dict[str, Any]:
    kinds = (Create, DecideRequest, RewardBody, Reward, AddArm, RewardBatchAnswer)
    _, found = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for schema in found.values():  # from docstrings, whose indentation Python 3.13 takes away and earlier ones keep
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    create = found["Create"]["properties"]
    create["kind"]["enum"] = sorted(SERVED_METHODS)
    create["params"]["additionalProperties"] = True
    names, number = create["arms"]["anyOf"]
    create["arms"] = {"anyOf": [names | {"minItems": 2, "maxItems": limits.arms}, number | {"maximum": limits.arms}]}
    found |= _decide_requests(found["DecideRequest"], limits)
    found["Context"], found["ContextValue"] = _context(limits.dimension), _context_value(limits.dimension)
    found["Rewards"] = {"type": "array", "items": reference("Reward"), "minItems": 1, "maxItems": limits.batch}
    return found


def _decide_requests(both: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """A request to decide as one of two: generated code then has a type for each, without fields of the other."""
    (neighbors, null), shared = both["properties"]["neighbors"]["anyOf"], dict(both["properties"])
    id, ids, none = neighbors["items"]["anyOf"]
    context, contexts = reference("Context"), shared["contexts"] | {"items": reference("Context")}
    contexts["maxItems"] = limits.batch
    own = {
        "DecideOne": ("context", context, id, "A context to decide on."),
        "DecideSeveral": ("contexts", contexts, {"anyOf": [ids, none]}, "Contexts to decide on, in this order."),
    }
    found: dict[str, Any] = {"DecideRequest": {"oneOf": [reference(name) for name in own]}}
    for name, (field, schema, near, about) in own.items():
        properties = {key: value for key, value in shared.items() if key not in {"context", "contexts"}}
        properties["neighbors"] = {"anyOf": [neighbors | {"items": near}, null], "default": None}
        found[name] = both | {"title": name, "description": about}
        found[name] |= {"properties": {field: schema} | properties, "required": [field]}
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
                "additionalProperties": reference("ContextValue"),
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
            {"type": "object", "additionalProperties": reference("ContextValue"), "maxProperties": max_features},
        ],
    }


def _described(endpoint: Operation, path: str, *, keyed: bool) -> dict[str, Any]:
    in_path = [name for name in PATH_PARAMETERS if f"{{{name}}}" in path]
    refused = {"500", "503"}
    operation: dict[str, Any] = {"summary": endpoint.about, "operationId": endpoint.name}
    parameters = [{"name": n, "in": "path", "required": True, "schema": PATH_PARAMETERS[n]} for n in in_path]
    parameters += [
        {"name": n, "in": "header", "description": about, "schema": TEXT} for n, about in endpoint.reads.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if in_path:
        refused |= {"404", "429"}
    if endpoint.takes is not None:
        schema = {"type": "string", "format": "binary"} if endpoint.takes == "file" else reference(endpoint.takes)
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
    problems = {status: {"$ref": "#/components/responses/Problem"} for status in sorted(refused)}
    return operation | {"responses": {str(endpoint.good): good} | problems | dict(endpoint.answers)}


def page(operations: Iterable[Operation]) -> bytes:
    """The routes and problems as one HTML page without other files."""
    rows = []
    for endpoint in operations:
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
