"""The answer of POST /v1/responses: a list of items, which grow in a stream of events."""

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall
from runtime.chat_format.conversation import Prompt
from runtime.chat_format.reader import Reader
from runtime.server.errors import HttpError
from runtime.server.interface import RESPONSES
from runtime.server.model import Answer
from runtime.server.one_answer import OneAnswer
from runtime.server.replies import finish_reason, usage
from runtime.server.responses.conversation import messages_of
from runtime.server.responses.requests import ITEMS, ResponseRequest

_Json = dict[str, Any]
_Events = AsyncIterator[tuple[int, Any]]


class ResponseAnswers:
    """
    Args:
        count: returns the number of a text's tokens.
        keep: called with the response and its messages, once it is complete.
    """

    def __init__(
        self,
        request: ResponseRequest,
        prompt: Prompt,
        reader: Reader,
        count: Callable[[str], Awaitable[int]],
        keep: Callable[[_Json, list[_Json]], None],
    ) -> None:
        self._request = request
        self._prompt = prompt
        self._answer = OneAnswer(reader)
        self._count = count
        self._keep = keep
        self._number = 0
        self._output: list[_Json] = []
        self._id = _new_id("resp")
        self._created = int(time.time())

    async def whole(self, answers: Sequence[Answer], events: _Events) -> _Json:
        chunks = [chunk async for chunk in self.chunks(answers, events)]
        response: _Json = chunks[-1]["response"]
        return response

    async def chunks(self, answers: Sequence[Answer], events: _Events) -> AsyncIterator[_Json]:
        for kind in ("created", "in_progress"):
            yield self._chunk(f"response.{kind}", response=self._response("in_progress"))
        async for event in self._answer.read(events):
            for chunk in self._add(event):
                yield chunk
        stats = answers[0].stats
        is_complete = finish_reason(stats) != "length" or self._answer.stop is not None
        status = "completed" if is_complete else "incomplete"
        if not self._output:
            for chunk in self._open(Text("")):
                yield chunk
        for chunk in self._close(status):
            yield chunk
        yield await self._end(status, stats)

    def failed(self, error: HttpError) -> _Json:
        self._close("incomplete")
        response = self._response("failed")
        response["error"] = {"code": "server_error", "message": error.message}
        return self._chunk("response.failed", response=response)

    def _add(self, event: Event) -> list[_Json]:
        """Adds an event to the items; returns what a stream says of it."""
        chunks: list[_Json] = []
        if isinstance(event, ToolCall):
            return [*self._close("completed"), *self._call(event)]
        kind = "message" if isinstance(event, Text) else "reasoning"
        last = self._output[-1] if self._output else {}
        if last.get("type") != kind or last["status"] != "in_progress":
            chunks += [*self._close("completed"), *self._open(event)]
        item = self._output[-1]
        item["content"][0]["text"] += event.text
        extra: _Json = {"logprobs": []} if kind == "message" else {}
        return [*chunks, self._of_part(f"{_PARTS[kind]}.delta", delta=event.text, **extra)]

    def _open(self, event: Text | Reasoning) -> list[_Json]:
        item: _Json = {"status": "in_progress", "content": []}
        if isinstance(event, Text):
            part: _Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item |= {"id": _new_id("msg"), "type": "message", "role": "assistant"}
        else:
            part = {"type": "reasoning_text", "text": ""}
            item |= {"id": _new_id("rs"), "type": "reasoning", "summary": []}
        self._output.append(item)
        added = self._of_item("added", {**item})
        item["content"].append(part)
        return [added, self._of_part("content_part.added", part=dict(part))]

    def _close(self, status: str) -> list[_Json]:
        """Ends the item that grows, if one does."""
        item = self._output[-1] if self._output else {}
        if item.get("status") != "in_progress":
            return []
        item["status"] = status
        (part,) = item["content"]
        extra: _Json = {"logprobs": []} if item["type"] == "message" else {}
        return [
            self._of_part(f"{_PARTS[item['type']]}.done", text=part["text"], **extra),
            self._of_part("content_part.done", part=part),
            self._of_item("done", item),
        ]

    def _call(self, call: ToolCall) -> list[_Json]:
        item = {
            "id": _new_id("fc"),
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
        self._output.append(item)
        begun = {**item, "status": "in_progress", "arguments": ""}
        return [
            self._of_item("added", begun),
            self._of_call("delta", delta=call.arguments),
            self._of_call("done", arguments=call.arguments, name=call.name),
            self._of_item("done", item),
        ]

    async def _end(self, status: str, stats: _Json) -> _Json:
        response = self._response(status)
        if status == "incomplete":
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        response["usage"] = await self._usage(stats)
        response |= RESPONSES.remarks([stats], [self._prompt])
        if self._request.store is not False:
            self._keep(response, messages_of(ITEMS.validate_python(self._output)))
        return self._chunk(f"response.{status}", response=response)

    async def _usage(self, stats: _Json) -> _Json:
        counts = usage([stats], 1)
        reasoning = "".join(
            item["content"][0]["text"] for item in self._output if item["type"] == "reasoning"
        )
        cached = counts["prompt_tokens_details"]["cached_tokens"]
        return {
            "input_tokens": counts["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": counts["completion_tokens"],
            "output_tokens_details": {
                "reasoning_tokens": await self._count(reasoning) if reasoning else 0
            },
            "total_tokens": counts["total_tokens"],
        }

    def _response(self, status: str) -> _Json:
        request = self._request.model_dump(by_alias=True, exclude_none=True)
        reasoning = request.get("reasoning", {})
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": request.get("instructions"),
            "max_output_tokens": request.get("max_output_tokens"),
            "metadata": request.get("metadata", {}),
            "model": request["model"],
            "output": [dict(item) for item in self._output],
            "parallel_tool_calls": request.get("parallel_tool_calls", True),
            "previous_response_id": request.get("previous_response_id"),
            "reasoning": {"effort": reasoning.get("effort"), "summary": None},
            "store": request.get("store", True),
            "temperature": request.get("temperature", 1.0),
            "text": {"format": {"type": "text"}, **request.get("text", {})},
            "tool_choice": request.get("tool_choice", "auto"),
            "tools": request.get("tools", []),
            "top_p": request.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": None,
        }

    def _of_item(self, what: str, item: _Json) -> _Json:
        index = len(self._output) - 1
        return self._chunk(f"response.output_item.{what}", output_index=index, item=dict(item))

    def _of_part(self, kind: str, **fields: Any) -> _Json:
        place = {"output_index": len(self._output) - 1, "content_index": 0}
        item = self._output[-1]["id"]
        return self._chunk(f"response.{kind}", item_id=item, **place, **fields)

    def _of_call(self, what: str, **fields: Any) -> _Json:
        index, item = len(self._output) - 1, self._output[-1]["id"]
        kind = f"response.function_call_arguments.{what}"
        return self._chunk(kind, item_id=item, output_index=index, **fields)

    def _chunk(self, kind: str, **fields: Any) -> _Json:
        self._number += 1
        return {"type": kind, "sequence_number": self._number - 1, **fields}


_PARTS = {"message": "output_text", "reasoning": "reasoning_text"}


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"
