"""python -m exporter MODEL --out model.pte"""

from exporter.command_line.interruption import interruptible, nothing_to_clean_up


def run() -> None:
    with interruptible("Interrupted; nothing was written."):
        with nothing_to_clean_up():
            from exporter.commands.cli import main
        main()


if __name__ == "__main__":
    run()
