"""Hermes' format, of Qwen 2.5 and 3 too: <tool_call> around JSON."""

import json
from collections.abc import Collection, Sequence

from runtime.chat_format.calls import Tool, ToolCall, call_of
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens

# What other formats have between the same marks.
_OTHERS = ("<arg_key>", "<invoke ", "<function=", "<tool_calls>")


class Hermes:
    name = "hermes"
    begin = "<tool_call>"
    end = "</tool_call>"
    parallel = True
    begins_answer = False
    joint = None

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source and not any(mark in source for mark in _OTHERS)

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [name_and_arguments(tool) for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        return [call_of(json.loads(text))]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        calls = [
            f"{grammar.literal(name_and_arguments(tool))} {grammar.json(tool.schema, tool.name)}"
            for tool in tools
        ]
        close = grammar.literal("}\n" + self.end)
        return f'"\\n" {grammar.one_of(calls)} {close}'


def name_and_arguments(tool: Tool, arguments_key: str = "arguments") -> str:
    """The beginning of a call as a JSON object, up to its arguments."""
    return f'{{"name": {json.dumps(tool.name)}, "{arguments_key}": '
