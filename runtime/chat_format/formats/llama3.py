"""Llama 3's format: an answer that is a JSON object is a call."""

import json
from collections.abc import Collection, Sequence

from runtime.chat_format.calls import Tool, ToolCall, call_of
from runtime.chat_format.formats.hermes import name_and_arguments
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens


class Llama3:
    name = "llama-3"
    begin = "{"
    end = ""
    parallel = False  # its templates refuse a message with several
    begins_answer = True
    joint = None

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return '"parameters": ' in source and "ipython" in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        calls = [name_and_arguments(tool, "parameters")[1:] for tool in tools]
        return [*calls, *(f'"type": "function", {call}' for call in calls)]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        return [call_of(json.loads("{" + text), "parameters")]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        calls = [
            f"{grammar.literal(name_and_arguments(tool, 'parameters')[1:])} "
            f'{grammar.json(tool.schema, tool.name)} "}}"'
            for tool in tools
        ]
        return grammar.one_of(calls)
