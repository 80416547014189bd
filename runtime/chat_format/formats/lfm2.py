"""LFM2's format: a Python list of calls between two special tokens."""

import ast
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from runtime.chat_format.calls import Tool, ToolCall, make_call
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.schemas import properties_of
from runtime.chat_format.special_tokens import SpecialTokens, without_special

_FORM = {"before_value": "=", "between": ", ", "python_values": True}
_JSON_NAMES = {"true": True, "false": False, "null": None}
# A text of Python. In single quotes, a quote without a backslash is its end where something follows
# that follows texts, and else a part of it: templates write it so, and the grammar has this rule.
_END = r"(?=[ \t\r\n]*(?:[,)\]}:]|\Z))"
_TEXT = rf"""(?P<raw>[rR]?)(?:
    (?P<quotes>\"{{3}}|'{{3}})(?P<long>(?:\\.|[^\\])*?)(?P=quotes){_END}
    | "(?P<double>(?:\\.|[^"\\])*)"
    | '(?P<single>(?:\\.|[^'\\]|'(?!{_END}))*)'{_END}
)"""
_ESCAPED = re.compile(r"\\(?P<escape>.)|['\n\r]", re.DOTALL)
_ESCAPES = "\n\\'\"abfnrtvxuUN01234567"


class Lfm2:
    name = "lfm2"
    begin = "<|tool_call_start|>"
    end = "<|tool_call_end|>"
    parallel = True
    begins_answer = False
    joint = (", ", "]")

    def is_of(self, source: str, special_tokens: Collection[str]) -> bool:
        return (
            "<|tool_list_start|>" in source
            or self.begin in source
            or (self.begin in special_tokens and "List of tools: " in source)
        )

    def heads(self, tools: Sequence[Tool]) -> list[str]:
        return [f"[{tool.name}(" for tool in tools]

    def parse(self, text: str, tools: Sequence[Tool], special: SpecialTokens) -> list[ToolCall]:
        names: list[str] = []

        def numbered(match: re.Match[str]) -> str:
            if match["name"] is None:
                return repr(_text(match))
            names.append(match["name"])
            return f"n{len(names) - 1}"

        try:
            body = _names_of(tools).sub(numbered, without_special(text).strip())
            calls = ast.parse(body, mode="eval").body
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)) from None
        listed = calls.elts if isinstance(calls, ast.List) else [calls]
        return [_call(call, names) for call in listed]

    def write(self, calls: Sequence[Mapping[str, Any]]) -> str:
        written = []
        for function in (call["function"] for call in calls):
            named = [f"{name}={_literal(value)}" for name, value in function["arguments"].items()]
            written.append(f"{function['name']}({', '.join(named)})")
        return f"{self.begin}[{', '.join(written)}]{self.end}"

    def grammar(self, grammar: Grammar, tools: Sequence[Tool], several: bool) -> str:
        functions = []
        for tool in tools:
            begin = grammar.literal(tool.name + "(")
            arguments = grammar.arguments(tool.named_schema, _FORM, tool.name)
            functions.append(f'{begin} {arguments} ")"')
        call = grammar.rule(grammar.one_of(functions))
        more = f'( ", " {call} )*' if several else ""
        return f'"[" {call} {more} "]" {grammar.literal(self.end)}'


def _names_of(tools: Sequence[Tool]) -> re.Pattern[str]:
    """A text, or the name of a function or an argument, which may be one that Python does not
    allow."""
    names = {name for tool in tools for name in (tool.name, *properties_of(tool.parameters))}
    longest_first = sorted(filter(None, names), key=len, reverse=True)
    listed = "|".join([*map(re.escape, longest_first), r"[\w.-]+"])
    return re.compile(rf"(?x:{_TEXT})|(?P<name>{listed})\s*(?=[=(])", re.DOTALL)


def _text(match: re.Match[str]) -> str:
    """The value of a text, which models write with its line breaks.

    Raises:
        SyntaxError: it has an escape that is none.
    """

    def escaped(part: re.Match[str]) -> str:
        if part["escape"] is None:
            return {"\n": "\\n", "\r": "\\r"}.get(part[0], "\\'")
        # Python keeps the backslash of what is no escape.
        return part[0] if part["escape"] in _ESCAPES else "\\" + part[0]

    body = next(b for name in ("long", "double", "single") if (b := match[name]) is not None)
    if match["raw"]:
        return body
    value: str = ast.literal_eval(f"'{_ESCAPED.sub(escaped, body)}'")
    # JSON writes a character beyond 16 bits as two.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _call(node: ast.expr, names: Sequence[str]) -> ToolCall:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("a call has no names for its arguments")
    arguments = {_name(keyword.arg, names): _value(keyword.value) for keyword in node.keywords}
    return make_call(_name(node.func.id, names), arguments)


def _name(numbered: str | None, names: Sequence[str]) -> str:
    if numbered is None:
        raise ValueError("an argument has no name")
    return names[int(numbered[1:])]


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


def _literal(value: Any) -> str:
    """A value as Python writes it, strings as JSON does."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
