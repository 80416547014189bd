"""Whisper in one file, OpenAI's and whisper.cpp's: the weights and tokens of Hugging Face's."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support import hearing_models as models
from support.exported import Quiet
from support.hearing import features_of, spoken, transcribe, write_wav
from support.openai_whisper import RANKED, ggml, write_openai, write_ranks

from exporter.catalogue.hearing import is_hearing
from exporter.errors import ExportError
from exporter.hearing.log_mel import read_log_mel
from exporter.hearing.openai import as_directory
from exporter.hearing.pipeline import HearingOptions, export_hearing, load, open_whisper
from exporter.hearing.transcription import read_transcription
from exporter.tokenizer import load_tokenizer
from quant.scheme import Scheme

transformers = pytest.importorskip("transformers")
_FIRST = len(RANKED)  # of the tokens with a name
_VOCABULARY = _FIRST + 2 + 2 + 6 + 50 * models.WINDOW + 1  # with two languages


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A checkpoint of Hugging Face's, files of the others', and transformers' model."""
    directory = tmp_path_factory.mktemp("whisper")
    model = models.write_whisper(directory / "hf", vocab_size=_VOCABULARY)
    write_openai(directory / "tiny.pt", model)
    write_ranks(directory / "tiny.tiktoken")
    (directory / "ggml-tiny.bin").write_bytes(ggml(model))
    (directory / "ggml-half.bin").write_bytes(ggml(model, halves=True))
    return directory, model


@pytest.mark.parametrize("name", ["tiny.pt", "ggml-tiny.bin", "ggml-half.bin"])
def test_weights_and_tokens(
    stored: tuple[Path, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, _ = stored
    monkeypatch.setattr("exporter.hearing.openai._ENGLISH", _VOCABULARY)
    right = open_whisper(directory / "hf")
    assert is_hearing(directory / name)
    with as_directory(directory / name) as found:
        checkpoint = open_whisper(found)
        assert checkpoint.config == right.config and checkpoint.name == name.partition(".")[0]
        expected, got = load(right).state_dict(), load(checkpoint).state_dict()
        assert expected.keys() == got.keys()
        for key, tensor in expected.items():
            is_half = "half" in name and tensor.dim() > 1 and "embed_positions" not in key
            assert torch.equal(got[key], tensor.half().float() if is_half else tensor), key
        assert read_log_mel(found) == read_log_mel(directory / "hf")
        settings = read_transcription(found, checkpoint.config)
        encode = load_tokenizer(found).encode
        assert encode(" the t-he") == [258, 256, ord("-"), 257]
    assert (settings.end, settings.start) == (_FIRST, _FIRST + 1)
    assert settings.languages == {"en": _FIRST + 2, "zh": _FIRST + 3}
    assert (settings.translate, settings.transcribe) == (_FIRST + 4, _FIRST + 5)
    assert settings.no_timestamps == _FIRST + 9 == _VOCABULARY - 50 * models.WINDOW - 2
    assert settings.begin_suppress == (ord(" "), settings.end)
    assert {ord("["), ord(" "), settings.start, settings.no_timestamps - 1} < {*settings.suppress}
    assert {ord("a"), settings.end, settings.no_timestamps}.isdisjoint(settings.suppress)
    heads = right.config.decoder_attention_heads
    assert settings.alignment_heads == tuple((a, b) for a in (1, 2) for b in range(heads))


@pytest.mark.check
def test_a_file_becomes_one(stored: tuple[Path, Any], cpp_build: Path, tmp_path: Path) -> None:
    directory, model = stored
    path = directory / "ggml-tiny.bin"
    pte = export_hearing(HearingOptions(path, tmp_path / "w.pte", Scheme("none")), Quiet()).out
    samples = spoken(1.3, 500)
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
    with as_directory(path) as found:
        fields = json.loads((found / "generation_config.json").read_text())
    (segment,) = got["segments"]
    begins = [fields["decoder_start_token_id"], fields["no_timestamps_token_id"]]
    given = features_of(samples, models.WINDOW), torch.tensor([[*begins, *segment["tokens"]]])
    with torch.no_grad():
        logits = model(given[0], decoder_input_ids=given[1]).logits[0, 1:-1]
    logits[:, fields["suppress_tokens"]] = -torch.inf
    logits[0, fields["begin_suppress_tokens"]] = -torch.inf
    assert segment["tokens"] == logits.argmax(1).tolist() and len(segment["tokens"]) > 5


def test_what_is_refused(stored: tuple[Path, Any], tmp_path: Path) -> None:
    directory, model = stored
    whole = (directory / "ggml-tiny.bin").read_bytes()
    files = {
        "cut.bin": (whole[:-100], "cut off or damaged"),
        "head.bin": (whole[:20], "cut off or damaged"),
        "q4.bin": (ggml(model, kind=2), "GGML's type 2, but only floats are read"),
        "odd.bin": (whole.replace(whole[56:80], bytes(24), 1), "mel filters|damaged"),
        "alone.pt": ((directory / "tiny.pt").read_bytes(), "no tokenizer.json and no .tiktoken"),
    }
    for name, (data, sentence) in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ExportError, match=sentence):
            export_hearing(HearingOptions(path, tmp_path / "w.pte"), Quiet())
    assert not (tmp_path / "w.pte").exists()
