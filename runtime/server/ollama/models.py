"""The model as Ollama's clients list it."""

import hashlib
import json
from typing import Any

from runtime.chat_format.template import ChatTemplate
from runtime.server.settings import ServerSettings

_Json = dict[str, Any]


def listed(settings: ServerSettings) -> _Json:
    """An entry of /api/tags and /api/ps."""
    name = f"{settings.model}:latest"
    digest = hashlib.sha256(json.dumps(settings.report, sort_keys=True).encode()).hexdigest()
    return {
        "name": name,
        "model": name,
        "modified_at": "1970-01-01T00:00:00Z",
        "size": settings.file_size,
        "digest": digest,
        "details": _details(settings),
    }


def running(settings: ServerSettings) -> _Json:
    """An entry of /api/ps: the model never goes."""
    return {
        **listed(settings),
        "expires_at": "9999-12-31T23:59:59Z",
        "size_vram": 0,
        "context_length": settings.report["model"]["max_context_len"],
    }


def shown(settings: ServerSettings, template: ChatTemplate | None) -> _Json:
    """The answer of /api/show."""
    model = settings.report["model"]
    family = model["model_type"]
    can = ["completion"]
    if template is not None and template.takes_tools:
        can.append("tools")
    return {
        "modelfile": "",
        "parameters": "",
        "template": "" if template is None else template.source,
        "details": _details(settings),
        "model_info": {
            "general.architecture": family,
            "general.parameter_count": model["parameters"],
            f"{family}.context_length": model["max_context_len"],
            f"{family}.embedding_length": model["hidden_size"],
            f"{family}.block_count": model["num_hidden_layers"],
        },
        "capabilities": can,
    }


def _details(settings: ServerSettings) -> _Json:
    model = settings.report["model"]
    return {
        "parent_model": "",
        "format": "pte",
        "family": model["model_type"],
        "families": [model["model_type"]],
        "parameter_size": _short(model["parameters"]),
        "quantization_level": settings.report["quantization"]["scheme"],
    }


def _short(parameters: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if parameters >= size:
            return f"{parameters / size:.1f}{unit}"
    return str(parameters)
