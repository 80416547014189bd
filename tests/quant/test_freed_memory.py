"""Freed memory is used again where there is no limit, and given back at the end."""

import json
import platform
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from quant.machine.freed_memory import reusing_freed_memory
from quant.machine.memory import resident

_BYTES = 1 << 27  # more than glibc ever keeps by itself
_FEW = 8  # page faults; huge pages, where the system makes them by itself, are 64
_TIMES = 16  # after some of which the heap has a place for it


def _page_faults() -> int:
    """Returns the fewest that a new tensor took, of some that are freed at once."""
    fewest = _BYTES
    for _ in range(_TIMES):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.zeros(_BYTES // 4).add_(1)
        fewest = min(fewest, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return fewest


def main() -> None:
    """Prints what a new process finds: the heap of this one has a past."""
    with reusing_freed_memory(1 << 40):
        limited = _page_faults()
    with reusing_freed_memory(None):
        reusing, kept = _page_faults(), resident()
    print(json.dumps([limited, reusing, kept - resident()]))


@pytest.mark.check
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone is told what to keep")
def test_a_tensor_is_written_to_the_memory_of_another() -> None:
    result = subprocess.run([sys.executable, __file__], capture_output=True, check=True)
    limited, reusing, given_back = json.loads(result.stdout)
    assert limited >= _FEW > reusing
    assert given_back > _BYTES // 2


def test_threads_find_room_for_large_tensors() -> None:
    """Beyond 64 MB, glibc has to look outside the heap of a thread."""
    with reusing_freed_memory(None), ThreadPoolExecutor(2) as pool:
        ones = list(pool.map(lambda _: torch.ones(_BYTES // 4), range(2)))
    assert [float(x[-1]) for x in ones] == [1, 1]


if __name__ == "__main__":
    main()
