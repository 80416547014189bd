"""LFM2's calls, whose arguments models write as Python does: both quotes, and its words."""

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.answer_pieces import joined
from support.asked import read
from support.call_templates import SPECIAL_TOKENS, TEMPLATES
from support.constraints import accepts

from runtime.chat_format.calls import Event, Text, ToolCall
from runtime.chat_format.conversation import Prompt, prepare
from runtime.chat_format.template import ChatTemplate

USER = [{"role": "user", "content": "Hi"}]
CALL = "<|tool_call_start|>[f(x=VALUE)]<|tool_call_end|>"
EMOJI = "\U0001f600"


def prompt_of(schema: Any, special: tuple[str, ...] = SPECIAL_TOKENS) -> Prompt:
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    template = ChatTemplate(TEMPLATES["lfm2"], "", "</s>", special)
    return prepare(template, USER, tools=tools, tool_choice="required")


def value_of(events: list[Event]) -> Any:
    (call,) = events
    assert isinstance(call, ToolCall)
    return json.loads(call.arguments)["x"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'Rome'", "Rome"),
        ("''", ""),
        (r"'it\'s'", "it's"),
        ("'it's here'", "it's here"),
        ("'the dogs' bone'", "the dogs' bone"),
        ("""'say "no"'""", 'say "no"'),
        (r"""'a\nb\\c\t\u0007'""", "a\nb\\c\t\x07"),
        ("'f(x=1), g(\"y\")'", 'f(x=1), g("y")'),
        (f"'é{EMOJI}'", f"é{EMOJI}"),
        ("""['a', "b's", 'c']""", ["a", "b's", "c"]),
        (
            "{'k': 'v', \"n\": None, 't': [True, false]}",
            {"k": "v", "n": None, "t": [True, False]},
        ),
        ("[[None, null], -1.5]", [[None, None], -1.5]),
        ("True", True),
    ],
)
def test_values_of_python(cpp_build: Path, written: str, value: object) -> None:
    """Of any schema; of that of the value alone, quotes have backslashes."""
    said = CALL.replace("VALUE", written)
    assert accepts(cpp_build, "grammar", prompt_of({}, ()).grammar, [said]) == [True]
    escaped = re.sub("(?<=[a-z])'(?=[s ][ a-z])", r"\\'", said)
    exact = prompt_of({"const": value}, ())
    assert accepts(cpp_build, "grammar", exact.grammar, [escaped]) == [True]
    for size, text in itertools.product((1, 1000), (said, escaped)):
        assert value_of(read(prompt_of({}).reader, text, size)) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"""say "x=1" now\nand f(x=2)"""', 'say "x=1" now\nand f(x=2)'),
        ("'''it's'''", "it's"),
        (r"r'\d+'", r"\d+"),
        ("'a\nb'", "a\nb"),
        (r"'\ud83d\ude00'", EMOJI),
        (r"'\d\x41'", r"\dA"),
        ("(1, 2)", [1, 2]),
        ("{1: 'a'}", {"1": "a"}),
        ("0x10", 16),
    ],
)
def test_what_the_grammar_does_not_offer_is_read_too(written: str, value: object) -> None:
    said = CALL.replace("VALUE", written)
    for size in (1, 1000):
        assert value_of(read(prompt_of({}).reader, said, size)) == value


@pytest.mark.parametrize("written", ["f(1)", "{1, 2}", "1j", "b'a'", "'a", "y", "1e999", r"'\u1'"])
def test_what_is_no_value_is_content(written: str) -> None:
    said = f"Well. {CALL.replace('VALUE', written)} Done."
    for size in (1, 1000):
        events = joined(read(prompt_of({}).reader, said, size))
        assert events == [Text(f"Well. [f(x={written})] Done.")]


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"maxLength": 3, "type": "string"}, {"pattern": "^[^b]*$"}]
)
def test_a_text_ends_where_the_grammar_ends_it(cpp_build: Path, schema: dict[str, Any]) -> None:
    """All short texts in single quotes: what the grammar takes is read as one string."""
    alphabet = ["'", "\\'", " ", ",", ")", "a", '"']
    contents = ["".join(c) for n in range(4) for c in itertools.product(alphabet, repeat=n)]
    said = [CALL.replace("VALUE", f"'{content}'") for content in contents]
    taken = accepts(cpp_build, "grammar", prompt_of(schema, ()).grammar, said)
    assert any(taken) and not all(taken)
    reader = prompt_of(schema).reader
    for content, text, is_taken in zip(contents, said, taken, strict=True):
        value = content.replace("\\'", "'")
        ends_early = re.match("'|.*' *[,)]", content.replace("\\'", "-"))
        expected = not ends_early and len(value) <= schema.get("maxLength", len(value))
        assert is_taken == expected, content
        if is_taken:
            assert value_of(read(copy.deepcopy(reader), text)) == value


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "string", "maxLength": 4}, "'it's'", "'it's!'"),
        ({"type": "string", "pattern": "^a+$"}, "'aa'", "'ab'"),
        ({"enum": ["it's", 'a"b']}, "'a\"b'", "'b'"),
        ({"type": "object", "properties": {"k": {"type": "integer"}}}, "{'k': 1}", "{'l': 1}"),
        ({"type": "array", "items": {"enum": ["a", None]}}, "['a', None]", "['b']"),
        (
            {"type": "object", "additionalProperties": {"type": "boolean"}},
            "{'a': True}",
            "{'a': 1}",
        ),
        ({"type": "string", "format": "date"}, "'2024-02-29'", "'2023-02-29'"),
    ],
)
def test_values_in_single_quotes_hold_to_their_schema(
    cpp_build: Path, schema: dict[str, Any], right: str, wrong: str
) -> None:
    said = [CALL.replace("VALUE", written) for written in (right, wrong)]
    assert accepts(cpp_build, "grammar", prompt_of(schema, ()).grammar, said) == [True, False]


def test_what_the_models_own_template_writes_is_read() -> None:
    """LFM2.5's writes strings in single quotes without escapes, and lists as Python prints them."""
    arguments = {"x": "it's 5 o'clock\nin Rome", "y": ["a", "b's"], "z": {"k": None}, "on": True}
    written = f"x='{arguments['x']}', y={arguments['y']}, z={json.dumps(arguments['z'])}, on=True"
    said = f"I look.<|tool_call_start|>[f({written}), f()]<|tool_call_end|>Wait."
    calls = [ToolCall("f", json.dumps(arguments)), ToolCall("f", "{}")]
    for size in (1, 3, 1000):
        events = joined(read(prompt_of({}).reader, said, size))
        assert events == [Text("I look."), *calls, Text("Wait.")]
