"""A request in an Engine without a thread that waits for it: events and polls."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import Engine, Runner

PROMPTS = ("Once upon a time", "import os", "def add(a, b):", "x")


@pytest.fixture
def engine(embedded_cpu_pte: Path, cpp_build: Path) -> Iterator[Engine]:
    with Runner(embedded_cpu_pte, threads=1) as runner, Engine(runner, sequences=2) as engine:
        yield engine


async def read(engine: Engine, prompt: str, count: int) -> tuple[list[str], bool]:
    """The parts of an answer, and whether each event told of something."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    generation = engine.submit(
        prompt, count, logprobs=0, on_event=lambda: loop.call_soon_threadsafe(event.set)
    )
    parts, told, ended = [], True, False
    while not ended:
        await event.wait()
        event.clear()
        part, ended = generation.poll()
        parts.append(part)
        shown = b"".join(entry.data for entry in generation.logprobs)
        told = told and shown.startswith("".join(parts).encode())
    assert generation.stats is not None
    assert generation.poll() == ("", True)
    return parts, told


def test_asyncio_needs_no_threads(engine: Engine) -> None:
    expected = [engine.submit(prompt, 20).text() for prompt in PROMPTS]
    threads = threading.active_count()

    async def together() -> list[tuple[list[str], bool]]:
        found = await asyncio.gather(*(read(engine, prompt, 20) for prompt in PROMPTS))
        assert threading.active_count() == threads
        return list(found)

    found = asyncio.run(together())
    assert ["".join(parts) for parts, _ in found] == expected
    assert all(told for _, told in found)


def test_its_text_is_whole_whatever_was_taken(engine: Engine) -> None:
    expected = engine.submit("x", 20).text()
    generation = engine.submit("x", 20)
    assert next(iter(generation)) and generation.text() == expected
    assert "".join(generation) == "" and generation.poll() == ("", True)
    assert generation.text() == expected


def test_events_come_from_the_engines_thread(engine: Engine) -> None:
    names: list[str] = []
    generation = engine.submit(
        "x", 5, on_event=lambda: names.append(threading.current_thread().name)
    )
    pieces = list(generation)
    engine.close()  # after the last event
    assert set(names) == {"thimble-engine"}
    assert len(names) == len(pieces) + 1


def test_a_poll_does_not_wait(engine: Engine) -> None:
    long = engine.submit("Once upon a time", 400)
    begun, ended = long.poll()
    assert not ended
    long.cancel()
    text = long.text()
    assert text.startswith(begun)
    assert long.poll() == ("", True)
    assert long.text() == text
    assert engine.submit("Once upon a time", 400).text().startswith(text)


def test_iterating_again_yields_nothing_more(engine: Engine) -> None:
    generation = engine.submit("x", 5)
    pieces = list(generation)
    assert pieces and list(generation) == []
    assert generation.text() == "".join(pieces)
    partly = engine.submit("x", 9)
    first = next(iter(partly))
    assert first + "".join(partly) == engine.submit("x", 9).text()
