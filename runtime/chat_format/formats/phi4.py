"""Phi-4-mini's format: a JSON list of calls between two special tokens."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.chat_format.calls import Tool, ToolCall, call_of
from runtime.chat_format.formats.hermes import name_and_arguments
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens


class Phi4:
    name = "phi-4"
    begin = "<|tool_call|>"
    end = "<|/tool_call|>"
    parallel = True
    begins_answer = False
    joint = (", ", "]")

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return "<|tool|>" in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return ["[" + name_and_arguments(tool) for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        calls = json.loads(text)
        return [call_of(call) for call in (calls if isinstance(calls, list) else [calls])]

    def write(self, calls: Sequence[Mapping[str, Any]]) -> str:
        functions = [call["function"] for call in calls]
        return f"{self.begin}{json.dumps(functions, ensure_ascii=False)}{self.end}"

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        return f"{call_list(grammar, tools, several)} {grammar.literal(self.end)}"


def call_list(grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
    """A JSON list of calls."""
    calls = [
        f'{grammar.literal(name_and_arguments(tool))} {grammar.json(tool.schema, tool.name)} "}}"'
        for tool in tools
    ]
    call = grammar.rule(grammar.one_of(calls))
    more = f'( ", " {call} )*' if several else ""
    return f'"[" {call} {more} "]"'
