"""The format of Qwen3-Coder and Qwen3.5: an element for each argument, its value as it is."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from runtime.chat_format.calls import Tool, ToolCall
from runtime.chat_format.grammar import Grammar

_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)(?:</function>)?\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)


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
        schemas = {tool.name: tool.parameters.get("properties", {}) for tool in tools}
        arguments, at = {}, 0
        while at < len(body.rstrip()):
            argument = _ARGUMENT.match(body, at)
            if argument is None:
                raise ValueError("an argument is not an element")
            arguments[argument[1]] = _read(argument[2], schemas.get(name, {}).get(argument[1]))
            at = argument.end()
        return [ToolCall(name, json.dumps(arguments, ensure_ascii=False))]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        close = grammar.literal("</function>\n" + self.end)
        functions = []
        for tool in tools:
            begin = grammar.literal(f"\n<function={tool.name}>\n")
            functions.append(f"{begin} {_arguments(grammar, tool)} {close}")
        call = grammar.rule(grammar.one_of(functions))
        return f'{call} ( "\\n" {grammar.literal(self.begin)} {call} )*' if several else call


def _read(text: str, schema: Any) -> Any:
    """The value that a text stands for: itself, or JSON if the schema allows no string."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind is None or "string" in kind:
        return text
    try:
        return json.loads(text)
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
    if isinstance(schema, dict) and "enum" in schema:
        values = [v if isinstance(v, str) else json.dumps(v) for v in schema["enum"]]
        return f"{grammar.one_of([grammar.literal(v) for v in values])} {grammar.literal(end)}"
    if schema is True or schema.get("type") == "string":
        return grammar.text_until({end: '""'}, may_end=False)
    return f"{grammar.json(schema)} {grammar.literal(end)}"
