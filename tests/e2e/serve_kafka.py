"""sheaf serve --brokers: batches over a real broker."""
import concurrent.futures
import contextlib
import json
import socket
import time

import kafka
import tiny_model
from adapters import write_adapter
from serve import Server, answers_of, by_id, chat, texts_of
from session import DEADLINE_S, case

finish = kafka.finish
COUNTER = []


def start(test, *options):
    """Options of a server and of its workers, over topics of their own."""
    COUNTER.append(None)
    prefix = f"serve{len(COUNTER)}-"
    brokers = kafka.address()
    kafka.create_topics(brokers, prefix, 3)
    topics = ("--brokers", brokers, "--group", prefix, "--jobs", f"{prefix}jobs", "--results", f"{prefix}results",
              "--control", f"{prefix}control")
    return Server(test, "--no-work", *topics, *options), (*topics, "--dead", f"{prefix}dead")


def stop(test, process):
    process.terminate()
    assert test.wait(process).status == 0


@case
def a_batch_over_kafka_survives_kills_of_its_server_and_is_answered_once(test):
    server, topics = start(test)
    jobs = [chat(i) for i in range(60)] + [chat(60, temperature="hot")]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl")
    server.ready()
    name = server.create(server.upload(jobs), metadata={"a": "b"})
    server.kill()  # wherever it is
    server.start()
    test.wait_until("in progress", lambda: server.batch(name)["in_progress_at"])
    server.kill()
    worker = test.start("work", "--model", test.model, "--store", "worker.db", *topics)
    server.start()
    batch = server.wait_for(name)
    assert batch["status"] == "completed" and batch["request_counts"] == {"total": 61, "completed": 60, "failed": 1}, batch
    lines = server.lines(batch["output_file_id"]) + server.lines(batch["error_file_id"])
    assert answers_of(lines) == answers_of(test.answers("out.jsonl")) and len(by_id(lines)) == 61
    stop(test, worker)
    assert server.stop().status == 0


@case
def a_batch_over_kafka_is_computed_with_the_adapters_that_its_lines_name(test):
    options = ("--lora-modules", f"one={write_adapter(test, 'one')}", "--lora-modules", f"two={write_adapter(test, 'two', seed=2)}")
    server, topics = start(test)
    jobs = [chat(i, model=("tiny", "one", "two")[i % 3]) for i in range(30)]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl", *options)
    worker = test.start("work", "--model", test.model, "--store", "worker.db", *options, *topics)
    batch = server.ready().wait_for(server.create(server.upload(jobs)))
    lines, alone = by_id(server.lines(batch["output_file_id"])), by_id(test.answers("out.jsonl"))
    for job in jobs:
        got, expected = (found[job["custom_id"]]["response"]["body"] for found in (lines, alone))
        assert all(got[key] == expected[key] for key in ("model", "choices", "system_fingerprint")) and got["model"] == job["body"]["model"], (got, expected)
    assert len({line["response"]["body"]["system_fingerprint"] for line in lines.values()}) == 3
    stop(test, worker)
    assert server.stop().status == 0


@case
def a_batch_over_kafka_is_cancelled_and_a_second_server_takes_over(test):
    first, topics = start(test)
    second = Server(test, *first.options)
    name = first.ready().create(first.upload([chat(i) for i in range(100)]))
    test.wait_until("in progress", lambda: second.batch(name)["in_progress_at"])
    assert second.post(f"/v1/batches/{name}/cancel", {})["status"] == "cancelling"
    first.kill()
    worker = test.start("work", "--model", test.model, "--store", "worker.db", "--engine-test", "fixed:50", "--max-batch", "1", *topics)
    batch = second.wait_for(name)
    assert batch["status"] == "cancelled", batch
    lines = second.lines(batch["output_file_id"]) + second.lines(batch["error_file_id"])
    assert len(by_id(lines)) == 100 and any(line["error"] for line in lines)
    stop(test, worker)
    assert second.stop().status == 0


# ---- completions ----

@case
def a_completion_over_kafka_is_the_answer_of_a_run_for_each_of_two_fronts(test):
    first, topics = start(test)
    second = Server(test, *first.options, "--store", "second.db", "--model-name", "tiny", "--model-name", "small")
    jobs = [chat(i) for i in range(12)] + [chat(12, temperature="hot")]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl")
    expected = {line["custom_id"]: line["response"] for line in test.answers("out.jsonl")}
    worker = test.start("work", "--model", test.model, "--store", "worker.db", *topics)
    fronts = [first.ready(), second.ready()]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        answers = list(pool.map(lambda i: fronts[i % 2].ask("POST", "/v1/chat/completions", jobs[i]["body"]), range(len(jobs))))
    for job, (status, body) in zip(jobs, answers):
        response = expected[job["custom_id"]]
        assert status == response["status_code"] and body.get("choices") == response["body"].get("choices"), (job, status, body)
    assert [model["id"] for model in second.get("/v1/models")["data"]] == ["tiny", "small"] and first.get("/v1/models")["data"] == []
    assert second.get("/v1/models/small")["id"] == "small"
    body = {"model": "tiny", "prompt": ["the", "the winter", "a"], "max_tokens": 4, "temperature": 0, "metadata": {"a": "b"}}
    whole = first.post("/v1/completions", body)
    alone = [second.post("/v1/completions", {**body, "prompt": prompt})["choices"][0]["text"] for prompt in body["prompt"]]
    assert [choice["text"] for choice in whole["choices"]] == alone and whole["metadata"] == {"a": "b"}, whole
    texts, usage, _ = texts_of(second.ask("POST", "/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})[1])
    assert [texts[i] for i in range(3)] == alone and usage == whole["usage"], (texts, usage)
    second.kill()
    second.start()
    assert second.ready().post("/v1/chat/completions", jobs[0]["body"])["choices"] == expected["request-0"]["body"]["choices"]
    stop(test, worker)
    assert first.stop().status == second.stop().status == 0


@case
def embeddings_over_kafka_are_those_of_a_run(test):
    tiny_model.write(test.model, more_keys={"llama.pooling_type": tiny_model.value(tiny_model.UINT32, 1)})
    server, topics = start(test)
    body = {"model": "tiny", "input": ["the water", "winter"]}
    test.write("in.jsonl", [{"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": body}])
    test.run_file("in.jsonl", "out.jsonl")
    worker = test.start("work", "--model", test.model, "--store", "worker.db", *topics)
    assert server.ready().post("/v1/embeddings", body)["data"] == test.answers("out.jsonl")[0]["response"]["body"]["data"]
    assert "start sheaf work with" in server.refuse(400, "POST", "/v1/chat/completions", chat(1)["body"])["message"]
    stop(test, worker)
    assert server.stop().status == 0


@case
def without_a_worker_a_completion_over_kafka_ends_at_its_deadline_and_one_of_a_gone_client_harms_none(test):
    server, topics = start(test)
    server.ready()
    began = time.monotonic()
    status, error = server.ask("POST", "/v1/chat/completions", {**chat(1)["body"], "deadline": int(time.time()) + 1})
    assert status == 504 and error["error"]["code"] == "deadline_exceeded" and time.monotonic() - began < 60, error
    body = json.dumps(chat(2)["body"]).encode()
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        jobs = topics[topics.index("--jobs") + 1]
        test.wait_until("its job", lambda: len(kafka.kcat("-C", "-t", jobs, "-o", "beginning", "-e", "-q", "-f", "%o\\n").splitlines()) == 2)
    worker = test.start("work", "--model", test.model, "--store", "worker.db", *topics)
    assert server.post("/v1/chat/completions", chat(3)["body"])["choices"]
    body = {**chat(4, max_tokens=200, ignore_eos=True)["body"]}
    stop(test, worker)
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)) as client:
        body = json.dumps(body).encode()
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        test.wait_until("its job", lambda: len(kafka.kcat("-C", "-t", jobs, "-o", "beginning", "-e", "-q", "-f", "%o\\n").splitlines()) == 4)
        assert server.stop().status == 0
        assert b'"stopping"' in client.recv(65536)


@case
def a_gone_clients_jobs_are_cancelled_over_kafka_and_the_cancellations_withdrawn(test):
    server, topics = start(test)
    server.ready()
    of_topic = {option[2:]: topics[topics.index(option) + 1] for option in ("--jobs", "--results", "--control")}

    def read(name):
        lines = kafka.kcat("-C", "-t", of_topic[name], "-o", "beginning", "-e", "-q", "-J", "-X", "isolation.level=read_committed")
        return [json.loads(line) for line in lines.splitlines()]

    def cancellations():
        """{key: whether it is in force}"""
        return {record["key"]: record["payload"] is not None for record in read("control") if record["key"].startswith('["cancel"')}

    # 200 steps of 2 s: only a cancellation ends the answers within the test's time
    worker = test.start("work", "--model", test.model, "--store", "worker.db", "--engine-test", "fixed:2000", *topics)
    body = json.dumps({"model": "tiny", "prompt": ["the", "the winter"], "max_tokens": 200, "ignore_eos": True}).encode()
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        test.wait_until("its jobs", lambda: len(read("jobs")) == 2)
    test.wait_until("their results", lambda: len(read("results")) == 2)
    assert all('"cancelled"' in record["payload"] for record in read("results")), read("results")
    test.wait_until("the withdrawals", lambda: cancellations() and not any(cancellations().values()))
    assert server.post("/v1/chat/completions", chat(3, max_tokens=1)["body"])["choices"] and len(cancellations()) == 2
    stop(test, worker)
    assert server.stop().status == 0


@case
def without_a_control_topic_a_gone_clients_job_is_not_cancelled_and_others_are_answered(test):
    server, topics = start(test)
    server.ready()
    kafka.delete_topics(test, topics[topics.index("--control") + 1])
    body = json.dumps(chat(1)["body"]).encode()
    for _ in range(2):
        with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            jobs = topics[topics.index("--jobs") + 1]
            test.wait_until("its job", lambda: kafka.kcat("-C", "-t", jobs, "-o", "beginning", "-e", "-q", "-f", "%o\\n"))
    test.wait_until("the warning", lambda: "jobs of gone clients are not cancelled" in test.stderr_of(server.process))
    status, error = server.ask("POST", "/v1/chat/completions", {**chat(2)["body"], "deadline": int(time.time()) + 1})
    assert status == 504, error
    assert server.stop().status == 0


@case
def a_broker_that_restarts_costs_at_most_the_completions_that_waited(test):
    kafka.need_own_broker()
    server, topics = start(test)
    worker = test.start("work", "--model", test.model, "--store", "worker.db", *topics)
    assert server.ready().post("/v1/chat/completions", chat(1)["body"])["choices"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(server.ask, "POST", "/v1/chat/completions", {**chat(i)["body"], "deadline": int(time.time()) + 120}) for i in range(2, 6)]
        kafka.restart_broker()
        assert {answer.result()[0] for answer in waiting} <= {200, 503, 504}, [answer.result() for answer in waiting]

    def is_answered():
        status, answer = server.ask("POST", "/v1/chat/completions", {**chat(9)["body"], "deadline": int(time.time()) + 30})
        return status == 200 and answer["choices"]
    test.wait_until("an answer", is_answered)
    stop(test, worker)
    assert server.stop().status == 0
