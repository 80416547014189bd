"""Gemma 4's format: call:NAME{KEY:VALUE,...}, strings between two special tokens."""

import json
import re
from collections.abc import Collection, Sequence

from runtime.chat_format.calls import Tool, ToolCall, make_call
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.schemas import with_sorted_properties
from runtime.chat_format.special_tokens import SpecialTokens

_QUOTE = '<|"|>'
_CALL = re.compile(r"\s*call:([^{\s]+)\s*(\{.*\})\s*", re.DOTALL)
_WORDS = {"None": "null", "True": "true", "False": "false"}  # templates write null so
_WORD = rf"(?<=[:,\[])\s*({'|'.join(_WORDS)})(?=\s*[,}}\]])"
_SPACE = " \t\r\n"
_KEY = rf"""(?<=[{{,])[{_SPACE}]*([^:{{}},"<\[\]\ud800-\udfff]+)(?=:)"""


class Gemma4:
    name = "gemma-4"
    begin = "<|tool_call>"
    end = "<tool_call|>"
    parallel = True
    begins_answer = False
    joint = None

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [f"call:{tool.name}{{" for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        match = _CALL.fullmatch(text)
        if match is None:
            raise ValueError("a call has no arguments")
        # Strings and keys become JSON's; all else is JSON already.
        quote = re.escape(special.written(_QUOTE))
        part = re.compile(f"{quote}(.*?){quote}|{_WORD}|{_KEY}", re.DOTALL)
        arguments = json.loads(part.sub(_as_json, match[2]))
        return [make_call(match[1], arguments)]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        calls = [
            f"{grammar.literal('call:' + tool.name)} {_arguments(grammar, tool)}" for tool in tools
        ]
        return f"{grammar.one_of(calls)} {grammar.literal(self.end)}"


def _as_json(part: re.Match[str]) -> str:
    text, word, key = part.groups()
    return (
        _WORDS[word]
        if word is not None
        else json.dumps(key.strip(_SPACE) if text is None else text)
    )


def _arguments(grammar: Grammar, tool: Tool) -> str:
    """An object, in whose strings nothing is escaped; names stand in their order, as templates
    write them."""
    schema = {**with_sorted_properties(tool.schema), "x-guidance": {"string_quote": _QUOTE}}
    return grammar.json(schema, tool.name)
