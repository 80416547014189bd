"""Renders a conversation with the model's own chat template."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jinja2

from runtime.chat_format.environment import Messages, load_template
from runtime.chat_format.formats import find_format
from runtime.chat_format.mends import attempts, has_all
from runtime.chat_format.messages import PICTURE, PICTURE_MARK
from runtime.chat_format.placement import place_calls, place_functions
from runtime.chat_format.reasoning import reasoning_marks, spells_reasoning
from runtime.chat_format.special_tokens import SpecialTokens
from runtime.errors import RunnerError

# A part of a prompt, and whether it may contain special tokens: text of messages may not.
Piece = tuple[str, bool]

# What the template gets from elsewhere.
_RESERVED = {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}

# Code points that Unicode reserves for the inside of programs.
_NONCHARACTERS = [chr(code) for code in range(0xFDD0, 0xFDF0) if chr(code) != PICTURE_MARK]
_TYPE_OF_A_PART = re.compile(r"""\[['"]type['"]\]|\.type\b""")


def takes_tools(source: str) -> bool:
    """Whether a template has a place for functions."""
    return re.search(r"\btools\b", source) is not None


@dataclass(frozen=True)
class Rendered:
    """A conversation in a model's form.

    Attributes:
        pieces: its text.
        pictures: the numbers of its pictures, in the order in which they stand in it.
    """

    pieces: list[Piece]
    pictures: list[int]


class ChatTemplate:
    """A jinja2 chat template, rendered as `transformers` does.

    Special tokens in messages and tools stay plain text: a message cannot end its own turn.

    Args:
        source: the template.
        bos_token, eos_token: what it calls by these names; None: they are undefined in it.
        special_tokens: the texts of the tokenizer's special tokens.
        tokens: what it calls by other names, such as `unk_token`.
        tool_source: the template that takes its place where functions are given; None: itself.

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
        tool_source: str | None = None,
    ) -> None:
        self.source = source
        self.special = SpecialTokens(list(special_tokens), source)
        self._tool_source = tool_source
        self._of_source = partial(
            ChatTemplate,
            bos_token=bos_token,
            eos_token=eos_token,
            special_tokens=self.special.texts,
            tokens=tokens,
        )
        ends = {"bos_token": bos_token, "eos_token": eos_token}
        named = {name: token for name, token in ends.items() if token is not None}
        try:
            self._render = load_template(source, {**named, **(tokens or {})}, has_clock=True)
        except jinja2.TemplateError as error:
            raise RunnerError(f"the model's chat template is not valid: {error}") from None

    @cached_property
    def with_tools(self) -> "ChatTemplate":
        """The template of conversations in which functions are given.

        Raises:
            RunnerError: it is not a template.
        """
        return self if self._tool_source is None else self._of_source(self._tool_source)

    @property
    def takes_tools(self) -> bool:
        return takes_tools(self.source)

    def render(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Rendered:
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
        marked = [self._marked_message(message, marks) for message in messages]
        functions = self._marked(tools or [], marks)
        rendered: tuple[str, Messages] | None = None
        refusal = None
        ways = (
            (history, known, all_parts)
            for history, known in attempts(marked, functions, self.source)
            for all_parts in self._forms()
        )
        for history, known, all_parts in ways:
            given = {**(variables or {}), "tools": known}
            try:
                placed = _as_parts(self._placed(history, known), all_parts, 2 * marks[0])
                text = self._render(placed, True, **given)
            except jinja2.TemplateError as error:
                refusal = refusal or re.sub(f"[{marks}]", "", str(error)) or type(error).__name__
                continue
            written = any(mark.encode("unicode_escape").decode() in text for mark in marks)
            if written or 2 * marks[0] in text:
                refusal = refusal or "it takes no lists of parts, and so no pictures"
                continue  # it wrote a list as Python or JSON, where special tokens have no marks
            if has_all(text, marked, functions):
                rendered = text, history
                break
            rendered = rendered or (text, history)
        if rendered is None:
            raise RunnerError(f"the model's chat template refuses the messages: {refusal}")
        text, history = rendered
        pictures = [n for message in history for n in PICTURE.findall(message["content"] or "")]
        return Rendered(list(_pieces(text, marks)), [int(n) for n in pictures])

    def _forms(self) -> tuple[bool, ...]:
        """Whether each content is a list of parts: only those with pictures are, or all, which
        templates may need that tell parts by their types."""
        return (False, True) if _TYPE_OF_A_PART.search(self.source) else (False,)

    def _placed(self, messages: Messages, tools: Sequence[Mapping[str, Any]] | None) -> Messages:
        """The messages with what the template does not write of functions and calls."""
        if tools:
            messages = place_functions(messages, tools, self.source)
        return place_calls(messages, self.source, find_format(self.source, self.special.texts))

    def _marked_message(self, message: Mapping[str, Any], marks: str) -> dict[str, Any]:
        """The message with marks, but for those tokens at which the assistant's reasoning begins
        and ends: templates look for what is around them."""
        content = message["content"]
        marked: dict[str, Any] = self._marked(message, marks)
        reasoning = reasoning_marks(self.source) or ("", "")
        has_end = message["role"] == "assistant" and bool(reasoning[1]) and reasoning[1] in content
        if has_end and not spells_reasoning(content):
            tokens = self.special.pattern.findall("".join(reasoning))
            marked["content"] = self._marked(content, marks, tokens)
        return marked

    def _marked(self, value: Any, marks: str, but: Sequence[str] = ()) -> Any:
        """Puts the two marks around each special token in the strings of `value`, but for some."""
        if isinstance(value, str):
            return self.special.pattern.sub(
                lambda match: match[0] if match[0] in but else marks[0] + match[0] + marks[1], value
            )
        if isinstance(value, Mapping):
            return {self._marked(key, marks): self._marked(value[key], marks) for key in value}
        if isinstance(value, list | tuple):
            return [self._marked(item, marks) for item in value]
        return value


def _as_parts(messages: Messages, all_parts: bool, mark: str) -> Messages:
    """Returns the messages with contents that have pictures as lists of parts. The mark in a
    picture's part shows where a template wrote the whole list."""

    def parts(content: str) -> Iterator[dict[str, str]]:
        for index, text in enumerate(PICTURE.split(content)):
            if index % 2:
                yield {"type": "image", "mark": mark}
            elif text or content == "":
                yield {"type": "text", "text": text}

    def is_listed(message: Mapping[str, Any]) -> bool:
        content = message["content"]
        return isinstance(content, str) and (all_parts or PICTURE_MARK in content)

    return [
        {**message, "content": list(parts(message["content"]))} if is_listed(message) else message
        for message in messages
    ]


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
