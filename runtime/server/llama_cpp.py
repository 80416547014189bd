"""llama.cpp's paths about the model: /tokenize, /detokenize and /props."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.server.answering import Answering
from runtime.server.errors import HttpError
from runtime.server.fields import Fields
from runtime.server.requests import No

_Token = Annotated[int, Field(ge=0, lt=2**31)]


class TokenizeBody(Fields):
    """
    Attributes:
        add_special: with what the tokenizer puts around a prompt, such as BOS.
        with_pieces: each token with its text.
    """

    content: str
    add_special: bool = False
    parse_special: No = False
    with_pieces: bool = False


class DetokenizeBody(Fields):
    tokens: Annotated[list[_Token], Field(max_length=1 << 20)]


def routes(answering: Answering) -> list[Route]:
    gate, model, settings = answering.gate, answering.model, answering.settings

    async def tokenize(request: Request) -> Response:
        body = await gate.body(request, TokenizeBody)
        tokens = await model.encode(body.content, body.add_special) if body.content else []
        if not body.with_pieces:
            return JSONResponse({"tokens": tokens})
        texts = await model.decode(tokens)
        pieces = zip(tokens, map(_piece, texts), strict=True)
        return JSONResponse({"tokens": [{"id": token, "piece": text} for token, text in pieces]})

    async def detokenize(request: Request) -> Response:
        tokens = (await gate.body(request, DetokenizeBody)).tokens
        count = settings.report["model"]["vocab_size"]
        if tokens and max(tokens) >= count:
            reason = f"tokens has {max(tokens)}, but the model has tokens 0 to {count - 1}"
            raise HttpError(400, reason, "tokens")
        texts = await model.decode(tokens)
        return JSONResponse({"content": b"".join(texts).decode("utf-8", "replace")})

    async def props(_request: Request) -> Response:
        template = model.template
        context = settings.report["model"]["max_context_len"]
        return JSONResponse(
            {
                "default_generation_settings": {"n_ctx": context},
                "total_slots": model.sequences,
                "model_alias": settings.model,
                "chat_template": "" if template is None else template.source,
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
