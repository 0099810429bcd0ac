"""sheaf serve --brokers: batches over a real broker."""
import signal

import kafka
from serve import Server, answers_of, by_id, chat
from session import case

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
    process.send_signal(signal.SIGTERM)
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
    assert server.refuse(501, "POST", "/v1/chat/completions", chat(1)["body"])["code"] == "not_supported"
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
