"""What PEFT's `adapter_config.json` says an adapter's file holds, compared with what it holds.

An adapter whose tensors are not those that its settings name was changed, cut or mixed up after it
was trained: merging what is there would make another model than the one that was trained.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from exporter.checkpoint.checkpoint import EMBEDDING, HEAD
from exporter.checkpoint.name_pattern import NamePattern
from exporter.errors import ExportError

_LOW_RANK = ("lora_A", "lora_embedding_A")
_MAGNITUDES = "lora_magnitude_vector"
_BIASES = ("none", "all", "lora_only")
# Saved with the adapter wherever the vocabulary was changed, whatever modules_to_save says.
_EMBEDDINGS = tuple(name.removesuffix(".weight").rpartition(".")[2] for name in (EMBEDDING, HEAD))


@dataclass(frozen=True)
class AdapterTargets:
    """The settings that say what the file holds.

    Attributes:
        path: of the settings, for messages.
        rank: r.
        ranks: other ranks, by what ends modules' names.
        modules: target_modules: a regular expression, or ends of names; None: not told.
        excluded: exclude_modules: a regular expression, or ends of names.
        saved: modules_to_save.
        layers: layers_to_transform; None: all.
        layers_pattern: what stands before a layer's number.
        biases: whether biases were trained.
        use_dora: whether the lengths of rows were trained.
        keeps_ties: whether tied embedding and head were both trained if one is a target.
    """

    path: Path
    rank: int
    ranks: Mapping[NamePattern, int]
    modules: NamePattern | tuple[str, ...] | None
    excluded: NamePattern | tuple[str, ...]
    saved: tuple[str, ...]
    layers: tuple[int, ...] | None
    layers_pattern: tuple[NamePattern, ...]
    biases: bool
    use_dora: bool
    keeps_ties: bool

    def check(
        self, held: Mapping[str, Mapping[str, Tensor]], stored: Mapping[str, tuple[int, ...]]
    ) -> None:
        """Compares the settings with a file.

        Args:
            held: the file's tensors by module and kind, such as `lora_A`.
            stored: the shapes of the base model's tensors. As for PEFT, names in the settings that
                none of them has mean nothing.

        Raises:
            ExportError: they contradict each other.
        """
        for module, tensors in held.items():
            self._check_module(module, tensors)
        ends = [_module(name) for name in (EMBEDDING, HEAD)]  # of which a tied one is not stored
        modules = {*map(_module, stored), *ends}
        for name in self.saved:
            given = any("weight" in held[module] for module in held if _lies_in(module, name))
            if not given and any(_lies_in(module, name) for module in modules):
                raise self._contradicted(f"modules_to_save names {name}, whose tensors are missing")
        changed = set(map(_place, held))
        # The experts of a mixture are one module or many, as the library's version has it.
        matrices = [
            _module(name)
            for name, shape in stored.items()
            if len(shape) == 2 and name.endswith(".weight") and ".experts." not in name
        ]
        for module in dict.fromkeys((*matrices, *ends)):
            inside = ".layers." in module or module in ends
            if inside and self._targets(module) and _place(module) not in changed:
                raise self._contradicted(f"{module} is one of target_modules and has no tensors")

    def _check_module(self, module: str, tensors: Mapping[str, Tensor]) -> None:
        factors = [tensors[kind] for kind in _LOW_RANK if kind in tensors]
        tied = self.keeps_ties and module.rpartition(".")[2] in _EMBEDDINGS
        for a in factors:
            if tied:  # the settings name only one of the two
                continue
            if self.modules is not None and not self._targets(module):
                raise self._contradicted(f"{module} has a low-rank change and is no target there")
            rank = self._rank(module)
            if a.dim() == 2 and a.shape[0] != rank:
                raise self._contradicted(
                    f"{module} has a low-rank change of rank {a.shape[0]}, not {rank}"
                )
        if factors and self.use_dora != (_MAGNITUDES in tensors):
            has = "no " if self.use_dora else ""
            raise self._contradicted(
                f"use_dora is {self.use_dora}, and {module} has {has}{_MAGNITUDES}"
            )
        saved = any(_lies_in(module, name) for name in self.saved)
        if "weight" in tensors and not saved and module.rpartition(".")[2] not in _EMBEDDINGS:
            raise self._contradicted(
                f"{module} has a complete weight and is not in modules_to_save"
            )
        if "bias" in tensors and not (saved or self.biases):
            raise self._contradicted(f'{module} has a bias, and bias is "none"')

    def _rank(self, module: str) -> int:
        return next((rank for p, rank in self.ranks.items() if p.ends(module)), self.rank)

    def _targets(self, module: str) -> bool:
        """Whether a module is trained, as PEFT's `check_target_module_exists` decides it."""
        if isinstance(self.excluded, NamePattern):
            excluded = self.excluded.is_all_of(module)
        else:
            excluded = _ends_with(module, self.excluded)
        if excluded or any(_lies_in(module, name) for name in self.saved):
            return False
        if isinstance(self.modules, NamePattern):
            return self.modules.is_all_of(module)
        if self.modules is None or module in self.modules:
            return self.modules is not None
        return _ends_with(module, self.modules) and self._in_a_layer(module)

    def _in_a_layer(self, module: str) -> bool:
        if self.layers is None:
            return True
        numbers = list(re.finditer(r"\.(\d{1,9})(?=\.)", module))
        for pattern in self.layers_pattern or (None,):
            for number in numbers:
                if pattern is None or pattern.ends(module[: number.start()]):
                    return int(number[1]) in self.layers
        return False

    def _contradicted(self, what: str) -> ExportError:
        return ExportError(
            f"The adapter's tensors contradict {self.path}: {what}; take the two files as they "
            "were saved together."
        )


def read_targets(path: Path, fields: Mapping[str, Any]) -> AdapterTargets:
    """Reads the settings.

    Raises:
        ExportError: one of them has a value that PEFT does not write.
    """
    ranks = fields.get("rank_pattern") or {}
    if not isinstance(ranks, dict):
        raise ExportError(f"{path}: rank_pattern is {ranks!r}, not an object of numbers.")
    bias = fields.get("bias", "none")
    if bias not in _BIASES:
        raise ExportError(f"{path}: bias is {bias!r}; it is one of {', '.join(_BIASES)}.")
    dora = fields.get("use_dora") or False
    if not isinstance(dora, bool):
        raise ExportError(f"{path}: use_dora is {dora!r}, neither true nor false.")
    modules = fields.get("target_modules")
    return AdapterTargets(
        path=path,
        rank=_rank(path, "r", fields.get("r", 8)),
        ranks={NamePattern(path, "rank_pattern", p): _rank(path, p, r) for p, r in ranks.items()},
        modules=None if modules is None else _names(path, "target_modules", modules),
        excluded=_names(path, "exclude_modules", fields.get("exclude_modules") or []),
        saved=_list(path, "modules_to_save", fields.get("modules_to_save") or []),
        layers=_layers(path, fields.get("layers_to_transform")),
        layers_pattern=tuple(
            NamePattern(path, "layers_pattern", pattern)
            for pattern in _list(path, "layers_pattern", fields.get("layers_pattern") or [])
        ),
        biases=bias != "none",
        use_dora=dora,
        keeps_ties=bool(fields.get("ensure_weight_tying")),
    )


def _module(name: str) -> str:
    """The module of a tensor."""
    return name.rpartition(".")[0]


def _place(module: str) -> str:
    """A module's name from its layer on: decoders lie at different depths in models."""
    layered = module.rpartition("layers.")
    return layered[2] if layered[1] else module.rpartition(".")[2]


def _lies_in(module: str, name: str) -> bool:
    """Whether a module is one that modules_to_save names, by its end, or lies inside one."""
    return module.endswith(name) or re.match(rf"(.*\.)?{re.escape(name)}\.", module) is not None


def _ends_with(module: str, names: Collection[str]) -> bool:
    return any(module == name or module.endswith(f".{name}") for name in names)


def _rank(path: Path, name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ExportError(f"{path}: the rank {name} is {value!r}, not a whole number from 1 on.")
    return value


def _names(path: Path, name: str, value: Any) -> NamePattern | tuple[str, ...]:
    return NamePattern(path, name, value) if isinstance(value, str) else _list(path, name, value)


def _list(path: Path, name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ExportError(f"{path}: {name} is {value!r}, not a list of names.")
    return tuple(value)


def _layers(path: Path, value: Any) -> tuple[int, ...] | None:
    numbers = [value] if isinstance(value, int) else value or []
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ExportError(f"{path}: layers_to_transform is {value!r}, not a list of numbers.")
    return tuple(numbers) or None
