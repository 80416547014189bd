"""A checkpoint: a config, and the weights it asks for, streamed from their files."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from exporter.checkpoint.weights import Weights
from exporter.config import ModelConfig
from exporter.errors import ExportError

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_NAMES_SHOWN = 5


@dataclass
class Checkpoint:
    """One opened checkpoint.

    Attributes:
        config: the decoder's shape.
        directory: where the tokenizer's files lie.
        name: what to call the model: the hub id, or the directory's name.
        weights: the stored tensors.
    """

    config: ModelConfig
    directory: Path
    name: str
    weights: Weights
    _shared: "weakref.ref[nn.Parameter] | None" = field(default=None, init=False, repr=False)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that Hugging Face name as it is stored (bfloat16, float16 or float32).

        From a safetensors file it is a view of the mapped file; read it, do not write it. With
        tied embeddings the head's name and the embedding's give the same tensor.
        """
        return self.weights.tensor(self._stored_name(name))

    def load_into(self, module: nn.Module, prefix: str) -> None:
        """Replaces each parameter of `module` by a float32 copy of the tensor `prefix` + its name.

        With tied embeddings the embedding and the head get one parameter between them, as long
        as the first one loaded is alive when the second is. The pages read are given back.

        Args:
            module: typically on the meta device; its buffers are left alone.
            prefix: of Hugging Face's names, such as "model.layers.0.", with its final dot.
        """
        for path, submodule in module.named_modules(remove_duplicate=False):
            for key, parameter in list(submodule.named_parameters(recurse=False)):
                name = prefix + (f"{path}.{key}" if path else key)
                loaded = self._parameter(name)
                if loaded.shape != parameter.shape:
                    raise ExportError(
                        f"{name} is {_shape(loaded.shape)} in {self.name} and the model takes "
                        f"{_shape(parameter.shape)}; the weights belong to another config.json."
                    )
                submodule.register_parameter(key, loaded)
        self.release()

    def release(self) -> None:
        """Gives back the memory that reading has made resident; every tensor stays readable."""
        self.weights.release()

    def check(self, model: nn.Module) -> None:
        """Compares the stored tensors with the parameters of `model` (on any device).

        Raises:
            ExportError: one sentence that names the tensors missing, mis-shaped, unexpected or of
                a type that is not a plain float.
        """
        expected = {
            name: tuple(parameter.shape)
            for name, parameter in model.named_parameters(remove_duplicate=False)
        }
        stored = self.weights.shapes()
        missing, mis_shaped, mis_typed = [], [], []
        for name, shape in expected.items():
            source = self._stored_name(name)
            if source not in stored:
                missing.append(f"{name} {_shape(shape)}")
                continue
            if stored[source] != shape:
                mis_shaped.append(f"{name} is {_shape(stored[source])}, not {_shape(shape)}")
            if self.weights.dtype(source) not in FLOATS:
                mis_typed.append(f"{name} is {_dtype(self.weights.dtype(source))}")
        extra = [f"{name} {_shape(stored[name])}" for name in stored if name not in expected]
        complaints = [
            _complaint("missing", missing),
            _complaint("of another shape", mis_shaped),
            _complaint("not in the model", extra),
            _complaint("neither float32, float16 nor bfloat16", mis_typed),
        ]
        found = [complaint for complaint in complaints if complaint]
        if found:
            raise ExportError(
                f"The weights of {self.name} do not fit its config ({self.config.model_type}, "
                f"{self.config.num_hidden_layers} layers): {'; '.join(found)}. Take config and "
                "weights from the same model."
            )
        self._check_tie(stored)

    def _check_tie(self, stored: Iterable[str]) -> None:
        if not self.config.tie_word_embeddings or not {EMBEDDING, HEAD} <= set(stored):
            return
        same = torch.equal(self.weights.tensor(EMBEDDING), self.weights.tensor(HEAD))
        self.release()
        if not same:
            raise ExportError(
                f"{self.name} says tie_word_embeddings and stores {HEAD} with values other than "
                f"{EMBEDDING}'s; set tie_word_embeddings to false in its config.json to use both."
            )

    def _stored_name(self, name: str) -> str:
        if self.config.tie_word_embeddings and name in (EMBEDDING, HEAD):
            return EMBEDDING if EMBEDDING in self.weights.shapes() else HEAD
        return name

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
    """Such as "7 missing: a (2, 4), b (2, 4), ...", or nothing when there are none."""
    if not tensors:
        return ""
    rest = ", ..." if len(tensors) > _NAMES_SHOWN else ""
    return f"{len(tensors)} {what}: {', '.join(tensors[:_NAMES_SHOWN])}{rest}"


def _shape(shape: Iterable[int]) -> str:
    return f"({', '.join(str(size) for size in shape)})"


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
