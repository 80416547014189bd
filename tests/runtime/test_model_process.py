"""The process of the server's model, here as a thread: what it tells, and in what order."""

import subprocess
import sys
import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from support.servers import wait_for

from runtime.engine import Engine
from runtime.errors import RunnerError
from runtime.generation import Generation
from runtime.server import model_process
from runtime.server.model_process import (
    Accepted,
    Ended,
    ModelOptions,
    More,
    Ready,
    Submit,
    run_model,
)

STARTED: list[Generation] = []
LONGEST = 120  # seconds for an event; what hangs fails


class LateAccepted(Accepted):
    """Is made only when the answer is complete."""

    def __init__(self, id: int, scores: list[Any]) -> None:
        wait_for(lambda: STARTED[-1].stats is not None)
        super().__init__(id, scores)


def fail(_piece: str) -> bool:
    raise RunnerError("it failed")


def events_of(pte: Path, request: Submit) -> list[Any]:
    """What a model tells of a request, to its end."""
    here, there = Pipe()
    work = threading.Thread(target=run_model, args=(there, ModelOptions(pte, 1)))
    work.start()
    assert isinstance(here.recv(), Ready)
    here.send(request)
    events: list[Any] = []
    while not (events and isinstance(events[-1], Ended)):
        assert here.poll(LONGEST), events
        events.append(here.recv())
    here.send(None)
    work.join()
    return events


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is faster than the thread that started it."""
    submit = Engine.submit

    def start(engine: Engine, *arguments: Any, **options: Any) -> Generation:
        STARTED.append(submit(engine, *arguments, **options))
        return STARTED[-1]

    monkeypatch.setattr(Engine, "submit", start)
    monkeypatch.setattr(model_process, "Accepted", LateAccepted)


@pytest.mark.parametrize("scored", [False, True])
def test_that_a_request_is_accepted_comes_first(
    cpp_build: Path, embedded_cpu_pte: Path, late: None, scored: bool
) -> None:
    options = {"max_new_tokens": 20, "logprobs": 1, "temperature": 0.0}
    accepted, *more, ended = events_of(embedded_cpu_pte, Submit(1, "import os", options, scored))
    assert isinstance(accepted, Accepted) and bool(accepted.scores) == scored
    assert ended.stats["generated_tokens"] == 20
    assert all(isinstance(event, More) for event in more)
    assert sum(len(event.logprobs) for event in more) == 20


def test_an_answer_that_fails_before_it_is_accepted_has_its_end(
    cpp_build: Path, embedded_cpu_pte: Path, late: None
) -> None:
    """Its text and its error came before; an end that is not told would be waited for."""
    options = {"max_new_tokens": 20, "temperature": 0.0, "wanted": fail}
    accepted, more, ended = events_of(embedded_cpu_pte, Submit(1, "import os", options))
    assert isinstance(accepted, Accepted) and more.text and ended.failure == "it failed"


@pytest.mark.parametrize(
    "failing",
    [
        "threading.Thread(target=lambda: 1 / 0).start()",
        "_thread.start_new_thread(lambda: 1 / 0, ())",  # as a Thread that cannot begin
        "ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()",
    ],
)
def test_a_thread_or_callback_that_fails_ends_the_process(failing: str) -> None:
    """Else what waits for it would wait for ever; the server starts another process."""
    code = f"""
import _thread, ctypes, threading
from runtime.server.model_process import run_process

def run(connection, options):
    {failing}
    threading.Event().wait(600)

run_process(run, None, None)
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1 and "ZeroDivisionError" in ended.stderr
