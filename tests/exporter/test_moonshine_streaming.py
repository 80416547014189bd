"""Moonshine for sound that arrives: at each step the tokens of transformers for what has come."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.exported import Quiet
from support.hearing import RATE, run, spoken, transcribe, write_wav
from support.tiers import soaked

from exporter.errors import ExportError
from exporter.hearing.pipeline import HearingOptions, export_hearing
from quant.scheme import Scheme
from runtime import Part, RunnerError, Transcriber

pytest.importorskip("transformers")
from support import moonshine_models  # noqa: E402  (needs transformers)
from support import moonshine_streaming_models as models  # noqa: E402

pytestmark = pytest.mark.check

STEP = 0.5  # seconds


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("moonshine_streaming")
    model = models.write_moonshine_streaming(directory)
    options = HearingOptions(directory, directory / "m.pte", Scheme("none"))
    result = export_hearing(options, Quiet())
    assert set(result.methods) == {"encoder", "text_decoder", "text_verifier"}
    for name, method in result.methods.items():
        assert method.delegation.calls == 1, (name, method.delegation.lines)
        assert set(method.delegation.left) <= {"embedding"}, method.delegation.lines
        assert method.agreement is not None and method.agreement.error < 1e-5
        assert any(title in ("rows = 1", "states = 1") for title in method.agreement.inputs)
    return result.out, model


def pieces_of(samples: Any, size: int) -> list[Any]:
    return [samples[at : at + size] for at in range(0, len(samples), size)]


def heard(transcriber: Transcriber, samples: Any, size: int, step: float = STEP) -> list[Part]:
    return list(transcriber.stream(pieces_of(samples, size), step=step, fallback=False))


# One that ends within a frame, one that ends with it, and one that ends with a row.
@pytest.mark.parametrize("count", [4961, 5040, 9600, 28817, 63040])
def test_tokens_are_those_of_transformers(
    exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path, count: int
) -> None:
    pte, model = exported
    samples = spoken(count / RATE, 700)
    got = transcribe(cpp_build, pte, "--audio", write_wav(tmp_path / "x.wav", samples))
    (segment,) = got["segments"]
    assert segment["tokens"] == models.expected_tokens(model, samples) and segment["tokens"]


def test_each_step_has_the_tokens_of_what_came(exported: tuple[Path, Any]) -> None:
    pte, model = exported
    samples = spoken(3.3, 900)
    with Transcriber(pte) as transcriber:
        parts = heard(transcriber, samples, 1600)
    assert [part.is_final for part in parts] == [False] * (len(parts) - 1) + [True]
    for part in parts:
        end = round(part.segment.end * RATE)
        assert list(part.segment.tokens) == models.expected_tokens(model, samples[:end])
    assert len(parts) > 4 and len({part.segment.tokens for part in parts}) > 3
    assert parts[-1].segment.end == pytest.approx(3.3)


def test_long_sound_in_any_pieces(exported: tuple[Path, Any]) -> None:
    """The final texts are those of the complete sound, however it comes, at any rate."""
    pte, _ = exported
    pause = np.zeros(RATE // 2, "<f4")
    long = np.concatenate([spoken(2.9, 500), pause, spoken(3.1, 900), pause, spoken(2.7, 700)])
    with Transcriber(pte) as transcriber:
        for samples, rate in ((long, RATE), (np.repeat(long, 3), 3 * RATE)):
            whole = transcriber.transcribe(samples, rate=rate, fallback=False).segments
            assert len(whole) == 3
            for size in (rate // 10, 3 * rate - 7, len(samples)):
                pieces = pieces_of(samples, size)
                parts = list(transcriber.stream(pieces, rate=rate, step=STEP, fallback=False))
                final = [part.segment for part in parts if part.is_final]
                assert [one.tokens for one in final] == [one.tokens for one in whole]
                assert [one.start for one in final] == pytest.approx([one.start for one in whole])
                assert [one.end for one in final] == pytest.approx([one.end for one in whole])
        silence = pieces_of(np.zeros((5 * RATE, 2), "<i2"), RATE)
        assert list(transcriber.stream(silence)) == []
        assert list(transcriber.stream([])) == []


def test_what_a_stream_refuses(exported: tuple[Path, Any]) -> None:
    pte, _ = exported
    samples = spoken(1.0, 500)
    with Transcriber(pte) as transcriber:
        with pytest.raises(RunnerError, match="another type or channels"):
            list(transcriber.stream([samples, samples.astype("<f8")]))
        with pytest.raises(RunnerError, match="step is 0, but must be"):
            list(transcriber.stream([samples], step=0))
        with pytest.raises(RunnerError, match="not finite numbers"):
            list(transcriber.stream([samples * np.float32("nan")]))
        running = transcriber.stream([samples, samples], step=STEP)
        next(running)
        with pytest.raises(RunnerError, match="hears a sound that arrives: close it first"):
            transcriber.transcribe(samples)
        running.close()
        assert transcriber.transcribe(samples).segments
        running = transcriber.stream([samples, samples], step=STEP)
        next(running)
    with pytest.raises(RunnerError, match="is closed"):
        next(running)


def test_a_model_of_whole_sounds_refuses(cpp_build: Path, tmp_path: Path) -> None:
    moonshine_models.write_moonshine(tmp_path)
    export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte", Scheme("none")), Quiet())
    with Transcriber(tmp_path / "m.pte") as transcriber:
        with pytest.raises(RunnerError, match="reads whole sounds"):
            list(transcriber.stream([spoken(1.0, 500)]))
        raw = (spoken(1.0, 500) * 2**15).astype("<i2")
        whole = transcriber.transcribe(raw).text
    command = [cpp_build / "runner", tmp_path / "m.pte", "--audio", "-", "--raw", "16000"]
    told = subprocess.run(command, input=raw.tobytes(), capture_output=True)
    assert told.stdout.decode() == whole + "\n", told.stderr


@pytest.mark.parametrize("raw", [False, True])
def test_the_runner_hears_standard_input(
    exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path, raw: bool
) -> None:
    """It writes while the sound arrives: what is read before the rest is sent."""
    pte, model = exported
    samples = (spoken(2.5, 900) * 2**15).astype("<i2")
    sound = write_wav(tmp_path / "x.wav", samples.astype("<f4") / 2**15)
    data = samples.tobytes() if raw else sound.read_bytes()
    command = [cpp_build / "runner", pte, "--audio", "-", "--format", "json", "--quiet"]
    command += ["--no-fallback", *(["--raw", "16000"] if raw else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        sent = int(len(data) * 0.6)
        process.stdin.write(data[:sent])
        process.stdin.flush()
        first = json.loads(process.stdout.readline())
        process.stdin.write(data[sent:])
        process.stdin.close()
        *parts, last = map(json.loads, process.stdout.read().splitlines())
    assert not first["final"] and parts[-1]["final"]
    exact = samples.astype("<f4") / 2**15
    for part in (first["segment"], parts[-1]["segment"]):
        expected = models.expected_tokens(model, exact[: round(part["end"] * RATE)])
        assert part["tokens"] == expected
    (segment,) = last["segments"]
    assert segment == parts[-1]["segment"] and last["duration"] == 2.5


def test_text_of_standard_input(
    exported: tuple[Path, Any], cpp_build: Path, tmp_path: Path
) -> None:
    """Its last line is the text of the file."""
    pte, _ = exported
    sound = write_wav(tmp_path / "x.wav", spoken(3.5, 900))
    whole = run(cpp_build, pte, "--audio", sound, "--no-fallback").stdout
    command = [cpp_build / "runner", pte, "--audio", "-", "--no-fallback"]
    told = subprocess.run(command, input=sound.read_bytes(), capture_output=True)
    assert told.stdout.decode().endswith(whole), told.stderr
    for arguments, sentence in (
        (["--audio", sound, "--raw", "8000"], b"--raw is for --audio - alone"),
        (["--audio", "-", "--timestamps"], b"has no tokens of times"),
        (["-p", "a", "--raw", "8000"], b"have no effect without --audio"),
    ):
        refused = subprocess.run(
            [*command[:2], *arguments], input=sound.read_bytes(), capture_output=True
        )
        assert refused.returncode and sentence in refused.stderr, refused.stderr


@pytest.mark.parametrize("name", ["rtn8", *soaked(["gptq4"])])
def test_integers(name: str, cpp_build: Path, tmp_path: Path) -> None:
    """The file computes what the model of integers does, in one call a method, in steps too."""
    encoder = {"hidden_size": 96, "intermediate_size": 192, "num_attention_heads": 4}
    model = models.write_moonshine_streaming(
        tmp_path,
        **{"hidden_size": 120, "intermediate_size": 256},
        encoder={**encoder, "num_key_value_heads": 4},
    )
    result = export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte", Scheme(name)), Quiet())
    for method in result.methods.values():
        assert method.delegation.calls == 1, method.delegation.lines
        assert method.agreement is not None and method.agreement.error < method.agreement.tolerance
    assert result.size < 0.7 * sum(4 * one.numel() for one in model.parameters())
    samples = spoken(2.0, 500)
    with Transcriber(result.out) as transcriber:
        whole = transcriber.transcribe(samples, fallback=False)
        last = heard(transcriber, samples, 1000)[-1]
    assert whole.segments[0].tokens == last.segment.tokens and last.segment.tokens


def test_what_is_refused(cpp_build: Path, tmp_path: Path) -> None:
    models.write_moonshine_streaming(tmp_path)
    changes: list[tuple[str, str, Any, str]] = [
        ("config.json", "attention_bias", True, "attention_bias True is not supported"),
        ("config.json", "head_dim", 16, "head_dim 16 is not supported"),
        ("config.json", "encoder_config", None, "encoder_config is missing"),
        ("config.json", "tie_word_embeddings", 3, "must be true or false"),
        ("preprocessor_config.json", "chunk_length", 1, "raise chunk_length"),
        ("preprocessor_config.json", "sampling_rate", 8000, "has 8000 samples per second"),
    ]
    for name, field, value, sentence in changes:
        path = tmp_path / name
        before = path.read_text()
        path.write_text(json.dumps({**json.loads(before), field: value}))
        with pytest.raises(ExportError, match=sentence):
            export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte"), Quiet())
        path.write_text(before)
    path = tmp_path / "config.json"
    fields = json.loads(path.read_text())
    for windows in (None, [[8, 4]], [[8, 4], [0, 1], [8, 3]], [[8], [8, 4], [8, 3]]):
        fields["encoder_config"]["sliding_windows"] = windows
        path.write_text(json.dumps(fields))
        with pytest.raises(ExportError, match="sliding_windows is"):
            export_hearing(HearingOptions(tmp_path, tmp_path / "m.pte"), Quiet())
