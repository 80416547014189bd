"""ModernBERT."""

from support.encoders import EncoderData
from support.trained_tokenizers import train_digits
from transformers import AutoModelForMaskedLM, ModernBertConfig

_TOKENS = dict(pad_token_id=0, cls_token_id=1, bos_token_id=1, eos_token_id=2, sep_token_id=2)
_KINDS = ["sliding_attention", "full_attention", "full_attention"]

DATA = EncoderData(
    ModernBertConfig,
    cases={
        "plain": dict(local_attention=8, **_TOKENS),
        "biases": dict(
            local_attention=8, norm_bias=True, attention_bias=True, mlp_bias=True, **_TOKENS
        ),
        "kinds": dict(
            local_attention=5,
            layer_types=_KINDS,
            hidden_activation="relu",
            norm_eps=1e-3,
            **_TOKENS,
        ),
        "thetas": dict(
            local_attention=8, global_rope_theta=500.0, local_rope_theta=50.0, **_TOKENS
        ),
    },
    whole="plain",
    tokenizer=train_digits,
    template="[CLS] $A [SEP]",
    pooling="cls",
    auto=AutoModelForMaskedLM.from_config,
)
