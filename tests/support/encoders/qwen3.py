"""Qwen3-Embedding."""

from support.encoders import EncoderData
from support.trained_tokenizers import train_qwen2
from transformers import Qwen3Config

_HEADS = dict(num_key_value_heads=2, head_dim=16)

DATA = EncoderData(
    Qwen3Config,
    cases={
        "plain": _HEADS,
        "biases": dict(attention_bias=True, tie_word_embeddings=True, **_HEADS),
    },
    whole="plain",
    tokenizer=train_qwen2,
    template="$A <|endoftext|>",
    pooling="lasttoken",
    prompts={"document": "", "query": "Instruct: Find what answers the question\nQuery:"},
)
