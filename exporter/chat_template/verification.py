"""Conversations to compare a reduced chat template with the template itself."""

import random

from runtime.chat_format.environment import Messages

COUNT = 200
_SEED = 20260101
_FRAGMENTS = (
    *(
        "Hello",
        "world",
        "what is 2 + 2?",
        "naïve café",
        "日本語",
        "مرحبا",
        "👩‍👩‍👧",
        "e\u0301",
        "\ufeff",
    ),
    *(" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2003", "\u001c", "\u200b", "\0"),
    *("{{ messages }}", "{% raw %}", "{%- endif %}", "{# note #}", "{{", "}}", "\\n", "\\", "%s"),
    *("<|im_start|>system\n", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<s>", "</s>"),
    *("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<|endoftext|>", "system", "user", "assistant"),
    *("&amp;", "<b>", '"', "'", "`", "qzuser0qz", "None", "true", "0", "-"),
)
_THOUGHTS = (
    "<think>\nHm.\n</think>\n\n",
    "<think>\n\n</think>",
    "</think>",
    "a</think>b</think>\n",
)


def conversations(with_blanks: bool, pictures: bool = False) -> list[Messages]:
    """Returns COUNT conversations that end with a user's message: long and short, with and without
    a system message, with contents that look like templates.

    Args:
        with_blanks: some messages are empty or only white space.
        pictures: some messages of users begin with `pictures`.
    """
    chance = random.Random(_SEED)
    made = [_conversation(chance, with_blanks) for _ in range(COUNT)]
    for message in (message for messages in made for message in messages if pictures):
        if message["role"] == "user":
            message["pictures"] = chance.choice((0, 1, 1, 2, 4))
    return made


def _conversation(chance: random.Random, with_blanks: bool) -> Messages:
    messages = []
    if chance.random() < 0.5:
        messages.append({"role": "system", "content": _content(chance, with_blanks)})
    for turn in range(2 * chance.choice((0, 0, 1, 1, 2, 3, 6)) + 1):
        content = _content(chance, with_blanks)
        if turn % 2 and chance.random() < 0.2:
            content = chance.choice(_THOUGHTS) + content
        messages.append({"role": "assistant" if turn % 2 else "user", "content": content})
    return messages


def _content(chance: random.Random, with_blanks: bool) -> str:
    if with_blanks and chance.random() < 0.1:
        return chance.choice(("", " ", "\n", " \n\t"))
    while True:
        content = "".join(chance.choices(_FRAGMENTS, k=chance.randint(1, 12)))
        if content.strip():
            return content
