"""Spans of jobs at an OpenTelemetry collector: a server of this test that takes OTLP/HTTP with JSON."""
import contextlib
import http.server
import json
import threading

import kafka
from kafka import finish  # noqa: F401  (finish stops the suite's broker)
from session import case, text_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@contextlib.contextmanager
def collector(status=200):
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # pylint: disable=invalid-name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()


def spans_of(requests):
    return [span for _, _, body in requests for resource in body["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]


def attributes(span):
    def value_of(value):
        ((kind, inner),) = value.items()
        return int(inner) if kind == "intValue" else [value_of(one) for one in inner["values"]] if kind == "arrayValue" else inner
    return {item["key"]: value_of(item["value"]) for item in span["attributes"]}


def check_tree(job, spans):
    """Its phases follow one another within it."""
    phases = {span["name"]: span for span in spans if span.get("parentSpanId") == job["spanId"]}
    assert {"prefill", "commit"} <= set(phases) and ("decode" in phases or attributes(job)["gen_ai.usage.output_tokens"] == 1), phases
    order = [phases[name] for name in ("queued", "prefill", "decode", "commit") if name in phases]
    times = [int(job["startTimeUnixNano"]), *(int(span[key]) for span in order for key in ("startTimeUnixNano", "endTimeUnixNano")),
             int(job["endTimeUnixNano"])]
    assert times == sorted(times), times
    assert all(span["traceId"] == job["traceId"] and span["kind"] == 1 for span in order)


@case
def each_job_of_the_embedded_queue_has_a_span_with_its_phases(test):
    test.write("in.jsonl", [{"custom_id": f"{i}", "prompt": text_of(i, 4), "max_tokens": 4, "seed": i} for i in range(300)] +
               [{"custom_id": "bad", "prompt": "the", "max_tokens": 100000}])
    with collector() as (url, requests):
        test.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": url + "/", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=k1,x-tenant=a b", "OTEL_SERVICE_NAME": "labels"}
        test.run("submit", "in.jsonl", "--dataset", "set")
        test.run("work", "--model", test.model, "--exit-when-idle", "0", status=3)
        spans = spans_of(requests)
    jobs = [span for span in spans if span["kind"] == 5]
    assert len(jobs) == 301 and len({span["traceId"] for span in jobs}) == 301 and len({span["spanId"] for span in spans}) == len(spans)
    for path, headers, body in requests:
        assert path == "/v1/traces" and headers["api-key"] == "k1" and headers["x-tenant"] == "a b" and headers["Content-Type"] == "application/json"
        resource = attributes(body["resourceSpans"][0]["resource"])
        assert resource["service.name"] == "labels" and resource["service.version"], resource
    figures = {name: row for name, *row in test.query("SELECT custom_id, prompt_tokens, completion_tokens, finish_reason FROM jobs")}
    for job in jobs:
        found = attributes(job)
        prompt, completion, reason = figures[found["sheaf.custom_id"]]
        assert found["sheaf.dataset"] == "set" and found["messaging.system"] == "store" and found["gen_ai.operation.name"] == "text_completion", found
        if found["sheaf.custom_id"] == "bad":
            assert job["status"]["code"] == 2 and found["error.type"] == "context_length_exceeded", job
            continue
        assert "status" not in job and (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (prompt, completion), found
        assert found["gen_ai.response.finish_reasons"] == [reason] and found["gen_ai.response.model"] == "tiny", found
        check_tree(job, spans)


@case
def a_record_s_trace_goes_on_and_one_that_is_not_sampled_has_no_span(test):
    topics = kafka.Topics(test, 1)
    for name, parent in (("sampled", f"00-{TRACE}-{PARENT}-01"), ("unsampled", f"00-{TRACE}-{PARENT}-00"), ("odd", "00-xyz-01")):
        topics.produce([{"custom_id": name, "prompt": "the", "max_tokens": 3, "messages": None}], "jobs", "-H", f"traceparent={parent}")
    with collector() as (url, requests):
        test.environment["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = url + "/own/path"
        topics.work_to_the_end()
        spans = spans_of(requests)
    assert {path for path, _, _ in requests} == {"/own/path"}
    jobs = {attributes(span)["sheaf.custom_id"]: span for span in spans if span["kind"] == 5}
    assert sorted(jobs) == ["odd", "sampled"], jobs
    assert (jobs["sampled"]["traceId"], jobs["sampled"]["parentSpanId"]) == (TRACE, PARENT), jobs
    assert "parentSpanId" not in jobs["odd"] and jobs["odd"]["traceId"] != TRACE
    found = attributes(jobs["sampled"])
    assert found["messaging.destination.name"] == topics.prefix + "jobs" and found["messaging.kafka.offset"] == 0, found
    assert found["messaging.consumer.group.name"] == topics.group and found["messaging.destination.partition.id"] == "0", found
    assert jobs["sampled"]["name"] == f"process {topics.prefix}jobs"
    check_tree(jobs["sampled"], spans)
    results = {kafka.headers_of(record).get("traceparent") for record in topics.read("results")}
    assert f"00-{TRACE}-{PARENT}-01" in results, results


@case
def a_collector_that_refuses_or_is_away_costs_a_warning_and_spans_alone(test):
    test.write("in.jsonl", [{"custom_id": f"{i}", "prompt": text_of(i, 4), "max_tokens": 4, "seed": i} for i in range(20)])
    with collector(503) as (url, requests):
        test.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        said = test.run("run", "in.jsonl", test.model, "-o", "out.jsonl").err
        assert len(requests) == 1
    assert "no spans to" in said and "status 503; they are dropped" in said, said
    said = test.run("run", "in.jsonl", test.model, "-o", "again.jsonl", "--store", "again.db").err  # nothing listens any more
    assert "no spans to" in said and len(test.answers("again.jsonl")) == 20, said
    test.environment["OTEL_SDK_DISABLED"] = "true"
    assert "spans" not in test.run("run", "in.jsonl", test.model, "-o", "third.jsonl", "--store", "third.db").err
