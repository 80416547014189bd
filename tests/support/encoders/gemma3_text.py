"""EmbeddingGemma."""

from support.encoders import EncoderData
from support.trained_tokenizers import train_metaspace
from transformers import Gemma3TextConfig

_SIZES = dict(num_key_value_heads=2, head_dim=16, sliding_window=10, bos_token_id=1, eos_token_id=2)
_BOTH = dict(use_bidirectional_attention=True, **_SIZES)

DATA = EncoderData(
    Gemma3TextConfig,
    cases={
        "plain": _BOTH,
        "before": _SIZES,
        "kinds": dict(layer_types=["sliding_attention"] * 2 + ["full_attention"], **_BOTH),
    },
    whole="kinds",
    tokenizer=train_metaspace,
    template="<s> $A </s>",
    dense=((48, 80, "Identity"), (80, 24, "Tanh")),
    prompts={"document": "title: none | text: ", "query": "task: search result | query: "},
)
