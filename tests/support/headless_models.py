"""Models that transformers has without a head, and with one only where they see: here alone."""

from typing import Any

import transformers
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLPreTrainedModel, Qwen3VLTextModel


class Qwen3VLTextForCausalLM(Qwen3VLPreTrainedModel):
    """As Qwen3VLForConditionalGeneration computes a text."""

    config_class = transformers.Qwen3VLTextConfig
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = Qwen3VLTextModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids: Tensor, **given: Any) -> CausalLMOutput:
        return CausalLMOutput(logits=self.lm_head(self.model(input_ids, **given)[0]))


def register() -> None:
    """Makes them known to AutoModelForCausalLM."""
    made = Qwen3VLTextForCausalLM
    transformers.AutoModelForCausalLM.register(made.config_class, made, exist_ok=True)
