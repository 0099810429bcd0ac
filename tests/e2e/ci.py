"""Reports of ops/test, .ci/run and ops/nightly over fake programs; rules for names that no compiler checks."""
import glob
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

from session import Skip, case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASSES = "#!/bin/sh\necho 2 passed, 0 failed, 1 skipped\n"
SUBJECTS_FROM = "38802ab19786f10e041da983461e9a6412a7cf73"  # the subjects of the commits after it are checked
GATE = ["ops/test", "storm", "clang", "address and undefined-behavior sanitizers", "thread sanitizer", "nvcc"]
NIGHT = ["nvcc", "wheel", "storm", "arm", "thread", "races", "wide", "bare", "address", "mutation"]
PROGRAMS = ["build", "bare", "cuda", "format", "install", "storm", "test", "wheel", "checks/clang", "checks/storm", "checks/mutation", "kafka/install", "cross/test"]


def checkout(test, programs=None):
    """A checkout in which each of PROGRAMS prints what is given here, else two passed cases and a skipped one."""
    os.makedirs(test.path(".ci"))
    shutil.copy(os.path.join(ROOT, ".ci", "run"), test.path(".ci/run"))
    for name in ("nightly", "checks/cases.py", "checks/programs.py", "checks/stages.py", "checks/gate.py", "checks/night.py"):
        os.makedirs(os.path.dirname(test.path(f"ops/{name}")), exist_ok=True)
        shutil.copy(os.path.join(ROOT, "ops", name), test.path(f"ops/{name}"))
    for name in PROGRAMS:
        write_program(test, f"ops/{name}", (programs or {}).get(name, PASSES))


def write_program(test, name, text):
    path = test.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(path, 0o755)


def run(test, command=".ci/run", *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHEAF_")}
    environment |= {"PATH": f"{test.path('bin')}:{bare_path(test)}", "TMPDIR": test.folder}
    finished = subprocess.run([test.path(command), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120)
    return finished.returncode, finished.stdout.splitlines()


HIDDEN = re.compile(r"clang|gcc|g\+\+|nvcc|qemu|java|mvn|openssl|cc$|aarch64|debootstrap|sqlite3|kcat|meson|ninja")


def bare_path(test):
    """A PATH without compilers, formatters and other programs that a new Debian lacks."""
    os.makedirs(test.path("bare"), exist_ok=True)
    for folder in ("/bin", "/usr/bin", "/usr/local/bin", os.path.dirname(sys.executable)):
        for name in os.listdir(folder):
            if not HIDDEN.search(name) and not os.path.lexists(test.path(f"bare/{name}")):
                os.symlink(os.path.join(folder, name), test.path(f"bare/{name}"))
    return test.path("bare")


@case
def each_program_of_ops_prints_its_usage_when_asked(test):
    environment = os.environ | {"PATH": bare_path(test)}
    for name in ("bare", "build", "cuda", "demo", "flaky", "format", "install", "judge", "nightly", "package", "soak", "storm", "test", "wheel"):
        done = subprocess.run([os.path.join(ROOT, "ops", name), "--help"], env=environment, capture_output=True, text=True, check=False, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 2) and said.lower().startswith("usage: ") and name in said.split("\n")[0], (name, done)


@case
def each_stage_of_the_checks_is_run_and_summed(test):
    checkout(test)
    for command, names in ((".ci/run", GATE), ("ops/nightly", NIGHT)):
        status, lines = run(test, command)
        assert status == 0, lines
        for name in names:
            assert sum(line.startswith(f"==== {name}: passed") for line in lines) == 1, (name, lines)
        assert lines[-1] == f"{2 * len(names)} passed, 0 failed, {len(names)} skipped", lines


@case
def a_failure_in_either_lane_fails_the_checks(test):
    checkout(test, {"checks/storm": "#!/bin/sh\nexit 1\n", "checks/clang": "#!/bin/sh\necho some warning; exit 1\n"})
    status, lines = run(test)
    assert status == 1 and "some warning" in lines, lines
    for name in ("clang", "storm"):
        assert any(line.startswith(f"==== {name}: FAILED") for line in lines), (name, lines)
    assert lines[-1] == "8 passed, 2 failed, 4 skipped", lines


@case
def a_stage_that_cannot_be_started_fails_and_the_stages_after_it_run(test):
    checkout(test)
    os.remove(test.path("ops/checks/clang"))
    status, lines = run(test)
    assert status == 1, lines
    assert any(line.startswith("==== clang: FAILED") for line in lines) and any(line.startswith("==== thread sanitizer: passed") for line in lines), lines
    assert lines[-1] == "10 passed, 1 failed, 5 skipped", lines


@case
def a_failed_case_of_a_stage_is_counted_once(test):
    checkout(test, {"test": "#!/bin/sh\necho 5 passed, 1 failed, 0 skipped\nexit 1\n"})
    status, lines = run(test)
    assert status == 1, lines
    assert lines[-1] == "21 passed, 3 failed, 3 skipped", lines


@case
def a_night_that_was_stopped_continues_with_the_stages_that_are_left(test):
    checkout(test, {"checks/mutation": "#!/bin/sh\n[ -e repaired ] && echo 1 passed, 0 failed, 0 skipped\n"})
    status, lines = run(test, "ops/nightly", "arm", "mutation")
    assert status == 1 and lines[-1] == "2 passed, 1 failed, 1 skipped", lines
    test.write("repaired", [])
    status, lines = run(test, "ops/nightly")
    assert status == 0 and "==== arm: passed before" in lines and "==== mutation: started" in lines, lines
    status, lines = run(test, "ops/nightly", "--again", "arm")
    assert status == 0 and "==== arm: started" in lines, lines
    status, _ = run(test, "ops/nightly", "moon")
    assert status == 2


# ---- ops/test ----

# A test program of the fake meson below: fails while FILE is there, removes it, and prints what OUTPUT says.
MESON = '''#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "test":
    build = sys.argv[sys.argv.index("-C") + 1]
    log = sys.argv[sys.argv.index("--logbase") + 1]
    with open("programs.json") as file:
        programs = json.load(file)
    names = [name for name in programs if name in sys.argv]
    with open(os.path.join(build, "meson-logs", log + ".json"), "w") as out:
        for name in names:
            program = programs[name]
            failing = os.path.exists(name + ".fails")
            if failing and program.get("once"):
                os.remove(name + ".fails")
            text = program["bad"] if failing else "ok 1 - a_case\\n1..1\\n"
            with open("calls", "a") as calls:
                calls.write(name + " " + os.environ.get("SHEAF_TEST_CASES", "all") + "\\n")
            out.write(json.dumps({"name": name, "stdout": text, "stderr": "", "returncode": program.get("status", 1) if failing else 0,
                                  "result": "FAIL" if failing else "OK", "duration": 1.5}) + "\\n")
'''


def fake_build(test, programs, others=()):
    """ops/test over programs that pass, or fail while NAME.fails is there: {name: {bad, once, status}}."""
    checkout(test, {"build": "#!/bin/sh\n[ -e $2 ] || cp -r build $2\n"})
    shutil.copy(os.path.join(ROOT, "ops", "test"), test.path("ops/test"))
    write_program(test, "bin/meson", MESON)
    os.makedirs(test.path("build/meson-logs"))
    os.makedirs(test.path("build/meson-info"))
    for name in programs:
        test.write(f"{name}.fails", [])
    everything = programs | {"unit_fine": {}, "gpu_wide_races": {"suite": ["sheaf:gpu", "sheaf:night"]}} | {name: {} for name in others}
    test.write("programs.json", [everything])
    test.write("build/meson-info/intro-targets.json", [[]])
    test.write("build/meson-info/intro-tests.json", [[
        {"name": name, "suite": program.get("suite", ["sheaf:" + name.partition("_")[0]]), "cmd": ["/bin/true"], "depends": []}
        for name, program in everything.items()]])


# A wait that did not end.
FAILS = ('#   File "session.py", line 4, in wait_until\n#     assert answered < deadline_s, "an answer"\n#            ^^^^^\n# AssertionError: why\n'
         "not ok 1 - a_case\n1..1\n")


@case
def a_case_that_fails_once_is_flaky_and_passes(test):
    fake_build(test, {"unit_a": {"bad": FAILS, "once": True}, "e2e_b": {"bad": FAILS}})
    status, lines = run(test, "ops/test")
    assert status == 1 and lines[-1] == "2 passed, 1 failed, 0 skipped", lines
    assert any(line.startswith("flaky: build: unit_a: a case ") for line in lines), lines
    assert any(line.startswith("FAILED  build: e2e_b: a case (failed again, alone") for line in lines), lines
    assert test.read("calls").decode().splitlines()[-2:] == ["unit_a a_case", "e2e_b a_case"]
    assert b"# AssertionError: why" in test.read("build/meson-logs/failed/unit_a_a_case.1.txt")
    os.remove(test.path("e2e_b.fails"))
    status, lines = run(test, "ops/test")
    assert status == 0 and lines[-1] == "3 passed, 0 failed, 0 skipped", lines


@case
def more_than_two_flaky_cases_fail_a_run(test):
    fake_build(test, {f"unit_{name}": {"bad": FAILS, "once": True} for name in "abc"})
    status, lines = run(test, "ops/test")
    assert status == 1 and lines[-1] == "1 passed, 3 failed, 0 skipped", lines


@case
def reports_of_sanitizers_crashes_and_wrong_results_have_no_second_chance(test):
    outputs = {"sanitizer report": FAILS + "==1==ERROR: AddressSanitizer: heap-use-after-free", 
               "wrong results": '#   File "a.py", line 4, in a_case\n#     assert test.answers() == []\n#            ^^^^^\n# AssertionError\n' + FAILS,
               "crash": FAILS + "# sheaf run: exit -11 after 2.0 s", "unequal bytes": "# 3 bytes of 0x7ffe and 0x55d0 differ\n" + FAILS,
               "failed assertion": "sheaf: a.c:1: f: Assertion `a' failed.\n" + FAILS}
    fake_build(test, {"unit_a": {"bad": "", "once": True}})
    for why, output in outputs.items():
        test.write("programs.json", [{"unit_a": {"bad": output, "once": True}}])
        test.write("unit_a.fails", [])
        status, lines = run(test, "ops/test", "a")
        assert status == 1 and any(f"no second chance: {why}" in line for line in lines), (why, lines)
    os.makedirs(test.path("tests/kafka"))
    test.write("tests/kafka/a.c", ["", "assert_int_equal(n_results, 2);"])
    test.write("programs.json", [{"unit_a": {"bad": "# ../tests/kafka/a.c:2: error: Failure!\n" + FAILS, "once": True}}])
    test.write("unit_a.fails", [])
    status, lines = run(test, "ops/test", "a")
    assert status == 1 and any("no second chance: wrong results" in line for line in lines), lines
    test.write("programs.json", [{"unit_a": {"bad": "", "once": True, "status": -11}}])
    test.write("unit_a.fails", [])
    status, lines = run(test, "ops/test", "unit/a")
    assert status == 1 and lines[-1] == "0 passed, 1 failed, 0 skipped" and any("crash (SIGSEGV)" in line for line in lines), lines


@case
def the_checks_run_failed_cases_again_when_all_stages_have_ended(test):
    sys.path.insert(0, os.path.join(ROOT, "ops", "checks"))
    import gate
    fake_build(test, {"unit_a": {"bad": FAILS, "once": True}}, gate.THREADS + gate.QUEUES)
    status, lines = run(test)
    # The stage of the address sanitizer runs the same fake programs, but unit_a fails once: in the stage that ends first.
    assert status == 0 and sum(line.startswith("flaky: ") for line in lines) == 1, lines
    assert lines.index("==== seconds of the stages") < next(i for i, line in enumerate(lines) if line.startswith("flaky: ")), lines


@case
def names_select_programs_and_cases(test):
    fake_build(test, {})
    for names, expected in ((["fine"], ["unit_fine all"]), (["unit/fin"], ["unit_fine all"]), (["unit_fine:the_case*"], ["unit_fine the_case*"]),
                            (["--suite", "night"], ["gpu_wide_races all"]), ([], ["unit_fine all"])):
        test.write("calls", [])
        status, lines = run(test, "ops/test", *names)
        assert status == 0, (names, lines)
        assert test.read("calls").decode().splitlines() == expected, names
    status, _ = run(test, "ops/test", "unit_fime")
    assert status == 1


@case
def a_pattern_in_the_environment_selects_cases_of_a_suite(test):
    runner = os.path.join(ROOT, "tests/e2e/run.py")
    test.write("pairs.py", ["import os", "from session import case", "", "",
                            "@case", "def the_first_case(test):", "    assert 'SHEAF_TEST_CASES' not in os.environ", "", "",
                            "@case", "def another_case(test):", "    assert False"])
    for pattern, status, ran in (("the_first*", 0, ["the first case"]), ("another case", 1, ["another case"]), ("no_case", 0, [])):
        environment = os.environ | {"SHEAF_TEST_CASES": pattern, "PYTHONPATH": test.folder}
        done = subprocess.run([sys.executable, runner, "pairs", "--sheaf", test.sheaf], env=environment, capture_output=True, text=True,
                              check=False, timeout=60)
        assert done.returncode == status, (pattern, done)
        assert re.findall(r"^(?:not )?ok \d+ - (.*)$", done.stdout, re.M) == ran, (pattern, done.stdout)


@case
def each_file_of_tests_is_built_and_run(test):
    programs = [path for kind in ("unit", "kernel", "golden", "gpu", "kafka")
                for path in glob.glob(os.path.join(ROOT, "tests", kind, "**", f"{kind}_*.c"), recursive=True)]
    assert len({os.path.basename(path) for path in programs}) == len(programs) > 100, programs
    missing = []
    for path in programs:
        folder, name = os.path.split(path)
        with open(os.path.join(folder, "meson.build"), encoding="utf-8") as file:
            listed = file.read()
        if f"'{name}'" not in listed and f"'{os.path.splitext(name)[0]}'" not in listed:
            missing.append(path)
    assert not missing, missing


def skipped_without(test, command, programs):
    """Runs a test program over a broker with `programs` before others in PATH, and with no Kafka of its own."""
    for name, text in programs.items():
        with open(test.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(test.path(name), 0o755)
    path = f"{test.folder}:{os.environ['PATH']}" if programs else test.folder
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHEAF_")}
    environment |= {"PATH": path, "XDG_CACHE_HOME": test.path("cache"), "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0 and "# SKIP" in done.stdout, (command, done)


@case
def the_lines_that_mutation_leaves_out_are_in_their_files(test):
    loader = importlib.machinery.SourceFileLoader("mutate", os.path.join(ROOT, "ops", "mutate"))
    mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(mutate)
    mutate.check_names(None)


@case
def cases_over_a_broker_are_skipped_where_there_is_no_java_or_no_kafka(test):
    no_kafka = {"java": "#!/bin/sh\n", "mvn": "#!/bin/sh\nexit 1\n"}
    programs = glob.glob(os.path.join(os.path.dirname(test.sheaf), "..", "tests", "kafka", "kafka_*"))
    for program in filter(os.path.isfile, programs):
        skipped_without(test, [program], {})
        skipped_without(test, [program], no_kafka)
    for suite in ("kafka", "security"):
        skipped_without(test, [sys.executable, os.path.join(ROOT, "tests/e2e/run.py"), suite, "--sheaf", test.sheaf], no_kafka)


def git(*arguments):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else None


def faults_of(subject):
    """A subject is "folder/file: what is true now", of one folder or file or several, in at most 72 characters."""
    named = re.fullmatch(r"[\w./{}*-]+(?:, [\w./{}*-]+)*: \S.*[^.\s]", subject)
    return [] if named and len(subject) <= 72 else [subject]


@case
def a_subject_names_a_folder_or_file_in_72_characters(test):
    for subject in ("consumer/queue/kafka: revoked partitions are named", "README, ops/demo-model: the transcript is today's", "a: " + "x" * 69):
        assert not faults_of(subject), subject
    for subject in ("comments end at 110 columns", "gpu and engine: faster", "gpu: ", "gpu:faster", "gpu: faster.", "a: " + "x" * 70):
        assert faults_of(subject), subject
    if not shutil.which("git") or git("cat-file", "-e", SUBJECTS_FROM) is None:
        raise Skip("this is no checkout with the history")
    subjects = git("log", "--no-merges", "--format=%s", f"{SUBJECTS_FROM}..HEAD").splitlines()
    assert not [fault for subject in subjects for fault in faults_of(subject)]


@case
def no_two_tests_share_a_struct_tag_nor_a_test_with_the_program(test):
    found, tag = {}, re.compile(r"^\s*(?:static )?(?:const )?struct (\w+) \{", re.M)
    for path in glob.glob(os.path.join(ROOT, "**", "*.[ch]"), recursive=True):
        name = os.path.relpath(path, ROOT)
        if name.split("/")[0] in ("batching", "consumer", "engine", "gpu", "schemas", "store", "tests"):
            with open(path, encoding="utf-8") as file:
                for struct in set(tag.findall(file.read())):
                    found.setdefault(struct, []).append(name)
    assert len(found) > 500, len(found)
    assert not {tag: names for tag, names in found.items() if len(names) > 1 and any(name.startswith("tests/") for name in names)}


@case
def no_file_of_tests_has_the_stem_of_one_of_the_program(test):
    ours, others = set(), set()
    for path in glob.glob(os.path.join(ROOT, "**", "*.[ch]"), recursive=True):
        folder, stem = os.path.relpath(path, ROOT).split("/")[0], os.path.splitext(os.path.basename(path))[0]
        (others if folder == "tests" else ours if folder in ("batching", "consumer", "engine", "gpu", "schemas", "store") else set()).add(stem)
    assert len(ours) > 300 and len(others) > 100, (len(ours), len(others))
    assert not ours & others, ours & others
