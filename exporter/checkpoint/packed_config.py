"""`quantization_config` of a config.json: how the integers of the weights are packed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.checkpoint.packed import AwqPacking, CompressedPacking, GptqPacking, Packing
from exporter.errors import ExportError

_LAYOUTS = {"pack-quantized": True, "int-quantized": False, "naive-quantized": False}


def read_packing(path: Path, fields: Mapping[str, Any]) -> Packing | None:
    """Reads how a checkpoint's weights are packed; None if they are floats.

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
        return _READERS[method](config)
    except KeyError as error:
        raise ExportError(f"{path}: quantization_config lacks {error}.") from None
    except (AttributeError, TypeError) as error:
        raise ExportError(f"{path}: quantization_config is not laid out as one: {error}.") from None
    except ValueError as error:
        raise ExportError(
            f"{path}: quantization_config of {method} has {error}; use the original float "
            "checkpoint."
        ) from None


def _gptq(config: Mapping[str, Any]) -> Packing:
    _refuse(config, "adapter")
    layout = config.get("checkpoint_format", config.get("format", "gptq"))
    _allow("checkpoint_format", layout, ("gptq", "gptq_v2"))
    _allow("bits", config["bits"], (2, 4, 8))
    symmetric = config.get("sym")
    _allow("sym", symmetric, (True, False, None))
    size = _group_size(config["group_size"])
    return GptqPacking(config["bits"], size, layout == "gptq", symmetric)


def _awq(config: Mapping[str, Any]) -> Packing:
    _allow("bits", config.get("bits", config.get("w_bit")), (4,))
    _allow("version", str(config.get("version", "gemm")).lower(), ("gemm",))
    return AwqPacking(_group_size(config.get("group_size", config.get("q_group_size"))))


def _compressed(config: Mapping[str, Any]) -> Packing:
    _refuse(config, "transform_config", "kv_cache_scheme")
    layout = config["format"]
    _allow("format", layout, tuple(_LAYOUTS))
    sparsity = (config.get("sparsity_config") or {}).get("format", "dense")
    _allow("sparsity_config.format", sparsity, ("dense",))
    groups = config["config_groups"].values()
    weights = [group["weights"] for group in groups if group["weights"]]  # else of activations
    settings = {(w["num_bits"], w["type"], w.get("group_size")) for w in weights}
    if len(settings) != 1:
        raise ValueError(f"config_groups of {len(settings)} kinds, where one is read")
    ((bits, kind, group_size),) = settings
    _allow("type", kind, ("int",))
    _allow("num_bits", bits, (4, 8))
    return CompressedPacking(bits, _group_size(group_size or -1), _LAYOUTS[layout])


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
