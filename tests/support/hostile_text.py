"""Random text of the kind that tells tokenizers apart."""

import random

_POOLS = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    " \n\r\t\u00a0\u3000\u2028\x85\v\f",
    "0123456789٣४Ⅷ²½",
    "'’sStTdDmMlLvVrReEſK",
    "\u0301\u0308\u0327\u0315\u0334\u0345\u200d\ufe0f\u20e3",
    "😀👨👩👧🏽🇩🇪❤🏴\U000e0067",
    "אבגدهو\u202e\u200f",
    "中文字漢かなカナ한글각\u1100\u1161\u11a8\uf900",
    "".join(map(chr, range(32))) + "\x7f\u0080\u009f\ufeff\ufffd\ufffe\U0010ffff",
    "éüñßøçÅﬁǅʰ▁ẛΐ\u0958\u2126",
    '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~',
)
_NAMES = ("<|endoftext|>", "<|begin_of_text|>", "<s>", "</s>", "<unk>", "<0x0A>", "<|im_start|>")
_REPEATED = (" ", "\n", "\r\n", "\t", "1", "'", "a", "▁", "\u0301", "é", "中", "<", " a")


def hostile_strings(count: int, seed: int) -> list[str]:
    """`count` strings, the first one empty, without surrogates."""
    chance = random.Random(seed)
    return ["", *(_hostile_string(chance) for _ in range(count - 1))]


def _hostile_string(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return chance.choice(_REPEATED) * chance.randrange(1, 200) + chance.choice(("", "x", " "))
    parts = []
    for _ in range(chance.randrange(1, 30)):
        kind = chance.random()
        if kind < 0.1:
            parts.append(_any_character(chance))
        elif kind < 0.13:
            parts.append(chance.choice(_NAMES))
        else:
            parts += chance.choices(chance.choice(_POOLS), k=chance.randrange(1, 6))
    return "".join(parts)


def _any_character(chance: random.Random) -> str:
    point = chance.randrange(chance.choice((0x3000, 0xD800, 0x110000)))
    return chr(point) if not 0xD800 <= point < 0xE000 else "\ud7ff"
