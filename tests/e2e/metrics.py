"""A worker's HTTP server: metrics, page, health; names in dashboards and alerts; SIGHUP and the log."""
import base64
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import kafka
import page
from session import DEADLINE_S, Skip, case, text_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A line of prometheus.io/docs/instrumenting/exposition_formats.
SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? ([-+0-9.eInfNa]+)$')


def jobs(n, **more):
    return [dict({"prompt": text_of(i, 5), "max_tokens": 6, "seed": i}, **more) for i in range(n)]


def served_at(test, worker):
    found = []

    def look():
        found[:] = re.findall(r"figures at http://(\S+)/", test.stderr_of(worker))
        return found or worker.poll() is not None
    test.wait_until("the address", look)
    assert found, test.stderr_of(worker)
    return found[0]


def start(test, *options):
    worker = test.start("work", "--model", test.model, "--metrics", "127.0.0.1:0", *options)
    address = served_at(test, worker)
    test.wait_until("health", lambda: get(address, "/healthz")[0] == 200)
    return worker, address


def get(address, path, method="GET", data=None):
    request = urllib.request.Request(f"http://{address}{path}", method=method, data=data)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
            return response.status, dict(response.headers), response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


def samples(text):
    """{name with labels: value}; checks each line, and that a histogram's buckets are cumulative."""
    values, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        name, labels, value = match.groups()
        assert name in typed or re.sub("_(bucket|sum|count)$", "", name) in typed, line
        assert name + (labels or "") not in values, line
        values[name + (labels or "")] = float(value)
    for name, value in values.items():
        if name.endswith('le="+Inf"}'):
            count = name.replace("_bucket", "_count").replace('le="+Inf"', "").replace(",}", "}").replace("{}", "")
            assert values[count] == value, name
    return values


@case
def connections_that_trickle_keep_no_probe_waiting(test):
    worker, address = start(test)
    host, port = address.rsplit(":", 1)
    slow = []
    for i in range(100):  # more connections than may be open; each has sent part of a request
        slow.append(socket.create_connection((host, int(port)), timeout=DEADLINE_S))
        slow[-1].sendall(b"GET /met")
        if i % 10 == 9:
            assert get(address, "/healthz")[0] == 200
            # The newest connection is still open: the probe did not wait for its timeout.
            assert slow[-1] not in select.select([slow[-1]], [], [], 0)[0], i
    assert get(address, "/metrics")[0] == 200
    for connection in slow:
        connection.close()
    worker.send_signal(signal.SIGTERM)
    assert test.wait(worker).status == 0


@case
def the_figures_are_prometheus_text_and_add_up(test):
    test.write("in.jsonl", jobs(40) + ["no job"])
    test.run("submit", "in.jsonl", "--dataset", "d")
    worker, address = start(test)
    test.wait_until("the answers", lambda: test.query("SELECT n_done + n_failed FROM datasets") == [(41,)])
    # a request waits for new figures for half a second, and then has the last ones
    test.wait_until("the figures", lambda: samples(get(address, "/metrics")[2]).get("sheaf_jobs_inflight") == 0
                    and samples(get(address, "/metrics")[2]).get('sheaf_jobs_total{status="done"}') == 40)
    status, headers, text = get(address, "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), headers
    values = samples(text)
    assert values['sheaf_jobs_total{status="done"}'] == 40 and values['sheaf_jobs_total{status="failed"}'] == 1, text
    assert values['sheaf_job_errors_total{code="invalid_encoding"}'] == 1
    assert values["sheaf_jobs_inflight"] == 0 and values["sheaf_oldest_unfinished_seconds"] == 0
    (counts,) = test.query("SELECT generated_tokens, prefill_tokens, n_steps FROM workers")
    assert values['sheaf_tokens_total{kind="generated"}'] == counts[0], (text, counts)
    assert values['sheaf_tokens_total{kind="prefill"}'] == counts[1]
    assert values["sheaf_steps_total"] == counts[2] == values['sheaf_step_seconds_count{phase="compute"}']
    assert values["sheaf_ready"] == 1 and values["process_resident_memory_bytes"] > 1e6
    assert any(name.startswith('sheaf_build_info{version="') and 'transport="store"' in name for name in values)
    worker.terminate()
    assert test.wait(worker).status == 0


def authorized(address, path, authorization):
    request = urllib.request.Request(f"http://{address}{path}", headers={"Authorization": authorization})
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


@case
def the_page_and_the_metrics_take_the_token_and_probes_take_none(test):
    token = "a-secret-of-16-bytes-or-more"
    test.write("token", [token])
    worker, address = start(test, "--metrics-token", "token")
    for path in ("/", "/metrics"):
        status, headers, body = get(address, path)
        assert status == 401 and headers["WWW-Authenticate"].startswith("Basic") and token not in body, body
        basic = base64.b64encode(f"any:{token}".encode()).decode()
        for good in (f"Bearer {token}", f"bearer {token}", f"Bearer   {token}", f"Basic {basic}", f"Basic  {basic}"):
            assert authorized(address, path, good) == 200, good
        for bad in ("Bearer", "Bearer ", f"Bearer\t{token}", f"Bearer{token}", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Bearer {token[:-1]}x", f"Basic {token}", "Basic !!", "Basic Og==",
                    "Basic " + base64.b64encode(token.encode()).decode(), f"Digest {token}"):
            assert authorized(address, path, bad) == 401, bad
    assert get(address, "/readyz")[0] == 200
    worker.terminate()


@case
def an_address_that_others_reach_takes_a_token(test):
    test.write("token", ["a-secret-of-16-bytes-or-more"])
    for address in ("0.0.0.0:0", "[::]:0"):
        refused = test.run("work", "--model", test.model, "--metrics", address, status=2)
        assert "--metrics-token" in refused.err and "batch:" not in refused.err, refused
    for content, part in (("short", "printable characters"), ("b" * 257, "printable characters"), ("with a blank in the middle", "printable"),
                          (None, "No such file")):
        if content:
            test.write("bad", [content])
        refused = test.run("work", "--model", test.model, "--metrics", "0", "--metrics-token", "bad" if content else "none", status=2)
        assert "--metrics-token" in refused.err and part in refused.err, refused
    finished = test.run("work", "--model", test.model, "--metrics", "0.0.0.0:0", "--metrics-token", "token", "--exit-when-idle", "0")
    assert "figures at http://0.0.0.0:" in finished.err, finished


@case
def prompts_and_answers_are_on_the_page_only_when_asked_for(test):
    test.write("in.jsonl", [{"custom_id": "fine", "prompt": "a private prompt", "max_tokens": 3}, {"custom_id": "faulty", "prompt": 7.25}])
    for shown in (False, True):
        test.run("submit", "in.jsonl", "--dataset", f"d{shown}")
        worker, address = start(test, *["--metrics-content"] * shown)
        test.wait_until("the answers", lambda: "faulty" in get(address, "/")[2] and "fine" in get(address, "/")[2])  # pylint: disable=W0640
        text = get(address, "/")[2]
        page.Page(text)
        assert ("a private prompt" in text) == ("7.25" in text) == shown, text
        worker.terminate()
        test.wait(worker)


@case
def the_page_shows_progress_needs_no_script_and_escapes_names(test):
    test.write("in.jsonl", jobs(3))
    test.run("submit", "in.jsonl", "--dataset", "<script>alert(1)</script>")
    worker, address = start(test)
    test.wait_until("the answers", lambda: test.query("SELECT n_done FROM datasets") == [(3,)]
                    and page.Page(get(address, "/")[2]).tiles().get("jobs done") == "3")
    status, headers, text = get(address, "/")
    assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"], headers
    live = page.Page(text)
    assert live.table("dataset")[1][:1] + live.table("dataset")[1][2:6] == ["<script>alert(1)</script>", "3", "3", "0", "0"], text
    assert live.tiles()["jobs done"] == "3" and live.all("progress")
    assert [row[0] for row in live.table("worker")[1:]] == [str(n) for (n,) in test.query("SELECT id FROM workers")]
    worker.terminate()
    test.wait(worker)


@case
def the_size_of_the_store_is_that_of_its_files(test):
    worker, address = start(test)

    def sizes():
        return sum(os.path.getsize(os.path.join(test.folder, "sheaf.db" + end)) for end in ("", "-wal"))

    def agrees():
        before, served = sizes(), samples(get(address, "/metrics")[2])["sheaf_store_bytes"]
        return before == sizes() and served == before
    test.wait_until("the files' size", agrees)
    worker.terminate()
    assert test.wait(worker).status == 0


@case
def without_a_token_a_page_answers_by_the_loopback_s_names_alone(test):
    worker, address = start(test)
    host, port = address.split(":")

    def status_for(*names):
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            head = "".join(f"Host: {name}\r\n" for name in names)
            connection.sendall(f"GET / HTTP/1.0\r\n{head}\r\n".encode())
            return int(connection.recv(100).split()[1])
    for name in ("localhost", f"LocalHost:{port}", "127.0.0.1", f"127.1.2.3:{port}", "[::1]", f"[::1]:{port}"):
        assert status_for(name) == 200, name
    for name in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "",
                 "a" * 2000):
        assert status_for(name) == 403, name
    assert status_for() == 200  # no browser


@case
def only_small_gets_are_answered(test):
    worker, address = start(test)
    assert get(address, "/nothing")[0] == 404
    for path, expected in (("/", 200), ("/metrics", 200), ("/healthz", 200), ("/nothing", 404)):
        status, headers, body = get(address, path, "HEAD")
        assert (status, body) == (expected, "") and int(headers["Content-Length"]) > 0, (path, headers)
    status, headers, _ = get(address, "/metrics", "POST", b"x" * 100000)
    assert status == 405 and headers["Allow"] == "GET, HEAD", headers
    assert get(address, "/metrics", "DELETE")[0] == 405
    host, port = address.split(":")
    for hostile in (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: y\r\n" % i for i in range(20000)) + b"\r\n",
                    b"\x00\xff" * 1000, b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            try:
                connection.sendall(hostile)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(100)
            except TimeoutError:
                raise
            except OSError:  # closed by the server, before or after the request was sent
                answer = b""
            assert not answer.startswith(b"HTTP/1.1 200"), (hostile[:40], answer)
    for large, expected in ((b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"414"), (b"GET / HTTP/1.1\r\nx: " + b"y" * 2000000, b"431"),
                            (bytes.fromhex("16030100c8010000c40303") + b"\xaa" * 194, b"400")):
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
            try:
                connection.sendall(large)
            except ConnectionError:  # it was answered, and closed, before all was sent
                pass
            answer = connection.recv(100)
            assert answer.startswith(b"HTTP/1.1 " + expected), answer
    # Many silent clients do not block the server for ever, and the worker continues.
    silent = [socket.create_connection((host, int(port)), timeout=DEADLINE_S) for _ in range(20)]
    assert get(address, "/healthz") [0] == 200
    for connection in silent:
        connection.close()
    worker.terminate()
    assert test.wait(worker).status == 0


@case
def an_address_that_is_wrong_or_taken_is_reported_before_the_model_is_loaded(test):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = test.run("work", "--model", test.model, "--metrics", str(port), status=2)
        assert f"--metrics {port}: Address already in use" in refused.err and "batch:" not in refused.err, refused
    for address in ("70000", "host", "127.0.0.1:", ":80", "1:2:3:4", "-1"):
        refused = test.run("work", "--model", test.model, f"--metrics={address}", status=2)
        assert f"--metrics {address}: expected HOST:PORT" in refused.err, refused


@case
def kafka_s_figures_are_there_and_readiness_follows_the_broker(test):
    topics = kafka.Topics(test, 2)
    topics.produce(jobs(30, custom_id="x"))
    worker = topics.work("--metrics", "127.0.0.1:0", "--engine-test", "instant")
    address = served_at(test, worker)
    test.wait_until("the results", lambda: get(address, "/readyz")[0] == 200
                    and samples(get(address, "/metrics")[2]).get('sheaf_jobs_total{status="done"}') == 30)
    values = samples(get(address, "/metrics")[2])
    assert values['sheaf_txn_total{outcome="committed"}'] >= 1 and values["sheaf_rebalances_total"] >= 1
    assert 0 < values["sheaf_offset_map_bytes"] <= 4096
    lags = [value for name, value in values.items() if name.startswith("sheaf_partition_unfinished{")]
    assert len(lags) == 2, values
    test.wait_until("no lag", lambda: sum(value for name, value in samples(get(address, "/metrics")[2]).items()
                                          if name.startswith("sheaf_partition_unfinished{")) == 0)
    assert "Partitions" in get(address, "/")[2]
    worker.terminate()
    assert test.wait(worker).status == 0


@case
def a_worker_that_waits_for_its_first_broker_says_that_it_starts(test):
    """A broker that takes connections and says nothing, as a stopped process does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE_S)
        worker = test.start("work", "--model", test.model, "--threads", "1", "--brokers",
                            f"127.0.0.1:{silent.getsockname()[1]}", "--metrics", "127.0.0.1:0")
        address = served_at(test, worker)
        with silent.accept()[0]:
            for path in ("/healthz", "/readyz", "/metrics", "/"):
                status, _, text = get(address, path)
                assert status == 503 and re.fullmatch("starting: connecting to Kafka\n|starting: .*rdkafka.*\n", text), (path, text)
            worker.terminate()
            assert test.wait(worker).status == 0


@case
def the_endpoints_answer_while_a_commit_waits_for_a_broker_that_hangs(test):
    """A call of librdkafka then waits for socket.timeout.ms, 10 s and more than once."""
    kafka.need_own_broker()
    topics = kafka.Topics(test, 1)
    topics.produce([{"custom_id": f"{i}", "prompt": text_of(i, 5), "max_tokens": 20, "seed": i} for i in range(2000)])
    worker = topics.work("--metrics", "127.0.0.1:0", "--engine-test", "fixed:10", "--max-batch", "8")  # 50 s: the broker hangs within
    address = served_at(test, worker)
    test.wait_until("a commit", lambda: get(address, "/readyz")[0] == 200
                    and samples(get(address, "/metrics")[2]).get('sheaf_jobs_total{status="done"}', 0) > 0)
    with open(os.path.join(kafka.broker["folder"], "pid"), encoding="utf-8") as file:
        hung = int(file.read())
    os.kill(hung, signal.SIGSTOP)
    try:
        test.wait_until("it is not ready", lambda: get(address, "/readyz")[0] == 503)
        assert get(address, "/healthz")[0] == 200
        assert samples(get(address, "/metrics")[2])["sheaf_ready"] == 0
        status, _, text = get(address, "/")
        assert status == 200 and "Partitions" in text, text
    finally:
        os.kill(hung, signal.SIGCONT)
    test.wait_until("it is ready again", lambda: get(address, "/readyz")[0] == 200)
    worker.terminate()
    assert test.wait(worker).status == 0
    topics.work_to_the_end("--engine-test", "instant")
    assert len(topics.results()) == 2000


@case
def a_worker_without_jobs_is_not_ready_while_its_broker_hangs(test):
    """A broker that takes connections and answers nothing, as a stopped process does."""
    kafka.need_own_broker()
    topics = kafka.Topics(test, 1)
    worker = topics.work("--metrics", "127.0.0.1:0", "--engine-test", "instant")
    address = served_at(test, worker)
    test.wait_until("it is ready", lambda: get(address, "/readyz")[0] == 200)
    with open(os.path.join(kafka.broker["folder"], "pid"), encoding="utf-8") as file:
        hung = int(file.read())
    os.kill(hung, signal.SIGSTOP)
    try:
        # an unanswered request, or timeouts of its clients, whichever is detected first
        test.wait_until("it says why", lambda: re.search("no broker (has answered|is up)", get(address, "/readyz")[2]))
        assert get(address, "/readyz")[0] == 503 and get(address, "/healthz")[0] == 200
    finally:
        os.kill(hung, signal.SIGCONT)
    answers = []

    def is_ready():
        answers[:] = get(address, "/readyz")
        return answers[0] == 200

    test.wait_until(lambda: f"it is ready again, and says {answers[2]!r}", is_ready)
    worker.terminate()
    assert test.wait(worker).status == 0


@case
def dashboard_and_alerts_use_names_that_are_served(test):
    """Each name in an expression is one of the exporter's table, a histogram's with its endings."""
    with open(os.path.join(ROOT, "consumer", "observe", "metrics.c"), encoding="utf-8") as file:
        rows = re.findall(r'\{"([a-z_]+)",\s+(COUNTER|GAUGE|HISTOGRAM),\s', file.read())
    assert len(rows) > 30
    served = {name for name, _ in rows} | {name + end for name, kind in rows if kind == "HISTOGRAM"
                                           for end in ("_bucket", "_sum", "_count")}
    served.add("up")  # Prometheus' own
    with open(os.path.join(ROOT, "ops", "grafana.json"), encoding="utf-8") as file:
        dashboard = json.load(file)
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    with open(os.path.join(ROOT, "ops", "alerts.yaml"), encoding="utf-8") as file:
        alerts = re.findall(r"^\s+expr: (.+)$", file.read(), re.M)
    assert len(expressions) > 10 and len(alerts) > 5
    used = set()
    for expression in expressions + alerts:
        bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on|ignoring|without) ?\([^)]*\)', " ", expression)
        used |= set(re.findall(r"\b(?:sheaf|kafka|process|up)(?:_[a-z_]+)?\b", bare))
    assert used <= served, used - served
    assert {"sheaf_jobs_total", "sheaf_partition_unfinished", "sheaf_oldest_unfinished_seconds"} <= used


def promtool(test):
    """Prometheus' own checker: an installed one, else that of Debian's package, which is unpacked and not installed.
    Debian 13 has a package of it alone, Debian 12 the server's."""
    installed = shutil.which("promtool")
    if installed:
        return installed
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "sheaf", "prometheus")
    program = os.path.join(cache, "usr", "bin", "promtool")
    if not os.path.exists(program):
        subprocess.run("(apt-get download -qq promtool || apt-get download -qq prometheus) && dpkg-deb -x prom*.deb unpacked", shell=True, cwd=test.folder,
                       check=False, capture_output=True)
        if not test.exists("unpacked/usr/bin/promtool"):
            raise Skip("promtool: no prometheus, and no package of it")
        os.makedirs(os.path.dirname(cache), exist_ok=True)
        shutil.move(test.path("unpacked"), cache)
    return program


def alerts():
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Skip("no python3-yaml") from error
    with open(os.path.join(ROOT, "ops", "alerts.yaml"), encoding="utf-8") as file:
        return yaml.safe_load(file)


# Each alert: series that raise it within an hour, and similar ones that don't. Values as promtool has them, one a minute.
RAISED = {
    "SheafWorkerGone": ({'up{job="sheaf"}': "0x60"}, {'up{job="sheaf"}': "1x60", 'up{job="other"}': "0x60"}),
    "SheafNotReady": ({"sheaf_ready": "0x60"}, {"sheaf_ready": "1x60"}),
    "SheafStuck": ({"sheaf_oldest_unfinished_seconds": "0+60x60", "sheaf_jobs_inflight": "1x60"},
                   {"sheaf_oldest_unfinished_seconds": "0+60x60", "sheaf_jobs_inflight": "0x60"}),
    "SheafRecordsDeleted": ({"sheaf_deleted_records_total": "0x50 7x9"}, {"sheaf_deleted_records_total": "7x60"}),
    "SheafLagGrows": ({'sheaf_partition_unfinished{topic="t",partition="0"}': "1000+10x60",
                       'sheaf_partition_unfinished{topic="t",partition="1"}': "100-1x60"},
                      {'sheaf_partition_unfinished{topic="t",partition="0"}': "9000-10x60"}),
    "SheafNoProgress": ({'sheaf_jobs_total{job="sheaf",status="done"}': "5x60", 'sheaf_jobs_inflight{job="sheaf"}': "3x60"},
                        {'sheaf_jobs_total{job="sheaf",status="done"}': "5+1x60", 'sheaf_jobs_inflight{job="sheaf"}': "3x60"}),
    "SheafTransactionsAborted": ({'sheaf_txn_total{outcome="aborted",instance="a"}': "0+60x60"},
                                 {'sheaf_txn_total{outcome="committed",instance="a"}': "0+60x60"}),
    "SheafRebalances": ({'sheaf_rebalances_total{instance="a"}': "0+2x60"}, {'sheaf_rebalances_total{instance="a"}': "2x60"}),
    "SheafOffsetMapFull": ({"sheaf_offset_map_bytes": "2700x60"}, {"sheaf_offset_map_bytes": "300x60"}),
    "SheafPartitionStalled": ({'sheaf_partition_stalled_seconds{topic="t",partition="0"}': "0+60x60"},
                              {'sheaf_partition_stalled_seconds{topic="t",partition="0"}': "0x10 0+60x2 0x40"}),
    "SheafQuarantine": ({'sheaf_partition_quarantined{topic="t",partition="0"}': "0x50 3x9"},
                        {'sheaf_partition_quarantined{topic="t",partition="0"}': "0x60"}),
    "SheafThrottled": ({'sheaf_throttled_seconds_total{instance="a"}': "0+40x60"}, {'sheaf_throttled_seconds_total{instance="a"}': "0+20x60"}),
    "SheafDeadLetters": ({'sheaf_dead_letters_total{instance="a"}': "0x50 3x9"}, {'sheaf_dead_letters_total{instance="a"}': "3x60"}),
    "SheafJobsFail": ({'sheaf_job_errors_total{code="c"}': "0+3x60", 'sheaf_jobs_total{status="failed"}': "0+3x60",
                       'sheaf_jobs_total{status="done"}': "0+7x60"},
                      {'sheaf_job_errors_total{code="c"}': "0+1x60", 'sheaf_job_errors_total{code="d"}': "0+1x60",
                       'sheaf_jobs_total{status="failed"}': "0+2x60", 'sheaf_jobs_total{status="done"}': "0+8x60"}),
    "SheafStoreGrows": ({"sheaf_store_bytes": "30000000000x90"}, {"sheaf_store_bytes": "1000000000x90"}),
}


@case
def each_alert_is_raised_by_what_it_names_and_by_nothing_less(test):
    rules = alerts()
    assert {rule["alert"] for group in rules["groups"] for rule in group["rules"]} == set(RAISED)
    tests = []
    for name, ways in RAISED.items():
        for n_firing, series in zip((1, None), ways):
            samples = [{"labels": "{}", "value": n_firing}] if n_firing else []
            tests.append({"name": name, "interval": "1m",
                          "input_series": [{"series": key, "values": values} for key, values in series.items()],
                          "promql_expr_test": [{"expr": f'count(max_over_time(ALERTS{{alertname="{name}",alertstate="firing"}}[90m]))',
                                                "eval_time": "90m", "exp_samples": samples}]})
    test.write("alerts.yaml", [rules])
    test.write("tests.yaml", [{"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": tests}])
    ran = subprocess.run([promtool(test), "test", "rules", test.path("tests.yaml")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@case
def prometheus_accepts_the_expressions_of_alerts_and_dashboard(test):
    with open(os.path.join(ROOT, "ops", "grafana.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    expressions = [target["expr"].replace("$__rate_interval", "5m") for panel in panels for target in panel.get("targets", [])]
    rules = [{"record": f"panel:{i}", "expr": expression} for i, expression in enumerate(expressions)]
    test.write("panels.yaml", [{"groups": [{"name": "panels", "rules": rules}]}])
    ran = subprocess.run([promtool(test), "check", "rules", os.path.join(ROOT, "ops", "alerts.yaml"), test.path("panels.yaml")],
                         capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@case
def sighup_reopens_the_log(test):
    worker = test.start("work", "--model", test.model, "--log", "sheaf.log")
    test.wait_until("the log", lambda: test.exists("sheaf.log") and b"batch:" in test.read("sheaf.log"))
    os.rename(test.path("sheaf.log"), test.path("sheaf.log.1"))
    worker.send_signal(signal.SIGHUP)
    test.wait_until("a new log", lambda: test.exists("sheaf.log"))
    worker.terminate()
    finished = test.wait(worker)
    assert finished.status == 0 and finished.err == "", finished
    assert b"stopping" in test.read("sheaf.log") and b"stopping" not in test.read("sheaf.log.1")
    assert re.match(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", test.read("sheaf.log")), test.read("sheaf.log")
    assert os.stat(test.path("sheaf.log")).st_mode & 0o777 == 0o600
    refused = test.run("work", "--model", test.model, "--log", "/nonexistent/sheaf.log", status=1)
    assert "--log /nonexistent/sheaf.log: No such file" in refused.err, refused


@case
def without_a_log_file_and_a_terminal_sighup_changes_nothing(test):
    test.write("in.jsonl", jobs(3))
    worker = test.start("work", "--model", test.model, "--store", "sheaf.db")
    test.wait_until("a start", lambda: "batch:" in test.stderr_of(worker))
    worker.send_signal(signal.SIGHUP)
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.wait_until("the answers", lambda: test.query("SELECT n_done FROM datasets") == [(3,)])
    worker.terminate()
    assert test.wait(worker).status == 0


def finish():
    kafka.finish()
