"""Parakeet CTC: the logits, tokens and times of transformers, from sound of any length."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import torch
from support.exported import Quiet
from support.hearing import RATE, run, spoken, transcribe, write_wav
from support.servers import serving

from exporter.errors import ExportError
from exporter.hearing.parakeet import open_parakeet
from exporter.hearing.pipeline import HearingOptions, export_hearing
from quant.scheme import Scheme
from runtime import Transcriber

pytest.importorskip("transformers")
from support import parakeet_models as models  # noqa: E402  (needs transformers)
from support.tiers import soaked

pytestmark = pytest.mark.check

STATE = 0.08  # seconds of sound of one
ODD: dict[str, Any] = {"attention_bias": False, "convolution_bias": False, "scale_input": False}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> tuple[Path, Any, Any]:
    directory = tmp_path_factory.mktemp("parakeet")
    model, processor = models.write_parakeet(directory)
    options = HearingOptions(directory, directory / "p.pte", Scheme("none"))
    result = export_hearing(options, Quiet())
    (method,) = result.methods.values()
    assert (method.delegation.calls, method.delegation.left) == (1, {}), method.delegation.lines
    assert method.agreement is not None and method.agreement.error < 1e-5
    assert any(title.startswith("frames = 2") for title in method.agreement.inputs)
    return result.out, model, processor


def states_of(model: Any, processor: Any, samples: Any) -> list[int]:
    """The token of each state."""
    given = processor(samples, sampling_rate=RATE, return_tensors="pt")
    return [int(token) for token in model.generate(**given)[0]]


def expected_tokens(states: list[int]) -> list[tuple[int, int, int]]:
    """Tokens, each with its first state and the one behind its last."""
    found: list[tuple[int, int, int]] = []
    for at, token in enumerate(states):
        if found and at > 0 and token == states[at - 1]:
            found[-1] = (token, found[-1][1], at + 1)
        else:
            found.append((token, at, at + 1))
    return [one for one in found if one[0] != models.BLANK]


@pytest.mark.parametrize("fields", [{}, ODD, {"subsampling_factor": 4, "conv_kernel_size": 5}])
def test_logits_are_those_of_transformers(tmp_path: Path, fields: dict[str, Any]) -> None:
    model, processor = models.write_parakeet(tmp_path, **fields)
    ours = open_parakeet(tmp_path).load()
    for seconds in (0.1, 1.0, 2.77):
        given = processor(spoken(seconds, 700), sampling_rate=RATE, return_tensors="pt")
        frames = int(given["attention_mask"].sum())
        with torch.no_grad():
            got, expected = ours(given["input_features"][:, :frames]), model(**given).logits
        torch.testing.assert_close(got, expected[:, : got.shape[1]], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("seconds", [0.1, 1.0, 1.7999, 2.9])
def test_tokens_are_those_of_transformers(
    exported: tuple[Path, Any, Any], cpp_build: Path, tmp_path: Path, seconds: float
) -> None:
    pte, model, processor = exported
    samples = spoken(seconds, 700)
    states = states_of(model, processor, samples)
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
    (segment,) = got["segments"]
    expected = expected_tokens(states)
    assert segment["tokens"] == [token for token, _, _ in expected]
    assert segment["text"].strip() == processor.batch_decode([states])[0].strip()


def test_words_have_the_times_of_their_tokens(exported: tuple[Path, Any, Any]) -> None:
    pte, model, processor = exported
    samples = spoken(2.5, 700)
    expected: list[tuple[str, float, float]] = []
    for token, begin, end in expected_tokens(states_of(model, processor, samples)):
        part = models.PARTS[token].replace(models.SPACE, " ")
        if expected and not part.startswith(" "):
            text, first, _ = expected.pop()
            expected.append((text + part, first, STATE * end))
        else:
            expected.append((part, STATE * begin, STATE * end))
    with Transcriber(pte) as transcriber:
        heard = transcriber.transcribe(samples, rate=RATE, timestamps="word")
        words = [one for segment in heard.segments for one in segment.words]
        assert [one.text.strip() for one in words] == [text.strip() for text, _, _ in expected]
        for word, (_, begin, end) in zip(words, expected, strict=True):
            assert (word.start, word.end) == pytest.approx((begin, min(end, 2.5)), abs=1e-6)


def test_long_sounds_and_silence(exported: tuple[Path, Any, Any]) -> None:
    pte, _, _ = exported
    sound = np.concatenate([spoken(2.2, 500), np.zeros(RATE // 2, "<f4"), spoken(1.9, 900)])
    with Transcriber(pte) as transcriber:
        first, second = transcriber.transcribe(sound, rate=RATE).segments
        assert 2.2 < first.end < 2.7 and (second.start, second.end) == (first.end, 4.6)
        assert transcriber.transcribe(np.zeros(4 * RATE, "<f4"), rate=RATE).segments == ()
        assert transcriber.transcribe(spoken(0.01, 500), rate=RATE).duration == 0.01


def test_through_the_server(exported: tuple[Path, Any, Any], tmp_path: Path) -> None:
    pte, _, _ = exported
    sound = write_wav(tmp_path / "x.wav", spoken(1.3, 500))
    with Transcriber(pte) as transcriber:
        heard = transcriber.transcribe(sound)
    with serving(f"m={pte}") as server:
        audio = server.client().audio
        given: dict[str, Any] = {"model": "m", "file": sound}
        assert audio.transcriptions.create(**given).text == heard.text
        assert "-->" in audio.transcriptions.create(**given, response_format="srt")
        with pytest.raises(openai.BadRequestError, match="no token for what precedes"):
            audio.transcriptions.create(**given, prompt="Thimble")


def test_what_is_refused(exported: tuple[Path, Any, Any], cpp_build: Path, tmp_path: Path) -> None:
    sound = write_wav(tmp_path / "x.wav", spoken(1, 500))
    for arguments, sentence in (
        (["--task", "translate"], "knows one language and cannot translate"),
        (["-p", "a"], "the model has no token for what precedes a sound"),
        (["--temperature", "0.5"], "takes the likeliest tokens alone"),
    ):
        result = run(cpp_build, exported[0], "--audio", sound, *arguments)
        assert result.returncode != 0 and sentence in result.stderr, result.stderr
    models.write_parakeet(tmp_path)
    changes: list[tuple[str, str, str, Any, str]] = [
        ("config.json", "encoder_config", "hidden_act", "relu", "hidden_act 'relu' is not"),
        ("config.json", "encoder_config", "subsampling_factor", 6, "is not a multiple of"),
        ("config.json", "encoder_config", "conv_kernel_size", 8, "it must be odd"),
        ("config.json", "", "pad_token_id", 99, "it must be below vocab_size"),
        ("processor_config.json", "feature_extractor", "feature_size", 64, "makes 64 features"),
        ("processor_config.json", "feature_extractor", "win_length", 600, "from 2 to n_fft"),
        ("processor_config.json", "feature_extractor", "preemphasis", 2, "from 0 to 1"),
    ]
    for name, part, field, value, sentence in changes:
        path = tmp_path / name
        before = path.read_text()
        fields = json.loads(before)
        (fields[part] if part else fields)[field] = value
        path.write_text(json.dumps(fields))
        with pytest.raises(ExportError, match=sentence):
            export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte"), Quiet())
        path.write_text(before)


@pytest.mark.parametrize("name", ["rtn8", *soaked(["gptq4"])])
def test_integers(name: str, cpp_build: Path, tmp_path: Path) -> None:
    """The file computes what the model of integers does, in one call, and is smaller."""
    model, _ = models.write_parakeet(tmp_path, hidden_size=128, intermediate_size=512)
    result = export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte", Scheme(name)), Quiet())
    (method,) = result.methods.values()
    assert method.delegation.calls == 1, method.delegation.lines
    assert method.agreement is not None and method.agreement.error < method.agreement.tolerance
    assert result.size < 0.6 * sum(4 * one.numel() for one in model.parameters())
    sound = write_wav(tmp_path / "x.wav", spoken(1.3, 500))
    assert transcribe(cpp_build, result.out, "--audio", sound)["segments"][0]["tokens"]
