"""What PyPI calls this package, and which version it is."""

import importlib.metadata
import tomllib
from pathlib import Path

DISTRIBUTION = "thimble-ml"
_PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"  # of a checkout


def version() -> str:
    """Returns the version; of a checkout, what its pyproject.toml says."""
    if _PROJECT.is_file():
        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    return importlib.metadata.version(DISTRIBUTION)


def with_extra(extra: str) -> str:
    """Returns the command that installs what an extra brings, such as "serve"."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
