"""The server's description in OpenAPI 3.1."""

from collections.abc import Sequence
from typing import Any

from pydantic.json_schema import models_json_schema

from runtime.server.audio import SoundForm, TranscriptionForm
from runtime.server.embeddings import EmbeddingRequest
from runtime.server.fields import Fields
from runtime.server.llama_cpp import DetokenizeBody, TokenizeBody
from runtime.server.messages.requests import CountRequest, MessageRequest
from runtime.server.ollama.embeddings import EmbedBody, EmbeddingsBody
from runtime.server.ollama.requests import ChatBody, GenerateBody, ShowRequest
from runtime.server.requests import (
    ChatRequest,
    CompletionRequest,
    NamesModel,
    StreamOptions,
)
from runtime.server.responses.requests import ResponseRequest

_ERRORS = {
    400: "The request is not possible.",
    401: "The API key is missing or wrong.",
    404: "There is no such model.",
    408: "The body takes too long to come.",
    413: "The body is too large.",
    415: "The body is not JSON, or it is compressed.",
    429: "Too many requests are waiting.",
    500: "The model failed.",
    503: "The model is being loaded.",
    504: "The answer took too long.",
}
# Of each path that takes a body: what it does, the body, and the schemas of its answer and errors.
_POSTS: dict[str, tuple[str, type[Fields], str, str]] = {
    "/v1/chat/completions": ("Answer a conversation.", ChatRequest, "Answer", "Error"),
    "/v1/completions": ("Continue a text.", CompletionRequest, "Answer", "Error"),
    "/v1/embeddings": ("Embed texts.", EmbeddingRequest, "Object", "Error"),
    "/v1/audio/transcriptions": ("Transcribe a sound.", TranscriptionForm, "Object", "Error"),
    "/v1/audio/translations": ("Translate a sound.", SoundForm, "Object", "Error"),
    "/v1/responses": ("Answer items.", ResponseRequest, "Object", "Error"),
    "/v1/messages": ("Answer messages.", MessageRequest, "Object", "AnthropicError"),
    "/v1/messages/count_tokens": (
        "Count a conversation's tokens.",
        CountRequest,
        "Object",
        "AnthropicError",
    ),
    "/api/chat": ("Answer a conversation, as Ollama does.", ChatBody, "Object", "OllamaError"),
    "/api/generate": ("Answer a prompt, as Ollama does.", GenerateBody, "Object", "OllamaError"),
    "/api/embed": ("Embed texts, as Ollama does.", EmbedBody, "Object", "OllamaError"),
    "/api/embeddings": ("Embed a text, as Ollama did.", EmbeddingsBody, "Object", "OllamaError"),
    "/api/show": ("Describe a model, as Ollama does.", ShowRequest, "Object", "OllamaError"),
    "/tokenize": ("Tell the tokens of a text.", TokenizeBody, "Object", "Error"),
    "/detokenize": ("Tell the text of tokens.", DetokenizeBody, "Object", "Error"),
}


def description(models: Sequence[str], has_key: bool) -> dict[str, Any]:
    """Returns the description.

    Args:
        models: what clients call them.
        has_key: clients must show an API key.
    """
    bodies = list(dict.fromkeys(body for _, body, _, _ in _POSTS.values()))
    _, definitions = models_json_schema(
        [(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}"
    )
    for body in bodies:
        if issubclass(body, NamesModel):
            schema = definitions["$defs"][body.__name__]
            schema["properties"]["model"] = {"enum": list(models)}
            if len(models) == 1:  # it may be left out, or be empty
                schema["properties"]["model"]["enum"] += ["", None]
                schema["required"] = [name for name in schema["required"] if name != "model"]
    schemas = {**definitions["$defs"], **_ERROR_SCHEMAS, "Answer": _answer()}
    schemas["Object"] = {"type": "object"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Thimble",
            "version": "1",
            "description": "The interfaces of OpenAI, Anthropic, Ollama and llama.cpp. "
            "Fields without effect: "
            + ", ".join(_ignored(ChatRequest, CompletionRequest, stream_options=StreamOptions))
            + "; of fields that are not listed, those that would change the answer are refused.",
        },
        "paths": {
            **{path: {"post": _post(path)} for path in _POSTS},
            "/v1/models": {"get": _get("List the models.")},
            "/v1/models/{name}": {
                "get": _get("Describe a model.", missing=True),
                "parameters": [
                    {
                        "name": "name",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string", "minLength": 1},
                    }
                ],
            },
            "/health": {"get": _get("Tell whether the models can answer.", key=False, down=True)},
            "/metrics": {"get": _get("Count requests, for Prometheus.", "text/plain")},
            "/api/tags": {"get": _get("List the models, as Ollama does.")},
            "/api/ps": {"get": _get("List the models that are loaded, as Ollama does.")},
            "/api/version": {"get": _get("Tell the version.")},
            "/props": {
                "get": _get("Describe a model, as llama.cpp does.", missing=True),
                "parameters": [{"name": "model", "in": "query", "schema": {"enum": list(models)}}],
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}] if has_key else [],
    }


def _ignored(*bodies: type[Fields], **inside: type[Fields]) -> list[str]:
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


def _post(path: str) -> dict[str, Any]:
    summary, body, answer, error = _POSTS[path]
    content = {
        "application/json": {"schema": _reference(answer)},
        **({"text/plain": {}, "text/vtt": {}} if issubclass(body, SoundForm) else {}),
        "text/event-stream": {},
        "application/x-ndjson": {},
    }
    form = "multipart/form-data" if issubclass(body, SoundForm) else "application/json"
    request = {form: {"schema": _reference(body.__name__)}}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": request},
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{str(status): _failure(reason, error) for status, reason in _ERRORS.items()},
        },
    }


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


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


def _failure(reason: str, error: str = "Error") -> dict[str, Any]:
    return {"description": reason, "content": {"application/json": {"schema": _reference(error)}}}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


_TEXT = {"type": "string"}
_MAYBE = {"type": ["string", "null"]}
_ERROR_SCHEMAS = {
    "Error": _object(error=_object(message=_TEXT, type=_TEXT, param=_MAYBE, code=_MAYBE)),
    "AnthropicError": _object(type=_TEXT, error=_object(type=_TEXT, message=_TEXT)),
    "OllamaError": _object(error=_TEXT),
}


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
