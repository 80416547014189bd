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


class LateAccepted(Accepted):
    """Is made only when the answer is complete."""

    def __init__(self, id: int, scores: list[Any]) -> None:
        wait_for(lambda: STARTED[-1].stats is not None)
        super().__init__(id, scores)


@pytest.mark.parametrize("scored", [False, True])
def test_that_a_request_is_accepted_comes_first(
    cpp_build: Path, embedded_cpu_pte: Path, monkeypatch: pytest.MonkeyPatch, scored: bool
) -> None:
    """Also where the engine is faster than the thread that started it."""
    submit = Engine.submit

    def start(engine: Engine, *arguments: Any, **options: Any) -> Generation:
        STARTED.append(submit(engine, *arguments, **options))
        return STARTED[-1]

    monkeypatch.setattr(Engine, "submit", start)
    monkeypatch.setattr(model_process, "Accepted", LateAccepted)
    here, there = Pipe()
    work = threading.Thread(target=run_model, args=(there, ModelOptions(embedded_cpu_pte, 1)))
    work.start()
    assert isinstance(here.recv(), Ready)
    options = {"max_new_tokens": 20, "logprobs": 1, "temperature": 0.0}
    here.send(Submit(1, "import os", options, scored))
    events = [here.recv()]
    while not isinstance(events[-1], Ended):
        events.append(here.recv())
    here.send(None)
    work.join()
    accepted, *more, ended = events
    assert isinstance(accepted, Accepted) and bool(accepted.scores) == scored
    assert ended.stats["generated_tokens"] == 20
    assert all(isinstance(event, More) for event in more)
    assert sum(len(event.logprobs) for event in more) == 20


def test_a_thread_that_fails_ends_the_process() -> None:
    """Else what waits for it would wait for ever; the server starts another process."""
    code = """
import threading
from runtime.server.model_process import run_process

def run(connection, options):
    threading.Thread(target=lambda: 1 / 0).start()
    threading.Event().wait(600)

run_process(run, None, None)
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1 and "ZeroDivisionError" in ended.stderr
