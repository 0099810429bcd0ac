"""ops/flaky, with programs in place of the tests: cases that do not always pass are listed, and no process is left stopped or running."""
import json
import os
import subprocess
import sys

from session import DEADLINE_S, case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_with(test, **programs):
    """A build folder whose tests are these shell scripts, in suite e2e."""
    tests = []
    for name, script in programs.items():
        test.write(f"{name}.sh", [script])
        tests.append({"name": f"e2e_{name}", "cmd": ["sh", test.path(f"{name}.sh")], "env": {"COUNT": test.path(f"{name}.count")},
                      "suite": ["sheaf:e2e"], "workdir": None, "timeout": 60})
    os.makedirs(test.path("meson-info"), exist_ok=True)
    test.write("meson-info/intro-tests.json", [tests])
    return test.folder


def flaky(test, *options):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "ops", "flaky"), "--build", test.folder, "--load", "1", "--seed", "1", *options],
                          capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    return done.returncode, done.stdout.splitlines()


def has_ended(pid):
    """A zombie counts as ended: in a container whose first process reaps no children, it stays."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True


@case
def a_case_that_fails_in_one_of_two_rounds_is_flaky_and_both_outputs_are_kept(test):
    build_with(test, odd='echo x >>$COUNT; echo 1..2; echo "ok 1 - steady"\n'
                         'if [ $(wc -l <$COUNT) = 1 ]; then echo "not ok 2 - odd one"; exit 1; fi; echo "ok 2 - odd one"',
               bad='echo 1..1; echo "not ok 1 - bad"; exit 1', cut='echo 1..2; echo "ok 1 - first"')
    status, lines = flaky(test, "--rounds", "2", "--stop-max", "0")
    assert status == 1 and lines[-1] == "2 passed, 3 failed", lines
    assert lines[-4:-1] == ["FAILED  e2e_bad: bad: 2 of 2 rounds", "FAILED  e2e_cut: the program: 2 of 2 rounds",
                            "flaky   e2e_odd: odd one: 1 of 2 rounds"], lines
    assert b"not ok 2" in test.read("flaky/e2e_odd.failed-in-1.txt") and b"\nok 2" in test.read("flaky/e2e_odd.passed.txt")


@case
def a_program_that_leaves_a_process_fails_and_the_process_is_ended(test):
    build_with(test, leaves="setsid sleep 1000 & echo $! >$COUNT; echo 1..1; echo ok 1 - all")
    status, lines = flaky(test, "--rounds", "1", "--stop-max", "0")
    assert status == 1 and "left 1 processes running" in lines[1] and lines[-1] == "1 passed, 1 failed", lines
    pid = int(test.read("leaves.count"))
    test.wait_until("its end", lambda: has_ended(pid))


@case
def a_program_that_is_stopped_goes_on_to_its_end(test):
    build_with(test, works="i=0; while [ $i -lt 150 ]; do sleep 0.02; i=$((i + 1)); done; echo 1..1; echo ok 1 - all", other="exit 1")
    status, lines = flaky(test, "--rounds", "1", "--stop-max", "0.2", "--stop-every", "0.1", "works")
    assert status == 0 and lines[-1] == "1 passed, 0 failed", lines
    assert int(lines[1].split()[1]) > 0, lines  # stops


@case
def a_name_that_no_program_has_is_refused_and_help_says_the_usage(test):
    build_with(test, one="echo ok 1 - one")
    assert flaky(test, "absent")[0] == 1
    status, lines = flaky(test, "--help")
    assert status == 0 and lines[0].startswith("usage: ops/flaky "), lines
