#!/usr/bin/env python3
"""Checks besides .ci/run, in three hours at most.

  ops/nightly                      all stages
  ops/nightly races mutation       some stages
  ops/nightly --list               the stages

A run that was stopped, or whose time is over, continues with the stages that are left when it is called again for the same commit;
--again starts over. The report of a stage stays in build-night/. The last line is "N passed, N failed, N skipped".
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import gate
import stages

FOLDER = "build-night"
LIMIT_S = 3 * 3600
BARE = os.environ.get("SHEAF_BARE", "/var/tmp/sheaf-bare")  # a debootstrap's folder, kept: its packages are the cache


def address(*arguments):
    return ["ops/test", "--build", "build-night-address", "--label", "night-address", "--setup",
            f"-Db_sanitize=address,undefined {gate.SANITIZERS} -Dgpu=emulated", "--timeout-multiplier", "6", *arguments]


def thread(*arguments):
    return ["ops/test", "--build", "build-night-thread", "--label", "night-thread", "--setup",
            f"-Db_sanitize=thread {gate.SANITIZERS} -Dgpu=disabled", "--timeout-multiplier", "6", *arguments]


# Shortest first: if the time runs out, only long stages are missing.
NIGHT = [
    stages.stage("nvcc", "ops/cuda"),
    stages.stage("wheel", "ops/wheel", "--check"),
    stages.stage("storm", "ops/checks/storm", "--seconds", "300", "--kills", "150", "--broker-kills", "8", "--workers", "6", "--datasets", "12"),
    stages.stage("arm", "ops/cross/test"),
    stages.stage("thread", *thread("--suite", "unit", "--suite", "fuzz", "e2e_answers", "e2e_poison")),
    stages.stage("races", "ops/test", "--label", "races", "--setup", "-Dgpu=emulated", "--suite", "night", "--timeout-multiplier", "4", SHEAF_TEST_WIDE="1"),
    stages.stage("wide", "ops/test", "--label", "wide", "--setup", "-Dgpu=emulated", "--timeout-multiplier", "4", SHEAF_TEST_WIDE="1"),
    stages.stage("bare", "ops/bare", "bookworm", BARE, "ops/demo && ops/test"),
    stages.stage("address", *address()),
    stages.stage("mutation", "ops/checks/mutation"),
]


def commit():
    done = subprocess.run(["git", "-c", "safe.directory=*", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


class State:
    """The stages of this commit that have passed, in a file of the run's folder."""

    def __init__(self, again):
        self.path, self.commit = os.path.join(FOLDER, "passed.json"), commit()
        self.passed = {}
        if again:
            shutil.rmtree(FOLDER, ignore_errors=True)
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                state = json.load(file)
            self.passed = state["passed"] if state["commit"] == self.commit else {}

    def note(self, name, outcome):
        self.passed[name] = outcome._asdict()
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump({"commit": self.commit, "passed": self.passed}, file)
        os.replace(self.path + ".new", self.path)


def main():
    parser = argparse.ArgumentParser(prog="ops/nightly", usage="ops/nightly [--list] [--again] [STAGE]...")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("stages", nargs="*")
    options = parser.parse_args()
    names = [each.name for each in NIGHT]
    if options.list:
        print("\n".join(names))
        return 0
    unknown = [name for name in options.stages if name not in names]
    if unknown:
        parser.error(f"no stage is named {unknown[0]}; there are: {', '.join(names)}")
    wanted = [each for each in NIGHT if not options.stages or each.name in options.stages]
    state, deadline = State(options.again), time.monotonic() + LIMIT_S
    run = stages.Run(os.path.abspath(FOLDER), gate.ENVIRONMENT)
    left = run_stages(run, wanted, state, deadline)
    if left:
        print(f"\nleft for the next call: {', '.join(left)}")
    return run.finish()


def run_stages(run, wanted, state, deadline):
    """Returns the names of the stages that did not end."""
    left = []
    for each in wanted:
        if each.name in state.passed:
            run.outcomes[each.name] = stages.Outcome(**state.passed[each.name])
            print(f"==== {each.name}: passed before", flush=True)
            continue
        rest = deadline - time.monotonic()
        outcome = run.run_stage(each, rest) if rest > 0 else None
        if outcome is None:
            left.append(each.name)
        elif outcome.status == 0 and not outcome.failed:
            state.note(each.name, outcome)
    return left


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    sys.exit(main())
