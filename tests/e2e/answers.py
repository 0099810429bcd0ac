"""A result is a pure function of model and request: the same bytes in every batch, schedule and process."""
import platform
import sqlite3

from session import Skip, case, error_of, text_of, varied_jobs

N_JOBS = 48
LEVELS = {"aarch64": ("neon", "i8mm")}.get(platform.machine(), ("avx2", "avx512"))


def same_as_reference(test, *options, arithmetic=()):
    """Runs the same jobs plainly and with these options: every byte must be equal. Both have the arithmetic's options."""
    test.write("in.jsonl", varied_jobs(N_JOBS))
    test.run_file("in.jsonl", "reference.jsonl", "--threads", "2", *arithmetic)
    test.run_file("in.jsonl", "out.jsonl", *options, *arithmetic)
    assert len(test.answers()) == N_JOBS
    assert all(answer["error"] is None for answer in test.answers()), test.read("out.jsonl")[:2000]
    assert test.comparable() == test.comparable("reference.jsonl")


@case
def every_line_has_its_answer_in_the_order_of_the_input(test):
    test.write("in.jsonl", varied_jobs(N_JOBS))
    test.run_file()
    assert [answer["custom_id"] for answer in test.answers()] == [f"line {i}" for i in range(N_JOBS)]
    for i, answer in enumerate(test.answers()):
        body = answer["response"]["body"]
        assert len(body["choices"]) == (3 if i % 5 == 0 else 1)
        assert body["usage"]["completion_tokens"] <= (3 + i * 5 % 29) * len(body["choices"])
        assert body["object"] == ("chat.completion" if i % 3 == 0 else "text_completion")


@case
def one_thread_gives_the_bytes_of_two(test):
    same_as_reference(test, "--threads", "1")


@case
def three_threads_give_the_bytes_of_two(test):
    same_as_reference(test, "--threads", "3")


@case
def a_batch_of_one_gives_the_bytes_of_a_full_batch(test):
    same_as_reference(test, "--max-batch", "1")


@case
def a_batch_of_sixty_four_gives_the_same_bytes(test):
    same_as_reference(test, "--max-batch", "64")


@case
def steps_of_few_rows_cut_prompts_into_chunks_and_give_the_same_bytes(test):
    same_as_reference(test, "--max-rows", "7", "--max-batch", "5")


@case
def steps_of_one_row_give_the_same_bytes(test):
    same_as_reference(test, "--max-rows", "1", "--max-batch", "1")


@case
def steps_of_many_rows_give_the_same_bytes(test):
    same_as_reference(test, "--max-rows", "4096")


@case
def a_window_of_one_job_gives_the_same_bytes(test):
    same_as_reference(test, "--window", "1")


@case
def memory_for_few_pages_gives_the_same_bytes(test):
    same_as_reference(test, "--kv-memory", "300K")


@case
def pages_in_bytes_give_the_same_bytes_in_every_batch_and_are_named_in_the_answers(test):
    same_as_reference(test, "--threads", "1", "--max-batch", "3", "--kv-memory", "300K", arithmetic=("--kv-type", "q8_0"))
    assert all(" kv-type=q8_0" in answer["response"]["body"]["system_fingerprint"] for answer in test.answers())
    refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--kv-type", "f16", status=1)
    assert "q8_0" in refused.err, refused


@case
def activations_of_16_bits_give_the_same_bytes_in_every_batch_and_are_named_in_the_answers(test):
    same_as_reference(test, "--threads", "1", "--max-batch", "3", "--kv-memory", "300K", "--backend", "cpu:plain",
                      arithmetic=("--activation-bits", "16"))
    assert all(answer["response"]["body"]["system_fingerprint"].endswith(" kv-type=f16 activation-bits=16") for answer in test.answers())
    refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--activation-bits", "8", status=1)
    assert "activation-bits none instead of 16" in refused.err, refused
    refused = test.run("run", "in.jsonl", "-o", "new.jsonl", "--model", test.model, "--activation-bits", "12", status=2)
    assert "--activation-bits: expected 8 or 16, got 12" in refused.err, refused
    refused = test.run("run", "in.jsonl", "-o", "new.jsonl", "--model", test.model, "--require-arithmetic", "activation-bits=16", status=2)
    assert "activation-bits" in refused.err, refused


@case
def page_memory_refuses_an_answer_and_never_cuts_it(test):
    """Without max_tokens an answer ends at the model's end token or context limit, not when pages run out."""
    test.write("in.jsonl", [{"prompt": text_of(i, 6), "ignore_eos": i == 0} for i in range(8)])
    test.run_file("in.jsonl", "reference.jsonl", "--kv-memory", "64M")
    expected = test.answers("reference.jsonl")
    assert not any(answer["error"] for answer in expected)
    n_refused = []
    for memory in ("60K", "40K", "20K"):
        err = test.run_file("in.jsonl", f"{memory}.jsonl", "--kv-memory", memory).err
        assert "holds one context" in err, err
        answers = test.answers(f"{memory}.jsonl")
        for answer, whole in zip(answers, expected):
            if error_of(answer):
                assert error_of(answer)["code"] == "out_of_memory", answer
                assert "--kv-memory" in error_of(answer)["message"], answer
            else:
                assert answer["response"]["body"]["choices"] == whole["response"]["body"]["choices"]
        n_refused.append(sum(error_of(answer) is not None for answer in answers))
    assert n_refused[0] >= 1 and n_refused == sorted(n_refused), n_refused


@case
def draws_are_of_the_request_alone(test):
    """No seed: neither dataset, job id nor file name has a part in an answer, and equal prompts of one file draw differently."""
    def stories(name, dataset, lines):
        test.write(f"{name}.jsonl", lines)
        test.run("submit", f"{name}.jsonl", "--dataset", dataset, "--store", f"{name}.db")
        test.run("work", "--model", test.model, "--store", f"{name}.db", "--exit-when-idle", "0")
        test.run("collect", "--dataset", dataset, "-o", f"{name}.out", "--store", f"{name}.db")
        return [answer["response"]["body"]["choices"] for answer in test.answers(f"{name}.out")]

    line = {"prompt": "once upon a time", "max_tokens": 24, "temperature": 1.5, "n": 2}
    named = [{**line, "custom_id": f"c{i}"} for i in range(4)]
    first, other = stories("a", "first", [line] * 4 + named), stories("b", "second", [line] * 4 + named)
    assert first == other
    texts = [choice["text"] for choices in first for choice in choices]
    assert len(set(texts)) == len(texts), texts
    assert stories("c", "third", named[::-1])[::-1] == first[4:]
    # custom_ids that a dataset gives to lines without one
    named = [{**line, "custom_id": f"third-{i}"} for i in range(1, 4)]
    assert stories("d", "third", named) == stories("e", "fourth", named)


@case
def created_is_the_time_of_submission(test):
    """From the store, also if the answer is computed much later."""
    test.write("in.jsonl", [{"prompt": "once", "max_tokens": 2}])
    test.run("submit", "in.jsonl", "--dataset", "d")
    with sqlite3.connect(test.path("sheaf.db")) as store:
        store.execute("UPDATE jobs SET submitted_at_us = 1700000000 * 1000000 + 5")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert [answer["response"]["body"]["created"] for answer in test.answers("out.jsonl")] == [1700000000]


def with_kernels(test, level):
    test.write("one.jsonl", [{"prompt": "the", "max_tokens": 1}])
    err = test.run_file("one.jsonl", "one-out.jsonl", "--backend", f"cpu:{level}").err
    if f"cpu/{level}" not in err:
        raise Skip(f"this processor has no {level}")
    same_as_reference(test, "--backend", f"cpu:{level}")


@case
def plain_c_gives_the_same_bytes(test):
    with_kernels(test, "plain")


@case
def avx2_or_neon_gives_the_same_bytes(test):
    with_kernels(test, LEVELS[0])


@case
def avx512_or_matrix_products_give_the_same_bytes(test):
    with_kernels(test, LEVELS[1])


@case
def a_job_alone_gives_the_bytes_it_gives_among_all_the_others(test):
    jobs = varied_jobs(N_JOBS)
    test.write("in.jsonl", jobs)
    test.run_file()
    among = test.comparable().splitlines()
    for i in (0, 1, 2, 15, 25, 36):
        job_id = f"run-{i + 1}".encode()
        test.write("one.jsonl", [jobs[i]])
        test.run_file("one.jsonl", f"alone-{i}.jsonl")
        alone = test.comparable(f"alone-{i}.jsonl").strip().replace(b"run-1", job_id)
        assert alone == among[i], (alone, among[i])


@case
def a_prefix_found_in_the_cache_gives_the_bytes_of_a_fresh_one(test):
    prompt = text_of(3, 40)
    # Stop strings that no answer contains make requests differ: equal requests would be computed once.
    jobs = [{"custom_id": f"{i}", "prompt": prompt, "temperature": 0, "max_tokens": 12, "logprobs": 1, "stop": [f"no text has {i}"]}
            for i in range(40)]
    test.write("in.jsonl", jobs)
    # One at a time: the first is computed fresh, the others after it find its pages.
    test.run_file("in.jsonl", "out.jsonl", "--max-batch", "1", "--window", "1")
    hits = test.query("SELECT prefix_hits FROM workers", "out.jsonl.db")[0][0]
    assert hits > 0, hits
    choices = [answer["response"]["body"]["choices"] for answer in test.answers()]
    assert all(choice == choices[0] for choice in choices)


@case
def the_same_seed_gives_the_same_draws_and_another_seed_others(test):
    job = {"prompt": "the winter", "temperature": 1.5, "max_tokens": 20}
    test.write("in.jsonl", [dict(job, seed=1), dict(job, seed=1), dict(job, seed=2)])
    test.run_file()
    first, second, third = [answer["response"]["body"]["choices"] for answer in test.answers()]
    assert first == second
    assert first != third


@case
def choices_of_one_job_differ_when_drawn_and_agree_when_greedy(test):
    job = {"prompt": "the winter", "n": 3, "max_tokens": 20, "seed": 5}
    test.write("in.jsonl", [dict(job, temperature=1.5), dict(job, temperature=0)])
    test.run_file()
    drawn, greedy = [[choice["text"] for choice in answer["response"]["body"]["choices"]] for answer in test.answers()]
    assert len(set(drawn)) == 3, drawn
    assert len(set(greedy)) == 1, greedy
