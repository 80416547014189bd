"""python -m quant eval | compare | run | cache"""

from exporter.command_line.interruption import interruptible, nothing_to_clean_up


def run() -> None:
    with interruptible("Interrupted."):
        with nothing_to_clean_up():
            from quant.commands.cli import main
        main()


if __name__ == "__main__":
    run()
