"""Hub ids, without a network: which files are asked for, and a sentence for each way to fail."""

import json
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub.constants
import pytest
import torch
from huggingface_hub import errors
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import save_file

from exporter.catalogue import hub
from exporter.catalogue.presets import resolve_model
from exporter.checkpoint import open_checkpoint
from exporter.errors import ExportError
from exporter.models.decoder import CausalLM
from exporter.models.families import decoder_spec

NAME = "some-org/some-model"
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 8,
}
NOT_FETCHED = (
    f"There is no directory '{NAME}', and the hub model of that name cannot be downloaded. "
    "The site huggingface.co cannot be reached and the cache does not hold all its files; connect, "
    "or name a local directory."
)
UNKNOWN = (
    f"There is no directory and no public hub model '{NAME}'; check the spelling or, for a private "
    "model, run `hf auth login`."
)
GATED = (
    f"The model {NAME} is gated; accept its licence on https://huggingface.co/{NAME} and run "
    "`hf auth login`, or name a local directory."
)
RESPONSE = httpx2.Response(500, request=httpx2.Request("GET", "https://huggingface.co"))


def refusal(name: str) -> str:
    with pytest.raises(ExportError) as raised:
        open_checkpoint(name)
    assert raised.value.__suppress_context__  # no traceback of the hub's under the sentence
    return str(raised.value)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and the hub library as HF_HUB_OFFLINE=1 makes it."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_offline_and_nothing_in_the_cache(cache: Path) -> None:
    assert refusal(NAME) == NOT_FETCHED


def test_offline_with_the_model_in_the_cache(cache: Path) -> None:
    repository = cache / "models--some-org--some-model"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    (snapshot / "config.json").write_text(json.dumps(CONFIG))
    model = CausalLM(decoder_spec(CONFIG))
    save_file(dict(model.state_dict()), snapshot / "model.safetensors")
    checkpoint = open_checkpoint(NAME)
    assert (checkpoint.name, checkpoint.directory) == (NAME, snapshot)
    assert torch.equal(checkpoint.tensor("lm_head.weight"), model.lm_head.weight)
    assert resolve_model(NAME).config == decoder_spec(CONFIG)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.GatedRepoError("no", response=RESPONSE), GATED),
        (errors.LocalTokenNotFoundError("no"), GATED),
        (errors.RepositoryNotFoundError("no", response=RESPONSE), UNKNOWN),
        (errors.HFValidationError("no"), UNKNOWN),
        (errors.LocalEntryNotFoundError("no"), NOT_FETCHED),
        (errors.OfflineModeIsEnabled("no"), NOT_FETCHED),
        (httpx2.ConnectError("no"), NOT_FETCHED),
        (httpx2.ProxyError("no"), NOT_FETCHED),
        (
            errors.HfHubHTTPError("500 Server Error\nRequest ID: 7", response=RESPONSE),
            f"The hub model {NAME} cannot be downloaded (500 Server Error); try again later, or "
            "name a local directory.",
        ),
        (
            OSError(28, "No space left on device"),
            f"The hub model {NAME} cannot be downloaded ([Errno 28] No space left on device); try "
            "again later, or name a local directory.",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_way_to_fail_has_its_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def fail(name: str, allow_patterns: list[str]) -> str:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", fail)
    assert refusal(NAME) == message


def test_only_the_needed_files_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needed = ["config.json", "generation_config.json", "model-00001-of-00002.safetensors"]
    needed += ["model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"]
    needless = ["consolidated.safetensors", "original/consolidated.00.pth", "pytorch_model.bin"]
    needless += ["README.md", "original/tokenizer.model", "onnx/model.onnx", "model.gguf"]
    asked: list[str] = []

    def record(name: str, allow_patterns: list[str]) -> str:
        asked.extend(filter_repo_objects([*needed, *needless], allow_patterns=allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", record)
    hub.download(NAME)
    assert asked == needed


@pytest.mark.parametrize("safetensors", [True, False])
def test_pickles_are_asked_for_where_nothing_else_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, safetensors: bool
) -> None:
    if safetensors:
        (tmp_path / "model.safetensors").touch()
    files = ["config.json", "pytorch_model.bin", "pytorch_model-00001-of-00002.bin"]
    asked: list[str] = []

    def record(name: str, allow_patterns: list[str]) -> str:
        asked[:] = filter_repo_objects(files, allow_patterns=allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", record)
    hub.download_model(NAME)
    assert asked == (["config.json"] if safetensors else files)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("meta-llama/Llama-3.2-1B", True), ("Qwen/Qwen2.5-0.5B", True), ("llama3", False)]
    + [("a/b/c", False), ("./models/x", False), ("../x", False), ("/x/y", False), ("a/", False)],
)
def test_what_looks_like_a_hub_id(name: str, is_one: bool) -> None:
    assert hub.is_hub_id(name) is is_one


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("a/b/c.gguf", True), ("a/b/Q8_0/c-00001-of-00002.gguf", True), ("a/b.gguf", False)]
    + [
        ("a/b/c.bin", False),
        ("a/b/../c.gguf", False),
        ("/a/b/c.gguf", False),
        ("./a.gguf", False),
    ],
)
def test_what_looks_like_a_file_of_a_hub_model(name: str, is_one: bool) -> None:
    assert hub.is_hub_file(name) is is_one


def test_of_a_split_file_all_parts_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts = [f"Q8_0/m-0000{number}-of-00002.gguf" for number in (1, 2)]
    others = ["config.json", "Q8_0/m-00001-of-00003.gguf", "Q4_0/m-00001-of-00002.gguf"]

    def record(name: str, allow_patterns: list[str]) -> str:
        assert name == NAME
        assert list(filter_repo_objects([*parts, *others], allow_patterns=allow_patterns)) == parts
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", record)
    with pytest.raises(ExportError) as raised:
        open_checkpoint(f"{NAME}/{parts[1]}")
    assert str(raised.value) == (
        f"The hub model {NAME} has no file {parts[1]}; look at https://huggingface.co/{NAME}/tree/"
        "main for its files."
    )
    (tmp_path / "Q8_0").mkdir()
    (tmp_path / parts[1]).touch()
    assert hub.download_file(f"{NAME}/{parts[1]}") == tmp_path / parts[1]
