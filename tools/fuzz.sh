#!/bin/sh
# Fuzzes what reads files of others, guided by the branches that inputs take: kernel_manifest.json under libFuzzer, trace files
# under Atheris. Called by `make test-fuzz`; RAL_FUZZ_SECONDS (20) is for each of the two. Inputs that failed stay in .venv/fuzz.
set -eu
seconds=${RAL_FUZZ_SECONDS:-20}
clang=$(command -v clang++ || command -v clang++-14 || true)
if [ -z "$clang" ]; then
  echo "make test-fuzz needs clang++ with its runtime (Debian, Ubuntu: apt install clang libclang-rt-14-dev)" >&2
  exit 1
fi
python -c "import atheris" 2>/dev/null || python -m pip --disable-pip-version-check install -q atheris

build=.venv/fuzz/build corpus=.venv/fuzz/manifests
sh tools/quiet.sh cmake -S core/ral -B $build -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRAL_BUILD_TESTS=ON
sh tools/quiet.sh cmake --build $build --target libfuzzer_manifest
mkdir -p $corpus .venv/fuzz/found
for manifest in core/plugins/template core/tests/testplugin core/plugins/opencl; do
  cp $manifest/kernel_manifest.json "$corpus/$(basename $manifest).json"
done
echo "==> kernel_manifest.json, $seconds s"
sh tools/quiet.sh $build/tests/libfuzzer_manifest -max_total_time="$seconds" -timeout=90 -rss_limit_mb=4096 \
  -artifact_prefix=.venv/fuzz/found/ -print_final_stats=1 $corpus
echo "==> trace files, $seconds s"
sh tools/quiet.sh python tests/trace/atheris_ring.py -max_total_time="$seconds" -timeout=90 -artifact_prefix=.venv/fuzz/found/
