"""Mistral's formats: [TOOL_CALLS] and a JSON list, or behind each [TOOL_CALLS] one call."""

import json
import re
from collections.abc import Collection, Sequence

from runtime.chat_format.calls import Tool, ToolCall, call_of
from runtime.chat_format.formats.hermes import name_and_arguments
from runtime.chat_format.formats.phi4 import call_list
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens

_HEADER = r"\s*(?:{begin})?\s*([^\[{{\s\ud800-\udfff]+)\s*(?:{id}[^{{]*?)?{arguments}\s*"
_JSON = json.JSONDecoder()


class MistralList:
    """The older one."""

    name = "mistral-list"
    begin = "[TOOL_CALLS]"
    end = ""
    parallel = True
    begins_answer = False
    joint = (", ", "]")

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return ["[" + name_and_arguments(tool) for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        calls = json.loads(text)
        if not isinstance(calls, list):
            raise ValueError("the calls are not a list")
        return [call_of(call) for call in calls]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        return f'" "? {call_list(grammar, tools, several)}'


class Mistral:
    """The newer one, of Small 3.2, Devstral and Ministral 3."""

    name = "mistral"
    begin = "[TOOL_CALLS]"
    end = ""
    parallel = True
    begins_answer = False
    joint = (begin, "")

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source and "[ARGS]" in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [tool.name + mark for tool in tools for mark in ("[ARGS]", "[CALL_ID]")]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        marks = {"begin": self.begin, "id": "[CALL_ID]", "arguments": "[ARGS]"}
        written = {name: re.escape(special.written(mark)) for name, mark in marks.items()}
        header = re.compile(_HEADER.format_map(written))
        calls: list[ToolCall] = []
        at, end = 0, len(text.rstrip())
        while at < end or not calls:
            match = header.match(text, at)
            if match is None:
                raise ValueError("a call has no arguments")
            arguments, at = _JSON.raw_decode(text, match.end())
            calls.append(call_of({"name": match[1], "arguments": arguments}))
        return calls

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        calls = [
            f"{grammar.literal(tool.name + '[ARGS]')} {grammar.json(tool.schema, tool.name)}"
            for tool in tools
        ]
        call = grammar.rule(grammar.one_of(calls))
        return f"{call} ( {grammar.literal(self.begin)} {call} )*" if several else call
