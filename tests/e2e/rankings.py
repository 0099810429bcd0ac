"""Jobs for /v1/rerank, /v1/score and /v1/classify: the scores of sheaf rerank and sheaf classify to the last bit, alone and in any batch, exactly
once, and one bad input harms no other."""
import json
import os
import random
import re
import signal

import kafka
import poison
import tiny_model
from classify import LABELS, TEXTS, head_folder, lines_of, llama_config
from session import case, error_of, text_of

DOCUMENTS = [" " + text for text in TEXTS]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


finish = kafka.finish


def line(name, url, **body):
    return {"custom_id": name, "method": "POST", "url": url, "body": {"model": "tiny", **body}}


def bodies(test, name="out.jsonl"):
    return {answer["custom_id"]: answer["response"]["body"] for answer in test.answers(name)}


def scores_of(body):
    """Scores by the input's index, of rankings and of scores."""
    return {item["index"]: item.get("relevance_score", item.get("score")) for item in body.get("results", body.get("data"))}


def reranker(test):
    test.model = head_folder(test, "one", 1)


def ranked(test, query, documents, *options):
    (answer,) = lines_of(test, "rerank", test.model, [{"query": query, "documents": documents}], *options)
    return answer


@case
def a_job_has_the_scores_of_rerank_in_the_shape_of_its_path(test):
    reranker(test)
    expected = ranked(test, "water", DOCUMENTS)
    alone = ranked(test, "the", DOCUMENTS[1:2])
    test.write("in.jsonl", [
        line("v1", "/v1/rerank", query="water", documents=DOCUMENTS), line("plain", "/rerank", query="water", documents=DOCUMENTS, top_n=2),
        line("v2", "/v2/rerank", query="water", documents=[{"text": text} for text in DOCUMENTS], return_documents=True),
        line("many", "/v1/score", text_1="water", text_2=DOCUMENTS), line("pair", "/score", text_1="water", text_2=DOCUMENTS[1]),
        line("each", "/v1/score", text_1=["water", "the"], text_2=[DOCUMENTS[0], DOCUMENTS[1]]),
        {"custom_id": "bare", "query": "water", "documents": DOCUMENTS}])
    test.run_file()
    found = bodies(test)
    for name in ("v1", "bare", "plain", "v2"):
        assert found[name]["id"].startswith("rerank-") and found[name]["model"] == "one" and found[name]["usage"] == expected["usage"], found[name]
    assert found["v1"]["results"] == found["bare"]["results"] == expected["results"], (found["v1"], expected)
    assert found["plain"]["results"] == expected["results"][:2]
    assert found["v2"]["results"] == [{**item, "document": {"text": DOCUMENTS[item["index"]]}} for item in expected["results"]]
    scores = scores_of(expected)
    assert [item["score"] for item in found["many"]["data"]] == [scores[i] for i in range(5)] and found["many"]["usage"] == expected["usage"]
    assert found["many"]["object"] == "list" and found["many"]["data"][3].keys() == {"index", "object", "score"}, found["many"]
    assert [item["score"] for item in found["pair"]["data"]] == [scores[1]]
    assert [item["score"] for item in found["each"]["data"]] == [scores[0], alone["results"][0]["relevance_score"]]
    assert "activation=sigmoid" in found["v1"]["system_fingerprint"], found["v1"]


@case
def a_job_has_the_classes_of_classify(test):
    test.model = head_folder(test, "three", 3, LABELS)
    expected = lines_of(test, "classify", test.model, TEXTS)
    ids = [json.loads(test.run("tokenize", test.model, stdin=json.dumps({"text": text}) + "\n").out) for text in TEXTS]
    test.write("in.jsonl", [line("list", "/v1/classify", input=TEXTS), line("one", "/classify", input=TEXTS[1]), line("ids", "/v1/classify", input=ids),
                            {"custom_id": "bare", "task": "classify", "input": TEXTS}])
    test.run_file()
    found = bodies(test)
    data = [{"index": i, **{key: each[key] for key in ("label", "probs", "num_classes")}} for i, each in enumerate(expected)]
    assert found["list"]["data"] == found["bare"]["data"] == found["ids"]["data"] == data, (found["list"], data)
    assert found["one"]["data"] == [{**data[1], "index": 0}] and found["one"]["usage"] == expected[1]["usage"], found["one"]
    n_tokens = sum(each["usage"]["total_tokens"] for each in expected)
    assert found["list"]["object"] == "list" and found["list"]["usage"] == {"prompt_tokens": n_tokens, "total_tokens": n_tokens}, found["list"]
    test.run("run", "in.jsonl", test.model, "-o", "raw.jsonl", "--store", "raw.db", "--activation", "none")
    raw = lines_of(test, "classify", test.model, TEXTS, "--activation", "none")
    assert [item["logits"] for item in bodies(test, "raw.jsonl")["list"]["data"]] == [each["logits"] for each in raw]


@case
def a_job_has_the_classes_of_pairs(test):
    """text_1 and text_2 as in /v1/score give the classes of sheaf classify with text_pair."""
    test.model = head_folder(test, "three", 3, LABELS)
    pairs = [("water", document) for document in DOCUMENTS] + [("the", DOCUMENTS[1])]
    expected = lines_of(test, "classify", test.model, [{"text": a, "text_pair": b} for a, b in pairs])
    assert expected[1]["probs"] != expected[5]["probs"] != lines_of(test, "classify", test.model, ["the"])[0]["probs"]
    test.write("in.jsonl", [line("many", "/v1/classify", text_1="water", text_2=DOCUMENTS), line("pair", "/classify", text_1="the", text_2=DOCUMENTS[1]),
                            {"custom_id": "each", "task": "classify", "text_1": [a for a, _ in pairs], "text_2": [b for _, b in pairs]},
                            line("bad", "/v1/classify", text_1="water", text_2=[DOCUMENTS[0], "inner " * 400], partial=True)])
    test.run_file(status=0)
    found = bodies(test)
    data = [{"index": i, **{key: each[key] for key in ("label", "probs", "num_classes")}} for i, each in enumerate(expected)]
    assert found["each"]["data"] == data and found["many"]["data"] == data[:5] and found["pair"]["data"] == [{**data[5], "index": 0}], found
    assert found["many"]["usage"]["prompt_tokens"] == sum(each["usage"]["prompt_tokens"] for each in expected[:5])
    assert found["bad"]["data"][0] == data[0] and found["bad"]["data"][1]["error"]["message"].startswith("text_2[1]: the pair has"), found["bad"]


@case
def scores_are_the_same_bytes_in_any_batch_step_and_thread(test):
    reranker(test)
    texts = [" " + text_of(i, 1 + i * 7 % 30) for i in range(60)] + [" the" * n for n in (62, 63, 64, 254, 255)]
    expected = scores_of(ranked(test, "the", texts))
    test.write("alone.jsonl", [line(f"{i}", "/v1/score", text_1="the", text_2=text) for i, text in enumerate(texts)])
    test.write("whole.jsonl", [line("all", "/v1/rerank", query="the", documents=texts),
                               line("again", "/v1/score", text_1="the", text_2=list(reversed(texts)))])
    for number, options in enumerate(([], ["--max-rows", "64"], ["--threads", "1", "--max-rows", "63"])):
        for name in ("alone", "whole"):
            test.run("run", f"{name}.jsonl", test.model, "-o", f"{name}.out", "--overwrite", "--store", f"{name}-{number}.db", *options)
        alone, whole = bodies(test, "alone.out"), bodies(test, "whole.out")
        assert {i: alone[f"{i}"]["data"][0]["score"] for i in range(len(texts))} == expected, options
        assert scores_of(whole["all"]) == expected and [item["score"] for item in whole["again"]["data"]] == [expected[i] for i in reversed(range(len(texts)))]
    test.write("plain.jsonl", [line("some", "/v1/rerank", query="the", documents=texts[:5])])
    test.run("run", "plain.jsonl", test.model, "-o", "plain.out", "--backend", "cpu:plain")
    assert scores_of(bodies(test, "plain.out")["some"]) == {i: expected[i] for i in range(5)}


@case
def a_bad_input_is_named_with_its_index_and_partial_gives_the_others(test):
    reranker(test)
    bad = [DOCUMENTS[0], "inner " * 400, DOCUMENTS[2], DOCUMENTS[4]]
    test.write("in.jsonl", [line("good", "/v1/rerank", query="water", documents=DOCUMENTS), line("bad", "/v1/rerank", query="water", documents=bad),
                            line("partial", "/v1/rerank", query="water", documents=bad, partial=True), line("pair", "/v1/score", text_1="", text_2=""),
                            line("pairs", "/v1/score", text_1="water", text_2=bad, partial=True), line("kind", "/v1/rerank", query="water", documents=[5])])
    test.run_file(status=3)
    errors = {answer["custom_id"]: error_of(answer) for answer in test.answers() if error_of(answer)}
    assert sorted(errors) == ["bad", "kind", "pair"], errors
    assert errors["bad"]["param"] == "documents[1]" and errors["bad"]["code"] == "context_length_exceeded", errors
    assert "the pair has" in errors["bad"]["message"] and "expected at most 256" in errors["bad"]["message"], errors
    assert errors["pair"]["code"] == "empty_prompt" and errors["pair"]["param"] == "text_2" and errors["kind"]["param"] == "documents[0]", errors
    found = bodies(test)
    good = scores_of(found["good"])
    assert scores_of(found["partial"]) == {0: good[0], 2: good[2], 3: good[4]}, found["partial"]
    assert found["partial"]["errors"] == [{"index": 1, "error": {"code": "context_length_exceeded", "message": errors["bad"]["message"]}}], found["partial"]
    assert found["pairs"]["data"][1]["error"]["message"].startswith("text_2[1]: the pair has"), found["pairs"]
    assert scores_of(found["pairs"]) == {0: good[0], 1: None, 2: good[2], 3: good[4]}
    assert found["partial"]["usage"] == found["pairs"]["usage"], found


@case
def an_input_is_cut_only_where_the_job_asks_for_it(test):
    reranker(test)
    long = " the" * 300
    test.write("in.jsonl", [line("right", "/v1/rerank", query="water", documents=[long], truncate_prompt_tokens=7),
                            line("model", "/v1/score", text_1="water", text_2=long, truncate_prompt_tokens=-1),
                            line("room", "/v1/rerank", query="water", documents=[" the"], truncate_prompt_tokens=300)])
    test.run_file()
    found = bodies(test)
    for name, n_tokens in (("right", 7), ("model", 256)):
        expected = ranked(test, "water", [long], "--max-length", str(n_tokens))
        assert list(scores_of(found[name]).values()) == list(scores_of(expected).values()), (name, found[name], expected)
        usage = found[name]["usage"]
        assert usage["prompt_tokens"] == n_tokens == expected["usage"]["prompt_tokens"] and usage["cut_tokens"] > 0, usage
    assert "cut_tokens" not in found["room"]["usage"]
    test.model = head_folder(test, "three", 3, LABELS)
    test.write("in.jsonl", [line("left", "/v1/classify", input="a" + long, truncate_prompt_tokens=7, truncation_side="left")])
    test.run("run", "in.jsonl", test.model, "-o", "left.jsonl", "--store", "left.db")
    assert bodies(test, "left.jsonl")["left"]["data"][0]["probs"] == lines_of(test, "classify", test.model, [" the" * 7])[0]["probs"]


@case
def a_worker_has_one_task_and_refuses_jobs_of_another_by_name(test):
    one, three = head_folder(test, "one", 1), head_folder(test, "three", 3, LABELS)
    jobs = {"rerank": line("rerank", "/v1/rerank", query="a", documents=["the"]), "classify": line("classify", "/v1/classify", input="the"),
            "generate": {"custom_id": "generate", "prompt": "the", "max_tokens": 2}, "embed": line("embed", "/v1/embeddings", input="the")}
    test.write("in.jsonl", list(jobs.values()))
    for number, (model, options, own) in enumerate(((one, [], "rerank"), (one, ["--task", "classify"], "classify"), (three, [], "classify"),
                                                    (test.model, [], "generate"))):
        test.run("run", "in.jsonl", model, "-o", f"{number}.jsonl", *options, status=3)
        answers = {answer["custom_id"]: error_of(answer) for answer in test.answers(f"{number}.jsonl")}
        assert answers.pop(own) is None, answers
        for name, refused in answers.items():
            assert refused["code"] == "unsupported_field" and "start sheaf work with" in refused["message"], refused
            path = jobs[name].get("url", "/v1/completions")
            assert f"the job is for {path}" in refused["message"].replace("/v1/chat/completions and ", ""), refused
    for options, words in ((["--task", "rerank"], "three has 3 labels (bad, ...): expected a reranker with one"), (["--speculate", "auto"], "computes scores")):
        refused = test.run("run", "in.jsonl", three, "-o", "no.jsonl", *options, status=None)
        assert refused.status in (1, 2) and words in refused.err, refused


@case
def a_judge_computes_jobs_after_its_template(test):
    """A language model gives the scores of sheaf rerank; the template's tokens are counted, and a long document's end is cut."""
    test.model = test.path("judge")
    tiny_model.write_folder(test.model, {"config.json": llama_config(architectures=["LlamaForCausalLM"], max_position_embeddings=1024)},
                            listed=tiny_model.folder_tensors())
    answers = ["--answers", "y,n", "--instruct", "find"]
    expected = ranked(test, "water", DOCUMENTS, *answers)
    cut = ranked(test, "water", [" the" * 3000], *answers, "--max-length", "900")
    test.write("in.jsonl", [line("all", "/v1/rerank", query="water", documents=DOCUMENTS),
                            line("cut", "/v1/rerank", query="water", documents=[" the" * 3000], truncate_prompt_tokens=900),
                            line("left", "/v1/rerank", query="water", documents=["a"], truncate_prompt_tokens=900, truncation_side="left"),
                            line("small", "/v1/rerank", query="water", documents=["a"], truncate_prompt_tokens=9)])
    test.run("run", "in.jsonl", test.model, "-o", "out.jsonl", "--task", "rerank", *answers, status=3)
    found = bodies(test)
    assert found["all"]["results"] == expected["results"] and found["all"]["usage"] == expected["usage"], (found["all"], expected)
    assert found["cut"]["results"] == cut["results"] and found["cut"]["usage"]["prompt_tokens"] == 900, (found["cut"], cut)
    assert "template" in found["left"]["error"]["message"] and found["left"]["error"]["param"] == "truncation_side", found["left"]
    assert "the template and the query have" in found["small"]["error"]["message"], found["small"]


def many_jobs(n=120):
    rng = random.Random(7)
    jobs = []
    for i in range(n):
        texts = [" " + text_of(i * 31 + j, 1 + rng.randrange(20)) for j in range(rng.choice((1, 2, 40)))]
        if i % 3:
            jobs.append(line(f"job {i}", "/v1/rerank", query=f"q{i}", documents=texts, **rng.choice(({}, {"top_n": 3}, {"return_documents": True}))))
        else:
            jobs.append(line(f"job {i}", "/v1/score", text_1=f"q{i}", text_2=texts))
    return jobs


@case
def killed_workers_answer_each_job_once_to_the_same_bytes(test):
    reranker(test)
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
def a_job_of_many_documents_does_not_delay_others(test):
    """Steps alternate between jobs: the short job, submitted after the long one, finishes first."""
    reranker(test)
    test.write("in.jsonl", [line("long", "/v1/rerank", query="water", documents=[text_of(i, 30) for i in range(1500)]),
                            line("short", "/v1/rerank", query="water", documents=["the winter"])])
    test.run("submit", "in.jsonl", "--dataset", "run")
    test.run("work", test.model, "--exit-when-idle", "0", "--threads", "1")
    order = test.query("SELECT custom_id FROM jobs ORDER BY finished_at_us, id")
    assert order == [("short",), ("long",)], order


@case
def a_question_to_the_store_has_the_documents_in_their_order(test):
    reranker(test)
    with open(os.path.join(ROOT, "store", "QUERIES.md"), encoding="utf-8") as file:
        (question,) = re.findall(r"^## \d+\. How relevant is each document.*?```sql\n(.*?)```", file.read(), re.S | re.M)
    test.write("in.jsonl", [{"custom_id": f"q{i}", "query": "water", "documents": DOCUMENTS[i:], "top_n": 3} for i in range(3)])
    test.run("run", "in.jsonl", test.model, "-o", "out.jsonl", "--dataset", "search")
    expected = [(f"q{i}", item["index"], item["relevance_score"]) for i in range(3) for item in bodies(test)[f"q{i}"]["results"]]
    assert test.query(question, "out.jsonl.db") == expected and len(expected) == 9, expected


@case
def equal_jobs_are_computed_once(test):
    reranker(test)
    test.write("in.jsonl", [line("first", "/v1/rerank", query="a", documents=DOCUMENTS), line("second", "/rerank", query="a", documents=DOCUMENTS),
                            line("other", "/v1/rerank", query="a", documents=DOCUMENTS, top_n=1)])
    test.run_file()
    found = bodies(test)
    assert found["first"]["results"] == found["second"]["results"] != found["other"]["results"]
    assert test.query("SELECT sum(is_duplicate) FROM jobs", "out.jsonl.db") == [(1,)], test.query("SELECT custom_id, is_duplicate FROM jobs", "out.jsonl.db")


@case
def over_kafka_killed_workers_publish_each_result_once_to_the_same_bytes(test):
    topics = kafka.Topics(test)
    reranker(test)
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
def a_result_that_the_topic_cannot_take_is_refused_before_it_is_computed(test):
    topics = kafka.Topics(test)
    reranker(test)
    documents = ["the " + "q" * 100] * 2000
    topics.produce([line("large", "/v1/rerank", query="a", documents=documents, return_documents=True),
                    line("small", "/v1/rerank", query="a", documents=documents[:200])])
    kafka.protocol.create_and_wait(kafka.protocol.Connection(kafka.address()), {topics.prefix + "narrow": (1, {"max.message.bytes": "100000"})})
    options = list(topics.options)
    options[options.index("--results") + 1] = topics.prefix + "narrow"
    finished = test.run("work", test.model, "--group", topics.group, *options, "--exit-when-idle", "1", "--store", "w.db", status=3)
    results = {result["custom_id"]: result for result in (json.loads(record["payload"]) for record in topics.read("narrow"))}
    assert [results[name]["status"] for name in ("large", "small")] == ["failed", "done"], finished
    error = results["large"]["error"]
    assert error["code"] == "result_too_large" and error["message"].startswith("documents: the scores of 2000 texts have"), error


@case
def a_document_that_kills_its_worker_fails_alone(test):
    reranker(test)
    poison.faulty(test)
    given = [line(f"job {i}", "/v1/rerank", query="a", documents=[text_of(i, 6), text_of(i + 1, 6)]) for i in range(40)]
    given[11]["body"]["documents"][1] = "the " + poison.POISON
    test.write("in.jsonl", given)
    test.run("submit", "in.jsonl", "--dataset", "d")
    n_crashes = poison.work_until_it_lives(test, lambda: test.start("work", test.model, "--exit-when-idle", "0"), 8)
    assert n_crashes == poison.LIMIT, n_crashes
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert {answer["custom_id"]: error_of(answer)["code"] for answer in test.answers() if error_of(answer)} == {"job 11": "crashed"}
