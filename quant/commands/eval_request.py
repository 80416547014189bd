"""The arguments of `python -m quant eval`."""

from dataclasses import dataclass
from pathlib import Path

from quant.commands.checks import RunAs


@dataclass(frozen=True)
class Request:
    """The arguments of the command line."""

    model: str
    text: Path | None
    against: str | None
    tokenizer: Path | None
    context: int | None
    tokens: int | None
    separator: str | None
    kv_cache: str
    against_kv_cache: str
    adapter: str | None
    against_adapter: str | None
    tasks: str | None
    task_path: Path | None
    limit: int | None
    shots: int | None
    as_json: bool

    @property
    def run_as(self) -> RunAs:
        return RunAs(self.kv_cache, self.adapter)

    @property
    def against_as(self) -> RunAs:
        return RunAs(self.against_kv_cache, self.against_adapter)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Empty if a text is measured instead."""
        return tuple(name.strip() for name in (self.tasks or "").split(",") if name.strip())

    @property
    def for_text(self) -> dict[str, object]:
        """The options that have an effect only with --text."""
        return {
            "--tokenizer": self.tokenizer,
            "--context": self.context,
            "--tokens": self.tokens,
            "--separator": self.separator,
        }

    @property
    def for_tasks(self) -> dict[str, object]:
        """The options that have an effect only with --tasks."""
        return {"--task-path": self.task_path, "--limit": self.limit, "--shots": self.shots}

    @property
    def for_against(self) -> dict[str, object]:
        """The options that have an effect only with --against."""
        run_as = self.against_as
        return {"--against-kv-cache": run_as.set_kv_cache, "--against-adapter": run_as.adapter}
