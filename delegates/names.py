"""Names of weights as people know them."""

import re


def shown_name(name: str) -> str:
    """A weight's name without what a tensor of several parts adds: its integers are `.values`."""
    name = re.sub(r"parametrizations\.(\w+)\.original\d+$", r"\1", name)
    return re.sub(r"\.values$", ".weight", name)
