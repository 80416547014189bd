"""The signatures of a decoder's methods, for programs of tensors (runtime.Program)."""

from delegates.methods import FORWARD
from exporter.models.spec import DecoderSpec
from exporter.models.text_decoder import TEXT_DECODER, TOKEN_EMBEDDING, token_row_size
from exporter.module.signature import Signature, Size, TensorSpec

_ONE = Size(1, 1)


def part_signatures(config: DecoderSpec, max_seq_len: int, row_size: int) -> list[Signature]:
    """Returns those of capture_parts()' programs."""
    count = _ONE if max_seq_len == 1 else Size(1, max_seq_len, "seq_len")
    hidden = TensorSpec("hidden", "float32", (_ONE, count, _fixed(token_row_size(config))))
    rows = TensorSpec("hidden", "float32", (_ONE, count, _fixed(row_size)))
    tokens = TensorSpec("tokens", "int64", (_ONE, count))
    start = TensorSpec("input_pos", "int64", (_ONE,))
    logits = TensorSpec("logits", "float32", (_ONE, _fixed(config.vocab_size)))
    return [
        Signature(FORWARD, (tokens, start), (logits,), ()),
        Signature(TOKEN_EMBEDDING, (tokens,), (hidden,), ()),
        Signature(TEXT_DECODER, (rows, start), (logits,), ()),
    ]


def _fixed(size: int) -> Size:
    return Size(size, size)
