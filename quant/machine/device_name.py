"""Names of devices. Importing this module is fast: it does not import PyTorch."""

import re

from quant.errors import QuantError


def check_device_name(name: str) -> None:
    """Raises QuantError unless a name has the form of a device's; it need not exist."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise QuantError(
            f"--device {name!r} is not supported; it must be auto, cpu, cuda or cuda:N."
        )
