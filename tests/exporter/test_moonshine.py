"""Moonshine: the tokens of transformers, from sound of any length."""

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import torch
from support.exported import Quiet
from support.hearing import RATE, run, spoken, text_tokens, transcribe, write_wav
from support.servers import serving

from exporter.errors import ExportError
from exporter.hearing.pipeline import HearingOptions, export_hearing
from exporter.models.moonshine import rows_of, states_of
from quant.scheme import Scheme
from runtime import Transcriber

pytest.importorskip("transformers")
from support import moonshine_models as models  # noqa: E402  (needs transformers)

pytestmark = pytest.mark.check

SPECIAL = range(models.START, models.VOCABULARY)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("moonshine")
    model = models.write_moonshine(directory)
    options = HearingOptions(directory, directory / "m.pte", Scheme("none"))
    result = export_hearing(options, Quiet())
    for name, method in result.methods.items():
        assert method.delegation.calls == 1, (name, method.delegation.lines)
        assert set(method.delegation.left) <= {"embedding", "expand_copy"}, method.delegation.lines
        assert method.agreement is not None and method.agreement.error < 1e-5
        assert any(
            title.startswith(("rows = 14", "states = 1")) for title in method.agreement.inputs
        )
    return result.out, model


def expected_tokens(model: Any, samples: Any) -> list[int]:
    return text_tokens(model.generate(torch.from_numpy(samples)[None], do_sample=False), SPECIAL)


@pytest.mark.parametrize("seconds", [0.056, 0.31, 1.0, 1.7999, 2.9])
def test_tokens_are_those_of_transformers(
    exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path, seconds: float
) -> None:
    pte, model = exported
    samples = spoken(seconds, 700)
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
    (segment,) = got["segments"]
    assert segment["tokens"] == expected_tokens(model, samples) and segment["tokens"]
    assert segment["end"] == got["duration"] == pytest.approx(seconds, abs=0.006)


def test_sounds_of_several_lengths_in_turn(exported: tuple[Path, Any]) -> None:
    """From Python; long ones are cut where it is quiet, and silence has no text."""
    pte, model = exported
    sounds = [spoken(seconds, 500) for seconds in (2, 0.4, 1.3)]
    with Transcriber(pte) as transcriber:
        texts = [transcriber.transcribe(one, rate=RATE, fallback=False) for one in sounds]
        for sound, heard in zip(sounds, texts, strict=True):
            assert list(heard.segments[0].tokens) == expected_tokens(model, sound)
        pause = np.zeros(RATE // 2, "<f4")
        both = np.concatenate([spoken(2.2, 500), pause, spoken(1.9, 900)])
        heard = transcriber.transcribe(both, rate=RATE, fallback=False)
        first, second = heard.segments
        assert 2.2 < first.end < 2.7 and (second.start, second.end) == (first.end, 4.6)
        assert transcriber.transcribe(np.zeros(4 * RATE, "<f4"), rate=RATE).segments == ()
        assert transcriber.transcribe(spoken(0.01, 500), rate=RATE).duration == 0.01


def test_through_the_server(exported: tuple[Path, Any], tmp_path: Path) -> None:
    """What it does not have is refused; no language is named, as its file does not."""
    pte, model = exported
    samples = spoken(1.3, 500)
    sound = write_wav(tmp_path / "x.wav", samples)
    with Transcriber(pte) as transcriber:
        assert transcriber.languages == ()
        heard = transcriber.transcribe(sound)
        assert heard.language == "" and heard.text
    with serving(f"m={pte}") as server:
        audio = server.client().audio
        given: dict[str, Any] = {"model": "m", "file": sound}
        whole = audio.transcriptions.create(**given)
        assert whole.text == heard.text and whole.usage.seconds == 2
        done = list(audio.transcriptions.create(**given, stream=True))[-1]
        assert done.text == heard.text
        for options, sentence in (
            ({"language": "ja"}, "knows one language, which its file does not name"),
            ({"response_format": "srt"}, "has no tokens of times"),
            ({"prompt": "Thimble"}, "no token for what precedes"),
        ):
            with pytest.raises(openai.BadRequestError, match=sentence):
                audio.transcriptions.create(**given, **options)
        address = server.address + "/v1/audio/translations"
        told = httpx.post(address, data={"model": "m"}, files={"file": sound.read_bytes()})
        assert told.status_code == 400 and "cannot translate" in told.text


def test_what_is_refused(exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path) -> None:
    pte, _ = exported
    sound = write_wav(tmp_path / "x.wav", spoken(1, 500))
    for arguments, sentence in (
        (["--timestamps"], "the model has no tokens of times"),
        (["--task", "translate"], "knows one language and cannot translate"),
        (["--language", "en"], "knows one language, which its file does not name: leave 'en'"),
        (["-p", "a"], "the model has no token for what precedes a sound"),
    ):
        result = run(cpp_build, pte, "--audio", sound, *arguments)
        assert result.returncode != 0 and sentence in result.stderr, result.stderr
    models.write_moonshine(tmp_path)
    changes: list[tuple[str, str, Any, str]] = [
        ("config.json", "attention_bias", True, "attention_bias True is not supported"),
        ("config.json", "encoder_num_attention_heads", 5, "encoder_num_key_value_heads 4 is not"),
        ("config.json", "encoder_num_hidden_layers", 3, "missing"),
        ("preprocessor_config.json", "do_normalize", True, "only False is supported"),
        ("preprocessor_config.json", "chunk_length", 0, "a number from 1 to 600"),
        ("generation_config.json", "eos_token_id", 10**6, "names token 1000000"),
    ]
    for name, field, value, sentence in changes:
        path = tmp_path / name
        before = path.read_text()
        path.write_text(json.dumps({**json.loads(before), field: value}))
        with pytest.raises(ExportError, match=sentence):
            export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte"), Quiet())
        path.write_text(before)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["rtn8", "gptq4"])
def test_integers(name: str, cpp_build: Path, tmp_path: Path) -> None:
    """The file computes what the model of integers does, in one call a method, and is smaller."""
    model = models.write_moonshine(tmp_path, hidden_size=128, intermediate_size=256)
    result = export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte", Scheme(name)), Quiet())
    for method in result.methods.values():
        assert method.delegation.calls == 1, method.delegation.lines
        assert method.agreement is not None and method.agreement.error < method.agreement.tolerance
    assert result.size < 0.6 * sum(4 * one.numel() for one in model.parameters())
    sound = write_wav(tmp_path / "x.wav", spoken(1.3, 500))
    assert transcribe(cpp_build, result.out, "--audio", sound)["segments"][0]["tokens"]


def test_rows_and_states() -> None:
    for samples in range(895, 9000, 77):
        steps = (samples - 127) // 64 + 1
        for kernel, stride in ((7, 3), (3, 2)):
            steps = (steps - kernel) // stride + 1
        assert states_of((samples + 1) // 64) == steps
        assert states_of(rows_of(steps)) == steps and states_of(rows_of(steps) - 1) == steps - 1
