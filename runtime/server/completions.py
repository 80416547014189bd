"""POST /v1/completions."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from runtime.binding.logprobs import TokenLogprob
from runtime.server.errors import HttpError
from runtime.server.interface import OPENAI
from runtime.server.model import Answer
from runtime.server.replies import Offsets, Reply, completion_logprobs, finish_reason, usage
from runtime.server.requests import NO_LIMIT, CompletionRequest

_DEFAULT_TOKENS = 16


def completion_prompts(request: CompletionRequest) -> list[Any]:
    """Returns the prompt of each answer: `n` for each prompt of the request."""
    prompts = request.prompts()
    if any(not prompt and not isinstance(prompt, str) for prompt in prompts):
        raise HttpError(400, "prompt: a list of tokens is empty", "prompt")
    if request.echo and not all(isinstance(prompt, str) for prompt in prompts):
        if request.logprobs is None:
            raise HttpError(400, "echo of tokens needs logprobs", "echo")
    if request.max_tokens == 0 and not request.echo:
        raise HttpError(400, "max_tokens: 0 needs echo", "max_tokens")
    return [prompt for prompt in prompts for _ in range(request.n or 1)]


def completion_options(
    request: CompletionRequest, count: int, most_tokens: int | None, relax: bool
) -> list[dict[str, Any]]:
    options = request.options()
    wanted = _DEFAULT_TOKENS if request.max_tokens is None else request.max_tokens
    wants = [max(wanted, 1)] if wanted != NO_LIMIT else []
    limits = [*wants, *([] if most_tokens is None else [most_tokens])]
    if limits:
        options["max_new_tokens"] = min(limits)
    if request.constraint is not None:
        options[request.constraint.kind] = request.constraint.value
        options["schema_unsupported"] = "relax" if relax else "refuse"
    if request.logprobs is not None:
        options["logprobs"] = request.logprobs
    seed = options.get("seed")
    if seed is None:
        return [options] * count
    return [{**options, "seed": (seed + n % (request.n or 1)) % 2**64} for n in range(count)]


class CompletionAnswers:
    """The answers of a request as OpenAI's objects."""

    def __init__(self, request: CompletionRequest, prompts: Sequence[Any], reply: Reply) -> None:
        self._request = request
        self._prompts = prompts
        self._reply = reply
        self._texts = [""] * len(prompts)
        self._offsets = [Offsets() for _ in prompts]
        self._entries: list[list[TokenLogprob]] = [[] for _ in prompts]

    async def whole(
        self, answers: Sequence[Answer], events: AsyncIterator[tuple[int, Any]]
    ) -> dict[str, Any]:
        async for index, more in events:
            if more is not None:
                self._texts[index] += more.text
                self._entries[index] += more.logprobs
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        return {
            **self._reply.whole(choices, self._usage(answers)),
            **OPENAI.remarks([answer.stats for answer in answers], ()),
        }

    async def chunks(
        self, answers: Sequence[Answer], events: AsyncIterator[tuple[int, Any]]
    ) -> AsyncIterator[dict[str, Any]]:
        for index, answer in enumerate(answers if self._request.echo else ()):
            self._offsets[index] = Offsets(self._unseen(index, answer))
            yield self._chunk(index, self._echo(index, answer), answer.scores, None)
        async for index, more in events:
            if more is None:
                ended = self._chunk(index, "", [], self._reason(answers[index]))
                yield {**ended, **OPENAI.remarks([answers[index].stats], ())}
            elif not self._hides_answers:
                yield self._chunk(index, more.text, more.logprobs, None)
        options = self._request.stream_options
        if options is not None and options.include_usage:
            yield self._reply.chunk([], self._usage(answers))

    def failed(self, error: HttpError) -> dict[str, Any]:
        return error.body()

    @property
    def _hides_answers(self) -> bool:
        """Whether the one token that the engine makes at least is not asked for."""
        return self._request.max_tokens == 0

    def _reason(self, answer: Answer) -> str:
        return "length" if self._hides_answers else finish_reason(answer.stats)

    def _usage(self, answers: Sequence[Answer]) -> dict[str, Any]:
        all_stats = [answer.stats for answer in answers]
        if self._hides_answers:
            all_stats = [{**stats, "generated_tokens": 0} for stats in all_stats]
        return usage(all_stats, self._request.n or 1)

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        text, entries = self._texts[index], self._entries[index]
        if self._hides_answers:
            text, entries = "", []
        before = self._echo(index, answer) if self._request.echo else ""
        logprobs = None
        if self._request.logprobs is not None:
            offsets = Offsets(self._unseen(index, answer))
            logprobs = completion_logprobs([*answer.scores, *entries], offsets)
        return {
            "index": index,
            "text": before + text,
            "logprobs": logprobs,
            "finish_reason": self._reason(answer),
        }

    def _echo(self, index: int, answer: Answer) -> str:
        prompt = self._prompts[index]
        return prompt if isinstance(prompt, str) else _told(answer)

    def _unseen(self, index: int, answer: Answer) -> int:
        """How many characters the prompt's tokens have in front of it: BOS, and a space that a
        tokenizer adds."""
        prompt, text = self._prompts[index], _told(answer)
        return len(text) - len(prompt) if isinstance(prompt, str) and text.endswith(prompt) else 0

    def _chunk(
        self, index: int, text: str, entries: Sequence[TokenLogprob], reason: str | None
    ) -> dict[str, Any]:
        logprobs = None
        if self._request.logprobs is not None:
            logprobs = completion_logprobs(entries, self._offsets[index])
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        return self._reply.chunk([choice])


def _told(answer: Answer) -> str:
    """What the tokens of an answer's prompt say, where they are scored."""
    return b"".join(entry.data for entry in answer.scores).decode("utf-8", "replace")
