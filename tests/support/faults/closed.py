"""An engine that is closed while it answers, each time in a fork in which an allocation fails; run
by tests/runtime/test_server_faults.py.

Arguments: the preloaded library, a model, and a number for each time, 0 to count. Prints JSON for
each: how the process ended, the allocations that were left, and whether every request has ended.
"""

import ctypes
import json
import os
import sys
from multiprocessing import Pipe

import numpy  # noqa: F401  (what loading a model imports anyway: the calls are those of the rest)
from forked import KINDS, MANY

from runtime import Engine, Generation, Runner, RunnerError
from runtime.binding.library import library as thimble


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.fault_disarm.restype = ctypes.c_long
    for number in map(int, sys.argv[3:]):
        here, there = Pipe(duplex=False)
        child = os.fork()
        if child == 0:
            there.send(_close(library, number or MANY))
            os._exit(0)
        there.close()
        _, status = os.waitpid(child, 0)
        left, ended = here.recv() if here.poll() else (0, False)
        print(json.dumps([status, MANY - left if number == 0 else left, ended]), flush=True)


def _close(library: ctypes.CDLL, number: int) -> tuple[int, bool]:
    with Runner(sys.argv[2], threads=1) as runner:
        engine = Engine(runner, sequences=2)
        work = [engine.submit("Once", regex="[a-z .]{3000}") for _ in range(4)]  # two of them wait
        next(iter(work[0]))
        free, left = thimble().thimble_engine_free, []

        def armed(handle: int) -> None:
            library.fault_arm(KINDS.index("malloc"), ctypes.c_long(number), 0, b"")
            free(handle)
            left.append(library.fault_disarm())

        thimble().thimble_engine_free = armed
        engine.close()
        return left[0], all(map(_has_ended, work))


def _has_ended(generation: Generation) -> bool:
    try:
        return generation.poll()[1] or generation.poll()[1]  # an error comes after the text
    except RunnerError as error:
        return "not enough memory" in str(error)


if __name__ == "__main__":
    main()
