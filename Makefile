# make demo   everything once: set up, generate, verify on the embedded CPU target, write the HTML report
# make test   the test suite
# make help   all targets

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q
KERNEL_SOURCES := $(shell find cuda -type f)

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-slow bench lint refs verify verify-gpu mutants mutants-gpu repeated repeated-gpu sanitize sanitize-gpu report clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.runtime: pyproject.toml constraints.txt
	@echo "setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt scikit-build-core cmake ninja numpy h5py click rich jinja2
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation --no-deps -C cmake.define.DDTREE_CUDA=OFF -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@$(PIP) install -c constraints.txt torch pytest pytest-benchmark pytest-timeout pytest-xdist hypothesis jsonschema ruff mypy
	@touch $@

build/.cpu: $(VENV)/.runtime $(KERNEL_SOURCES)
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S cuda -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDTREE_CUDA=OFF >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build -j
	@touch $@

setup: $(VENV)/.runtime build/.cpu  ## virtual environment, package, CPU library

build: build/.cpu  ## compile the kernels for the CPU again

demo: setup  ## verify smoke, generate and verify standard on the cpu target, write the HTML reports
	$(BIN)/harness verify fixtures/smoke --target cpu --report reports/cpu-smoke
	$(BIN)/harness gen-refs --suite standard --out fixtures/standard
	$(BIN)/harness verify fixtures/standard --target cpu --report reports/cpu-standard
	@echo
	@echo "Report: file://$(CURDIR)/reports/cpu-standard/index.html"

test: setup $(VENV)/.dev  ## the test suite
	$(BIN)/pytest -n 2

test-slow: setup $(VENV)/.dev  ## the slow tests only
	$(BIN)/pytest -n 2 -m slow

bench: setup $(VENV)/.dev  ## benchmarks of references, store and CLI
	$(BIN)/pytest --benchmark-only -m "slow or not slow"

lint: $(VENV)/.dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

refs: setup  ## write fixtures/smoke and fixtures/standard
	$(BIN)/harness gen-refs --suite smoke --out fixtures/smoke
	$(BIN)/harness gen-refs --suite standard --out fixtures/standard

verify: setup  ## smoke on the cpu target
	$(BIN)/harness verify fixtures/smoke --target cpu

verify-gpu:  ## smoke and standard on the cuda target; needs a GPU, nvcc and the packages, installs nothing
	cmake -S cuda -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDTREE_CUDA=ON
	cmake --build build
	$(PYTHON) -m harness gen-refs --suite smoke --check
	$(PYTHON) -m harness gen-refs --suite standard --out fixtures/standard
	$(PYTHON) -m harness verify fixtures/smoke --target cuda --report reports/gpu/smoke
	$(PYTHON) -m harness verify fixtures/standard --target cuda --report reports/gpu/standard

mutants: setup  ## run wrong kernels on purpose: which cases catch them
	$(BIN)/harness mutants --target cpu --report reports/mutants-cpu

mutants-gpu:  ## the same on a GPU, with faults that only a GPU shows; installs nothing
	cmake -S cuda -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDTREE_CUDA=ON
	cmake --build build
	$(PYTHON) -m harness mutants --target cuda --report reports/gpu/mutants

repeated: setup  ## standard 20 times on the cpu target, 5 in random thread orders: do right kernels ever fail?
	$(BIN)/harness gen-refs --suite standard --out fixtures/standard
	$(BIN)/python cuda/tools/repeat_verify.py fixtures/standard -t cpu --runs 20 --random 5 --out reports/repeated/cpu

repeated-gpu:  ## the same on the cuda target; installs nothing
	cmake -S cuda -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDTREE_CUDA=ON
	cmake --build build
	$(PYTHON) -m harness gen-refs --suite standard --out fixtures/standard
	$(PYTHON) cuda/tools/repeat_verify.py fixtures/standard -t cuda --runs 20 --out reports/repeated/cuda

sanitize: setup  ## smoke under ASan+UBSan and under TSan
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S cuda -B build/asan -G Ninja -DDDTREE_CUDA=OFF -DDDTREE_SANITIZE=address >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S cuda -B build/tsan -G Ninja -DDDTREE_CUDA=OFF -DDDTREE_SANITIZE=thread >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/asan
	@PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/tsan
	$(BIN)/harness verify fixtures/smoke --target build/asan/libddtree_cpu.so --report reports/asan-smoke
	$(BIN)/harness verify fixtures/smoke --target build/tsan/libddtree_cpu.so --report reports/tsan-smoke

sanitize-gpu:  ## smoke on the cuda target under compute-sanitizer, after its canaries; installs nothing
	cmake -S cuda -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDDTREE_CUDA=ON
	cmake --build build
	$(PYTHON) cuda/tools/sanitize_gpu.py

report: setup  ## render the last reports again from their results.json
	@for results in reports/*/results.json; do $(BIN)/harness report $$results; done

clean:  ## remove what was built and generated
	rm -rf build $(VENV) fixtures/standard fixtures/full
