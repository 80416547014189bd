"""PEFT's `adapter_config.json`: what it says of a LoRA adapter's scale."""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.catalogue.adapters import ADAPTER_CONFIG, no_adapter_config
from exporter.checkpoint.adapter_targets import AdapterTargets, read_targets
from exporter.checkpoint.name_pattern import NamePattern
from exporter.errors import ExportError
from exporter.json_object import read_object

_NOT_COMPUTED = (
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "monteclora_config",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
)
_CHANGES_THE_BASE = ("pissa", "olora", "loftq", "corda", "lora_ga")


@dataclass(frozen=True)
class AdapterConfig:
    """The settings that merging needs.

    Attributes:
        alpha: lora_alpha.
        alphas: other alphas, by what ends modules' names.
        use_rslora: whether the scale is alpha / sqrt(r) instead of alpha / r.
        targets: what the file of tensors holds.
    """

    alpha: float
    alphas: Mapping[NamePattern, float]
    use_rslora: bool
    targets: AdapterTargets

    def scale(self, module: str, rank: int) -> float:
        """The factor of B A in a module."""
        alpha = next(iter(self._matching(module).values()), self.alpha)
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)

    def notes(self, modules: Iterable[str]) -> tuple[str, ...]:
        """Returns what to say of the alphas of an adapter with these modules."""
        for module in modules:
            found = self._matching(module)
            if len(set(found.values())) > 1:
                return (
                    f"{self.targets.path}: in alpha_pattern {' and '.join(map(repr, found))} match "
                    f"{module}. The first counts, as where PEFT loads the file. PEFT sorts "
                    "them when it saves, so the adapter may have been trained with another.",
                )
        return ()

    def _matching(self, module: str) -> dict[str, float]:
        return {p.pattern: a for p, a in self.alphas.items() if p.ends(module)}


def read_adapter_config(directory: Path) -> AdapterConfig:
    """Reads the configuration of the adapter in a directory.

    Raises:
        ExportError: there is none, or it asks for something that is not computed.
    """
    path = directory / ADAPTER_CONFIG
    try:
        fields = read_object(path)
    except FileNotFoundError:
        raise no_adapter_config(directory) from None
    kind = fields.get("peft_type")
    if kind != "LORA":
        raise ExportError(f"{path}: peft_type is {kind!r}; only LORA adapters can be merged.")
    for name in _NOT_COMPUTED:
        if fields.get(name):
            raise ExportError(f"{path}: {name} is {fields[name]!r}, which is not supported.")
    start = fields.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGES_THE_BASE):
        raise ExportError(
            f"{path}: init_lora_weights is {start!r}, which changed the base model as well; save "
            "the adapter with path_initial_model_for_weight_conversion."
        )
    alphas = fields.get("alpha_pattern") or {}
    if not isinstance(alphas, dict):
        raise ExportError(f"{path}: alpha_pattern is {alphas!r}, not an object of numbers.")
    return AdapterConfig(
        alpha=_number(path, "lora_alpha", fields.get("lora_alpha", 8)),
        alphas={
            NamePattern(path, "alpha_pattern", p): _number(path, "alpha_pattern", a)
            for p, a in alphas.items()
        },
        use_rslora=_flag(path, "use_rslora", fields),
        targets=read_targets(path, fields),
    )


def _number(path: Path, name: str, value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:
        raise ExportError(f"{path}: {name} is {value!r}, not a number.")
    return float(value)


def _flag(path: Path, name: str, fields: Mapping[str, Any]) -> bool:
    value = fields.get(name) or False
    if not isinstance(value, bool):
        raise ExportError(f"{path}: {name} is {value!r}, neither true nor false.")
    return value
