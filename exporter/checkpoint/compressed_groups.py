"""The `config_groups` of compressed-tensors: which of them says how a module is stored."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from exporter.checkpoint.name_pattern import NamePattern

_CLASSES = ("Linear", "Embedding")  # as targets
Value = TypeVar("Value")


def by_group(
    path: Path, config: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Value]
) -> Callable[[str], Value | None]:
    """Returns what a module's group says, by the module's name; None where no group has it.

    Groups name modules, regular expressions of them, or their classes: the most specific counts.

    Args:
        path: of the config.json, for messages.
        config: the `quantization_config`.
        read: what one group says; groups of activations alone are not asked.

    Raises:
        ValueError: two groups say something else of all modules of a class.
        ExportError: a pattern is none, or, from what is returned, takes too long.
    """
    named: dict[str, Value] = {}
    of_classes: list[Value] = []
    for group in config["config_groups"].values():
        if not group["weights"]:
            continue
        value = read(group)
        for target in group.get("targets") or ["Linear"]:
            if target in _CLASSES:
                of_classes.append(value)
            else:
                named[target] = value
    if len(set(of_classes)) > 1:
        raise ValueError(f"{len(of_classes)} config_groups for all modules of a class")
    patterns = [
        (NamePattern(path, "targets", target.removeprefix("re:")), named[target])
        for target in sorted(named)
        if target.startswith("re:")
    ]

    def of_module(module: str) -> Value | None:
        if module in named:
            return named[module]
        matching = (value for pattern, value in patterns if pattern.begins(module))
        return next(matching, of_classes[0] if of_classes else None)

    return of_module
