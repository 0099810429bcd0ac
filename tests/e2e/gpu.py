"""The whole program with --backend cuda: over the emulated device, and over a real one if present.

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
import recurrent
import tools
from session import DONE, Skip, case, error_of, is_wide, text_of, varied_jobs

N_JOBS = 12 if is_wide() else 10
STOPPED = [i for i in (4, 7, 11) if i < N_JOBS]
REFERENCE = {}


def jobs():
    """Jobs of every kind, with stop strings, and two that fail."""
    listed = varied_jobs(N_JOBS)
    for job in listed:
        job["max_tokens"] = 2 + job["max_tokens"] // 4
    for i in STOPPED:
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
    """A short run and sanitizers use the first jobs only; the others reach no other code."""
    expected = reference(test)
    if test.is_sanitized() or not is_wide():
        test.write("in.jsonl", jobs()[:7])
        expected = b"".join(expected.splitlines(keepends=True)[:7])
    on_gpu(test, "in.jsonl", "out.jsonl", *options)
    assert test.comparable() == expected


@case
def every_line_has_its_answer_and_faulty_ones_their_errors(test):
    lines = reference(test).splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == N_JOBS
    codes = {i: error_of(answer)["code"] for i, answer in enumerate(answers) if error_of(answer)}
    assert codes == {5: "invalid_encoding", 9: "context_length_exceeded"}, codes
    for i in STOPPED:
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
def measured_tiles_of_products_give_the_same_bytes(test):
    same_as_reference(test, "--tiles", "measured", "--max-rows", "64", "--max-batch", "8")
    refused = test.run_file("in.jsonl", "x.jsonl", "--backend", "cuda", "--tiles", "wide", status=2)
    assert "--tiles: expected measured, by-rows or a file with a dot or a slash in its name" in refused.err, refused


@case
def tiles_in_a_file_are_measured_once_and_give_the_same_bytes(test):
    """A second run measures nothing; what the file has for another device, or that a product cannot use, is measured again."""
    test.write("in.jsonl", [dict(job, max_tokens=2) for job in jobs()[:4]])
    on_gpu(test, "in.jsonl", "expected.jsonl", "--tiles", "by-rows")

    def run():
        output = f"{len(os.listdir(test.folder))}.jsonl"
        finished = on_gpu(test, "in.jsonl", output, "--tiles", "kept.tiles", "--max-rows", "64", "--max-batch", "8")
        assert test.comparable(output) == test.comparable("expected.jsonl")
        return finished.err, len(re.findall(r"tiles: \w+ \d+ x \d+ (?:plain|gated), up to", finished.err)), test.read("kept.tiles").decode()

    err, n_measured, kept = run()
    lines = kept.splitlines()
    if lines[0] != "sheaf tiles 1" or n_measured == 0:
        raise Skip("the device has no tiles to choose")
    assert lines[1].startswith("device ") and len(lines) == 2 + n_measured, kept
    assert f"tiles: measured {n_measured} matrix products of up to 64 rows in " in err, err
    err, n_again, same = run()
    assert n_again == 0 and same == kept and f"tiles: {n_measured} choices from kept.tiles" in err, err
    test.write("kept.tiles", [lines[0], "device old " + lines[1], *lines[2:]])
    err, n_again, _ = run()
    assert n_again == n_measured and "kept.tiles is of another device or driver, this is " in err, err
    unusable = [re.sub(r"rows: [0-9x]+(?: divided)?,", "rows: 192x128 divided,", line) for line in lines[2:]]
    test.write("kept.tiles", lines[:2] + unusable)
    _, n_again, _ = run()
    assert n_again == n_measured
    test.write("kept.tiles", [{}])
    assert "expected a file of tiles" in test.run_file("in.jsonl", "x.jsonl", "--backend", "cuda", "--tiles", "kept.tiles", status=1).err
    assert test.read("kept.tiles") == b"{}\n"


@case
def launches_one_after_the_other_give_the_same_bytes(test):
    same_as_reference(test, "--no-overlap")


@case
def each_kernel_s_own_carveout_of_shared_memory_gives_the_same_bytes(test):
    same_as_reference(test, "--no-carveout")


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
    for i in (0, 7, 10) if is_wide() else (0, 7):
        test.write("one.jsonl", [jobs()[i]])
        on_gpu(test, "one.jsonl", f"alone-{i}.jsonl")
        alone = test.comparable(f"alone-{i}.jsonl").strip().replace(b"run-1", f"run-{i + 1}".encode())
        assert alone == among[i], (alone, among[i])


@case
def recurrent_states_and_their_snapshots_give_the_bytes_of_each_job_alone(test):
    """Branches of a prefix tree at any token, in full batches, planned ahead or not, with sequences preempted."""
    check_recurrent(test, recurrent.write(test), {"alone": ["--max-batch", "1"], "together": ["--max-batch", "8"],
                                                   "not ahead": ["--max-batch", "5", "--max-rows", "19", "--no-ahead", "--no-graphs"],
                                                   "few pages": ["--max-batch", "8", "--kv-memory", "100K"]})


@case
def states_of_device_and_cpu_and_their_snapshots_give_the_bytes_of_each_job_alone(test):
    """Each placement is its own reference. Of four layers the last has attention, the others a state."""
    folder = recurrent.write(test)
    for placement in ("layers:2", "attention-cpu:3", "experts:1") if is_wide() else ("layers:2", "experts:1"):
        err = check_recurrent(test, folder, {name: ["--placement", placement, *options] for name, options in (
            ("alone", ["--max-batch", "1"]), ("together", ["--max-batch", "8"]),
            ("few pages", ["--max-batch", "8", "--max-rows", "19", "--kv-memory", "100K"]))}, placement[:2])
        assert re.search(rf"placement: .* \(--placement {placement}\)", err), err
        assert placement == "experts:1" or re.search("of 4 layers on the GPU with .* MB of recurrent states ", err), err


def check_recurrent(test, folder, ways, outputs=""):
    """Some jobs alone and all of them in each other way: the same answers. What the last run said."""
    jobs = [{**job, "max_tokens": 6 if is_wide() else 3} for job in recurrent.tree_of_jobs()[0][:10 if is_wide() else 6]]
    answers = {}
    for name, options in ways.items():
        answers[name] = {}
        for batch in ([[job] for job in jobs[1::3]] if name == "alone" else [jobs]):
            test.write("in.jsonl", batch)
            output = f"{outputs}{name}-{len(answers[name])}.jsonl"
            finished = test.run("run", "in.jsonl", "-o", output, "--model", folder, "--backend", "cuda", *options, status=None)
            if "built without CUDA" in finished.err or "looking for devices" in finished.err:
                raise Skip("there is no GPU")
            assert finished.status == 0, finished
            for answer in test.answers(output):
                answers[name][answer["custom_id"]] = answer["response"]["body"]["choices"]
    together = answers.pop("together")
    assert all(other[key] == together[key] for other in answers.values() for key in other), answers
    prefill, saved = test.query("SELECT sum(prefill_tokens), sum(tokens_saved) FROM workers", f"{outputs}together-0.jsonl.db")[0]
    assert saved > prefill, (prefill, saved)
    return finished.err


@case
def submit_work_and_collect_give_the_answers_of_run(test):
    expected = reference(test)
    test.run("submit", "in.jsonl", "--dataset", "run")
    err = test.run("work", "--model", test.model, "--backend", "cuda", "--exit-when-idle", "0").err
    assert "GPU 0: " in err and " on cuda:0 " in err, err
    test.run("collect", "--dataset", "run", "-o", "out.jsonl")
    assert test.comparable() == expected


@case
def drafts_are_refused_on_the_command_line_and_of_no_effect_in_a_file_of_all_hosts(test):
    expected = reference(test)
    with open(test.path("fleet.conf"), "w", encoding="ascii") as file:
        file.write("speculate = 4\n")
    on_gpu(test, "in.jsonl", "out.jsonl", "--config", "fleet.conf")
    assert test.comparable() == expected
    refused = test.run_file("in.jsonl", "x.jsonl", "--backend", "cuda", "--speculate", "4", status=2)
    assert "--speculate 4: expected a CPU" in refused.err, refused


@case
def a_worker_on_each_of_two_gpus_shares_the_jobs_of_one_store(test):
    expected = reference(test)
    refused = test.run("work", "--model", test.model, "--backend", "cuda", "--gpu", "2", "--exit-when-idle", "0", status=None)
    if "built without CUDA" in refused.err or "looking for devices" in refused.err:
        raise Skip("there is no GPU")
    if "there are 2" not in refused.err:
        raise Skip(f"not two GPUs: {refused.err}")
    assert refused.status != 0, refused
    options = ["--model", test.model, "--backend", "cuda", "--max-batch", "1", "--window", "1"]
    workers = [test.start("work", *options, "--gpu", str(gpu)) for gpu in (0, 1)]
    test.wait_until("both workers are ready", lambda: os.path.exists(test.path("sheaf.db")) and
                    test.query("SELECT count(*) FROM workers") == [(2,)])
    test.run("submit", "in.jsonl", "--dataset", "run")
    test.wait_until("all jobs are done", lambda: test.query("SELECT count(*) FROM results") == [(N_JOBS,)])
    for gpu, worker in enumerate(workers):
        worker.send_signal(signal.SIGTERM)
        err = test.wait(worker).err
        assert f"GPU {gpu}: " in err and f" on cuda:{gpu} " in err, err
    named = test.query("SELECT backend, prefill_tokens FROM workers ORDER BY backend")
    assert [name.split(" ")[0] for name, _ in named] == ["cuda:0", "cuda:1"] and all(tokens > 0 for _, tokens in named), named
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
def a_result_names_the_capability_and_the_placement_that_it_was_computed_with(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 1}])
    named = {}
    for placement in ("device", "layers:1"):
        on_gpu(test, "in.jsonl", f"{placement}.jsonl", "--placement", placement)
        named[placement] = test.answers(f"{placement}.jsonl")[0]["response"]["body"]["system_fingerprint"]
        expected = rf"sheaf=\d+ model=[0-9a-f]{{16}} backend=cuda-sm\d+ kv-type=f16 placement={placement}"
        assert re.fullmatch(expected, named[placement]), named
    other = named["device"].replace("cuda-sm", "cuda-sm1")
    refused = test.run_file("in.jsonl", "out.jsonl", "--backend", "cuda", "--require-arithmetic", other, status=2)
    assert "this worker has backend=cuda-sm" in refused.err, refused
    on_gpu(test, "in.jsonl", "out.jsonl", "--require-arithmetic", named["device"])


@case
def experts_on_the_cpu_are_named_and_their_pages_may_have_bytes(test):
    folder = recurrent.write(test)
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    finished = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", folder, "--backend", "cuda", "--placement", "experts:0",
                        "--kv-type", "q8_0", status=None)
    if "built without CUDA" in finished.err or "looking for devices" in finished.err:
        raise Skip("there is no GPU")
    assert "the experts of 4 of 4 layers on the CPU with" in finished.err, finished
    name = test.answers("out.jsonl")[0]["response"]["body"]["system_fingerprint"]
    assert name.endswith("kv-type=q8_0 placement=experts:0"), name
    for placement, expected in (("experts", "--placement experts: family llama has no experts"), ("experts:-1", "--placement: expected auto"),
                                ("experts:", "--placement: expected auto"), ("layers:0", "--placement: expected auto")):
        refused = test.run_file("in.jsonl", "x.jsonl", "--backend", "cuda", "--placement", placement, status=2)
        assert expected in refused.err, refused


@case
def a_trace_tells_each_step_s_times_and_changes_no_byte(test):
    expected = reference(test)
    on_gpu(test, "in.jsonl", "out.jsonl", "--trace-steps", "trace.jsonl")
    assert test.comparable() == expected
    steps = [json.loads(line) for line in test.read("trace.jsonl").splitlines()]
    assert len(steps) > 5  # longest answer, of which the grammar forces a part
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
    several = test.run("bench", test.model, "--backend", "cuda", "--settings", "20+3@1/4,9+5@6", "--max-rows", "16", "--alone", "--repeat", "1", "--json")
    assert [(one["prompt"], one["generate"], one["batch"]) for one in json.loads(several.out)] == [(20, 3, 1), (20, 3, 4), (9, 5, 6)]
    assert re.findall(r"batch (\d+): (\d) sequences alone have the same tokens and logprobs", several.err) == [("1", "1"), ("4", "3"), ("6", "3")], several


@case
def the_script_for_a_day_with_a_gpu_measures_every_goal(test):
    """Its second half with small sizes: the goals' lines are there, each with what was measured."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = dict(test.environment, SHEAF=test.sheaf, BATCH="4", STEPS="12", LARGE="7", SETTINGS="--settings 8+2@1/4,16+1@8,4+4@4 --repeat 1")
    finished = subprocess.run(["bash", os.path.join(root, "tests", "gpu", "gpu_device.sh"), "measure", test.path("out"), test.model],
                              env=environment, capture_output=True, text=True, timeout=400)
    if "built without CUDA" in finished.stdout or "looking for devices" in finished.stdout:
        raise Skip("there is no GPU")
    with open(test.path("out/goals.csv"), encoding="utf-8", newline="") as file:
        goals = {row["what"]: row for row in csv.DictReader(file)}
    measured = {what: float(row["measured"]) for what, row in goals.items() if row["measured"]}
    assert set(measured) == {"decode tokens/s, batch 1", "decode tokens/s, batch 4", "tokens/s, 128 in and 128 out",
                             "prefill tokens/s, batch 8", "% of a step not on the device, batch 4"}, finished.stdout
    assert all(value > 0 for value in measured.values()), measured
    # 64 rows were not requested, and the script says so.
    assert goals["decode tokens/s, batch 64"]["measured"] == "" and finished.returncode == 1, finished.stdout
    with open(test.path("out/stages.csv"), encoding="utf-8") as file:
        assert [line.split(",")[:2] for line in file] == [[stage, "passed"] for stage in ("settings", "trace", "among", "alone", "beside-cpu")]
    log = test.read("out/log.txt").decode()
    assert log.count("alone have the same tokens and logprobs") == 4, log
    assert sorted(os.listdir(test.path("out"))) == ["goals.csv", "log.txt", "phases.csv", "stages.csv", "trace.jsonl"]


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/usr/bin/env bash\n" + text)  # a plain sh drops exported functions
    os.chmod(path, 0o755)


@case
def the_script_for_a_day_with_a_gpu_abandons_what_hangs_and_ends_with_the_faults(test):
    """A dry run of its first half; the programs are scripts: one fails, one cannot be stopped, one skips."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.makedirs(test.path("build/tests/gpu"))
    for name, text in {"golden": "echo golden of $1", "sample": "echo drawn", "rows": "echo broken; exit 3", "products": "echo '# SKIP'",
                       "attention": "exit 77", "forward": "sleep 1000 & wait", "hybrid": "echo both", "bench": "echo what,type; echo product,q4_k",
                       "faults": "echo lost"}.items():
        write_program(test.path(f"build/tests/gpu/gpu_{name}"), text + "\n")
    # Pretends that killed processes stay alive, like a process that hangs in the driver.
    os.makedirs(test.path("hanging"))
    write_program(test.path("hanging/timeout"), 'case "$*" in *gpu_forward*) trap "" TERM; while [ -d "$HANGS" ]; do sleep 0.2; done ;; *) exec /usr/bin/timeout "$@" ;; esac\n')
    environment = dict(test.environment, SHEAF=test.sheaf, BUILD=test.path("build"), DRY="1", LIMIT_forward="1", HANGS=test.path("hanging"),
                       PATH=test.path("hanging") + ":" + os.environ["PATH"], TMPDIR=test.path("hanging"),
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


FAKE_SHEAF = """case "$1" in
bench) echo '{"batch": 64, "prompt": 480, "generate": 64, "decode_tokens_per_second": 5, "prefill_tokens_per_second": 7}'
    [[ $* != *--settings* || ! $ENDLESS ]] || sleep 1000 ;;
run) while [[ $1 != *.jsonl ]]; do shift; done
    while read -r line; do printf '{"response": {"body": {"choices": [%s]}}}\\n' "$line"; done <"$1" >"$3" ;;
esac
"""


@case
def the_script_for_a_quarter_of_an_hour_with_a_gpu_begins_with_what_matters_most(test):
    """Dry runs of its two parts; the programs are scripts, and one bench does not end."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.makedirs(test.path("build/tests/gpu"))
    products = ["products", "product_tiles", "product_gates", "product_experts", "pages"]
    for name in ("probe", "golden", "streams", "sample", "rows", "recurrent", *products, "attention", "hybrid", "forward", "bench", "faults"):
        write_program(test.path(f"build/tests/gpu/gpu_{name}"), "echo $1\n")
    write_program(test.path("sheaf"), FAKE_SHEAF)
    test.write("model", "")
    environment = dict(test.environment, SHEAF=test.path("sheaf"), BUILD=test.path("build"), DRY="1", LIMIT_settings="1", ENDLESS="1", BATCH="4", STEPS="12",
                       LARGE="7")
    expected = {
        "first": (["facts", "golden", "streams", "sample", "rows", "recurrent", *products, "attention", "probe-memory", "probe-cache", "probe-products",
                   "probe-graph", "probe-graph-no-overlap", "probe-carveout", "probe-no-carveout", "probe-upload", "bench", "settings", "decode", "prefill",
                   "saturated", "trace"], {"settings": "more than 1 s"}),
        "second": (["hybrid", "forward", "bench", "trace", "alone", "among", "bf16", "decode-no-wgmma", "decode-no-overlap", "decode-no-carveout", "decode-by-rows",
                    "beside-cpu", "faults"], {}),
    }
    for part, (stages, endings) in expected.items():
        for late in (False, True):
            out = f"{part}-{late}"
            finished = subprocess.run(["bash", os.path.join(root, "tests", "gpu", "gpu_device.sh"), part, test.path(out), test.path("model")],
                                      env=environment | ({"PART_S": "0"} if late else {}), capture_output=True, text=True, timeout=400)
            with open(test.path(f"{out}/stages.csv"), encoding="utf-8") as file:
                ended = [line.split(",")[:2] for line in file]
            wanted = {stage: "no time left" if late else endings.get(stage, "passed") for stage in stages}
            assert dict(ended) == wanted and len(ended) == len(stages), (ended, finished)
            together = {"golden", "streams", "sample", "rows", "recurrent", *products, "attention", "hybrid", "forward"} | {stage for stage in stages if stage.startswith("probe")}
            assert [stage for stage, _ in ended if stage not in together] == [stage for stage in stages if stage not in together], ended
            assert finished.returncode == (1 if late or endings else 0), finished
            with open(test.path(f"{out}/goals.csv"), encoding="utf-8", newline="") as file:
                goals = {row["what"]: row["measured"] for row in csv.DictReader(file)}
            assert goals["decode tokens/s, batch 64"] == ("5.0" if part == "first" and not late else ""), goals
            assert len(os.listdir(test.path(out))) <= 8


@case
def the_script_for_a_day_with_a_gpu_marks_times_of_a_shared_device(test):
    """A program hangs and is abandoned: what is measured after it says so, in a later call too, until the program has ended."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    os.makedirs(test.path("build/tests/gpu"))
    write_program(test.path("build/tests/gpu/gpu_golden"), "true\n")
    write_program(test.path("build/tests/gpu/gpu_probe"), "echo $1\n")
    write_program(test.path("build/tests/gpu/gpu_bench"), 'rmdir "$HANGS"; while kill -0 "$(cut -d " " -f 2 "$TMPDIR/sheaf-gpu-hanging")"; do sleep 0.1; done\n')
    write_program(test.path("sheaf"), FAKE_SHEAF)
    os.makedirs(test.path("hangs"))
    os.makedirs(test.path("bin"))
    # As a program that hangs in the driver: nobody sees it die.
    write_program(test.path("bin/timeout"), 'case "$*" in *golden*) trap "" TERM; while [[ -d $HANGS ]]; do sleep 0.1; done ;; *) exec /usr/bin/timeout "$@" ;; esac\n')
    test.write("model", "")
    environment = dict(test.environment, SHEAF=test.path("sheaf"), BUILD=test.path("build"), DRY="1", LIMIT_golden="1", ENDLESS="", HANGS=test.path("hangs"),
                       PATH=test.path("bin") + ":" + os.environ["PATH"], TMPDIR=test.path("bin"))
    shared = ["passed", "shared with golden"]
    for out, only, expected in (("out", "facts golden probe-memory", {"facts": ["passed"], "golden": ["abandoned after 1 s"], "probe-memory": shared}),
                                ("later", "probe-cache bench settings", {"probe-cache": shared, "bench": ["passed"], "settings": ["passed"]})):
        finished = subprocess.run(["bash", os.path.join(root, "tests", "gpu", "gpu_device.sh"), "first", test.path(out), test.path("model")],
                                  env=environment | {"ONLY": only}, capture_output=True, text=True, timeout=400)
        with open(test.path(f"{out}/stages.csv"), encoding="utf-8", newline="") as file:
            stages = {row[0]: row[1:2] + row[3:] for row in csv.reader(file)}
        assert stages == expected, (stages, finished)


# Answers are equal on every path through the engine; a placement that changes the arithmetic has its own reference.
@case
def constrained_answers_are_valid_and_the_same_bytes_in_every_way(test):
    kinds = constraints.KINDS[:4]
    test.write("in.jsonl", [dict(kinds[i % 4][0], custom_id=str(i), prompt=text_of(i, 1 + i % 3), temperature=i % 3, seed=i, max_tokens=40)
                            for i in range(8)])
    ways = [[], ["--max-rows", "7", "--max-batch", "3", "--no-graphs"], ["--no-ahead"], ["--max-batch", "1"]]
    for placement, n_ways in (("device", 4 if is_wide() else 2), ("layers:1", 2), ("attention-cpu", 2)):
        expected = None
        for i, options in enumerate(ways[:n_ways]):
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


def mixed_jobs():
    """Constrained, with forced tokens and without, among free ones and ones with bad words; some with several answers and logprobs."""
    listed = []
    for i in range(9):
        job = dict(custom_id=str(i), temperature=i % 3, seed=i, max_tokens=16, **(constraints.KINDS + [({}, str)] * 2)[i % 7][0])
        if i % 7 == 5:
            job.update(min_tokens=9, bad_words=["er", "t"])
        if i % 7 == 6:
            job.update(tools=tools.TOOLS, tool_choice="required", messages=[{"role": "user", "content": text_of(i, 3)}])
        else:
            job.update(prompt=text_of(i, 1 + i % 5), logprobs=i % 3)
        if i % 4 == 1:
            job["n"] = 3
        listed.append(job)
    return listed


@case
def constrained_answers_among_free_ones_are_the_bytes_of_steps_planned_one_after_the_other(test):
    """Ahead, a step is submitted before the masks of its draws are known. Few pages: sequences are preempted."""
    test.write("in.jsonl", mixed_jobs())
    expected = None
    ways = [["--no-ahead"], [], ["--max-rows", "7", "--max-batch", "5", "--kv-memory", "200K"], ["--gpu-sync", "--no-graphs"],
            ["--max-batch", "1"]]
    for i, options in enumerate(ways if is_wide() else ways[:3]):
        on_gpu(test, "in.jsonl", f"{i}.jsonl", "--tool-format", "json", *options)
        got = test.comparable(f"{i}.jsonl")
        assert not [answer for answer in map(json.loads, got.splitlines()) if error_of(answer)], got
        expected = expected or got
        assert got == expected, (options, got, expected)


@case
def a_constrained_sequence_has_a_token_in_every_step_as_a_free_one_has(test):
    """The free ones begin while the constraint compiles, and outlast the others."""
    n_free, n_constrained = 2, 4
    test.write("in.jsonl", [dict(prompt=text_of(i, 3), max_tokens=40, ignore_eos=True) for i in range(n_free)] +
               [dict(prompt=text_of(i, 3), max_tokens=12, guided_regex="[a-z ]{500}") for i in range(n_constrained)])
    on_gpu(test, "in.jsonl", "out.jsonl")
    sizes = [size for size, in test.query("SELECT n_sequences FROM steps ORDER BY id", "out.jsonl.db")]
    full = [i for i, size in enumerate(sizes) if size == n_free + n_constrained]
    assert len(full) > 8 and full[-1] - full[0] < len(full), sizes
