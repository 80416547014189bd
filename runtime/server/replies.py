"""The objects of OpenAI's answers."""

import codecs
import math
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.binding.logprobs import TokenLogprob
from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall

_FINISH = {"length": "length", "context_full": "length", "timeout": "length"}


@dataclass(frozen=True)
class Reply:
    """What all objects of one reply have in common.

    Attributes:
        kind: `chat.completion` or `text_completion`.
        prefix: of its id.
        version: of Thimble.
    """

    kind: str
    prefix: str
    model: str
    version: str
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: secrets.token_hex(12))

    def whole(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        return {**self._head(self.kind), "choices": choices, "usage": usage}

    def chunk(
        self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.kind == "chat.completion" else self.kind
        return {**self._head(kind), "choices": choices, "usage": usage}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"{self.prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"thimble-{self.version}",
        }


def finish_reason(stats: dict[str, Any]) -> str:
    return _FINISH.get(stats["stop_reason"], "stop")


def usage(all_stats: Iterable[dict[str, Any]], answers: int) -> dict[str, Any]:
    """The tokens of a request's answers, so many to each prompt; a prompt's count once."""
    stats = list(all_stats)
    prompt = sum(s["prompt_tokens"] + s["cached_tokens"] for s in stats[::answers])
    answer = sum(s["generated_tokens"] for s in stats)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {
            "cached_tokens": sum(s["cached_tokens"] for s in stats[::answers])
        },
    }


def guessed(all_stats: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """How many tokens of the guesses from a prediction were right, and how many not."""
    stats = list(all_stats)
    drafted, accepted = (sum(s[f"{n}_tokens"] for s in stats) for n in ("drafted", "accepted"))
    return {
        "completion_tokens_details": {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": drafted - accepted,
        }
    }


@dataclass
class ChatChoice:
    """One answer of a chat, as it grows.

    Attributes:
        older: it tells its call as OpenAI did before there were tools.
        stopped: whether a stop text ended it.
    """

    index: int
    older: bool = False
    stopped: bool = False
    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, event: Event) -> dict[str, Any]:
        """Adds an event; returns it as a delta."""
        match event:
            case Text(text):
                self.text += text
                return {"content": text}
            case Reasoning(text):
                self.reasoning += text
                return {"reasoning_content": text}
            case ToolCall(name, arguments, identity):
                function = {"name": name, "arguments": arguments}
                call = {"id": identity, "type": "function", "function": function}
                self.calls.append(call)
                if self.older:
                    return {"function_call": function}
                return {"tool_calls": [{"index": len(self.calls) - 1, **call}]}

    def finish_reason(self, stats: dict[str, Any]) -> str:
        reason = "stop" if self.stopped else finish_reason(stats)
        of_call = "function_call" if self.older else "tool_calls"
        return of_call if self.calls and reason == "stop" else reason

    def whole(self, stats: dict[str, Any], with_logprobs: bool) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text, "refusal": None}
        if self.calls:
            called = {"function_call": self.calls[0]["function"]} if self.older else {}
            message |= called or {"tool_calls": self.calls}
            message["content"] = self.text or None
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        return {
            "index": self.index,
            "message": message,
            "logprobs": {"content": self.logprobs, "refusal": None} if with_logprobs else None,
            "finish_reason": self.finish_reason(stats),
        }


def chat_logprobs(entries: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
    return [
        {
            **_token(entry.data, entry.logprob),
            "top_logprobs": [_token(data, logprob) for _, data, logprob in entry.top],
        }
        for entry in entries
    ]


def _token(data: bytes, logprob: float) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    return {"token": text, "logprob": finite(logprob), "bytes": list(data)}


def finite(logprob: float) -> float:
    """A logarithm that JSON has a number for: OpenAI's stand-in for a probability of zero."""
    return max(logprob, -9999.0)


def _name(data: bytes) -> str:
    """A token's text; of a part of a character OpenAI's name, which no other has."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


class Offsets:
    """Where the tokens of a text begin, in characters; one inside a character, where that does."""

    def __init__(self, unseen: int = 0) -> None:
        """unseen: characters of the first tokens that the text does not have."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._length = -unseen

    def next(self, data: bytes) -> int:
        """Returns where a token of these bytes begins, behind those before."""
        begin = self._length
        self._length += len(self._decoder.decode(data))
        return max(begin, 0)


def completion_logprobs(entries: Sequence[TokenLogprob], offsets: Offsets) -> dict[str, Any]:
    """The log-probabilities of tokens that go on where the last ones ended; one that follows
    nothing has none."""
    columns: dict[str, list[Any]] = {
        "tokens": [],
        "token_logprobs": [],
        "top_logprobs": [],
        "text_offset": [],
    }
    for entry in entries:
        text = _name(entry.data)
        follows = not math.isnan(entry.logprob)
        # Of two tokens with one text, the likelier counts.
        top = {_name(data): finite(p) for _, data, p in reversed(entry.top)}
        columns["tokens"].append(text)
        columns["token_logprobs"].append(finite(entry.logprob) if follows else None)
        columns["top_logprobs"].append(top if follows else None)
        columns["text_offset"].append(offsets.next(entry.data))
    return columns
