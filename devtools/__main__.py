"""python -m devtools bench model.pte"""

from devtools.commands.cli import main

if __name__ == "__main__":
    main(prog_name="python -m devtools")
