"""The paths below /api."""

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import PlainReader, Reader
from runtime.server.answering import Answering, Turn
from runtime.server.completions import completion_options
from runtime.server.errors import HttpError
from runtime.server.gate import Endpoint
from runtime.server.images import data_url
from runtime.server.interface import OLLAMA
from runtime.server.ollama.answers import ChatLines, GenerateLines, OllamaAnswers
from runtime.server.ollama.models import listed, running, shown
from runtime.server.ollama.requests import (
    Call,
    ChatBody,
    GenerateBody,
    Message,
    OllamaRequest,
    ShowRequest,
)
from runtime.server.requests import NO_LIMIT, CompletionRequest, chat_request


def routes(answering: Answering) -> list[Route]:
    gate, settings, shelf = answering.gate, answering.settings, answering.shelf

    async def loaded(
        request: Request, body: OllamaRequest, lines: ChatLines | GenerateLines
    ) -> Response:
        """Answers a request without a prompt: it loads the model, or unloads it."""
        if body.keep == 0:
            shelf.dismiss(shelf.find(body.model))
        else:
            async with answering.turn(request, body.model, keep=body.keep):
                pass
        answers = OllamaAnswers(body.model, PlainReader(), lines)
        return JSONResponse(answers.loaded("unload" if body.keep == 0 else "load"))

    def replies_of(
        body: ChatBody | GenerateBody, turn: Turn, lines: ChatLines | GenerateLines
    ) -> Callable[[list[Prompt], list[Reader]], OllamaAnswers]:
        def replies(prompts: list[Prompt], readers: list[Reader]) -> OllamaAnswers:
            scored = bool(body.logprobs)
            return OllamaAnswers(body.model, readers[0], lines, prompts, scored, turn.load_s)

        return replies

    async def chat(request: Request) -> Response:
        body = await gate.body(request, ChatBody)
        if not body.messages:
            return await loaded(request, body, ChatLines())
        tools = [tool.model_dump(exclude_none=True) for tool in body.tools or []]
        fields = {**body.fields, "messages": _messages(body.messages), "tools": tools or None}

        async with answering.turn(request, body.model, keep=body.keep) as turn:
            replies = replies_of(body, turn, ChatLines())
            return await turn.converse(chat_request(fields), replies, OLLAMA)

    async def generate(request: Request) -> Response:
        body = await gate.body(request, GenerateBody)

        if not body.prompt and not body.images:
            return await loaded(request, body, GenerateLines())
        async with answering.turn(request, body.model, keep=body.keep) as turn:
            replies = replies_of(body, turn, GenerateLines())
            if not body.raw and turn.model.template is not None:
                system = [{"role": "system", "content": body.system}] if body.system else []
                messages = [
                    *system,
                    {"role": "user", "content": _content(body.prompt, body.images)},
                ]
                chat = chat_request({**body.fields, "messages": messages})
                return await turn.converse(chat, replies, OLLAMA)
            if body.images:
                raise HttpError(400, "the model's file has no chat template: it takes no images")
            if body.system:
                raise HttpError(400, "the model's file has no chat template: it takes no system")
            plain = _plain_request(body)
            options = completion_options(plain, 1, settings.max_tokens, settings.relax)
            answers = replies([], [PlainReader()])
            return await turn.answer(plain.stream, [body.prompt], options, answers, OLLAMA)

    def told(what: Callable[[], dict[str, Any]]) -> Endpoint:
        async def tell(_request: Request) -> Response:
            return JSONResponse(what())

        return gate.guarded(tell, OLLAMA)

    def tags() -> dict[str, Any]:
        return {"models": [listed(place.served) for place in shelf.places]}

    def ps() -> dict[str, Any]:
        loaded = (place for place in shelf.places if place.model is not None)
        return {"models": [running(place) for place in loaded]}

    async def show(request: Request) -> Response:
        body = await gate.body(request, ShowRequest)
        return JSONResponse(shown(shelf.find(body.model).served))

    return [
        Route("/api/chat", gate.guarded(chat, OLLAMA), methods=["POST"]),
        Route("/api/generate", gate.guarded(generate, OLLAMA), methods=["POST"]),
        Route("/api/show", gate.guarded(show, OLLAMA), methods=["POST"]),
        Route("/api/tags", told(tags)),
        Route("/api/ps", told(ps)),
        Route("/api/version", told(lambda: {"version": settings.version})),
    ]


def _messages(messages: list[Message]) -> list[dict[str, Any]]:
    """Messages in OpenAI's form. A result without an id answers the first call before it that has
    none yet, of the function that it names if there is such a call."""
    found: list[dict[str, Any]] = []
    waiting: dict[str, str] = {}  # functions by the ids of their calls
    for message in messages:
        turn: dict[str, Any] = {
            "role": message.role,
            "content": _content(message.content, message.images),
        }
        if message.thinking:
            turn["reasoning_content"] = message.thinking
        if message.tool_calls:
            names = [
                call.id or f"call{len(found)}-{n}" for n, call in enumerate(message.tool_calls)
            ]
            functions = [call.function.name for call in message.tool_calls]
            waiting |= zip(names, functions, strict=True)
            turn["tool_calls"] = [
                {"id": name, "type": "function", "function": _function(call)}
                for name, call in zip(names, message.tool_calls, strict=True)
            ]
        if message.role == "tool":
            own = [name for name, function in waiting.items() if function == message.tool_name]
            name = message.tool_call_id or next(iter([*own, *waiting]), "call")
            waiting.pop(name, None)
            turn["tool_call_id"] = name
            if message.tool_name:
                turn["name"] = message.tool_name
        found.append(turn)
    return found


def _content(text: str | None, images: list[str] | None) -> str | list[dict[str, Any]]:
    """A text; with images before it, chat completions' parts."""
    if not images:
        return text or ""
    urls = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]
    return [*urls, {"type": "text", "text": text or ""}]


def _function(call: Call) -> dict[str, Any]:
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"name": call.function.name, "arguments": text}


def _plain_request(body: GenerateBody) -> CompletionRequest:
    """What completions need to answer the bare prompt."""
    fields = {name: value for name, value in body.fields.items() if value is not None}
    fields = {name: value for name, value in fields.items() if name not in _OF_CHATS}
    fields["logprobs"] = (body.top_logprobs or 0) if body.logprobs else None
    return CompletionRequest(**{"max_tokens": NO_LIMIT, **fields}, prompt=body.prompt)


_OF_CHATS = ("chat_template_kwargs", "reasoning_effort", "top_logprobs")
