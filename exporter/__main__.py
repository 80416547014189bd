"""python -m exporter MODEL --out model.pte"""

from exporter.commands.cli import main

if __name__ == "__main__":
    main(prog_name="python -m exporter")
