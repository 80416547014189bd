"""POST /v1/chat/completions and /v1/completions."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.server.answering import Answering
from runtime.server.chat import ChatAnswers
from runtime.server.completions import CompletionAnswers, completion_options, completion_prompts
from runtime.server.gate import routes_of
from runtime.server.replies import Reply
from runtime.server.requests import ChatRequest, CompletionRequest


def routes(answering: Answering) -> list[Route]:
    gate, settings = answering.gate, answering.settings

    async def chat(request: Request) -> Response:
        body = await gate.body(request, ChatRequest)
        async with answering.turn(request, body.model) as turn:

            def replies(prompts: list[Prompt], readers: list[Reader]) -> ChatAnswers:
                reply = Reply("chat.completion", "chatcmpl", turn.served.name, settings.version)
                return ChatAnswers(body, prompts, readers, reply)

            return await turn.converse(body, replies)

    async def completions(request: Request) -> Response:
        body = await gate.body(request, CompletionRequest)
        prompts = completion_prompts(body)
        options = completion_options(body, len(prompts), settings.max_tokens, settings.relax)
        scored = bool(body.echo) and body.logprobs is not None
        async with answering.turn(request, body.model) as turn:
            reply = Reply("text_completion", "cmpl", turn.served.name, settings.version)
            answers = CompletionAnswers(body, prompts, reply)
            return await turn.answer(body.stream, prompts, options, answers, scored=scored)

    return [
        *routes_of("/chat/completions", gate.guarded(chat)),
        *routes_of("/completions", gate.guarded(completions)),
    ]
