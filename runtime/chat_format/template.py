"""Renders a conversation with the model's own chat template."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jinja2

from runtime.chat_format.environment import Messages, load_template
from runtime.chat_format.formats import find_format
from runtime.chat_format.mends import attempts, has_all
from runtime.chat_format.placement import place_calls, place_functions
from runtime.chat_format.special_tokens import SpecialTokens
from runtime.errors import RunnerError

# A part of a prompt, and whether it may contain special tokens: text of messages may not.
Piece = tuple[str, bool]

# What the template gets from elsewhere.
_RESERVED = {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}

# Code points that Unicode reserves for the inside of programs.
_NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0)]


def takes_tools(source: str) -> bool:
    """Whether a template has a place for functions."""
    return re.search(r"\btools\b", source) is not None


class ChatTemplate:
    """A jinja2 chat template, rendered as `transformers` does.

    Special tokens in messages and tools stay plain text: a message cannot end its own turn.

    Args:
        source: the template.
        bos_token, eos_token: what it calls by these names; None: they are undefined in it.
        special_tokens: the texts of the tokenizer's special tokens.
        tokens: what it calls by other names, such as `unk_token`.

    Raises:
        RunnerError: `source` is not a template.
    """

    def __init__(
        self,
        source: str,
        bos_token: str | None,
        eos_token: str | None,
        special_tokens: Iterable[str],
        tokens: Mapping[str, str] | None = None,
    ) -> None:
        self.source = source
        self.special = SpecialTokens(list(special_tokens), source)
        ends = {"bos_token": bos_token, "eos_token": eos_token}
        named = {name: token for name, token in ends.items() if token is not None}
        try:
            self._render = load_template(source, {**named, **(tokens or {})}, has_clock=True)
        except jinja2.TemplateError as error:
            raise RunnerError(f"the model's chat template is not valid: {error}") from None

    @property
    def takes_tools(self) -> bool:
        return takes_tools(self.source)

    def render(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> list[Piece]:
        """Returns the conversation up to where the model's answer begins.

        A history that the template refuses, or drops a part of, is changed as little as it needs:
        ids, neighbours of one role, content beside calls.

        Args:
            messages: as runtime.chat_format.messages.prepare_messages() returns them.
            tools: the functions that the model may call, in OpenAI's form; None: none.
            variables: what else the template knows, such as `enable_thinking`.

        Raises:
            RunnerError: the template refuses them.
        """
        taken = _RESERVED & set(variables or {})
        if taken:
            raise RunnerError(f"{min(taken)} is no variable of a chat template: it has a field")
        marks = _unused_characters(messages, tools)
        marked, functions = self._marked(messages, marks), self._marked(tools or [], marks)
        rendered, refusal = None, None
        for n, (history, known) in enumerate(attempts(marked, functions, self.source)):
            given = {**(variables or {}), "tools": known if known or n > 0 else None}
            try:
                text = self._render(self._placed(history, known), True, **given)
            except jinja2.TemplateError as error:
                refusal = refusal or re.sub(f"[{marks}]", "", str(error)) or type(error).__name__
                continue
            rendered = text if rendered is None else rendered
            if has_all(text, marked, functions):
                rendered = text
                break
        if rendered is None:
            raise RunnerError(f"the model's chat template refuses the messages: {refusal}")
        return list(_pieces(rendered, marks))

    def _placed(self, messages: Messages, tools: Sequence[Mapping[str, Any]]) -> Messages:
        """The messages with what the template does not write of functions and calls."""
        if tools:
            messages = place_functions(messages, tools, self.source)
        return place_calls(messages, self.source, find_format(self.source, self.special.texts))

    def _marked(self, value: Any, marks: str) -> Any:
        """Puts the two marks around each special token in the strings of `value`."""
        if isinstance(value, str):
            return self.special.pattern.sub(lambda match: marks[0] + match[0] + marks[1], value)
        if isinstance(value, Mapping):
            return {self._marked(key, marks): self._marked(value[key], marks) for key in value}
        if isinstance(value, list | tuple):
            return [self._marked(item, marks) for item in value]
        return value


def _unused_characters(*values: object) -> str:
    """Returns two characters that occur in none of the values.

    Raises:
        RunnerError: there are none.
    """
    text = json.dumps(values, ensure_ascii=False, default=str)
    unused = [character for character in _NONCHARACTERS if character not in text][:2]
    if len(unused) < 2:
        raise RunnerError("the messages contain all of the code points U+FDD0 to U+FDEF")
    return "".join(unused)


def _pieces(text: str, marks: str) -> Iterator[Piece]:
    for index, part in enumerate(re.split(f"{marks[0]}([^{marks}]*){marks[1]}", text)):
        # A mark is alone where the template cut a text.
        if part := re.sub(f"[{marks}]", "", part):
            yield part, index % 2 == 0
