# A thin front for the CMake presets. Every target installs what is missing with apt first.
#
#   make build   release build: build/release/dsv4v-server and dsv4v-bench
#   make run     build, then serve a small model on http://$(HOST):$(PORT)/
#   make test    build, then every test this machine can run
#   make check   sanitizers, formatting, fuzz targets, container stages (what CI adds)

HOST ?= 127.0.0.1
PORT ?= 8080
ARGS ?=
MODEL ?= build/release/models/random.gguf

# Debian 12 and Ubuntu 24.04 carry all of these.
BUILD_PACKAGES := g++ cmake ninja-build ccache pkg-config git ca-certificates \
	libexpected-dev libfmt-dev libspdlog-dev libcli11-dev rapidjson-dev libcpp-httplib-dev \
	libssl-dev prometheus-cpp-dev libhwy-dev zlib1g-dev
TEST_PACKAGES := libgtest-dev libgmock-dev xz-utils
CHECK_PACKAGES := clang clang-format clang-tidy libclang-rt-14-dev libomp-14-dev

SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
JOBS := $(shell nproc)

.PHONY: build run test check packages test-packages check-packages clean \
	check-format check-web check-asan check-tsan check-fuzz check-cuda check-container

build: packages
	cmake --preset release -DDSV4V_TESTS=OFF
	cmake --build --preset release -j $(JOBS)

run: build
	@test -e $(MODEL) || { mkdir -p $(dir $(MODEL)) && \
		build/release/dsv4v-bench synth --recipe tiny --out $(basename $(MODEL)); }
	@echo "Starting on http://$(HOST):$(PORT)/ (stop with Ctrl-C)"
	build/release/dsv4v-server --model $(MODEL) --host $(HOST) --port $(PORT) $(ARGS)

test: test-packages
	cmake --preset release -DDSV4V_TESTS=ON
	cmake --build --preset release -j $(JOBS)
	ctest --test-dir build/release -j $(JOBS) --output-on-failure

check: check-packages check-format check-web check-asan check-tsan check-fuzz check-cuda check-container

check-format:
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

check-web:
	cd web && npm ci --no-audit --no-fund && npm run -s typecheck && npm test

check-asan:
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --test-dir build/asan -j $(JOBS) --output-on-failure

# The thread sanitizer does not understand OpenMP: engine and server run over the fake backend.
check-tsan:
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --test-dir build/tsan -j $(JOBS) --output-on-failure

# Each target for FUZZ_SECONDS, from the committed seeds.
FUZZ_SECONDS ?= 20
check-fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run build/fuzz $(FUZZ_SECONDS)

# Without a GPU the CUDA code must still compile.
check-cuda:
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
		cmake --preset cuda && cmake --build --preset cuda -j $(JOBS); \
	else echo "check-cuda: skipped, no nvcc"; fi

check-container:
	deploy/check-container

packages:
	@deploy/install-packages $(BUILD_PACKAGES)

test-check: check-packages check-format check-web check-asan check-tsan check-fuzz check-cuda check-container

check-format:
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

check-web:
	cd web && npm ci --no-audit --no-fund && npm run -s typecheck && npm test

check-asan:
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --test-dir build/asan -j $(JOBS) --output-on-failure

# The thread sanitizer does not understand OpenMP: engine and server run over the fake backend.
check-tsan:
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --test-dir build/tsan -j $(JOBS) --output-on-failure

# Each target for FUZZ_SECONDS, from the committed seeds.
FUZZ_SECONDS ?= 20
check-fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run build/fuzz $(FUZZ_SECONDS)

# Without a GPU the CUDA code must still compile.
check-cuda:
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
		cmake --preset cuda && cmake --build --preset cuda -j $(JOBS); \
	else echo "check-cuda: skipped, no nvcc"; fi

check-container:
	deploy/check-container

packages:
	@deploy/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES)

check-check: check-packages check-format check-web check-asan check-tsan check-fuzz check-cuda check-container

check-format:
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

check-web:
	cd web && npm ci --no-audit --no-fund && npm run -s typecheck && npm test

check-asan:
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --test-dir build/asan -j $(JOBS) --output-on-failure

# The thread sanitizer does not understand OpenMP: engine and server run over the fake backend.
check-tsan:
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS)
	ctest --test-dir build/tsan -j $(JOBS) --output-on-failure

# Each target for FUZZ_SECONDS, from the committed seeds.
FUZZ_SECONDS ?= 20
check-fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run build/fuzz $(FUZZ_SECONDS)

# Without a GPU the CUDA code must still compile.
check-cuda:
	@if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then \
		cmake --preset cuda && cmake --build --preset cuda -j $(JOBS); \
	else echo "check-cuda: skipped, no nvcc"; fi

check-container:
	deploy/check-container

packages:
	@deploy/install-packages $(BUILD_PACKAGES) $(TEST_PACKAGES) $(CHECK_PACKAGES)

clean:
	rm -rf build
