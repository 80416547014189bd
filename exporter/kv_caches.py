"""What the key/value caches of a decoder take at run time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from delegates.limits import Limits
from exporter.models.spec import DecoderSpec

_FLOAT16_BYTES = 2


@dataclass(frozen=True)
class KvCaches:
    """The caches of layers that keep the same.

    Attributes:
        layers: how many these are.
        window: positions that a query of theirs sees; None for all.
        positions: that each keeps.
        size: bytes of all of them in float16.
    """

    layers: int
    window: int | None
    positions: int
    size: int


def kv_caches(spec: DecoderSpec, limits: Limits, context: int, seq_len: int) -> Sequence[KvCaches]:
    """
    Args:
        spec: of a model for such a context.
        limits: of the delegate that keeps them.
        context: positions of a whole context.
        seq_len: most tokens in one call.
    """
    kinds = Counter(
        (mixer.window, 2 * mixer.num_key_value_heads * mixer.head_dim)
        for mixer in (layer.mixer for layer in spec.layers)
    )
    caches = []
    for (window, numbers), layers in kinds.items():
        kept = context if window is None else limits.kept_positions(window, context, seq_len)
        caches.append(KvCaches(layers, window, kept, layers * kept * numbers * _FLOAT16_BYTES))
    return caches
