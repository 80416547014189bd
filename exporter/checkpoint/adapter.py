"""A LoRA adapter as PEFT writes it, added to a checkpoint's weights as they are read.

W' = W + s B A, where s is lora_alpha / r (Hu et al., 2021, section 4.1), or lora_alpha / sqrt(r)
with use_rslora (Kalajdzievski, 2023). With use_dora every row of W' (of an embedding, every
column) is then brought to the length that the adapter stores (Liu et al., 2024, equation 5).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from exporter.catalogue.adapters import (
    ADAPTER_CONFIG,
    adapter_directory,
    find_adapter_weights,
)
from exporter.checkpoint.adapter_config import AdapterConfig, read_adapter_config
from exporter.checkpoint.checkpoint import EMBEDDING, HEAD, Checkpoint
from exporter.checkpoint.hugging_face import open_file
from exporter.checkpoint.language_part import part_of
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError

_PAIRS = (("lora_A", "lora_B"), ("lora_embedding_A", "lora_embedding_B"))
_KEY = re.compile(
    r"base_model\.model\.(?P<module>.+?)\."
    r"(?:(?P<kind>lora_A|lora_B|lora_embedding_A|lora_embedding_B|lora_magnitude_vector)"
    r"(?:\.default)?(?:\.weight)?|(?:(?:modules_to_save(?:\.default)?|base_layer)\.)?"
    r"(?P<parameter>weight|bias))"
)
_ORIGINAL = ".original_module."  # the base model's own tensor, beside one saved whole
_DEEPER = r"(?:(?:base_model|model|language_model|text_model|llm|decoder)\.)*"
_INSIDE = re.compile(_DEEPER + r"(layers\.\d+\..+|[^.]+)")


@dataclass(frozen=True)
class Change:
    """What an adapter makes of one stored tensor.

    Attributes:
        replacement: what takes its place, before anything is added.
        delta: A and B, transposed where needed: the product of (rows, r) and (r, columns) is added.
        scale: the factor of the product.
        lengths: (rows, 1) of the sum's rows, or (1, columns) of its columns; None leaves them.
    """

    replacement: Tensor | None = None
    delta: tuple[Tensor, Tensor] | None = None
    scale: float = 1.0
    lengths: Tensor | None = None

    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor that it fits."""
        if self.delta is None:
            return () if self.replacement is None else tuple(self.replacement.shape)
        left, right = self.delta
        return left.shape[0], right.shape[1]

    def apply(self, stored: Tensor) -> Tensor:
        """The changed tensor in float32."""
        values = (stored if self.replacement is None else self.replacement).float()
        if self.delta is not None:
            left, right = self.delta
            values = torch.addmm(values, left.float(), right.float(), alpha=self.scale)
        if self.lengths is not None:
            across = 1 if self.lengths.shape[1] == 1 else 0
            values = values * (self.lengths.float() / values.norm(dim=across, keepdim=True))
        return values


class AdaptedWeights:
    """Stored weights with an adapter's changes; a changed tensor is float32.

    Attributes:
        unties: whether it changes the embedding or the head: tied ones are then two tensors.
    """

    def __init__(self, weights: Weights, changes: Mapping[str, Change]) -> None:
        self._weights, self._changes = weights, changes
        self.unties = not changes.keys().isdisjoint((EMBEDDING, HEAD))
        self._shapes = dict(weights.shapes())
        if self.unties:
            for name in (EMBEDDING, HEAD):
                self._shapes.setdefault(name, self._shapes[_source(name, weights)])

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        if name in self._changes:
            return torch.float32
        return self._weights.dtype(_source(name, self._weights))

    def tensor(self, name: str) -> Tensor:
        stored = self._weights.tensor(_source(name, self._weights))
        return self._changes[name].apply(stored) if name in self._changes else stored

    def release(self) -> None:
        self._weights.release()


def with_adapter(checkpoint: Checkpoint, source: str | Path) -> Checkpoint:
    """The checkpoint with an adapter merged.

    Args:
        source: the adapter's directory, or its hub id "org/name".

    Raises:
        ExportError: as `find_adapter` and `read_changes` do.
    """
    changes, notes = read_changes(find_adapter(source), checkpoint)
    adapted = AdaptedWeights(checkpoint.weights, changes)
    tied = checkpoint.config.tie_word_embeddings and not adapted.unties
    config = replace(checkpoint.config, tie_word_embeddings=tied)
    notes = (*checkpoint.notes, *notes)
    return replace(checkpoint, config=config, weights=adapted, notes=notes)


def refuse_adapter_beside(checkpoint: Checkpoint) -> None:
    """Refuses an adapter in the model's own directory that nobody asked for: other libraries would
    load it with the model.

    Raises:
        ExportError: there is one.
    """
    path = checkpoint.directory / ADAPTER_CONFIG
    if path.is_file():
        raise ExportError(
            f"{path} says that an adapter belongs to this model: merge it with --adapter "
            f"{checkpoint.directory}, or move {ADAPTER_CONFIG} away to export the model without it."
        )


def find_adapter(source: str | Path) -> Path:
    """The directory of an adapter.

    Args:
        source: the directory, or a hub id "org/name".

    Raises:
        ExportError: there is none, or it cannot be downloaded.
    """
    directory = adapter_directory(source)
    if directory is not None:
        return directory
    from exporter.catalogue import hub  # here: half a second to import

    return hub.download(str(source))


def read_changes(
    directory: Path, checkpoint: Checkpoint
) -> tuple[dict[str, Change], tuple[str, ...]]:
    """What the adapter in a directory makes of a model's stored weights, by their names, and notes.

    What it makes of parts that the checkpoint leaves out, such as a vision tower, is left out too.

    Raises:
        ExportError: there is no adapter, it is damaged, belongs to another model, or asks for
            something that is not computed.
    """
    weights, model = checkpoint.weights, checkpoint.name
    config = read_adapter_config(directory)
    path = find_adapter_weights(directory)
    file = open_file(path)
    modules: dict[str, dict[str, Tensor]] = {}
    for key in file.shapes():
        if _ORIGINAL in key:
            continue
        match = _KEY.fullmatch(key)
        if match is None:
            raise ExportError(
                f"{path} holds {key}, which is neither a low-rank change nor a weight or bias; "
                "adapters of other parameters are not supported."
            )
        kind = match["kind"] or match["parameter"]
        tensor = file.tensor(key)
        if not torch.isfinite(tensor.float()).all():
            raise ExportError(f"{path} has numbers in {key} that are not finite; save it again.")
        modules.setdefault(match["module"], {})[kind] = tensor
    if not modules:
        raise ExportError(f"{path} holds no tensors; save the adapter again.")
    parts = {module: part_of(module) for module in modules}
    modules = {
        name: held for name, held in modules.items() if parts[name] not in checkpoint.left_out
    }
    if not modules:
        raise ExportError(
            f"The adapter {directory} changes only {', '.join(sorted(set(parts.values())))} of "
            f"{model}, which is not exported; take an adapter of the language model."
        )
    changes: dict[str, Change] = {}
    moved: tuple[str, ...] = ()
    for module, tensors in modules.items():
        for parameter, change in _changes_of(module, tensors, config, path).items():
            name = _stored_name(module, parameter, weights)
            shape = None if name is None else weights.shapes()[_source(name, weights)]
            if name is None or change.shape() != shape:
                has = "no such tensor" if shape is None else f"{tuple(shape)} there"
                raise ExportError(
                    f"The adapter {directory} does not fit {model}: it changes "
                    f"{module}.{parameter} {change.shape()}, and {model} has {has}; take the "
                    "adapter's own base model."
                )
            changes[name] = change
            if not checkpoint.left_out and name != f"{module}.{parameter}":
                moved = (_moved_note(directory, module, name.removesuffix(f".{parameter}")),)
    config.targets.check(modules, weights.shapes())
    return changes, (*config.notes(modules), *moved)


def _changes_of(
    module: str, tensors: Mapping[str, Tensor], config: AdapterConfig, path: Path
) -> dict[str, Change]:
    """The changes of a module's weight and bias.

    Raises:
        ExportError: a part is missing, or two parts do not fit each other.
    """
    changes = {}
    if "bias" in tensors:
        changes["bias"] = Change(tensors["bias"])
    replacement, lengths = tensors.get("weight"), tensors.get("lora_magnitude_vector")
    delta, scale = None, 1.0
    for a_name, b_name in _PAIRS:
        if a_name not in tensors and b_name not in tensors:
            continue
        a, b = tensors.get(a_name), tensors.get(b_name)
        if a is None or b is None or not a.dim() == b.dim() == 2 or not 0 < len(a) == b.shape[1]:
            raise ExportError(
                f"{path}: {a_name} and {b_name} of {module} do not fit each other; save the "
                "adapter again."
            )
        if lengths is not None and lengths.shape != b.shape[:1]:
            raise ExportError(
                f"{path}: lora_magnitude_vector of {module} does not fit its matrices; save the "
                "adapter again."
            )
        transposed = a_name == "lora_embedding_A"  # no linear is, whatever fan_in_fan_out says
        delta = (a.T, b.T) if transposed else (b, a)
        if lengths is not None:
            lengths = lengths[None] if transposed else lengths[:, None]
        scale = config.scale(module, rank=a.shape[0])
    if lengths is not None and delta is None:
        raise ExportError(
            f"{path}: {module} has a lora_magnitude_vector and no matrices; save the adapter again."
        )
    if replacement is not None or delta is not None:
        changes["weight"] = Change(replacement, delta, scale, lengths)
    return changes


def _stored_name(module: str, parameter: str, weights: Weights) -> str | None:
    """The stored tensor that a module of the adapter means: a decoder may lie deeper in the model
    that was trained."""
    inside = _INSIDE.fullmatch(module)
    paths = (module, f"model.{inside[1]}", inside[1]) if inside else (module,)
    names = (f"{path}.{parameter}" for path in paths)
    return next((name for name in names if _source(name, weights) in weights.shapes()), None)


def _moved_note(directory: Path, module: str, found: str) -> str:
    return (
        f"The adapter {directory} names {module} what the model names {found}, and is read as if "
        "it named it so. PEFT leaves such changes out where it loads it for a causal language "
        "model."
    )


def _source(name: str, weights: Weights) -> str:
    """The stored tensor of a name; of tied embedding and head either may be stored for both."""
    if name in weights.shapes() or name not in (EMBEDDING, HEAD):
        return name
    return HEAD if name == EMBEDDING else EMBEDDING
