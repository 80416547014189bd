"""Tasks of the lm-evaluation-harness (the package lm_eval) on a checkpoint or a `.pte`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quant.errors import QuantError

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import TemplateLM
    from lm_eval.tasks import TaskManager

    from quant.commands.measured_model import Scored

_MOST_NEW_TOKENS = 256  # the most tokens of an answer, if the task sets none


@dataclass(frozen=True)
class Tasks:
    """The tasks to run on a model.

    Attributes:
        names: of tasks, groups or tags; empty if a text is measured instead.
        path: a directory of further tasks in YAML, or None.
        limit: the number of documents of each task, from the first; None: all.
        shots: the number of examples before each question; None: the task's own.
    """

    names: tuple[str, ...]
    path: Path | None
    limit: int | None
    shots: int | None


@dataclass(frozen=True)
class LoadedTasks:
    """Tasks with their data, and the harness's index of tasks in which they were found."""

    tasks: list[Any]
    manager: "TaskManager"


def load_tasks(tasks: Tasks) -> LoadedTasks:
    """Loads the tasks and their data, before the model.

    Raises:
        QuantError: the package is not installed, a task is unknown, or its data is not available.
    """
    try:
        import lm_eval  # noqa: F401
    except ImportError:
        from runtime.distribution import with_extra

        raise QuantError(
            f"tasks need the package lm_eval, which is not installed; {with_extra('lm-eval')}."
        ) from None

    for name in ("lm_eval", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
    failure: Exception | None = None
    for manager in _managers(tasks.path):
        unknown = [name for name in tasks.names if name not in manager.all_tasks]
        if unknown:
            continue
        try:
            return LoadedTasks(list(manager.load(list(tasks.names))["tasks"].values()), manager)
        except Exception as error:  # whatever the data comes through: the network, a hub, a parser
            failure = error
    if failure is None:
        raise QuantError(
            f"task {unknown[0]!r} is not known to lm_eval {_version()}; `lm_eval ls tasks` prints "
            "the known ones, and --task-path adds a directory of others."
        )
    raise QuantError(
        f"the data of {', '.join(tasks.names)} cannot be loaded ({_first_line(failure)}); run it "
        "once with a network, or choose tasks whose data is on this machine."
    )


def _managers(path: Path | None) -> "Iterator[TaskManager]":
    """Indexes of tasks: that of the user's directory, then also those of the package, whose 14,000
    files take long to read. A group of the user's may contain tasks of the package."""
    from lm_eval.tasks import TaskManager

    if path is not None:
        yield TaskManager(include_path=str(path), include_defaults=False)
    yield TaskManager(include_path=None if path is None else str(path))


def run_tasks(model: "Scored", loaded: LoadedTasks, tasks: Tasks) -> dict[str, dict[str, object]]:
    """Returns the figures of each task by the harness's names, with their standard errors.

    Args:
        loaded: the result of `load_tasks`.

    Raises:
        QuantError: a task asks for what the model does not do.
    """
    import lm_eval

    results = lm_eval.simple_evaluate(
        model=_language_model(model),
        tasks=loaded.tasks,
        task_manager=loaded.manager,
        num_fewshot=tasks.shots,
        limit=tasks.limit,
        log_samples=False,
        bootstrap_iters=1000,
    )
    assert results is not None
    return {name: _figures(figures) for name, figures in results["results"].items()}


def _version() -> str:
    import importlib.metadata

    return importlib.metadata.version("lm_eval")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _figures(figures: dict[str, Any]) -> dict[str, object]:
    """{"acc,none": 0.5, "acc_stderr,none": 0.1} to {"acc": 0.5, "acc_error": 0.1}; the name of a
    filter stays where it is one."""
    shown: dict[str, object] = {}
    for key, value in figures.items():
        metric, comma, name = key.partition(",")
        if not comma:
            if key == "sample_len":
                shown["documents"] = value
            continue
        error = metric.endswith("_stderr")
        metric = metric.removesuffix("_stderr") + ("" if name == "none" else f" ({name})")
        known = isinstance(value, int | float)
        shown[f"{metric}_error" if error else metric] = value if known else None
    return shown


def _language_model(model: "Scored") -> "TemplateLM":
    """The model as the harness knows models."""
    import torch
    from lm_eval.api.model import TemplateLM
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    if model.encode is None or model.generate is None:
        raise QuantError(
            f"{model.name} runs through {model.runs_with}, which cannot read text; tasks need a "
            "checkpoint, or a .pte exported with --delegate cpu or xnnpack."
        )
    encode: Callable[[str], list[int]] = model.encode
    generate: Callable[[str, int], Iterator[str]] = model.generate
    start = [] if model.bos_id is None else [model.bos_id]

    class ScoredLM(TemplateLM):
        @property
        def eot_token_id(self) -> int:
            """What stands before a text that has nothing before it."""
            if model.bos_id is None:
                raise QuantError(
                    f"{model.name} has no BOS token, but a task needs the likelihood of a text "
                    "without a context; choose another task."
                )
            return model.bos_id

        def tok_encode(
            self, string: str, add_special_tokens: bool | None = None, **_: Any
        ) -> list[int]:
            return encode(string)

        def _loglikelihood_tokens(
            self, requests: Sequence[tuple[Any, list[int], list[int]]], **_: Any
        ) -> list[tuple[float, bool]]:
            # In this order, what questions have in common is read once.
            order = sorted(range(len(requests)), key=lambda index: requests[index][1:])
            scores: dict[int, tuple[float, bool]] = {}
            for index in order:
                _, context, continuation = requests[index]
                before = context if context[: len(start)] == start else start + context
                scores[index] = score(before, continuation)
            return [scores[index] for index in range(len(requests))]

        def loglikelihood(
            self, requests: "list[Instance]", disable_tqdm: bool = True
        ) -> list[tuple[float, bool]]:
            return super().loglikelihood(requests, disable_tqdm=True)

        def loglikelihood_rolling(
            self, requests: "list[Instance]", disable_tqdm: bool = True
        ) -> list[float]:
            totals = []
            for request in requests:
                windows = get_rolling_token_windows(
                    encode(request.args[0]), self.eot_token_id, model.longest, 1
                )
                totals.append(sum(score(*make_disjoint_window(pair))[0] for pair in windows))
            return totals

        def generate_until(
            self, requests: "list[Instance]", disable_tqdm: bool = True
        ) -> list[str]:
            return [answer(*request.args) for request in requests]

    @torch.no_grad()
    def score(context: list[int], continuation: list[int]) -> tuple[float, bool]:
        """The continuation's log-likelihood, and whether it is what greedy decoding says."""
        ids = torch.tensor((context + continuation)[-(model.longest + 1) :])
        first = max(0, len(ids) - 1 - len(continuation))
        targets = ids[first + 1 :]
        total, greedy, at = 0.0, True, 0
        for logits in model.logits(ids[:-1], first):
            here = targets[at : at + len(logits)]
            at += len(logits)
            total += logits.log_softmax(-1).gather(1, here[:, None]).double().sum().item()
            greedy = greedy and bool((logits.argmax(-1) == here).all())
        return total, greedy

    def answer(prompt: str, settings: dict[str, Any]) -> str:
        """What the model says until one of the task's stops."""
        if settings.get("do_sample") and settings.get("temperature", 1) > 0:
            raise QuantError(
                "a task needs sampled answers, but only greedy ones are supported: choose another "
                "task, or set do_sample: false in it."
            )
        until = settings.get("until") or []
        stops = [until] if isinstance(until, str) else [stop for stop in until if stop]
        new_tokens = min(int(settings.get("max_gen_toks", _MOST_NEW_TOKENS)), model.longest - 1)
        fitting = _fitting(prompt, encode, model.longest - new_tokens - len(start))
        text = ""
        pieces = generate(fitting, new_tokens)
        for piece in pieces:
            text += piece
            ends = [text.find(stop) for stop in stops if stop in text]
            if ends:
                return text[: min(ends)]
        return text

    return ScoredLM()


def _fitting(prompt: str, encode: Callable[[str], list[int]], room: int) -> str:
    """Returns the end of a prompt that has at most `room` tokens."""
    while (count := len(encode(prompt))) > room:
        prompt = prompt[max(1, len(prompt) * (count - room) // count) :]
    return prompt


def describe_tasks(figures: dict[str, Any]) -> list[str]:
    """A line for each figure, for people."""
    lines = [f"{figures['model']}, runs with {figures['runs_with']}"]
    for task, values in figures["tasks"].items():
        lines.append(f"{task}: {values.get('documents', 'some')} documents")
        for name, value in values.items():
            if name == "documents" or name.endswith("_error") or not isinstance(value, float | int):
                continue
            error = values.get(f"{name}_error")
            shown = f" ± {error:.4f}" if isinstance(error, float | int) else ""
            lines.append(f"  {name:15} {value:.4f}{shown}")
    return lines
