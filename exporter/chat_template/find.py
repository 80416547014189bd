"""The chat templates that a model's files hold, by name, as `transformers` finds them."""

import json
import os
import reprlib
from pathlib import Path
from typing import Any

from exporter.catalogue.gguf_file import GgufFile
from exporter.errors import ExportError
from exporter.tokenizer.errors import TokenizerError
from exporter.tokenizer.source import TokenizerKind, find_tokenizer

DEFAULT = "default"
TOOL_USE = "tool_use"  # the one that is taken where functions are given
_CONFIGS = ("tokenizer_config.json", "chat_template.json")  # the latter of a processor
_OF_GGUF = "tokenizer.chat_template"  # and behind a dot the name of another one


def find_chat_templates(path: Path) -> dict[str, str]:
    """Returns the chat templates next to a model's weights, or in its GGUF file.

    Files of Jinja, in `additional_chat_templates` as well, hide what the configurations have.

    Args:
        path: the model's directory, or a file of its tokenizer.

    Raises:
        ExportError: the file of a template is not readable.
    """
    if os.path.isfile(path) and find_tokenizer(path).kind is TokenizerKind.GGUF:
        return _in_gguf(path)
    directory = path if os.path.isdir(path) else path.parent
    separate = directory / "chat_template.jinja"
    files = {DEFAULT: separate} if separate.is_file() else {}
    others = sorted((directory / "additional_chat_templates").glob("*.jinja"))
    files |= {file.name.removesuffix(".jinja"): file for file in others}
    try:
        if files:
            return {name: file.read_text(encoding="utf-8") for name, file in files.items()}
        for name in _CONFIGS:
            path = directory / name
            fields = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            found = _by_name(fields.get("chat_template"))
            if found:
                return found
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ExportError(
            f"the chat template in {directory} is not readable ({error}): download the model's "
            "files again."
        ) from None


def _in_gguf(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, template in GgufFile(path).metadata.items():
        if key != _OF_GGUF and not key.startswith(f"{_OF_GGUF}."):
            continue
        if not isinstance(template, str):
            raise TokenizerError(f"{path}: {key} is not text; download it again.")
        found[key.removeprefix(_OF_GGUF).removeprefix(".") or DEFAULT] = template
    return found


def _by_name(stored: Any) -> dict[str, str]:
    """Returns the templates of a config's field, which holds one, several by name, or null.

    Raises:
        TypeError, AttributeError, UnicodeEncodeError: the field holds something else.
    """
    if isinstance(stored, list):
        stored = {str(item.get("name")): item.get("template") for item in stored}
    elif not isinstance(stored, dict):
        stored = {DEFAULT: stored}
    found = {name: template for name, template in stored.items() if template is not None}
    for template in found.values():
        if not isinstance(template, str):
            raise TypeError(f"chat_template is {reprlib.repr(template)}, not a string")
        template.encode("utf-8")  # an unpaired surrogate would fail later
    return found
