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

    def parse(self, text: str) -> list[ToolCall]:
        found = _FUNCTION.fullmatch(text)
        if found is None:
            raise ValueError("a call has no function")
        name, body = found.groups()
        arguments, at = {}, 0
        while at < len(body.rstrip()):
            argument = _ARGUMENT.match(body, at)
            if argument is None:
                raise ValueError("an argument is not an element")
            arguments[argument[1]] = argument[2]
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


def _arguments(grammar: Grammar, tool: Tool) -> str:
    required = tool.schema.get("required", ())
    parts = []
    for name, schema in tool.schema.get("properties", {}).items():
        begin = grammar.literal(f"<parameter={name}>\n")
        argument = f"( {begin} {_value(grammar, tool, schema)} )"
        parts.append(argument if name in required else argument + "?")
    return " ".join(parts) or '""'


def _value(grammar: Grammar, tool: Tool, schema: Any) -> str:
    """A value and the end of its element."""
    end = "\n</parameter>\n"
    if is_plain_text(schema):
        return grammar.text_until({end: '""'}, may_end=False)
    if isinstance(schema, dict) and "enum" in schema:
        values = [v if isinstance(v, str) else json.dumps(v) for v in schema["enum"]]
        return f"{grammar.one_of([grammar.literal(v) for v in values])} {grammar.literal(end)}"
    definitions = {key: tool.schema[key] for key in ("$defs", "definitions") if key in tool.schema}
    whole = {**definitions, **schema} if isinstance(schema, dict) else schema
    return f"{grammar.json(whole)} {grammar.literal(end)}"


def is_plain_text(schema: Any) -> bool:
    """Whether a schema describes any string."""
    return isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema
