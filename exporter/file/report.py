"""What a file says of itself: its report, and the facts that a runtime reads from the program."""

from typing import Any

from exporter.plan.cache_type import as_cached
from exporter.plan.kv_caches import states
from exporter.plan.plan import Plan
from exporter.plan.rotary_notes import rotary_notes
from quant.report import QuantReport
from quant.scheme import KEEP

Report = dict[str, Any]  # for JSON
# Of the model, where each text chooses a rotary table by its length: the longest of the first one.
ORIGINAL_CONTEXT = "original_max_position_embeddings"
NOT_RUN = "not run here"  # the file: nothing on this machine runs its delegate


def constant_methods(plan: Plan) -> dict[str, object]:
    """Returns the facts that a runtime reads from the program, by stock ExecuTorch's names."""
    text = plan.text
    methods: dict[str, object] = {
        "get_max_seq_len": plan.max_seq_len,
        "get_max_context_len": plan.max_context_len,
        "enable_dynamic_shape": plan.max_seq_len > 1,
        "get_vocab_size": plan.checkpoint.config.vocab_size,
        "use_kv_cache": True,
        "use_sdpa_with_kv_cache": True,
    }
    methods |= {f"get_sampling_{name}": value for name, value in plan.sampling.items()}
    if text.bos_id is not None:
        methods["get_bos_id"] = text.bos_id
    if states(plan.spec) and plan.options.delegate != "cpu":  # which takes its states back
        methods["get_keeps_states"] = 1
    if text.eos_ids:
        methods["get_eos_ids"] = list(text.eos_ids)
    return methods


def describe(plan: Plan, quantization: QuantReport) -> Report:
    """Returns the report in the file: the model, and the results of quantization."""
    checkpoint, text, quality = plan.checkpoint, plan.text, quantization.quality
    notes = rotary_notes(checkpoint.config, plan.max_context_len, plan.spec)
    original = plan.spec.original_context
    mixers = as_cached(checkpoint.config, plan.item_bytes).attentions
    experts = {"count": quantization.experts, "rare": list(quantization.rare_experts)}
    adapters = [
        {
            "name": adapter.name,
            "source": adapter.source,
            "ranks": adapter.ranks,
            "linears": len(adapter.pairs),
            "bytes": adapter.bytes,
        }
        for adapter in checkpoint.adapters
    ]
    return {
        "model": {
            "name": checkpoint.name,
            "adapter": plan.options.adapter,
            **({"adapters": adapters} if adapters else {}),
            "model_type": checkpoint.config.model_type,
            "parameters": quantization.size.weights,
            **checkpoint.config.dimensions(),
            "max_context_len": plan.max_context_len,
            "max_seq_len": plan.max_seq_len,
            "bos_id": text.bos_id,
            "eos_ids": list(text.eos_ids),
            "chat_template": text.chat_template,
            **({"sampling": dict(plan.sampling)} if plan.sampling else {}),
            **({"left_out": dict(checkpoint.left_out)} if checkpoint.left_out else {}),
            **({"rotary": notes} if notes else {}),
            **({ORIGINAL_CONTEXT: original} if original is not None else {}),
        },
        "quantization": {
            "scheme": quantization.scheme,
            "group_size": plan.scheme.largest_group,
            "head_bits": quantization.head_bits,
            "bits": quantization.widths,
            "method": quantization.method,
            "int8_heads": any(mixer.int8 for mixer in mixers),
            "bits_per_weight": quantization.size.bits_per_weight,
            "linear_bits_per_weight": quantization.size.linear_bits_per_weight,
            "embedding_bytes": quantization.size.embedding,
            **({"layer_input_bytes": outer} if (outer := quantization.size.outer) else {}),
            **({"compared_with": "the weights dequantized"} if plan.scheme.name == KEEP else {}),
            "calibration_tokens": quantization.calibration_tokens,
            **({"imatrix": dict(plan.importance.facts)} if plan.importance else {}),
            **({"experts": experts} if quantization.experts else {}),
        },
        "text": {
            "name": text.source,
            "sha256": text.sha256,
            "calibration_tokens": 0 if text.calibration is None else text.calibration.numel(),
            "held_out_tokens": 0 if text.evaluation is None else text.evaluation.numel(),
        },
        "quality": quality.to_dict() if quality else None,
    }
