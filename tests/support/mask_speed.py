"""How long constraints take at a tokenizer's vocabulary, on several schemas: README's table.

PYTHONPATH=.:tests python -m support.mask_speed ../shared/data/tokenizers/llama3_tokenizer.model
    ../shared/data/text/wikitext2_valid.txt

With --suite MODEL.pte, on the 50 schemas of answer_schemas.py, with answers of that model.
"""

import argparse
import json
import random
import string
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from support.answer_schemas import SCHEMAS

from exporter.tokenizer import compile_tokenizer
from runtime import Engine, Runner
from runtime.build import BUILD_DIR

LIMITS = (10, 20, 30, 50, 80, 100, 120, 150)
KINDS: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"enum": ["red", "green", "blue"]},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
)


def closed(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Texts:
    """Pieces of a text, as answers would have them."""

    def __init__(self, text: str) -> None:
        self.draw = random.Random(1)
        plain = text.replace('"', "'").replace("\\", "/")
        self._text = "".join(c for c in plain if c >= " " and c != "\x7f")

    def of(self, size: int) -> str:
        at = self.draw.randrange(len(self._text) - size)
        return self._text[at : at + size]

    def value(self, number: int) -> object:
        of_kind = (
            self.of(50),
            self.draw.randrange(10**6),
            round(self.draw.random() * 1000, 3),
            self.draw.random() < 0.5,
            self.draw.choice(["red", "green", "blue"]),
            [self.draw.randrange(1000) for _ in range(5)],
            {"a": self.of(30)},
        )
        return of_kind[number % len(KINDS)]


def cases(texts: Texts) -> dict[str, tuple[dict[str, Any], list[object]]]:
    """Schemas by name, each with answers."""
    names = [f"{string.ascii_lowercase[i % 26]}_property_{i}" for i in range(100)]
    many = closed(**{name: KINDS[i % len(KINDS)] for i, name in enumerate(names)})
    answers: list[object] = [
        {name: texts.value(i) for i, name in enumerate(names)} for _ in range(5)
    ]
    short = closed(**{f"to_{most}": {"type": "string", "maxLength": most} for most in LIMITS})
    long = closed(
        id={"type": "string", "format": "uuid"},
        day={"type": "string", "format": "date"},
        code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        title={"type": "string", "maxLength": 80},
        body={"type": "string", "minLength": 10, "maxLength": 2000},
    )
    fixed = {"id": "123e4567-e89b-12d3-a456-426614174000", "day": "2024-03-10", "code": "AB-1234"}
    words = {
        f"p{i}": {"type": "string", "maxLength": 1000 + i, "pattern": "^([a-z]+ )*[a-z]+$"}
        for i in range(40)
    }
    prose = " ".join(["some words of an answer"] * 10)
    values = [f"value number {i} of the list" for i in range(19_000)]
    return {
        "100 properties": (many, answers),
        "any object": ({"type": "object"}, answers),
        "strings of up to 10 to 150 characters": (
            short,
            [
                {f"to_{most}": texts.of(most - texts.draw.randrange(5)) for most in LIMITS}
                for _ in range(5)
            ],
        ),
        "pattern, date, uuid, up to 2000 characters": (
            long,
            [{**fixed, "title": texts.of(70), "body": texts.of(1800)} for _ in range(3)],
        ),
        "40 with a pattern and up to 1000 characters": (
            {"type": "object", "properties": words},
            [{name: prose for name in words}],
        ),
        "19000 strings beside a pattern": (
            {"type": "string", "pattern": "^v", "enum": values},
            [values[777]],
        ),
        "names in any script": (
            {"type": "string", "pattern": r"^[\p{L}\p{M}' -]+$"},
            ["Zoë O'Neill-Łukaszewicz", "Ольга Иванова", "अनिता देवी", "李雷 山田花子"],
        ),
    }


def answered(model: Path) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """The schemas of the suite by their numbers, each with a complete answer of a model."""
    found = {}
    with Runner(model) as runner, Engine(runner) as engine:
        for number, schema in enumerate(SCHEMAS):
            for seed in range(20):
                options: dict[str, Any] = {"json_schema": schema, "temperature": 1.0, "seed": seed}
                generation = engine.submit("", 400, **options)
                text = generation.text()
                if generation.stats is not None and not generation.stats["incomplete"]:
                    found[str(number)] = schema, [text]
                    break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("text", type=Path, help="from which answers take their strings")
    parser.add_argument("--bench", type=Path, default=BUILD_DIR / "constraint_bench")
    parser.add_argument("--suite", type=Path, metavar="MODEL.pte")
    options = parser.parse_args()
    texts = Texts(options.text.read_text(encoding="utf-8"))
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    schemas = {
        name: (schema, [json.dumps(answer, **compact) for answer in answers])
        for name, (schema, answers) in cases(texts).items()
    }
    with tempfile.TemporaryDirectory() as directory:
        tokenizer, schema, answers = (Path(directory) / name for name in ("t", "s", "a"))
        tokenizer.write_bytes(compile_tokenizer(options.tokenizer).data)
        for name, (one, lines) in (answered(options.suite) if options.suite else schemas).items():
            schema.write_text(json.dumps(one), encoding="utf-8")
            answers.write_text("\n".join(lines), encoding="utf-8")
            command = [options.bench, tokenizer, schema, answers, "5"]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"{name}: {ran.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
