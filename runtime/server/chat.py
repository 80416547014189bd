"""A conversation in OpenAI's form, and its answers."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from runtime.chat_format.calls import Event
from runtime.chat_format.conversation import Prompt, prepare
from runtime.chat_format.reader import Reader
from runtime.chat_format.stop_reader import StopReader
from runtime.chat_format.template import ChatTemplate
from runtime.server.errors import HttpError
from runtime.server.interface import OPENAI
from runtime.server.model import Answer
from runtime.server.older_functions import in_todays_form
from runtime.server.replies import ChatChoice, Reply, chat_logprobs, guessed, usage
from runtime.server.requests import ChatRequest, NamedTool
from runtime.server.scored_reader import ScoredReader


def check_results(messages: Iterable[dict[str, Any]], place: str) -> None:
    """
    Args:
        messages: of chat completions, from another interface.
        place: where they are in its requests.

    Raises:
        HttpError: a result is of a call that is not there, so that a part of the conversation is
            missing.
    """
    made: set[str] = set()
    for message in messages:
        made |= {call["id"] for call in message.get("tool_calls", ())}
        answered = message.get("tool_call_id")
        if answered is not None and answered not in made:
            raise HttpError(
                400,
                f"the result of {answered!r} has no call before it: send the whole conversation",
                place,
            )


def chat_prompts(request: ChatRequest, template: ChatTemplate) -> list[Prompt]:
    """Returns the prompt of each of the request's answers, with a reader of its own.

    Raises:
        RunnerError: the template refuses the messages, or a function is not valid.
    """
    tools, choice = request.offered
    constraint = request.constraint
    variables = dict(request.chat_template_kwargs or {})
    if request.reasoning_effort is not None:
        variables.setdefault("reasoning_effort", request.reasoning_effort)
        variables.setdefault("enable_thinking", request.reasoning_effort != "none")
    parallel = False if request.functions else request.parallel_tool_calls
    messages = [message.model_dump(exclude_none=True) for message in request.messages]
    return [
        prepare(
            template,
            in_todays_form(messages),
            tools=[tool.model_dump(exclude_none=True) for tool in tools],
            tool_choice=choice.model_dump() if isinstance(choice, NamedTool) else choice,
            parallel_tool_calls=True if parallel is None else parallel,
            variables=variables,
            **({constraint.kind: constraint.value} if constraint else {}),
        )
        for _ in range(request.n or 1)
    ]


def chat_options(
    request: ChatRequest,
    prompts: Sequence[Prompt],
    readers: Sequence[Reader],
    most_tokens: int | None,
    relax: bool,
) -> list[dict[str, Any]]:
    """Returns the options of each answer; one after the first has the seeds that follow."""
    options = request.options() | {"special_apart": True}
    options.pop("stop", None)  # the reader's, which knows what is content
    if request.prediction is not None:
        options["prediction"] = request.prediction.text()
    if request.logprobs:
        options["logprobs"] = request.top_logprobs or 0
    limits = [n for n in (request.max_new_tokens(), most_tokens) if n is not None]
    if limits:
        options["max_new_tokens"] = min(limits)
    per_answer = []
    for index, (prompt, reader) in enumerate(zip(prompts, readers, strict=True)):
        own = dict(options)
        if isinstance(reader, StopReader):
            own["wanted"] = reader.wants
        if "seed" in own:
            own["seed"] = (own["seed"] + index) % 2**64
        if prompt.grammar is not None:
            own["grammar"] = prompt.grammar
            own["schema_unsupported"] = "relax" if relax else "refuse"
        per_answer.append(own)
    return per_answer


class ChatAnswers:
    """The answers of a request as OpenAI's objects."""

    def __init__(
        self,
        request: ChatRequest,
        prompts: Sequence[Prompt],
        readers: Sequence[Reader],
        reply: Reply,
    ) -> None:
        self._request = request
        self._prompts = prompts
        self._readers = [ScoredReader(reader, bool(request.logprobs)) for reader in readers]
        older = bool(request.functions)
        self._choices = [ChatChoice(index, older) for index in range(len(readers))]
        self._reply = reply

    async def whole(
        self, answers: Sequence[Answer], events: AsyncIterator[tuple[int, Any]]
    ) -> dict[str, Any]:
        async for index, more in events:
            for event in self._read(index, more):
                self._choices[index].add(event)
        wants_logprobs = bool(self._request.logprobs)
        choices = [
            choice.whole(answer.stats, wants_logprobs)
            for choice, answer in zip(self._choices, answers, strict=True)
        ]
        return {**self._reply.whole(choices, self._usage(answers)), **self._remarks(answers)}

    async def chunks(
        self, answers: Sequence[Answer], events: AsyncIterator[tuple[int, Any]]
    ) -> AsyncIterator[dict[str, Any]]:
        for choice in self._choices:
            yield self._chunk(choice.index, {"role": "assistant", "content": ""})
        async for index, more in events:
            for event in self._read(index, more):
                yield self._chunk(index, self._choices[index].add(event))
            if more is None:
                reason = self._choices[index].finish_reason(answers[index].stats)
                yield {**self._chunk(index, {}, reason), **self._remarks([answers[index]])}
        options = self._request.stream_options
        if options is not None and options.include_usage:
            yield self._reply.chunk([], self._usage(answers))

    def failed(self, error: HttpError) -> dict[str, Any]:
        return error.body()

    def _usage(self, answers: Sequence[Answer]) -> dict[str, Any]:
        stats = [answer.stats for answer in answers]
        predicted = self._request.prediction is not None
        return usage(stats, self._request.n or 1) | (guessed(stats) if predicted else {})

    def _remarks(self, answers: Sequence[Answer]) -> dict[str, Any]:
        return OPENAI.remarks([answer.stats for answer in answers], self._prompts)

    def _read(self, index: int, more: Any) -> Iterator[Event]:
        choice, scored = self._choices[index], self._readers[index]
        for event in scored.read(more):
            choice.logprobs += chat_logprobs(scored.take_logprobs())
            yield event
        if more is None:
            choice.stopped = isinstance(scored.reader, StopReader) and scored.reader.stopped
        choice.logprobs += chat_logprobs(scored.take_logprobs())

    def _chunk(
        self, index: int, delta: dict[str, Any], reason: str | None = None
    ) -> dict[str, Any]:
        choice = self._choices[index]
        logprobs = None
        if self._request.logprobs and choice.logprobs:
            logprobs, choice.logprobs = {"content": choice.logprobs, "refusal": None}, []
        part = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return self._reply.chunk([part])


def chat_readers(request: ChatRequest, prompts: Sequence[Prompt]) -> list[Reader]:
    """Returns the reader of each answer, which ends at the request's stop texts."""
    stops = request.stops()
    return [StopReader(p.reader, stops) if stops else p.reader for p in prompts]


def need_template(template: ChatTemplate | None) -> ChatTemplate:
    if template is None:
        raise HttpError(
            400,
            "the model's file has no chat template: use /v1/completions or /api/generate, or "
            "export the model again with its template",
        )
    return template
