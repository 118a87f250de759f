"""Checks of OpenAPI documents, and of answers by them."""

import schemathesis
from jsonschema import Draft202012Validator


def references(part):
    """All references in a part of the document."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    for inner in part if isinstance(part, list) else ():
        yield from references(inner)


def found(document, reference):
    root, *names = reference.split("/")
    assert root == "#"
    for name in names:
        document = document[name]
    return document


def check_document(document):
    """It is valid, every reference leads to a part, every schema is used, and operations have names of their own."""
    schemathesis.openapi.from_dict(document).validate()
    all_references = set(references(document))
    assert all(isinstance(found(document, reference), dict) for reference in all_references)
    assert {reference.rpartition("/")[2] for reference in all_references} == {*document["components"]["schemas"]}
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)


def closed(schema):
    """A schema that allows no other properties than those it names."""
    if isinstance(schema, dict):
        schema = {name: closed(inner) for name, inner in schema.items()}
        return schema | ({"additionalProperties": False} if "required" in schema else {})
    return [closed(inner) for inner in schema] if isinstance(schema, list) else schema


def errors(document, name, answer):
    """What of an answer is not as the schema of this name says; other properties than it names are errors too."""
    components = {"schemas": closed(document["components"]["schemas"])}
    schema = {"$ref": f"#/components/schemas/{name}", "components": components}
    return [error.message for error in Draft202012Validator(schema).iter_errors(answer)]
