"""Digests of everything that determines a result: runs with the same key are bit-identical.

A layer's key includes the key of the layer before it, which makes its inputs. The chain begins with
everything that all layers share: the method, the calibration tokens, the importance of columns, the
embedding, the shape of the model, PyTorch's version and the source of this package and of the
package that defines the model. For the key, the weights are read one additional time, as they are
stored.

A GPU's results differ from a CPU's in their last bits, and therefore in a few integers. So the key
also includes the kind of device: an interrupted run resumes with layers of its own kind only, and
its file is the same as without the interruption. (Two GPUs, or two CPUs, are not distinguished.) If
all layers of the other kind are there, `quant.cache.layers` uses those: a model that a GPU has
quantized can be exported on a machine without one.
"""

import hashlib
import inspect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

import quant
from quant.cache.store import bytes_of
from quant.importance import Importance
from quant.layers.embedding_and_head import EMBEDDING, HEAD, HEAD_BIAS, is_tied
from quant.layers.outside_layers import outer_tensors
from quant.layers.walk import walk
from quant.protocols import CausalLM, WeightSource
from quant.scheme import Scheme


def layer_keys(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor | None,
    kinds: Sequence[str] = ("cpu",),
    importance: Importance | None = None,
) -> list[list[str]]:
    """Returns a key for each decoder layer's quantized form, by kind of device.

    Args:
        model: on the meta device.
        weights: as they are stored, before any rotation.
        kinds: types of devices; one of them computes.
        importance: of columns, in the search of scales.
    """
    digests = [_layer_digest(stop.layer, f"{stop.name}.", weights) for stop in walk(model)]
    shared = _digest(
        _code(type(model)),
        torch.__version__,
        repr(model.config),
        repr((scheme, scheme.choice)),
        _tensors_digest(weights, [EMBEDDING, *outer_tensors(model)]),
        "" if calibration is None else f"{tuple(calibration.shape)}",
        "" if calibration is None else hashlib.sha256(bytes_of(calibration)).hexdigest(),
        *(() if importance is None else (importance.digest(),)),
        *(digests if scheme.choice.rotation == "learned" else ()),
    )
    return [list(accumulate(digests, _digest, initial=_digest(shared, kind)))[1:] for kind in kinds]


def embedding_and_head_key(model: CausalLM, weights: WeightSource, last_layer: str) -> str:
    """The key of the quantized embedding and head of a model with that last layer's key."""
    return _digest("ends", last_layer, _tensors_digest(weights, _names_at_the_end(model)))


def _names_at_the_end(model: CausalLM) -> list[str]:
    """The tensors of the last norm, and of the head, if it has any of its own."""
    norm = model.model.get_submodule("norm")
    names = [f"model.norm.{name}" for name, _ in norm.named_parameters()]
    names += [] if is_tied(model) else [HEAD]
    return names + ([] if model.lm_head.bias is None else [HEAD_BIAS])


def weights_key(model: CausalLM, weights: WeightSource, purpose: str) -> str:
    """The key of a result that depends on all of a model's weights and on `purpose`."""
    layers = [_layer_digest(stop.layer, f"{stop.name}.", weights) for stop in walk(model)]
    names = [EMBEDDING, *_names_at_the_end(model), *outer_tensors(model)]
    code = _code(type(model))
    config = repr(model.config)
    rest = _tensors_digest(weights, names)
    return _digest("weights", purpose, code, torch.__version__, config, rest, *layers)


def quality_key(embedding_and_head: str, evaluation: Tensor) -> str:
    """The key of what is measured on the evaluation text with that embedding and head."""
    tokens = hashlib.sha256(bytes_of(evaluation)).hexdigest()
    return _digest("quality", embedding_and_head, f"{tuple(evaluation.shape)}", tokens)


def _layer_digest(layer: torch.nn.Module, prefix: str, weights: WeightSource) -> str:
    names = [prefix + name for name, _ in layer.named_parameters()]
    return _tensors_digest(weights, names)


def _tensors_digest(weights: WeightSource, names: list[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        tensor = weights.tensor(name)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(bytes_of(tensor))
    weights.release()
    return digest.hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _code(model: type) -> str:
    """The digest of the source that quantizes and of the source that defines the model."""
    folders = Path(quant.__file__).parent, Path(inspect.getfile(model)).parent
    return _digest(*map(source_digest, folders))


def source_digest(folder: Path) -> str:
    """The digest of all Python files of a package, including its subfolders."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size};".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
