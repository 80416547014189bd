"""A model on the Hugging Face hub: the files an export needs, in the hub's own cache."""

import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from exporter.errors import ExportError

_NEEDED = [
    "adapter_config.json",
    "adapter_model.safetensors",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
]


def is_hub_id(name: str) -> bool:
    """Whether a name has the form "organisation/model"."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def download(hub_id: str) -> Path:
    """Downloads a model's files into the hub's cache, with the hub's own progress bars.

    Files already in the cache are not downloaded again. Without a network, the cache is used as it
    is.

    Returns:
        The directory that holds the files.

    Raises:
        ExportError: no such model, no access to it, or no network and nothing in the cache.
    """
    try:
        return Path(snapshot_download(hub_id, allow_patterns=_NEEDED))
    except (GatedRepoError, LocalTokenNotFoundError):
        raise ExportError(
            f"The model {hub_id} is gated; accept its licence on https://huggingface.co/{hub_id} "
            "and run `hf auth login`, or name a local directory."
        ) from None
    except (RepositoryNotFoundError, HFValidationError):
        raise ExportError(
            f"There is no directory and no public hub model {hub_id!r}; check the spelling "
            "or, for a private model, run `hf auth login`."
        ) from None
    except HfHubHTTPError as error:
        raise ExportError(_failed(hub_id, error)) from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HTTPError):
        raise ExportError(
            f"There is no directory {hub_id!r}, and the hub model of that name cannot be "
            "downloaded: huggingface.co cannot be reached and the cache does not hold all its "
            "files; connect, or name a local directory."
        ) from None
    except OSError as error:
        raise ExportError(_failed(hub_id, error)) from None


def _failed(hub_id: str, error: Exception) -> str:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return (
        f"The hub model {hub_id} cannot be downloaded ({reason}); try again later, or name a local "
        "directory."
    )
