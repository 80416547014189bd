"""Sound as models read it: WAV files, rates and log-mel features, in C++."""

import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.compressed_sound import flac, silent_mp3
from support.real_models import recordings

from exporter.errors import ExportError
from exporter.hearing.log_mel import (
    LogMelSettings,
    features_of,
    mel_filters,
    read_log_mel,
    write_log_mel,
)
from runtime.build import build
from runtime.errors import BuildError

Samples = NDArray[Any]
INTEGER, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
WHISPER = LogMelSettings(16000, 400, 160, 80, 480000)
# Of each form: its tag, its bytes, and how numbers of -1 .. 1 become samples.
FORMS = {
    "8": (INTEGER, 1, lambda x: (np.round(x * 127) + 128).astype("u1").tobytes()),
    "16": (INTEGER, 2, lambda x: np.round(x * 32767).astype("<i2").tobytes()),
    "24": (INTEGER, 3, lambda x: in_24_bits(np.round(x * 8388607).astype("<i4"))),
    "32": (INTEGER, 4, lambda x: np.round(x * 2147483647).astype("<i4").tobytes()),
    "float32": (FLOAT, 4, lambda x: x.astype("<f4").tobytes()),
    "float64": (FLOAT, 8, lambda x: x.astype("<f8").tobytes()),
}


def in_24_bits(samples: Samples) -> bytes:
    return np.ascontiguousarray(samples.reshape(-1).view("u1").reshape(-1, 4)[:, :3]).tobytes()


def chunk(tag: bytes, data: bytes, size: int | None = None) -> bytes:
    return tag + struct.pack("<I", len(data) if size is None else size) + data


def format_chunk(tag: int, channels: int, rate: int, size: int, extensible: bool = False) -> bytes:
    frame = channels * size
    first = EXTENSIBLE if extensible else tag
    fields = struct.pack("<HHIIHH", first, channels, rate, rate * frame, frame, 8 * size)
    if extensible:
        rest = bytes.fromhex("000000001000800000aa00389b71")
        fields += struct.pack("<HHIH", 22, 8 * size, 0, tag) + rest
    return chunk(b"fmt ", fields)


def riff(chunks: bytes, size: int | None = None, kind: bytes = b"RIFF") -> bytes:
    return kind + struct.pack("<I", 4 + len(chunks) if size is None else size) + b"WAVE" + chunks


def wav(
    samples: Samples, rate: int = 16000, form: str = "float32", extensible: bool = False
) -> bytes:
    """A file of samples of -1 .. 1 (frames, channels), or (frames,) of one channel."""
    tag, size, encode = FORMS[form]
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    data = encode(samples)
    padding = b"\0" * (len(data) % 2)
    return riff(
        format_chunk(tag, channels, rate, size, extensible) + chunk(b"data", data) + padding
    )


@pytest.fixture
def sound(cpp_build: Path, tmp_path: Path) -> Any:
    """Asks sound_cli; returns float32, or an error's sentence."""

    def ask(what: str, file: bytes, argument: int | bytes) -> Samples | str:
        (tmp_path / "x.wav").write_bytes(file)
        if isinstance(argument, bytes):
            (tmp_path / "blob").write_bytes(argument)
        last = tmp_path / "blob" if isinstance(argument, bytes) else str(argument)
        command: list[str | Path] = [cpp_build / "sound_cli", what, tmp_path / "x.wav", last]
        outcome = subprocess.run(command, capture_output=True)
        if outcome.returncode:
            return outcome.stderr.decode()
        return np.frombuffer(outcome.stdout, dtype="<f4")

    return ask


def noise(*shape: int) -> Samples:
    return np.random.default_rng(0).uniform(-0.99, 0.99, shape)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_scaled_to_one(sound: Any, form: str) -> None:
    step = {"8": 2**-7, "16": 2**-15}.get(form, 2**-22)
    for channels in (1, 2, 6):
        samples = noise(1001, channels)
        for extensible in (False, True):
            read = sound("samples", wav(samples, 16000, form, extensible), 16000)
            assert np.abs(read - samples.mean(1)).max() <= 1.5 * step
    silence = sound("samples", wav(np.zeros(7), 16000, form), 16000)
    assert len(silence) == 7 and not silence.any()


def test_files_without_a_right_length(sound: Any) -> None:
    """Cut off, of a writer that could not go back, of an odd length, and with other chunks."""
    samples = (noise(100) * 32767).astype("<i2")
    data, form = samples.tobytes(), format_chunk(INTEGER, 1, 16000, 2)
    expected = samples / 32768
    more = chunk(b"LIST", b"odd") + b"\0" + chunk(b"fact", b"\0" * 4)
    files = {
        "whole": riff(more + form + chunk(b"data", data) + more),
        "RF64": riff(form + chunk(b"data", data, 0xFFFFFFFF), 0xFFFFFFFF, b"RF64"),
        "streamed": riff(form + chunk(b"data", data, 0xFFFFFFFF), 0xFFFFFFFF),
        "zero": riff(form + chunk(b"data", data, 0), 0),
        "stale": riff(form + chunk(b"data", data, 0), 36),
        "unfinished": riff(form + chunk(b"data", data, 0)),
        "cut": riff(form + chunk(b"data", data, 4000)),
        "odd": riff(form + chunk(b"data", data + b"\1", 201)),
    }
    for name, file in files.items():
        assert np.array_equal(sound("samples", file, 16000), expected.astype("f4")), name


def test_what_is_not_read(sound: Any) -> None:
    form, data = format_chunk(INTEGER, 1, 16000, 2), chunk(b"data", b"\0" * 8)
    refused = {
        "is not a WAV file": b"OggS" + b"\0" * 100,
        "has no samples": riff(form + chunk(b"data", b"")),
        "has no samples: give": riff(form + chunk(b"data", b"") + chunk(b"LIST", b"INFO")),
        "is cut off before its samples": riff(form),
        "no format precedes": riff(data),
        "0 samples per second, but must have 1 to 1000000": riff(
            format_chunk(INTEGER, 1, 0, 2) + data
        ),
        "0 channels, but must have 1 to 64": riff(format_chunk(INTEGER, 0, 16000, 2) + data),
        "samples of format 2 and 16 bits": riff(format_chunk(2, 1, 16000, 2) + data),
        "its format is cut off": riff(chunk(b"fmt ", b"\1\0\1\0")),
    }
    for sentence, file in refused.items():
        error = sound("samples", file, 16000)
        assert isinstance(error, str) and sentence in error, (sentence, error)
    whole = wav(noise(50), form="16")
    for size in (0, 3, 11, 12, 19, 30, 36, 43, 44, 45, 46, 47, 99):  # what is left of a file
        assert isinstance(sound("samples", whole[:size], 16000), str) == (size < 46)


def tone(frequency: float, rate: int, seconds: float = 1) -> Samples:
    return np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)


def test_resampling(sound: Any) -> None:
    """What both rates hold stays, in its place; what the lower one does not hold is gone."""

    def level(samples: Samples) -> float:
        middle = samples[len(samples) // 4 : -len(samples) // 4]
        return float(20 * np.log10(np.sqrt(2 * np.mean(np.square(middle, dtype="f8"))) + 1e-30))

    assert level(sound("samples", wav(tone(7500, 48000), 48000), 16000)) > -0.5
    assert level(sound("samples", wav(tone(8500, 48000), 48000, "float64"), 16000)) < -100
    for rate in (8000, 11025, 22050, 44100, 48000, 96000, 999983):
        resampled = sound("samples", wav(tone(1000, rate), rate), 16000)
        assert len(resampled) == 16000
        assert np.abs(resampled - tone(1000, 16000))[400:-400].max() < 1e-5
    assert len(sound("samples", wav(noise(1), 44100), 16000)) == 1


def reference(samples: Samples, n_mels: int = 80) -> Samples:
    transformers = pytest.importorskip("transformers")
    extractor = transformers.WhisperFeatureExtractor(feature_size=n_mels)
    given = extractor(
        samples.astype("f4"),
        sampling_rate=16000,
        truncation=False,
        padding="max_length" if len(samples) < 480000 else "longest",
        return_tensors="np",
    )
    return np.asarray(given.input_features[0])


def spoken(seconds: float) -> Samples:
    """Sound with pauses, loud and soft parts, and most frequencies."""
    time = np.arange(int(16000 * seconds)) / 16000
    loudness = np.clip(np.sin(1.7 * time), 0, 1) * (0.01 + 0.5 * np.sin(0.1 * time) ** 2)
    return loudness * (np.sin(900 * time + 50 * np.sin(9 * time)) + 0.1 * noise(len(time)))


@pytest.mark.parametrize("seconds", [0.01, 1, 29.99, 41])
@pytest.mark.parametrize("n_mels", [80, 128])
def test_features_are_those_of_transformers(sound: Any, seconds: float, n_mels: int) -> None:
    """A short sound is followed by silence; of a long one the loudest part sets the lower end."""
    samples = spoken(seconds)
    blob = write_log_mel(LogMelSettings(16000, 400, 160, n_mels, 480000))
    features = sound("features", wav(samples), blob)
    expected = reference(samples, n_mels)
    assert np.abs(features.reshape(n_mels, -1) - expected).max() < 2e-4
    assert np.abs(features.reshape(n_mels, -1) - expected).mean() < 1e-6


@pytest.mark.parametrize("seconds", [0.02, 0.5, 1.2345])
def test_features_of_parakeet_are_those_of_transformers(sound: Any, seconds: float) -> None:
    transformers = pytest.importorskip("transformers")
    samples = spoken(1 + seconds)[16000:]  # so loud that few frames differ by more than rounding
    extractor = transformers.ParakeetFeatureExtractor()
    given = extractor(samples.astype("f4"), sampling_rate=16000, return_tensors="pt")
    expected = given.input_features[0].numpy()[: int(given.attention_mask.sum())]
    settings = LogMelSettings(16000, 512, 160, 80, 480160, 400, 0.97, of_parakeet=True)
    features = sound("features", wav(samples), write_log_mel(settings)).reshape(80, -1).T
    assert features.shape == expected.shape and np.abs(features - expected).max() < 1e-4
    ours = features_of(samples.astype("f8"), settings)
    assert np.abs(ours - expected).max() < 1e-4


def test_features_of_silence(sound: Any) -> None:
    assert set(sound("features", wav(np.zeros(16000)), write_log_mel(WHISPER))) == {-1.5}


@pytest.mark.parametrize("n_fft", [401, 512, 31])
def test_frames_of_any_length(sound: Any, n_fft: int) -> None:
    """A prime number of samples, a power of two, and fewer frequencies than features."""
    settings = LogMelSettings(16000, n_fft, 100, 40, 4000)
    samples = spoken(0.7)
    features = sound("features", wav(samples), write_log_mel(settings)).reshape(40, -1)
    padded = np.pad(samples.astype("f4").astype("f8"), n_fft // 2, mode="reflect")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)
    rows = [padded[at : at + n_fft] * hann for at in range(0, len(samples) - 99, 100)]
    energies = np.abs(np.fft.rfft(rows)) ** 2
    logs = np.log10(np.maximum(mel_filters(settings) @ energies.T, 1e-10))
    expected = np.maximum(logs, logs.max() - 8) / 4 + 1
    assert np.abs(features - expected).max() < 1e-5


def test_damaged_settings(sound: Any) -> None:
    blob = write_log_mel(WHISPER)
    for damaged in (b"", blob[:8], blob[:-40000], blob.replace(b"THLM", b"THEM")):
        assert "export the model again" in sound("features", wav(noise(9)), damaged)


def test_settings_are_read_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "preprocessor_config.json"
    with pytest.raises(ExportError, match="has no preprocessor_config.json"):
        read_log_mel(tmp_path)
    path.write_text('{"feature_size": 128, "dither": 0.0, "chunk_length": 30}')
    assert read_log_mel(tmp_path) == LogMelSettings(16000, 400, 160, 128, 480000)
    of_processor = tmp_path / "processor_config.json"  # which has it, where transformers wrote both
    of_processor.write_text(f'{{"feature_extractor": {path.read_text()}}}')
    path.unlink()
    assert read_log_mel(tmp_path).n_mels == 128
    of_processor.write_text('{"feature_extractor": {"n_fft": 0}}')
    with pytest.raises(ExportError, match="processor_config.json has n_fft 0, but it must be"):
        read_log_mel(tmp_path)
    of_processor.write_text("{}")
    with pytest.raises(ExportError, match="nor a processor_config.json with a feature_extractor"):
        read_log_mel(tmp_path)
    for text, sentence in {
        '{"dither": 1e-5}': "dither 1e-05, but only 0.0 is supported",
        '{"hop_length": 0}': "hop_length 0, but it must be a number from 1 to 65536",
        '{"feature_extractor_type": "ParakeetFeatureExtractor"}': "but must have Whisper",
        '{"n_fft": 20000, "chunk_length": 1}': "longer than a window",
    }.items():
        path.write_text(text)
        with pytest.raises(ExportError, match=sentence):
            read_log_mel(tmp_path)


@pytest.mark.check
def test_real_speech(sound: Any, tmp_path: Path) -> None:
    """Recordings of people, with the features of the reference."""
    files = recordings(tmp_path)
    for file in files:
        samples = sound("samples", file.read_bytes(), 16000)
        features = sound("features", file.read_bytes(), write_log_mel(WHISPER))
        difference = np.abs(features.reshape(80, -1) - reference(samples))
        assert difference.max() < 2e-3 and difference.mean() < 1e-6, file.name


def test_flac_and_mp3(cpp_build: Path, tmp_path: Path) -> None:
    """FLAC is as WAV, to the bit; a build without dr_libs says so."""
    samples = (12000 * np.sin(np.arange(2 * 5000).reshape(5000, 2) / 9)).astype("<i2")
    samples[:, 1] = samples[:, 0]  # whose mean is exact
    (tmp_path / "x.wav").write_bytes(wav(samples / 32767, 22050, "16"))
    files = {"x.flac": flac(samples, 22050), "x.mp3": silent_mp3(40)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    def read(name: str, rate: int) -> "subprocess.CompletedProcess[bytes]":
        command = [cpp_build / "sound_cli", "samples", tmp_path / name, str(rate)]
        return subprocess.run(command, capture_output=True)

    found = read("x.flac", 22050)
    if b"lacks dr_libs" in found.stderr:
        assert b"x.flac is a FLAC file, which this build cannot read" in found.stderr
        assert b"x.mp3 is an MP3 file, which this build cannot read" in read("x.mp3", 16000).stderr
        return
    assert found.stdout == read("x.wav", 22050).stdout and len(found.stdout) == 4 * 5000
    silent = np.frombuffer(read("x.mp3", 44100).stdout, "<f4")
    assert len(silent) > 38 * 1152 and not silent.any()
    (tmp_path / "cut.flac").write_bytes(files["x.flac"][:9000])
    assert 0 < len(read("cut.flac", 22050).stdout) < 4 * 5000
    (tmp_path / "bad.flac").write_bytes(b"fLaC and no more")
    assert b"bad.flac is a damaged FLAC file: write it again" in read("bad.flac", 16000).stderr
    (tmp_path / "none.flac").write_bytes(flac(samples[:0], 22050))
    assert b"none.flac has no samples" in read("none.flac", 16000).stderr


def test_a_folder_without_dr_libs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THIMBLE_DR_LIBS", str(tmp_path))
    with pytest.raises(BuildError, match=r"which has no dr_flac\.h: name dr_libs' folder"):
        build()
