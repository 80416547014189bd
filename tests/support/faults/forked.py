"""Work whose n-th call fails, or is where the process is killed, each time in a fork of this one.

A script that does so gets as arguments the preloaded library, a folder, and CALL:N:KILLS for each
time, N=0 for one that only counts. It prints JSON for each: how the fork ended, the calls that were
left, and what the work returned.
"""

import ctypes
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

KINDS = ("none", "write", "mmap", "malloc", "rename")
MANY = 1 << 40


def run_forked(work: Callable[[Path], str]) -> None:
    """
    Args:
        work: gets the folder; returns the sentence of its error, "" if there is none.
    """
    library, folder = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    library.fault_disarm.restype = ctypes.c_long
    for case in sys.argv[3:]:
        call, n, kills = case.split(":")
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            count = ctypes.c_long(int(n) or MANY)
            library.fault_arm(KINDS.index(call), count, int(kills), os.fsencode(folder))
            try:
                said = work(folder)
            except BaseException:  # told to the test, which takes only sentences of ours
                said = traceback.format_exc()
            left = library.fault_disarm()
            os.write(sending, json.dumps([MANY - left if n == "0" else left, said]).encode())
            os._exit(0)
        os.close(sending)
        with os.fdopen(receiving, "rb") as pipe:
            told = pipe.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, *(json.loads(told) if told else [0, ""])]), flush=True)
        if call == "none":
            break
