"""The oldest Linux that a wheel's programs run on, as a tag that pip reads (PEP 600)."""

import re
import sysconfig
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

_NEEDED = re.compile(rb"\0(?=(GLIBC|GLIBCXX)_([0-9.]+|ABI_DT_RELR)\0)")
_LEAST = 17  # of manylinux2014, which pip has known since glibc was that old
_RELATIVE = 36  # the first glibc 2.x with ABI_DT_RELR
# Versions of libstdc++, and the first glibc 2.x of the systems that have each: of auditwheel.
_LIBSTDCXX = {
    (3, 4, 19): 17,
    (3, 4, 22): 24,
    (3, 4, 24): 27,
    (3, 4, 28): 31,
    (3, 4, 29): 34,
    (3, 4, 30): 35,
    (3, 4, 33): 39,
}


def platform_tag(programs: Iterable[Path], platform: str | None = None) -> str:
    """The tag of a wheel with these ELF files: `manylinux_2_N_MACHINE`, where glibc 2.N is the
    least that has the versions of symbols they need, and comes with such a libstdc++.

    Where a version is newer than those known here, or not of Linux: the platform's own tag.

    Args:
        platform: such as "linux-aarch64"; None: this machine's.
    """
    own = (platform or sysconfig.get_platform()).replace("-", "_").replace(".", "_")
    if not own.startswith("linux_"):
        return own
    least = least_glibc(found for path in programs for found in _NEEDED.findall(path.read_bytes()))
    return own if least is None else own.replace("linux", f"manylinux_2_{least}", 1)


def least_glibc(needed: Iterable[tuple[bytes, bytes]]) -> int | None:
    """N of the least glibc 2.N for versions such as (b"GLIBC", b"2.34"); None: it is not known."""
    least = _LEAST
    for library, version in needed:
        numbers = () if b"_" in version else tuple(map(int, version.split(b".")))
        if library == b"GLIBCXX":
            at = bisect_left(list(_LIBSTDCXX), numbers)
            if at == len(_LIBSTDCXX):
                return None
            least = max(least, list(_LIBSTDCXX.values())[at])
        elif not numbers:
            least = max(least, _RELATIVE)
        elif numbers[0] == 2:
            least = max(least, numbers[1])
        else:
            return None
    return least
