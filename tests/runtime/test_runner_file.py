"""Files the runner must refuse, each with its sentence, before ExecuTorch sees a byte."""

import json
import os
import random
import resource
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from exporter.file.pte import Range, verify

EXPORT = "name a .pte file that thimble-export wrote"


@pytest.fixture
def runner(cpp_build: Path) -> Path:
    return cpp_build / "runner"


def run(runner: Path, model: Path, *options: str) -> subprocess.CompletedProcess[str]:
    options = options or ("-p", "Once", "-n", "3", "--threads", "1")
    return subprocess.run([runner, model, *options], capture_output=True, text=True, timeout=60)


def refused(runner: Path, model: Path, *options: str) -> str:
    """The sentence with which a model is refused."""
    result = run(runner, model, *options)
    assert result.returncode == 2 and result.stdout == "", result
    assert result.stderr.startswith("runner: ") and result.stderr.count("\n") == 1
    return result.stderr.removeprefix("runner: ").rstrip("\n")


def flipped(source: Path, target: Path, position: int) -> Path:
    data = bytearray(source.read_bytes())
    data[position] ^= 0x10
    target.write_bytes(data)
    return target


def ranges(model: Path, name: str) -> list[Range]:
    return [item for item in verify(model, everything=False) if item.name.startswith(name)]


def test_no_file(runner: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.pte"
    assert refused(runner, path) == f"there is no file {path}: {EXPORT}"


def test_a_directory(runner: Path, tmp_path: Path) -> None:
    assert refused(runner, tmp_path) == (
        f"{tmp_path} is a directory: {EXPORT}; thimble-run {tmp_path} exports a model and runs it"
    )


def test_an_empty_file(runner: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.pte"
    path.touch()
    assert refused(runner, path) == f"{path} is empty: export it again with thimble-export"


@pytest.mark.parametrize("content", [b"x", b"not a program at all " * 100, b"\0" * 4096])
def test_another_kind_of_file(runner: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.pte"
    path.write_bytes(content)
    assert refused(runner, path) == (
        f"{path} is not a Thimble program (no integrity record): export it with thimble-export"
    )


def test_a_stock_program(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    path = tmp_path / "stock.pte"
    last = verify(stories_pte, everything=False)[-1]
    path.write_bytes(stories_pte.read_bytes()[: last.offset + last.size])
    assert "is not a Thimble program (no integrity record)" in refused(runner, path)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_file_cut_short(runner: Path, stories_pte: Path, tmp_path: Path, share: float) -> None:
    path = tmp_path / "cut.pte"
    data = stories_pte.read_bytes()
    size = int(len(data) * share) if share < 0.9 else len(data) - 30000
    path.write_bytes(data[:size])
    sentence = refused(runner, path)
    assert sentence.startswith(f"{path} is truncated: it has {size} bytes of at least ")
    assert sentence.endswith(": copy or export it again")


@pytest.mark.parametrize("name", ["program", "thimble.tokenizer", "thimble.report", "delegate"])
def test_a_flipped_byte_in_what_is_read_at_load(
    runner: Path, stories_pte: Path, tmp_path: Path, name: str
) -> None:
    for item in ranges(stories_pte, name)[:3]:
        for position in [0, item.size // 2, item.size - 1]:
            path = flipped(stories_pte, tmp_path / "flipped.pte", item.offset + position)
            last = item.offset + item.size - 1
            assert refused(runner, path) == (
                f"{path} is damaged in its {item.name} (bytes {item.offset} to {last}): copy or "
                "export it again"
            )


def test_a_flipped_byte_in_the_record(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    last = verify(stories_pte, everything=False)[-1]
    path = flipped(stories_pte, tmp_path / "flipped.pte", last.offset + last.size + 20)
    assert refused(runner, path) == (
        f"{path} is damaged in its integrity record, at its end: copy or export it again"
    )


def test_flipped_weights_are_found_by_verify(
    runner: Path, stories_pte: Path, tmp_path: Path
) -> None:
    weights = max(ranges(stories_pte, "weights"), key=lambda item: item.size)
    for position in random.Random(0).sample(range(weights.size), 20):
        path = flipped(stories_pte, tmp_path / "flipped.pte", weights.offset + position)
        sentence = refused(runner, path, "--verify")
        assert sentence.startswith(f"{path} is damaged in its weights (bytes {weights.offset} to ")
        normal = run(runner, path)
        assert normal.returncode == 0 or "the file with --verify" in normal.stderr, normal


def test_verify_passes_a_sound_file(runner: Path, stories_pte: Path) -> None:
    result = run(runner, stories_pte, "--verify")
    assert result.returncode == 0 and result.stdout == ""
    assert result.stderr == f"runner: {stories_pte} is not damaged: all checksums match\n"


def test_random_damage_never_crashes(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    size = stories_pte.stat().st_size
    for _ in range(60):
        path = flipped(stories_pte, tmp_path / "flipped.pte", chance.randrange(size))
        assert run(runner, path).returncode in (0, 1, 2)


def rewrite_record(source: Path, target: Path, record: bytes) -> Path:
    """The file with another record, its checksum right."""
    last = verify(source, everything=False)[-1]
    footer = struct.pack("<II8s", len(record), zlib.crc32(record), b"THIMBLE1")
    target.write_bytes(source.read_bytes()[: last.offset + last.size] + record + footer)
    return target


def test_records_that_lie(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    """A record whose checksum is right and whose content is hostile is refused all the same."""
    data = stories_pte.read_bytes()
    size, _, _ = struct.unpack("<II8s", data[-16:])
    record = data[-16 - size : -16]
    path = tmp_path / "lying.pte"
    chance = random.Random(2)
    for _ in range(60):
        lie = bytearray(record)
        lie[chance.randrange(len(lie))] ^= 1 << chance.randrange(8)
        assert run(runner, rewrite_record(stories_pte, path, bytes(lie))).returncode in (0, 1, 2)
    for damaged in [b"", record[:8], bytes(len(record))]:
        assert "is damaged in its integrity record" in refused(
            runner, rewrite_record(stories_pte, path, damaged)
        )


def test_output_files_that_cannot_be_written(
    runner: Path, stories_pte: Path, tmp_path: Path
) -> None:
    for option in ["--json", "--etdump"]:
        missing = tmp_path / "none" / "file"
        sentence = refused(runner, stories_pte, "-p", "x", option, str(missing))
        assert sentence == f"cannot write {missing}: No such file or directory"
        sentence = refused(runner, stories_pte, "-p", "x", option, str(tmp_path))
        assert sentence == f"cannot write {tmp_path}: Is a directory"


def test_standard_output_is_written_to_even_where_it_is_a_file(
    runner: Path, stories_pte: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    command: list[str | Path] = [runner, stories_pte, "-p", "x", "-n", "2", "--json", "/dev/stdout"]
    with open(output, "w") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True)
        file.write("what follows\n")
    assert os.path.islink("/dev/stdout")
    assert output.read_text().endswith('"stop_reason": "length"}\nwhat follows\n')


FULL = "cannot write to standard output: No space left on device"


def test_a_full_disk(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    result = run(runner, stories_pte, "-p", "x", "-n", "2", "--json", "/dev/full")
    assert result.returncode == 1
    assert result.stderr.endswith("runner: cannot write /dev/full: No space left on device\n")
    with open("/dev/full", "w") as full:
        stats = tmp_path / "stats.json"
        command: list[str | Path] = [runner, stories_pte, "-p", "x", "-n", "2", "--json", stats]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and stats.stat().st_size > 0
    assert result.stderr.startswith(f"runner: {FULL}\n") and result.stderr.count(FULL) == 1


def test_output_files_are_replaced_completely(
    runner: Path, stories_pte: Path, tmp_path: Path
) -> None:
    path = tmp_path / "stats.json"
    path.write_text("old")
    assert run(runner, stories_pte, "-p", "x", "-n", "2", "--json", str(path)).returncode == 0
    assert json.loads(path.read_text())["generated_tokens"] == 2
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_an_output_file_stays(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    target, link = tmp_path / "stats.json", tmp_path / "link"
    link.symlink_to("stats.json")
    for count in (2, 3):  # there is none yet; there is one
        result = run(runner, stories_pte, "-p", "x", "-n", str(count), "--json", str(link))
        assert result.returncode == 0 and link.is_symlink()
        assert json.loads(target.read_text())["generated_tokens"] == count


def test_what_killed_runs_left_is_removed(runner: Path, stories_pte: Path, tmp_path: Path) -> None:
    """Beside a file that is written: parts of it whose process has ended, and nothing else."""
    ended = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True).stdout.strip()
    kept = [f"s.json.part{os.getpid()}", "s.json.part", f"s.json.part{ended}x", f"x.part{ended}"]
    for name in [*kept, f"s.json.part{ended}"]:
        (tmp_path / name).touch()
    options = ("-p", "Once", "-n", "2", "--json", str(tmp_path / "s.json"))
    assert run(runner, stories_pte, *options).returncode == 0
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "s.json"])


def test_a_limit_on_sizes_is_an_error_of_writing(
    runner: Path, stories_pte: Path, tmp_path: Path
) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    profile, stats = tmp_path / "run.etdp", tmp_path / "run.json"
    command = [runner, stories_pte, "-p", "Once", "-n", "4", "--etdump", profile, "--json", stats]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert result.returncode == 1
    assert f"runner: cannot write {profile}: File too large\n" in result.stderr
    assert os.listdir(tmp_path) == ["run.json"]
