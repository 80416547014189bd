"""Fuzzes what reads bytes of others, and prints a table of it: `make fuzz SECONDS=600`.

    python tests/fuzz.py SECONDS [MODEL.pte] [--only TARGET ...]

Each target gets its share of the seconds, one after the other. Inputs that it learned stay in
build/fuzz/corpus. What ends a target is kept in build/fuzz/found, and the command then fails.
"""

import argparse
import io
import os
import re
import subprocess
import sys
import wave
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from PIL import Image

from exporter.errors import ExportError
from exporter.file.pte import CHAT_TEMPLATE, TOKENIZER, read_blob
from exporter.file.signing import sign
from runtime.build import find_tool
from runtime.runner import Runner

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "fuzz"
TARGETS = "chat_template constraint log_mel picture pte session signature sound tokenizer".split()
MOST_MEGABYTES = 2048  # of memory of a target
LONGEST = 20  # seconds of an input
# The first byte is the kind: schemas 0, regular expressions 1, choices 2, grammars 3; 4 relaxes.
CONSTRAINTS = {
    0: (
        '{"type":"object","properties":{"a":{"type":"string","maxLength":9},"b":{"type":"integer",'
        '"minimum":-5,"maximum":99}},"required":["a"],"additionalProperties":false}',
        '{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"},"minItems":1,"maxItems":3},'
        '{"const":null}],"$defs":{"n":{"type":"number","multipleOf":0.5}}}',
        '{"allOf":[{"type":"string","pattern":"^[a-z]+$"},{"minLength":2}],"format":"date"}',
        '{"enum":["a",1,true,{"x":[]}]}',
        '{"patternProperties":{"^x":{"type":"boolean"}},"propertyNames":{"maxLength":3}}',
    ),
    1: (r"(?:a|b*c){2,4}[^\d\s]+\.?", r"^\w+@[a-z]{1,9}\b(?=x)$", r"\p{Lu}[\x41-\u00e9]*?|(?i:q)"),
    2: ('["yes","no","\\u00e9"]',),
    3: (
        'root ::= item+ ("," ws item)* # list\nitem ::= [a-z0-9]{1,3} | "x" | "(" root ")"\n'
        "ws ::= [ \\t\\n]*\n",
        'root ::= [^"\\\\\\x7F]{2,} "\\u00e9" <[5]> | !"a"\n',
    ),
}


def corpora(model: Path) -> dict[str, list[bytes]]:
    """What the targets begin with, made of a model of ours and of small files."""
    content = model.read_bytes()
    folder = BUILD / "made"
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / "model.pte"
    copy.write_bytes(content)
    signature = sign(copy, Ed25519PrivateKey.from_private_bytes(bytes(range(32)))).read_bytes()
    public = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    session = folder / "session"
    with Runner(model, 1) as runner:
        "".join(runner.generate("A", 1))
        runner.save(session)
    try:
        template = [read_blob(model, CHAT_TEMPLATE)]
    except ExportError:  # the model has none
        template = []
    return {
        "chat_template": template,
        "constraint": [
            bytes([kind + relaxed]) + text.encode()
            for kind, texts in CONSTRAINTS.items()
            for text in texts
            for relaxed in (0, 4)
        ],
        "log_mel": [],
        "picture": pictures(),
        "pte": [content[-4096:], content[:64] + content[-4096:]],
        "session": [session.read_bytes()],
        "signature": [b"\1" + signature, b"\0" + pem, b"\0" + public.public_bytes_raw()],
        "sound": sounds(),
        "tokenizer": [read_blob(model, TOKENIZER)],
    }


def pictures() -> list[bytes]:
    files = []
    for kind, mode in (
        ("PNG", "RGB"),
        ("PNG", "P"),
        ("JPEG", "RGB"),
        ("WEBP", "RGB"),
        ("PPM", "RGB"),
    ):
        exif = Image.Exif()
        exif[0x0112] = 6  # turned
        buffer = io.BytesIO()
        options = {} if kind == "PPM" else {"exif": exif}
        Image.new(mode, (5, 3), 7 if mode == "P" else (1, 2, 3)).save(buffer, kind, **options)
        files.append(buffer.getvalue())
    return files


def sounds() -> list[bytes]:
    files = []
    for width, channels in ((1, 1), (2, 2), (3, 1), (4, 1)):
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(width)
            file.setframerate(8000)
            file.writeframes(bytes(range(240)))
        files.append(buffer.getvalue())
    return files


def build(targets: list[str]) -> None:
    configure = [find_tool("cmake"), "-G", "Ninja", "-S", ROOT / "runtime" / "cpp" / "fuzz"]
    tool = f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}"
    subprocess.run([*configure, "-B", BUILD, tool, "-DCMAKE_CXX_COMPILER=clang++"], check=True)
    names = [f"fuzz_{target}" for target in targets]
    subprocess.run([find_tool("ninja"), "-C", BUILD, *names], check=True)


def fuzz(target: str, seeds: list[bytes], seconds: int) -> tuple[int, int, bool]:
    """Returns the executions, the covered edges, and whether nothing was found."""
    corpus, found = BUILD / "corpus" / target, BUILD / "found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(seeds):
        (corpus / f"seed{index}").write_bytes(seed)
    limits = [
        f"-rss_limit_mb={MOST_MEGABYTES}",
        f"-timeout={LONGEST}",
        f"-max_total_time={seconds}",
    ]
    command = [BUILD / f"fuzz_{target}", corpus, *limits, f"-artifact_prefix={found}/{target}-"]
    ended = subprocess.run(
        [*command, "-print_final_stats=1", "-max_len=1048576"],
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | {"THIMBLE_FUZZ_FOLDER": str(BUILD)},
    )
    edges = [int(number) for number in re.findall(r"cov: (\d+)", ended.stderr)]
    executions = re.findall(r"number_of_executed_units: (\d+)", ended.stderr)
    if ended.returncode != 0:
        print(ended.stderr[-6000:], file=sys.stderr)
    return int(executions[-1]) if executions else 0, max(edges, default=0), ended.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=int)
    parser.add_argument("model", type=Path, nargs="?", default=ROOT / "build" / "demo.pte")
    parser.add_argument("--only", choices=TARGETS, nargs="+", default=TARGETS)
    request = parser.parse_args()
    build(request.only)
    seeds = corpora(request.model)
    share = max(1, request.seconds // len(request.only))
    print("| target | seconds | executions | edges | |\n|---|---|---|---|---|")
    healthy = True
    for target in request.only:
        executions, edges, good = fuzz(target, seeds[target], share)
        healthy = healthy and good
        row = f"| {target} | {share} | {executions:,} | {edges:,} |"
        print(f"{row} {'nothing' if good else 'found: build/fuzz/found'} |", flush=True)
    sys.exit(0 if healthy else 1)


if __name__ == "__main__":
    main()
