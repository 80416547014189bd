"""What may come before and behind the calls of an answer, and what is none."""

from pathlib import Path
from typing import Any

import pytest
from support.asked import TOOLS, ask, read, template_of, text_of
from support.call_templates import HERMES, TEMPLATES
from support.constraints import accepts

from runtime.chat_format.calls import ToolCall

NOW = '{"name": "now", "arguments": {}}'
BEHIND = {
    "hermes": f"<tool_call>\n{NOW}\n</tool_call>",
    "qwen-xml": "<tool_call>\n<function=now>\n</function>\n</tool_call>",
    "lfm2": "<|tool_call_start|>[now()]<|tool_call_end|>",
    "gemma-4": "<|tool_call>call:now{}<tool_call|>",
    "phi-4": f"<|tool_call|>[{NOW}]<|/tool_call|>",
}


@pytest.mark.parametrize("name", BEHIND)
def test_what_comes_behind_a_call(cpp_build: Path, name: str) -> None:
    """A line break does not commit the model to another call, and it may say what it does."""
    template, one = template_of(TEMPLATES[name]), BEHIND[name]
    texts = [one, one + "\n", one + "\nTwo.", one + "Two.", one + "\n" + one]
    plain = template_of(TEMPLATES[name], ())
    assert accepts(cpp_build, "grammar", ask(plain).grammar, texts) == [True] * 5
    for size in (1, 1000):
        events = read(ask(template).reader, one + "\nTwo.", size)
        assert events[0] == ToolCall("now", "{}") and text_of(events) == "Two."
        assert read(ask(template).reader, one + "\n", size) == [ToolCall("now", "{}")]
    once = ask(plain, parallel_tool_calls=False, tool_choice="required")
    taken = accepts(cpp_build, "grammar", once.grammar, [*texts[:3], texts[4]])
    assert taken == [True, True, False, False]


def test_an_answer_of_json_where_calls_are_json_too(cpp_build: Path) -> None:
    template = template_of(TEMPLATES["llama-3"])
    call_of_now = '{"name": "now", "parameters": {}}'
    texts = [
        '{"answer": 42}',
        "{",
        ' { "name" : "Bob" }',
        '{"name": "nowhere"}',
        "A {",
        call_of_now,
    ]
    prompt = ask(template)
    assert accepts(cpp_build, "grammar", prompt.grammar, texts) == [True] * 6
    broken = ['{"name": "now", "parameters": 1}', '{ "name": "now", "parameters": 1}']
    assert accepts(cpp_build, "grammar", prompt.grammar, broken) == [False, False]
    for text in (t for t in texts[:-1] if t != "{"):  # which may be the beginning of a call
        for size in (1, 1000):
            assert text_of(read(ask(template).reader, text, size)).strip() == text.strip()
    none = ask(template, tool_choice="none")
    assert accepts(cpp_build, "grammar", none.grammar, texts) == [*[True] * 5, False]


def test_what_harmony_tells_before_a_call(cpp_build: Path) -> None:
    template, channel = template_of(TEMPLATES["harmony"]), "<|channel|>{}<|message|>{}"
    next_message = "<|end|><|start|>assistant"
    parts = [("analysis", "T"), ("analysis", "U"), ("commentary", "Plan.")]
    before = "".join(channel.format(*part) + next_message for part in parts)
    called = before + channel.format("commentary to=functions.now <|constrain|>json", "{}")
    texts = [called, before + channel.format("final", "Done.")]
    plain = template_of(TEMPLATES["harmony"], ())
    assert accepts(cpp_build, "grammar", ask(plain).grammar, texts) == [True, True]
    events = read(ask(template).reader, called + "<|call|>")
    assert text_of(events) == "Plan." and events[-1] == ToolCall("now", "{}")


@pytest.mark.parametrize("tools", [TOOLS, []])
def test_the_indent_of_an_answer_is_kept(tools: Any) -> None:
    template = template_of(HERMES + "{# </think> #}")
    for text, expected in [
        ("    return x\n", "    return x\n"),
        ("<think>\nHm\n</think>\n\n    return x", "    return x"),
        ("\n\n  x", "\n\n  x"),
    ]:
        for size in (1, 1000):
            assert text_of(read(ask(template, tools=tools).reader, text, size)) == expected
