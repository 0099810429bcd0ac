"""Jobs for /v1/embeddings: the vectors of sheaf embed, alone and in any batch, exactly once, and one bad input harms no other."""
import base64
import json
import os
import random
import signal
import struct

import kafka
import poison
import tiny_model
from session import case, error_of, text_of

TEXTS = ["the winter", "another thing in the earth rather within the water", "the", "inner " * 30, "the winter"]
BOTH_WAYS = {"llama.attention.causal": tiny_model.value(tiny_model.BOOL, False)}


finish = kafka.finish


def embeds(test):
    """A model that says how its hidden states are pooled, so that its workers have this task."""
    tiny_model.write(test.model, more_keys={"llama.pooling_type": tiny_model.value(tiny_model.UINT32, 1)})


def line(name, given, **fields):
    return {"custom_id": name, "method": "POST", "url": "/v1/embeddings", "body": {"model": "tiny", "input": given, **fields}}


def bodies(test, name="out.jsonl"):
    return {answer["custom_id"]: answer["response"]["body"] for answer in test.answers(name)}


def vectors(body):
    assert body["object"] == "list" and [item["index"] for item in body["data"]] == list(range(len(body["data"]))), body
    return [item["embedding"] for item in body["data"]]


def embedded(test, texts, *options):
    """By sheaf embed."""
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    return [json.loads(line) for line in test.run("embed", test.model, *options, stdin=stdin).out.splitlines()]


def ids_of(test, text):
    return json.loads(test.run("tokenize", test.model, stdin=json.dumps({"text": text}) + "\n").out)


@case
def a_job_has_the_vectors_of_embed_in_the_format_that_it_asks_for(test):
    embeds(test)
    expected = embedded(test, TEXTS)
    short = embedded(test, TEXTS, "--dimensions", "5")
    ids = [ids_of(test, text) for text in TEXTS]
    test.write("in.jsonl", [line("string", TEXTS[0]), line("list", TEXTS), line("ids", ids[1]), line("lists", ids), line("short", TEXTS, dimensions=5),
                            line("packed", TEXTS, encoding_format="base64"), {"custom_id": "plain", "input": TEXTS[3]}])
    test.run_file()
    found = bodies(test)
    whole = [item["embedding"] for item in expected]
    assert vectors(found["string"]) == whole[:1] and vectors(found["plain"]) == [whole[3]]
    assert vectors(found["list"]) == vectors(found["lists"]) == whole and vectors(found["ids"]) == [whole[1]]
    assert vectors(found["short"]) == [item["embedding"] for item in short]
    packed = [struct.unpack(f"<{tiny_model.WIDTH}f", base64.b64decode(text)) for text in vectors(found["packed"])]
    assert packed == [struct.unpack(f"<{tiny_model.WIDTH}f", struct.pack(f"<{tiny_model.WIDTH}f", *vector)) for vector in whole]
    n_tokens = sum(item["usage"]["total_tokens"] for item in expected)
    assert found["list"]["usage"] == {"prompt_tokens": n_tokens, "total_tokens": n_tokens}, found["list"]["usage"]
    assert found["list"]["model"] == "tiny" and "pooling=mean" in found["list"]["system_fingerprint"], found["list"]


@case
def vectors_are_the_same_bytes_in_any_batch_step_and_thread(test):
    for way, keys in enumerate(({}, BOTH_WAYS)):
        tiny_model.write(test.model, more_keys=dict(keys, **{"llama.pooling_type": tiny_model.value(tiny_model.UINT32, 1)}))
        texts = [text_of(i, 1 + i * 7 % 30) for i in range(60)] + ["the" + " the" * n for n in (62, 63, 64, 254, 255)]
        expected = [item["embedding"] for item in embedded(test, texts)]
        test.write("alone.jsonl", [line(f"{i}", text) for i, text in enumerate(texts)])
        test.write("whole.jsonl", [line("all", texts), line("again", list(reversed(texts)))])
        for number, options in enumerate(([], ["--max-rows", "64"], ["--threads", "1", "--max-rows", "63"], ["--backend", "cpu:plain"])):
            for name in ("alone", "whole"):
                store = f"{name}-{way}-{number}.db"
                test.run("run", f"{name}.jsonl", test.model, "-o", f"{name}.out", "--overwrite", "--store", store, *options)
            alone = bodies(test, "alone.out")
            assert [vectors(alone[f"{i}"])[0] for i in range(len(texts))] == expected, options
            whole = bodies(test, "whole.out")
            assert vectors(whole["all"]) == expected and vectors(whole["again"]) == list(reversed(expected)), options


@case
def a_bad_input_is_named_with_its_index_and_partial_gives_the_others(test):
    embeds(test)
    bad = [TEXTS[0], "inner " * 400, TEXTS[2], ""]
    test.write("in.jsonl", [line("good", TEXTS), line("bad", bad), line("partial", bad, partial=True), line("alone", "inner " * 400),
                            line("id", [[1, 2], [1, 10 ** 6]]), line("wide", "the", dimensions=10 ** 5), line("kind", ["the", 5])])
    test.run_file(status=3)
    errors = {answer["custom_id"]: error_of(answer) for answer in test.answers() if error_of(answer)}
    assert sorted(errors) == ["alone", "bad", "id", "kind", "wide"], errors
    assert errors["bad"]["param"] == "input[1]" and errors["alone"]["param"] == "input" and errors["id"]["param"] == "input[1]", errors
    assert "tokens: expected at most 256, the model's context" in errors["bad"]["message"] and errors["bad"]["code"] == "context_length_exceeded", errors
    assert errors["wide"]["param"] == "dimensions" and errors["kind"]["message"] == "input[1]: expected a string, got 5", errors
    found = bodies(test)
    assert vectors(found["good"]) == [item["embedding"] for item in embedded(test, TEXTS)]
    data = found["partial"]["data"]
    assert [data[0]["embedding"], data[2]["embedding"]] == [vectors(found["good"])[0], vectors(found["good"])[2]], data
    assert data[1]["error"]["message"] == errors["bad"]["message"] and data[3]["error"]["code"] == "empty_prompt", data
    assert found["partial"]["usage"]["total_tokens"] == len(ids_of(test, TEXTS[0])) + len(ids_of(test, TEXTS[2])), found["partial"]["usage"]


@case
def a_text_is_cut_only_where_the_job_asks_for_it(test):
    embeds(test)
    text = "a" + " the" * 8
    test.write("in.jsonl", [line("right", text, truncate_prompt_tokens=7), line("left", text, truncate_prompt_tokens=7, truncation_side="left"),
                            line("ids", ids_of(test, text), truncate_prompt_tokens=7), line("room", [text, "the"], truncate_prompt_tokens=300),
                            line("model", "the" + " the" * 299, truncate_prompt_tokens=-1)])
    test.run_file()
    found = bodies(test)
    expected = [item["embedding"] for item in embedded(test, ["a" + " the" * 6, " the" * 7, text, "the", "the" + " the" * 255])]
    assert [vectors(found[name])[0] for name in ("right", "left", "ids", "room", "model")] == [expected[0], expected[1], expected[0], expected[2], expected[4]]
    assert found["right"]["usage"] == {"prompt_tokens": 7, "total_tokens": 7, "cut_tokens": 2}, found["right"]["usage"]
    assert found["model"]["usage"] == {"prompt_tokens": 256, "total_tokens": 256, "cut_tokens": 44}, found["model"]["usage"]
    assert "cut_tokens" not in found["room"]["usage"], found["room"]


@case
def a_worker_has_one_task_and_refuses_jobs_of_another_by_name(test):
    test.write("in.jsonl", [line("vector", "the"), {"custom_id": "text", "prompt": "the", "max_tokens": 2}])
    for name, options in (("text", []), ("vector", ["--task", "embed"])):
        test.run("run", "in.jsonl", test.model, "-o", f"{name}.jsonl", *options, status=3)
        answers = {answer["custom_id"]: answer for answer in test.answers(f"{name}.jsonl")}
        assert error_of(answers.pop(name)) is None, answers
        (refused,) = map(error_of, answers.values())
        assert refused["code"] == "unsupported_field" and "start sheaf work with" in refused["message"], refused
    assert "/v1/embeddings" in error_of(test.answers("text.jsonl")[0])["message"] and error_of(test.answers("vector.jsonl")[1])["param"] == "prompt"
    embeds(test)
    test.run("run", "in.jsonl", test.model, "-o", "auto.jsonl", "--store", "auto.db", status=3)
    assert [error_of(answer) is None for answer in test.answers("auto.jsonl")] == [True, False]
    refused = test.run("run", "in.jsonl", test.model, "-o", "no.jsonl", "--task", "paint", status=2)
    assert '--task: expected auto, generate, embed, classify or rerank, got "paint"' in refused.err, refused
    refused = test.run("run", "in.jsonl", test.model, "-o", "no.jsonl", "--engine-test", "instant", status=2)
    assert "--engine-test: the worker computes embeddings" in refused.err, refused


@case
def input_type_chooses_the_models_prompt(test):
    prompts = {"prompts": {"query": "find: ", "passage": "inner "}, "default_prompt_name": None}
    folder = test.path("named")
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    tiny_model.write_folder(folder, {"modules.json": modules, "config_sentence_transformers.json": prompts})
    os.mkdir(os.path.join(folder, "1_Pooling"))
    with open(os.path.join(folder, "1_Pooling", "config.json"), "w", encoding="utf-8") as file:
        json.dump({"pooling_mode": "mean", "embedding_dimension": tiny_model.WIDTH, "include_prompt": True}, file)
    test.model = folder
    test.write("in.jsonl", [line("none", "the"), line("query", "the", input_type="query"), line("document", "the", input_type="document"),
                            line("name", "the", prompt_name="query"), line("wrong", "the", prompt_name="q"), line("ids", [1, 2], input_type="query")])
    test.run_file(status=3)
    found = bodies(test)
    expected = [embedded(test, ["the"], "--prefix", prompt)[0]["embedding"] for prompt in ("", "find: ", "inner ")]
    assert [vectors(found[name])[0] for name in ("none", "query", "document", "name")] == expected + [expected[1]]
    assert "expected one of the model's prompts query, passage" in found["wrong"]["error"]["message"], found["wrong"]
    assert found["ids"]["usage"]["total_tokens"] == 2, found["ids"]  # token ids are used unchanged


def many_jobs(n=120):
    rng = random.Random(7)
    jobs = []
    for i in range(n):
        given = [text_of(i * 31 + j, 1 + rng.randrange(20)) for j in range(rng.choice((1, 2, 40)))]
        jobs.append(line(f"job {i}", given if len(given) > 1 else given[0], **rng.choice(({}, {"dimensions": 7}, {"encoding_format": "base64"}))))
    return jobs


@case
def killed_workers_answer_each_job_once_to_the_same_bytes(test):
    embeds(test)
    test.write("in.jsonl", many_jobs())
    test.run_file(output="expected.jsonl")
    test.run("submit", "in.jsonl", "--dataset", "run", "--store", "killed.db")
    for i in range(4):
        worker = test.start("work", test.model, "--store", "killed.db", "--exit-when-idle", "0", "--max-rows", "64", "--threads", "1")
        test.wait_until("some are done", lambda i=i: (test.query("SELECT count(*) FROM jobs WHERE status = 'done'", "killed.db") or [(0,)])[0][0] > i * 10
                        or worker.poll() is not None)
        worker.send_signal(signal.SIGKILL)
        test.wait(worker)
    test.run("work", test.model, "--store", "killed.db", "--exit-when-idle", "0")
    test.run("collect", "--dataset", "run", "--store", "killed.db", "-o", "out.jsonl")
    assert test.comparable("out.jsonl") == test.comparable("expected.jsonl")
    ((n_done, n_tokens),) = test.query("SELECT count(*), sum(prompt_tokens) FROM jobs WHERE status = 'done'", "killed.db")
    usage = sum(answer["response"]["body"]["usage"]["total_tokens"] for answer in test.answers())
    assert n_done == 120 and n_tokens == usage > 0, (n_done, n_tokens, usage)


@case
def a_job_of_many_inputs_does_not_delay_others(test):
    """Steps alternate between jobs: the short job, submitted after the long one, finishes first."""
    embeds(test)
    test.write("in.jsonl", [line("long", [text_of(i, 30) for i in range(1500)]), line("short", "the winter")])
    test.run("submit", "in.jsonl", "--dataset", "run")
    test.run("work", test.model, "--exit-when-idle", "0", "--threads", "1")
    order = test.query("SELECT custom_id FROM jobs ORDER BY finished_at_us, id")
    assert order == [("short",), ("long",)], order


@case
def equal_jobs_are_computed_once(test):
    embeds(test)
    test.write("in.jsonl", [line("first", TEXTS), line("second", TEXTS), line("other", TEXTS, dimensions=3)])
    test.run_file()
    found = bodies(test)
    assert found["first"] == found["second"] != found["other"]
    assert test.query("SELECT sum(is_duplicate) FROM jobs", "out.jsonl.db") == [(1,)], test.query("SELECT custom_id, is_duplicate FROM jobs", "out.jsonl.db")


def lines_to_split():
    """Jobs of which --split 3 divides some."""
    texts = [text_of(i, 1 + i % 5) for i in range(8)]
    bad = texts[:4] + ["", "the"] + texts[:2]
    return [line("eight", texts), line("base64", texts, encoding_format="base64", dimensions=4), line("bad", bad), line("partial", bad, partial=True),
            line("one", "the"), line("three", texts[:3]), line("ids", [[3, 4]] * 7), line("tokens", [3, 4, 5, 6, 7]),
            {"method": "POST", "url": "/v1/embeddings", "body": {"input": texts[:4]}}, {"input": "the winter"}]


def same_answers(test, split, whole):
    """Without the parts of ids that name the job."""
    def answers(name):
        found = test.answers(name)
        return [(answer["custom_id"], answer["error"], answer["response"] and {**answer["response"], "request_id": None}) for answer in found]
    assert answers(split) == answers(whole), (answers(split), answers(whole))


@case
def divided_jobs_are_joined_by_collect_with_the_index_of_each_input(test):
    embeds(test)
    test.write("in.jsonl", lines_to_split())
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", "whole.db")
    test.run("submit", "in.jsonl", "--dataset", "d", "--split", "3", "--store", "split.db")
    ids = [row[0] for row in test.query("SELECT custom_id FROM jobs ORDER BY id", "split.db")]
    assert ids[:3] == ["eight#inputs=0-2/8", "eight#inputs=3-5/8", "eight#inputs=6-7/8"] and len(ids) == 3 * 5 + 4 + 2, ids
    for name in ("whole", "split"):
        test.run("work", test.model, "--exit-when-idle", "0", "--store", f"{name}.db", status=3)
        test.run("collect", "--dataset", "d", "--store", f"{name}.db", "-o", f"{name}.jsonl")
    same_answers(test, "split.jsonl", "whole.jsonl")
    found = {answer["custom_id"]: answer for answer in test.answers("split.jsonl")}
    assert len(found) == 10 and error_of(found["bad"])["message"].startswith("input[4]: "), found.keys()
    partial = found["partial"]["response"]["body"]["data"]
    assert [item["index"] for item in partial] == list(range(8)) and partial[4]["error"]["message"].startswith("input[4]: "), partial
    assert "d-9" in found and "d-10" in found
    assert "0 jobs queued" in test.run("submit", "in.jsonl", "--dataset", "d", "--split", "3", "--store", "split.db").err
    refused = test.run("submit", "in.jsonl", "--dataset", "d", "--split", "4", "--store", "split.db", status=1)
    assert "in.jsonl" in refused.err and "not the one submitted before" in refused.err, refused
    test.write("bad.jsonl", [line("a", TEXTS), "[1]"])
    assert "line 2: --split: expected a JSON object" in test.run("submit", "bad.jsonl", "--dataset", "b", "--split", "3", status=1).err


@case
def parts_without_the_others_are_collected_alone(test):
    embeds(test)
    test.write("in.jsonl", [line("a", TEXTS), line("b", TEXTS), line("a#inputs=5-6/7", ["the", "the"]), line("c#inputs=0-1/2", "the")])
    test.run("submit", "in.jsonl", "--dataset", "d", "--split", "2")
    test.run("work", test.model, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    found = bodies(test)
    assert sorted(found) == ["a", "a#inputs=5-6/7", "b", "c#inputs=0-1/2"], found.keys()
    assert vectors(found["a"]) == vectors(found["b"]) == [item["embedding"] for item in embedded(test, TEXTS)]


@case
def divided_jobs_go_over_kafka_in_records_that_the_topic_takes(test):
    topics = kafka.Topics(test)
    embeds(test)
    test.write("in.jsonl", lines_to_split())
    test.run("submit", "in.jsonl", "--dataset", "run", "--split", "3", *topics.options)
    topics.work_to_the_end()
    test.run("collect", "--dataset", "run", "-o", "out.jsonl", *topics.options)
    test.run_file(output="expected.jsonl", status=3)
    same_answers(test, "out.jsonl", "expected.jsonl")
    assert len(topics.results()) == 21, topics.results().keys()


@case
def a_fleet_gives_a_table_the_vectors_that_one_process_gives_it(test):
    topics = kafka.Topics(test)
    embeds(test)
    texts = ["" if i % 50 == 7 else text_of(i % 150, 1 + i % 9) for i in range(400)]
    texts[33] = "inner " * 400
    test.write("in.jsonl", [{"id": i, "text": text} for i, text in enumerate(texts)] + [{"id": 400, "text": None}])
    table = ["in.jsonl", "--column", "text", "--errors", "errors.jsonl", "--prefix", "the "]
    test.run("embed", test.model, *table, "-o", "expected.npy", status=3)
    errors = test.read("errors.jsonl")
    command = ["embed", *table, "-o", "out.npy", *topics.options]
    killed = test.start(*command)
    test.wait_until("the jobs are written", lambda: topics.read("jobs"))
    killed.send_signal(signal.SIGKILL)
    test.wait(killed)
    worker = topics.work("--exit-when-idle", "5")
    done = test.run(*command, status=3)
    assert test.read("out.npy") == test.read("expected.npy") and test.read("errors.jsonl") == errors
    assert "0 jobs written" in done.err or "were there already" in done.err, done
    again = test.run("embed", *table, "-o", "out.jsonl", *topics.options, status=3)  # in another format, from the existing results
    found = [json.loads(line) for line in test.read("out.jsonl").splitlines()]
    assert [line["id"] for line in found] == list(range(401)) and not [line for line in found if "embedding" not in line and line["id"] % 50 not in (7, 33, 0)], again
    assert test.wait(worker).status == 0
    n_jobs = len(topics.read("jobs"))
    assert n_jobs == -(-len({text for text in texts}) // 32), n_jobs
    test.environment["SHEAF_BROKERS"] = topics.options[topics.options.index("--brokers") + 1]
    assert len(test.run("embed", test.model, stdin="the\n").out.splitlines()) == 1  # lines are of this process
    for options, words in ((["--pooling", "mean"], "--pooling with --brokers: over Kafka the workers have the model"), (["--estimate"], "--estimate"),
                           ([test.model], "no model, the workers have it")):
        refused = test.run("embed", *table, "-o", "x.npy", *topics.options, *options, status=2)
        assert words in refused.err, refused


@case
def over_kafka_killed_workers_publish_each_result_once_to_the_same_bytes(test):
    topics = kafka.Topics(test)
    embeds(test)
    test.write("in.jsonl", many_jobs() + [{"custom_id": "text", "prompt": "the"}, "{no json"])
    test.run("submit", "in.jsonl", "--dataset", "run", *topics.options)
    plain = test.sheaf
    test.sheaf = os.path.join(os.path.dirname(plain), "../tests/sheaf-faults")
    for point in ("produced:4:kill", "offsets:2:kill", "committed:2:kill", "published:2:kill"):
        test.environment["SHEAF_FAULT"] = point
        killed = test.wait(topics.work("--exit-when-idle", "1", "--window", "16", "--store", f"{point[:4]}.db"))
        assert killed.status == -signal.SIGKILL, killed
    test.sheaf = plain
    del test.environment["SHEAF_FAULT"]
    topics.work_to_the_end()
    test.run("collect", "--dataset", "run", "-o", "out.jsonl", *topics.options)
    test.run_file(output="expected.jsonl", status=3)
    assert test.comparable("out.jsonl") == test.comparable("expected.jsonl")
    assert len(topics.results()) == 122, topics.results().keys()
    assert sorted(record["payload"][:22] for record in topics.read("dead")) == ['{"custom_id": "text", ', "{no json"], topics.read("dead")


@case
def an_input_that_kills_its_worker_fails_alone(test):
    embeds(test)
    poison.faulty(test)
    given = [line(f"job {i}", [text_of(i, 6), text_of(i + 1, 6)]) for i in range(40)]
    given[11]["body"]["input"][1] = "the " + poison.POISON
    test.write("in.jsonl", given)
    test.run("submit", "in.jsonl", "--dataset", "d")
    n_crashes = poison.work_until_it_lives(test, lambda: test.start("work", test.model, "--exit-when-idle", "0"), 8)
    assert n_crashes == poison.LIMIT, n_crashes
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert {answer["custom_id"]: error_of(answer)["code"] for answer in test.answers() if error_of(answer)} == {"job 11": "crashed"}


@case
def a_result_that_the_topic_cannot_take_is_refused_before_it_is_computed(test):
    topics = kafka.Topics(test)
    embeds(test)
    n = 2048
    topics.produce([line("large", ["the"] * n, dimensions=tiny_model.WIDTH), line("small", ["the"] * n, dimensions=3), line("one", "the")])
    kafka.protocol.create_and_wait(kafka.protocol.Connection(kafka.address()), {topics.prefix + "narrow": (1, {"max.message.bytes": "200000"})})
    options = list(topics.options)
    options[options.index("--results") + 1] = topics.prefix + "narrow"
    finished = test.run("work", test.model, "--group", topics.group, *options, "--exit-when-idle", "1", "--store", "w.db", status=3)
    results = {result["custom_id"]: result for result in (json.loads(record["payload"]) for record in topics.read("narrow"))}
    assert [results[name]["status"] for name in ("large", "small", "one")] == ["failed", "done", "done"], finished
    error = results["large"]["error"]
    most = 200000 // (tiny_model.WIDTH * 4 * 4 // 3 + 8)
    assert error["code"] == "result_too_large" and f"give each job {most} texts at most" in error["message"], error
    ((n_tokens,),) = test.query("SELECT sum(prefill_tokens) FROM steps", "w.db")
    assert n_tokens == n + 1, n_tokens
    test.write("in.jsonl", [line("small", ["the"] * n, dimensions=3), line("large", ["the"] * n, dimensions=tiny_model.WIDTH)])
    refused = test.run("submit", "in.jsonl", "--dataset", "d", *options, status=1)
    assert f"in.jsonl: line 2: the vectors of {n} texts have" in refused.err and f"takes 200000 a record (max.message.bytes): --split {most} " in refused.err, refused
    test.run("submit", "in.jsonl", "--dataset", "d", "--split", str(most), *options)
    test.run("work", test.model, "--group", topics.group, *options, "--exit-when-idle", "1", "--store", "w.db", status=None)
    test.run("collect", "--dataset", "d", "-o", "out.jsonl", *options)
    assert [len(answer["response"]["body"]["data"]) for answer in test.answers()] == [n, n]
