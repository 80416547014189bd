"""The paths of /v1/responses."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.server.answering import Answering
from runtime.server.errors import HttpError
from runtime.server.gate import routes_of
from runtime.server.interface import RESPONSES
from runtime.server.responses.answers import ResponseAnswers
from runtime.server.responses.conversation import chat_of, messages_of
from runtime.server.responses.requests import ResponseRequest
from runtime.server.responses.store import ResponseStore, Stored


def routes(answering: Answering) -> list[Route]:
    gate, store = answering.gate, ResponseStore()

    async def create(request: Request) -> Response:
        body = await gate.body(request, ResponseRequest)
        before = _continued(store, body.previous_response_id)
        messages = [*before, *messages_of(body.input)]

        def keep(response: dict[str, Any], answered: list[dict[str, Any]]) -> None:
            store.add(response, _items(body), [*messages, *answered])

        async with answering.turn(request, body.model) as turn:

            async def count(text: str) -> int:
                return len(await turn.model.encode(text))

            def replies(prompts: list[Prompt], readers: list[Reader]) -> ResponseAnswers:
                return ResponseAnswers(body, prompts[0], readers[0], count, keep)

            return await turn.converse(chat_of(body, before), replies, RESPONSES)

    def stored(request: Request) -> Stored:
        name = request.path_params["name"]
        found = store.find(name)
        if found is None:
            raise HttpError(404, f"there is no response {name!r}: it was not stored, or removed")
        return found

    async def retrieve(request: Request) -> Response:
        return JSONResponse(stored(request).response)

    async def input_items(request: Request) -> Response:
        items = stored(request).items
        ends = {"first_id": None, "last_id": None, "has_more": False}
        return JSONResponse({"object": "list", "data": items, **ends})

    async def delete(request: Request) -> Response:
        name = stored(request).response["id"]
        store.remove(name)
        return JSONResponse({"id": name, "object": "response", "deleted": True})

    return [
        *routes_of("/responses", gate.guarded(create, RESPONSES)),
        *routes_of("/responses/{name}", gate.guarded(retrieve, RESPONSES), "GET"),
        *routes_of("/responses/{name}", gate.guarded(delete, RESPONSES), "DELETE"),
        *routes_of("/responses/{name}/input_items", gate.guarded(input_items, RESPONSES), "GET"),
    ]


def _continued(store: ResponseStore, name: str | None) -> list[dict[str, Any]]:
    if name is None:
        return []
    found = store.find(name)
    if found is None:
        raise HttpError(
            400,
            f"there is no response {name!r} to continue: it was not stored, or others came after "
            "it; send the whole conversation as input",
            "previous_response_id",
            "previous_response_not_found",
        )
    return found.messages


def _items(body: ResponseRequest) -> list[dict[str, Any]]:
    if isinstance(body.input, str):
        part = {"type": "input_text", "text": body.input}
        return [{"type": "message", "role": "user", "content": [part]}]
    return [item.model_dump(exclude_none=True) for item in body.input]
