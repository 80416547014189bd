"""Processes of a server's model, each a fork in which a call fails; run by
tests/runtime/test_server_faults.py.

Arguments: the preloaded library, a folder with model.pte, and CALL:N for each time, N=0 to count.
Prints JSON for each: the calls that were left, and what two requests were told: a text, a sentence
behind "refused: ", "died", or "hangs".
"""

import ctypes
import json
import os
import signal
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import numpy  # noqa: F401  (what loading a model imports anyway: the calls are those of the rest)
from forked import KINDS, MANY

from runtime.server.model_process import (
    Ended,
    ModelOptions,
    More,
    Ready,
    Refused,
    Submit,
    run_model,
    run_process,
)

PATIENCE = 60  # seconds
OPTIONS = {"max_new_tokens": 6, "temperature": 0.0, "regex": "[A-Za-z ,.]+"}


def main() -> None:
    library, folder = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    library.fault_disarm.restype = ctypes.c_long
    for case in sys.argv[3:]:
        call, number = case.split(":")
        here, there = Pipe()
        left, counted = Pipe()
        child = os.fork()
        if child == 0:
            here.close()
            library.fault_arm(KINDS.index(call), ctypes.c_long(int(number) or MANY), 0, b"")
            try:
                run_process(run_model, there, ModelOptions(folder / "model.pte", 1))
            finally:
                counted.send(library.fault_disarm())
                os._exit(0)
        there.close()
        counted.close()
        told = _ask(here)
        here.close()
        if "hangs" in told:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(json.dumps([_number(left, int(number)), told]), flush=True)


def _number(left: Connection, number: int) -> int:
    try:
        rest = left.recv()
    except EOFError:  # it died at the call
        return 0
    return MANY - rest if number == 0 else rest


def _ask(connection: Connection) -> list[str]:
    """What a loaded model answers to two requests, one after the other."""
    try:
        ready = _receive(connection)
        if not isinstance(ready, Ready):
            return [f"refused: {ready.reason}" if isinstance(ready, Refused) else str(ready)]
        said = []
        for number in (1, 2):
            connection.send(Submit(number, "Once upon", OPTIONS))
            said.append(_answer(connection))
        connection.send(None)
        return said
    except (EOFError, OSError):
        return ["died"]


def _answer(connection: Connection) -> str:
    text = ""
    while not isinstance(event := _receive(connection), Ended | Refused | str):
        text += event.text if isinstance(event, More) else ""
    if isinstance(event, str):
        return event
    failure = event.reason if isinstance(event, Refused) else event.failure
    return text if failure is None else f"refused: {failure}"


def _receive(connection: Connection) -> object:
    return connection.recv() if connection.poll(PATIENCE) else "hangs"


if __name__ == "__main__":
    main()
