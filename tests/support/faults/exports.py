"""Exports whose n-th call fails, or is where they are killed; run by tests/exporter/test_faults.py.

Arguments: the preloaded library, a folder, and CALL:N:KILLS for each export, N=0 for one that only
counts. Each is made by a fork of this process, which has imported what an export needs. Prints JSON
for each: the calls that were left, and the sentence of its error.
"""

import ctypes
import json
import os
import sys
import traceback
from pathlib import Path

import torch

from exporter.errors import ExportError
from exporter.options import ExportOptions
from exporter.pipeline import export_model
from quant.scheme import Scheme

KINDS = ("none", "write", "mmap", "malloc", "rename")
MANY = 1 << 40


def export(folder: Path) -> str:
    """The sentence of the error; "" if there is none."""
    options = ExportOptions("llama3", folder / "model.pte", scheme=Scheme("rtn4"))
    try:
        export_model(options)
    except ExportError as error:
        return str(error)
    except BaseException:  # told to the test, which takes only sentences of ours
        return traceback.format_exc()
    return ""


def main() -> None:
    library, folder = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    library.fault_disarm.restype = ctypes.c_long
    torch.set_num_threads(1)
    for case in sys.argv[3:]:
        call, n, kills = case.split(":")
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            count = ctypes.c_long(int(n) or MANY)
            library.fault_arm(KINDS.index(call), count, int(kills), os.fsencode(folder))
            said = export(folder)
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


if __name__ == "__main__":
    main()
