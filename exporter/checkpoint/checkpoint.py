"""A checkpoint: a config and its weights, streamed from their files."""

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

import torch
from torch import Tensor, nn

from exporter.checkpoint import integers
from exporter.checkpoint.weights import Weights
from exporter.errors import ExportError
from exporter.models.family import Family, Spec
from exporter.models.low_rank import LowRankAdapter
from exporter.models.tensor_layout import Stored
from quant.modules import QuantizedWeight
from quant.weight_type import WeightType

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_NAMES_SHOWN = 5
# Ends of the names of what stands for quantized weights in the layouts of several libraries.
_PARTS = (
    *(".qweight", ".W_q", "._data", ":_data", ".SCB", ".absmax", ".scales", ".weight_scales"),
    *(".weight_scale", ".weight_scale_inv", ".scale_weight", ".weight_packed"),
)


@dataclass
class Checkpoint(Generic[Spec]):
    """One opened checkpoint.

    Attributes:
        config: the model's shape.
        directory: where the tokenizer's files lie; of a GGUF file, which holds it, the file.
        name: what to call the model: the hub id, or the directory's or file's name.
        weights: the stored tensors.
        family: maps the stored tensors to the model's parameters.
        rounded_activations: the field of its config that says how activations are rounded beside
            quantized weights; "" if there is none.
        left_out: the parts of the checkpoint that are not read, such as a vision tower, and the
            number of tensors of each.
        notes: what it says and its own format's program does not compute, in sentences.
        adapters: kept apart from the weights.
    """

    config: Spec
    directory: Path
    name: str
    weights: Weights
    family: Family[Spec]
    left_out: Mapping[str, int] = field(default_factory=dict)
    adapters: tuple[LowRankAdapter, ...] = ()
    rounded_activations: str = ""
    notes: tuple[str, ...] = ()
    _shared: "weakref.ref[nn.Parameter] | None" = field(default=None, init=False, repr=False)

    def tensor(self, name: str) -> Tensor:
        """Returns the model's tensor of that name: bfloat16, float16 or float32.

        It has the type in which it is stored, unless that is float64 or the family computes with
        it.

        Where nothing has to be computed, it is a read-only view of the mapped safetensors file.
        With tied embeddings, the head's name and the embedding's name return the same tensor.
        """
        made = self._made(self._stored(name))
        return made.float() if made.dtype is torch.float64 else made

    def names_of(self, name: str) -> Iterator[str]:
        """The model's name of a tensor, and those of what holds it in any layout of the family."""
        yield name
        stored: Stored | None = self.family.stored(self.config, name)
        while stored is not None:
            yield from stored.names
            stored = stored.otherwise

    def kept_type(self, name: str) -> WeightType | None:
        """Returns the type in which the stored integers of the model's tensor of that name can be
        kept; None if they cannot, or if it is stored as floats.

        Raises:
            ExportError: they should be kept and cannot be; the sentence says what to do.
        """
        return integers.kept_type(self.weights, self._stored(name))

    def integers(self, name: str) -> QuantizedWeight | None:
        """Returns the stored integers of the model's tensor of that name, where they can be kept.

        Their columns are padded to whole groups.
        """
        return integers.integers(self.weights, self._stored(name))

    def source_type(self, name: str) -> str:
        """Returns the type in which the model's tensor of that name is stored, such as Q6_K."""
        source = self._stored(name).names[0]
        if isinstance(self.weights, integers.IntegerWeights):
            return self.weights.source_type(source)
        return _dtype(self.weights.dtype(source))

    def load_into(self, module: nn.Module, prefix: str) -> None:
        """Replaces each parameter of `module` by a float32 copy of the tensor `prefix` + its name.

        With tied embeddings, the embedding and the head share one parameter, if the first one
        loaded still exists when the second is loaded. The memory of the pages read is released.

        Args:
            module: typically on the meta device; its buffers are left alone.
            prefix: start of Hugging Face's names, with the final dot, such as "model.layers.0.".
        """
        for path, submodule in module.named_modules(remove_duplicate=False):
            for key, parameter in list(submodule.named_parameters(recurse=False)):
                name = prefix + (f"{path}.{key}" if path else key)
                loaded = self._parameter(name)
                if loaded.shape != parameter.shape:
                    raise ExportError(
                        f"{name} is {_shape(loaded.shape)} in {self.name} but the model needs "
                        f"{_shape(parameter.shape)}; the weights belong to another config.json."
                    )
                submodule.register_parameter(key, loaded)
        self.release()

    def release(self) -> None:
        """Releases the memory that reading has made resident; every tensor stays readable."""
        self.weights.release()

    def check(self, model: nn.Module) -> None:
        """Compares the stored tensors with the parameters of `model` (on any device).

        Raises:
            ExportError: tensors are missing, have another shape, are unexpected or are not of a
                float type; the sentence names them.
        """
        expected = {
            name: tuple(parameter.shape)
            for name, parameter in model.named_parameters(remove_duplicate=False)
        }
        shapes = self.weights.shapes()
        missing, mis_shaped, mis_typed = [], [], []
        for name, shape in expected.items():
            stored = self._stored(name)
            absent = [source for source in stored.names if source not in shapes]
            if absent:
                missing += [_missing(source, name, shape) for source in absent]
                continue
            types = {source: self.weights.dtype(source) for source in stored.names}
            others = [f"{n} is {_dtype(t)}" for n, t in types.items() if t not in FLOATS]
            mis_typed += others
            if others:  # packed in some way, of which its shape may tell, too
                continue
            made = self._made_shape(stored)
            if made is None:
                sources = ", ".join(f"{source} {_shape(shapes[source])}" for source in stored.names)
                mis_shaped.append(f"{sources}, which cannot make {name} {_shape(shape)}")
            elif made != shape:
                mis_shaped.append(f"{name} is {_shape(made)}, not {_shape(shape)}")
        read = {source for name in expected for source in self._own(name).names}
        extra = [
            f"{name} {_shape(shapes[name])}"
            for name in shapes
            if name not in read
            and not self.family.is_unread(self.config, name)
            and not self._adds_nothing(name, read)
        ]
        complaints = [
            _complaint("missing", missing),
            _complaint("with another shape", mis_shaped),
            _complaint("not in the model", extra),
            _complaint("neither float32, float16 nor bfloat16", list(dict.fromkeys(mis_typed))),
        ]
        sentences = [complaint for complaint in complaints if complaint]
        if sentences:
            advice = "Take config and weights from the same model."
            if not (missing or mis_shaped or extra):
                advice = "Save the weights in float32 or bfloat16."
            part = next((name for name in shapes if name.endswith(_PARTS)), None)
            if part is not None:
                advice = (
                    f"{part} belongs to quantized weights, and no quantization_config in "
                    "config.json says how to read it. Add the one of these weights, or use the "
                    "original float checkpoint."
                )
            raise ExportError(
                f"The weights of {self.name} do not fit its config ({self.config.model_type}, "
                f"{self.config.num_hidden_layers} layers): {'; '.join(sentences)}. {advice}"
            )
        self._check_tie()

    def _adds_nothing(self, name: str, read: Collection[str]) -> bool:
        """Whether a tensor is a bias of zeros, as some tools store beside every linear."""
        module, _, kind = name.rpartition(".")
        return kind == "bias" and f"{module}.weight" in read and not self.weights.tensor(name).any()

    def _check_tie(self) -> None:
        if not self.config.tie_word_embeddings:
            return
        stored = [self._own(name) for name in (EMBEDDING, HEAD)]
        if not all(self._has(one) for one in stored):
            return
        same = torch.equal(*(self._made(one) for one in stored))
        self.release()
        if not same:
            raise ExportError(
                f"{self.name} says tie_word_embeddings and stores {HEAD} with values other than "
                f"{EMBEDDING}'s; to use both, set tie_word_embeddings to false in config.json."
            )

    def _own(self, name: str) -> Stored:
        """Returns where checkpoints of the family, in this one's way, keep the model's tensor of
        that name."""
        return self.family.stored(self.config, name).among(self.weights.shapes())

    def _stored(self, name: str) -> Stored:
        """Returns where this checkpoint keeps it: of two tied tensors only one need be present."""
        if self.config.tie_word_embeddings and name in (EMBEDDING, HEAD):
            for stored in map(self._own, (EMBEDDING, HEAD)):
                if self._has(stored):
                    return stored
        return self._own(name)

    def _has(self, stored: Stored) -> bool:
        return set(stored.names) <= self.weights.shapes().keys()

    def _made(self, stored: Stored) -> Tensor:
        return stored.make(*map(self.weights.tensor, stored.names)).contiguous()

    def _made_shape(self, stored: Stored) -> tuple[int, ...] | None:
        """Returns the shape without reading the data; None if the tensors do not combine."""
        shapes = [self.weights.shapes()[source] for source in stored.names]
        try:
            made = stored.make(*(torch.empty(shape, device="meta") for shape in shapes))
        except (RuntimeError, IndexError):
            return None
        return tuple(made.shape)

    def _parameter(self, name: str) -> nn.Parameter:
        tied = self.config.tie_word_embeddings and name in (EMBEDDING, HEAD)
        if tied and self._shared is not None:
            alive = self._shared()
            if alive is not None:
                return alive
        values = self.tensor(name).to(torch.float32, copy=True)
        parameter = nn.Parameter(values, requires_grad=False)
        if tied:
            self._shared = weakref.ref(parameter)
        return parameter


def _complaint(what: str, tensors: list[str]) -> str:
    """Such as "7 missing: a (2, 4), b (2, 4), ...", or empty when there are none."""
    if not tensors:
        return ""
    rest = ", ..." if len(tensors) > _NAMES_SHOWN else ""
    return f"{len(tensors)} {what}: {', '.join(tensors[:_NAMES_SHOWN])}{rest}"


def _missing(source: str, name: str, shape: Iterable[int]) -> str:
    return f"{source} {_shape(shape)}" if source == name else f"{source} (for {name})"


def _shape(shape: Iterable[int]) -> str:
    return f"({', '.join(str(size) for size in shape)})"


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
