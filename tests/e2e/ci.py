"""What .ci/run reports, with programs in place of its stages' own; rules for names that no compiler checks."""
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
SUBJECTS_FROM = "38802ab19786f10e041da983461e9a6412a7cf73"  # of the commits behind it the subjects are checked
STAGES = ["clang", "storm", "ops/test", "thread sanitizer", "address and undefined-behavior sanitizers", "64-bit ARM", "nvcc"]


def checkout(test, programs=None):
    """A checkout in which ops/NAME prints what is given here, else two passed cases. nvcc and meson do nothing."""
    scripts = {f"ops/{name}": PASSES for name in ("build", "format", "install", "storm", "summary", "test")}
    scripts |= {"ops/kafka/install": PASSES, "ops/cross/test": PASSES, "bin/meson": PASSES, "bin/nvcc": PASSES}
    scripts |= {f"ops/{name}": text for name, text in (programs or {}).items()}
    for path, text in scripts.items():
        file = test.path(path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(file, 0o755)
    os.makedirs(test.path(".ci"))
    shutil.copy(os.path.join(ROOT, ".ci", "run"), test.path(".ci/run"))


def run(test):
    environment = os.environ | {"PATH": f"{test.path('bin')}:{os.environ['PATH']}"}
    finished = subprocess.run([test.path(".ci/run")], env=environment, capture_output=True, text=True, check=False, timeout=60)
    return finished.returncode, finished.stdout.splitlines()


@case
def each_program_of_ops_prints_its_usage_when_asked(test):
    for name in ("bare", "build", "demo", "format", "install", "judge", "package", "soak", "storm", "summary", "test"):
        done = subprocess.run([os.path.join(ROOT, "ops", name), "--help"], capture_output=True, text=True, check=False, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode in (0, 2) and said.lower().startswith("usage: ") and name in said.split("\n")[0], (name, done)


@case
def each_stage_of_the_checks_is_run_and_summed(test):
    checkout(test)
    status, lines = run(test)
    assert status == 0, lines
    for stage in STAGES:
        assert sum(line.startswith(f"==== {stage}: passed") for line in lines) == 1, (stage, lines)
    # ops/test, both sanitizers, ARM and nvcc print two passed and one skipped case, the others one that passed.
    assert lines[-1] == "12 passed, 0 failed, 5 skipped", lines


@case
def each_file_of_tests_is_built_and_run(test):
    listed = ""
    for path in glob.glob(os.path.join(ROOT, "tests", "**", "meson.build"), recursive=True):
        with open(path, encoding="utf-8") as file:
            listed += file.read()
    programs = [os.path.splitext(os.path.basename(path))[0] for kind in ("unit", "kernel", "golden", "gpu", "kafka")
                for path in glob.glob(os.path.join(ROOT, "tests", kind, f"{kind}_*.c"))]
    assert len(programs) > 100, programs
    missing = [name for name in programs if f"'{name}'" not in listed and f"/{name}.c'" not in listed]
    assert not missing, missing


@case
def each_program_that_the_checks_leave_out_has_a_twin_that_runs(test):
    with open(os.path.join(os.path.dirname(test.sheaf), "..", "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        suites = {program["name"]: {suite.split(":")[-1] for suite in program["suite"]} for program in json.load(file)}
    with open(os.path.join(ROOT, ".ci", "run"), encoding="utf-8") as file:
        left_out = set(re.findall(r"--no-suite (\w+)", file.read()))
    assert left_out == {"scripts", "twin"}, left_out
    twins = {name for name, of in suites.items() if "twin" in of}
    assert all(f"{name}_races" in suites and "twin" not in suites[f"{name}_races"] for name in twins), twins
    assert {name for name, of in suites.items() if "scripts" in of} == {"e2e_ci", "e2e_layers", "e2e_storm_proof", "e2e_toolkit"}, suites


@case
def a_failure_in_either_lane_fails_the_checks(test):
    checkout(test, {"storm": "#!/bin/sh\nexit 1\n", "build": "#!/bin/sh\n[ \"$2\" != build-clang ]\n"})
    status, lines = run(test)
    assert status == 1, lines
    for stage in ("clang", "storm"):
        assert any(line.startswith(f"==== {stage}: FAILED") for line in lines), (stage, lines)
    assert lines[-1] == "10 passed, 2 failed, 5 skipped", lines


@case
def a_failed_case_of_a_stage_is_counted_once(test):
    checkout(test, {"test": "#!/bin/sh\necho 5 passed, 1 failed, 0 skipped\nexit 1\n"})
    status, lines = run(test)
    assert status == 1, lines
    assert lines[-1].split(", ")[1] == "3 failed", lines


def skipped_without(test, command, programs):
    """Runs a test program over a broker with `programs` before others in PATH, and with no Kafka of its own."""
    for name, text in programs.items():
        with open(test.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(test.path(name), 0o755)
    path = f"{test.folder}:{os.environ['PATH']}" if programs else test.folder
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHEAF_")}
    environment |= {"PATH": path, "XDG_CACHE_HOME": test.path("cache"), "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
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
    programs = glob.glob(os.path.join(os.path.dirname(test.sheaf), "..", "tests", "kafka_*"))
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
    for subject in ("consumer/kafka: revoked partitions are named", "README, ops/demo-model: the transcript is today's", "a: " + "x" * 69):
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
