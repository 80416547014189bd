"""python -m devtools bench model.pte"""

from exporter.commands.interruption import interruptible, nothing_to_clean_up

if __name__ == "__main__":
    with interruptible("Interrupted; nothing was written."):
        with nothing_to_clean_up():
            from devtools.commands.cli import main
            from devtools.commands.output import outlive_reader
        outlive_reader()
        main(prog_name="python -m devtools")
