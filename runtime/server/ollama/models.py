"""Models as Ollama's clients list them."""

import hashlib
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from runtime.server.served import ServedModel
from runtime.server.shelf import Place

_Json = dict[str, Any]


def listed(served: ServedModel) -> _Json:
    """An entry of /api/tags and /api/ps."""
    name = f"{served.name}:latest"
    digest = hashlib.sha256(json.dumps(served.report, sort_keys=True).encode()).hexdigest()
    return {
        "name": name,
        "model": name,
        "modified_at": _written(datetime.fromtimestamp(served.file_time, UTC)),
        "size": served.file_size,
        "digest": digest,
        "details": _details(served),
    }


def running(place: Place) -> _Json:
    """An entry of /api/ps."""
    return {
        **listed(place.served),
        "size": place.served.memory,
        "expires_at": _expires(place),
        "size_vram": 0,
        "context_length": place.served.context,
    }


def _expires(place: Place) -> str:
    if place.keep is None or not math.isfinite(place.keep):
        return "9999-12-31T23:59:59Z"
    seconds = place.keep if place.expires_in is None else place.expires_in
    return _written(datetime.now(UTC) + timedelta(seconds=seconds))


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def shown(served: ServedModel) -> _Json:
    """The answer of /api/show."""
    model = served.report.get("model", {})
    family = model.get("model_type", "")
    sizes = {"embedding_length": "hidden_size", "block_count": "num_hidden_layers"}
    return {
        "modelfile": "",
        "parameters": "",
        "template": served.template or "",
        "details": _details(served),
        "model_info": {
            "general.architecture": family,
            "general.parameter_count": model.get("parameters", 0),
            f"{family}.context_length": served.context,
            **{f"{family}.{name}": model[key] for name, key in sizes.items() if key in model},
        },
        "capabilities": served.capabilities,
    }


def _details(served: ServedModel) -> _Json:
    model = served.report.get("model", {})
    family = model.get("model_type", "")
    return {
        "parent_model": "",
        "format": "pte",
        "family": family,
        "families": [family],
        "parameter_size": _short(model.get("parameters", 0)),
        "quantization_level": served.report.get("quantization", {}).get("scheme", "none"),
    }


def _short(parameters: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if parameters >= size:
            return f"{parameters / size:.1f}{unit}"
    return str(parameters)
