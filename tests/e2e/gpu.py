"""The whole program with --backend cuda: over the emulated device everywhere, and over a real one where there is one.

The promises of answers.py hold there too: a result is the same bytes however it was computed. (They are not the CPU's
bytes: tensor cores round elsewhere.)
"""
import csv
import json
import os
import re
import signal
import subprocess

import constraints
from session import DONE, Skip, case, error_of, text_of, varied_jobs

N_JOBS = 12
REFERENCE = {}


def jobs():
    """Of every kind, with stop strings, and two that fail."""
    listed = varied_jobs(N_JOBS)
    for job in listed:
        job["max_tokens"] = 2 + job["max_tokens"] // 4
    for i in (4, 7, 11):
        listed[i]["stop"] = ["e", "in"]
    listed[5] = "{no json"
    listed[9] = {"custom_id": "line 9", "prompt": text_of(9, 5), "max_tokens": 100000}
    return listed


def on_gpu(test, source, output, *options):
    finished = test.run_file(source, output, "--backend", "cuda", *options, status=None)
    if finished.status not in DONE and ("built without CUDA" in finished.err or "looking for devices" in finished.err):
        raise Skip("there is no GPU")
    assert finished.status in DONE, finished
    return finished


def reference(test):
    """The answers of one plain run, computed once for all cases."""
    test.write("in.jsonl", jobs())
    if not REFERENCE:
        on_gpu(test, "in.jsonl", "reference.jsonl")
        REFERENCE["bytes"] = test.comparable("reference.jsonl")
    return REFERENCE["bytes"]


def same_as_reference(test, *options):
    expected = reference(test)
    on_gpu(test, "in.jsonl", "out.jsonl", *options)
    assert test.comparable() == expected


@case
def every_line_has_its_answer_and_faulty_ones_their_errors(test):
    lines = reference(test).splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == N_JOBS
    codes = {i: error_of(answer)["code"] for i, answer in enumerate(answers) if error_of(answer)}
    assert codes == {5: "invalid_encoding", 9: "context_length_exceeded"}, codes
    for i in (4, 7, 11):
        for choice in answers[i]["response"]["body"]["choices"]:
            text = choice.get("text") or choice.get("message", {}).get("content") or ""
            text = text.removeprefix(jobs()[i]["prompt"] if jobs()[i].get("echo") else "")
            assert "e" not in text and "in" not in text, choice
    reasons = {choice["finish_reason"] for answer in answers if not error_of(answer)
               for choice in answer["response"]["body"]["choices"]}
    assert reasons == {"stop", "length"}, reasons


@case
def kernels_launched_one_by_one_give_the_bytes_of_graphs(test):
    same_as_reference(test, "--no-graphs")


@case
def products_without_wgmma_give_the_same_bytes(test):
    same_as_reference(test, "--no-wgmma")


@case
def launches_one_after_the_other_give_the_same_bytes(test):
    same_as_reference(test, "--no-overlap")


@case
def steps_planned_one_after_the_other_give_the_bytes_of_steps_planned_ahead(test):
    same_as_reference(test, "--no-ahead")


@case
def a_batch_of_one_gives_the_bytes_of_a_full_batch(test):
    same_as_reference(test, "--max-batch", "1")


@case
def few_rows_a_step_and_few_pages_give_the_same_bytes(test):
    same_as_reference(test, "--max-rows", "7", "--max-batch", "5", "--kv-memory", "200K")


@case
def a_job_alone_gives_the_bytes_it_gives_among_all_the_others(test):
    among = reference(test).splitlines()
    for i in (0, 7, 10):
        test.write("one.jsonl", [jobs()[i]])
        on_gpu(test, "one.jsonl", f"alone-{i}.jsonl")
        alone = test.comparable(f"alone-{i}.jsonl").strip().replace(b"run-1", f"run-{i + 1}".encode())
        assert alone == among[i], (alone, among[i])


@case
def submit_work_and_collect_give_the_answers_of_run(test):
    expected = reference(test)
    test.run("submit", "in.jsonl", "--dataset", "run")
    err = test.run("work", "--model", test.model, "--backend", "cuda", "--exit-when-idle", "0").err
    assert "GPU: " in err and " on cuda" in err, err
    test.run("collect", "--dataset", "run", "-o", "out.jsonl")
    assert test.comparable() == expected


@case
def a_run_that_is_killed_and_started_again_gives_the_same_bytes(test):
    expected = reference(test)
    options = ["--backend", "cuda", "--max-batch", "2", "--window", "4"]
    for attempt in range(10):
        run = test.start("run", "in.jsonl", "-o", f"{attempt}.jsonl", "--model", test.model, *options)
        store = f"{attempt}.jsonl.db"
        test.wait_until("some jobs are done, or all", lambda: run.poll() is not None or
                        test.query("SELECT count(*) FROM results", store) > [(2,)])
        run.send_signal(signal.SIGKILL)
        if test.wait(run).status == -signal.SIGKILL and test.query("SELECT count(*) FROM queue", store) > [(0,)]:
            break
    else:
        raise Skip("the runs end before they are killed")
    on_gpu(test, "in.jsonl", f"{attempt}.jsonl")
    assert test.comparable(f"{attempt}.jsonl") == expected
    assert test.query("SELECT count(*), count(DISTINCT job_id) FROM jobs", store) == [(N_JOBS, N_JOBS)]
    assert test.query("SELECT count(*) FROM results", store) == [(N_JOBS,)]


@case
def a_trace_tells_each_step_s_times_and_changes_no_byte(test):
    same_as_reference(test, "--trace-steps", "trace.jsonl")
    steps = [json.loads(line) for line in test.read("trace.jsonl").splitlines()]
    assert len(steps) > 10
    for step in steps:
        assert step["products_us"] > 0 and step["attention_us"] > 0, step
    answers = [json.loads(line) for line in REFERENCE["bytes"].splitlines()]
    n_choices = sum(len(answer["response"]["body"]["choices"]) for answer in answers if not error_of(answer))
    assert sum(step["first_tokens"] for step in steps) == n_choices


@case
def each_step_that_is_checked_against_the_cpu_is_reported(test):
    """The model's answers are far enough from ties that both devices draw the same tokens."""
    test.write("in.jsonl", [{"prompt": text_of(i, 9), "max_tokens": 6, "temperature": 0, "ignore_eos": True} for i in range(3)])
    plain = on_gpu(test, "in.jsonl", "plain.jsonl")
    assert "check-cpu" not in plain.err, plain
    for every in (1, 3):
        finished = on_gpu(test, "in.jsonl", f"{every}.jsonl", "--check-cpu", f"{every}")
        steps = [int(step) for step in re.findall(r"check-cpu: step (\d+): logits are up to", finished.err)]
        n_checked, n_steps = map(int, re.search(r"check-cpu: (\d+) of (\d+) steps: ", finished.err).groups())
        assert n_steps >= 6 and n_checked == (n_steps + every - 1) // every, finished
        assert steps and steps == sorted(set(steps)), finished  # the first one, and each that is worse
        assert " tokens differ" in finished.err, finished
        assert test.comparable(f"{every}.jsonl") == test.comparable("plain.jsonl")


@case
def bench_measures_on_the_gpu(test):
    finished = test.run("bench", test.model, "--backend", "cuda", "--prompt", "20", "--generate", "3", "--batch", "1,4",
                        "--repeat", "1", "--json", status=None)
    if "built without CUDA" in finished.err or "looking for devices" in finished.err:
        raise Skip("there is no GPU")
    assert finished.status == 0 and "on cuda" in finished.err, finished
    measured = json.loads(finished.out)
    assert [one["batch"] for one in measured] == [1, 4]
    assert all(one["prefill_tokens_per_second"] > 0 and one["decode_tokens_per_second"] > 0 for one in measured)


@case
def the_script_for_a_day_with_a_gpu_measures_every_goal(test):
    """Its second half with small sizes: the goals' lines are there, each with what was measured."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = dict(test.environment, SHEAF=test.sheaf, BATCH="4", STEPS="12", DECODE="--prompt 8 --generate 2 --batch 1,4 --repeat 1",
                       PREFILL="--prompt 16 --generate 1 --batch 8 --repeat 1")
    finished = subprocess.run(["bash", os.path.join(root, "tests", "gpu", "gpu_device.sh"), "measure", test.folder, test.model],
                              env=environment, capture_output=True, text=True, timeout=400)
    if "built without CUDA" in finished.stdout or "looking for devices" in finished.stdout:
        raise Skip("there is no GPU")
    with open(test.path("goals.csv"), encoding="utf-8", newline="") as file:
        goals = {row["what"]: row for row in csv.DictReader(file)}
    measured = {what: float(row["measured"]) for what, row in goals.items() if row["measured"]}
    assert set(measured) == {"decode tokens/s, batch 1", "decode tokens/s, batch 4", "prefill tokens/s, batch 8",
                             "% of a step not on the device, batch 4"}, finished.stdout
    assert all(value > 0 for value in measured.values()), measured
    # 64 and 256 rows were not asked for, which the script says.
    assert goals["decode tokens/s, batch 64"]["measured"] == "" and finished.returncode == 1, finished.stdout
    with open(test.path("stages.csv"), encoding="utf-8") as file:
        assert [line.split(",")[:2] for line in file] == [["decode", "passed"], ["prefill", "passed"], ["trace", "passed"],
                                                           ["alone", "passed"]]


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/usr/bin/env bash\n" + text)  # a plain sh drops exported functions
    os.chmod(path, 0o755)


@case
def the_script_for_a_day_with_a_gpu_abandons_what_hangs_and_ends_with_the_faults(test):
    """A dry run of its first half; the programs are scripts: one fails, one cannot be stopped, one skips."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.makedirs(test.path("build/tests"))
    for name, text in {"golden": "echo golden of $1", "sample": "echo drawn", "rows": "echo broken; exit 3", "products": "echo '# SKIP'",
                       "attention": "exit 77", "forward": "sleep 1000 & wait", "hybrid": "echo both", "bench": "echo what,type; echo product,q4_k",
                       "faults": "echo lost"}.items():
        write_program(test.path(f"build/tests/gpu_{name}"), text + "\n")
    # Whoever is killed here is not seen to die: as one that hangs in the driver.
    os.makedirs(test.path("hanging"))
    write_program(test.path("hanging/timeout"), 'case "$*" in *gpu_forward*) trap "" TERM; while [ -d "$HANGS" ]; do sleep 0.2; done ;; *) exec /usr/bin/timeout "$@" ;; esac\n')
    environment = dict(test.environment, SHEAF=test.sheaf, BUILD=test.path("build"), DRY="1", LIMIT_forward="1", HANGS=test.path("hanging"),
                       PATH=test.path("hanging") + ":" + os.environ["PATH"],
                       ONLY="facts golden sample rows products attention forward hybrid bench faults")
    stages = {}
    for part in ("check", "bench", "faults"):
        finished = subprocess.run(["bash", os.path.join(root, "tests", "gpu", "gpu_device.sh"), part, test.path("out")],
                                  env=environment, capture_output=True, text=True, timeout=400)
        assert finished.returncode == (part == "check"), finished
    with open(test.path("out/stages.csv"), encoding="utf-8") as file:
        stages = dict(line.split(",")[:2] for line in file)
    assert stages == {"facts": "passed", "golden": "passed", "sample": "passed", "rows": "exit 3", "products": "skipped",
                      "attention": "no device", "hybrid": "passed", "forward": "abandoned after 1 s", "bench": "passed",
                      "faults": "passed"}, stages
    assert list(stages)[0] == "facts" and list(stages)[-3:] == ["forward", "bench", "faults"], stages
    assert test.read("out/bench.csv").split() == [b"what,type", b"product,q4_k"]
    log = test.read("out/log.txt").decode()
    assert "golden of tests/gpu/golden_bytes.txt" in log and "broken" in log and "lost" in log, log
    assert sorted(os.listdir(test.path("out"))) == ["bench.csv", "log.txt", "stages.csv"]


# The answers hold on every way through the engine; where the placement changes the arithmetic, each is its own reference.
@case
def constrained_answers_are_valid_and_the_same_bytes_in_every_way(test):
    kinds = constraints.KINDS[:4]
    test.write("in.jsonl", [dict(kinds[i % 4][0], custom_id=str(i), prompt=text_of(i, 1 + i % 3), temperature=i % 3, seed=i, max_tokens=40)
                            for i in range(8)])
    for placement in ("device", "layers:1", "attention-cpu"):
        expected = None
        for i, options in enumerate(([], ["--no-ahead"], ["--max-batch", "1"], ["--max-rows", "7", "--max-batch", "3", "--no-graphs"])):
            output = f"{placement}-{i}.jsonl"
            on_gpu(test, "in.jsonl", output, "--placement", placement, *options)
            answers = [json.loads(line) for line in test.comparable(output).splitlines()]
            for answer in answers:
                choice = constraints.text_of(answer)
                if choice["finish_reason"] == "stop":
                    kinds[int(answer["custom_id"]) % 4][1](choice["text"])
            (forced,), = test.query("SELECT sum(forced_tokens) FROM jobs", f"{output}.db")
            assert forced > 30, forced
            got = [(answer["custom_id"], constraints.text_of(answer), answer["response"]["body"]["usage"]) for answer in answers], forced
            expected = expected or got
            assert got == expected, (placement, options, got, expected)
