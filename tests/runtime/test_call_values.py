"""Arguments of calls as each format writes them: marks in their strings, and values that a schema
lists."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.answer_pieces import pieces_of
from support.call_templates import SPECIAL_TOKENS, TEMPLATES
from support.constraints import accepts, refusal

from runtime.chat_format.calls import Event, Text, ToolCall
from runtime.chat_format.conversation import Prompt, prepare
from runtime.chat_format.grammar import Grammar
from runtime.chat_format.schemas import properties_of, schema_at
from runtime.chat_format.template import ChatTemplate

USER = [{"role": "user", "content": "Hi"}]
CALLS = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"x": VALUE}}\n</tool_call>',
    "phi-4": '<|tool_call|>[{"name": "f", "arguments": {"x": VALUE}}]<|/tool_call|>',
    "mistral": '[TOOL_CALLS]f[ARGS]{"x": VALUE}',
    "lfm2": "<|tool_call_start|>[f(x=VALUE)]<|tool_call_end|>",
    "harmony": '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": VALUE}',
    "qwen-xml": (
        "<tool_call>\n<function=f>\n<parameter=x>\nVALUE\n</parameter>\n</function>\n</tool_call>"
    ),
}
MARKS = "</tool_call> [TOOL_CALLS]<|/tool_call|><|tool_call_end|><|end|>  </parameter></function>"


def prompt_of(name: str, schema: Any, special: tuple[str, ...] = (), **others: Any) -> Prompt:
    parameters = {"type": "object", "properties": {"x": schema, **others}, "required": ["x"]}
    parameters |= {"additionalProperties": False, "$defs": {"yes": {"const": True}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    template = ChatTemplate(TEMPLATES[name], "", "</s>", special)
    return prepare(template, USER, tools=tools, tool_choice="required")


def read(prompt: Prompt, pieces: list[str]) -> list[Event]:
    events = [event for piece in pieces for event in prompt.reader.push(piece)]
    return events + prompt.reader.finish()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [MARKS, [1, MARKS]])
def test_marks_in_strings(cpp_build: Path, name: str, value: Any) -> None:
    raw = name == "qwen-xml" and isinstance(value, str)
    text = value if raw else json.dumps(value)
    said = CALLS[name].replace("VALUE", text)
    before, after = CALLS[name].split("VALUE")
    marks = pieces_of(before, SPECIAL_TOKENS), pieces_of(after, SPECIAL_TOKENS)
    for pieces in ([*marks[0], text, *marks[1]], [*marks[0], *text, *marks[1]]):
        prompt = prompt_of(name, {"const": value}, SPECIAL_TOKENS)
        assert read(prompt, pieces) == [ToolCall("f", json.dumps({"x": value}))]
    plain = prompt_of(name, {"const": value})
    assert accepts(cpp_build, "grammar", plain.grammar, [said]) == [True]


def test_text_behind_a_call_that_cannot_be_read_is_kept() -> None:
    prompt = prompt_of("hermes", {"type": "string"})
    call = CALLS["hermes"].replace("VALUE", '"a"')
    first = 'So:  <tool_call>{broken "</tool_call>  and \n'
    events = read(prompt, list(first + call))
    assert "".join(e.text for e in events if isinstance(e, Text)) == first.rstrip()
    assert events[-1] == ToolCall("f", '{"x": "a"}')


@pytest.mark.parametrize("name", [name for name in CALLS if name != "harmony"])
def test_a_call_that_is_cut_is_none(name: str) -> None:
    said = pieces_of(CALLS[name].replace("VALUE", '"a"'), SPECIAL_TOKENS, 1)
    whole = next(n for n in range(len(said) + 1) if read_first(name, said[:n]))
    assert whole > len(said) - len("</function>\n</tool_call>") - 2


JSON_CALL = '{"name": "f", "arguments": {"x": "a, ]"}}'


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("mistral", '[TOOL_CALLS]f[ARGS]{"x": "a, ]"}', '[TOOL_CALLS]f[ARGS]{"x": "a, ]"}'),
        ("mistral-list", f"[TOOL_CALLS][{JSON_CALL}", f", {JSON_CALL}]"),
        ("phi-4", f"<|tool_call|>[{JSON_CALL}", f", {JSON_CALL}]"),
        ("lfm2", '<|tool_call_start|>[f(x="a, ]")', ', f(x="a, ]")]'),
    ],
)
def test_a_cut_call_leaves_those_before_it(name: str, first: str, second: str) -> None:
    begun, pieces = (pieces_of(said, SPECIAL_TOKENS, 1) for said in (first, first + second))
    for end in range(len(begun) + 2, len(pieces)):
        prompt = prompt_of(name, {"type": "string"}, SPECIAL_TOKENS)
        events = read(prompt, pieces[:end])
        assert events == [ToolCall("f", '{"x": "a, ]"}')], pieces[:end]


def read_first(name: str, pieces: list[str]) -> bool:
    """Whether they are a call when the answer ends behind them."""
    prompt = prompt_of(name, {"type": "string"}, SPECIAL_TOKENS)
    return any(isinstance(event, ToolCall) for event in read(prompt, pieces))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lfm2", '<|tool_call_start|>[f(x="a", y z=1)]<|tool_call_end|>'),
        (
            "qwen-xml",
            "<tool_call>\n<function=f>\n<parameter=x>\na\n</parameter>\n<parameter=y z>\n1\n"
            "</parameter>\n</function>\n</tool_call>",
        ),
    ],
)
def test_a_required_name_that_the_properties_lack(cpp_build: Path, name: str, said: str) -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    parameters["required"] = ["x", "y z"]
    template = ChatTemplate(TEMPLATES[name], "", "</s>", SPECIAL_TOKENS)
    prompt = prepare(template, USER, tools=tools, tool_choice="required")
    (call,) = read(prompt, pieces_of(said, SPECIAL_TOKENS))
    assert isinstance(call, ToolCall)
    assert json.loads(call.arguments).keys() == {"x", "y z"}
    plain = prepare(
        ChatTemplate(TEMPLATES[name], "", "</s>", ()), USER, tools=tools, tool_choice="f"
    )
    lacking = said.replace(", y z=1", "").replace("<parameter=y z>\n1\n</parameter>\n", "")
    assert accepts(cpp_build, "grammar", plain.grammar, [said, lacking]) == [True, False]


@pytest.mark.parametrize("name", ["const", "default", "enum", "x"])
def test_a_property_of_any_name_may_refer(cpp_build: Path, name: str) -> None:
    root = {"properties": {name: {"$ref": "#/$defs/yes"}}, "$defs": {"yes": {"const": True}}}
    schema = schema_at(properties_of(root)[name].places, root)
    assert accepts(cpp_build, "json-schema", schema, ["true", "1"]) == [True, False]


@pytest.mark.parametrize("name", ["qwen-xml", "lfm2"])
@pytest.mark.parametrize(
    "schema",
    [
        {"const": True},
        {"type": "boolean", "const": True},
        {"enum": [True]},
        {"anyOf": [{"const": True}]},
        {"$ref": "#/$defs/yes"},
    ],
)
def test_one_boolean_alone(cpp_build: Path, name: str, schema: dict[str, Any]) -> None:
    texts = [CALLS[name].replace("VALUE", word) for word in ("true", "false", "False")]
    found = accepts(cpp_build, "grammar", prompt_of(name, schema).grammar, texts)
    assert found == [True, False, False]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"enum": ["a", 1.5]}, "1.5", 1.5),
        ({"enum": ["a", 1.5]}, "a", "a"),
        ({"enum": ["1.5", 1.5]}, "1.5", "1.5"),
        ({"enum": ["a", [1, {"k": "b"}]]}, '[1, {"k": "b"}]', [1, {"k": "b"}]),
        ({"const": "a"}, "a", "a"),
        ({"const": "null"}, "null", "null"),
        ({"anyOf": [{"enum": ["a", True]}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"enum": ["a", True]}, {"type": "null"}]}, "true", True),
        ({"anyOf": [{"enum": ["a", True]}, {"type": "null"}]}, "a", "a"),
    ],
)
def test_values_that_a_schema_lists(
    cpp_build: Path, schema: dict[str, Any], text: str, value: object
) -> None:
    """Where strings have no quotes, the list tells a string from another value."""
    said = [CALLS["qwen-xml"].replace("VALUE", word) for word in (text, "z")]
    prompt = prompt_of("qwen-xml", schema)
    assert read(prompt, [said[0]]) == [ToolCall("f", json.dumps({"x": value}))]
    assert accepts(cpp_build, "grammar", prompt.grammar, said) == [True, False]


COUNT = {"type": "integer", "minimum": 10}
FIVE_OR_LESS = {"type": "string", "maxLength": 5}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "5", 5),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "-0.5", -0.5),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "1.10", "1.10"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "007", "007"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "NaN", "NaN"),
        ({"type": ["string", "number"]}, "1e999", "1e999"),
        ({"type": ["string", "boolean"]}, "True", True),
        ({"type": ["string", "array"]}, '["a", 1]', ["a", 1]),
        ({"type": ["string", "object"]}, "{a", "{a"),
        ({"oneOf": [{"type": "string", "pattern": "^a"}, COUNT]}, "12", 12),
        ({"anyOf": [FIVE_OR_LESS, COUNT]}, "9", "9"),
        ({"anyOf": [FIVE_OR_LESS, COUNT]}, "123456", 123456),
        ({"anyOf": [FIVE_OR_LESS, {"$ref": "#/$defs/yes"}]}, "true", True),
        ({"anyOf": [FIVE_OR_LESS, {"$ref": "#/$defs/yes"}]}, "false", "false"),
        ({"anyOf": [{"enum": ["7", "8"]}, {"type": "integer"}]}, "7", "7"),
        ({"anyOf": [{"enum": ["7", "8"]}, {"type": "integer"}]}, "9", 9),
    ],
)
def test_a_string_or_another_value(
    cpp_build: Path, schema: dict[str, Any], text: str, value: object
) -> None:
    """Where strings have no quotes, a text is the other value if the schema allows that one."""
    said = CALLS["qwen-xml"].replace("VALUE", text)
    prompt = prompt_of("qwen-xml", schema)
    assert read(prompt, [said]) == [ToolCall("f", json.dumps({"x": value}))]
    assert accepts(cpp_build, "grammar", prompt.grammar, [said]) == [True]
    jsonschema.validate(value, {**schema, "$defs": {"yes": {"const": True}}})


@pytest.mark.parametrize("name", ["qwen-xml", "lfm2"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object"},
        {"type": "object", "properties": {"x": {}}, "additionalProperties": {}},
        {"type": "object", "properties": {"x": {}}, "patternProperties": {"^a": {}}},
    ],
)
def test_names_that_an_open_schema_does_not_list(
    cpp_build: Path, name: str, parameters: dict[str, Any]
) -> None:
    """Strict or not."""
    said = call_of(name, {"a": 1, "b": 2})
    for strict in (True, False):
        function = {"name": "f", "parameters": parameters, "strict": strict}
        tools = [{"type": "function", "function": function}]
        template = ChatTemplate(TEMPLATES[name], "", "</s>", ())
        prompt = prepare(template, USER, tools=tools, tool_choice="auto")
        broken = said.replace("b", "")
        assert accepts(cpp_build, "grammar", prompt.grammar, [said, broken]) == [True, False]


def test_a_string_that_cannot_be_told_from_its_end_is_refused(cpp_build: Path) -> None:
    prompt = prompt_of("qwen-xml", {"enum": ["a", "a\n</parameter>"]})
    assert prompt.explained(refusal(cpp_build, "grammar", prompt.grammar), "x") == (
        "tools: the parameters of f: the JSON schema at #/properties/x has the string "
        '"a\\n</parameter>", which has the end of a value in the model\'s form of calls: leave '
        "it out"
    )


OPEN = {"additionalProperties": {"type": "integer"}}
NAMES = ["a b", "k'q", "$x.y/z", "größe", "a=b", "#", "k\\b", "None"]
ENDLESS = {
    "gemma-4": ["", "a:b", "a,b", "a}", "{a", "[a", "a]", 'a"b', "<a", " a", "a\n"],
    "qwen-xml": ["", "a>b", "a\nb"],
    "lfm2": [""],
}


@pytest.mark.parametrize("format_name", ENDLESS)
def test_names_whose_end_is_not_clear_are_refused(cpp_build: Path, format_name: str) -> None:
    """Of arguments and within them, also in values that a schema lists."""
    for name in NAMES:
        prompt = prompt_of(format_name, True, **{name: {"const": 7}})
        assert accepts(cpp_build, "grammar", prompt.grammar, []) == []
    for name in ENDLESS[format_name]:
        within: list[Any] = [{"properties": {name: {}}}, {"const": [{name: 1}]}]
        prompts = [prompt_of(format_name, True, **{name: {}})]
        prompts += [prompt_of(format_name, x) for x in within if format_name == "gemma-4"]
        for prompt in prompts:
            said = prompt.explained(refusal(cpp_build, "grammar", prompt.grammar), "x")
            assert re.search(
                f"^tools: the parameters of f: the JSON schema at #.* has the name "
                f"{re.escape(json.dumps(name))}, whose end is not clear in",
                said,
            )


def test_names_that_gemma_4_writes() -> None:
    for name in NAMES:
        (call,) = read(prompt_of("gemma-4", True), [GEMMA.replace("x:VALUE", f"{name}:7")])
        assert call == ToolCall("f", json.dumps({name: 7}, ensure_ascii=False))


@pytest.mark.parametrize("name", ["qwen-xml", "lfm2"])
@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "string", "pattern": "^a+$"}, "aa", "ab"),
        ({"type": "string", "maxLength": 2}, "ab", "abc"),
        ({"type": "string", "format": "date"}, "2024-02-29", "2023-02-29"),
        ({"type": "string", "not": {"const": "a"}}, "aa", "a"),
        ({"type": "string", "minLength": 2, "pattern": "b"}, "ab\n", "b"),
    ],
)
def test_strings_hold_to_their_schema(
    cpp_build: Path, name: str, schema: dict[str, Any], right: str, wrong: str
) -> None:
    written = [text if name == "qwen-xml" else json.dumps(text) for text in (right, wrong)]
    said = [CALLS[name].replace("VALUE", text) for text in written]
    prompt = prompt_of(name, schema)
    assert accepts(cpp_build, "grammar", prompt.grammar, said) == [True, False]
    assert read(prompt, [said[0]]) == [ToolCall("f", json.dumps({"x": right}))]


@pytest.mark.parametrize("name", sorted({*CALLS} - {"gemma-4"}))
@pytest.mark.parametrize(
    ("beside", "right", "wrong"),
    [
        ({"anyOf": [{"required": ["x"]}, {"required": ["y"]}]}, {"y": 1}, {"z": 1}),
        ({"minProperties": 2}, {"x": 1, "z": 2}, {"x": 1}),
        ({"maxProperties": 1}, {"z": 1}, {"x": 1, "y": 2}),
        ({"propertyOrdering": ["z", "x"]}, {"z": 1, "x": 2}, {"x": 1, "z": 2}),
        ({"not": {"required": ["x"]}}, {"y": 1}, {"x": 1}),
        ({"patternProperties": {"^n": {"const": 3}}}, {"x": 1, "n1": 3}, {"x": 1, "n1": 4}),
        ({**OPEN, "propertyNames": {"maxLength": 1}}, {"a": 3}, {"12": 3}),
        ({**OPEN, "propertyNames": {"pattern": "^b"}}, {"b": 3}, {"true": 3}),
    ],
)
def test_what_a_schema_says_of_all_arguments(
    cpp_build: Path, name: str, beside: dict[str, Any], right: dict[str, int], wrong: dict[str, int]
) -> None:
    properties = dict.fromkeys("xyz", {"type": "integer"})
    parameters = {"type": "object", "properties": properties, **beside}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    template = ChatTemplate(TEMPLATES[name], "", "</s>", ())
    prompt = prepare(template, USER, tools=tools, tool_choice="required")
    said = [call_of(name, arguments) for arguments in (right, wrong)]
    assert accepts(cpp_build, "grammar", prompt.grammar, said) == [True, False]
    assert read(prompt, [said[0]]) == [ToolCall("f", json.dumps(right))]


def call_of(name: str, arguments: dict[str, int]) -> str:
    """A call as the model's format has it."""
    if name == "lfm2":
        return CALLS[name].replace("x=VALUE", ", ".join(f"{n}={v}" for n, v in arguments.items()))
    if name == "qwen-xml":
        one = "<parameter={}>\n{}\n</parameter>\n"
        elements = "".join(one.format(*argument) for argument in arguments.items())
        return CALLS[name].replace(one.format("x", "VALUE"), elements)
    return CALLS[name].replace('{"x": VALUE}', json.dumps(arguments))


def test_schemas_of_similar_names_are_kept_apart() -> None:
    grammar = Grammar([])
    names = [grammar.json({"const": n}, of) for n, of in enumerate(("f, x", "f.x", "f-x"))]
    assert len(set(names)) == 3 and grammar.json({"const": 0}, "f, x") == names[0]
    assert grammar.text(" ".join(names)).count("%json") == 3


GEMMA = "<|tool_call>call:f{x:VALUE}<tool_call|>"
STRING = '<|"|>VALUE<|"|>'


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"anyOf": [{"type": "integer", "maximum": 7}, {"type": "null"}]}, "null", "8"),
        ({"$ref": "#/$defs/yes"}, "true", "false"),
        ({"$ref": "#/properties/y"}, "7", "a"),
        ({"oneOf": [{"const": "a"}, {"const": 1}]}, STRING.replace("VALUE", "a"), "2"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "3", "2"),
        ({"type": ["boolean", "null"]}, "null", "1"),
        ({"type": ["boolean", "null"]}, "None", "none"),
        ({"type": "array", "items": {}}, "[None,{a:True}]", "[none]"),
        ({"type": "string", "maxLength": 2}, STRING.replace("VALUE", '"\n'), STRING),
        ({"pattern": "^a+$", "minLength": 2}, STRING.replace("VALUE", "aa"), STRING),
        ({"type": "array", "items": {"const": "a"}, "minItems": 1}, '[<|"|>a<|"|>]', "[]"),
        ({"properties": {"b": {}, "a": {}}}, "{a:1,b:{c:[true]}}", "{b:1,a:1}"),
        ({"type": "object"}, '{b:<|"|>1<|"|>}', '{"b":1}'),
        ({"propertyNames": {"pattern": "^b"}, "type": "object"}, "{bc:1}", "{c:1}"),
        ({"propertyNames": {"pattern": "^b"}, "type": "object"}, "{b:1}", "{True:1}"),
    ],
)
def test_values_with_quotes_of_their_own(
    cpp_build: Path, schema: dict[str, Any], right: str, wrong: str
) -> None:
    said = [GEMMA.replace("VALUE", value) for value in (right, wrong)]
    grammar = prompt_of("gemma-4", schema, y={"const": 7}).grammar
    assert accepts(cpp_build, "grammar", grammar, said) == [True, False]


@pytest.mark.parametrize("name", [*sorted(CALLS.keys() - {"gemma-4"})])
@pytest.mark.parametrize(
    "parameters",
    [
        {"anyOf": [{"properties": {"x": {"const": 12}}}, {"properties": {"y": {"const": 1}}}]},
        {"oneOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"properties": {"x": {"const": 12}}}}},
        {"properties": {"x": {"$ref": "#/properties/y"}, "y": {"type": "integer"}}},
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"properties": {"x": {"type": "integer"}}}}},
        {"allOf": [{"properties": {"x": {"type": "integer"}}}, {"required": ["x"]}]},
        {"properties": {"x": {"allOf": [{"$ref": "#/$defs/n"}]}}, "$defs": {"n": {"const": 12}}},
        {"allOf": [{"$ref": "#n"}], "items": {"$anchor": "n", "properties": {"x": {"const": 12}}}},
    ],
)
def test_references_and_parts(cpp_build: Path, name: str, parameters: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    prompt = prepare(
        ChatTemplate(TEMPLATES[name], "", "</s>", ()), USER, tools=tools, tool_choice="required"
    )
    said = [CALLS[name].replace("VALUE", value) for value in ("12", '"a"')]
    assert accepts(cpp_build, "grammar", prompt.grammar, said) == [True, False]
    assert read(prompt, [said[0]]) == [ToolCall("f", '{"x": 12}')]
