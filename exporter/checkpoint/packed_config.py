"""`quantization_config` of a config.json: how the integers of the weights are packed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.checkpoint.compressed_groups import by_group
from exporter.checkpoint.fp8 import FP8_FORMAT, is_fp8_group
from exporter.checkpoint.name_pattern import NamePattern
from exporter.checkpoint.packed import PackingOf
from exporter.checkpoint.packings import AwqPacking, CompressedPacking, GptqPacking, Packing
from exporter.errors import ExportError

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


_READERS = {"gptq": _gptq, "awq": _awq, "compressed-tensors": _compressed}


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
