"""Equal requests are computed once, and each has the bytes that it would have alone: in a worker's window, from the
answers in the store, after a kill."""
import json
import signal
import time

from session import case, error_of, text_of, varied_jobs

N = 60


def equal_pairs():
    """Jobs of every kind, each twice under different names."""
    jobs = varied_jobs(N)
    return jobs, [dict(job, custom_id=f"again {i}") for i, job in enumerate(jobs)]


def computed(test, store):
    return test.query("SELECT sum(prefill_tokens), sum(generated_tokens) FROM workers", store)[0]


def duplicates(test, store):
    return test.query("SELECT count(*) FROM jobs WHERE is_duplicate", store)[0][0]


def bodies(test, name):
    """Results by custom_id, without fields that name the job."""
    answers = {}
    for answer in test.answers(name):
        body = dict(answer["response"]["body"])
        del body["id"], body["created"]
        answers[answer["custom_id"]] = json.dumps(body)
    return answers


@case
def equal_requests_are_computed_once_to_the_bytes_of_each_computed_alone(test):
    once, again = equal_pairs()
    test.write("both.jsonl", [job for pair in zip(once, again) for job in pair])
    test.write("again.jsonl", again)
    test.run_file("both.jsonl", "both-out.jsonl")
    test.run_file("again.jsonl", "again-out.jsonl")
    both, alone = bodies(test, "both-out.jsonl"), bodies(test, "again-out.jsonl")
    assert len(both) == 2 * N and all(both[name] == body for name, body in alone.items())
    assert all(both[f"line {i}"] == both[f"again {i}"] for i in range(N))
    assert (duplicates(test, "both-out.jsonl.db"), duplicates(test, "again-out.jsonl.db")) == (N, 0)
    assert computed(test, "both-out.jsonl.db")[1] == computed(test, "again-out.jsonl.db")[1]
    ((n, prompt, completion),) = test.query(
        "SELECT n_duplicates, duplicate_prompt_tokens, duplicate_completion_tokens FROM datasets", "both-out.jsonl.db")
    assert (n, prompt * 2, completion * 2) == (
        N, *test.query("SELECT prompt_tokens, completion_tokens FROM datasets", "both-out.jsonl.db")[0])
    (printed,) = json.loads(test.run("status", "--json", "--store", "both-out.jsonl.db").out)["datasets"]
    assert (printed["duplicates"], printed["duplicate_tokens"]) == (N, prompt + completion), printed
    printed = test.run("status", "--store", "both-out.jsonl.db").out
    assert f"answered from equal ones: {N}, {prompt + completion} tokens not computed" in printed, printed


@case
def what_was_answered_before_is_taken_from_the_store_in_any_dataset(test):
    once, again = equal_pairs()
    test.write("in.jsonl", once)
    test.run_file("in.jsonl", "out.jsonl")
    before = computed(test, "out.jsonl.db")
    test.write("in.jsonl", once + again)
    test.run_file("in.jsonl", "out.jsonl")
    assert computed(test, "out.jsonl.db") == before and duplicates(test, "out.jsonl.db") == N
    grown = bodies(test, "out.jsonl")
    assert all(grown[f"line {i}"] == grown[f"again {i}"] for i in range(N))
    test.run_file("in.jsonl", "other.jsonl", "--dataset", "other", "--store", "out.jsonl.db")
    assert bodies(test, "other.jsonl") == grown
    assert computed(test, "out.jsonl.db") == before
    test.run_file("in.jsonl", "third.jsonl", "--dataset", "third", "--store", "out.jsonl.db", "--no-reuse")
    assert bodies(test, "third.jsonl") == grown
    after = computed(test, "out.jsonl.db")
    assert after[1] == 2 * before[1], (before, after)


@case
def an_answer_stays_a_source_as_long_as_one_of_its_equals_is_there(test):
    test.write("in.jsonl", equal_pairs()[0])
    run = ["--store", "s.db"]
    test.run_file("in.jsonl", "1.jsonl", "--dataset", "d1", *run)
    before = computed(test, "s.db")
    figures = test.query("SELECT sum(decode_us), sum(prefill_us) FROM jobs", "s.db")
    test.run_file("in.jsonl", "2.jsonl", "--dataset", "d2", *run)
    test.run("dataset", "delete", "d1", *run)
    assert test.query("SELECT sum(is_duplicate), sum(decode_us), sum(prefill_us) FROM jobs", "s.db") == [(0, *figures[0])]
    assert test.query("SELECT n_duplicates, duplicate_prompt_tokens, duplicate_completion_tokens FROM datasets", "s.db") == [(0, 0, 0)]
    test.run_file("in.jsonl", "3.jsonl", "--dataset", "d3", *run)
    assert computed(test, "s.db") == before and bodies(test, "3.jsonl") == bodies(test, "2.jsonl")
    assert duplicates(test, "s.db") == N


@case
def an_answer_that_retain_removes_stays_a_source(test):
    test.write("in.jsonl", equal_pairs()[0])
    run = ["--store", "s.db"]
    test.run_file("in.jsonl", "1.jsonl", "--dataset", "d1", *run)
    before = computed(test, "s.db")
    test.run("submit", "in.jsonl", "--dataset", "d2", *run)  # nobody collects it
    test.run("work", "--model", test.model, "--exit-when-idle", "0", *run)
    collected = test.query("SELECT collected_at_us FROM datasets WHERE dataset = 'd1'", "s.db")[0][0]
    test.wait_until("a second later", lambda: time.time() * 1e6 > collected + 1100000)
    worker = test.start("work", "--model", test.model, "--retain", "1s", *run)
    test.wait_until("the old jobs to go", lambda: test.query("SELECT count(*) FROM jobs WHERE dataset = 'd1'", "s.db") == [(0,)])
    worker.terminate()
    assert test.wait(worker).status == 0
    assert test.query("SELECT n_duplicates, duplicate_completion_tokens FROM datasets WHERE dataset = 'd2'", "s.db") == [(0, 0)]
    test.run_file("in.jsonl", "3.jsonl", "--dataset", "d3", *run)
    assert computed(test, "s.db")[1] == before[1] and duplicates(test, "s.db") == N


@case
def an_answer_that_is_computed_again_otherwise_leaves_its_equals_as_sources(test):
    test.write("in.jsonl", equal_pairs()[0])
    run = ["--store", "s.db"]
    test.run_file("in.jsonl", "1.jsonl", "--dataset", "d1", *run)
    test.run_file("in.jsonl", "2.jsonl", "--dataset", "d2", *run)
    test.run_file("in.jsonl", "1.jsonl", "--dataset", "d1", "--kv-type", "q8_0", "--force-new", *run)
    assert duplicates(test, "s.db") == 0
    before = computed(test, "s.db")
    test.run_file("in.jsonl", "3.jsonl", "--dataset", "d3", *run)
    assert computed(test, "s.db") == before and bodies(test, "3.jsonl") == bodies(test, "2.jsonl")


@case
def every_edit_of_a_file_finds_the_answers_of_the_one_before(test):
    kept = {"custom_id": "kept", "prompt": "the earth", "temperature": 0, "max_tokens": 3}
    asked = [{"custom_id": f"{i}", "prompt": f"the water {i}", "temperature": 0, "stop": ["e", "a", "t", " "]} for i in range(30)]
    test.write("in.jsonl", [dict(job, max_tokens=40) for job in asked])
    test.run_file("in.jsonl", "probe.jsonl")
    ended = [answer["response"]["body"]["choices"][0]["finish_reason"] == "stop" for answer in test.answers("probe.jsonl")]
    asked = [job for job, has_ended in zip(asked, ended) if has_ended][:10]
    assert len(asked) == 10
    test.write("in.jsonl", [kept] + [dict(job, max_tokens=40) for job in asked])
    test.run_file()
    before = computed(test, "out.jsonl.db")
    for n in (60, 80, 90):
        test.write("in.jsonl", [kept] + [dict(job, max_tokens=n) for job in asked])
        finished = test.run_file()
        assert "1 line is as it was, 10 are new or changed, 0 are gone" in finished.err, finished
        assert computed(test, "out.jsonl.db") == before
        assert test.query("SELECT count(*), sum(is_duplicate), sum(worker = 1) FROM jobs", "out.jsonl.db") == [(11, 0, 11)]
    test.write("in.jsonl", [kept] + [dict(job, max_tokens=90, custom_id=f"moved {i}") for i, job in enumerate(asked)])
    assert "1 line is as it was, 10 are new or changed, 10 are gone" in test.run_file().err
    assert computed(test, "out.jsonl.db") == before


@case
def draws_without_a_seed_differ_and_with_same_draws_they_are_one(test):
    jobs = [{"custom_id": f"{i}", "prompt": "the water", "temperature": 1, "max_tokens": 20} for i in range(20)]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl")
    texts = {answer["response"]["body"]["choices"][0]["text"] for answer in test.answers("out.jsonl")}
    assert len(texts) > 5 and duplicates(test, "out.jsonl.db") == 0
    test.run_file("in.jsonl", "same.jsonl", "--same-draws")
    texts = {answer["response"]["body"]["choices"][0]["text"] for answer in test.answers("same.jsonl")}
    assert len(texts) == 1 and duplicates(test, "same.jsonl.db") == 19
    assert test.query("SELECT arithmetic FROM datasets", "same.jsonl.db")[0][0].endswith(" same-draws=1")
    refused = test.run_file("in.jsonl", "out.jsonl", "--same-draws", status=1)
    assert "same-draws" in refused.err, refused


@case
def a_third_of_duplicates_costs_no_token(test):
    jobs = [{"custom_id": f"{i}", "prompt": f"{i % 10 % 7 + i // 10 * 7} the other {text_of(i % 10 % 7, 9)}", "temperature": 0, "max_tokens": 16, "ignore_eos": True}
            for i in range(600)]  # 7 of 10 differ
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl")
    assert len({job["prompt"] for job in jobs}) == 420 and computed(test, "out.jsonl.db")[1] == 16 * 420
    (all_tokens,) = test.query("SELECT prompt_tokens + completion_tokens FROM datasets", "out.jsonl.db")[0]
    assert sum(computed(test, "out.jsonl.db")) <= 0.71 * all_tokens


@case
def a_killed_run_goes_on_and_computes_no_answered_request_again(test):
    jobs = [{"custom_id": f"{i}", "prompt": f"the {i % 100}", "temperature": 0, "max_tokens": 8, "ignore_eos": True} for i in range(400)]
    test.write("in.jsonl", jobs)
    process = test.start("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--engine-test", "fixed:5", "--max-batch", "4")
    test.wait_until("a quarter is answered", lambda: test.query("SELECT n_done FROM datasets WHERE n_done >= 50", "out.jsonl.db"))
    process.send_signal(signal.SIGKILL)
    process.wait()
    (n_before,) = test.query("SELECT count(*) FROM jobs WHERE status = 'done' AND NOT is_duplicate", "out.jsonl.db")[0]
    test.run_file("in.jsonl", "out.jsonl", "--engine-test", "instant")
    assert len(test.answers("out.jsonl")) == 400
    # Suspects of the kill, at most a window of 64, are computed one by one.
    assert 300 - 64 <= duplicates(test, "out.jsonl.db") <= 300 and n_before > 0
    texts = {}
    for answer in test.answers("out.jsonl"):
        texts.setdefault(int(answer["custom_id"]) % 100, set()).add(answer["response"]["body"]["choices"][0]["text"])
    assert all(len(of_one) == 1 for of_one in texts.values())


@case
def chats_submitted_at_two_times_are_equal_only_where_the_template_reads_no_time(test):
    jobs = [{"custom_id": f"{i}", "messages": [{"role": "user", "content": "the"}], "temperature": 0, "max_tokens": 4} for i in range(2)]
    for name, date, expected in (("plain", "", 1), ("dated", "{{ strftime_now('%H:%M:%S') }} ", 0)):
        with open(test.path(f"{name}.jinja"), "w") as file:
            file.write(date + "{{ messages[0].content }}")
        for n_lines in (1, 2):
            test.write(f"{name}-in.jsonl", jobs[:n_lines])
            test.run_file(f"{name}-in.jsonl", f"{name}.jsonl", "--chat-template", f"{name}.jinja")
            submitted_s = int(time.time())
            test.wait_until("another second", lambda: time.time() >= submitted_s + 1)
        assert duplicates(test, f"{name}.jsonl.db") == expected, name


@case
def a_request_that_fails_fails_for_each_of_its_equals(test):
    jobs = [{"custom_id": f"{i}", "prompt": "x " * 300 if i % 2 else "the", "temperature": 0, "max_tokens": 4} for i in range(40)]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl")
    failed = [answer for answer in test.answers("out.jsonl") if answer["error"] or answer["response"]["status_code"] != 200]
    assert len(failed) == 20, len(failed)
    assert duplicates(test, "out.jsonl.db") == 19


@case
def two_workers_answer_each_job_once(test):
    jobs = [{"custom_id": f"{i}", "prompt": f"the {i % 50}", "temperature": 0, "max_tokens": 8} for i in range(500)]
    test.write("in.jsonl", jobs)
    test.run("submit", "in.jsonl", "--dataset", "d")
    workers = [test.start("work", test.model, "--engine-test", "random:3", "--exit-when-idle", "1") for _ in range(2)]
    for worker in workers:
        assert test.wait(worker).status == 0
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert [answer["custom_id"] for answer in test.answers("out.jsonl")] == [f"{i}" for i in range(500)]
    # Each worker computes a request once; both may compute it.
    assert 500 - 2 * 50 <= duplicates(test, "sheaf.db") <= 450


@case
def a_job_past_its_deadline_is_late_though_its_answer_is_known(test):
    known = {"prompt": "the winter", "temperature": 0, "max_tokens": 8}
    now = int(time.time())
    test.write("known.jsonl", [known])
    test.write("late.jsonl", [dict(known, deadline=now - 1), dict(known, deadline=now + 3600)])
    for dataset in ("known", "late"):
        test.run("submit", f"{dataset}.jsonl", "--dataset", dataset)
        test.run("work", "--model", test.model, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "late", "-o", "out.jsonl")
    assert [(error_of(answer) or {}).get("code") for answer in test.answers()] == ["deadline_exceeded", None]
    assert duplicates(test, "sheaf.db") == 1


@case
def metadata_comes_back_with_each_of_equal_requests_and_changes_no_answer(test):
    jobs = [{"custom_id": str(i), "prompt": "the winter", "max_tokens": 6, "seed": 1, **({"metadata": {"row": i, "of": [i]}} if i else {})} for i in range(3)]
    jobs += [{"custom_id": "bad", "prompt": "the", "temperature": -1, "metadata": {"a": "b"}}, {"custom_id": "list", "prompt": "the", "metadata": [1]}]
    test.write("in.jsonl", jobs)
    test.run("run", "in.jsonl", test.model, "-o", "out.jsonl", "--store", "sheaf.db", status=3)
    answers = {answer["custom_id"]: answer["response"]["body"] for answer in test.answers()}
    assert [answers[str(i)].get("metadata") for i in range(3)] == [None, {"row": 1, "of": [1]}, {"row": 2, "of": [2]}], answers
    assert len({answers[str(i)]["choices"][0]["text"] for i in range(3)}) == 1 and duplicates(test, "sheaf.db") == 2
    assert answers["list"]["error"]["param"] == "metadata" and answers["bad"]["error"]["param"] == "temperature", answers
    jobs[1]["metadata"] = {"row": 11}
    test.write("in.jsonl", jobs[:3])
    test.run("run", "in.jsonl", test.model, "-o", "out.jsonl", "--store", "sheaf.db")
    assert test.answers()[1]["response"]["body"]["metadata"] == {"row": 11}, test.answers()
