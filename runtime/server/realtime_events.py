"""What clients of OpenAI's realtime interface send to have sound transcribed while it arrives."""

import base64
import binascii
import json
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from runtime.server.errors import HttpError, not_valid
from runtime.server.fields import Fields

RATE = 24000  # OpenAI's
SAMPLE = 2  # bytes


class Format(Fields):
    type: Literal["audio/pcm"] = "audio/pcm"
    rate: Annotated[int, Field(ge=8000, le=48000)] = RATE


class Texts(Fields):
    model: str | None = None
    language: None = None
    prompt: Literal["", None] = None


class Input(Fields):
    format: Format | None = None
    transcription: Texts | None = None
    turn_detection: None = None  # texts end where it is quiet, or at a commit
    noise_reduction: None = None


class Audio(Fields):
    input: Input = Field(default_factory=Input)


class Session(Fields):
    type: Literal["transcription"] = "transcription"
    audio: Audio = Field(default_factory=Audio)
    include: Annotated[list[str], Field(max_length=0)] | None = None


class Event(Fields):
    """
    Attributes:
        event_id: which an error repeats.
        audio: of append, in base64.
        session: of update.
    """

    type: Literal[
        "session.update",
        "input_audio_buffer.append",
        "input_audio_buffer.commit",
        "input_audio_buffer.clear",
    ]
    event_id: str | None = None
    audio: str = ""
    session: Session = Field(default_factory=Session)

    def samples(self) -> bytes:
        """
        Raises:
            HttpError: they are no base64, or not whole samples.
        """
        try:
            samples = base64.b64decode(self.audio, validate=True)
        except (binascii.Error, ValueError):
            raise HttpError(400, "audio is not base64", "audio") from None
        if len(samples) % SAMPLE:
            raise HttpError(400, "audio ends within a sample of 16 bits: send whole ones", "audio")
        return samples


def read_event(text: str | None) -> Event:
    """
    Raises:
        HttpError: it is not an event that the server knows.
    """
    try:
        value: Any = json.loads(text or "")
        return Event.model_validate(value)
    except ValidationError as error:
        raise not_valid(error, value) from None
    except (ValueError, RecursionError):
        raise HttpError(400, "the event is not JSON") from None


def pieces(samples: bytes, rate: int) -> list[bytes]:
    """Cuts samples into pieces of a second."""
    size = SAMPLE * rate
    return [samples[at : at + size] for at in range(0, len(samples), size)]
