"""python -m quant eval | compare | run | cache"""

from quant.commands.cli import main

if __name__ == "__main__":
    main(prog_name="python -m quant")
