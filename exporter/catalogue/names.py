"""Names of models on the command line: presets, paths, hub ids. Importing this module is fast."""

import difflib
import os
import re
from pathlib import Path

from exporter.catalogue.published import SHAPES
from exporter.errors import ExportError

ALIASES = {"llama2": "llama2-7b", "llama3": "llama3.2-1b"}
EMBEDDED = Path(__file__).parents[1] / "embedded"
EMBEDDED_PRESET = "llama3.2-1b"  # whose weights it stands for, where none are named
_PRESETS = [name for name, _, _ in SHAPES]
_FILES = (".bin", ".gguf", ".json", ".model", ".pt", ".pte", ".pth", ".safetensors", ".txt")


def preset_name(name: str) -> str | None:
    """Returns the preset for a name on the command line; None if it is not a preset."""
    known = ALIASES.get(name.lower(), name.lower())
    return known if known in _PRESETS else None


def is_hub_id(name: str) -> bool:
    """Whether a name has the form "organisation/model"."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def is_hub_file(name: str) -> bool:
    """Whether a name has the form "organisation/model/file.gguf", the file in folders or not."""
    organisation, _, rest = name.partition("/")
    model, _, file = rest.partition("/")
    parts = file.split("/")
    return (
        is_hub_id(f"{organisation}/{model}")
        and file.endswith(".gguf")
        and all(re.fullmatch(r"[\w.+-]+", part) and part not in (".", "..") for part in parts)
    )


def check_model(name: str) -> None:
    """Checks the name of a model: a preset, an existing path, or in the form of a hub id.

    Raises:
        ExportError: it is none of them.
    """
    if name.endswith(".py") and not os.path.isdir(name):
        raise ExportError(
            f"{name} is a Python file; name the function in it that makes the module, too, as in "
            f"thimble-export {name}:make --out module.pte."
        )
    if preset_name(name) is not None or _is_source(name):
        return
    _check_address(name)
    if os.sep in name or _is_file_name(name):
        raise ExportError(
            f"{missing(name)} {name!r}; name a directory, a GGUF file, a hub id such as "
            "meta-llama/Llama-3.2-1B, or a model such as llama3."
        )
    names = [*ALIASES, *_PRESETS]
    close = difflib.get_close_matches(name.lower(), names, n=3)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    raise ExportError(
        f"There is no model {name!r}{hint}; name one of {', '.join(names)}, a directory, or a hub "
        "id such as meta-llama/Llama-3.2-1B."
    )


def check_checkpoint(source: str | Path) -> None:
    """Checks the source of a checkpoint: an existing path, or in the form of a hub id.

    Raises:
        ExportError: it is neither.
    """
    if not _is_source(source):
        _check_address(str(source))
        raise ExportError(
            f"{missing(source)} {source}; a checkpoint is a directory, a GGUF file or a hub id "
            "such as meta-llama/Llama-3.2-1B."
        )


def _check_address(name: str) -> None:
    """Raises ExportError if a name is the address of a model's page on the hub, with its id."""
    page = re.match(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([^?#]+)", name)
    hub_id = "" if page is None else "/".join(page[1].split("/")[:2])
    if is_hub_id(hub_id):
        raise ExportError(f"{name} is an address; give the hub id, which is {hub_id}.")


def missing(path: str | Path) -> str:
    """Returns the beginning of a sentence on a path that does not exist."""
    return f"There is no {'file' if _is_file_name(path) else 'directory'}"


def no_program(path: str | Path) -> str:
    """Returns the sentence, without its point, on a `.pte` that does not exist, or that is the name
    of a model."""
    name = str(path)
    runs = "" if name.endswith(".pte") else f"; thimble-run {name} exports a model and runs it"
    kind = f"{name} is a directory" if os.path.isdir(name) else f"there is no file {name}"
    return f"{kind}: name a .pte file that thimble-export wrote{runs}"


def _is_file_name(path: str | Path) -> bool:
    return str(path).lower().endswith(_FILES)


def _is_source(source: str | Path) -> bool:
    if os.path.exists(os.path.expanduser(source)):
        return True
    return isinstance(source, str) and (is_hub_id(source) or is_hub_file(source))
