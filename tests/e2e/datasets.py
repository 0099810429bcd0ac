"""Datasets on the embedded queue: shared by several workers, bound to a model, renamed and deleted by commands."""
import json
import os
import re
import resource
import signal
import sqlite3
import struct
import subprocess
import unittest.mock

import tiny_model
from session import SOME_FAILED, Skip, case, error_of, text_of

N_SHARED = 1000


def jobs(n, **more):
    return [dict({"custom_id": f"line {i}", "prompt": f"{i} {text_of(i, 5)}", "max_tokens": 8, "temperature": 0}, **more)
            for i in range(n)]


def submit(test, dataset, lines, *options):
    test.write(f"{dataset}.jsonl", lines)
    test.run("submit", f"{dataset}.jsonl", "--dataset", dataset, *options)


# ---- sharing ----

@case
def three_workers_answer_a_third_of_a_thousand_jobs_each(test):
    workers = [test.start("work", "--model", test.model, "--engine-test", "fixed:200", "--threads", "1") for _ in range(3)]
    test.wait_until("three workers", lambda: test.query("SELECT count(*) FROM workers") == [(3,)])
    submit(test, "d", jobs(N_SHARED))
    test.wait_until("all answers", lambda: test.query("SELECT count(*) FROM results") == [(N_SHARED,)])
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        assert test.wait(worker).status == 0
    shares = [n for (n,) in test.query("SELECT count(*) FROM jobs GROUP BY worker ORDER BY worker")]
    # Equal workers get a third each (unit_claim_limit); a worker without processor time for seconds gets less.
    assert len(shares) == 3 and all(N_SHARED / 5 <= n <= N_SHARED / 2 for n in shares), shares


# ---- one model a dataset ----

def other_model(test):
    tiny_model.write(test.path("other.gguf"), seed=2)
    return test.path("other.gguf")


@case
def answers_of_two_models_are_not_mixed_in_one_dataset(test):
    other = other_model(test)
    submit(test, "d", jobs(20))
    work = ["work", "--exit-when-idle", "0", "--dataset", "d", "--max-tokens", "4"]
    test.run(*work, "--model", test.model)
    submit(test, "d", jobs(30))
    refused = test.run(*work, "--model", other, status=1)
    assert "model " in refused.err and "--force-new" in refused.err, refused
    refused = test.run(*work[:-1], "5", "--model", test.model, status=1)
    assert "max-tokens 5 instead of 4" in refused.err, refused
    assert test.query("SELECT count(*) FROM results") == [(20,)]
    test.run(*work, "--model", test.model, "--threads", "1", "--window", "7", "--kv-memory", "8M", "--max-batch", "3")
    assert test.query("SELECT count(*) FROM results") == [(30,)]
    test.run(*work, "--model", other, "--force-new")
    assert test.query("SELECT count(*), count(DISTINCT worker) FROM jobs WHERE status = 'done'") == [(30, 1)]


@case
def a_finished_run_is_not_another_model_s_answer(test):
    other = other_model(test)
    test.write("in.jsonl", jobs(8))
    test.run_file()
    before = test.comparable()
    test.run_file()
    assert test.comparable() == before
    refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", other, status=1)
    assert "--force-new" in refused.err, refused
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", other, "--force-new")
    assert test.query("SELECT count(*) FROM results", "out.jsonl.db") == [(8,)]
    assert {answer["response"]["body"]["system_fingerprint"] for answer in test.answers()} != {
        json.loads(line)["response"]["body"]["system_fingerprint"] for line in before.splitlines()}


# ---- one arithmetic a fleet ----

@case
def a_worker_of_another_arithmetic_than_required_does_not_start(test):
    submit(test, "d", jobs(6))
    work = ["work", "--exit-when-idle", "0", "--model", test.model]
    refused = test.run(*work, "--require-arithmetic", "backend=cuda-sm90 kv-type=f16", status=2)
    assert "backend=cuda-sm90, this worker has backend=cpu" in refused.err, refused
    refused = test.run(*work, "--require-arithmetic", "no name", status=2)
    assert "NAME=VALUE" in refused.err, refused
    assert test.query("SELECT count(*) FROM results") == [(0,)]
    test.run(*work, "--require-arithmetic", "kv-type=f16 backend=cpu")
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    whole = test.answers()[0]["response"]["body"]["system_fingerprint"]
    assert test.query("SELECT arithmetic FROM datasets") == [(whole,)]
    submit(test, "d", jobs(9))
    refused = test.run(*work, "--require-arithmetic", whole.replace("kv-type=f16", "kv-type=q8_0"), status=2)
    assert "kv-type=q8_0, this worker has kv-type=f16" in refused.err, refused
    refused = test.run(*work, "--require-arithmetic", whole, "--special-in-content", status=2)
    assert "no special-in-content" in refused.err, refused
    test.run(*work, "--require-arithmetic", whole)
    assert test.query("SELECT count(*) FROM results") == [(9,)]


# ---- a model that fails ----

def nan_model(test):
    """NaN norms make all logits NaN."""
    with unittest.mock.patch("tiny_model.weights", lambda rng, rows, columns, kind: struct.pack(
            f"<{columns}f", *[float("nan")] * columns) if kind == tiny_model.F32 else bytes(rows * columns // 32 * 34)):
        tiny_model.write(test.path("nan.gguf"), drawn=tiny_model.drawn_tensors)
    return test.path("nan.gguf")


@case
def a_model_that_fails_every_job_leaves_them_unfinished(test):
    broken = nan_model(test)
    submit(test, "d", jobs(60))
    ended = test.run("work", "--model", broken, "--exit-when-idle", "0", status=1)
    failed, limit = re.search(r"(\d+) jobs failed for the model's reasons .*logits.* the limit is (\d+)", ended.err).groups()
    assert int(limit) == 16 and 16 <= int(failed) <= 60, ended  # answers that ended in one step are counted together
    assert test.query("SELECT count(*) FROM results") == [(0,)]
    assert test.query("SELECT count(*) FROM queue WHERE worker IS NULL") == [(60,)]
    ended = test.run("work", "--model", broken, "--exit-when-idle", "0", "--model-failures", "0", status=SOME_FAILED)
    assert "60 jobs failed: exit status 3; the same command with --retry-failed asks again\n" in ended.err, ended
    assert test.query("SELECT count(*) FROM jobs WHERE error_code = 'logits_nan'") == [(60,)]
    test.run("work", "--model", test.model, "--exit-when-idle", "0", "--retry-failed")
    assert test.query("SELECT n_done, n_failed FROM datasets") == [(60, 0)]


@case
def fewer_jobs_than_the_limit_fail_with_exit_status_3_and_are_tried_again(test):
    broken = nan_model(test)
    test.write("in.jsonl", jobs(3) + [{"prompt": text_of(0, 999)}])  # which no worker with this model answers
    ended = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", broken, status=SOME_FAILED)
    assert "4 jobs failed: exit status 3; the same command with --retry-failed asks again for those that may succeed" in ended.err, ended
    again = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--retry-failed", status=SOME_FAILED)
    assert again.err.endswith("1 job failed: exit status 3\n"), again
    assert [error_of(answer) is None for answer in test.answers()] == [True] * 3 + [False]


# ---- upkeep ----

@case
def datasets_are_listed_renamed_reopened_and_deleted(test):
    submit(test, "a", jobs(3) + [{"prompt": 5}])
    submit(test, "b", jobs(2))
    ended = test.run("work", "--model", test.model, "--dataset", "a", "--exit-when-idle", "0", status=SOME_FAILED)
    assert ended.err.endswith("1 job failed: exit status 3\n"), ended
    rows = {row["dataset"]: row for row in json.loads(test.run("dataset", "list", "--json").out)["datasets"]}
    assert rows["a"]["state"] == "finished" and rows["a"]["failed"] == 1 and rows["a"]["model"] == "tiny", rows
    assert rows["b"]["state"] == "waiting" and rows["b"]["model"] is None, rows
    assert "waiting" in test.run("dataset", "list").out
    test.run("dataset", "rename", "a", "c")
    test.run("dataset", "reopen", "c")
    assert test.query("SELECT n_submitted, n_done, n_failed FROM datasets WHERE dataset = 'c'") == [(4, 3, 0)]
    worker = test.start("work", "--model", test.model, "--dataset", "b", "--engine-test", "fixed:10000")
    test.wait_until("a running job", lambda: test.query("SELECT count(*) FROM queue WHERE worker IS NOT NULL") == [(2,)])
    refused = test.run("dataset", "delete", "--dataset", "b", status=1)
    assert "--force" in refused.err, refused
    test.run("dataset", "delete", "b", "--force")
    worker.kill()
    test.wait(worker)
    assert test.query("SELECT dataset, count(*) FROM jobs GROUP BY 1") == [("c", 4)]
    for wrong in (["dataset", "list", "a"], ["dataset", "rename", "a"], ["dataset", "lose", "a"], ["dataset"]):
        test.run(*wrong, status=2)
    test.run("dataset", "delete", "nobody", status=1)


@case
def a_run_touches_no_other_dataset_whatever_its_name(test):
    test.write("in.jsonl", jobs(4))
    names = ["run", "run~before", "run~before" + "~" * 118]
    for name in names:
        test.run_file("in.jsonl", f"{len(name)}.jsonl", "--store", "s.db", "--dataset", name)
    for lines in (jobs(4), jobs(3), jobs(3)):
        test.write("in.jsonl", lines)
        test.run_file("in.jsonl", "3.jsonl", "--store", "s.db")
        assert test.query("SELECT dataset, n_done, (SELECT count(*) FROM jobs WHERE jobs.dataset = d.dataset) FROM datasets d ORDER BY 1", "s.db") == [
            (name, *[len(lines) if name == "run" else 4] * 2) for name in names]


@case
def answers_put_aside_by_an_edit_follow_their_dataset(test):
    test.write("in.jsonl", jobs(4))
    test.run_file("in.jsonl", "out.jsonl", "--store", "s.db")
    test.write("in.jsonl", jobs(2) + jobs(4, max_tokens=9)[2:] + jobs(300)[100:])
    process = test.start("run", "in.jsonl", "-o", "out.jsonl", "--store", "s.db", "--model", test.model, "--engine-test", "fixed:50", "--max-batch", "1")
    test.wait_until("the edit", lambda: test.query("SELECT n_submitted FROM datasets", "s.db") == [(204,)])
    process.kill()
    test.wait(process)
    aside = "SELECT count(*), count(DISTINCT jobs.dataset) FROM jobs LEFT JOIN datasets USING (dataset) WHERE datasets.dataset IS NULL"
    assert test.query(aside, "s.db") == [(2, 1)]
    assert [row["dataset"] for row in json.loads(test.run("dataset", "list", "--json", "--store", "s.db").out)["datasets"]] == ["run"]
    test.run("dataset", "rename", "run", "other", "--store", "s.db")
    assert test.query(aside, "s.db") == [(2, 1)]
    test.run("dataset", "delete", "other", "--store", "s.db")
    assert test.query("SELECT count(*) FROM jobs UNION ALL SELECT count(*) FROM results UNION ALL SELECT count(*) FROM records", "s.db") == [(0,)] * 3


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


@case
def a_store_that_can_t_be_written_is_read(test):
    if os.geteuid() != 0:
        raise Skip("needs root, to become somebody else")
    submit(test, "d", jobs(4))
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    folder = test.path("read-only?%")
    os.mkdir(folder)
    os.rename(test.path("sheaf.db"), os.path.join(folder, "sheaf.db"))
    os.chmod(os.path.join(folder, "sheaf.db"), 0o444)
    for place in (test.folder, folder):
        os.chmod(place, 0o755)
    os.mkdir(test.path("out"))
    os.chmod(test.path("out"), 0o777)
    store = ["--store", os.path.join(folder, "sheaf.db")]
    os.chmod(os.path.dirname(test.folder), 0o755)
    if subprocess.run(["sh", "-c", f"test -x '{test.sheaf}'"], preexec_fn=as_nobody, check=False).returncode:
        raise Skip("nobody may not run the program")
    assert " 4 " in test.run("status", *store, preexec_fn=as_nobody).out
    test.run("dataset", "list", *store, preexec_fn=as_nobody)
    test.run("collect", "--dataset", "d", "-o", "out/out.jsonl", *store, preexec_fn=as_nobody)
    assert len(test.answers("out/out.jsonl")) == 4
    assert os.listdir(folder) == ["sheaf.db"]
    # Another user's lock file. Only a worker that has not ended could live.
    lock = os.path.join(folder, "sheaf.db-workers")
    with open(lock, "wb"):
        os.chmod(lock, 0o600)
    assert json.loads(test.run("status", "--json", *store, preexec_fn=as_nobody).out)["workers_alive"] == 0
    with sqlite3.connect(os.path.join(folder, "sheaf.db")) as database:
        database.execute("UPDATE workers SET stopped_at_us = NULL")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    printed = json.loads(test.run("status", "--json", *store, preexec_fn=as_nobody).out)
    assert printed["workers_alive"] is None and printed["datasets"][0]["done"] == 4, printed
    text = test.run("status", *store, preexec_fn=as_nobody).out
    assert " 4 " in text and "workers alive: unknown" in text, text
    os.unlink(lock)
    with open(os.path.join(folder, "sheaf.db-wal"), "wb") as file:
        file.write(b"not yet in the file")
    os.chmod(os.path.join(folder, "sheaf.db-wal"), 0o444)
    refused = test.run("status", *store, status=1, preexec_fn=as_nobody)
    assert "copy both" in refused.err, refused


@case
def a_worker_whose_store_is_deleted_ends_and_names_it(test):
    submit(test, "d", jobs(2000))
    worker = test.start("work", "--model", test.model, "--exit-when-idle", "0", "--engine-test", "fixed:300")
    test.wait_until("answers", lambda: test.query("SELECT count(*) > 0 FROM results") == [(1,)])
    os.unlink(test.path("sheaf.db"))
    ended = test.wait(worker)
    assert ended.status == 1 and "sheaf.db was deleted" in ended.err, ended


@case
def a_worker_that_is_stopped_names_a_store_that_was_deleted(test):
    submit(test, "d", jobs(4))
    worker = test.start("work", "--model", test.model, "--engine-test", "instant")
    test.wait_until("answers", lambda: test.query("SELECT count(*) FROM results") == [(4,)])
    worker.send_signal(signal.SIGSTOP)
    os.unlink(test.path("sheaf.db"))
    worker.send_signal(signal.SIGTERM)
    worker.send_signal(signal.SIGCONT)
    ended = test.wait(worker)
    assert ended.status == 1 and "sheaf.db was deleted" in ended.err, ended


# ---- limits ----

@case
def a_model_name_that_no_result_can_hold_is_refused(test):
    test.write("in.jsonl", jobs(2))
    refused = test.run("run", "in.jsonl", "-o", "o", "--model", test.model, "--model-name", "é" * 128 + "x", status=2)
    assert "256 bytes" in refused.err, refused
    test.run("run", "in.jsonl", "-o", "o", "--model", test.model, "--model-name", "é" * 128)
    assert test.answers("o")[0]["response"]["body"]["model"] == "é" * 128


@case
def more_address_space_never_fails_where_less_is_enough(test):
    test.need_plain_memory()
    test.write("in.jsonl", jobs(4))
    enough = None
    for megabytes in range(100, 601, 50):
        def limit(bytes=megabytes << 20):
            resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))
        ended = test.run("run", "in.jsonl", "-o", f"{megabytes}.jsonl", "--model", test.model, "--threads", "4", status=None,
                         preexec_fn=limit)
        if ended.status == 0 and enough is None:
            enough = megabytes
        assert enough is None or ended.status == 0, f"{enough} MB were enough, {megabytes} MB are not: {ended}"
    assert enough is not None


# ---- the store's file ----

SCHEMAS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "schemas")


def write_old_store(test, name, version):
    """A store of an older version, whose records have no frames: 20 jobs, of which 12 have an answer."""
    database = sqlite3.connect(test.path(name))
    for file in ("store.sql", "store_15.sql")[:min(version, 15) - 13]:
        with open(os.path.join(SCHEMAS, file), encoding="utf-8") as text:
            database.executescript(text.read())
    for i in range(20):
        record = json.dumps({"prompt": f"the prompt {i}", "max_tokens": 8, "temperature": 0}).encode()
        result = json.dumps({"job_id": f"job-{i}", "dataset": "d", "custom_id": f"line {i}", "index": i + 1, "status": "done", "object": "text_completion",
                             "model": "tiny", "system_fingerprint": "old", "created": 1700000000,
                             "choices": [{"text": f"old answer {i}", "finish_reason": "stop", "completion_tokens": 3}],
                             "usage": {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}}).encode()
        is_done = i < 12
        database.execute("INSERT INTO jobs (id, dataset, job_id, custom_id, job_index, status, submitted_at_us, finished_at_us) VALUES (?, 'd', ?, ?, ?, ?, 1, ?)",
                         (i + 1, f"job-{i}", f"line {i}", i + 1, "done" if is_done else "queued", 2 if is_done else None))
        database.execute("INSERT INTO records VALUES (?, ?, 0)", (i + 1, record))
        if is_done:
            database.execute("INSERT INTO results VALUES (?, ?)", (i + 1, result))
        else:
            database.execute("INSERT INTO queue (job) VALUES (?)", (i + 1,))
    database.execute("INSERT INTO datasets (dataset, submitted_at_us, complete, n_submitted, n_done) VALUES ('d', 1, 1, 20, 12)")
    if version == 16:
        with open(os.path.join(SCHEMAS, "store_16.sql"), encoding="utf-8") as text:
            database.executescript(text.read())
    database.execute(f"PRAGMA user_version = {version}")
    database.commit()
    database.close()


@case
def a_store_of_an_older_version_keeps_its_answers_and_goes_on(test):
    for version in (14, 15, 16):
        name = f"{version}.db"
        write_old_store(test, name, version)
        before = test.query("SELECT * FROM jobs", name), test.query("SELECT job, record FROM records", name), test.query("SELECT job, record FROM results", name)
        test.run("status", "--store", name)  # changes it
        assert test.query("PRAGMA user_version", name) == [(17,)]
        assert test.query("SELECT DISTINCT dataset_number, count(*) FROM queue", name) == test.query("SELECT number, 8 FROM datasets", name)
        assert before == (test.query("SELECT * FROM jobs", name), test.query("SELECT job, record FROM records", name),
                          test.query("SELECT job, record FROM results", name))
        test.run("work", "--model", test.model, "--store", name, "--exit-when-idle", "0", "--engine-test", "instant")
        test.run("collect", "--dataset", "d", "-o", f"{version}.jsonl", "--store", name)
        rows = test.answers(f"{version}.jsonl")
        assert [row["custom_id"] for row in rows] == [f"line {i}" for i in range(20)]
        assert all(f"old answer {i}" in json.dumps(row) for i, row in enumerate(rows[:12])) and "old answer" not in json.dumps(rows[12:])
        submit(test, f"new{version}", jobs(30), "--store", name)
        assert test.query("SELECT count(*) > 20, max(length(record)) < 60 FROM stored_records WHERE frame NOT NULL", name) == [(1, 1)]
        test.run("dataset", "delete", "d", "--store", name)
        assert test.query("PRAGMA auto_vacuum", name) == [(2,)]


@case
def an_older_store_that_cannot_be_written_is_read_as_it_is(test):
    write_old_store(test, "sheaf.db", 15)
    os.chmod(test.path("sheaf.db"), 0o644)
    os.chmod(test.folder, 0o555)
    if subprocess.run(["sh", "-c", f"test -x '{test.sheaf}' -a ! -w ."], cwd=test.folder, preexec_fn=as_nobody, check=False).returncode:
        os.chmod(test.folder, 0o755)
        raise Skip("nobody may not run the program")
    os.chmod(os.path.dirname(test.folder), 0o755)
    done = test.run("collect", "--dataset", "d", "-o", "-", "--store", test.path("sheaf.db"), status=None, preexec_fn=as_nobody)
    os.chmod(test.folder, 0o755)
    assert done.out.count("old answer") == 12, done


@case
def a_system_text_takes_its_space_once(test):
    system = text_of(1, 1500)
    lines = [{"custom_id": f"line {i}", "messages": [{"role": "system", "content": system}, {"role": "user", "content": text_of(i, 12)}],
              "max_tokens": 8, "temperature": 0} for i in range(1000)]
    test.write("in.jsonl", lines)
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", "s.db")
    test.run("work", "--model", test.model, "--store", "s.db", "--exit-when-idle", "0", "--engine-test", "instant", status=None)
    assert [json.loads(row) for row, in test.query("SELECT CAST(record AS TEXT) FROM records ORDER BY job", "s.db")] == lines
    own, = test.query("SELECT sum(length(custom_id)) + 1000 * 60 FROM jobs", "s.db")[0]
    size = os.path.getsize(test.path("s.db"))
    assert len(system) > 5000 and size < own + 1000 * 700, (size, own)
    test.run("dataset", "delete", "d", "--store", "s.db")
    assert os.path.getsize(test.path("s.db")) < 400000


@case
def one_file_lies_beside_an_output_and_the_last_line_names_it(test):
    test.write("in.jsonl", jobs(5))
    done = test.run_file("in.jsonl", "out.jsonl")
    assert sorted(name for name in os.listdir(test.folder) if name.startswith("out")) == ["out.jsonl", "out.jsonl.db"]
    assert "out.jsonl.db" in done.err.splitlines()[-1], done


@case
def a_backup_is_made_while_a_worker_writes_and_a_store_may_be_moved(test):
    submit(test, "d", jobs(300))
    worker = test.start("work", "--model", test.model, "--exit-when-idle", "0", "--engine-test", "fixed:20", "--max-batch", "8")
    test.wait_until("answers", lambda: test.query("SELECT count(*) > 20 FROM results") == [(1,)])
    done = test.run("backup", "copy.db")
    assert "copy.db: a copy of sheaf.db" in done.err, done
    (n, n_held), = test.query("SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM queue WHERE worker NOT NULL) FROM datasets", "copy.db")
    assert 20 < n < 300 and test.query("PRAGMA integrity_check", "copy.db") == [("ok",)], (n, n_held)
    assert os.stat(test.path("copy.db")).st_mode & 0o777 == 0o600
    refused = test.run("backup", "copy.db", status=1)
    assert "overwrites none" in refused.err, refused
    missing = test.run("backup", "other/copy.db", status=1)
    assert "other/copy.db.part" in missing.err and not test.exists("copy.db.part"), missing
    assert test.wait(worker).status == 0
    test.run("collect", "--dataset", "d", "-o", "all.jsonl")
    os.mkdir(test.path("moved"))
    os.rename(test.path("sheaf.db"), test.path("moved/sheaf.db"))  # one file, where no process has it open
    assert not [name for name in os.listdir(test.folder) if name.startswith("sheaf.db")]
    test.run("collect", "--dataset", "d", "-o", "moved.jsonl", "--store", "moved/sheaf.db")
    assert test.read("moved.jsonl") == test.read("all.jsonl")
