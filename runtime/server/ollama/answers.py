"""The answer of POST /api/chat and /api/generate: objects, a line each."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall
from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.server.errors import HttpError
from runtime.server.interface import OLLAMA
from runtime.server.model import Answer
from runtime.server.one_answer import OneAnswer
from runtime.server.replies import chat_logprobs, finish_reason

_Json = dict[str, Any]
_Events = AsyncIterator[tuple[int, Any]]
_NANOSECONDS = 10**9


class ChatLines:
    """Of /api/chat: each object has a message."""

    def empty(self) -> _Json:
        return {"message": {"role": "assistant", "content": ""}}

    def of(self, event: Event) -> _Json:
        message: _Json = {"role": "assistant", "content": ""}
        match event:
            case Text(text):
                message["content"] = text
            case Reasoning(text):
                message["thinking"] = text
            case ToolCall(name, arguments, identity):
                function = {"name": name, "arguments": json.loads(arguments)}
                message["tool_calls"] = [{"id": identity, "function": function}]
        return {"message": message}


class GenerateLines:
    """Of /api/generate: each object has a text."""

    def empty(self) -> _Json:
        return {"response": ""}

    def of(self, event: Event) -> _Json:
        match event:
            case Text(text):
                return {"response": text}
            case Reasoning(text):
                return {"response": "", "thinking": text}
            case ToolCall():
                raise AssertionError("no functions were given")


class OllamaAnswers:
    def __init__(
        self,
        model: str,
        reader: Reader,
        lines: ChatLines | GenerateLines,
        prompts: Sequence[Prompt] = (),
        is_scored: bool = False,
        load_s: float = 0.0,
    ) -> None:
        """
        Args:
            load_s: seconds until the model was loaded.
        """
        self._model = model
        self._prompts = prompts
        self._answer = OneAnswer(reader, is_scored)
        self._lines = lines
        self._load_s = load_s
        self._began = time.monotonic() - load_s

    async def whole(self, answers: Sequence[Answer], events: _Events) -> _Json:
        joined = self._lines.empty()
        async for event in self._answer.read(events):
            _join(joined, self._lines.of(event))
        return {**self.head(), **joined, **self._logprobs(), **self._end(answers[0].stats)}

    async def chunks(self, answers: Sequence[Answer], events: _Events) -> AsyncIterator[_Json]:
        async for event in self._answer.read(events):
            yield {**self.head(), **self._lines.of(event), **self._logprobs(), "done": False}
        end = self._end(answers[0].stats)
        yield {**self.head(), **self._lines.empty(), **self._logprobs(), **end}

    def failed(self, error: HttpError) -> _Json:
        return OLLAMA.error(error)

    def head(self) -> _Json:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {"model": self._model, "created_at": now}

    def loaded(self, reason: str) -> _Json:
        """The answer to a request without a prompt, which asks for the model alone.

        Args:
            reason: "load" or "unload".
        """
        return {**self.head(), **self._lines.empty(), "done": True, "done_reason": reason}

    def _logprobs(self) -> _Json:
        entries = chat_logprobs(self._answer.take_logprobs())
        return {"logprobs": entries} if entries else {}

    def _end(self, stats: _Json) -> _Json:
        reason = "stop" if self._answer.stop is not None else finish_reason(stats)
        return {
            "done": True,
            "done_reason": reason,
            "total_duration": int((time.monotonic() - self._began) * _NANOSECONDS),
            "load_duration": int(self._load_s * _NANOSECONDS),
            "prompt_eval_count": stats["prompt_tokens"] + stats["cached_tokens"],
            "prompt_eval_duration": int(stats["ttft_s"] * _NANOSECONDS),
            "eval_count": stats["generated_tokens"],
            "eval_duration": int(stats["decode_s"] * _NANOSECONDS),
            **OLLAMA.remarks([stats], self._prompts),
        }


def _join(whole: _Json, part: _Json) -> None:
    """Adds to texts and lists what a further object has of them."""
    for name, value in part.items():
        if isinstance(value, dict):
            _join(whole[name], value)
        elif name == "role" or name not in whole:
            whole[name] = value
        else:
            whole[name] += value
