#!/usr/bin/env bash
# For a day on which a GPU is at hand: builds for it, runs the gpu suite on it, looks for faults with compute-sanitizer, and
# times a model. Each stage stays under ten minutes; results go to the folder named last.
#   tests/gpu_device.sh build|test|memcheck|racecheck|bench OUT [MODEL.gguf]
# bench wants a model of Llama-3-8B's shape (../shared/tools/make_model.py --shape llama3-8b, Q4_K_M).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
stage=${1:?stage} out=${2:?folder for results} model=${3:-}
build=build-gpu
mkdir -p "$out"

case $stage in
build)
    [[ -d $build ]] || meson setup "$build" -Dgpu=enabled -Dbuildtype=release -Db_ndebug=false
    ninja -C "$build" consumer/sheaf tests/gpu_forward_device tests/gpu_sample_device
    ;;
test)
    meson test -C "$build" --no-rebuild --suite gpu --print-errorlogs 2>&1 | tee "$out/test.log"
    ;;
memcheck | racecheck)
    for program in gpu_sample_device gpu_forward_device; do
        timeout 280 compute-sanitizer --tool "$stage" --error-exitcode 1 "$build/tests/$program" 2>&1 |
            tee "$out/$stage-$program.log" | tail -n 5
    done
    ;;
bench)
    run() { "$build/consumer/sheaf" bench "$model" --backend cuda --json "$@" 2>>"$out/bench.log" | tee -a "$out/bench.json"; }
    run --prompt 512 --generate 128 --batch 1,64,256
    run --prompt 1024 --generate 1 --batch 8 --max-rows 8192
    ;;
*)
    echo "unknown stage: $stage" >&2
    exit 2
    ;;
esac
