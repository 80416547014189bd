"""LFM2's format: a Python list of calls between two special tokens."""

import ast
import json
from collections.abc import Collection, Sequence
from typing import Any

from runtime.chat_format.calls import Tool, ToolCall
from runtime.chat_format.grammar import Grammar

_JSON_NAMES = {"true": True, "false": False, "null": None}


class Lfm2:
    name = "lfm2"
    begin = "<|tool_call_start|>"
    end = "<|tool_call_end|>"
    parallel = True
    begins_answer = False

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return (
            "<|tool_list_start|>" in source
            or self.begin in source
            or (self.begin in special_tokens and "List of tools: " in source)
        )

    def parse(self, text: str, tools: Sequence[Tool]) -> list[ToolCall]:
        try:
            calls = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)) from None
        return [_call(call) for call in (calls.elts if isinstance(calls, ast.List) else [calls])]

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        functions = []
        for tool in tools:
            begin = grammar.literal(tool.name + "(")
            functions.append(f'{begin} {_arguments(grammar, tool)} ")"')
        call = grammar.rule(grammar.one_of(functions))
        more = f'( ", " {call} )*' if several else ""
        return f'"[" {call} {more} "]" {grammar.literal(self.end)}'


def _call(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("a call has no names for its arguments")
    arguments = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
    return ToolCall(ast.unparse(node.func), json.dumps(arguments, ensure_ascii=False))


def _value(node: ast.expr) -> Any:
    """A literal of Python, or of JSON."""
    match node:
        case ast.Name(id=name) if name in _JSON_NAMES:
            return _JSON_NAMES[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_value(k)): _value(v) for k, v in zip(keys, values, strict=True) if k}
    value = ast.literal_eval(node)
    json.dumps(value)  # a TypeError for bytes, complex numbers and sets
    return value


def _arguments(grammar: Grammar, tool: Tool) -> str:
    """Arguments by name, required or not, in the schema's order, with commas between them."""
    later, alone = '""', '""'  # what may follow an argument, and what follows none
    for name, schema, required in reversed(tool.arguments()):
        argument = f"{grammar.literal(name + '=')} {_literal(grammar, schema)}"
        after = grammar.rule(f"{argument} {later}")
        later = grammar.rule(f'", " {after}' + ("" if required else f" | {later}"))
        alone = grammar.rule(after if required else f"{after} | {alone}")
    return alone


def _literal(grammar: Grammar, schema: Any) -> str:
    """JSON, but Python's words for true and false."""
    if isinstance(schema, dict) and schema.get("type") == "boolean":
        return '( "True" | "False" )'
    return grammar.json(schema)
