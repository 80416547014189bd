"""Reduces a chat template to literal text, by rendering probe conversations.

Each message of a probe is a word that does not occur in the template. The text between two such
words is the template's own. Words padded with white space then show what is stripped.
"""

import jinja2

from exporter.chat_template.form import Form, Place, Rule, Strip, place_messages
from runtime.chat_format.environment import Messages, Render

# The numbers of messages of the probes; each probe ends with a user's message.
PROBES = (1, 3, 5, 7, 9)
_LEFT_PROBE = "\n \t"
_RIGHT_PROBE = "\t \n"
_LEFT_REMAINDERS = {"": Strip.WHITE_SPACE, " \t": Strip.NEWLINES, _LEFT_PROBE: Strip.NOTHING}
_RIGHT_REMAINDERS = {"": Strip.WHITE_SPACE, "\t ": Strip.NEWLINES, _RIGHT_PROBE: Strip.NOTHING}
_THOUGHT_END = "</think>"
_THOUGHT = "<think>\nqzthoughtqz\n" + _THOUGHT_END + "\n\n"


class IrreducibleError(Exception):
    """Why a template cannot be reduced, as the end of a sentence."""


def reduce_form(render: Render, with_system: bool) -> Form | None:
    """Reduces a template for conversations with, or without, a system message.

    Returns:
        The form; None if the template refuses every such conversation.

    Raises:
        IrreducibleError: it renders them, but not as literal text around the contents.
    """
    probe = conversation(1, with_system)
    try:
        render(probe, True)
    except jinja2.TemplateError:
        return None
    form = Form(system_before_last_user=with_system and _system_stands_last(render))
    for turns in PROBES:
        messages = conversation(turns, with_system)
        for add_generation_prompt in (False, True):
            _add_edges(form, render, messages, add_generation_prompt)
    _add_rules(form, render, with_system)
    return form


def conversation(turns: int, with_system: bool) -> Messages:
    """Returns a conversation of words that occur in no template."""
    messages = [{"role": "system", "content": "qzsystemqz"}] if with_system else []
    for turn in range(turns):
        role = "assistant" if turn % 2 else "user"
        messages.append({"role": role, "content": f"qz{role}{turn}qz"})
    return messages


def _system_stands_last(render: Render) -> bool:
    messages = conversation(3, with_system=True)
    text = render(messages, False)
    return text.find(messages[0]["content"]) > text.find(messages[1]["content"])


def _add_edges(form: Form, render: Render, messages: Messages, add_generation_prompt: bool) -> None:
    text = render(messages, add_generation_prompt)
    places = place_messages(messages, add_generation_prompt, form.system_before_last_user)
    edges: dict[tuple[Place, Place], str] = {}
    for (place, _), (following, content) in zip(places, places[1:], strict=False):
        gap, word, text = text.partition(content) if content else (text, "", "")
        if word != content or content and content in text:
            raise IrreducibleError("it repeats, drops or moves a message")
        if edges.setdefault((place, following), gap) != gap:
            raise IrreducibleError("its rendering of a turn depends on the turn's number")
    for edge, gap in edges.items():
        if form.edges.setdefault(edge, gap) != gap:
            raise IrreducibleError(
                "its rendering of a turn depends on the length of the conversation"
            )


def _add_rules(form: Form, render: Render, with_system: bool) -> None:
    """Finds out for each place how white space around the content and a thought are rendered."""
    for turns in PROBES[:3]:
        messages = conversation(turns, with_system)
        places = place_messages(messages, False, form.system_before_last_user)
        for index in range(1, len(places) - 1):
            place, word = places[index]
            if place in form.rules:
                continue
            rule = _rule(form, places, index, *_around(render, messages, word))
            if place is Place.ASSISTANT:
                rule = _with_thought(rule, render, messages, word)
            form.rules[place] = rule


def _pairs(places: list[tuple[Place, str]]) -> list[tuple[Place, Place]]:
    return [(a[0], b[0]) for a, b in zip(places, places[1:], strict=False)]


def _around(render: Render, messages: Messages, word: str) -> tuple[str, str]:
    text = render(_replace(messages, word, _LEFT_PROBE + word + _RIGHT_PROBE), False)
    before, _, after = text.partition(word)
    return before, after


def _rule(form: Form, places: list[tuple[Place, str]], index: int, before: str, after: str) -> Rule:
    # Neighbours are single words, which no rule changes.
    pairs = _pairs(places)
    expected_before = "".join(
        form.edges[pair] + places[at + 1][1] for at, pair in enumerate(pairs[: index - 1])
    )
    expected_before += form.edges[pairs[index - 1]]
    expected_after = form.edges[pairs[index]] + "".join(
        places[index + 1 + at][1] + form.edges[pair] for at, pair in enumerate(pairs[index + 1 :])
    )
    left = _LEFT_REMAINDERS.get(before.removeprefix(expected_before))
    right = _RIGHT_REMAINDERS.get(after.removesuffix(expected_after))
    if left is None or right is None:
        raise IrreducibleError("it changes white space around a message in an unsupported way")
    return Rule(left, right)


def _with_thought(rule: Rule, render: Render, messages: Messages, word: str) -> Rule:
    """Returns the rule of an assistant's place; sets `behind` if the template drops thoughts."""
    text = render(_replace(messages, word, _THOUGHT + word), False)
    if text == render(messages, False):
        return Rule(rule.strip_left, rule.strip_right, behind=_THOUGHT_END)
    return rule


def _replace(messages: Messages, word: str, content: str) -> Messages:
    return [
        {**message, "content": content} if message["content"] == word else message
        for message in messages
    ]
