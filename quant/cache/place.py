"""Where results are kept. Importing this module is fast."""

import os
from pathlib import Path


def default_directory() -> Path:
    """THIMBLE_CACHE, or `thimble` in the user's cache directory (XDG)."""
    named = os.environ.get("THIMBLE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "thimble"
