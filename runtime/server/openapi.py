"""The server's description in OpenAPI 3.1."""

from typing import Any

from pydantic.json_schema import models_json_schema

from runtime.server.requests import ChatRequest, CompletionRequest, StreamOptions, Strict

_ERRORS = {
    400: "The request is not possible.",
    401: "The API key is missing or wrong.",
    404: "There is no such model.",
    408: "The body takes too long to come.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    500: "The model failed.",
    503: "Too many requests are waiting, or the model is being loaded.",
    504: "The answer took too long.",
}
_SUMMARIES = {
    "/v1/chat/completions": "Answer a conversation.",
    "/v1/completions": "Continue a text.",
}


def description(model: str, has_key: bool) -> dict[str, Any]:
    """Returns the description.

    Args:
        model: what clients call it.
        has_key: clients must show an API key.
    """
    bodies = [(ChatRequest, "validation"), (CompletionRequest, "validation")]
    _, definitions = models_json_schema(bodies, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    for kind, _ in bodies:
        definitions["$defs"][kind.__name__]["properties"]["model"] = {"const": model}
    schemas = {**definitions["$defs"], "Error": _error(), "Answer": _answer()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Thimble",
            "version": "1",
            "description": "OpenAI's interface for one model. Fields without effect: "
            + ", ".join(_ignored(ChatRequest, CompletionRequest, stream_options=StreamOptions))
            + "; every field that is not listed is refused.",
        },
        "paths": {
            "/v1/chat/completions": {"post": _post("/v1/chat/completions", "ChatRequest")},
            "/v1/completions": {"post": _post("/v1/completions", "CompletionRequest")},
            "/v1/models": {"get": _get("List the model.")},
            "/v1/models/{name}": {
                "get": _get("Describe the model.", missing=True),
                "parameters": [
                    {
                        "name": "name",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string", "minLength": 1},
                    }
                ],
            },
            "/health": {"get": _get("Tell whether the model is loaded.", key=False, down=True)},
            "/metrics": {"get": _get("Count requests, for Prometheus.", "text/plain")},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}] if has_key else [],
    }


def _ignored(*bodies: type[Strict], **inside: type[Strict]) -> list[str]:
    """The fields of bodies, and of the objects inside them, that say that they have no effect."""
    kinds = [
        *(("", body) for body in bodies),
        *((f"{name}.", kind) for name, kind in inside.items()),
    ]
    names = [
        prefix + name
        for prefix, kind in kinds
        for name, field in kind.model_fields.items()
        if (field.description or "").startswith("no effect")
    ]
    return list(dict.fromkeys(names))


def _post(path: str, body: str) -> dict[str, Any]:
    answer = {
        "application/json": {"schema": {"$ref": "#/components/schemas/Answer"}},
        "text/event-stream": {},
    }
    return {
        "summary": _SUMMARIES[path],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}},
        },
        "responses": {
            "200": {"description": "The answer.", "content": answer},
            **{str(status): _failure(reason) for status, reason in _ERRORS.items()},
        },
    }


def _get(
    summary: str,
    media_type: str = "application/json",
    key: bool = True,
    missing: bool = False,
    down: bool = False,
) -> dict[str, Any]:
    schema = {"type": "object" if media_type == "application/json" else "string"}
    response: dict[str, Any] = {"description": "It.", "content": {media_type: {"schema": schema}}}
    responses = {"200": response}
    if key:
        responses["401"] = _failure(_ERRORS[401])
    if missing:
        responses["404"] = _failure(_ERRORS[404])
    if down:
        responses["503"] = {**response, "description": "The model is being loaded."}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    return operation if key else {**operation, "security": []}


def _failure(reason: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": reason, "content": {"application/json": {"schema": schema}}}


def _error() -> dict[str, Any]:
    text = {"type": "string"}
    maybe = {"type": ["string", "null"]}
    fields = {"message": text, "type": text, "param": maybe, "code": maybe}
    error = {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}


def _answer() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "object": {"enum": ["chat.completion", "text_completion"]},
            "created": {"type": "integer"},
            "model": {"type": "string"},
            "choices": {"type": "array", "items": {"type": "object"}, "minItems": 1},
            "usage": {"type": "object"},
        },
        "required": ["id", "object", "created", "model", "choices", "usage"],
    }
