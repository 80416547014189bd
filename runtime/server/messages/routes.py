"""The paths of /v1/messages."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.server.answering import Answering
from runtime.server.chat import chat_prompts, need_template
from runtime.server.gate import routes_of
from runtime.server.images import with_images
from runtime.server.interface import ANTHROPIC
from runtime.server.messages.answers import MessageAnswers
from runtime.server.messages.conversation import chat_of
from runtime.server.messages.requests import CountRequest, MessageRequest


def routes(answering: Answering) -> list[Route]:
    gate = answering.gate

    async def create(request: Request) -> Response:
        chat = chat_of(await gate.body(request, MessageRequest))
        async with answering.turn(request, chat.model) as turn:

            def replies(prompts: list[Prompt], readers: list[Reader]) -> MessageAnswers:
                return MessageAnswers(turn.served.name, readers[0], prompts)

            return await turn.converse(chat, replies, ANTHROPIC)

    async def count_tokens(request: Request) -> Response:
        chat = chat_of(await gate.body(request, CountRequest))
        async with answering.turn(request, chat.model) as turn:
            images = await turn.images(chat, ANTHROPIC)
            template = need_template(turn.model.template)
            (prompt,) = await asyncio.to_thread(chat_prompts, chat, template)
            tokens = await turn.model.encode(with_images(prompt, images))
            return JSONResponse({"input_tokens": len(tokens)})

    return [
        *routes_of("/messages", gate.guarded(create, ANTHROPIC)),
        *routes_of("/messages/count_tokens", gate.guarded(count_tokens, ANTHROPIC)),
    ]
