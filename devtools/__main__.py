"""python -m devtools bench model.pte"""

from exporter.command_line.interruption import interruptible, nothing_to_clean_up
from exporter.command_line.streams import outlive_reader


def run() -> None:
    with interruptible("Interrupted; nothing was written."):
        with nothing_to_clean_up():
            from devtools.commands.cli import main
        outlive_reader()
        main()


if __name__ == "__main__":
    run()
