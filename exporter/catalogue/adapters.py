"""What --adapter names, and which files an adapter has. Importing this module is fast."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from exporter.catalogue.names import is_hub_id
from exporter.errors import ExportError

ADAPTER_CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.safetensors"
_PICKLED = "adapter_model.bin"  # as PEFT wrote it before
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def split_adapters(given: Sequence[str]) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Splits what --adapter was given into the adapter to merge, DIR, and those to keep apart, by
    name, NAME=DIR.

    Raises:
        ExportError: there are several to merge, or one that is kept apart has no directory.
    """
    parts = {text: text.partition("=") for text in given}
    apart = [text for text in given if parts[text][1] and _NAME.fullmatch(parts[text][0])]
    merged = [text for text in given if text not in apart]
    if len(merged) > 1:
        raise ExportError(
            f"--adapter {merged[0]} and --adapter {merged[1]} cannot both be merged; keep them "
            "apart with --adapter NAME=DIR."
        )
    for text in merged:
        name, _, place = parts[text]
        if not os.path.isdir(text) and place and os.path.isdir(os.path.expanduser(place)):
            raise ExportError(
                f"--adapter {text} cannot have the name {name!r}; a name begins with a letter or a "
                "digit, and has only those of ASCII, '.', '_' and '-'."
            )
    for text in apart:
        if not parts[text][2]:
            raise ExportError(f"--adapter {text} names no directory; write {text}DIR.")
    return next(iter(merged), None), tuple((parts[text][0], parts[text][2]) for text in apart)


def check_adapter_names(named: Sequence[tuple[str, str]]) -> None:
    """Raises ExportError if two adapters that are kept apart have one name."""
    names = [name for name, _ in named]
    for name in names:
        if names.count(name) > 1:
            raise ExportError(f"--adapter {name}= is repeated; give each adapter its own name.")


def check_adapters(given: Sequence[str]) -> None:
    """Checks what --adapter was given; not what the adapters' files hold.

    Raises:
        ExportError: as `split_adapters`, a name is repeated, or a directory or a file is missing.
    """
    merged, apart = split_adapters(given)
    check_adapter_names(apart)
    for source in [*(place for _, place in apart), *([] if merged is None else [merged])]:
        directory = adapter_directory(source)
        if directory is None:
            continue
        if not (directory / ADAPTER_CONFIG).is_file():
            raise no_adapter_config(directory)
        find_adapter_weights(directory)


def adapter_directory(source: str | Path) -> Path | None:
    """Returns the directory that an adapter is in; None for a hub id.

    Raises:
        ExportError: it is neither.
    """
    directory = Path(os.path.expanduser(source))
    if os.path.isdir(directory):
        return directory
    if isinstance(source, str) and is_hub_id(source):
        return None
    raise ExportError(f"There is no directory {source}; an adapter is a directory or a hub id.")


def find_adapter_weights(directory: Path) -> Path:
    """Returns the file with the weights of the adapter in a directory.

    Raises:
        ExportError: there is none.
    """
    for name in (_WEIGHTS, _PICKLED):
        if (directory / name).is_file():
            return directory / name
    raise ExportError(f"{directory} has neither {_WEIGHTS} nor {_PICKLED}; save the adapter again.")


def no_adapter_config(directory: Path) -> ExportError:
    """Returns the error of an adapter's config that is missing."""
    return ExportError(
        f"{directory} has no {ADAPTER_CONFIG}; a PEFT adapter has one next to its weights: check "
        "the path of --adapter."
    )
