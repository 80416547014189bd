"""The format of Qwen3-Coder and Qwen3.5: an element for each argument, its value as it is."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from runtime.chat_format.allowed import allowed_by, allows
from runtime.chat_format.calls import Tool, ToolCall, make_call
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.schemas import properties_of, schema_at, unlisted_place
from runtime.chat_format.special_tokens import SpecialTokens

_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*?)</function>\s*", re.DOTALL)
# A value may have </parameter>, but no line that is that: the grammar has none either.
_END = "\n</parameter>\n"
_ARGUMENT = re.compile(rf"\s*<parameter=([^>\n]+)>\n(.*?){_END}\s*", re.DOTALL)
_FORM = {
    "before_name": "<parameter=",
    "before_value": ">\n",
    "behind_value": _END,
    "raw_strings": True,
}
_WORDS = {"True": True, "False": False, "None": None}


class QwenXml:
    name = "qwen-xml"
    begin = "<tool_call>"
    end = "</tool_call>"
    parallel = True
    begins_answer = False
    joint = None

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return "<tool_call>" in source and "<function=" in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [f"<function={tool.name}>" for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        match = _FUNCTION.fullmatch(text)
        if match is None:
            raise ValueError("a call has no function")
        name, body = match.groups()
        root = next((tool.parameters for tool in tools if tool.name == name), {})
        schemas = {
            name: schema_at(one.places, root, one.options)
            for name, one in properties_of(root).items()
        }
        arguments, at = {}, 0
        while at < len(body.rstrip()):
            argument = _ARGUMENT.match(body, at)
            if argument is None:
                raise ValueError("an argument is not an element")
            key = argument[1]
            if key not in schemas and (place := unlisted_place(key, root)) is not None:
                schemas[key] = schema_at([place], root)
            arguments[key] = _read(argument[2], schemas.get(key))
            at = argument.end()
        return [make_call(name, arguments)]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        close = grammar.literal("</function>\n" + self.end)
        functions = []
        for tool in tools:
            begin = grammar.literal(f"\n<function={tool.name}>\n")
            arguments = grammar.arguments(tool.named_schema, _FORM, tool.name)
            functions.append(f"{begin} {arguments} {close}")
        return grammar.one_of(functions)


def _read(text: str, schema: Any) -> Any:
    """The value that a text stands for: itself if the schema lists this string, else another value
    that the schema allows, else itself."""
    allowed = allowed_by(schema, schema)
    if text in allowed.strings:
        return text
    if "null" in allowed.all_kinds and text in ("null", "None"):
        return None
    value = _value(text)
    if "string" not in allowed.all_kinds:
        return value
    may_be_text = "string" in allowed.kinds and allows(schema, text, schema)
    loses = type(value) in (int, float) and (json.dumps(value) != text or not text[-1].isdigit())
    if loses and may_be_text:
        return text  # such as 1.10 or NaN, of which JSON's number would lose something
    return text if allowed.all_kinds == {"string"} or not allows(schema, value, schema) else value


def _value(text: str) -> Any:
    """What JSON says, or one of Python's words, which the models' templates write; else the
    text."""
    try:
        return _WORDS[text] if text in _WORDS else json.loads(text)
    except ValueError:
        return text
