"""The answer of POST /v1/messages: blocks, which grow in a stream of events."""

import json
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any

from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall
from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.server.errors import HttpError
from runtime.server.interface import ANTHROPIC
from runtime.server.model import Answer
from runtime.server.one_answer import OneAnswer

_Json = dict[str, Any]
_Events = AsyncIterator[tuple[int, Any]]
_REASONS = {
    "length": "max_tokens",
    "context_full": "model_context_window_exceeded",
    "timeout": "max_tokens",
}


class MessageAnswers:
    def __init__(self, model: str, reader: Reader, prompts: Sequence[Prompt] = ()) -> None:
        self._answer = OneAnswer(reader)
        self._prompts = prompts
        self._blocks: list[_Json] = []
        self._grows = False  # the last block
        self._id = f"msg_{secrets.token_hex(12)}"
        self._model = model

    async def whole(self, answers: Sequence[Answer], events: _Events) -> _Json:
        async for event in self._answer.read(events):
            self._add(event)
        stats = answers[0].stats
        message = self._message(self._end(stats), _usage(stats))
        return {**message, **ANTHROPIC.remarks([stats], self._prompts)}

    async def chunks(self, answers: Sequence[Answer], events: _Events) -> AsyncIterator[_Json]:
        begun = {"input_tokens": 0, "output_tokens": 0}
        nothing = {"stop_reason": None, "stop_sequence": None}
        yield {"type": "message_start", "message": self._message(nothing, begun)}
        async for event in self._answer.read(events):
            for chunk in self._add(event):
                yield chunk
        for chunk in self._close():
            yield chunk
        stats = answers[0].stats
        ended = {"type": "message_delta", "delta": self._end(stats), "usage": _usage(stats)}
        yield {**ended, **ANTHROPIC.remarks([stats], self._prompts)}
        yield {"type": "message_stop"}

    def failed(self, error: HttpError) -> _Json:
        return ANTHROPIC.error(error)

    def _add(self, event: Event) -> list[_Json]:
        """Adds an event to the blocks; returns what a stream says of it."""
        match event:
            case Text(text):
                begun = self._begin({"type": "text", "text": ""})
                self._blocks[-1]["text"] += text
                return [*begun, self._delta({"type": "text_delta", "text": text})]
            case Reasoning(text):
                begun = self._begin({"type": "thinking", "thinking": "", "signature": ""})
                self._blocks[-1]["thinking"] += text
                return [*begun, self._delta({"type": "thinking_delta", "thinking": text})]
            case ToolCall(name, arguments, identity):
                block = {"type": "tool_use", "id": identity, "name": name, "input": {}}
                begun = self._begin(block)
                self._blocks[-1]["input"] = json.loads(arguments)
                delta = {"type": "input_json_delta", "partial_json": arguments}
                return [*begun, self._delta(delta), *self._close()]

    def _begin(self, block: _Json) -> list[_Json]:
        """Begins a block, unless the last one grows and is of its type."""
        if self._grows and self._blocks[-1]["type"] == block["type"]:
            return []
        closed = self._close()
        self._blocks.append(dict(block))
        self._grows = True
        index = len(self._blocks) - 1
        return [*closed, {"type": "content_block_start", "index": index, "content_block": block}]

    def _close(self) -> list[_Json]:
        if not self._grows:
            return []
        self._grows = False
        return [{"type": "content_block_stop", "index": len(self._blocks) - 1}]

    def _delta(self, delta: _Json) -> _Json:
        return {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}

    def _end(self, stats: _Json) -> _Json:
        """Why the answer has ended."""
        stop = self._answer.stop
        reason = _REASONS.get(stats["stop_reason"], "end_turn")
        if stop is not None:
            reason = "stop_sequence"
        elif reason == "end_turn" and any(block["type"] == "tool_use" for block in self._blocks):
            reason = "tool_use"
        return {"stop_reason": reason, "stop_sequence": stop}

    def _message(self, end: _Json, usage: _Json) -> _Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": list(self._blocks),
            **end,
            "usage": usage,
        }


def _usage(stats: _Json) -> _Json:
    """Tokens: those of a prompt that were computed before are counted apart."""
    return {
        "input_tokens": stats["prompt_tokens"],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": stats["cached_tokens"],
        "output_tokens": stats["generated_tokens"],
    }
