"""Runs the stages of .ci/run and ops/nightly and reports them.

A stage is a command whose last line reads "N passed, N failed, N skipped"; one that breaks without a failed case counts as one
failed case. Stages of one lane run one after another, lanes beside each other. A stage's log is a file of the run's folder; it is
printed if the stage failed. ops/test leaves its failed cases and its programs' seconds in the folder ($SHEAF_CHECKS, programs.py):
the failed cases are run again when all lanes have ended.
"""
import collections
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time

import cases
import programs

N_LONGEST = 10
LOG_LINES_KEPT = 60  # of a failed stage's log, besides its failed cases

Stage = collections.namedtuple("Stage", "name command lane environment")
Outcome = collections.namedtuple("Outcome", "status passed failed skipped seconds log")


def stage(name, *command, lane=0, **environment):
    return Stage(name, list(command), lane, environment)


def read_totals(log, status):
    """(passed, failed, skipped) of a stage's last line."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    totals = cases.TOTALS.fullmatch(lines[-1]) if lines else None
    passed, failed, skipped = (int(count or 0) for count in totals.groups()) if totals else (0, 0, 0)
    return passed, failed if failed or (status == 0 and totals) else 1, skipped


class Run:
    """One run of stages, with their logs and reports in `folder`."""

    def __init__(self, folder, environment):
        self.folder, self.reports_folder, self.lock, self.outcomes = folder, os.path.join(folder, "reports"), threading.Lock(), {}
        self.environment = os.environ | environment | {"SHEAF_CHECKS": self.reports_folder}
        shutil.rmtree(self.reports_folder, ignore_errors=True)
        os.makedirs(self.reports_folder)

    def run_lanes(self, stages):
        lanes = collections.defaultdict(list)
        for each in stages:
            lanes[each.lane].append(each)
        threads = [threading.Thread(target=lambda lane=lane: [self.run_stage(each) for each in lane]) for lane in lanes.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def run_stage(self, each, limit_s=None):
        log, began = os.path.join(self.folder, re.sub(r"\W+", "-", each.name) + ".log"), time.monotonic()
        self.say(f"==== {each.name}: started")
        with open(log, "w", encoding="utf-8") as out:
            status = self.run_command(each, out, limit_s)
        if status is None:
            self.say(f"==== {each.name}: stopped after {limit_s:.0f} s, left unfinished")
            return None
        outcome = Outcome(status, *read_totals(log, status), time.monotonic() - began, log)
        with self.lock:
            self.outcomes[each.name] = outcome
        self.say(self.describe(each.name, outcome))
        return outcome

    def run_command(self, each, out, limit_s):
        """The command's exit status; None: stopped at its limit. One that cannot be started fails like a shell's: 127."""
        try:
            process = subprocess.Popen(each.command, cwd=programs.ROOT, env=self.environment | each.environment, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as fault:
            print(f"FAILED  {each.command[0]}: {fault}", file=out)
            return 127
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            return None

    def describe(self, name, outcome):
        how = "passed" if outcome.status == 0 and not outcome.failed else "FAILED"
        text = f"==== {name}: {how}, {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped, {outcome.seconds:.0f} s"
        with open(outcome.log, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        if how == "passed":
            return "\n".join([line for line in lines if line.startswith("skipped ")] + [text])
        tail = lines[-LOG_LINES_KEPT:]
        return "\n".join([line for line in lines[:-LOG_LINES_KEPT] if line.startswith("FAILED")] + tail + [text])

    def say(self, text):
        with self.lock:
            print(text, flush=True)

    def reports(self):
        """The reports that ops/test wrote, one a stage."""
        for path in sorted(glob.glob(os.path.join(self.reports_folder, "*.json"))):
            with open(path, encoding="utf-8") as file:
                yield json.load(file)

    def finish(self):
        """Prints retries, times and totals. Returns the exit status."""
        seconds, failed = [], []
        for report in self.reports():
            failed += [(label, build, cases.Failure(**failure)) for label, build, failure in report["failed"]]
            seconds += [(spent, name) for name, spent in report["seconds"].items()]
        lost, flaky = programs.second_chance(failed)
        print("\n==== seconds of the stages")
        for name, outcome in self.outcomes.items():
            print(f"{outcome.seconds:8.0f}  {name}")
        print(f"==== seconds of the {N_LONGEST} longest programs")
        for spent, name in sorted(seconds, reverse=True)[:N_LONGEST]:
            print(f"{spent:8.0f}  {name}")
        passed, n_failed, skipped = (sum(getattr(outcome, count) for outcome in self.outcomes.values()) for count in ("passed", "failed", "skipped"))
        # Failures outside ops/test: of other stages, or of a build.
        n_other = n_failed - len(failed)
        for name, outcome in self.outcomes.items():
            if outcome.status != 0:
                print(f"==== failed stage: {name} ({outcome.log})")
        n_lost = programs.print_verdicts(lost, flaky)
        print(f"{passed + len(failed) - n_lost} passed, {n_lost + n_other} failed, {skipped} skipped")
        return int(n_lost + n_other > 0 or not self.outcomes)
