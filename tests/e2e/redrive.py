"""`sheaf redrive`: dead letters that are jobs again, each once, over a real broker."""
import json
import os
import signal

import kafka
from kafka import finish, headers_of  # noqa: F401  (finish stops the suite's broker)
from session import case, error_of


def good(name):
    return {"custom_id": name, "prompt": "the", "max_tokens": 2, "seed": 1}


def dead_jobs(test, topics, names):
    """Dead letters of jobs that ask for another model than their workers'."""
    test.write("in.jsonl", [{**good(name), "model": "another" if name in names else "tiny"} for name in ("a", "b", "c", "d")])
    test.run("submit", "in.jsonl", "--dataset", "set", *topics.options)
    topics.work_to_the_end("--engine-test", "instant", "--model-name", "tiny", "--require-model")
    assert len(topics.read("dead")) == len(names)


def redrive(test, topics, *options, status=0):
    return test.run("redrive", *topics.options, *options, status=status).err


@case
def a_dead_letter_is_a_job_again_once_with_its_history_and_collect_takes_its_new_result(test):
    topics = kafka.Topics(test)
    dead_jobs(test, topics, {"b", "d"})
    said = redrive(test, topics)
    assert "2 dead letters of topic" in said and "0 had been before" in said, said
    said = redrive(test, topics)
    assert "0 dead letters of topic" in said and "2 had been before" in said, said
    again = [record for record in topics.read("jobs") if "sheaf-redriven" in headers_of(record)]
    assert sorted(json.loads(record["payload"])["custom_id"] for record in again) == ["b", "d"]
    for record in again:
        headers = headers_of(record)
        assert headers["sheaf-redriven"] == "1" and headers["sheaf-dataset"] == "set", headers
        assert headers["__sheaf.errors.1.code"] == "invalid_field" and "__sheaf.errors.code" not in headers, headers
        assert int(headers["__sheaf.errors.1.offset"]) >= 0 and headers["__sheaf.errors.1.topic"] == topics.prefix + "jobs"
    waiting = test.run("collect", "--dataset", "set", "-o", "out.jsonl", "--group", topics.group, *topics.options, status=1).err
    assert "2 of 4 jobs have results" in waiting, waiting  # its new results
    topics.work_to_the_end("--engine-test", "instant", "--model-name", "tiny", "--model-name", "another", "--require-model")
    collected = test.run("collect", "--dataset", "set", "-o", "out.jsonl", "--group", topics.group, *topics.options)
    assert "left out" not in collected.err, collected.err
    assert [(answer["custom_id"], error_of(answer)) for answer in test.answers()] == [(name, None) for name in ("a", "b", "c", "d")]
    test.run("mirror", "--store", "fleet.db", "--until-end", "--group", topics.group, *topics.options)
    figures = test.query("SELECT n_submitted, n_done, n_failed FROM datasets", store="fleet.db")
    assert figures == [(4, 4, 0)], figures


@case
def what_dies_again_is_redriven_again_with_both_reasons(test):
    topics = kafka.Topics(test)
    dead_jobs(test, topics, {"b"})
    for n in (1, 2):
        redrive(test, topics)
        topics.work_to_the_end("--engine-test", "instant", "--model-name", "tiny", "--require-model")
        headers = headers_of(topics.read("dead")[-1])
        assert headers["sheaf-redriven"] == str(n) and headers["__sheaf.errors.code"] == "invalid_field", headers
        assert [name for name in headers if name.endswith(".code")][:-1] == [f"__sheaf.errors.{i + 1}.code" for i in range(n)], headers
    assert len(topics.read("dead")) == 3
    assert "1 dead letters" in redrive(test, topics)


@case
def where_chooses_and_the_rest_can_follow(test):
    topics = kafka.Topics(test)
    dead_jobs(test, topics, {"b", "c"})
    topics.produce(["no job"])
    topics.work_to_the_end("--engine-test", "instant", "--dead-share", "100")
    assert "code" in redrive(test, topics, "--where", "colour=red", status=2)
    assert "--where" in redrive(test, topics, "--where", "code", status=2)
    said = redrive(test, topics, "--where", "code=crashed", "--where", "code=invalid_encoding")
    assert "1 dead letters of topic" in said and "2 do not match --where" in said, said
    said = redrive(test, topics, "--where", "code=invalid_field", "--where", "dataset=another")
    assert "0 dead letters of topic" in said and "2 do not match --where" in said, said
    said = redrive(test, topics, "--where", "code=invalid_field", "--where", "dataset=set")
    assert "2 dead letters of topic" in said and "1 had been before" in said, said


@case
def records_that_are_no_dead_letters_of_the_topic_stay(test):
    topics = kafka.Topics(test)
    dead_jobs(test, topics, {"b"})
    kafka.kcat("-P", "-t", topics.prefix + "dead", text="something else")
    kafka.kcat("-P", "-t", topics.prefix + "dead", "-H", "__sheaf.errors.code=crashed", "-H", "__sheaf.errors.topic=another", text="{}")
    kafka.kcat("-P", "-t", topics.prefix + "dead", "-H", "__sheaf.errors.code=crashed", "-H", f"__sheaf.errors.topic={topics.prefix}jobs",
               "-H", "__sheaf.errors.omitted=value, key, headers", text="x")
    said = redrive(test, topics)
    assert "1 dead letters of topic" in said and "2 records are no dead letters" in said and "1 dead letters lack their record" in said, said


@case
def a_redrive_that_was_killed_goes_on_and_sends_each_once(test):
    topics = kafka.Topics(test, 2)
    test.write("in.jsonl", [{**good(f"line {i}"), "model": "another"} for i in range(3000)])
    test.run("submit", "in.jsonl", "--dataset", "set", *topics.options)
    topics.work_to_the_end("--engine-test", "instant", "--model-name", "tiny", "--require-model", "--dead-share", "100")
    whole, test.sheaf = test.sheaf, os.path.join(os.path.dirname(os.path.dirname(test.sheaf)), "tests", "sheaf-faults")
    assert os.path.exists(test.sheaf), f"{test.sheaf} is missing: `ninja -C build tests/sheaf-faults` builds it"
    for point in ("begun:1", "produced:1", "committed:1", "produced:1", "committed:1"):
        test.environment["SHEAF_FAULT"] = f"{point}:kill"
        redrive(test, topics, status=-signal.SIGKILL)
    test.sheaf = whole
    test.environment.pop("SHEAF_FAULT")
    redrive(test, topics)
    again = [json.loads(record["payload"])["custom_id"] for record in topics.read("jobs") if "sheaf-redriven" in headers_of(record)]
    assert len(again) == 3000 and len(set(again)) == 3000
