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

from exporter.catalogue.names import is_hub_file as is_hub_file
from exporter.catalogue.names import is_hub_id as is_hub_id
from exporter.catalogue.names import missing
from exporter.errors import ExportError

_NEEDED = [
    "adapter_config.json",
    "adapter_model.bin",
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
    "chat_template.json",
    "additional_chat_templates/*.jinja",
    "preprocessor_config.json",
    "processor_config.json",
]
_OF_ENCODERS = [
    "modules.json",
    "*/config.json",
    "*/model.safetensors",
    "sentence_*_config.json",
    "*/sentence_*_config.json",
    "config_sentence_transformers.json",
    "vocab.txt",
    "sentencepiece.bpe.model",
]
_CONFIGS = ["config.json", "modules.json"]  # which tell an encoder
_SAFETENSORS = "model*.safetensors"
_PICKLED = ["pytorch_model.bin", "pytorch_model-*.bin", "pytorch_model.bin.index.json"]


def download_file(name: str) -> Path:
    """Downloads a GGUF file of a model, with all parts of a split one, into the hub's cache.

    Args:
        name: as `is_hub_file` takes it.

    Returns:
        The file.

    Raises:
        ExportError: as `download` does, or the model has no such file.
    """
    organisation, model, file = name.split("/", 2)
    hub_id = f"{organisation}/{model}"
    parts = re.sub(r"-\d{5}-of-(\d{5})\.gguf$", r"-*-of-\1.gguf", file)
    path = download(hub_id, [parts]) / file
    if not path.is_file():
        raise ExportError(
            f"The hub model {hub_id} has no file {file}; look at "
            f"https://huggingface.co/{hub_id}/tree/main for its files."
        )
    return path


def download_model(hub_id: str) -> Path:
    """As `download` does; pickled weights too where the model has no others."""
    return _with_weights(hub_id, _NEEDED)


def download_configs(hub_id: str) -> Path:
    """As `download` does, of the files alone that tell what the model is."""
    return download(hub_id, _CONFIGS)


def download_encoder(hub_id: str) -> Path:
    """As `download_model` does, with what becomes of an encoder's hidden states."""
    return _with_weights(hub_id, [*_NEEDED, *_OF_ENCODERS])


def _with_weights(hub_id: str, patterns: list[str]) -> Path:
    directory = download(hub_id, patterns)
    if any(directory.glob(_SAFETENSORS)):
        return directory
    return download(hub_id, [*patterns, *_PICKLED])


def download(hub_id: str, patterns: list[str] = _NEEDED) -> Path:
    """Downloads a model's files into the hub's cache, with the hub's own progress bars.

    Files already in the cache are not downloaded again. Without a network, the cache is used as it
    is.

    Args:
        patterns: which files.

    Returns:
        The directory that holds the files.

    Raises:
        ExportError: no such model, no access to it, or no network and nothing in the cache.
    """
    try:
        return Path(snapshot_download(hub_id, allow_patterns=patterns))
    except (GatedRepoError, LocalTokenNotFoundError):
        raise ExportError(
            f"The model {hub_id} is gated; accept its licence on https://huggingface.co/{hub_id} "
            "and run `hf auth login`, or name a local directory."
        ) from None
    except (RepositoryNotFoundError, HFValidationError):
        raise ExportError(
            f"{missing(hub_id)} and no public hub model {hub_id!r}; check the spelling "
            "or, for a private model, run `hf auth login`."
        ) from None
    except HfHubHTTPError as error:
        raise ExportError(_failed(hub_id, error)) from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HTTPError):
        raise ExportError(
            f"{missing(hub_id)} {hub_id!r}, and the hub model of that name cannot be "
            "downloaded. The site huggingface.co cannot be reached and the cache does not hold all "
            "its files; connect, or name a local directory."
        ) from None
    except OSError as error:
        raise ExportError(_failed(hub_id, error)) from None


def _failed(hub_id: str, error: Exception) -> str:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return (
        f"The hub model {hub_id} cannot be downloaded ({reason}); try again later, or name a local "
        "directory."
    )
