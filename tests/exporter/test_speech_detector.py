"""Silero's detector of speech in the file of a model that hears: where it cuts, what is heard."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file
from support import hearing_models as models
from support import published_nets as nets
from support.exported import Quiet
from support.hearing import RATE, spoken, transcribe, write_wav
from support.moonshine_models import write_moonshine
from support.moonshine_streaming_models import write_moonshine_streaming
from support.parakeet_models import write_parakeet
from support.real_models import recordings, unpack, whisper
from support.servers import serving
from support.speech_detectors import write_detector
from support.tiers import soaked

from exporter.commands.cli import main
from exporter.errors import ExportError
from exporter.hearing.pipeline import HearingOptions, export_hearing
from exporter.models.silero import CONTEXT, STATE, STEP, SpeechDetector
from quant.scheme import Scheme
from runtime import Transcriber


def test_rows_give_what_the_published_net_gives_one_by_one() -> None:
    torch.manual_seed(1)
    net = nets.make("silero", None)[0]
    sound = torch.randn(9 * STEP) * torch.linspace(0, 2, 9 * STEP)
    rows = torch.nn.functional.pad(sound, (CONTEXT, 0)).unfold(0, CONTEXT + STEP, STEP)
    state, expected = torch.zeros(2, 1, STATE), []
    with torch.no_grad():
        for row in rows:
            speech, state = net(row[None], state)
            expected.append(speech)
        detector = SpeechDetector(net.state_dict())
        got = detector(rows[None], torch.zeros(1, 1, STATE), torch.zeros(1, 1, STATE))
    torch.testing.assert_close(got[0][0], torch.cat(expected), rtol=0, atol=1e-6)
    torch.testing.assert_close(torch.cat(got[1:]), state, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def detecting(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Path:
    directory = tmp_path_factory.mktemp("detecting")
    models.write_whisper(directory)
    detector = write_detector(directory / "detector.safetensors")
    options = HearingOptions(directory, directory / "w.pte", Scheme("none"), detector=detector)
    result = export_hearing(options, Quiet())
    assert list(result.methods) == ["encoder", "text_decoder", "speech_detector"]
    return result.out


def quiet(seconds: float) -> np.ndarray:
    return np.random.default_rng(2).normal(0, 0.002, int(RATE * seconds)).astype("<f4")


def talk() -> np.ndarray:
    parts = [
        *(quiet(5), spoken(0.9, 500), quiet(0.3), spoken(0.6, 700), quiet(0.5)),
        *(spoken(1.5, 900), quiet(4), spoken(0.4, 600), quiet(7)),
    ]
    return np.concatenate(parts)


def check_times(segments: Any, expected: list[tuple[float, float]]) -> None:
    times = [(segment["start"], segment["end"]) for segment in segments]
    assert len(times) == len(expected), times
    for (begin, end), (first, last) in zip(times, expected, strict=True):
        assert max(abs(begin - first), abs(end - last)) <= 2 * STEP / RATE, times


@pytest.mark.check
def test_windows_begin_with_speech_and_end_in_pauses(
    detecting: Path, cpp_build: Path, tmp_path: Path
) -> None:
    """Windows are 2 s. Pauses are halved; of long ones, 0.4 s on each side stay."""
    sound = write_wav(tmp_path / "x.wav", talk())
    got = transcribe(cpp_build, detecting, "--audio", sound)
    expected = [(4.6, 6.05), (6.05, 7.05), (7.05, 9.05), (12.4, 13.6)]
    check_times(got["segments"], expected)


@pytest.mark.soak
@pytest.mark.parametrize("write", [write_moonshine, write_parakeet])
def test_other_models_of_windows(
    write: Callable[[Path], Any], cpp_build: Path, tmp_path: Path
) -> None:
    """Windows are 3 s. All that reads the file hears the same parts."""
    write(tmp_path)
    detector = write_detector(tmp_path / "detector.safetensors")
    options = HearingOptions(tmp_path, tmp_path / "w.pte", Scheme("none"), detector=detector)
    pte = export_hearing(options, Quiet()).out
    sound = write_wav(tmp_path / "x.wav", talk())
    got = transcribe(cpp_build, pte, "--audio", sound)
    check_times(got["segments"], [(4.6, 7.05), (7.05, 9.25), (12.4, 13.6)])
    noise = write_wav(tmp_path / "noise.wav", quiet(6))
    with Transcriber(pte) as transcriber:
        heard = transcriber.transcribe(sound, fallback=False)
        assert [one.tokens for one in heard.segments] == [
            tuple(one["tokens"]) for one in got["segments"]
        ]
        expected = [transcriber.transcribe(file).text for file in (sound, noise)]
    assert expected[0] and expected[1] == ""
    with serving(f"w={pte}") as server:
        create = server.client().audio.transcriptions.create
        texts = [create(model="w", file=file).text for file in (sound, noise)]
    assert texts == expected


@pytest.mark.check
def test_speech_without_a_pause_is_cut_all_the_same(
    detecting: Path, cpp_build: Path, tmp_path: Path
) -> None:
    sound = write_wav(tmp_path / "x.wav", spoken(5, 500))
    got = transcribe(cpp_build, detecting, "--audio", sound)
    ends = [segment["end"] for segment in got["segments"]]
    assert [segment["start"] for segment in got["segments"]] == [0, *ends[:-1]]
    assert ends[-1] == 5 and len(ends) >= 3


@pytest.mark.check
@pytest.mark.parametrize("seconds", [0.01, 1, 6])
def test_what_is_no_speech_has_no_text(
    detecting: Path, cpp_build: Path, tmp_path: Path, seconds: float
) -> None:
    sound = write_wav(tmp_path / "x.wav", quiet(seconds))
    assert transcribe(cpp_build, detecting, "--audio", sound)["segments"] == []


def test_other_weights_and_models_are_refused(tmp_path: Path) -> None:
    models.write_whisper(tmp_path)
    other, damaged = tmp_path / "other.safetensors", tmp_path / "damaged.safetensors"
    save_file({"stft_conv.weight": torch.zeros(2, 1, 2)}, other)
    damaged.write_bytes(b"no weights")
    for path, sentence in {other: "not Silero's detector", damaged: "cannot be read"}.items():
        with pytest.raises(ExportError, match=sentence):
            export_hearing(HearingOptions(tmp_path, tmp_path / "w.pte", detector=path), Quiet())
    detector = write_detector(tmp_path / "detector.safetensors")
    streaming = tmp_path / "streaming"
    write_moonshine_streaming(streaming)
    with pytest.raises(ExportError, match="reads sound as it arrives"):
        export_hearing(HearingOptions(streaming, tmp_path / "w.pte", detector=detector), Quiet())
    text = tmp_path / "text"
    text.mkdir()
    (text / "config.json").write_text('{"model_type": "llama"}')
    arguments = [str(text), "--out", str(tmp_path / "t.pte"), "--vad", str(detector)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2 and "--vad is for models that hear" in result.output
    assert not (tmp_path / "w.pte").exists()


@pytest.mark.parametrize("quant", soaked(["rtn8"]))
def test_published_weights_leave_speech_and_drop_noise(
    quant: str, cpp_build: Path, tmp_path: Path
) -> None:
    """Whisper tiny.en: the text of recordings stays; noise, a hum and what precedes speech have
    none."""
    sounds = recordings(tmp_path)
    whisper(tmp_path)
    weights = unpack([nets.SILERO], tmp_path) / "silero_vad" / "data" / "silero_vad_16k.safetensors"
    files = {}
    for name, detector in {"plain": None, "detecting": weights}.items():
        options = HearingOptions(
            tmp_path / "tiny.en", tmp_path / f"{name}.pte", Scheme(quant), detector=detector
        )
        files[name] = export_hearing(options, Quiet()).out
    for sound in sounds:
        texts = [transcribe(cpp_build, pte, "--audio", sound)["text"] for pte in files.values()]
        assert texts[0] == texts[1]
    generator, times = np.random.default_rng(0), np.arange(35 * RATE) / RATE
    noise = generator.normal(0, 0.05, 70 * RATE).astype("<f4")
    for samples in (noise, (0.2 * np.sin(2 * np.pi * 50 * times)).astype("<f4")):
        sound = write_wav(tmp_path / "x.wav", samples)
        assert transcribe(cpp_build, files["detecting"], "--audio", sound)["segments"] == []
