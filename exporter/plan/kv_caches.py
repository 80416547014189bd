"""What the key/value caches and the states of a decoder take at run time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from delegates.limits import Limits
from exporter.models.spec import ConvolutionSpec, DecoderSpec, DeltaSpec, Mixer

# Of a number, by the types that a runner's --kv-cache has.
CACHED_BYTES = {"float32": 4, "float16": 2, "int8": 1, "int8-int4": 0.75, "int4": 0.5}
_FLOAT32_BYTES = 4
_SCALE_BYTES = 4  # of a head of integers


@dataclass(frozen=True)
class KvCaches:
    """The caches of layers that keep the same.

    Attributes:
        layers: how many these are.
        window: positions that a query of theirs sees; None for all.
        positions: that each keeps.
        size: bytes of all of them.
    """

    layers: int
    window: int | None
    positions: int
    size: int


@dataclass(frozen=True)
class States:
    """The states of layers that keep the same.

    Attributes:
        layers: how many these are.
        numbers: that each keeps.
        size: bytes of all of them in float32.
    """

    layers: int
    numbers: int
    size: int


def states(spec: DecoderSpec) -> Sequence[States]:
    """Returns what the layers without attention keep, whatever the context."""
    kinds = Counter(_numbers(layer.mixer, spec.hidden_size) for layer in spec.layers)
    return [
        States(layers, numbers, layers * numbers * _FLOAT32_BYTES)
        for numbers, layers in kinds.items()
        if numbers
    ]


def _numbers(mixer: Mixer, hidden_size: int) -> int:
    """Returns how many numbers the state of a layer has."""
    if isinstance(mixer, ConvolutionSpec):
        return (mixer.kernel_size - 1) * hidden_size
    if isinstance(mixer, DeltaSpec):
        matrix = mixer.key_head_dim * mixer.value_head_dim
        return (mixer.kernel_size - 1) * mixer.mixed_size + mixer.num_value_heads * matrix
    return 0


def kv_caches(
    spec: DecoderSpec, limits: Limits, item_bytes: float, context: int, seq_len: int
) -> Sequence[KvCaches]:
    """Returns the caches of a decoder.

    Args:
        spec: of a model for such a context.
        limits: of the delegate that keeps them.
        item_bytes: of a number in a cache.
        context: positions of a whole context.
        seq_len: most tokens in one call.
    """
    owners = [mixer for mixer in spec.attentions if mixer.shares is None]
    sizes = [(mixer.window, mixer.num_key_value_heads, mixer.head_dim) for mixer in owners]
    return caches_of(sizes, limits, item_bytes, context, seq_len)


def caches_of(
    sizes: Iterable[tuple[int | None, int, int]],
    limits: Limits,
    item_bytes: float,
    context: int,
    seq_len: int,
) -> Sequence[KvCaches]:
    """The same of layers with keys and values of their own: window, heads of keys, size of a head
    each."""
    caches = []
    for (window, heads, head_dim), layers in Counter(sizes).items():
        kept = context if window is None else limits.kept_positions(window, context, seq_len)
        head_bytes = head_dim * item_bytes + (_SCALE_BYTES if item_bytes <= 1 else 0)
        caches.append(KvCaches(layers, window, kept, int(2 * layers * kept * heads * head_bytes)))
    return caches
