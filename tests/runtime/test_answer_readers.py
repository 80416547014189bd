"""What is content of an answer, in every format of calls: streamed or whole, it is the same."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.answer_pieces import joined, pieces_of
from support.call_templates import HERMES, SPECIAL_TOKENS, TEMPLATES
from support.constraints import accepts

from runtime.binding.answer_stream import Special
from runtime.chat_format.calls import Event, Reasoning, Text, ToolCall
from runtime.chat_format.conversation import Prompt, prepare
from runtime.chat_format.formats import FORMATS
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.chat_format.template import ChatTemplate
from runtime.errors import RunnerError

USER = [{"role": "user", "content": "Hi"}]
FORMAT = {each.name: each for each in FORMATS}
SCHEMA = {"type": "object"}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}]
CALL = {"name": "get_weather", "arguments": {"city": "Rome"}}
THINKING = (
    HERMES
    + "{{ '<think>\\n' if enable_thinking is not defined else '<think>\\n\\n</think>\\n\\n' }}"
)
GEMMA_THINKING = (
    TEMPLATES["gemma-4"] + "{{ '' if enable_thinking else '<|channel>thought\\n<channel|>' }}"
)
# Calls as the models' own documentation has them, with what else they may say.
DOCUMENTED = [
    ("llama-3", '{"name": "get_weather", "parameters": {"city": "Rome"}}'),
    ("llama-3", '{"type": "function", "name": "get_weather", "parameters": {"city": "Rome"}}'),
    ("hermes", '<tool_call>\n{"arguments": {"city": "Rome"}, "name": "get_weather"}\n</tool_call>'),
    ("hermes", '<tool_call>{"name":"get_weather","arguments":{"city":"Rome"}}</tool_call>'),
    ("mistral-list", '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Rome"}}]'),
    ("mistral", '[TOOL_CALLS]get_weather[CALL_ID]9Ae3bDc2F[ARGS]{"city": "Rome"}'),
    (
        "phi-4",
        '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Rome"}}]<|/tool_call|>',
    ),
    ("lfm2", '<|tool_call_start|>[get_weather(city="Rome")]<|tool_call_end|>'),
    ("gemma-4", '<|tool_call>call:get_weather{city:<|"|>Rome<|"|>}<tool_call|>'),
    (
        "qwen-xml",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n"
        "</tool_call>",
    ),
    (
        "harmony",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city":"Rome"}<|call|>',
    ),
    ("harmony", ' to=functions.get_weather<|channel|>commentary json<|message|>{"city":"Rome"}'),
]


def template_of(source: str) -> ChatTemplate:
    return ChatTemplate(source, "", "</s>", (*SPECIAL_TOKENS, "<|channel>", "<channel|>"))


def ask(source: str, **options: Any) -> Prompt:
    return prepare(template_of(source), USER, **{"tools": TOOLS, **options})


def read(reader: Reader, pieces: list[str]) -> list[Event]:
    """The events of the pieces, which are the same of single characters."""
    whole, streamed = copy.deepcopy(reader), pickle.loads(pickle.dumps(reader))
    single = [c for p in pieces for c in ([p] if isinstance(p, Special) else p)]
    found = [e for p in pieces for e in whole.push(p)] + whole.finish()
    assert joined([e for p in single for e in streamed.push(p)] + streamed.finish()) == joined(
        found
    )
    return found


def content(events: list[Event]) -> str:
    assert not any(isinstance(event, ToolCall) for event in events), events
    return "".join(event.text for event in events if isinstance(event, Text))


def answer(name: str, text: str) -> list[str]:
    """Text as the model of a format says it."""
    head = ["<|channel|>", "final", "<|message|>"] if name == "harmony" else []
    return [Special(part) if part.startswith("<") else part for part in head] + [text]


@pytest.mark.parametrize("name", TEMPLATES)
def test_json_that_spells_marks_is_content(name: str) -> None:
    marks = [FORMAT[name].begin, FORMAT[name].end, "<think>", "</think>", "<|end|>", "<|im_end|>"]
    for mark in filter(None, marks):
        text = json.dumps({"a": f"the token {mark} ends it {mark}"})
        assert (
            content(read(ask(TEMPLATES[name], json_schema=SCHEMA).reader, answer(name, text)))
            == text
        )


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(
    "value",
    [
        {"name": "Bob", "age": 12},
        {"name": "get_weather", "age": 12},
        {"name": "get_weather", "parameters": {}, "arguments": {}, "age": 12},
        {"city": "Rome", "days": 3},
        {"type": "function"},
        {},
        "{",
    ],
)
def test_json_that_is_no_call_is_content(name: str, value: object) -> None:
    text = json.dumps(value)
    assert content(read(ask(TEMPLATES[name], json_schema=True).reader, answer(name, text))) == text


@pytest.mark.parametrize(("name", "said"), DOCUMENTED)
def test_a_call_of_another_function_is_content(name: str, said: str) -> None:
    """What is left out of it are special tokens alone."""
    events = read(ask(TEMPLATES[name]).reader, pieces_of(said, SPECIAL_TOKENS))
    assert events == [ToolCall(CALL["name"], json.dumps(CALL["arguments"]))]  # type: ignore[arg-type]
    other = pieces_of(said.replace("get_weather", "get_wealth"), SPECIAL_TOKENS)
    text = content(read(ask(TEMPLATES[name]).reader, other))
    spelled = "".join(p for p in other if not isinstance(p, Special))
    assert text and spelled.endswith(text)
    assert name == "harmony" or text.strip() == spelled.strip()


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_special_tokens_are_no_content(name: str, tools: list[Any]) -> None:
    """What spells them is; so is a word between."""
    pieces = [*answer(name, "a <|im_end|> b"), Special("<|im_start|>"), " c <|call|> d"]
    events = read(ask(TEMPLATES[name], tools=tools).reader, pieces)
    assert content(events) == "a <|im_end|> b c <|call|> d"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("Four.", "Four."),
        ("Four.<|end|>", "Four."),
        ("to be, or not\n", "to be, or not\n"),
        ("I.<|end|><|start|>assistant<|channel|>final<|message|>Four.", "I.Four."),
        ("I.<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|cha", "I."),
        ("<|channel|>analysis<|end|><|start|>assistant<|channel|>final<|message|>Four.", "Four."),
        ("<|start|>assistant<|channel|>final<|message|>Four.", "Four."),
        ("<|start|>assistant", ""),
    ],
)
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_what_gpt_oss_writes_without_a_header(said: str, text: str, tools: list[Any]) -> None:
    pieces = pieces_of(said, SPECIAL_TOKENS)
    prompt = ask(TEMPLATES["harmony"], tools=tools)
    assert content(read(prompt.reader, pieces)) == text
    first = ask(TEMPLATES["harmony"], tools=tools).reader.push("Four")
    assert first == [Text("Four")]  # at once: a stop text in it ends the answer


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("None", None),
        ("[None,True, {a:False}]", [None, True, {"a": False}]),
        ('[<|"|>None<|"|>]', ["None"]),
        ("{None:null}", {"None": None}),
    ],
)
def test_null_as_gemma_4_templates_write_it(written: str, value: object) -> None:
    said = f"<|tool_call>call:get_weather{{city:{written},x:None}}<tool_call|>"
    events = read(ask(TEMPLATES["gemma-4"]).reader, pieces_of(said, SPECIAL_TOKENS))
    assert events == [ToolCall("get_weather", json.dumps({"city": value, "x": None}))]


def test_a_special_token_is_no_string() -> None:
    """Gemma 4's quotes are special tokens: a string may spell them."""
    said = pieces_of('<|tool_call>call:get_weather{city:<|"|>X<|"|>}<tool_call|>', SPECIAL_TOKENS)
    said[said.index("X")] = 'a<|"|>,b:'
    assert read(ask(TEMPLATES["gemma-4"]).reader, said) == [
        ToolCall("get_weather", json.dumps({"city": 'a<|"|>,b:'}))
    ]


def stopped(source: str, pieces: list[str], stops: list[str], **options: Any) -> list[Event]:
    reader = StopReader(ask(source, **options).reader, stops)
    watch = copy.deepcopy(reader)
    found = joined(read(reader, pieces))
    wanted = [watch.wants(piece) for piece in pieces]
    assert sorted(wanted, reverse=True) == wanted  # once it has ended, it stays so
    return found


def test_reasoning_that_begins_again_within_itself() -> None:
    said = "<think>\nI see <think>.\n</think>\nYes <think> 5"
    events = read(ask(THINKING, tools=[]).reader, [said])
    assert joined(events) == [Reasoning("I see <think>."), Text("Yes <think> 5")]


def test_text_around_calls_keeps_its_white_space() -> None:
    """But for what is between it and marks alone."""
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    plain = template_of(HERMES + "{# <think> </think> #}")
    reader = prepare(plain, USER, tools=TOOLS).reader
    for said, text in (
        (f"I look.\n{call}\n{call}\nThen I say.\n", "I look.\n\n\nThen I say.\n"),
        (f"I look.\n{call}\n", "I look."),
        (f"\n\n{call}\n\nI see.", "I see."),
        (f"<think>\nSo.\n</think>\nI look. {call} I see.", "I look.  I see."),
    ):
        events = read(reader, [said])
        assert "".join(event.text for event in events if isinstance(event, Text)) == text
        assert sum(isinstance(event, ToolCall) for event in events) == said.count(call)


@pytest.mark.parametrize("begun", ["<", "<think", "<tool_call"])
def test_a_mark_that_was_cut_is_no_content(begun: str) -> None:
    """Where no text begins so; else it may be text."""
    plain = template_of(HERMES + "{# <think> </think> #}")
    for options, text in (
        ({"tool_choice": "required"}, ""),
        ({"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}, ""),
        ({"json_schema": SCHEMA}, ""),
        ({"regex": "<.*"}, begun),
        ({}, begun),
    ):
        prompt = prepare(plain, USER, **{"tools": TOOLS, **options})
        assert content(read(prompt.reader, [begun])) == text, options


def test_stops_are_of_content_alone() -> None:
    text = "I\nlook.\n</think>\n\nIt rains.\nA lot."
    events = stopped(THINKING, [text], ["\n"], tools=[])
    assert events == [Reasoning("I\nlook."), Text("It rains.")]
    events = stopped(THINKING, [text], ["rain", "It rains", "ins.\nA lot"], tools=[])
    assert events == [Reasoning("I\nlook."), Text("It ")]
    assert stopped(THINKING, [text], ["lot.x", "?"], tools=[])[-1] == Text("It rains.\nA lot.")


@pytest.mark.parametrize(("name", "said"), DOCUMENTED)
def test_stops_do_not_see_calls(name: str, said: str) -> None:
    stops = ["\n", "{", "[", "get", "(", "Rome", "<"]
    for choice in ("auto", "required"):
        pieces = pieces_of(said, SPECIAL_TOKENS)
        events = stopped(TEMPLATES[name], pieces, stops, tool_choice=choice)
        assert events == [ToolCall("get_weather", '{"city": "Rome"}')]
    assert stopped(TEMPLATES[name], answer(name, "It is [cold"), ["["]) == [Text("It is ")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a </tool_call> b.'),
        ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "</tool_call>", "n'),
        (
            "qwen-xml",
            "<tool_call>\n<function=get_weather>\n<parameter=city>\na </tool_call> b.",
        ),
    ],
)
def test_a_call_that_was_cut_is_no_content(name: str, said: str) -> None:
    """Also where a string of it spells the mark at which calls end."""
    for choice in ("auto", "required"):
        assert stopped(TEMPLATES[name], [said], ["b", "get"], tool_choice=choice) == []


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_reasoning_that_the_prompt_has_ended_does_not_begin_again(
    cpp_build: Path, choice: str, schema: object
) -> None:
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    said = call if choice == "required" else "{}"
    texts = [said, "<think>\nHm.\n</think>\n\n" + said, "Hm.\n</think>\n\n" + said]
    for variables, expected in (({"enable_thinking": False}, [1, 0, 0]), ({}, [0, 1, 1])):
        plain = ChatTemplate(THINKING, "", "</s>", ())
        options: dict[str, Any] = {"tool_choice": choice, "json_schema": schema}
        prompt = prepare(plain, USER, tools=TOOLS, variables=variables, **options)
        found = accepts(cpp_build, "grammar", prompt.grammar, texts)
        if choice != "required" and schema is None:
            expected = [expected[0], expected[1], 1]  # a text may be anything else
        assert [int(one) for one in found] == expected


@pytest.mark.parametrize(
    "constraint",
    [
        {"regex": "(left|right)!"},
        {"choice": ["left!", "right!"]},
        {"grammar": 'root ::= side "!"\nside ::= "left" | "right"'},
    ],
    ids=lambda constraint: next(iter(constraint)),
)
def test_constraints_hold_for_the_answer_alone(cpp_build: Path, constraint: dict[str, Any]) -> None:
    """Not for its reasoning, nor for calls."""
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
    texts = ["left!", "<think>\nleft?\n</think>\n\nright!", call, "left?", f"left!{call}"]
    found = {}
    for tools in ([], TOOLS):
        prompt = prepare(ChatTemplate(THINKING, "", "</s>", ()), USER, tools, **constraint)
        found[bool(tools)] = accepts(cpp_build, "grammar", prompt.grammar, texts)
    thinks = "Hm.</think>right!"
    assert accepts(cpp_build, "grammar", prompt.grammar, [thinks, "Hm. right!"]) == [True, False]
    blank = [f"Hm.</think>{space}right!" for space in ("\n", "\n\n", " ", "\n\n\n")]
    assert accepts(cpp_build, "grammar", prompt.grammar, blank) == [True, True, False, False]
    assert found[False] == [False, True, False, False, False]
    assert found[True] == found[False]
    plain = prepare(ChatTemplate(HERMES, "", "</s>", ()), USER, TOOLS, **constraint)
    assert accepts(cpp_build, "grammar", plain.grammar, texts) == [True, False, True, False, False]


def test_an_answer_has_one_constraint() -> None:
    both = {"regex": "a+", "choice": ["b"]}
    with pytest.raises(RunnerError) as refused:
        prepare(ChatTemplate(THINKING, "", "</s>", ()), USER, **both)
    assert str(refused.value) == (
        "regex and choice are given, but an answer can have one constraint"
    )


def test_gemma_4_without_thinking(cpp_build: Path) -> None:
    plain = ChatTemplate(GEMMA_THINKING, "", "</s>", ())
    text = (
        '<|channel>thought\nHm.<channel|><|tool_call>call:get_weather{city:<|"|>X<|"|>}<tool_call|>'
    )
    for thinking in (True, False):
        variables = {"enable_thinking": thinking}
        prompt = prepare(plain, USER, TOOLS, tool_choice="required", variables=variables)
        assert accepts(cpp_build, "grammar", prompt.grammar, [text]) == [thinking]


@pytest.mark.parametrize(
    "name", ["hermes", "qwen-xml", "phi-4", "mistral", "mistral-list", "lfm2", "gemma-4"]
)
def test_a_named_function_is_called_once(cpp_build: Path, name: str) -> None:
    calls = [{"type": "function", "function": {**CALL}}] * 2
    template = ChatTemplate(TEMPLATES[name], "", "</s>", ())
    messages: list[Any] = [*USER, {"role": "assistant", "content": "", "tool_calls": calls}]
    told = template._render(messages, False, tools=TOOLS)
    begin = told.index(FORMAT[name].begin, told.index("assistant"))
    text = told[begin:].removesuffix("<|im_end|>\n")
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice, parallel, right in (
        ("required", True, True),
        ("required", False, False),
        (named, True, False),
    ):
        prompt = prepare(template, USER, TOOLS, choice, parallel)
        assert accepts(cpp_build, "grammar", prompt.grammar, [text]) == [right]


def test_a_refusal_names_what_the_client_gave() -> None:
    prompt = ask(HERMES, json_schema=SCHEMA)
    names = {"the-answer": "response_format", "get_weather": "tools: the parameters of get_weather"}
    for of, field in names.items():
        reason = f"the rule schema-of-{of}: the JSON schema has a fault"
        said = prompt.explained(reason, "response_format")
        assert said == f"{field}: the JSON schema has a fault"
    reason = "the grammar, or a constraint in it, has no text that matches"
    said = prompt.explained(reason, "response_format")
    assert said == " or ".join(names.values()) + " has no text that matches"
