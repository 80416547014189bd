"""The Java API on this machine's JVM, under JNI's own checks."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.hostile_text import hostile_strings
from support.java import Java, build_java, compile_java
from support.sampled_files import export_sampled

from runtime.packaging.java_package import ANDROID

pytestmark = pytest.mark.check
PROMPTS = [
    "Once upon a time",
    "",
    "caf\u00e9 \u4e2d\u6587 \U0001f600",
    "a\0b",
    "\ufeff\u2028\u200d",
]


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory, cpp_build: Path) -> Java:
    return build_java(tmp_path_factory.mktemp("java"))


def generate(java: Java, model: Path, prompt: str, folder: Path, *options: object) -> str:
    """The text of Java's Runner, which its statistics fit."""
    said, asked = folder / "said", folder / "asked"
    asked.write_bytes(prompt.encode())
    stats = json.loads(java.run("Generate", model, asked, said, *options))
    assert stats["generated_tokens"] > 0
    return said.read_bytes().decode()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_same_text_as_from_python(
    java: Java, stories_cpu_pte: Path, tmp_path: Path, prompt: str
) -> None:
    from runtime import Runner

    with Runner(stories_cpu_pte, threads=1) as runner:
        expected = "".join(runner.generate(prompt, max_new_tokens=60))
    assert generate(java, stories_cpu_pte, prompt, tmp_path, 60, 0) == expected


def test_the_files_sampling(java: Java, shared_data: Path, tmp_path: Path) -> None:
    from runtime import Runner

    model = export_sampled(shared_data / "stories260K", tmp_path / "sampled")
    with Runner(model, threads=1) as runner:
        expected = "".join(runner.generate("Once", max_new_tokens=60, seed=7))
        given = "".join(runner.generate("Once", max_new_tokens=60, temperature=0.9, seed=7))
    assert generate(java, model, "Once", tmp_path, 60) == expected != given
    assert generate(java, model, "Once", tmp_path, 60, 0.9) == given


def test_characters_of_several_tokens(java: Java, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    """Sampled so wildly that most characters are pieced together from bytes, or are none."""
    from runtime import Runner

    prompt = "".join(hostile_strings(8, seed=3))
    with Runner(embedded_cpu_pte, threads=1) as runner:
        expected = "".join(runner.generate(prompt, max_new_tokens=400, temperature=30, seed=7))
    assert any(ord(character) > 0x7F for character in expected)
    assert generate(java, embedded_cpu_pte, prompt, tmp_path, 400, 30) == expected


def test_answers(java: Java, chat_pte: Path, tmp_path: Path) -> None:
    """Cancel, exceptions, calls in callbacks, options, constraints, sessions, chats, refusals."""
    java.run("Answers", chat_pte, tmp_path)


def test_threads(java: Java, stories_cpu_pte: Path) -> None:
    java.run("Threads", stories_cpu_pte, 4)


def test_requests(java: Java, stories_cpu_pte: Path) -> None:
    java.run("Requests", stories_cpu_pte)


# The heap is resident from the start and nothing is compiled: what grows is memory of ours.
STEADY = ("-Xms16m", "-Xmx16m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-Xint")


def test_a_thousand_loads_leak_nothing(java: Java, stories_cpu_pte: Path, tmp_path: Path) -> None:
    """1 MB of growth would be 1 KB a load: less than a page of a forgotten mapping or stack (4 KB),
    or what any of a runner's tables takes. The JVM's own is about 50 KB, once."""
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(stories_cpu_pte.read_bytes()[:-30000])
    said = java.run("Leaks", stories_cpu_pte, damaged, 200, 1000, options=STEADY)
    first, last = map(int, said.split())
    assert last - first < 1 << 10, "in kilobytes"


def test_every_native_method_is_there(java: Java) -> None:
    """And of ExecuTorch's none, which could meet those of another library."""
    command = ["nm", "-D", "--defined-only", java.library]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    assert not [name for name in names if "executorch" in name]
    methods = {name.rpartition("_")[2] for name in names if name.startswith("Java_")}
    native = Path(__file__).parents[2] / "runtime/android/thimble/src/main/java/dev/thimble"
    text = (native / "Native.java").read_text(encoding="utf-8")
    declared = {
        line.partition("(")[0].split()[-1]
        for line in text.splitlines()
        if line.strip().startswith("static native")
    }
    assert methods == declared and len(declared) > 30


README = (Path(__file__).parents[2] / "runtime" / "packaging" / "README.md", ANDROID / "README.md")


@pytest.mark.parametrize("readme", README, ids=["packaging", "android"])
def test_the_readmes_java(java: Java, embedded_cpu_pte: Path, tmp_path: Path, readme: Path) -> None:
    (program,) = re.findall(r"```java\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    source, model = tmp_path / "Example.java", tmp_path / "model.pte"
    source.write_text(program.replace('"model.pte"', f'"{model}"'))
    model.symlink_to(embedded_cpu_pte)
    compile_java([source], tmp_path, *java.classes)
    assert len(Java(java.jdk, java.library, (*java.classes, tmp_path)).run("Example")) > 20


def test_the_readmes_kotlin(java: Java, embedded_cpu_pte: Path, tmp_path: Path) -> None:
    compiler = shutil.which("kotlinc")
    if compiler is None:
        pytest.skip("kotlinc is not installed (Debian: kotlin)")
    (program,) = re.findall(
        r"```kotlin\n(.*?)```", README[0].read_text(encoding="utf-8"), re.DOTALL
    )
    source, model, jar = tmp_path / "Example.kt", tmp_path / "model.pte", tmp_path / "example.jar"
    source.write_text(program.replace('"model.pte"', f'"{model}"'))
    model.symlink_to(embedded_cpu_pte)
    command = [compiler, "-cp", java.classes[0], "-include-runtime", "-d", jar, source]
    subprocess.run(command, check=True, capture_output=True)
    assert len(Java(java.jdk, java.library, (*java.classes, jar)).run("ExampleKt")) > 20
