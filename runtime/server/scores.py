"""The log-probabilities of a prompt's own tokens."""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from runtime.binding.logprobs import TokenLogprob
from runtime.errors import RunnerError
from runtime.runner import Runner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROWS = 64  # of logits at once
_MOST_TOKENS = 4096


class Scorer:
    """Scores prompts with a runner of its own, loaded with the first; it shares the file's weights.

    Args:
        load: loads the runner, with the options of the one that answers.
    """

    def __init__(self, load: Callable[[], Runner]) -> None:
        self._load = load
        self._runner: Runner | None = None

    def score(self, prompt: Any, top: int) -> Iterator[list[TokenLogprob]]:
        """Yields entries for the tokens of a prompt, part by part.

        The first token follows nothing: its logprob is nan.

        Args:
            prompt: a text, or tokens.
            top: how many of the likeliest tokens in its place each entry has.

        Raises:
            RunnerError: the prompt does not fit the context, or is not one of tokens.
        """
        if self._runner is None:
            self._runner = self._load()
        runner = self._runner
        tokens = runner.encode_prompt(prompt) if isinstance(prompt, str) else list(prompt)
        if len(tokens) > _MOST_TOKENS:
            raise RunnerError(
                f"the prompt has {len(tokens)} tokens: echo with logprobs is for {_MOST_TOKENS} at "
                "most"
            )
        yield [TokenLogprob(n, runner.token_text(n), math.nan, []) for n in tokens[:1]]
        for first in range(0, len(tokens) - 1, _ROWS):
            end = min(first + _ROWS, len(tokens) - 1)
            rows = runner.logits(tokens, first, end)
            followers = tokens[first + 1 : end + 1]
            yield [self._entry(row, token, top) for row, token in zip(rows, followers, strict=True)]

    def _entry(self, logits: "NDArray[np.float32]", token: int, top: int) -> TokenLogprob:
        import numpy as np

        wide = logits.astype(np.float64)
        logprobs = wide - wide.max()
        logprobs -= np.log(np.exp(logprobs).sum())
        likeliest = np.argsort(-logprobs, kind="stable")[:top]
        assert self._runner is not None
        names = [self._runner.token_text(int(i)) for i in (token, *likeliest)]
        pairs = zip(likeliest, names[1:], strict=True)
        return TokenLogprob(
            token,
            names[0],
            float(logprobs[token]),
            [(int(i), name, float(logprobs[i])) for i, name in pairs],
        )
