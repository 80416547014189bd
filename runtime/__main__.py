"""`python -m runtime build`, `package`, `run`, `generate`, `tokenize`, `serve` and `web`."""

import sys

from exporter.command_line.interruption import interruptible, nothing_to_clean_up


def run() -> None:
    with interruptible("Interrupted."):
        with nothing_to_clean_up():
            from runtime.commands.cli import main
        main()


def run_model() -> None:
    """Exports a model if needed, and runs it in this process."""
    with interruptible("Interrupted."):
        with nothing_to_clean_up():
            from runtime.commands.run import run_command
        run_command(prog_name="thimble-run")


def run_runner() -> None:
    """Runs the C++ runner in this process; builds it first if it is missing."""
    with interruptible("Interrupted."):
        from runtime.commands import runner

        runner.run_runner(sys.argv[1:])


if __name__ == "__main__":
    run()
