"""Gemma 4's format: call:NAME{KEY:VALUE,...}, strings between two special tokens."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.chat_format.calls import Tool, ToolCall, make_call
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.special_tokens import SpecialTokens

_QUOTE = '<|"|>'
_CALL = re.compile(r"\s*call:([^{\s]+)\s*(\{.*\})\s*", re.DOTALL)
_KEY = r"""(?<=[{,])\s*([^\s:{},"<\[\]\ud800-\udfff][^:{},"<\[\]\ud800-\udfff]*)(?=:)"""


class Gemma4:
    name = "gemma-4"
    begin = "<|tool_call>"
    end = "<tool_call|>"
    parallel = True
    begins_answer = False

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return self.begin in source

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [f"call:{tool.name}{{" for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        found = _CALL.fullmatch(text)
        if found is None:
            raise ValueError("a call has no arguments")
        # Strings and keys become JSON's; all else is JSON already.
        quote = re.escape(special.written(_QUOTE))
        part = re.compile(f"{quote}(.*?){quote}|{_KEY}", re.DOTALL)
        as_json = part.sub(lambda m: json.dumps(m[2].strip() if m[1] is None else m[1]), found[2])
        arguments = json.loads(as_json)
        return [make_call(found[1], arguments)]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        values = _Values(grammar)
        calls = [
            f"{grammar.literal('call:' + tool.name)} {values.of(tool.schema, tool.name)}"
            for tool in tools
        ]
        call = grammar.rule(f"{grammar.one_of(calls)} {grammar.literal(self.end)}")
        return f"{call} ( {grammar.literal(self.begin)} {call} )*" if several else call


class _Values:
    """Expressions of values, by their schemas."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        text = grammar.text_until({_QUOTE: '""'}, may_end=False)
        self._string = grammar.rule(f"{grammar.literal(_QUOTE)} {text}")
        plain = grammar.json({"type": ["number", "boolean", "null"]}, "a-plain-value")
        items = '( any-value ( "," any-value )* )?'
        member = '[A-Za-z_] [A-Za-z0-9_.\\-]* ":" any-value'
        members = f'( {member} ( "," {member} )* )?'
        grammar.define("any-object", f'"{{" {members} "}}"')
        grammar.define("any-value", f'{self._string} | {plain} | "[" {items} "]" | any-object')

    def of(self, schema: Any, place: str) -> str:
        if not isinstance(schema, Mapping):
            return "any-value"
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            return self._grammar.one_of([self._constant(value) for value in values])
        match schema.get("type"):
            case "string":
                return self._string
            case "integer" | "number" | "boolean" | "null":
                return self._grammar.json(schema, place)
            case "array":
                item = self._grammar.rule(self.of(schema.get("items"), f"{place}-items"))
                return f'"[" ( {item} ( "," {item} )* )? "]"'
            case "object":
                return self._members(schema, place) if _has_members(schema) else "any-object"
        return "any-value"

    def _members(self, schema: Mapping[str, Any], place: str) -> str:
        """An object's members in the order of their names, with commas between them."""
        required = schema.get("required", ())
        later, first = '""', '""'  # what may follow a member, and what may come first
        for name, value in sorted(schema["properties"].items(), reverse=True):
            after = self._grammar.rule(
                f"{self._grammar.literal(name + ':')} {self.of(value, f'{place}-{name}')} {later}"
            )
            optional = name not in required
            later = self._grammar.rule(f'"," {after}' + (f" | {later}" if optional else ""))
            first = self._grammar.rule(after + (f" | {first}" if optional else ""))
        return f'"{{" {first} "}}"'

    def _constant(self, value: Any) -> str:
        text = _QUOTE + value + _QUOTE if isinstance(value, str) else json.dumps(value)
        return self._grammar.literal(text)


def _has_members(schema: Mapping[str, Any]) -> bool:
    properties, required = schema.get("properties"), schema.get("required", [])
    return isinstance(properties, Mapping) and bool(properties) and isinstance(required, list)
