"""Several answers of one request, side by side."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from runtime.server.model import Answer, Model, RequestError
from runtime.server.model_process import More

_MOST_ENDING_S = 10.0  # in which an answer that is to end must do so


@asynccontextmanager
async def answers_to(
    model: Model, prompts: Sequence[Any], options: Sequence[dict[str, Any]], scored: bool = False
) -> AsyncIterator[list[Answer]]:
    """Starts an answer to each prompt, and ends those that are still at work on leaving.

    Raises:
        RunnerError: one of them is not possible; then none is at work.
    """
    if len(prompts) > model.places:
        raise RequestError(
            f"the request asks for {len(prompts)} answers, but the server runs and queues "
            f"{model.places} at most"
        )
    answers: list[Answer] = []
    try:
        for prompt, chosen in zip(prompts, options, strict=True):
            answers.append(await model.submit(prompt, chosen, scored))
        yield answers
    finally:
        for answer in answers:
            answer.close()


class Progress:
    """What several answers have generated and their reader has not taken.

    It is gathered whether the reader takes it or not, and joined: one who is behind gets more at
    once. An answer that is not complete at the deadline is ended then, also if nobody reads; what
    it has stays, and its statistics have the stop_reason "timeout".
    """

    def __init__(self, answers: Sequence[Answer], deadline: float) -> None:
        self._waiting: dict[int, list[More]] = {}
        self._ended: list[int] = []
        self._failure: Exception | None = None
        self._news = asyncio.Event()
        self._left = self._unbegun = len(answers)
        self._tasks = [
            asyncio.create_task(self._follow(index, answer, deadline))
            for index, answer in enumerate(answers)
        ]

    async def events(self) -> AsyncIterator[tuple[int, More | None]]:
        """Iterates over what is generated, each with the index of its answer; None is an end.

        Raises:
            TimeoutError: none of the answers had begun at the deadline.
            ModelError: the model failed.
        """
        while self._left:
            await self._news.wait()
            self._news.clear()
            waiting, self._waiting = self._waiting, {}
            ended, self._ended = self._ended, []
            failure = self._failure
            for index, parts in waiting.items():
                yield index, _joined(parts)
            for index in ended:
                self._left -= 1
                yield index, None
            if failure is not None:
                raise failure

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _follow(self, index: int, answer: Answer, deadline: float) -> None:
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._gather(index, answer)
            except TimeoutError:
                answer.close()
                async with asyncio.timeout(_MOST_ENDING_S):
                    await self._gather(index, answer)
                if answer.stats.get("stop_reason") == "interrupted":
                    answer.stats["stop_reason"] = "timeout"
                if not answer.stats.get("generated_tokens"):
                    self._unbegun -= 1
                    if self._unbegun == 0:
                        raise
            self._ended.append(index)
        except Exception as error:
            answer.close()
            self._failure = error
        self._news.set()

    async def _gather(self, index: int, answer: Answer) -> None:
        async for more in answer:
            self._waiting.setdefault(index, []).append(more)
            self._news.set()


@asynccontextmanager
async def progress_of(answers: Sequence[Answer], deadline: float) -> AsyncIterator[Progress]:
    """Follows answers until it is left.

    Args:
        deadline: when they must be complete, in the loop's time.
    """
    progress = Progress(answers, deadline)
    try:
        yield progress
    finally:
        progress.close()


def _joined(parts: Sequence[More]) -> More:
    logprobs = [entry for part in parts for entry in part.logprobs]
    return More(parts[0].id, [piece for part in parts for piece in part.pieces], logprobs)
