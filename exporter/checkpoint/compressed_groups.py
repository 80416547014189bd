"""The `config_groups` of compressed-tensors: which of them says how a module is stored."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

_CLASSES = ("Linear", "Embedding")  # as targets
Value = TypeVar("Value")


def by_group(
    config: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Value]
) -> Callable[[str], Value | None]:
    """Returns what a module's group says, by the module's name; None where no group has it.

    Groups name modules, regular expressions of them, or their classes: the most specific counts.

    Args:
        config: the `quantization_config`.
        read: what one group says; groups of activations alone are not asked.

    Raises:
        ValueError: two groups say something else of all modules of a class, or a pattern is none.
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
        (compiled("targets", target.removeprefix("re:")), named[target])
        for target in sorted(named)
        if target.startswith("re:")
    ]

    def of_module(module: str) -> Value | None:
        if module in named:
            return named[module]
        matching = (value for pattern, value in patterns if pattern.match(module))
        return next(matching, of_classes[0] if of_classes else None)

    return of_module


def compiled(name: str, pattern: str) -> re.Pattern[str]:
    """Compiles a regular expression of a setting; ValueError if it is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{name} {pattern!r}, which is no regular expression: {error}") from None
