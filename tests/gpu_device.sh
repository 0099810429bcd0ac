#!/usr/bin/env bash
# For a day on which a GPU is at hand: one call does it all; each half fits a call of ten minutes.
#   tests/gpu_device.sh all OUT [MODEL.gguf]      both halves
#   tests/gpu_device.sh check OUT                 builds, then on the device: the gpu suite (every operation, all oracle cases,
#                                                 alone == in a batch, graphs == launches), memcheck, racecheck
#   tests/gpu_device.sh measure OUT [MODEL.gguf]  the goals, and what was measured beside them, in OUT/goals.csv
# OUT/stages.csv says how each stage ended; OUT/STAGE.log what it wrote. Without MODEL, one of Llama-3-8B's shape is made.
#
# From the environment: BUILD, the build folder (build-gpu; used as it is where meson is missing); SHARED (../shared);
# HALF_S, seconds that a half may take (580). For a dry run over the emulated device: SHEAF, SUFFIX (of the test programs,
# _device), SANITIZER (a command, compute-sanitizer), DECODE, PREFILL (options of sheaf bench), BATCH and STEPS of the trace.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=${1:?all, check or measure} out=${2:?folder for results} model=${3:-}
build=${BUILD:-build-gpu}
sheaf=${SHEAF:-$build/consumer/sheaf}
suffix=${SUFFIX-_device}
shared=${SHARED:-../shared}
batch=${BATCH:-64}
n_failed=0
mkdir -p "$out"
out=$(cd "$out" && pwd)

begin_half() {
    half_ends=$((SECONDS + ${HALF_S:-580}))
}

# stage NAME SECONDS COMMAND...: at most so long, and never beyond the half's end. Exit status 77 (no device) and skipped cases
# are failures here.
stage() {
    local name=$1 limit=$2 began=$SECONDS ended=passed status=0 left=$((half_ends - SECONDS))
    shift 2
    ((limit <= left)) || limit=$left
    if ((limit < 3)); then
        ended='no time left'
    else
        timeout --kill-after 5 "$limit" "$@" >"$out/$name.log" 2>&1 || status=$?
        case $status in
        0) ! grep -q '# SKIP' "$out/$name.log" || ended='skipped' ;;
        77) ended='no device' ;;
        124 | 137) ended="more than $limit s" ;;
        *) ended="exit $status" ;;
        esac
    fi
    [[ $ended == passed ]] || n_failed=$((n_failed + 1))
    printf '%s,%s,%d\n' "$name" "$ended" $((SECONDS - began)) >>"$out/stages.csv"
    printf '%-24s %s, %d s\n' "$name" "$ended" $((SECONDS - began))
    [[ $ended == passed || ! -s $out/$name.log ]] || tail -n 15 "$out/$name.log"
}

build_all() {
    local programs=() name
    for name in attention forward hybrid products rows sample; do
        programs+=("tests/gpu_$name$suffix")
    done
    if command -v meson >/dev/null; then
        [[ -d $build ]] || meson setup "$build" -Dgpu=enabled -Dbuildtype=release -Db_ndebug=false
        ninja -C "$build" consumer/sheaf "${programs[@]}"
    else
        echo "no meson: $build is used as it is"
        for name in "${programs[@]}"; do
            [[ -x $build/$name ]] || { echo "$build/$name is missing"; return 1; }
        done
    fi
}

check() {
    local tool program
    begin_half
    export -f build_all
    export build suffix
    stage build 300 bash -euc build_all
    for program in products attention rows sample hybrid forward; do
        stage "gpu_$program" 90 "$build/tests/gpu_$program$suffix"
    done
    stage oracle 60 env SHEAF_ORACLE=all python3 tests/e2e/run.py oracle --sheaf "$sheaf"
    stage e2e 90 python3 tests/e2e/run.py gpu --sheaf "$sheaf"
    for tool in memcheck racecheck; do
        for program in rows sample attention products; do
            stage "$tool-$program" 60 ${SANITIZER-compute-sanitizer --tool $tool --error-exitcode 1} \
                "$build/tests/gpu_$program$suffix"
        done
        stage "$tool-forward" 90 ${SANITIZER-compute-sanitizer --tool $tool --error-exitcode 1} \
            "$build/tests/gpu_forward$suffix" 'graph*'
    done
}

make_jobs() {
    python3 - "$batch" "${STEPS:-128}" >"$out/jobs.jsonl" <<'PYTHON'
import json, sys
n, steps = int(sys.argv[1]), int(sys.argv[2])
for i in range(n):
    print(json.dumps({"prompt": f"{i}" + " the" * (512 - steps // 2 if steps > 32 else 20), "max_tokens": steps, "ignore_eos": True,
                      "temperature": 0.8, "seed": i}))
PYTHON
}

trace() {
    rm -f "$out"/answers.jsonl*
    "$sheaf" run "$out/jobs.jsonl" -o "$out/answers.jsonl" --model "$model" --backend cuda --max-batch "$batch" \
        --trace-steps "$out/trace.jsonl"
    rm -f "$out"/answers.jsonl*
}

measure() {
    begin_half
    if [[ -z $model ]]; then
        model=${TMPDIR:-/tmp}/llama3-8b-q4_k_m.gguf
        [[ -s $model ]] || stage model 240 python3 "$shared/tools/make_model.py" "$model" --type q4_k_m --shape llama3-8b \
            --vocab "$shared/vocab/llama-bpe.gguf"
    fi
    make_jobs
    export -f trace
    export sheaf model out batch
    stage decode 180 "$sheaf" bench "$model" --backend cuda --json ${DECODE:---prompt 480 --generate 64 --batch 1,64,256}
    stage prefill 90 "$sheaf" bench "$model" --backend cuda --json ${PREFILL:---prompt 1024 --generate 1 --batch 8 --max-rows 8192}
    stage trace 120 bash -euc trace
    python3 tests/gpu_goals.py "$out" "$batch" || n_failed=$((n_failed + 1))
}

case $what in
all)
    check
    measure
    ;;
check | measure)
    "$what"
    ;;
*)
    echo "expected all, check or measure, got $what" >&2
    exit 2
    ;;
esac
((n_failed == 0)) || { echo "$n_failed failed"; exit 1; }
