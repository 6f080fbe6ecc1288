#!/bin/sh
# Builds libral and its C++ tests under AddressSanitizer (with leak checks) and ThreadSanitizer, and runs them.
# Called by `make test-sanitizers`. Drivers and PyTorch are not instrumented: the tests' own plugin takes their place, but for
# the pool's soak over OpenCL, which runs under AddressSanitizer too.
set -eu
for sanitizer in address thread; do
  build=.venv/sanitizers/$sanitizer
  sh tools/quiet.sh cmake -S core/ral -B "$build" -G Ninja -DRAL_SANITIZE=$sanitizer -DRAL_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo
  sh tools/quiet.sh cmake --build "$build"
  ctest --test-dir "$build" --output-on-failure
done
