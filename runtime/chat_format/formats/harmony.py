"""gpt-oss's format: messages with channels and recipients, each ended by a special token."""

import json
import re
from collections.abc import Collection, Sequence

from runtime.chat_format.calls import Tool, ToolCall, call_of
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens

_CALL = r"\s*(\S+?)\s*(?:{constrain})?\s*(?:json)?{message}(.*)"


class Harmony:
    name = "harmony"
    begin = "<|channel|>commentary to=functions."
    end = "<|call|>"
    parallel = False
    begins_answer = False
    joint = None

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return "<|channel|>" in source and "<|message|>" in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [f"{tool.name}<|message|>" for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        marks = {"constrain": "<|constrain|>", "message": "<|message|>"}
        written = {name: re.escape(special.written(mark)) for name, mark in marks.items()}
        match = re.fullmatch(_CALL.format_map(written), text, re.DOTALL)
        if match is None:
            raise ValueError("a call has no arguments")
        return [call_of({"name": match[1], "arguments": json.loads(match[2])})]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        header = " <|constrain|>json<|message|>"
        calls = [
            f"{grammar.literal(tool.name + header)} {grammar.json(tool.schema, tool.name)}"
            for tool in tools
        ]
        return grammar.one_of(calls)
