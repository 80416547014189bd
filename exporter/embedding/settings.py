"""What a model's own files say about its embeddings, as sentence-transformers reads them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.catalogue.encoders import MODULES
from exporter.errors import ExportError
from exporter.json_object import read_object
from exporter.models.encoder_spec import DenseSpec, EmbeddingSpec
from exporter.models.fields import count, flag
from exporter.models.segment_operators import Pooling
from exporter.models.spec import Activation

_MODES: dict[str, Pooling] = {"cls": "first", "mean": "mean", "lasttoken": "last"}
_OLD = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
_KINDS = "bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"
_NOT_APPLIED = ("config_args", "config_kwargs", "processing_kwargs")
_OF_TOKENIZER = ("tokenizer_args", "processor_kwargs")  # the old name and the new one
_LONGEST = "model_max_length"
_ENDLESS = 1e20  # tokenizers without a limit say 1e30
_NO_NUMBERS = (_LONGEST, "padding_side", "trust_remote_code", "use_fast")
_ACTIVATIONS: dict[object, Activation | None] = {
    "Identity": None,
    "GELU": "gelu",
    "ReLU": "relu",
    "SiLU": "silu",
    "Tanh": "tanh",
}  # of torch.nn
_ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
_PROMPTS = "config_sentence_transformers.json"


@dataclass(frozen=True)
class EmbeddingSettings:
    """
    Attributes:
        spec: what becomes of the last hidden states.
        dense: where the weights of its linears are.
        max_seq_len: the most tokens of a text, if the model has so many positions; None: as many
            as it has.
        lowers: whether texts are lower-cased before the tokenizer sees them.
        prompts: texts that may be put before another, by name.
        default_prompt: the name of the one that is used if none is named; None: none is.
    """

    spec: EmbeddingSpec
    dense: tuple[Path, ...]
    max_seq_len: int | None
    lowers: bool
    prompts: Mapping[str, str]
    default_prompt: str | None


def read_settings(directory: Path) -> EmbeddingSettings:
    """Reads the files of a model directory, of which none has to be there: without `modules.json` a
    text's embedding is the mean of its rows, as sentence-transformers has it.

    Raises:
        ExportError: a file asks for what is not computed, or is damaged.
    """
    modules = _modules(directory)
    _require_order(directory, [kind for kind, _ in modules])
    places = {kind: [path for one, path in modules if one == kind] for kind in _ORDER}
    dense = tuple(places["Dense"])
    pooling = _pooling(places["Pooling"][0] / "config.json") if places["Pooling"] else "mean"
    spec = EmbeddingSpec(pooling, bool(places["Normalize"]), tuple(map(_dense, dense)))
    (place,) = places["Transformer"] or [directory]
    text = _transformer(place)
    limit = _longest(place, text)
    prompts, default = _prompts(directory / _PROMPTS)
    lowers = flag(text, "do_lower_case")
    return EmbeddingSettings(spec, dense, limit, lowers, prompts, default)


def _transformer(directory: Path) -> dict[str, Any]:
    """Returns the settings of the Transformer module: its file had a name for each model type.

    Raises:
        ExportError: they ask for what is not computed.
    """
    paths = [directory / f"sentence_{kind}_config.json" for kind in _KINDS]
    path, fields = next(((path, read) for path in paths if (read := _read(path))), (paths[0], {}))
    asked = {name: fields[name] for name in _NOT_APPLIED if fields.get(name)}
    for name in _OF_TOKENIZER:
        given = fields.get(name) or {}
        if not isinstance(given, dict) or not given.keys() <= {*_NO_NUMBERS}:
            asked[name] = given
    if fields.get("transformer_task") not in (None, "feature-extraction"):
        asked["transformer_task"] = fields["transformer_task"]
    for name, value in asked.items():
        raise ExportError(f"{path}: {name} is {value!r}, which is not supported.")
    return fields


def _longest(directory: Path, fields: Mapping[str, Any]) -> int | None:
    """Returns the most tokens of a text, by the Transformer's settings or else the tokenizer's."""
    given = [fields.get(name) or {} for name in reversed(_OF_TOKENIZER)]
    path = directory / "tokenizer_config.json"
    for settings in (*given, {_LONGEST: fields.get("max_seq_length")}, _read(path)):
        value = settings.get(_LONGEST)
        if isinstance(value, int | float) and value > _ENDLESS:
            return None
        if value is not None:
            return count({"max_seq_length": value}, "max_seq_length")
    return None


def _require_order(directory: Path, kinds: Sequence[str]) -> None:
    """Raises ExportError unless modules are of known kinds, in their order, each once but Dense."""
    expected = [kind for kind in _ORDER if kind in kinds for _ in range(kinds.count(kind))]
    twice = [kind for kind in expected if kind != "Dense" and kinds.count(kind) > 1]
    missing = [] if not kinds else [kind for kind in _ORDER[:2] if kind not in kinds]
    if expected != list(kinds) or twice or missing:
        raise ExportError(
            f"{directory / MODULES} has the modules {', '.join(kinds)}; supported are "
            "Transformer, Pooling, any number of Dense, and Normalize, in this order."
        )


def _dense(directory: Path) -> DenseSpec:
    path = directory / "config.json"
    fields = _read(path)
    named = str(fields.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = named.rpartition(".")[2]
    if activation not in _ACTIVATIONS:
        raise ExportError(
            f"{path} has the activation_function {named!r}; supported are "
            f"{', '.join(map(str, _ACTIVATIONS))}."
        )
    return DenseSpec(
        count(fields, "in_features"),
        count(fields, "out_features"),
        flag({"bias": True, **fields}, "bias"),
        _ACTIVATIONS[activation],
    )


def _modules(directory: Path) -> list[tuple[str, Path]]:
    """Returns the modules' kinds, such as Pooling, and where their files are."""
    path = directory / MODULES
    if not path.is_file():
        return []
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        return [
            (str(item["type"]).rpartition(".")[2], directory / str(item.get("path", "")))
            for item in listed
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ExportError(
            f"{path} is not a list of modules ({error}); download it again."
        ) from None


def _pooling(path: Path) -> Pooling:
    fields = _read(path)
    mode = fields.get("pooling_mode")
    modes = [name for key, name in _OLD.items() if flag(fields, key)] if mode is None else mode
    modes = modes if isinstance(modes, list) else [modes]
    if len(modes) != 1 or str(modes[0]) not in _MODES:
        named = ", ".join(map(str, modes)) or "no pooling"
        raise ExportError(f"{path} asks for {named}; supported is one of {', '.join(_MODES)}.")
    if fields.get("include_prompt") is False:
        raise ExportError(
            f"{path} leaves the prompt out of the pooling (include_prompt), which is not supported."
        )
    return _MODES[str(modes[0])]


def _prompts(path: Path) -> tuple[dict[str, str], str | None]:
    fields = _read(path)
    prompts, default = fields.get("prompts") or {}, fields.get("default_prompt_name")
    texts = isinstance(prompts, dict) and all(isinstance(text, str) for text in prompts.values())
    if not texts or not (default is None or default in prompts):
        raise ExportError(
            f"{path} has prompts {prompts!r} and default_prompt_name {default!r}; they must be "
            "texts by name and one of the names, or null."
        )
    return prompts, default


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}
