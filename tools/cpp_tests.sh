#!/bin/sh
# Builds the C++ tests in the folder where core/ was built, and runs them. Called by `make test-cpp`.
set -eu
for build in core/build/*/; do
  [ -f "$build/CMakeCache.txt" ] || continue
  sh tools/quiet.sh cmake -DTORCH_FL_TESTS=ON "$build"
  cmake --build "$build"
  exec ctest --test-dir "$build" --output-on-failure
done
echo "core/ is not built: run 'make build'" >&2
exit 1
