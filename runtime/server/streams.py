"""Several answers of one request, side by side."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from runtime.server.model import Answer, Model, RequestError
from runtime.server.model_process import More


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


async def merged(
    answers: Sequence[Answer], deadline: float
) -> AsyncIterator[tuple[int, More | None]]:
    """Iterates over what all of them generate, each with its index; None is an answer's end.

    Raises:
        TimeoutError: they have not ended at `deadline`, in the loop's time.
        ModelError: the model failed.
    """
    news: asyncio.Queue[tuple[int, More | Exception | None]] = asyncio.Queue()

    async def follow(index: int, answer: Answer) -> None:
        try:
            async for more in answer:
                news.put_nowait((index, more))
        except Exception as error:
            news.put_nowait((index, error))
        else:
            news.put_nowait((index, None))

    tasks = [asyncio.create_task(follow(*each)) for each in enumerate(answers)]
    left = len(tasks)
    try:
        while left:
            async with asyncio.timeout_at(deadline):
                index, event = await news.get()
            if isinstance(event, Exception):
                raise event
            left -= event is None
            yield index, event
    finally:
        for task in tasks:
            task.cancel()
