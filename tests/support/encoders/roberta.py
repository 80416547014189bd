"""RoBERTa, below a name of its own."""

from support.encoders import EncoderData
from transformers import AutoModelForMaskedLM, RobertaConfig

DATA = EncoderData(
    RobertaConfig,
    cases={"padded": {"pad_token_id": 1}},
    auto=AutoModelForMaskedLM.from_config,
)
