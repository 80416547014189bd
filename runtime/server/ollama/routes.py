"""The paths below /api."""

import json
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import PlainReader, Reader
from runtime.server.answering import Answering
from runtime.server.gate import Endpoint
from runtime.server.interface import OLLAMA
from runtime.server.ollama.answers import ChatLines, GenerateLines, OllamaAnswers
from runtime.server.ollama.models import listed, running, shown
from runtime.server.ollama.requests import Call, ChatBody, GenerateBody, Message, OllamaRequest
from runtime.server.requests import CompletionRequest, NamesModel, chat_request


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

    async def chat(request: Request) -> Response:
        body = await gate.body(request, ChatBody)
        if not body.messages:
            return await loaded(request, body, ChatLines())
        tools = [tool.model_dump(exclude_none=True) for tool in body.tools or []]
        fields = {**body.fields, "messages": _messages(body.messages), "tools": tools or None}

        def replies(prompts: list[Prompt], readers: list[Reader]) -> OllamaAnswers:
            return OllamaAnswers(body.model, readers[0], ChatLines(), prompts)

        async with answering.turn(request, body.model, keep=body.keep) as turn:
            return await turn.converse(chat_request(fields), replies, OLLAMA)

    async def generate(request: Request) -> Response:
        body = await gate.body(request, GenerateBody)

        def replies(prompts: list[Prompt], readers: list[Reader]) -> OllamaAnswers:
            return OllamaAnswers(body.model, readers[0], GenerateLines(), prompts)

        if not body.prompt:
            return await loaded(request, body, GenerateLines())
        async with answering.turn(request, body.model, keep=body.keep) as turn:
            if not body.raw and turn.model.template is not None:
                system = [{"role": "system", "content": body.system}] if body.system else []
                messages = [*system, {"role": "user", "content": body.prompt}]
                chat = chat_request({**body.fields, "messages": messages})
                return await turn.converse(chat, replies, OLLAMA)
            options = _plain_options(body, settings.max_tokens)
            answers = replies([], [PlainReader()])
            stream = body.stream is not False
            return await turn.answer(stream, [body.prompt], [options], answers, OLLAMA)

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
        body = await gate.body(request, NamesModel)
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
    """Messages in OpenAI's form. Results without an id answer the calls before them in turn."""
    found: list[dict[str, Any]] = []
    waiting: list[str] = []
    for message in messages:
        turn: dict[str, Any] = {"role": message.role, "content": message.content or ""}
        if message.thinking:
            turn["reasoning_content"] = message.thinking
        if message.tool_calls:
            names = [
                call.id or f"call{len(found)}-{n}" for n, call in enumerate(message.tool_calls)
            ]
            waiting += names
            turn["tool_calls"] = [
                {"id": name, "type": "function", "function": _function(call)}
                for name, call in zip(names, message.tool_calls, strict=True)
            ]
        if message.role == "tool":
            name = message.tool_call_id or (waiting[0] if waiting else "call")
            waiting = [other for other in waiting if other != name]
            turn["tool_call_id"] = name
            if message.tool_name:
                turn["name"] = message.tool_name
        found.append(turn)
    return found


def _function(call: Call) -> dict[str, Any]:
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"name": call.function.name, "arguments": text}


def _plain_options(body: GenerateBody, most_tokens: int | None) -> dict[str, Any]:
    """The options of an answer to the bare prompt."""
    fields = {name: value for name, value in body.fields.items() if value is not None}
    limits = [n for n in (fields.pop("max_tokens", None), most_tokens) if n is not None]
    fields = {name: value for name, value in fields.items() if name not in _OF_CHATS}
    options = CompletionRequest(prompt=body.prompt, **fields).options()
    return {**options, "max_new_tokens": min(limits)} if limits else options


_OF_CHATS = ("response_format", "chat_template_kwargs", "reasoning_effort", "stream")
