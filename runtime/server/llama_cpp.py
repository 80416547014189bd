"""llama.cpp's paths about the model: /tokenize, /detokenize and /props."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.server.answering import Answering
from runtime.server.errors import HttpError
from runtime.server.fields import Fields
from runtime.server.model_process import Pieces

_Token = Annotated[int, Field(ge=0, lt=2**31)]


class TokenizeBody(Fields):
    """
    Attributes:
        add_special: with what the tokenizer puts around a prompt, such as BOS.
        parse_special: special tokens that are spelled in the content become these tokens; of a
            prompt they always do.
        with_pieces: each token with its text.
    """

    model: str | None = Field(None, description="may be left out if there is one alone")
    content: str
    add_special: bool = False
    parse_special: bool = False
    with_pieces: bool = False


class DetokenizeBody(Fields):
    model: str | None = Field(None, description="may be left out if there is one alone")
    tokens: Annotated[list[_Token], Field(max_length=1 << 20)]


def routes(answering: Answering) -> list[Route]:
    gate, settings = answering.gate, answering.settings

    async def tokenize(request: Request) -> Response:
        body = await gate.body(request, TokenizeBody)
        async with answering.turn(request, body.model) as turn:
            model = turn.model
            parsed = body.parse_special and not body.add_special
            text: str | Pieces = [(body.content, True)] if parsed else body.content
            tokens = await model.encode(text, body.add_special) if body.content else []
            if not body.with_pieces:
                return JSONResponse({"tokens": tokens})
            texts = await model.decode(tokens)
        pieces = zip(tokens, map(_piece, texts), strict=True)
        return JSONResponse({"tokens": [{"id": token, "piece": text} for token, text in pieces]})

    async def detokenize(request: Request) -> Response:
        body = await gate.body(request, DetokenizeBody)
        tokens = body.tokens
        async with answering.turn(request, body.model) as turn:
            count = turn.served.report["model"]["vocab_size"]
            if tokens and max(tokens) >= count:
                reason = f"tokens has {max(tokens)}, but the model has tokens 0 to {count - 1}"
                raise HttpError(400, reason, "tokens")
            texts = await turn.model.decode(tokens)
        return JSONResponse({"content": b"".join(texts).decode("utf-8", "replace")})

    async def props(request: Request) -> Response:
        served = answering.shelf.find(request.query_params.get("model")).served
        request.state.model = served
        of_tools = served.tool_template
        return JSONResponse(
            {
                "default_generation_settings": {"n_ctx": served.context},
                "total_slots": served.options.sequences,
                "model_alias": served.name,
                "chat_template": served.template or "",
                **({"chat_template_tool_use": of_tools} if of_tools else {}),
                "modalities": {"vision": served.sees, "audio": served.hearing is not None},
                **({"transcription": served.hearing} if served.hearing is not None else {}),
                "build_info": f"thimble {settings.version}",
            }
        )

    return [
        Route("/tokenize", gate.guarded(tokenize), methods=["POST"]),
        Route("/detokenize", gate.guarded(detokenize), methods=["POST"]),
        Route("/props", gate.guarded(props)),
    ]


def _piece(data: bytes) -> str | list[int]:
    """A token's text; of a part of a character its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
