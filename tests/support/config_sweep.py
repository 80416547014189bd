"""Configs with one thing changed: as `transformers` loads them, and as we do.

    PYTHONPATH=tests python -m support.config_sweep [MODEL_TYPE ...]

prints a row for each family: how many both compute alike, how many only one of them computes, and
those that both compute differently, of which there must be none.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import support.silent  # noqa: F401
import torch
from support.families import FAMILIES
from support.family_models import SHAPE, case_of, model_of, our_model, tokens_of, transformers

from exporter.errors import ExportError
from exporter.models.families import decoder_spec

ALIKE, NEITHER, OURS, THEIRS = "alike", "neither", "ours alone", "transformers alone"
TOLERANCE = 1e-4
_OF_NO_MODEL = {"transformers_version", "dtype", "id2label", "label2id", "architectures"}
_KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
# What configs of one family say and others do not read, or read otherwise.
_OTHERS: dict[str, Any] = {
    "attention_bias": True,
    "mlp_bias": True,
    "head_dim": 16,
    "sliding_window": 7,
    "use_sliding_window": True,
    "max_window_layers": 1,
    "layer_types": _KINDS,
    "partial_rotary_factor": 0.5,
    "no_rope_layers": [1, 0, 1],
    "no_rope_layer_interval": 2,
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.3,
    "residual_multiplier": 0.4,
    "logits_scaling": 2.0,
    "final_logit_softcapping": 3.0,
    "attn_logit_softcapping": 0.4,
    "query_pre_attn_scalar": 5,
    "sliding_window_pattern": 2,
    "rope_local_base_freq": 100.0,
    "rope_theta": 300.0,
    "original_max_position_embeddings": 16,
    "hidden_activation": "gelu",
    "hidden_act": "gelu",
    "tie_embedding": True,
    "norm_eps": 1e-2,
    "rms_norm_eps": 1e-2,
    "num_experts": 3,
    "num_local_experts": 3,
    "is_causal": False,
    "use_bidirectional_attention": True,
    "global_head_dim": 8,
    "per_layer_config": {"0": {"head_dim": 16}},
    "num_kv_shared_layers": 1,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
_ROPES: list[dict[str, Any]] = [
    {},
    {"rope_type": "default"},
    {"rope_theta": 300.0},
    {"rope_type": None},
    {"rope_type": "default", "rope_theta": None},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "linear", "factor": 2, "rope_theta": 300.0},
    {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
    {"rope_type": "linear"},
    {"rope_type": "linear", "factor": "2"},
    {"type": "linear", "factor": 2.0},
    {"type": "yarn", "rope_type": "linear", "factor": 2.0},
    {"factor": 4.0},
    {"rope_type": "dynamic", "factor": 3.0},
    {"rope_type": "ntk", "factor": 2.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    _YARN,
    {"rope_type": "yarn", "factor": 4.0},
    {**_YARN, "factor": None},
    {**_YARN, "mscale": 0.7, "mscale_all_dim": 1.2, "truncate": False},
    {**_YARN, "attention_factor": 1.3, "truncate": True},
    {**_YARN, "attention_factor": None, "beta_fast": None, "beta_slow": 0, "truncate": None},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 2.0},
]
_PLAIN = {"rope_type": "default", "rope_theta": 50.0}


def base_fields(model_type: str) -> dict[str, Any]:
    """The config.json of one of a family's models, with every field."""
    case = case_of(model_type, FAMILIES[model_type].swept)
    config = transformers.AutoConfig.for_model(model_type, **{**SHAPE, **case.fields})
    fields: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    fields.pop("time_step_limit", None)  # whose default transformers does not read back
    return {name: value for name, value in fields.items() if name not in _OF_NO_MODEL}


def changed_configs(model_type: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is changed, and the config: each field dropped, null, and of other values and types;
    fields of other families; rotary fields of every kind in every place."""
    base = base_fields(model_type)
    yield "nothing", base
    for name, value in base.items():
        if name == "model_type":
            continue
        yield f"{name} dropped", {key: kept for key, kept in base.items() if key != name}
        for other in _others(value):
            yield f"{name} {other!r}", {**base, name: other}
    for name, value in _OTHERS.items():
        if base.get(name) != value:
            yield f"{name} {value!r} too", {**base, name: value}
    yield from _other_ropes(base)


def _others(value: Any) -> list[Any]:
    """Other values of a field, and values of other types."""
    if isinstance(value, bool):
        return [None, not value, int(value), str(value)]
    if isinstance(value, int):
        return [None, value + 1, value * 2, 0, -1, float(value), str(value), True, [value]]
    if isinstance(value, float):
        return [None, value * 2, 0, -value, str(value), True]
    if isinstance(value, str):
        return [None, "relu", "", 7, [value]]
    if isinstance(value, list):
        return [None, [], value[:-1], [*value, value[-1]], value[::-1], "x", {}]
    if isinstance(value, dict):
        return [None, [], {}, "x", 7]
    return [1, 7, 1.5, True, "x", "all", [], {}]


def _other_ropes(base: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    pairs = (base.get("head_dim") or base["hidden_size"] // base["num_attention_heads"]) // 2
    longrope = {
        "rope_type": "longrope",
        "short_factor": [1.2] * pairs,
        "long_factor": [1.7] * pairs,
    }
    ropes = [
        *_ROPES,
        {**longrope, "factor": 4.0},
        {**longrope, "original_max_position_embeddings": 16},
        {**longrope, "original_max_position_embeddings": 16, "factor": 2.0},
    ]
    without = {name: value for name, value in base.items() if name != "rope_parameters"}
    for rope in ropes:
        by_kind = {"full_attention": rope, "sliding_attention": _PLAIN}
        exchanged = {"full_attention": _PLAIN, "sliding_attention": rope}
        for added in (
            {"rope_scaling": rope, "rope_parameters": base.get("rope_parameters")},
            {"rope_scaling": rope, "rope_parameters": _PLAIN},
            {"rope_scaling": rope},
            {"rope_scaling": rope, "rope_theta": 500.0},
            {"rope_scaling": rope, "rope_parameters": {kind: _PLAIN for kind in by_kind}},
            {"rope_parameters": rope},
            {"rope_parameters": rope, "rope_scaling": {"rope_type": "default"}},
            {"rope_parameters": rope, "rope_theta": 500.0, "rope_scaling": None},
            {"rope_parameters": rope, "original_max_position_embeddings": 24},
            {"rope_parameters": by_kind},
            {"rope_parameters": exchanged, "rope_theta": 500.0},
            {"rope_parameters": {"full_attention": rope}},
            {"rope_parameters": {"full_attention": rope, "sliding_attention": None}},
        ):
            yield json.dumps(added), {**without, **added}


@torch.no_grad()
def outcome(fields: dict[str, Any]) -> str:
    """ALIKE, NEITHER, OURS, THEIRS, or how a model that both compute differs."""
    refused = None
    try:
        decoder_spec(fields)
    except ExportError as error:
        refused = error
    try:
        reference = model_of(_config_of(fields))
        tokens = tokens_of(reference)
        expected = reference(tokens, use_cache=False).logits
    except Exception:  # whatever it says of a config that it does not take
        return OURS if refused is None else NEITHER
    if refused is not None:
        return THEIRS
    found = our_model(reference, fields).logits(tokens)
    if torch.equal(expected.isnan(), found.isnan()) and expected.isnan().any():
        return ALIKE
    difference = (found - expected).abs().max().item()
    return ALIKE if difference < TOLERANCE else f"differs by {difference:.2g}"


def _config_of(fields: dict[str, Any]) -> Any:
    """As AutoConfig reads a file; of Mistral's, those that list kinds of layers are Ministral's."""
    fields = json.loads(json.dumps(fields))
    model_type = fields.pop("model_type")
    if model_type == "mistral" and "layer_types" in fields:
        model_type = "ministral"
    return transformers.AutoConfig.for_model(model_type, **fields)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=FAMILIES, metavar="MODEL_TYPE")
    transformers.logging.set_verbosity_error()  # it warns of most of what is changed
    known = (ALIKE, THEIRS, OURS, NEITHER)
    print(f"| family | {' | '.join(known)} | different |\n|---|{'---|' * 5}")
    for model_type in parser.parse_args().families:
        found = {what: outcome(fields) for what, fields in changed_configs(model_type)}
        counts = Counter(found.values())
        different = [f"{what}: {said}" for what, said in found.items() if said not in known]
        numbers = " | ".join(str(counts[one]) for one in known)
        print(f"| {model_type} | {numbers} | {len(different)} |", *different, sep="\n  ")


if __name__ == "__main__":
    main()
