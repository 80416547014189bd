"""The bodies of POST /api/chat and /api/generate."""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, model_validator

from runtime.server.fields import Fields
from runtime.server.penalties import Penalized
from runtime.server.requests import FunctionTool, NamesModel, TopK

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_FOR_EVER = 100 * 365 * 24 * 3600.0
_DURATION = re.compile(r"(\d+(?:\.\d*)?)(ns|us|ms|s|m|h)")
_Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
_ANY_SEED = -1


class Options(Penalized):
    """How an answer is chosen, and where it ends. 5.0 is 5, as Ollama reads options."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_k: TopK | None = None
    top_p: float | None = Field(None, ge=0, le=1)
    min_p: float | None = Field(None, ge=0, le=1)
    seed: _Seed | None = None
    num_predict: int | None = Field(None, ge=-2, le=2**31 - 1, description="below 1: no limit")
    stop: str | list[str] | None = None
    repeat_penalty: float | None = Field(None, gt=0)
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    typical_p: float | None = Field(None, ge=0, le=1)
    mirostat: int | None = Field(None, ge=0, le=2)
    mirostat_tau: float | None = Field(None, ge=0, le=100)
    mirostat_eta: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in given.items()
        }

    @property
    def fields(self) -> dict[str, Any]:
        """The same in chat completions' words."""
        limit = self.num_predict
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "seed": None if self.seed == _ANY_SEED else self.seed,
            "max_tokens": limit if limit is not None and limit > 0 else None,
            "stop": self.stop or None,
            "repetition_penalty": self.repeat_penalty,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "typical_p": self.typical_p,
            "mirostat": self.mirostat,
            "mirostat_tau": self.mirostat_tau,
            "mirostat_eta": self.mirostat_eta,
        }


class CalledFunction(Fields):
    name: str
    arguments: dict[str, Any] | str | None = None
    index: int | None = Field(None, description="no effect")


class Call(Fields):
    id: str | None = None
    type: str | None = Field(None, description="no effect")
    function: CalledFunction


class Message(Fields):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = Field(None, description="files in base64")
    tool_calls: list[Call] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


def seconds_of(duration: float | str | None) -> float | None:
    """Seconds of a number or of texts such as 5m and 1h30m; below 0, or above what a date can
    have, is for ever; None: neither."""
    if isinstance(duration, str):
        text = duration.removeprefix("-")
        parts = _DURATION.findall(text)
        if "".join(number + unit for number, unit in parts) == text != "":
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        elif re.fullmatch(r"\d+(\.\d*)?", text):
            seconds = float(text)
        else:
            return None
        duration = -seconds if text != duration else seconds
    if duration is None or math.isnan(duration):
        return None
    return duration if 0 <= duration < _FOR_EVER else math.inf


class ShowRequest(NamesModel):
    """The body of /api/show: clients of before 2025 name the model by `name`."""

    model: str = Field(validation_alias=AliasChoices("model", "name"))


class OllamaRequest(NamesModel):
    """What both bodies have."""

    stream: bool | None = Field(None, description="true, unless it is given")
    format: Literal["", "json"] | dict[str, Any] | None = None
    options: Options | None = None
    think: bool | Literal["low", "medium", "high"] | None = None
    keep_alive: float | str | None = Field(
        None, description="seconds, or such as 5m: how long the model stays; 0: not at all"
    )

    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20, description="no effect without logprobs")

    @property
    def keep(self) -> float | None:
        """`keep_alive` in seconds; None: it is not given, or is none."""
        return seconds_of(self.keep_alive)

    @property
    def fields(self) -> dict[str, Any]:
        """What chat completions need of it, in their words."""
        fields = (self.options or Options.model_validate({})).fields
        fields |= {"model": self.model, "stream": self.stream is not False}
        if self.format not in (None, ""):
            schema = None if self.format == "json" else self.format
            fields["response_format"] = {"type": "json_object", "schema": schema}
        if self.logprobs:
            fields |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if isinstance(self.think, bool):
            fields["chat_template_kwargs"] = {"enable_thinking": self.think}
        elif self.think is not None:
            fields["reasoning_effort"] = self.think
        return fields


class ChatBody(OllamaRequest):
    """The body of POST /api/chat."""

    messages: list[Message] = []
    tools: list[FunctionTool] | None = None


class GenerateBody(OllamaRequest):
    """The body of POST /api/generate."""

    prompt: str = ""
    system: str | None = None
    raw: bool | None = None
    suffix: Literal[""] | None = None
    template: Literal[""] | None = None
    images: list[str] | None = Field(None, description="files in base64")
    context: Annotated[list[int], Field(max_length=0)] | None = None

    @model_validator(mode="after")
    def _raw_is_plain(self) -> "GenerateBody":
        if self.raw and self.system:
            raise ValueError("raw takes no system: the prompt is all that is read")
        if self.raw and self.images:
            raise ValueError("raw takes no images: the template has their places")
        return self
