#!/usr/bin/env python3
"""Builds and runs the test programs of a build folder. Called by ops/test, which has the usage.

Programs are meson's tests. A build of some programs makes only their targets. A case that fails is run once more, alone, after
everything else has ended (second_chance); where the environment has SHEAF_CHECKS, the folder of a run with several stages
(stages.py), that is left to the end of all stages.
"""
import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import threading

import cases

ROOT = cases.ROOT
NIGHT = "night"  # the suite that ops/nightly runs
FLAKY_MAX = 2  # a run with more flaky cases fails
POLL_S = 0.5


def read_options(arguments):
    parser = argparse.ArgumentParser(prog="ops/test", usage="""ops/test [--build DIR] [--setup "MESON OPTIONS"] [--suite SUITE]... [--not-suite SUITE]... [--label TEXT]
                [--timeout-multiplier N] [--list] [NAME[:CASE]]...""")
    parser.add_argument("--build", default="build", metavar="DIR")
    parser.add_argument("--setup", default="", metavar="OPTIONS", help="meson options of a folder that is not set up yet")
    parser.add_argument("--suite", action="append", default=[], help="only programs of these suites, and of those that NAMEs add")
    parser.add_argument("--not-suite", action="append", default=[])
    parser.add_argument("--label", help="name of this run in the report; default: DIR")
    parser.add_argument("--timeout-multiplier", default="1")
    parser.add_argument("--list", action="store_true", help="print the names of the programs and end")
    parser.add_argument("names", nargs="*", metavar="NAME")
    # argparse takes a value that begins with "-" only after "=".
    joined = []
    for argument in arguments:
        if joined and joined[-1] == "--setup":
            joined[-1] += "=" + argument
        else:
            joined.append(argument)
    return parser.parse_args(joined)


# ---- which programs ----

def read_programs(build):
    """{name: {suites, cmd, depends}} of all of meson's tests in a build folder."""
    with open(os.path.join(build, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        tests = json.load(file)
    return {test["name"]: {"suites": [suite.split(":")[-1] for suite in test["suite"]], "cmd": test["cmd"], "depends": test["depends"]}
            for test in tests}


def program_path(name, program):
    return "/".join(program["suites"][:1] + [name])


def find_named(programs, name):
    """Programs that a NAME selects: the program of that name, with or without its kind (unit_job, job), else those in whose
    suite/name all words of NAME between slashes occur."""
    exact = [known for known in programs if known == name or known.partition("_")[2] == name]
    words = name.split("/")
    found = exact or [known for known in programs if all(word in program_path(known, programs[known]) for word in words)]
    if not found:
        near = difflib.get_close_matches(words[-1], list(programs), n=3, cutoff=0.4)
        sys.exit(f"ops/test: no program is named {name}" + (f"; nearest: {', '.join(near)}" if near else ""))
    return found


def select(programs, options):
    """[names] to run and the pattern of their cases, or None for all cases."""
    pattern = None
    chosen = {name for name, program in programs.items() if set(program["suites"]) & set(options.suite)}
    for argument in options.names:
        name, _, case = argument.partition(":")
        chosen.update(find_named(programs, name))
        pattern = case or pattern
    if not options.suite and not options.names:
        chosen = set(programs)
    left_out = set(options.not_suite)
    if NIGHT not in options.suite and not options.names:
        left_out.add(NIGHT)
    return [name for name in programs if name in chosen and not set(programs[name]["suites"]) & left_out], pattern


def targets_of(build, programs, names, everything):
    """Files to build for these programs: theirs and those they depend on; with `everything`, what else is built by default. (ninja's
    "all" has the programs of every test, those of the suite "night" too.)"""
    with open(os.path.join(build, "meson-info", "intro-targets.json"), encoding="utf-8") as file:
        targets = json.load(file)
    outputs = {target["id"]: target["filename"] for target in targets}
    folder = os.path.abspath(build) + os.sep
    files = set()
    for name in names:
        files.update(word for word in programs[name]["cmd"] if word.startswith(folder))
        for target in programs[name]["depends"]:
            files.update(outputs[target])
    built = {file for known in outputs.values() for file in known}
    files &= built
    for target in targets:
        if everything and target["build_by_default"]:
            files.update(target["filename"])
    return sorted(os.path.relpath(file, build) for file in files)


# ---- running ----

def meson_test(build, names, environment, log, *arguments):
    """Runs programs; returns meson's exit status. testlog.json is `log`."""
    path = os.path.join(build, "meson-logs", log + ".json")
    if os.path.exists(path):
        os.remove(path)
    command = ["meson", "test", "-C", build, "--no-rebuild", "--logbase", log, *arguments, *names]
    with open(os.path.join(build, "meson-logs", log + ".out"), "w", encoding="utf-8") as out:
        return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False).returncode


class Progress:
    """Reads the log while it grows: on a terminal prints a line of finished and remaining programs, elsewhere each failure at once."""

    def __init__(self, build, n_programs):
        self.path, self.n_programs, self.n_done, self.n_failed = os.path.join(build, "meson-logs", "testlog.json"), n_programs, 0, 0
        self.place, self.partial, self.ended = 0, "", threading.Event()
        self.thread = threading.Thread(target=self.follow)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def follow(self):
        while not self.ended.wait(POLL_S):
            self.read()
        self.read()
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def read(self):
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                file.seek(self.place)
                text = self.partial + file.read()
                self.place = file.tell()
        except FileNotFoundError:
            return
        *lines, self.partial = text.split("\n")
        for line in lines:
            self.n_done += 1
            for failure in cases.read_program(json.loads(line)).failures:
                self.n_failed += 1
                self.say(f"failed: {failure}\n")
        self.say("")

    def say(self, text):
        if sys.stderr.isatty():
            state = f"{self.n_done} of {self.n_programs} programs, {self.n_programs - self.n_done} left, {self.n_failed} cases failed"
            print(f"\r\033[K{text}{state}", end="", file=sys.stderr, flush=True)
        elif text:
            print(text, end="", file=sys.stderr, flush=True)


def test_environment(pattern=None):
    # Programs that talk to brokers mostly wait: three more at a time than there are processors.
    environment = {"MESON_TESTTHREADS": str((os.cpu_count() or 1) + 3)} | os.environ | {"CMOCKA_MESSAGE_OUTPUT": "TAP"}
    return environment | ({"SHEAF_TEST_CASES": pattern} if pattern else {})


def run_again(build, failure):
    """Runs one failed case, or its program, alone. Returns its second failure or None."""
    pattern = re.sub(r"[\[\]]", "?", failure.case) if failure.case else None
    meson_test(build, [failure.program], test_environment(pattern), "again", "--timeout-multiplier", "4", "--num-processes", "1")
    again = [second for program in cases.read_log(os.path.join(build, "meson-logs", "again.json")) for second in program.failures]
    return again[0] if again else None


def second_chance(failed):
    """Runs the failed cases of a run again: [(label, build, failure)]. Returns (failed for good, flaky), texts with outputs kept."""
    lost, flaky = [], []
    may = [entry for entry in failed if not entry[2].final]
    for label, build, failure in failed:
        again = None
        if failure.final:
            reason = f"no second chance: {failure.final}"
        elif len(may) > FLAKY_MAX:
            reason = f"not run again: more than {FLAKY_MAX} cases failed"
        else:
            again = run_again(build, failure)
            reason = "failed again, alone" if again else None
        texts = [failure.output] + ([again.output] if again else [])
        (lost if reason else flaky).append((label, failure, reason, keep_outputs(build, failure, texts), texts))
    return lost, flaky


def keep_outputs(build, failure, texts):
    folder = os.path.join(build, "meson-logs", "failed")
    os.makedirs(folder, exist_ok=True)
    stem = os.path.join(folder, re.sub(r"\W+", "_", str(failure))[:100])
    for number, text in enumerate(texts, 1):
        with open(f"{stem}.{number}.txt", "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return f"{stem}.*.txt"


def print_verdicts(lost, flaky):
    """Prints failed and flaky cases with the ends of their outputs. Returns the number of failed cases."""
    for label, failure, reason, path, texts in lost:
        print(f"FAILED  {label}: {failure} ({reason}; {path})")
        for text in texts:
            print("\n".join(f"    | {line}" for line in text.splitlines()))
    for label, failure, _, path, texts in flaky:
        print("\n".join(f"    | {line}" for line in texts[0].splitlines()))
        print(f"flaky: {label}: {failure} (failed, then passed alone; {path})")
    if len(flaky) > FLAKY_MAX:
        print(f"FAILED  {len(flaky)} flaky cases, at most {FLAKY_MAX} are let pass")
    return len(lost) + (len(flaky) if len(flaky) > FLAKY_MAX else 0)


def build_programs(options):
    """Sets the folder up and builds what the names need. Returns (names, pattern, programs)."""
    setup = options.setup.split()
    subprocess.run(["ops/build", "--dir", options.build, "--only", "build.ninja", *setup], check=True)
    programs = read_programs(options.build)
    names, pattern = select(programs, options)
    if not options.list:
        everything = not options.suite and not options.names
        targets = targets_of(options.build, programs, names, everything)
        if targets:
            subprocess.run(["ops/build", "--dir", options.build, "--only", " ".join(targets)], check=True)
    return names, pattern, programs


def main():
    options = read_options(sys.argv[1:])
    os.chdir(ROOT)
    try:
        names, pattern, programs = build_programs(options)
    except subprocess.CalledProcessError as fault:
        return fault.returncode
    if options.list:
        print("\n".join(sorted(program_path(name, programs[name]) for name in names)))
        return 0
    label = options.label or options.build
    with Progress(options.build, len(names)):
        status = meson_test(options.build, names, test_environment(pattern), "testlog", "--timeout-multiplier", options.timeout_multiplier)
    ended = cases.read_log(os.path.join(options.build, "meson-logs", "testlog.json"))
    for text in sorted(skip for program in ended for skip in program.skips):
        print(f"skipped {text}")
    failed = [(label, options.build, failure) for program in ended for failure in program.failures]
    passed, skipped = sum(program.passed for program in ended), sum(program.skipped for program in ended)
    checks = os.environ.get("SHEAF_CHECKS")
    if checks:
        report = {"passed": passed, "skipped": skipped, "failed": [[label, build, failure._asdict()] for label, build, failure in failed],
                  "seconds": {program.name: program.seconds for program in ended}}
        with open(os.path.join(checks, re.sub(r"\W+", "_", label) + ".json"), "w", encoding="utf-8") as file:
            json.dump(report, file)
        for _, _, failure in failed:
            print(f"FAILED  {failure}")
        n_failed = len(failed)
    else:
        lost, flaky = second_chance(failed)
        n_failed = print_verdicts(lost, flaky)
        passed += len(failed) - n_failed
    if len(ended) < len(names):
        print(f"FAILED  meson test: {len(ended)} of {len(names)} programs ended, exit status {status} ({options.build}/meson-logs/testlog.out)")
        n_failed += 1
    print(f"{passed} passed, {n_failed} failed, {skipped} skipped")
    return n_failed > 0


if __name__ == "__main__":
    sys.exit(main())
