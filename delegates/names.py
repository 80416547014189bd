"""Names of weights as people know them."""

import re


def shown_name(name: str) -> str:
    """A weight's name without what torch.export adds for a tensor of several parts."""
    return re.sub(r"parametrizations\.(\w+)\.original\d+$", r"\1", name)
