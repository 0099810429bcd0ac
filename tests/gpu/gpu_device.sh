#!/usr/bin/env bash
# For a day on which a GPU is at hand, maybe on a machine that has a driver and python3 with numpy and nothing else of ours:
#   tests/gpu/gpu_device.sh pack DIR                  here, with nvcc: DIR/pack.tar.xz, all that the rest needs beside the sources
#   tests/gpu/gpu_device.sh check OUT                 there: does anything run, every operation, all oracle cases, alone == in a
#                                                 batch, graphs == launches, a device that is lost, the whole program
#   tests/gpu/gpu_device.sh measure OUT [MODEL.gguf]  the goals (OUT/goals.csv), and where a step's time goes
#   tests/gpu/gpu_device.sh sanitize OUT              memcheck and racecheck
#   tests/gpu/gpu_device.sh all OUT [MODEL.gguf]      the last three
# Each part fits a call of ten minutes, and what matters most comes first. OUT/stages.csv says how each stage ended as soon as it
# has, OUT/log.txt has what all of them wrote. Without MODEL, one of Llama-3-8B's shape is made.
#
# Programs are those of a pack ($PACK, build-pack) where there is one; else of the build folder $BUILD (build-gpu), which is brought
# up to date where there is meson. $SHEAF names a program that is used as it is. DRY=1: those of build/ over the emulated device
# and small sizes, to find this script's own faults. From the environment besides: PART_S, seconds that a part may take (580);
# SHARED (../shared); DECODE, PREFILL, options of sheaf bench; BATCH and STEPS of the trace.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
what=${1:?pack, check, measure, sanitize or all} out=${2:?folder for results} model=${3:-}
dry=${DRY:-}
build=${BUILD:-build-gpu} suffix=_device
sheaf=${SHEAF:-}
if [[ $dry ]]; then
    build=${BUILD:-build} suffix=''
    sheaf=${sheaf:-$build/tests/sheaf-emulated}
fi
pack=${PACK:-build-pack}/pack.tar.xz
shared=${SHARED:-../shared}
batch=${BATCH:-64}
programs=(sample rows products attention forward hybrid faults)
n_failed=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/sheaf-gpu-XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# --- Stages ---

begin_part() {
    part_ends=$((SECONDS + ${PART_S:-580}))
}

tell() { # NAME HOW SECONDS
    printf '%s,%s,%d\n' "$@" >>"$out/stages.csv"
    printf '%-20s %s, %d s\n' "$@"
}

# stage NAME SECONDS COMMAND...: at most so long, and never beyond the part's end. What it writes stands at the end of
# OUT/log.txt while it runs, and in WORK/NAME.log then. Exit status 77 (no device) and skipped cases are failures here.
stage() {
    local name=$1 limit=$2 began=$SECONDS ended=passed status=0 at left=$((part_ends - SECONDS))
    shift 2
    [[ ! $dry ]] || limit=$((4 * limit))
    ((limit <= left)) || limit=$left
    if ((limit < 3)); then
        tell "$name" 'no time left' 0
        n_failed=$((n_failed + 1))
        return
    fi
    printf '\n===== %s: %s\n' "$name" "$*" >>"$out/log.txt"
    at=$(stat -c %s "$out/log.txt")
    timeout --kill-after 5 "$limit" "$@" >>"$out/log.txt" 2>&1 || status=$?
    tail -c +$((at + 1)) "$out/log.txt" >"$work/$name.log"
    case $status in
    0) ! grep -q '# SKIP' "$work/$name.log" || ended='skipped' ;;
    77) ended='no device' ;;
    124 | 137) ended="more than $limit s" ;;
    *) ended="exit $status" ;;
    esac
    tell "$name" "$ended" $((SECONDS - began))
    [[ $ended == passed ]] && return
    n_failed=$((n_failed + 1))
    tail -n 15 "$work/$name.log"
}

# --- Programs ---

program() { # of the gpu suite, by its name
    echo "$bin/gpu_$1$suffix"
}

build_programs() {
    local name wanted=(consumer/sheaf)
    for name in "${programs[@]}"; do
        wanted+=("tests/gpu_$name$suffix")
    done
    [[ -d $build ]] || meson setup "$build" -Dgpu=enabled -Dbuildtype=release -Db_ndebug=false
    ninja -C "$build" "${wanted[@]}"
}

find_programs() {
    bin=$build/tests
    if [[ ! $sheaf && -s $pack ]]; then
        python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$pack" "$work"
        bin=$work/bin sheaf=$work/bin/sheaf shared=$work/shared
    elif [[ ! $sheaf ]]; then
        sheaf=$build/consumer/sheaf
        ! command -v meson >/dev/null || build_programs >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
    fi
    [[ -x $sheaf ]] || { echo "$sheaf is missing"; exit 1; }
    sheaf=$(realpath "$sheaf") shared=$(realpath -m "$shared")
    export SHEAF_SHARED=$shared
}

# Programs find their libraries beside them; the C and C++ libraries are the machine's own (2.36 and newer).
make_pack() {
    local name beside='-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib'
    [[ -d $build ]] || meson setup "$build" -Dgpu=enabled -Dbuildtype=release -Db_ndebug=false
    meson configure "$build" "-Dc_link_args=$beside" "-Dcpp_link_args=$beside"
    build_programs
    mkdir -p "$work/bin" "$work/lib" "$work/shared/vocab"
    strip -o "$work/bin/sheaf" "$build/consumer/sheaf"
    for name in "${programs[@]}"; do
        strip -o "$work/bin/gpu_$name$suffix" "$build/tests/gpu_$name$suffix"
    done
    ldd "$work"/bin/* | awk '$2 == "=>" { print $3 }' | sort -u |
        grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so' |
        while read -r library; do cp -L "$library" "$work/lib/"; done
    cp -r "$shared/oracle" "$shared/tools" "$work/shared/"
    cp "$shared/vocab/llama-bpe.gguf" "$work/shared/vocab/"
    # The programs have the same kernels: a dictionary as large as all of them keeps one copy.
    tar -C "$work" -cf - bin lib shared | xz --threads=1 --lzma2=preset=1,dict=512MiB >"$work/pack.tar.xz"
    mv "$work/pack.tar.xz" "$out/"
    ls -l "$out/pack.tar.xz"
}

# --- Parts ---

facts() {
    uname -a
    ldd --version | head -n 1
    nvidia-smi || true
    python3 --version
    nproc
    "$sheaf" --version
    ! command -v cuobjdump >/dev/null || cuobjdump --list-elf --list-ptx "$sheaf" | sort | uniq -c | sort -rn | head -n 60
    if ldd "$sheaf" "$bin/gpu_sample$suffix" | grep 'not found'; then return 1; fi
}

check() {
    begin_part
    export -f facts
    stage facts 30 bash -euc facts
    stage sample 60 "$(program sample)"
    stage rows 30 "$(program rows)"
    stage products 90 "$(program products)"
    stage attention 90 "$(program attention)"
    stage oracle 120 env SHEAF_ORACLE="$([[ $dry ]] && echo few || echo all)" python3 tests/e2e/run.py oracle --sheaf "$sheaf"
    stage forward 120 "$(program forward)" ${dry:+'graph*'}
    stage hybrid 60 "$(program hybrid)"
    stage faults 60 "$(program faults)"
    stage e2e 120 python3 tests/e2e/run.py gpu --sheaf "$sheaf" ${dry:+--only trace}
}

sanitize() {
    local tool name command chosen
    begin_part
    if [[ ! $dry ]] && ! command -v compute-sanitizer >/dev/null; then
        tell sanitize 'skipped: no compute-sanitizer' 0
        return
    fi
    for tool in memcheck racecheck; do
        command=(compute-sanitizer --tool "$tool" --error-exitcode 1)
        [[ ! $dry ]] || command=(env)
        for name in sample rows forward attention products; do
            chosen=()
            [[ $name != forward ]] || chosen=('graph*')
            stage "$tool-$name" 140 "${command[@]}" "$(program "$name")" "${chosen[@]}"
        done
    done
}

make_jobs() {
    python3 - "$batch" "${STEPS:-128}" >"$work/jobs.jsonl" <<'PYTHON'
import json, sys
n, steps = int(sys.argv[1]), int(sys.argv[2])
for i in range(n):
    print(json.dumps({"prompt": f"{i}" + " the" * (512 - steps // 2 if steps > 32 else 20), "max_tokens": steps, "ignore_eos": True,
                      "temperature": 0.8, "seed": i}))
PYTHON
}

trace() {
    "$sheaf" run "$work/jobs.jsonl" -o "$work/answers.jsonl" --model "$model" --backend cuda --max-batch "$batch" \
        --trace-steps "$out/trace.jsonl"
}

measure() {
    begin_part
    if [[ -z $model ]]; then
        model=${TMPDIR:-/tmp}/llama3-8b-q4_k_m.gguf
        [[ -s $model ]] || stage model 240 python3 "$shared/tools/make_model.py" "$model" --type q4_k_m --shape llama3-8b \
            --vocab "$shared/vocab/llama-bpe.gguf"
    fi
    make_jobs
    export -f trace
    stage decode 180 "$sheaf" bench "$model" --backend cuda --json ${DECODE:---prompt 480 --generate 64 --batch 1,64,256}
    stage prefill 90 "$sheaf" bench "$model" --backend cuda --json ${PREFILL:---prompt 1024 --generate 1 --batch 8 --max-rows 8192}
    stage trace 120 bash -euc trace
    # Eager launches of a decoding step, each with its time and what bounds it.
    [[ $dry ]] || ! command -v ncu >/dev/null || stage ncu 100 ncu --clock-control none --section SpeedOfLight --launch-skip 1200 \
        --launch-count 60 "$sheaf" bench "$model" --backend cuda --no-graphs --prompt 64 --generate 8 --batch "$batch" --repeat 1
    python3 tests/gpu/gpu_goals.py "$work" "$out" "$batch" || n_failed=$((n_failed + 1))
}

if [[ $what == pack ]]; then
    make_pack
    exit
fi
find_programs
export sheaf bin suffix work out model batch
case $what in
all)
    check
    measure
    sanitize
    ;;
check | measure | sanitize)
    "$what"
    ;;
*)
    echo "expected pack, check, measure, sanitize or all, got $what" >&2
    exit 2
    ;;
esac
((n_failed == 0)) || { echo "$n_failed failed"; exit 1; }
