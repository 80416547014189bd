"""BERT."""

from support.encoders import EncoderData
from transformers import AutoModelForMaskedLM, BertConfig

DATA = EncoderData(
    BertConfig,
    cases={
        "plain": {},
        "one-type": {"hidden_act": "gelu_new", "type_vocab_size": 1, "layer_norm_eps": 1e-3},
        "one-head": {"hidden_act": "relu", "num_attention_heads": 1},
    },
    auto=AutoModelForMaskedLM.from_config,
)
