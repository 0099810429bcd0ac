#!/usr/bin/env bash
# For a day on which a GPU is at hand, maybe on a machine that has a driver and python3 with numpy and nothing else of ours:
#   tests/gpu/gpu_device.sh pack DIR                  here, with nvcc: DIR/pack.tar.xz, all that the rest needs beside the sources
#   tests/gpu/gpu_device.sh check OUT                 there: does anything run, gpu_probe, the predicted bytes, every operation at once, what
#                                                 failed again under memcheck, all oracle cases, the whole program
#   tests/gpu/gpu_device.sh bench OUT                 each kernel beside its bound (OUT/bench.csv)
#   tests/gpu/gpu_device.sh measure OUT [MODEL.gguf]  the goals (OUT/goals.csv), alone == in a batch, where a step's time goes
#   tests/gpu/gpu_device.sh sanitize OUT              memcheck and racecheck
#   tests/gpu/gpu_device.sh faults OUT                a device that is lost on purpose: last of all
#   tests/gpu/gpu_device.sh all OUT [MODEL.gguf]      the last five
# Each part fits a call of ten minutes, and what matters most comes first. OUT/stages.csv says how each stage ended as soon as it
# has, OUT/log.txt has what all of them wrote: 7 files at most, none above 16 MiB. A stage that does not even die when it is killed,
# because it hangs in the driver, is abandoned. Without MODEL, one of Llama-3-8B's shape is made.
#
# Programs are those of a pack ($PACK, build-pack) where there is one; else of the build folder $BUILD (build-gpu), which is brought
# up to date where there is meson. $SHEAF names a program that is used as it is. DRY=1: those of build/ over the emulated device
# and small sizes, to find this script's own faults. From the environment besides: PART_S, seconds that a part may take (580);
# ONLY, the stages to run; LIMIT_NAME, seconds of stage NAME (- is _);
# SHARED (../shared); DECODE, PREFILL, options of sheaf bench; BATCH and STEPS of the trace.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
what=${1:?pack, check, bench, measure, sanitize, faults or all} out=${2:?folder for results} model=${3:-}
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
programs=(probe golden sample rows products attention forward hybrid bench faults)
file_bytes_max=$((16 << 20)) pack_bytes_max=50000000
n_failed=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/sheaf-gpu-XXXXXX")
trap 'rm -rf "$work"' EXIT
running=() # names of stages
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# --- Stages ---

begin_part() {
    part_ends=$((SECONDS + ${PART_S:-580}))
}

report() { # NAME HOW SECONDS
    printf '%s,%s,%d\n' "$@" >>"$out/stages.csv"
    printf '%-20s %s, %d s\n' "$@"
}

wanted() {
    [[ ! ${ONLY:-} || " $ONLY " == *" $1 "* ]]
}

# start NAME SECONDS COMMAND...: in the background, at most so long, and never beyond the part's end. Its output
# is in WORK/NAME.log and, when it has ended, at the end of OUT/log.txt. Exit status 77 (no device) and skipped cases
# are failures here.
start() {
    local name=$1 limit=$2 left=$((part_ends - SECONDS)) override="LIMIT_${1//-/_}"
    shift 2
    wanted "$name" || return 0
    [[ ! $dry ]] || limit=$((4 * limit))
    limit=${!override:-$limit}
    ((limit <= left)) || limit=$left
    if ((limit < 1)); then
        report "$name" 'no time left' 0
        n_failed=$((n_failed + 1))
        return 0
    fi
    echo "$SECONDS $limit" >"$work/$name.began"
    (
        status=0
        timeout --kill-after 2 "$limit" "$@" >"$work/$name.log" 2>&1 </dev/null || status=$?
        echo "$status" >"$work/$name.ending" && mv "$work/$name.ending" "$work/$name.status"
    ) >/dev/null 2>&1 </dev/null &
    running+=("$name")
}

# Whether the stage has ended, or is past its deadline: then it is abandoned.
has_ended() {
    local began limit
    read -r began limit <"$work/$1.began"
    [[ -e $work/$1.status ]] || ((SECONDS > began + limit + 5))
}

note_end() { # NAME
    local name=$1 ended=passed status=abandoned began limit
    read -r began limit <"$work/$name.began"
    [[ ! -e $work/$name.status ]] || read -r status <"$work/$name.status"
    case $status in
    0) ! grep -q '# SKIP' "$work/$name.log" || ended='skipped' ;;
    77) ended='no device' ;;
    124 | 137) ended="more than $limit s" ;;
    abandoned) ended="abandoned after $limit s" ;;
    *) ended="exit $status" ;;
    esac
    { printf '\n===== %s\n' "$name"; cat "$work/$name.log"; } >>"$out/log.txt"
    report "$name" "$ended" $((SECONDS - began))
    [[ $ended == passed ]] && return
    n_failed=$((n_failed + 1))
    tail -n 15 "$work/$name.log"
}

# Waits for all that was started; each is noted as soon as it has ended.
finish() {
    local name left
    while ((${#running[@]})); do
        left=()
        for name in "${running[@]}"; do
            if has_ended "$name"; then note_end "$name"; else left+=("$name"); fi
        done
        running=("${left[@]}")
        ((${#running[@]} == 0)) || sleep 0.1
    done
}

stage() { # one alone
    start "$@"
    finish
}

passed() { # NAME
    grep -q "^$1,passed," "$out/stages.csv"
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
    (($(stat -c %s "$work/pack.tar.xz") < pack_bytes_max)) || { ls -l "$work/pack.tar.xz"; echo "above $pack_bytes_max bytes"; exit 1; }
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

golden() {
    "$bin/gpu_golden$suffix" tests/gpu/golden_bytes.txt
}

check() {
    local name
    begin_part
    export -f facts golden
    stage facts 30 bash -euc facts
    for name in capture zero order columns graph launch memory cache; do
        stage "probe-$name" 10 "$(program probe)" "$name"
    done
    start golden 60 bash -euc golden
    start sample 60 "$(program sample)"
    start rows 30 "$(program rows)"
    start products 90 "$(program products)"
    start attention 90 "$(program attention)"
    start forward 120 "$(program forward)" ${dry:+'graph*'}
    start hybrid 60 "$(program hybrid)"
    finish
    for name in sample rows products attention; do
        [[ $dry ]] || ! command -v compute-sanitizer >/dev/null || passed "$name" ||
            start "again-$name" 100 compute-sanitizer --tool memcheck --error-exitcode 1 "$(program "$name")"
    done
    finish
    # These plan with the memory that is free: one after the other.
    stage oracle 120 env SHEAF_ORACLE="$([[ $dry ]] && echo few || echo all)" python3 tests/e2e/run.py oracle --sheaf "$sheaf"
    stage e2e 120 python3 tests/e2e/run.py gpu --sheaf "$sheaf" ${dry:+--only trace}
}

write_bench() { # a line as soon as it is known
    "$bin/gpu_bench$suffix" ${dry:+--tiny} | tee "$out/bench.csv"
}

bench() {
    begin_part
    export dry
    export -f write_bench
    stage bench 300 bash -euo pipefail -c write_bench
}

faults() {
    begin_part
    stage faults 60 "$(program faults)"
}

sanitize() {
    local tool name command chosen
    begin_part
    if [[ ! $dry ]] && ! command -v compute-sanitizer >/dev/null; then
        report sanitize 'skipped: no compute-sanitizer' 0
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

# Three jobs of the batch, each computed alone: the same answers.
alone() {
    local line
    for line in 1 $((batch / 2)) "$batch"; do
        sed -n "${line}p" "$work/jobs.jsonl" >"$work/one.jsonl"
        "$sheaf" run "$work/one.jsonl" -o "$work/alone.jsonl" --store "$work/alone-$line.db" --model "$model" --backend cuda \
            --max-batch 1
        python3 - "$work/answers.jsonl" "$line" "$work/alone.jsonl" <<'PYTHON'
import json, sys
among = json.loads(open(sys.argv[1], encoding="utf-8").read().splitlines()[int(sys.argv[2]) - 1])
alone = json.loads(open(sys.argv[3], encoding="utf-8").read())
same = alone["response"]["body"]["choices"] == among["response"]["body"]["choices"]
print(f"line {sys.argv[2]}: " + ("the same answer" if same else f"alone {alone}, in the batch {among}"))
sys.exit(not same)
PYTHON
        rm "$work/alone.jsonl"
    done
}

measure() {
    begin_part
    if [[ -z $model ]]; then
        model=${TMPDIR:-/tmp}/llama3-8b-q4_k_m.gguf
        [[ -s $model ]] || stage model 240 python3 "$shared/tools/make_model.py" "$model" --type q4_k_m --shape llama3-8b \
            --vocab "$shared/vocab/llama-bpe.gguf"
    fi
    make_jobs
    export -f trace alone
    stage decode 180 "$sheaf" bench "$model" --backend cuda --json ${DECODE:---prompt 480 --generate 64 --batch 1,64,256}
    stage prefill 90 "$sheaf" bench "$model" --backend cuda --json ${PREFILL:---prompt 1024 --generate 1 --batch 8 --max-rows 8192}
    stage trace 120 bash -euc trace
    stage alone 90 bash -euc alone
    # Eager launches of a decoding step, by name, each with its time and what bounds it.
    [[ $dry ]] || ! command -v ncu >/dev/null || stage ncu 100 ncu --clock-control none --kernel-name 'regex:gemm_|attend|norm_rows' \
        --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy --section WarpStateStats --launch-skip 600 \
        --launch-count 30 "$sheaf" bench "$model" --backend cuda --no-graphs --prompt 64 --generate 8 --batch "$batch" --repeat 1
    python3 tests/gpu/gpu_goals.py "$work" "$out" "$batch" || n_failed=$((n_failed + 1))
}

if [[ $what == pack ]]; then
    make_pack
    exit
fi
find_programs
touch "$out/stages.csv"
export sheaf bin suffix work out model batch
case $what in
all)
    check
    bench
    measure
    sanitize
    faults
    ;;
check | bench | measure | sanitize | faults)
    "$what"
    ;;
*)
    echo "expected pack, check, bench, measure, sanitize, faults or all, got $what" >&2
    exit 2
    ;;
esac
for file in "$out"/log.txt "$out"/trace.jsonl; do
    [[ -e $file ]] && (($(stat -c %s "$file") > file_bytes_max)) || continue
    tail -c "$file_bytes_max" "$file" >"$work/tail" && cp "$work/tail" "$file"
done
((n_failed == 0)) || { echo "$n_failed failed"; exit 1; }
