"""An export with --quant keep: which of a checkpoint's integers are kept, and as what."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from exporter.checkpoint import Checkpoint
from exporter.errors import ExportError
from exporter.listener import Listener
from exporter.models.decoder import CausalLM
from exporter.options import ExportOptions
from quant.layers.blocks import parts_of_layer
from quant.layers.embedding_and_head import EMBEDDING, HEAD
from quant.layers.outside_layers import outer_parts
from quant.layers.walk import walk
from quant.scheme import EMBEDDING_PART, HEAD_PART, KEEP, Scheme
from quant.weight_type import INT8, INT8_GROUPS, WeightType

_NAMES_SHOWN = 5


@dataclass(frozen=True)
class _Part:
    """A part of the model: the tensors that make it, and the types in which these are kept."""

    name: str
    tensors: tuple[str, ...]
    types: tuple[WeightType | None, ...]

    @property
    def type(self) -> WeightType:
        """One that holds the integers of each tensor exactly."""
        kept = {type for type in self.types if type is not None}
        if kept == {INT8}:
            return INT8
        return kept.pop() if len(kept) == 1 and None not in self.types else INT8_GROUPS


def require_keepable(options: ExportOptions) -> None:
    """Checks, before a checkpoint is opened, that the other options leave its integers alone.

    Raises:
        ExportError: they do not.
    """
    if options.scheme.name != KEEP:
        return
    if options.adapter is not None:
        raise ExportError(
            "--quant keep keeps the checkpoint's integers, but --adapter changes the weights; use "
            "another --quant, such as gptq4."
        )
    if options.has_budget:
        raise ExportError(
            "--quant keep keeps the checkpoint's integers, but --bits and --max-size choose "
            "others; leave them out, or use --quant gptq4."
        )


def keeping(scheme: Scheme, checkpoint: Checkpoint, empty: CausalLM, listener: Listener) -> Scheme:
    """Returns the scheme with the type of each part; one that keeps nothing, as it is.

    Args:
        empty: the checkpoint's model.

    Raises:
        ExportError: the checkpoint is damaged, or has no integers to keep, or some that cannot be.
    """
    if scheme.name != KEEP:
        return scheme
    parts = list(_parts(checkpoint, empty))
    kept = Counter(
        checkpoint.source_type(name)
        for part in parts
        for name, type in zip(part.tensors, part.types, strict=True)
        if type is not None
    )
    rounded = [
        f"{name} ({checkpoint.source_type(name)})"
        for part in parts
        for name, type in zip(part.tensors, part.types, strict=True)
        if type is None
    ]
    if not kept:
        sources = sorted({checkpoint.source_type(name) for part in parts for name in part.tensors})
        raise ExportError(
            f"{checkpoint.name} has no integers that --quant keep can store: its weights are "
            f"{', '.join(sources)}. Take a GGUF file of Q8_0 or Q4_0, a GPTQ, AWQ or "
            "compressed-tensors checkpoint, or another --quant, such as gptq4 or rtn8."
        )
    counts = ", ".join(f"{count} of {name}" for name, count in sorted(kept.items()))
    note = f"Kept as they are: {_matrices(kept.total())} ({counts})."
    if rounded:
        shown = ", ".join(rounded[:_NAMES_SHOWN])
        more = ", ..." if len(rounded) > _NAMES_SHOWN else ""
        note += f" Rounded to 8 bits: {_matrices(len(rounded))} ({shown}{more})."
    listener.note(note)
    types = {part.name: part.type for part in parts}
    types.setdefault(HEAD_PART, types[EMBEDDING_PART])
    return scheme.with_types(types)


def _matrices(count: int) -> str:
    return f"{count} matri{'x' if count == 1 else 'ces'}"


def _parts(checkpoint: Checkpoint, model: CausalLM) -> Iterator[_Part]:
    """All that is quantized; tied ends are one part, under the embedding's name."""
    checkpoint.check(model)
    for stop in walk(model):
        for part in parts_of_layer(stop.layer):
            names = (f"{stop.name}.{linear}.weight" for linear in part.linears)
            yield _part(checkpoint, f"{stop.name}.{part.name}", *names)
    for outer in outer_parts(model):
        yield _part(checkpoint, outer.name, f"{outer.name}.weight")
    yield _part(checkpoint, EMBEDDING_PART, EMBEDDING)
    if not checkpoint.config.tie_word_embeddings:
        yield _part(checkpoint, HEAD_PART, HEAD)


def _part(checkpoint: Checkpoint, name: str, *tensors: str) -> _Part:
    return _Part(name, tensors, tuple(checkpoint.kept_type(tensor) for tensor in tensors))
