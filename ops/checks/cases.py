"""The cases of a `meson test` run, read from its testlog.json.

A test program lists its cases in TAP (cmocka does with CMOCKA_MESSAGE_OUTPUT=TAP) or ends with a line "N passed, N failed, N
skipped". A program that lists none is one case itself. A program that crashed, ran out of time or failed without naming a
case counts as one more failed case.
"""
import json
import os
import re
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TAP_CASE = re.compile(r"^(ok|not ok)\b\s*\d*\s*-?\s*([^#\n]*)(#\s*SKIP\b.*)?", re.M | re.I)
TAP_PLAN = re.compile(r"^1\.\.(\d+)", re.M)
TOTALS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)
SKIPPED_STATUS = 77  # of a program that was skipped entirely
LINES_KEPT = 30  # of the output of a program that failed

# Failures that are not retried: wrong at any speed of the machine.
FINAL = [
    ("sanitizer report", re.compile(r"ERROR: (?:Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:")),
    ("failed assertion of the program", re.compile(r"Assertion .* failed\.")),
    ("crash", re.compile(r"Test failed with exception|\bexit -(?:4|6|7|8|11) after ")),
    ("unequal bytes", re.compile(r"bytes of 0x[0-9a-f]+ and 0x[0-9a-f]+ differ")),
]
# Asserts that failed: in a test program of C the place, in an end-to-end suite the line.
C_PLACE = re.compile(r"(tests/[\w./]+\.c):(\d+): error: Failure!")
PYTHON_ASSERT = re.compile(r'File "[^"]+", line \d+, in \w+\n# +(assert [^\n]*)\n(?:# +[~^ ]+\n)?# AssertionError')
RESULTS = re.compile(r"result|record|answer|comparable|\.read\(|sha256")  # an assert with these words checks the results of jobs
CRASHES = {-4: "SIGILL", -6: "SIGABRT", -7: "SIGBUS", -8: "SIGFPE", -11: "SIGSEGV"}


class Failure(NamedTuple):
    program: str
    case: str | None  # None: the entire program
    reason: str
    final: str | None  # why the case is not retried
    output: str

    def __str__(self):
        return f"{self.program}: {self.case.replace('_', ' ') if self.case else self.reason}"


class Program(NamedTuple):
    name: str
    passed: int
    failed: int
    skipped: int
    skips: list  # texts
    failures: list
    seconds: float


def read_log(path):
    """The programs of a testlog.json, in the order in which they ended."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [read_program(json.loads(line)) for line in file]


def read_program(test):
    out, name = test.get("stdout") or "", test["name"].split(" / ")[-1].split(":")[-1]
    output = out + (test.get("stderr") or "")
    passed = skipped = 0
    skips, failed = [], []
    totals = TOTALS.findall(out)
    if totals:
        passed, n_failed, skipped = (int(count or 0) for count in totals[-1])
        failed = [line[len("FAILED  "):] for line in out.splitlines() if line.startswith("FAILED  ")][:n_failed]
        failed += ["a case without a name"] * (n_failed - len(failed))
        skips += [line[len("skipped "):] for line in out.splitlines() if line.startswith("skipped ")]
        if skipped and not skips:
            skips.append(f"{name}: {skipped} cases")
    else:
        for result, case, skip in TAP_CASE.findall(out):
            if skip:
                skipped += 1
                skips.append(f"{name}: {case.strip().replace('_', ' ')} {skip.strip('# ')}")
            elif result == "ok":
                passed += 1
            else:
                failed.append(case.strip())
    final = final_fault(test["returncode"], output)
    failures = [Failure(name, None if totals else case, case, final, last_lines(output)) for case in failed]
    n_planned = 0 if totals else sum(map(int, TAP_PLAN.findall(out)))
    if n_planned > passed + len(failed) + skipped:
        failures.append(Failure(name, None, f"ended after {passed + len(failed) + skipped} of {n_planned} cases", final, last_lines(output)))
    good = test["returncode"] == 0 or (test["returncode"] == SKIPPED_STATUS and not failures)
    if not failures and (not good or test["result"] in ("TIMEOUT", "INTERRUPT", "ERROR", "FAIL")):
        failures.append(Failure(name, None, f"{test['result'].lower()}, exit status {test['returncode']}", final, last_lines(output)))
    elif passed + len(failures) + skipped == 0:
        passed, skipped = (1, 0) if test["result"] == "OK" else (0, 1)
        if skipped:
            skips.append(f"{name}: {reason_of_skip(out)}")
    return Program(name, passed, len(failures), skipped, skips, failures, float(test.get("duration") or 0))


def final_fault(status, output):
    if status in CRASHES:
        return f"crash ({CRASHES[status]})"
    found = next((what for what, pattern in FINAL if pattern.search(output)), None)
    return found or next(("wrong results" for line in failed_asserts(output) if RESULTS.search(line)), None)


def failed_asserts(output):
    """Source lines of the asserts that failed."""
    lines = [line for line in PYTHON_ASSERT.findall(output) if "deadline" not in line]  # session.wait_until: a wait that did not end
    for path, number in C_PLACE.findall(output):
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                lines += file.read().splitlines()[int(number) - 1:int(number)]
        except FileNotFoundError:
            pass
    return lines


def last_lines(output):
    """The end of a program's output without the cases that passed."""
    return "\n".join([line for line in output.splitlines() if not re.match(r"ok\b", line)][-LINES_KEPT:])


def reason_of_skip(out):
    return next((line.strip() for line in reversed(out.splitlines()) if line.strip()), "skipped")
