"""Sizes as people write them: 6GB, 6G, 700MB."""

import re

from quant.errors import QuantError

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_size(text: str, where: str, instead: str = "") -> int:
    """Bytes of "6GB", "700 MB" or "1.5GiB".

    Args:
        where: the option or variable that holds it, for the message.
        instead: what else the user may have meant by a number without a unit, for the message.

    Raises:
        QuantError: it is not a size above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is not None and not match[2]:
        raise QuantError(
            f"{where} {text!r} has no unit; write a number and a unit, such as 5GB{instead}."
        )
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise QuantError(
            f"{where} {text!r} is not a valid size; write a number and kB, MB, GB, TB, KiB, MiB, "
            "GiB or TiB, such as 6GB."
        )
    size = int(float(match[1]) * unit)
    if size < 1:
        raise QuantError(f"{where} {text!r} is not a valid size; give one above 0, such as 6GB.")
    return size


def show_size(size: float) -> str:
    """Such as "4.2 GB", "0.9 MB"."""
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
