"""The parts of one quantization that the cache already has, and those still to be made."""

from collections.abc import Sequence

from torch import Tensor, nn

from quant.cache.entry import (
    decode_ends,
    decode_layer,
    decode_quality,
    encode_ends,
    encode_layer,
    encode_quality,
)
from quant.cache.key import embedding_and_head_key, layer_keys, quality_key
from quant.cache.store import Cache
from quant.errors import QuantError
from quant.importance import Importance
from quant.machine.device import HOST
from quant.machine.ranks import Ranks
from quant.machine.resources import Resources
from quant.measure.quality import Quality
from quant.modules import QuantizedWeight
from quant.protocols import CausalLM, WeightSource
from quant.scheme import KEEP, Scheme

_KINDS = ("cpu", "cuda")  # of devices, whose layers are used if all are there


class CachedLayers:
    """The cache as one run sees it. All entries are read and checked once before the start: to make
    a layer, the run needs the text's hidden states after all layers before it."""

    def __init__(
        self,
        cache: Cache,
        label: str,
        keys: list[str],
        present: list[bool],
        embedding_and_head: str | None,
        quality: str | None,
        ranks: Ranks,
    ) -> None:
        """
        Args:
            label: of the quantization, for people.
            keys, present: of the layers, and which of them are there.
            embedding_and_head: the key of the embedding and the head; None if they are fast to
                make.
            quality: the key of the measured quality; None if it is not measured.
        """
        self._cache = cache
        self._label = label
        self._keys = keys
        self._present = present
        self._embedding_and_head = embedding_and_head
        self._has_embedding_and_head = embedding_and_head is not None and all(
            _found(cache, [embedding_and_head], ranks)
        )
        self._quality = quality
        self._writes = ranks.first
        if any(self._present):
            cache.say(
                f"From the cache: {sum(self._present)} of {len(keys)} layers, quantized before "
                f"({cache.directory})"
            )

    @property
    def count(self) -> int:
        """How many layers were found."""
        return sum(self._present)

    def has(self, index: int) -> bool:
        return self._present[index]

    def load(self, index: int, layer: nn.Module) -> list[str]:
        """Gives a layer its quantized form; returns the names that were stored with it.

        Raises:
            QuantError: it was there at the start, but not any more.
        """
        return decode_layer(layer, self._load(self._keys[index], f"layer {index}"))

    def store(self, index: int, layer: nn.Module, undertrained: Sequence[str] = ()) -> None:
        """Stores a layer; of several ranks, only the first does.

        Args:
            undertrained: names of experts, for the report.
        """
        if not self._writes:
            return
        what = f"layer {index} of {self._label}"
        self._cache.store(self._keys[index], encode_layer(layer, undertrained), what)

    def load_embedding_and_head(self) -> tuple[QuantizedWeight, QuantizedWeight] | None:
        """Embedding and head, if they were found at the start.

        Raises:
            QuantError: they are not there any more.
        """
        if self._embedding_and_head is None or not self._has_embedding_and_head:
            return None
        return decode_ends(self._load(self._embedding_and_head, "a model's embedding and head"))

    def store_embedding_and_head(self, embedding: QuantizedWeight, head: QuantizedWeight) -> None:
        """Stores both if they take long to make; of several ranks, only the first does."""
        if self._embedding_and_head is not None and self._writes:
            what = f"embedding and head of {self._label}"
            self._cache.store(self._embedding_and_head, encode_ends(embedding, head), what)

    def _load(self, key: str, what: str) -> dict[str, Tensor]:
        """An entry that was there at the start."""
        tensors = self._cache.load(key)
        if tensors is None:
            raise QuantError(
                f"{what} was removed from the cache {self._cache.directory} during the run; start "
                "again, with a larger limit if it was evicted."
            )
        return tensors

    def load_quality(self) -> tuple[Quality, list[float]] | None:
        """What was measured before on the same text."""
        tensors = None if self._quality is None else self._cache.load(self._quality)
        return None if tensors is None else decode_quality(tensors)

    def store_quality(self, quality: Quality, layer_errors: list[float]) -> None:
        if self._quality is not None:
            tensors = encode_quality(quality, layer_errors)
            self._cache.store(self._quality, tensors, f"quality of {self._label}")


def find_cached_layers(
    model: CausalLM,
    scheme: Scheme,
    weights: WeightSource,
    calibration: Tensor | None,
    evaluation: Tensor | None,
    resources: Resources,
    importance: Importance | None = None,
) -> CachedLayers | None:
    """Looks up a quantization; None if nothing is kept. If another kind of device has made all of
    it, and this one has not, the other's is used.

    Args:
        model: on the meta device, as the checkpoint has it.
        weights: as they are stored, before any rotation.
    """
    if resources.cache is None or scheme.name in ("none", KEEP):
        return None
    kinds = tuple(dict.fromkeys((resources.device.type, *_KINDS)))
    own, *others = layer_keys(model, scheme, weights, calibration, kinds, importance)
    keys, present = own, _found(resources.cache, own, resources.ranks)
    for keys_of_other in others:
        if not all(present) and all(
            cached := _found(resources.cache, keys_of_other, resources.ranks)
        ):
            keys, present = keys_of_other, cached
    embedding_and_head = embedding_and_head_key(model, weights, keys[-1])
    quality = None if evaluation is None else quality_key(embedding_and_head, evaluation)
    where = "" if resources.device == HOST else f", on {resources.device.type}"
    label = f"{resources.name} by {scheme.name}, groups of {scheme.group_size}{where}"
    long = embedding_and_head if scheme.calibrates_head else None
    return CachedLayers(resources.cache, label, keys, present, long, quality, resources.ranks)


def _found(cache: Cache, keys: list[str], ranks: Ranks) -> list[bool]:
    """Which of the layers are there, undamaged; all ranks use the first one's answer."""
    return ranks.agree([cache.load(key) is not None for key in keys])
