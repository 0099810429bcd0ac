#!/usr/bin/env python3
"""The stages of .ci/run, in two lanes: programs that talk to brokers wait in one while the other compiles.

What takes longer than a change may wait is left to ops/nightly (night.py): wide shapes and rounds of the tests, the emulated GPU's
race detector, the address sanitizer over all programs (the gate leaves out goldens, kernels and most end-to-end suites), the thread
sanitizer over all unit programs, 64-bit ARM, optimized CUDA kernels, a bare Debian, a long storm, mutation.
"""
import os
import shutil
import sys
import tempfile

import stages

SANITIZERS = "-Db_lundef=false -Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1"
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "SHEAF_TEST_DEADLINE_S": "300",
}
# Programs with threads; and a suite over each queue.
THREADS = ["unit_pool", "unit_word_cache", "unit_batcher", "unit_batcher_constraints", "unit_worker", "unit_exporter", "unit_engine_thread"]
QUEUES = ["e2e_answers", "e2e_poison"]


def sanitized(name, sanitizers, *arguments, options=""):
    return stages.stage(name, "ops/test", "--build", "build-" + sanitizers.partition(",")[0], "--label", sanitizers, "--setup",
                        f"-Db_sanitize={sanitizers} {SANITIZERS} -Dgpu=disabled {options}", "--timeout-multiplier", "4", *arguments, lane=1)


GATE = [
    stages.stage("ops/test", "ops/test", "--label", "plain", "--setup", "-Dgpu=emulated"),
    stages.stage("storm", "ops/checks/storm", "--seconds", "20", "--kills", "16", "--broker-kills", "1", "--workers", "4", "--datasets", "3", "--jobs", "100"),
    stages.stage("nvcc", "ops/cuda", "--unoptimized"),
    stages.stage("clang", "ops/checks/clang", lane=1),
    sanitized("address and undefined-behavior sanitizers", "address,undefined", "--suite", "unit", "--suite", "fuzz", "--not-suite", "golden", *QUEUES),
    # These programs compute little: unoptimized, their sources compile in a third of the time.
    sanitized("thread sanitizer", "thread", *THREADS, options="-Doptimization=0"),
]


def main():
    folder = tempfile.mkdtemp(prefix="sheaf-checks-")
    run = stages.Run(folder, ENVIRONMENT)
    run.run_lanes(GATE)
    print("\nleft to ops/nightly: races, wide, address, thread, arm, nvcc, bare, storm, mutation")
    status = run.finish()
    if status == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    sys.exit(main())
