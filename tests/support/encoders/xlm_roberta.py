"""XLM-RoBERTa, below a name of its own."""

from support.encoders import EncoderData
from transformers import AutoModelForMaskedLM, XLMRobertaConfig

DATA = EncoderData(
    XLMRobertaConfig,
    cases={"padded": {"pad_token_id": 0}},
    auto=AutoModelForMaskedLM.from_config,
)
