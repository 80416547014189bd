"""The format of Qwen3-Coder and Qwen3.5: an element for each argument, its value as it is."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.chat_format.calls import Tool, ToolCall, make_call
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.kinds import kinds_of

_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_WORDS = {"True": True, "False": False, "None": None}


class QwenXml:
    name = "qwen-xml"
    begin = "<tool_call>"
    end = "</tool_call>"
    parallel = True
    begins_answer = False

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return "<tool_call>" in source and "<function=" in source

    def parse(self, text: str, tools: Sequence[Tool]) -> list[ToolCall]:
        found = _FUNCTION.fullmatch(text)
        if found is None:
            raise ValueError("a call has no function")
        name, body = found.groups()
        root = next((tool.parameters for tool in tools if tool.name == name), {})
        schemas = root.get("properties", {})
        arguments, at = {}, 0
        while at < len(body.rstrip()):
            argument = _ARGUMENT.match(body, at)
            if argument is None:
                raise ValueError("an argument is not an element")
            arguments[argument[1]] = _read(argument[2], schemas.get(argument[1]), root)
            at = argument.end()
        return [make_call(name, arguments)]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        close = grammar.literal("</function>\n" + self.end)
        functions = []
        for tool in tools:
            begin = grammar.literal(f"\n<function={tool.name}>\n")
            functions.append(f"{begin} {_arguments(grammar, tool)} {close}")
        call = grammar.rule(grammar.one_of(functions))
        return f'{call} ( "\\n" {grammar.literal(self.begin)} {call} )*' if several else call


def _read(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that a text stands for: itself if the schema allows strings, else JSON, or Python's
    words, which the models' templates write."""
    kinds = kinds_of(schema, root)
    if "null" in kinds and text in ("null", "None"):
        return None
    if "string" in kinds:
        return text
    try:
        return _WORDS[text] if text in _WORDS else json.loads(text)
    except ValueError:
        return text


def _arguments(grammar: Grammar, tool: Tool) -> str:
    parts = []
    for name, schema, required in tool.arguments():
        begin = grammar.literal(f"<parameter={name}>\n")
        argument = f"( {begin} {_value(grammar, schema)} )"
        parts.append(argument if required else argument + "?")
    return " ".join(parts) or '""'


def _value(grammar: Grammar, schema: Any) -> str:
    """A value and the end of its element."""
    end = "\n</parameter>\n"
    if isinstance(schema, Mapping) and isinstance(schema.get("enum"), list):
        values = [v if isinstance(v, str) else json.dumps(v) for v in schema["enum"]]
        return f"{grammar.one_of([grammar.literal(v) for v in values])} {grammar.literal(end)}"
    kinds = kinds_of(schema, schema)
    if "string" in kinds:
        return grammar.text_until({end: '""'}, may_end=False)
    value = grammar.json(schema)
    if kinds == {"boolean"}:
        value = '( "true" | "false" | "True" | "False" )'
    return f"{value} {grammar.literal(end)}"
