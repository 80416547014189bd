"""python -m devtools bench model.pte"""

from exporter.commands.interruption import interruptible, nothing_to_clean_up


def run() -> None:
    with interruptible("Interrupted; nothing was written."):
        with nothing_to_clean_up():
            from devtools.commands.cli import main
            from devtools.commands.output import outlive_reader
        outlive_reader()
        main()


if __name__ == "__main__":
    run()
