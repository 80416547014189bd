"""How long PyTorch's threads wait for each other before they sleep."""

import os

# Times that a thread looks whether the others are done: what GCC's OpenMP itself takes where there
# are more threads than cores. Its default is 300,000, milliseconds in which a thread that has
# nothing to do keeps a core from all others, after each of the many short operations of an export.
_LOOKS = "1000"


def wait_briefly() -> None:
    """Makes PyTorch's threads sleep soon; it must not be imported yet. Results stay as they are."""
    os.environ.setdefault("GOMP_SPINCOUNT", _LOOKS)
