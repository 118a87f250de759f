"""The service over HTTP: routes, request schemas, problems, keys, metrics and the OpenAPI document."""
