"""Histories of agents, in templates that take only some of what OpenAI's interface takes."""

import json
import re
from typing import Any

import pytest
from support.call_templates import SPECIAL_TOKENS, TEMPLATES, WITHOUT_CALLS

from runtime.chat_format.conversation import prepare
from runtime.chat_format.template import ChatTemplate
from runtime.errors import RunnerError
from runtime.server.chat import chat_prompts
from runtime.server.requests import ChatRequest

ROLES = """
{%- set turn = namespace(user=true) %}
{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('no system here') }}{% endif %}
{%- if m.role in ('user', 'assistant') and not m.tool_calls %}
{%- if (m.role == 'user') != turn.user %}{{ raise_exception('roles must alternate') }}{% endif %}
{%- set turn.user = not turn.user %}
{%- endif %}
{%- endfor %}
"""
IDS = """
{%- for m in messages %}
{%- set of_calls = m.tool_calls | default([]) | map(attribute='id') | list %}
{%- for id in of_calls + ([m.tool_call_id] if m.role == 'tool' else []) %}
{%- if id | length != 9 %}{{ raise_exception('an id must have 9 characters') }}{% endif %}
{%- endfor %}
{%- endfor %}
"""
DESCRIBED = """
{%- for tool in tools %}
{{- 'TOOL ' + tool.function.name + tool.function.description + tool.function.parameters.type }}
{%- endfor %}
"""
NAMED = """
{%- for m in messages if m.role == 'tool' %}{{ m.name + ':' }}{% endfor %}
"""
WITHOUT_SYSTEM = """
{%- if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}
"""
ITEMS = """
{%- for m in messages %}{% for call in m.tool_calls or [] %}
{%- for key, value in call.function.arguments.items() %}{% endfor %}
{%- endfor %}{% endfor %}
"""
# It writes one call alone, and nothing beside it.
ONE_CALL = """
{{- '[' + tools | map(attribute='function.name') | join(' ') + ']' if tools }}
{%- for m in messages %}
{%- if m.tool_calls %}{{ '{' + m.tool_calls[0].function | tojson + '}' }}
{%- else %}{{ '<' + m.role + '>' + m.content }}{% endif %}
{%- endfor %}
{#- "parameters":  ipython #}
"""
# What it is answered must be right behind a call; other results are not written.
ANSWERED = """
{{- tools | tojson if tools }}
{%- set ns = namespace(called=false) %}
{%- for m in messages %}
{%- if m.role == 'tool' and not ns.called %}{% elif m.tool_calls %}
{{- '{' + m.tool_calls[0].function | tojson + '}' }}
{%- else %}{{ '<' + m.role + '>' + m.content }}{% endif %}
{%- set ns.called = m.tool_calls or (m.role == 'tool' and ns.called) %}
{%- endfor %}
{#- "parameters":  ipython #}
"""
# It asks whether there is content, and writes arguments as they came.
NO_CONTENT = """
{{- '[' + tools | map(attribute='function.name') | join(' ') + ']' if tools }}
{%- for m in messages %}
{%- if m.content is not none %}{{ '<' + m.role + '>' + m.content }}{% else %}
{%- for call in m.tool_calls %}{{ call.function.name + ':' + call.function.arguments }}{% endfor %}
{%- endif %}
{%- endfor %}
{#- "parameters":  ipython #}
"""
# Results are in the model's turn, before its content, and content ends the turn.
ENDED = """
{{- tools | tojson if tools }}
{%- set ns = namespace(role='') %}
{%- for m in messages if m.role != 'tool' %}
{%- set continue_same_model_turn = ns.role == m.role == 'assistant' %}
{%- set ns.role = m.role %}
{{- '<|turn>' + m.role + '\\n' if not continue_same_model_turn }}
{{- '<|channel>' + m.reasoning + '<channel|>' if m.reasoning and m.tool_calls }}
{%- for call in m.tool_calls or [] %}
{{- '<|tool_call>call:' + call.function.name + call.function.arguments | tojson }}
{%- endfor %}
{%- for r in messages if r.role == 'tool' and m.tool_calls
    and r.tool_call_id in (m.tool_calls | map(attribute='id') | list) %}
{{- '<|tool_response>' + r.content }}
{%- endfor %}
{{- m.content }}
{{- '<turn|>\\n' if m.content or not m.tool_calls }}
{%- endfor %}
{{- '<|turn>model\\n' if messages[-1].role != 'tool' }}
"""
# What is not none is content, also beside calls.
NOT_NONE = """
{%- for m in messages %}
{%- for call in m.tool_calls or [] %}{{ '<｜Assistant｜>' + call.function.name }}{% endfor %}
{%- if m.content is not none %}{{ '<｜' + m.role | title + '｜>' + m.content }}{% endif %}
{%- endfor %}
"""
# As the above, and nothing is content beside calls, whose arguments are texts.
NOT_BOTH = """
{%- for m in messages %}
{%- if m.role != 'assistant' %}{{ '<｜' + m.role | title + '｜>' + m.content }}
{%- elif m.content is none %}
{%- for call in m.tool_calls %}
{{- '<｜Assistant｜>' + call.function.name + call.function.arguments }}{% endfor %}
{%- else %}{{ '<｜Assistant｜>' + m.content }}
{%- endif %}
{%- endfor %}
"""
PICKY = {
    **TEMPLATES,
    "roles": ROLES + TEMPLATES["mistral"],
    "ids": IDS + TEMPLATES["hermes"],
    "described": DESCRIBED + TEMPLATES["hermes"],
    "named": NAMED + TEMPLATES["gemma-4"],
    "without system": WITHOUT_SYSTEM + ROLES + TEMPLATES["hermes"],
    "items": ITEMS + TEMPLATES["hermes"],
    "one call": ONE_CALL,
    "alternating call": ROLES + ONE_CALL,
    "answered": ANSWERED,
    "no content": NO_CONTENT,
    "all of it": WITHOUT_SYSTEM + ROLES + IDS + NAMED + ITEMS + DESCRIBED + TEMPLATES["mistral"],
    "without calls": WITHOUT_CALLS["lfm2"],
}
TOOLS = [{"type": "function", "function": {"name": "look"}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str | None, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    calls_of = {"tool_calls": list(calls)} if calls else {}
    return {"role": "assistant", "content": text, **calls_of, **fields}


def call(number: str, arguments: object) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": number, "function": {"name": "look", "arguments": text}}  # its type is known


def result(number: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": number, "content": text}


SYSTEM = {"role": "system", "content": "s1"}
# Each with the words that a prompt has, in this order.
HISTORIES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "several rounds": (
        [
            *(SYSTEM, user("u1"), said(None, call("call_a-1", {"x": "a1"}))),
            *(result("call_a-1", "r1"), said(None, call("b", {"x": "a2"})), result("b", "r2")),
            *(said("f1"), user("u2")),
        ],
        "s1 u1 a1 r1 a2 r2 f1 u2",
    ),
    "several calls": (
        [
            *(user("u1"), said(None, call("1", {"x": "a1"}), call("2", {"x": "a2"}))),
            *(result("2", "r2"), result("1", "r1")),
        ],
        "u1 a1 a2 r1 r2",
    ),
    "a call that has no result": (
        [
            *(user("u1"), said(None, call("1", {"x": "a1"}), call("2", {"x": "a2"}))),
            *(result("2", "r2"), user("u2")),
        ],
        "u1 a1 a2 r2 u2",
    ),
    "content beside calls": (
        [
            user("u1"),
            said("c1", call("7" * 40, {"x": "a1"}), reasoning="y1"),
            result("7" * 40, "r1"),
        ],
        "u1 c1 a1 r1",
    ),
    "malformed arguments": (
        [user("u1"), said(None, call("é", '{"x": "a1')), result("é", "r1")],
        "u1 a1 r1",
    ),
    "arguments that are a list": (
        [user("u1"), said(None, call("1", ["a1"])), result("1", "r1")],
        "u1 a1 r1",
    ),
    "no arguments": ([user("u1"), said("", call("1", "")), result("1", "r1")], "u1 look r1"),
    "a result of no call": ([user("u1"), said(None, call("1", {})), result("2", "r1")], "u1 r1"),
    "a result alone": ([user("u1"), result("2", "r1"), user("u2")], "u1 r1 u2"),
    "a user before a result": (
        [user("u1"), said(None, call("1", {"x": "a1"})), user("u2"), result("1", "r1")],
        "u1 a1 u2 r1",
    ),
    "an agent's words": (
        [
            *(user("u1"), said("c1", call("1", {"x": "a1"})), result("1", "r1")),
            *(said("f1"), user("u2")),
        ],
        "u1 c1 a1 r1 f1 u2",
    ),
    "instructions alone": ([SYSTEM], "s1"),
    "users": ([user("u1"), user("u2"), said("f1"), said("f2"), user("u3")], "u1 u2 f1 f2 u3"),
    "a user behind a result": (
        [SYSTEM, user("u1"), said(None, call("1", {})), result("1", "r1"), user("u2")],
        "s1 u1 r1 u2",
    ),
    "the assistant begins": ([said("f1"), user("u1")], "f1 u1"),
    "an empty answer": ([user("u1"), said(None), user("u2")], "u1 u2"),
    "late instructions": ([user("u1"), said("f1"), SYSTEM, user("u2")], "u1 f1 s1 u2"),
}


@pytest.mark.parametrize("name", PICKY)
@pytest.mark.parametrize("history", HISTORIES)
def test_nothing_of_a_history_is_lost(name: str, history: str) -> None:
    messages, words = HISTORIES[history]
    fields = {"model": "m", "messages": messages, "tools": TOOLS, "functions": None}
    request = ChatRequest.model_validate(fields)
    template = ChatTemplate(PICKY[name], "", "</s>", SPECIAL_TOKENS)
    (prompt,) = chat_prompts(request, template)
    text = "".join(piece for piece, _ in prompt.pieces)
    assert "look" in text
    wanted = words.split()
    if history == "several calls":  # in any order, but each result behind its call
        assert all(text.rindex(f"r{n}") > text.index(f"a{n}") for n in "12")
    elif history == "a user before a result":
        assert text.rindex("u1") < text.rindex("a1") < min(map(text.rindex, ("u2", "r1")))
    else:
        places = [text.rindex(word) for word in wanted]
        assert places == sorted(places), text


SAID = {
    "beside a call": [said("c1", call("1", {"x": "a1"})), result("1", "r1")],
    "beside several": [
        *(said("c1", call("1", {"x": "a1"})), result("1", "r1")),
        *(said("c2", call("2", {"x": "a2"})), result("2", "r2")),
    ],
    "before one": [said("c1"), said(None, call("1", {"x": "a1"})), result("1", "r1")],
    "twice": [said("c1"), said("c2")],
}


@pytest.mark.parametrize("turn", SAID)
@pytest.mark.parametrize("behind", [[], [said("f1")], [said("f1"), user("u2")], [user("u2")]])
def test_a_turn_ends_once(turn: str, behind: list[dict[str, Any]]) -> None:
    messages = [user("u1"), *SAID[turn], *behind]
    pieces = prepare(ChatTemplate(ENDED, "", "", SPECIAL_TOKENS), messages, TOOLS).pieces
    text = "".join(piece for piece, _ in pieces)
    marks = re.findall(r"<\|turn>|<turn\|>", text)
    assert marks == ["<|turn>", "<turn|>"] * (len(marks) // 2) + ["<|turn>"], text
    wanted = set(re.findall(r'"([acfru]\d)"', json.dumps(messages).replace('\\"', '"')))
    assert all(text.count(word) == 1 for word in wanted), text
    assert behind or turn == "twice" or text.index("c1") < text.index("r1")


def test_calls_alone_have_no_empty_turn_behind_them() -> None:
    messages = [user("u1"), said(None, call("1", {})), result("1", "r1"), said("f1"), user("u2")]
    pieces = prepare(ChatTemplate(NOT_NONE, "", "", ()), messages).pieces
    assert "".join(text for text, _ in pieces) == (
        "<｜User｜>u1<｜Assistant｜>look<｜Tool｜>r1<｜Assistant｜>f1<｜User｜>u2"
    )


def test_content_and_a_call_are_turns_of_their_own_where_a_turn_has_one_of_them() -> None:
    messages = [user("u1"), said("c1", call("1", {"x": 1})), result("1", "r1"), said("f1")]
    pieces = prepare(ChatTemplate(NOT_BOTH, "", "", ()), messages).pieces
    assert "".join(text for text, _ in pieces) == (
        '<｜User｜>u1<｜Assistant｜>c1<｜Assistant｜>look{"x": 1}<｜Tool｜>r1<｜Assistant｜>f1'
    )


@pytest.mark.parametrize("source", [NOT_NONE, NOT_BOTH])
def test_who_says_nothing_has_no_turn(source: str) -> None:
    messages = [user("u1"), said(None), user("u2")]
    pieces = prepare(ChatTemplate(source, "", "", ()), messages).pieces
    assert "".join(text for text, _ in pieces) == "<｜User｜>u1<｜User｜>u2"


SHOWN = """
{%- for m in messages %}
{{- '<' + m.role + '>' + (m.tool_calls[0].function.name if m.tool_calls else '') }}
{%- for p in ([{'text': m.content}] if m.content is string else m.content) %}
{{- '<image>' if p.type == 'image' else p.text }}
{%- endfor %}
{%- endfor %}
"""


def shown(number: str, text: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text}, {"type": "image_url"}]
    return {"role": "tool", "tool_call_id": number, "content": content}


def test_pictures_go_with_their_results() -> None:
    calls = said(None, call("1", {}), call("2", {}))
    messages = [user("u1"), calls, shown("2", "r2"), shown("1", "r1")]
    prompt = prepare(ChatTemplate(SHOWN, "", "", ()), messages)
    assert "".join(text for text, _ in prompt.pieces) == (
        "<user>u1<assistant>look<tool>r1<image><assistant>look<tool>r2<image>"
    )
    assert prompt.pictures == [1, 0]


def test_a_template_of_parts_alone_takes_a_history_as_it_is() -> None:
    parts = SHOWN.replace(
        "[{'text': m.content}] if m.content is string else m.content", "m.content"
    )
    messages = [user("u1"), said(None, call("1", {})), result("1", "r1"), user("u2")]
    pieces = prepare(ChatTemplate(parts, "", "", ()), messages).pieces
    assert "".join(text for text, _ in pieces) == "<user>u1<assistant>look<tool>r1<user>u2"


@pytest.mark.parametrize("form", ["m.content", "m.content | tojson"])
def test_a_result_that_takes_no_pictures(form: str) -> None:
    source = f"{{% for m in messages %}}{{{{ m.role }}}}{{{{ {form} }}}}{{% endfor %}}"
    with pytest.raises(RunnerError, match="it takes no lists of parts, and so no pictures"):
        prepare(ChatTemplate(source, "", "", ()), [user("u1"), shown("1", "r1")])


@pytest.mark.parametrize("roles", ["", "{# 'developer' #}"])
def test_a_developer_that_a_template_does_not_write(roles: str) -> None:
    source = "{% for m in messages if m.role != 'developer' %}{{ m.role + m.content }}{% endfor %}"
    messages = [{"role": "developer", "content": "s1"}, user("u1")]
    pieces = prepare(ChatTemplate(source + roles, "", "", ()), messages).pieces
    assert "".join(piece for piece, _ in pieces) == "systems1useru1"


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("Use <think>here</think> and </think>.", "Use <think>here</think> and </think>."),
        (" <think>Hm</think>\nFour", "Four"),
        ("Hm</think>Four", "Four"),
        ("Use <think>.", "Use <think>."),
    ],
)
@pytest.mark.parametrize("special", [(), ("<think>", "</think>")])
def test_marks_of_reasoning_in_an_answer(content: str, kept: str, special: tuple[str, ...]) -> None:
    """Templates cut off reasoning where an answer begins with it; not what speaks of its marks."""
    source = """
{%- for m in messages %}
{%- set text = m.content if m.reasoning_content is string else m.content.split('</think>')[-1] %}
{{- '<' + m.role + '>' + text | trim }}
{%- endfor %}"""
    messages = [user("2 + 2?"), said(content), user("And?")]
    pieces = prepare(ChatTemplate(source, "", "", special), messages).pieces
    assert "".join(text for text, _ in pieces) == f"<user>2 + 2?<assistant>{kept}<user>And?"


def test_a_history_that_a_template_takes_is_not_changed() -> None:
    messages, _ = HISTORIES["users"]
    pieces = prepare(ChatTemplate(TEMPLATES["hermes"], "", "", ()), messages).pieces
    text = "".join(piece for piece, _ in pieces)
    assert text.count("<|im_start|>user\nu1<|im_end|>\n<|im_start|>user\nu2<|im_end|>") == 1


def test_one_change_is_made_where_one_is_enough() -> None:
    source = """
{%- for m in messages %}
{{- '<' + m.role + '>' + m.content }}
{%- for call in m.tool_calls or [] %}{{ call.function.name + call.function.arguments }}{% endfor %}
{%- endfor %}"""
    asked = [SYSTEM, user("u1"), user("u2"), said("c1", call("call_1", {"x": 1}))]
    messages = [*asked, result("call_1", "r1"), user("u3")]
    pieces = prepare(ChatTemplate(source, "", "", ()), messages).pieces
    assert "".join(piece for piece, _ in pieces) == (
        '<system>s1<user>u1<user>u2<assistant>c1look{"x": 1}<tool>r1<user>u3'
    )


def test_parameters_without_a_description() -> None:
    source = """
{%- for tool in tools %}{% for name, p in tool.function.parameters.properties.items() %}
{{- name + '(' + p.type + '): ' + p.description }}
{%- endfor %}{% endfor %}
{{- messages[0].content }}"""
    properties = {"x": {"type": "string"}, "y": {"type": "integer", "description": "deep"}}
    tool = {"name": "look", "parameters": {"type": "object", "properties": properties}}
    tools = [{"type": "function", "function": tool}]
    rendered = ChatTemplate(source, "", "", ()).render([user("u1")], tools)
    assert rendered.pieces == [("x(string): y(integer): deepu1", True)]


def test_what_no_change_mends_is_refused_as_it_was_at_first() -> None:
    template = ChatTemplate("{{ raise_exception('no ' ~ messages | length) }}", "", "", ())
    with pytest.raises(RunnerError, match="refuses the messages: no 5$"):
        prepare(template, HISTORIES["users"][0])
