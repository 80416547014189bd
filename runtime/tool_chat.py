"""A conversation of any roles, with functions that the model may call."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Unpack

from runtime.answer_options import AnswerOptions, read_stops
from runtime.binding.c_arguments import constraint
from runtime.chat_format.calls import Event, Text, ToolCall
from runtime.chat_format.conversation import ToolChoice, prepare
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.chat_format.template import ChatTemplate
from runtime.engine import Engine
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.pictures import BLIND


class Reply:
    """An answer at work: iterating yields Text, Reasoning and ToolCall as they come, once.

    Attributes:
        generation: what generates it: `cancel()` ends it; `stats` has its statistics.
        events: those that came so far.
    """

    def __init__(self, generation: Generation, reader: Reader) -> None:
        self.generation = generation
        self.events: list[Event] = []
        self._reader = reader
        self._ended = False

    def __iter__(self) -> Iterator[Event]:
        """Iterates over what was not read yet.

        Raises:
            RunnerError: the model failed.
        """
        for piece in self.generation:
            yield from self._keep(self._reader.push(piece))
        if not self._ended:
            self._ended = True
            yield from self._keep(self._reader.finish())

    @property
    def text(self) -> str:
        """The answer itself, once it has ended."""
        self._read()
        return "".join(event.text for event in self.events if isinstance(event, Text))

    @property
    def calls(self) -> list[ToolCall]:
        """The functions that it calls, once it has ended."""
        self._read()
        return [event for event in self.events if isinstance(event, ToolCall)]

    def _read(self) -> None:
        for _ in self:
            pass

    def _keep(self, events: list[Event]) -> list[Event]:
        self.events += events
        return events


def _parts(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Iterates over the parts of messages that are pictures."""
    for message in messages:
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and part.get("type") in ("image", "image_url"):
                yield part


def _images(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The pictures of messages, in order.

    Raises:
        RunnerError: one is a URL.
    """
    parts = list(_parts(messages))
    if any("image" not in part for part in parts):
        raise RunnerError(
            "a picture of the messages is a URL: pass {'type': 'image', 'image': a path or bytes}"
        )
    return [part["image"] for part in parts]


def ask(
    engine: Engine,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: ToolChoice = "auto",
    parallel_tool_calls: bool = True,
    variables: Mapping[str, Any] | None = None,
    max_new_tokens: int | None = None,
    **options: Unpack[AnswerOptions],
) -> Reply:
    """Submits a conversation to an engine, in the form of the model's own chat template.

    Args:
        messages, tools: in OpenAI's form; of a model that sees, a part of a user's or a tool's
            message may be {"type": "image", "image": ...}, of what Runner.generate() takes.
        tool_choice: `auto`, `none`, `required`, or the name of the function that must be called,
            exactly once.
        variables: what else the template knows, such as `enable_thinking`.
        options: see AnswerOptions; the answer matches a constraint where it calls nothing. The
            texts of `stop` are looked for in the answer's text alone.

    Raises:
        RunnerError: the model has no chat template or refuses the messages, an option is not valid,
            or the engine's queue is full.
    """
    stored = engine.runner.chat_template
    if stored is None:
        raise RunnerError("the model's file has no chat template: export the model with it")
    template = ChatTemplate(**stored)
    if not engine.runner.sees and any(_parts(messages)):
        raise RunnerError(BLIND)
    choice, parallel = tool_choice, parallel_tool_calls
    json_schema = options.pop("json_schema", None)
    if isinstance(json_schema, str):
        try:
            json_schema = json.loads(json_schema)
        except ValueError as error:
            raise RunnerError(f"json_schema is not JSON: {error}") from None
    regex, texts = options.pop("regex", None), options.pop("choice", None)
    grammar = options.pop("grammar", None)
    constraint(json_schema, regex, texts, grammar)  # refuses several, and what is none
    prompt = prepare(
        template, messages, tools, choice, parallel, json_schema, variables, regex, texts, grammar
    )
    if prompt.grammar is not None:
        options["grammar"] = prompt.grammar
    reader, wanted = prompt.reader, None
    if stops := read_stops(options.pop("stop", None)):
        reader = StopReader(reader, stops)
        wanted = deepcopy(reader).wants
    images = _images(messages)
    tokens = engine.runner.encode_pieces(prompt.pieces, [images[n] for n in prompt.pictures])
    try:
        generation = engine.submit(
            tokens, max_new_tokens, special_apart=True, wanted=wanted, **options
        )
    except RunnerError as error:
        given = {"json_schema": json_schema, "regex": regex, "choice": texts, "grammar": grammar}
        name = next((name for name, value in given.items() if value is not None), "")
        raise RunnerError(prompt.explained(str(error), name)) from None
    return Reply(generation, reader)
