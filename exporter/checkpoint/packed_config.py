"""`quantization_config` of a config.json: how the integers of the weights are packed."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.checkpoint.compressed_groups import by_group
from exporter.checkpoint.fp8 import FP8_FORMAT, is_fp8_group
from exporter.checkpoint.name_pattern import NamePattern
from exporter.checkpoint.packed import PackingOf
from exporter.checkpoint.packings import AwqPacking, CompressedPacking, GptqPacking, Packing
from exporter.errors import ExportError

_AUTO_ROUND = {  # the formats that AutoRound packs in, by GPTQ's own name; None: AWQ's
    "auto_round:auto_gptq": "gptq",
    "auto_round:gptq": "gptq",
    "auto_round": "gptq_v2",
    "auto_round:auto_awq": None,
    "auto_round:awq": None,
}
_LAYOUTS = {"pack-quantized": True, "int-quantized": False, "naive-quantized": False}


def read_packing(path: Path, fields: Mapping[str, Any]) -> PackingOf | None:
    """Reads how a checkpoint's weights are packed, module by module; None if all are floats.

    Args:
        path: of the config.json, for messages.
        fields: of the language model, whose family has read them.

    Raises:
        ExportError: a setting that is not supported.
    """
    config = fields.get("quantization_config")
    if not config:
        return None
    method = config["quant_method"]  # the family has refused all others
    try:
        return _READERS[method](path, config)
    except KeyError as error:
        raise ExportError(f"{path}: quantization_config lacks {error}.") from None
    except (AttributeError, TypeError) as error:
        raise ExportError(f"{path}: quantization_config is not laid out as one: {error}.") from None
    except ValueError as error:
        raise ExportError(
            f"{path}: quantization_config of {method} has {error}; use the original float "
            "checkpoint."
        ) from None


def rounded_activations(config: Mapping[str, Any]) -> str:
    """Returns the field of a `quantization_config` that rounds activations; "": there is none."""
    if config.get("quant_method") != "compressed-tensors":
        return "activation_scheme" if config.get("activation_scheme") else ""
    groups = config.get("config_groups")
    listed = groups.values() if isinstance(groups, dict) else []
    rounds = any(isinstance(one, dict) and one.get("input_activations") for one in listed)
    return "input_activations" if rounds else ""


def _gptq(path: Path, config: Mapping[str, Any]) -> PackingOf:
    """Rules of `dynamic` differ for modules whose names match: the first one counts, and one that
    begins with "-:" says that they are floats."""
    _refuse(config, "adapter")
    default = _gptq_packing(config)
    rules: list[tuple[NamePattern, Packing | None]] = []
    for rule, own in (config.get("dynamic") or {}).items():
        sign, pattern = rule[:2], rule.removeprefix("+:").removeprefix("-:")
        packing = None if sign == "-:" else _gptq_packing({**config, **own})
        rules.append((NamePattern(path, "dynamic", pattern), packing))

    def packing_of(module: str) -> Packing | None:
        matching = (packing for pattern, packing in rules if pattern.begins(module))
        return next(matching, default)

    return packing_of


def _gptq_packing(config: Mapping[str, Any]) -> Packing:
    layout = config.get("checkpoint_format", config.get("format", "gptq"))
    _allow("checkpoint_format", layout, ("gptq", "gptq_v2"))
    _allow("bits", config["bits"], (2, 4, 8))
    _allow("pack_dtype", config.get("pack_dtype") or "int32", ("int32",))
    symmetric = config.get("sym")
    _allow("sym", symmetric, (True, False, None))
    size = _group_size(config["group_size"])
    reordered = bool(config.get("desc_act"))
    return GptqPacking(config["bits"], size, layout == "gptq", symmetric, reordered)


def _awq(path: Path, config: Mapping[str, Any]) -> PackingOf:
    _allow("bits", config.get("bits", config.get("w_bit")), (4,))
    _allow("version", str(config.get("version", "gemm")).lower(), ("gemm",))
    packing = AwqPacking(_group_size(config.get("group_size", config.get("q_group_size"))))
    return lambda module: packing


def _auto_round(path: Path, config: Mapping[str, Any]) -> PackingOf:
    """`extra_config` has what differs in modules, by their names."""
    own = config.get("extra_config") or {}
    patterns = [name for name in own if not re.fullmatch(r"[\w.]+", name)]
    if patterns:
        raise ValueError(f"{patterns[0]!r} in extra_config, which is no module's name")
    packings = {name: _auto_round_packing({**config, **changes}) for name, changes in own.items()}
    default = _auto_round_packing(config)
    return lambda module: packings.get(module, default)


def _auto_round_packing(config: Mapping[str, Any]) -> Packing | None:
    if config["bits"] == 16:
        return None
    _allow("data_type", config.get("data_type", "int"), ("int",))
    _allow("act_bits", config.get("act_bits") or 16, (16,))
    layout = config.get("packing_format", "auto_round:auto_gptq")
    _allow("packing_format", layout, tuple(_AUTO_ROUND))
    version = _AUTO_ROUND[layout]
    if version is not None:
        return _gptq_packing({**config, "checkpoint_format": version})
    _allow("bits", config["bits"], (4,))
    return AwqPacking(_group_size(config["group_size"]))


def _compressed(path: Path, config: Mapping[str, Any]) -> PackingOf:
    _refuse(config, "transform_config", "kv_cache_scheme")
    sparsity = (config.get("sparsity_config") or {}).get("format", "dense")
    _allow("sparsity_config.format", sparsity, ("dense",))
    return by_group(path, config, lambda group: _compressed_packing(config, group))


def _compressed_packing(config: Mapping[str, Any], group: Mapping[str, Any]) -> Packing | None:
    if is_fp8_group(config, group):
        return None
    layout, weights = group.get("format") or config["format"], group["weights"]
    _allow("format", layout, (*_LAYOUTS, FP8_FORMAT))
    _allow("type", weights["type"], ("int",))
    _allow("num_bits", weights["num_bits"], (2, 4, 8) if _LAYOUTS[layout] else (4, 8))
    size = _group_size(weights.get("group_size") or -1)
    return CompressedPacking(weights["num_bits"], size, _LAYOUTS[layout])


_READERS = {
    "gptq": _gptq,
    "awq": _awq,
    "compressed-tensors": _compressed,
    "auto-round": _auto_round,
}


def _refuse(config: Mapping[str, Any], *names: str) -> None:
    """Refuses settings of what is computed beside the weights."""
    for name in names:
        if config.get(name):
            raise ValueError(f"{name} {config[name]!r}, which is not supported")


def _allow(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(type(value) is type(one) and value == one for one in allowed):
        raise ValueError(f"{name} {value!r}, where {', '.join(map(str, allowed))} is read")


def _group_size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or (value < 1 and value != -1):
        raise ValueError(f"group_size {value!r}, not a number of inputs")
    return value
