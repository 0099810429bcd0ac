#!/usr/bin/env bash
# For a day on which a GPU is at hand, maybe on a machine that has a driver and python3 with numpy and nothing else of ours:
#   tests/gpu/gpu_device.sh pack DIR                  here, with nvcc: DIR/pack.tar.xz, all that the rest needs beside the sources
#   tests/gpu/gpu_device.sh first OUT [MODEL.gguf]    there, when time is short, in 330 s: does it run right, every tile of products, decode, prefill, alone == in a batch
#   tests/gpu/gpu_device.sh second OUT [MODEL.gguf]   the next 330 s: what failed (AGAIN) under memcheck, races, other types, a larger batch, other ways to the same bytes, the faults
#   tests/gpu/gpu_device.sh check OUT                 with more time: does anything run, gpu_probe, the predicted bytes, every operation at once, what
#                                                 failed again under memcheck, all oracle cases, the whole program
#   tests/gpu/gpu_device.sh bench OUT                 each kernel beside its bound (OUT/bench.csv)
#   tests/gpu/gpu_device.sh measure OUT [MODEL.gguf]  the goals (OUT/goals.csv), alone == in batches, beside the CPU, where a step's time goes
#   tests/gpu/gpu_device.sh sanitize OUT              memcheck, racecheck and synccheck
#   tests/gpu/gpu_device.sh faults OUT                a device that is lost on purpose: last of all
#   tests/gpu/gpu_device.sh all OUT [MODEL.gguf]      the last five: check to faults
# Each part fits a call of ten minutes, the first two one of 330 s, and what matters most comes first. OUT/stages.csv says how each stage ended as soon as it
# has, OUT/log.txt has what all of them wrote: 7 files at most, none above 16 MiB. A stage that hangs in the driver and survives
# SIGKILL is abandoned. While it hangs, stages.csv lists it beside each other stage, which shared the device with it, in later calls too:
# $TMPDIR/sheaf-gpu-hanging has its process. Without MODEL, one of Llama-3-8B's shape is made.
#
# Programs are those of a pack ($PACK, build-pack) where there is one; else of the build folder $BUILD (build-gpu), which is brought
# up to date where there is meson. $SHEAF names a program that is used as it is. DRY=1: those of build/ over the emulated device
# and small sizes, to find this script's own faults. From the environment besides: PART_S, seconds that a part may take (580, or 320);
# ONLY, the stages to run; AGAIN, the programs that the second part runs again; LIMIT_NAME, seconds of stage NAME (- is _);
# SHARED (../shared); SETTINGS, DECODE, PREFILL, SATURATED, options of sheaf bench; BATCH and STEPS of the trace, LARGE, a larger batch.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
what=${1:?pack, first, second, check, bench, measure, sanitize, faults or all} out=${2:?folder for results} model=${3:-}
dry=${DRY:-}
build=${BUILD:-build-gpu} suffix=_device
sheaf=${SHEAF:-}
if [[ $dry ]]; then
    build=${BUILD:-build} suffix=''
    sheaf=${sheaf:-$build/tests/sheaf-emulated}
fi
pack=${PACK:-build-pack}/pack.tar.xz
shared=${SHARED:-../shared}
batch=${BATCH:-64} large=${LARGE:-256}
programs=(probe golden streams sample rows recurrent products product_tiles product_gates product_experts pages attention forward hybrid bench faults)
products=(products product_tiles product_gates product_experts)
file_bytes_max=$((16 << 20)) pack_bytes_max=50000000
n_failed=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/sheaf-gpu-XXXXXX")
trap 'rm -rf "$work"' EXIT
running=() # names of stages
hanging=${TMPDIR:-/tmp}/sheaf-gpu-hanging # a line for each abandoned stage of this and earlier calls: name, process
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

# --- Stages ---

begin_part() { # [SECONDS]
    part_ends=$((SECONDS + ${PART_S:-${1:-580}}))
}

# Stages that were abandoned and have not ended since.
still_hanging() {
    local name process
    [[ -e $hanging ]] || return 0
    while read -r name process; do
        ! kill -0 "$process" 2>/dev/null || printf ' %s' "$name"
    done <"$hanging"
}

report() { # NAME HOW SECONDS
    local with
    with=$(still_hanging)
    printf '%s,%s,%d%s\n' "$@" "${with:+,shared with$with}" >>"$out/stages.csv"
    printf '%-20s %s, %d s%s\n' "$@" "${with:+, shared with$with}"
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
        timeout --kill-after 2 "$limit" "$@" >"$work/$name.log" 2>&1 </dev/null &
        echo "$!" >"$work/$name.process"
        wait "$!" || status=$?
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
    [[ $status != abandoned ]] || echo "$name $(cat "$work/$name.process")" >>"$hanging"
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
        wanted+=("tests/gpu/gpu_$name$suffix")
    done
    [[ -d $build ]] || meson setup "$build" -Dgpu=enabled -Dbuildtype=release -Db_ndebug=false
    ninja -C "$build" "${wanted[@]}"
}

find_programs() {
    bin=$build/tests/gpu
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
    # Code for the machines that are lent. An older folder learns of new options when it is set up again.
    meson setup --reconfigure "$build" -Dgpu_targets=90a "-Dc_link_args=$beside" "-Dcpp_link_args=$beside"
    build_programs
    mkdir -p "$work/bin" "$work/lib" "$work/shared/vocab"
    strip -o "$work/bin/sheaf" "$build/consumer/sheaf"
    for name in "${programs[@]}"; do
        strip -o "$work/bin/gpu_$name$suffix" "$build/tests/gpu/gpu_$name$suffix"
    done
    ldd "$work"/bin/* | awk '$2 == "=>" { print $3 }' | sort -u |
        grep -Ev '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so' |
        while read -r library; do cp -L "$library" "$work/lib/"; done
    cp -r "$shared/oracle" "$shared/tools" "$work/shared/"
    cp "$shared/vocab/llama-bpe.gguf" "$work/shared/vocab/"
    # The programs have the same kernels: a dictionary as large as all of them keeps one copy.
    tar -C "$work" -cf - bin lib shared | xz --threads=1 --lzma2=preset=1,mode=normal,mf=bt4,nice=64,dict=512MiB >"$work/pack.tar.xz"
    (($(stat -c %s "$work/pack.tar.xz") < pack_bytes_max)) || { ls -l "$work/pack.tar.xz"; echo "above $pack_bytes_max bytes"; exit 1; }
    python3 tests/gpu/cubin.py "$work/bin/sheaf" "$work/bin/gpu_bench$suffix"
    mv "$work/pack.tar.xz" "$out/"
    ls -l "$out/pack.tar.xz"
}

# --- Parts ---

facts() {
    uname -a
    ldd --version | head -n 1
    nvidia-smi || true
    echo "device: $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)"
    python3 --version
    nproc
    "$sheaf" --version
    python3 tests/gpu/cubin.py "$sheaf" "$bin/gpu_bench$suffix" || true # which code the profiler's samples are of
    ! command -v cuobjdump >/dev/null || cuobjdump --list-elf --list-ptx "$sheaf" | sort | uniq -c | sort -rn | head -n 60
    if ldd "$sheaf" "$bin/gpu_sample$suffix" | grep 'not found'; then return 1; fi
}

# What plans are made from; one after the other, alone on the device.
rates() {
    local name
    for name in memory cache products graph; do
        stage "probe-$name" 10 "$(program probe)" "$name"
    done
    stage probe-graph-no-overlap 10 "$(program probe)" --no-overlap graph
    stage probe-carveout 10 "$(program probe)" carveout
    stage probe-no-carveout 10 "$(program probe)" --no-carveout carveout
    stage probe-upload 10 "$(program probe)" upload
}

golden() {
    "$bin/gpu_golden$suffix" tests/gpu/golden_bytes.txt
}

check() {
    local name
    begin_part
    export -f facts golden
    stage facts 30 bash -euc facts
    for name in capture zero order columns wgmma launch; do
        stage "probe-$name" 10 "$(program probe)" "$name"
    done
    rates
    start golden 60 bash -euc golden
    start streams 10 "$(program streams)"
    start sample 60 "$(program sample)"
    start rows 30 "$(program rows)"
    start recurrent 30 "$(program recurrent)"
    for name in "${products[@]}" pages; do
        start "$name" 90 "$(program "$name")"
    done
    start attention 90 "$(program attention)"
    start forward 120 "$(program forward)" ${dry:+'graph*'}
    start hybrid 60 "$(program hybrid)"
    finish
    for name in sample rows recurrent "${products[@]}" pages attention; do
        [[ $dry ]] || ! command -v compute-sanitizer >/dev/null || passed "$name" ||
            start "again-$name" 100 compute-sanitizer --tool memcheck --error-exitcode 1 "$(program "$name")"
    done
    finish
    # These plan with the memory that is free: one after the other.
    stage oracle 120 env SHEAF_ORACLE="$([[ $dry ]] && echo few || echo all)" python3 tests/e2e/run.py oracle --sheaf "$sheaf"
    stage e2e 120 python3 tests/e2e/run.py gpu --sheaf "$sheaf" ${dry:+--only trace}
}

write_bench() { # [TYPE...]: a line as soon as it is known
    "$bin/gpu_bench$suffix" ${dry:+--tiny} "$@" | tee "$out/bench.csv"
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
    for tool in memcheck racecheck synccheck; do
        command=(compute-sanitizer --tool "$tool" --error-exitcode 1)
        [[ ! $dry ]] || command=(env)
        for name in sample rows recurrent forward attention "${products[@]}"; do
            chosen=()
            [[ $name != forward ]] || chosen=('graph*')
            stage "$tool-$name" 140 "${command[@]}" "$(program "$name")" "${chosen[@]}"
        done
    done
}

# A greedy draw is the same in spite of small differences, and one among all tokens of random weights ranks them all.
make_jobs() {
    python3 - "$large" "${STEPS:-128}" >"$work/jobs.jsonl" <<'PYTHON'
import json, sys
n, steps = int(sys.argv[1]), int(sys.argv[2])
for i in range(n):
    print(json.dumps({"prompt": f"{i}" + " the" * (512 - steps // 2 if steps > 32 else 20), "max_tokens": steps, "ignore_eos": True,
                      "temperature": 0.8, "top_k": 40, "seed": i}))
PYTHON
    head -n "$batch" "$work/jobs.jsonl" >"$work/batch.jsonl"
    python3 - >"$work/short.jsonl" <<'PYTHON'
import json
print(json.dumps({"prompt": "the" * 20, "max_tokens": 16, "ignore_eos": True, "temperature": 0}))
PYTHON
}

run_jobs() { # JOBS ANSWERS BATCH OPTION...
    "$sheaf" run "$1" -o "$2" --store "$2.db" --model "$model" --backend cuda --max-batch "$3" "${@:4}"
}

trace() {
    run_jobs "$work/batch.jsonl" "$work/answers.jsonl" "$batch" --trace-steps "$out/trace.jsonl" --overwrite
}

# A job a line of ONE is the line FIRST + i of OTHERS: the same answers.
compare_answers() { # ONE OTHERS FIRST
    python3 - "$@" <<'PYTHON'
import json, sys
def choices(path):
    return [json.loads(line)["response"]["body"]["choices"] for line in open(path, encoding="utf-8")]
one, others, first = choices(sys.argv[1]), choices(sys.argv[2]), int(sys.argv[3]) - 1
differ = [first + i + 1 for i, choice in enumerate(one) if choice != others[first + i]]
print(f"{len(one)} answers from line {first + 1} on: " + (f"lines {differ} differ" if differ else "the same"))
for line in differ[:2]:
    print(one[line - first - 1], others[line - 1], sep="\n")
sys.exit(bool(differ) or not one)
PYTHON
}

# The batch's jobs among more.
among() {
    run_jobs "$work/jobs.jsonl" "$work/among.jsonl" "$large"
    compare_answers "$work/answers.jsonl" "$work/among.jsonl" 1
}

# Three jobs of the batch, computed one after the other by one process.
alone() {
    sed -n "1p;$((batch / 2))p;${batch}p" "$work/jobs.jsonl" >"$work/three.jsonl"
    sed -n "1p;$((batch / 2))p;${batch}p" "$work/answers.jsonl" >"$work/answers-three.jsonl"
    run_jobs "$work/three.jsonl" "$work/alone.jsonl" 1
    compare_answers "$work/alone.jsonl" "$work/answers-three.jsonl" 1
}

# Each step's logits beside the CPU's.
beside_cpu() {
    run_jobs "$work/short.jsonl" "$work/beside.jsonl" 1 --check-cpu 1
}

# Starts to make one of Llama-3-8B's shape, if none is named or there already.
start_model() {
    [[ -z $model ]] || return 0
    model=${TMPDIR:-/tmp}/llama3-8b-q4_k_m.gguf
    [[ -s $model ]] || start model 240 bash -euc "python3 '$shared/tools/make_model.py' '$model.part' --type q4_k_m --shape llama3-8b \
        --vocab '$shared/vocab/llama-bpe.gguf' && mv '$model.part' '$model'"
}

# Jobs of a BF16 model of Llama-3.2-1B's shape: among others and alone.
bf16() {
    model=$bf16_model
    run_jobs "$work/batch.jsonl" "$work/bf16.jsonl" "$batch"
    sed -n "1p;${batch}p" "$work/batch.jsonl" >"$work/two.jsonl"
    sed -n "1p;${batch}p" "$work/bf16.jsonl" >"$work/bf16-two.jsonl"
    run_jobs "$work/two.jsonl" "$work/bf16-alone.jsonl" 1
    compare_answers "$work/bf16-alone.jsonl" "$work/bf16-two.jsonl" 1
}

start_bf16_model() {
    bf16_model=${TMPDIR:-/tmp}/llama3.2-1b-bf16.gguf
    export bf16_model
    if [[ $dry ]]; then
        bf16_model=$model
    elif [[ ! -s $bf16_model ]]; then
        start model-bf16 120 bash -euc "python3 '$shared/tools/make_model.py' '$bf16_model.part' --type bf16 --shape llama3.2-1b \
            --vocab '$shared/vocab/llama-bpe.gguf' && mv '$bf16_model.part' '$bf16_model'"
    fi
}

prepare_jobs() {
    make_jobs
    export model
    export -f trace among alone bf16 beside_cpu run_jobs compare_answers
}

stage_bench() { # NAME SECONDS OPTION...
    stage "$1" "$2" "$sheaf" bench "$model" --backend cuda --json "${@:3}"
}

# One process loads the model once for all of them, then computes sequences of each batch alone. If it did not end, each by itself.
stage_settings() { # SECONDS [OPTION...]
    stage_bench settings "$1" --max-rows 8192 --alone ${SETTINGS:---settings 480+64@1/64/256,1024+1@8,128+128@256} "${@:2}"
    passed settings || ! wanted settings || {
        stage_decode 60
        stage_prefill 30
        stage_saturated 25
    }
}

stage_decode() { # SECONDS
    stage_bench decode "$1" ${DECODE:---prompt 480 --generate 64 --batch 1,64,256}
}

stage_prefill() { # SECONDS
    stage_bench prefill "$1" ${PREFILL:---prompt 1024 --generate 1 --batch 8 --max-rows 8192}
}

stage_saturated() { # SECONDS
    stage_bench saturated "$1" ${SATURATED:---prompt 128 --generate 128 --batch 256}
}

# Launches of gpu_bench, which are known and need little memory: what bounds each, and where its warps wait, by instruction.
stage_ncu() { # SECONDS
    [[ ! $dry ]] && command -v ncu >/dev/null || return 0
    stage ncu "$1" bash -euo pipefail -c 'ncu --clock-control none --kernel-name "regex:gemm_|decode|norm_" --set none --section SpeedOfLight \
        --section WarpStateStats --section SchedulerStats --section MemoryWorkloadAnalysis --section SourceCounters --launch-count 60 \
        -f -o "$out/ncu" "$bin/gpu_bench$suffix" --once q4_k && ncu --import "$out/ncu.ncu-rep" --page source --csv --print-source sass >"$out/sass.csv"'
}

write_goals() {
    python3 tests/gpu/gpu_goals.py "$work" "$out" "$batch"
}

measure() {
    begin_part
    start_model
    finish
    prepare_jobs
    stage_settings 330
    stage trace 120 bash -euc trace
    stage among 120 bash -euc among
    stage alone 90 bash -euc alone
    stage beside-cpu 90 bash -euc beside_cpu
    stage_ncu 100
    write_goals || n_failed=$((n_failed + 1))
}

# The two parts for a device that is lent for a quarter of an hour. Their goals.csv has what each of them measures. The first asks whether
# all programs run right while the model is made, then for the rates and the times of every tile, which the next changes are made from.
first() {
    local name
    begin_part 320
    export dry
    export -f facts golden write_bench
    stage facts 12 bash -euc facts
    start_model
    start golden 60 bash -euc golden
    start streams 10 "$(program streams)"
    start sample 60 "$(program sample)"
    start rows 30 "$(program rows)"
    start recurrent 30 "$(program recurrent)"
    for name in "${products[@]}" pages; do
        start "$name" 60 "$(program "$name")"
    done
    start attention 60 "$(program attention)"
    finish
    rates
    stage bench 90 bash -euo pipefail -c 'write_bench "$@"' write_bench q4_k q6_k bf16
    stage_ncu 50
    prepare_jobs
    stage_settings 130 --trace-steps "$out/trace.jsonl"
    passed settings || stage trace 40 bash -euc trace
    write_goals || true
}

# AGAIN: programs that failed in the first call, by name; they run again under memcheck.
second() {
    local name
    begin_part 320
    export dry
    export -f write_bench
    start_model
    start_bf16_model
    for name in ${AGAIN:-}; do
        [[ $dry ]] || ! command -v compute-sanitizer >/dev/null ||
            start "again-$name" 100 compute-sanitizer --tool memcheck --error-exitcode 1 "$(program "$name")"
    done
    start hybrid 60 "$(program hybrid)"
    start forward 90 "$(program forward)" ${dry:+'graph*'}
    finish
    for name in product_tiles products; do
        [[ $dry ]] || ! command -v compute-sanitizer >/dev/null ||
            start "racecheck-$name" 60 compute-sanitizer --tool racecheck --error-exitcode 1 "$(program "$name")"
    done
    finish
    stage bench 60 bash -euo pipefail -c 'write_bench "$@"' write_bench q8_0 q5_k f16 q4_0
    prepare_jobs
    stage trace 40 bash -euc trace
    stage alone 30 bash -euc alone
    stage among 40 bash -euc among
    stage bf16 40 bash -euc bf16
    for name in no-wgmma no-overlap no-carveout; do
        stage_bench "decode-$name" 20 ${DECODE:---prompt 480 --generate 64 --batch 64} "--$name"
    done
    stage_bench decode-by-rows 20 ${DECODE:---prompt 480 --generate 64 --batch 64} --tiles by-rows
    stage beside-cpu 30 bash -euc beside_cpu
    stage faults 30 "$(program faults)"
    write_goals || true
}

if [[ $what == pack ]]; then
    make_pack
    exit
fi
find_programs
touch "$out/stages.csv"
export sheaf bin suffix work out model batch large
case $what in
all)
    check
    bench
    measure
    sanitize
    faults
    ;;
first | second | check | bench | measure | sanitize | faults)
    "$what"
    ;;
*)
    echo "expected pack, first, second, check, bench, measure, sanitize, faults or all, got $what" >&2
    exit 2
    ;;
esac
for file in "$out"/log.txt "$out"/trace.jsonl; do
    [[ -e $file ]] && (($(stat -c %s "$file") > file_bytes_max)) || continue
    tail -c "$file_bytes_max" "$file" >"$work/tail" && cp "$work/tail" "$file"
done
((n_failed == 0)) || { echo "$n_failed failed"; exit 1; }
