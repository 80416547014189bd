"""Mistral's formats: [TOOL_CALLS] and a JSON list, or behind each [TOOL_CALLS] one call."""

import json
import re
from collections.abc import Collection, Sequence

from runtime.chat_format.calls import Tool, ToolCall, call_of
from runtime.chat_format.formats.phi4 import call_list
from runtime.chat_format.grammar import Grammar

_HEADER = re.compile(r"\s*(?:\[TOOL_CALLS\])?\s*([^\[{\s]+)\s*(?:\[CALL_ID\][^\[]*)?\[ARGS\]\s*")
_JSON = json.JSONDecoder()


class MistralList:
    """The older one."""

    name = "mistral-list"
    begin = "[TOOL_CALLS]"
    end = ""
    parallel = True
    begins_answer = False

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source

    def parse(self, text: str, tools: Sequence[Tool]) -> list[ToolCall]:
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

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source and "[ARGS]" in source

    def parse(self, text: str, tools: Sequence[Tool]) -> list[ToolCall]:
        calls: list[ToolCall] = []
        at, end = 0, len(text.rstrip())
        while at < end or not calls:
            found = _HEADER.match(text, at)
            if found is None:
                raise ValueError("a call has no arguments")
            arguments, at = _JSON.raw_decode(text, found.end())
            calls.append(call_of({"name": found[1], "arguments": arguments}))
        return calls

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        calls = [
            f"{grammar.literal(tool.name + '[ARGS]')} {grammar.json(tool.schema, tool.name)}"
            for tool in tools
        ]
        call = grammar.rule(grammar.one_of(calls))
        return f"{call} ( {grammar.literal(self.begin)} {call} )*" if several else call
