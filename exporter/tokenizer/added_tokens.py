"""Adds the tokens of other files to a tokenizer that is no `tokenizer.json`."""

from tokenizers import AddedToken as Listed

from exporter.tokenizer.special_tokens import SpecialTokens
from exporter.tokenizer.specification import AddedToken, Bpe, TokenizerSpec


def add_tokens(spec: TokenizerSpec, special: SpecialTokens, pieces: list[str]) -> None:
    """Adds what the files name: a piece of the vocabulary keeps its id, others follow it.

    Args:
        pieces: the text of each id of the vocabulary.

    Raises:
        TokenizerError: a file gives a token another id.
    """
    numbers = {text: number for number, text in reversed(list(enumerate(pieces)))}
    numbers |= {token.content: token.id for token in spec.added_tokens}
    special.check_read({*numbers, *(token.content for token in special.listed.values())})
    size = len(pieces)
    for token in special.to_add([]):
        if token.content in numbers:
            _mark(spec, token, numbers[token.content])
            continue
        numbers[token.content] = size
        size += 1
        spec.decoder.texts.append(b"" if token.special else token.content.encode("utf-8"))
        if token.special:
            spec.decoder.skipped.append(size - 1)
        spec.added_tokens.append(_added(token, size - 1))
    special.check_ids(numbers)
    _move_virtual(spec, len(pieces), size)


def drop_beyond(spec: TokenizerSpec, vocab_size: int) -> list[str]:
    """Drops the added tokens that a model with so many rows has none for, also where they begin or
    end a text; returns their texts.

    Nothing is dropped if the vocabulary itself has too many tokens.
    """
    size = len(spec.decoder.texts)
    beyond = sorted(
        (token for token in spec.added_tokens if token.id >= vocab_size), key=lambda one: one.id
    )
    if {token.id for token in beyond} != set(range(vocab_size, size)):
        return []
    gone = {token.id for token in beyond}
    spec.added_tokens = [token for token in spec.added_tokens if token.id not in gone]
    decoder = spec.decoder
    del decoder.texts[vocab_size:]
    decoder.skipped = [number for number in decoder.skipped if number not in gone]
    decoder.first = {number: text for number, text in decoder.first.items() if number not in gone}
    decoder.last = {number: text for number, text in decoder.last.items() if number not in gone}
    _move_virtual(spec, size, vocab_size)
    spec.eos_ids = [number for number in spec.eos_ids if number not in gone]
    spec.bos_id = None if spec.bos_id in gone else spec.bos_id
    return [token.content for token in beyond]


def _mark(spec: TokenizerSpec, token: Listed, number: int) -> None:
    """Lets a token of the vocabulary be found in text before anything else."""
    others = [one for one in spec.added_tokens if one.content != token.content]
    spec.added_tokens = [*others, _added(token, number)]
    if token.special and number not in spec.decoder.skipped:
        spec.decoder.skipped = sorted((*spec.decoder.skipped, number))


def _added(token: Listed, number: int) -> AddedToken:
    return AddedToken(
        content=token.content,
        id=number,
        special=token.special,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        single_word=token.single_word,
    )


def _move_virtual(spec: TokenizerSpec, before: int, after: int) -> None:
    """Numbers the symbols without a token anew: they follow the last token."""
    model = spec.model
    if before == after or not isinstance(model, Bpe) or not model.virtual_characters:
        return

    def moved(symbol: int) -> int:
        return symbol + after - before if symbol >= before else symbol

    model.characters = [
        {point: moved(symbol) for point, symbol in symbols.items()} for symbols in model.characters
    ]
    model.merges = [
        (moved(left), moved(right), rank, merged) for left, right, rank, merged in model.merges
    ]
