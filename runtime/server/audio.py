"""POST /v1/audio/transcriptions and /v1/audio/translations, of models that hear."""

import math
from collections.abc import AsyncIterator, Set
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from runtime.server.answering import Answering
from runtime.server.errors import HttpError
from runtime.server.gate import routes_of
from runtime.server.hearing_process import Heard
from runtime.server.model_process import More
from runtime.server.requests import NamesModel
from runtime.subtitles import subtitles
from runtime.transcriber import Segment

_TIMED = ("verbose_json", "srt", "vtt")  # forms that have times
_FRAMES = 100  # of a second, in which `seek` counts


def _number(value: Any) -> Any:
    """A form's number, which is text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _truth(value: Any) -> Any:
    return {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower(), value)


class SoundForm(NamesModel):
    """A sound to transcribe, as the field `file`, and how."""

    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] | None = None
    prompt: str | None = None
    temperature: Annotated[float, BeforeValidator(_number), Field(ge=0, le=1)] | None = None


class TranscriptionForm(SoundForm):
    language: str | None = None
    stream: Annotated[bool, BeforeValidator(_truth)] | None = None
    timestamp_granularities: list[Literal["segment", "word"]] | None = None
    chunking_strategy: Literal["auto"] | None = Field(
        None, description="a long sound is always cut where it is quiet, or a part of it ends"
    )


def routes(answering: Answering) -> list[Route]:
    gate, settings = answering.gate, answering.settings

    async def transcriptions(request: Request) -> Response:
        body, sound = await gate.form(request, TranscriptionForm)
        parts = set(body.timestamp_granularities or ())
        if parts and body.response_format != "verbose_json":
            raise HttpError(
                400,
                "timestamp_granularities needs response_format verbose_json: leave it out",
                "timestamp_granularities",
            )
        stream = bool(body.stream)
        return await answer(request, body, sound, "transcribe", body.language, stream, parts)

    async def translations(request: Request) -> Response:
        body, sound = await gate.form(request, SoundForm)
        return await answer(request, body, sound, "translate", None, False, set())

    async def answer(
        request: Request,
        body: SoundForm,
        sound: bytes,
        task: str,
        language: str | None,
        stream: bool,
        parts: Set[str],
    ) -> Response:
        form = body.response_format or "json"
        if stream and form not in ("json", "text"):
            raise HttpError(
                400,
                f"response_format is {form}, but a stream has json or text: leave stream out",
                "stream",
            )
        options = {
            "task": task,
            "language": language,
            "prompt": body.prompt or "",
            "temperature": body.temperature or 0.0,
            "timestamps": "word" if "word" in parts else form in _TIMED,
            "max_seconds": settings.max_sound_s,
        }

        def whole(told: list[More]) -> Response:
            heard = [part for part in told if isinstance(part, Heard)]
            return _answer(form, task, heard, parts or {"segment"})

        async with answering.turn(request, body.model, task="transcription") as turn:
            return await turn.transcribe(sound, options, whole, _events if stream else None)

    return [
        *routes_of("/audio/transcriptions", gate.guarded(transcriptions)),
        *routes_of("/audio/translations", gate.guarded(translations)),
    ]


async def _events(parts: AsyncIterator[More]) -> AsyncIterator[dict[str, Any]]:
    """OpenAI's events of a stream."""
    text, usage = "", {}
    async for part in parts:
        assert isinstance(part, Heard)
        if part.segment is None:
            usage = _usage(part.duration)
            continue
        delta = part.text if text else part.text.removeprefix(" ")
        text += delta
        yield {"type": "transcript.text.delta", "delta": delta}
    yield {"type": "transcript.text.done", "text": text, "usage": usage}


def _usage(duration: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(duration)}


def _answer(form: str, task: str, parts: list[Heard], timed: Set[str]) -> Response:
    segments = [part.segment for part in parts if part.segment is not None]
    known = parts[-1]
    text = "".join(segment.text for segment in segments).removeprefix(" ")
    if form == "text":
        return PlainTextResponse(text + "\n")
    if form == "srt":
        return PlainTextResponse(subtitles("srt", segments))
    if form == "vtt":
        return Response(subtitles("vtt", segments), media_type="text/vtt")
    usage = _usage(known.duration)
    if form == "json":
        return JSONResponse({"text": text, "usage": usage})
    verbose = {
        "task": task,
        "language": known.language,
        "duration": round(known.duration, 2),
        "text": text,
        "usage": usage,
    }
    if "segment" in timed:
        verbose["segments"] = [_verbose(*one) for one in enumerate(segments)]
    if "word" in timed:
        words = [word for segment in segments for word in segment.words]
        verbose["words"] = [
            {"word": one.text.strip(), "start": round(one.start, 2), "end": round(one.end, 2)}
            for one in words
        ]
    return JSONResponse(verbose)


def _verbose(index: int, segment: Segment) -> dict[str, Any]:
    return {
        "id": index,
        "seek": round(_FRAMES * segment.window),
        "start": round(segment.start, 2),
        "end": round(segment.end, 2),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    }
