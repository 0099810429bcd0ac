"""sheaf serve: OpenAI's files, batches and completions over HTTP, by plain http.client; kills, two servers, slow clients."""
import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import sqlite3
import time

import served_schema
import tiny_model
from classify import head_folder
from clients import THINKS, without_one
from session import DEADLINE_S, case, is_wide, varied_jobs

SEED = int(os.environ.get("SHEAF_TEST_SEED", "20240607"))
N_KILLS = int(os.environ.get("SHEAF_TEST_KILLS", "20" if is_wide() else "5"))
ENDED = ("completed", "failed", "expired", "cancelled")
BOUNDARY = "a-line-between-fields"
TOKEN, OTHER_TOKEN = "a-token-of-the-first-client", "another-client-s-own-token"
# Members of OpenAI's objects (platform.openai.com/docs/api-reference): each is present, null or not.
BATCH_MEMBERS = {"id", "object", "endpoint", "errors", "input_file_id", "completion_window", "status", "output_file_id", "error_file_id",
                 "created_at", "in_progress_at", "expires_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at",
                 "cancelled_at", "request_counts", "metadata"}
FILE_MEMBERS = {"id", "object", "bytes", "created_at", "expires_at", "filename", "purpose", "status", "status_details"}


class Server:
    """A server and a client of it. Its port is chosen by the first start, and kept by the next ones."""

    def __init__(self, test, *options, token=None, port=0):
        self.test, self.options, self.token, self.port = test, options, token, port
        self.start()

    def start(self):
        model = () if "--no-work" in self.options else ("--model", self.test.model)
        self.process = self.test.start("serve", *model, "--listen", f"127.0.0.1:{self.port}", *self.options)

        def look():
            found = re.findall(r"answering at http://127\.0\.0\.1:(\d+)/v1", self.test.stderr_of(self.process))
            self.port = int(found[0]) if found else self.port
            return found or self.process.poll() is not None
        self.test.wait_until("the address", look)
        assert self.process.poll() is None, self.test.stderr_of(self.process)

    def ready(self):
        self.test.wait_until("ready", lambda: self.ask("GET", "/readyz")[0] == 200)
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self.test.wait(self.process)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.test.wait(self.process)

    def ask(self, method, path, body=None, headers=None):
        """(status, body: an object if it is JSON, else bytes)"""
        headers = dict(headers or {})
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
            kind = response.headers["Content-Type"]
            content = json.loads(content) if kind == "application/json" else content
            served_schema.check(method, path, response.status, kind, content)
            return response.status, content
        finally:
            connection.close()

    def get(self, path):
        status, content = self.ask("GET", path)
        assert status == 200, (path, status, content)
        return content

    def post(self, path, body):
        status, content = self.ask("POST", path, body)
        assert status == 200, (path, status, content)
        return content

    def refuse(self, expected, method, path, body=None, headers=None):
        """The error of a request that is refused with this status."""
        status, content = self.ask(method, path, body, headers)
        assert status == expected, (method, path, status, content)
        assert set(content) <= {"error", "errors"} and set(content["error"]) == {"message", "type", "param", "code"}, content
        assert content["error"]["message"] and content["error"]["type"].endswith("_error"), content
        return content["error"]

    def try_upload(self, content, filename="in.jsonl", fields=(("purpose", "batch"),)):
        parts = [f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields]
        if content is not None:
            parts.append(f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
                         "Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
        parts.append(f"--{BOUNDARY}--\r\n".encode())
        return self.ask("POST", "/v1/files", b"".join(parts), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"})

    def upload(self, lines, **more):
        content = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
        status, file = self.try_upload(content, **more)
        assert status == 200, (status, file)
        assert set(file) == FILE_MEMBERS and file["bytes"] == len(content), file
        return file["id"]

    def create(self, file, endpoint="/v1/chat/completions", **more):
        batch = self.post("/v1/batches", {"input_file_id": file, "endpoint": endpoint, "completion_window": "24h", **more})
        assert set(batch) == BATCH_MEMBERS, batch
        return batch["id"]

    def batch(self, name):
        return self.get(f"/v1/batches/{name}")

    def wait_for(self, name, states=ENDED):
        self.test.wait_until(f"{name} in {states}", lambda: self.batch(name)["status"] in states)
        return self.batch(name)

    def lines(self, file):
        return [json.loads(line) for line in self.get(f"/v1/files/{file}/content").splitlines()] if file else []


@contextlib.contextmanager
def serving(test, *options, **more):
    server = Server(test, *options, **more)
    try:
        yield server.ready()
    finally:
        if server.process.poll() is None:
            finished = server.stop()
            assert finished.status == 0, finished


def chat(i, **more):
    body = {"model": "tiny", "messages": [{"role": "user", "content": f"the question {i}"}], "max_tokens": 6, "temperature": 0, **more}
    return {"custom_id": f"request-{i}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def by_id(lines):
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines), "a custom_id has two lines"
    return found


def answers_of(lines):
    """{custom_id: the fields that do not depend on the names of dataset and job}"""
    return {line["custom_id"]: (line["response"]["status_code"], line["response"]["body"].get("choices"), line["response"]["body"].get("error"))
            for line in lines}


def texts_of(events):
    """(concatenated texts of a stream's choices, usage, finish reasons)"""
    texts, usage, reasons = {}, None, {}
    assert events.endswith(b"data: [DONE]\n\n"), events
    for event in events.split(b"\n\n"):
        if not event.startswith(b"data: {"):
            continue
        chunk = json.loads(event[6:])
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            text = choice["delta"].get("content") if "delta" in choice else choice["text"]
            texts[choice["index"]] = texts.get(choice["index"], "") + (text or "")
            reasons[choice["index"]] = choice["finish_reason"] or reasons.get(choice["index"])
    return texts, usage, reasons


# ---- batches ----

@case
def a_batch_has_the_answers_of_a_run_of_its_file(test):
    jobs = [chat(i) for i in range(12)] + [chat(12, temperature="hot"), chat(13, temperature=0.9, n=2)]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl", "--errors", "errors.jsonl")
    with serving(test) as server:
        file = server.upload(jobs)
        name = server.create(file, metadata={"project": "a", "b": "c"})
        batch = server.wait_for(name)
        assert batch["status"] == "completed" and batch["metadata"] == {"project": "a", "b": "c"}, batch
        assert batch["request_counts"] == {"total": 14, "completed": 13, "failed": 1}, batch
        times = [batch[key] for key in ("created_at", "in_progress_at", "finalizing_at", "completed_at")]
        assert times == sorted(times) and batch["expires_at"] == batch["created_at"] + 86400, batch
        assert not any(batch[key] for key in ("failed_at", "expired_at", "cancelling_at", "cancelled_at", "errors")), batch
        output, errors = server.lines(batch["output_file_id"]), server.lines(batch["error_file_id"])
        assert answers_of(output) == answers_of(test.answers("out.jsonl"))
        assert answers_of(errors) == answers_of(test.answers("errors.jsonl")) and len(errors) == 1
        assert server.batch(server.create(file, metadata={"é" * 64: "é" * 512}))["metadata"] == {"é" * 64: "é" * 512}
        assert [line["custom_id"] for line in output] == [job["custom_id"] for job in jobs if job["custom_id"] != "request-12"]
        described = server.get(f"/v1/files/{batch['output_file_id']}")
        assert described["purpose"] == "batch_output" and described["bytes"] == len(server.get(f"/v1/files/{batch['output_file_id']}/content"))
        test.run("collect", "--dataset", name, "-o", "collected.jsonl", "--errors", "collected-errors.jsonl")
        assert test.read("collected.jsonl") == server.get(f"/v1/files/{batch['output_file_id']}/content")
        test.run("dataset", "delete", name)
        assert server.batch(name)["request_counts"]["completed"] == 13 and len(server.lines(batch["output_file_id"])) == 13


@case
def a_batch_without_failed_requests_has_no_error_file(test):
    with serving(test) as server:
        done = server.wait_for(server.create(server.upload([chat(1)])))
        assert done["error_file_id"] is None and len(server.lines(done["output_file_id"])) == 1, done
        completion = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "the", "max_tokens": 3}}
        done = server.wait_for(server.create(server.upload([completion]), endpoint="/v1/completions"))
        assert server.lines(done["output_file_id"])[0]["response"]["body"]["object"] == "text_completion", done
        failing = chat(1, temperature="hot")
        done = server.wait_for(server.create(server.upload([failing])))
        assert done["output_file_id"] is None and len(server.lines(done["error_file_id"])) == 1, done


@case
def a_bad_file_is_refused_when_its_batch_is_created_with_the_numbers_of_its_lines(test):
    faults = {"{no json": "invalid_json_line", "[1]": "invalid_json_line", json.dumps(dict(chat(1), custom_id=7)): "invalid_custom_id",
              json.dumps({k: v for k, v in chat(2).items() if k != "custom_id"}): "missing_required_parameter",
              json.dumps(dict(chat(3), method="GET")): "invalid_method", json.dumps(dict(chat(4), url="/v1/completions")): "mismatched_url",
              json.dumps(dict(chat(5), body=[])): "invalid_type", json.dumps({**chat(6), "custom_id": "good"}): "duplicate_custom_id",
              json.dumps({k: v for k, v in chat(7).items() if k != "url"}): "missing_required_parameter"}
    good = json.dumps({**chat(0), "custom_id": "good"})
    with serving(test) as server:
        body = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
        for line, code in faults.items():
            file = server.upload([good, "", line])
            error = server.refuse(400, "POST", "/v1/batches", {**body, "input_file_id": file})
            assert error["code"] == code and "line 3: " in error["message"] and error["param"] == "input_file_id", (line, error)
            status, content = server.ask("POST", "/v1/batches", {**body, "input_file_id": file})
            (listed,) = content["errors"]["data"]
            assert listed["line"] == 3 and listed["code"] == code, content
            assert server.ask("DELETE", f"/v1/files/{file}")[0] == 200  # no batch uses it
        many = server.upload([good] + ["x"] * 300)
        status, content = server.ask("POST", "/v1/batches", {**body, "input_file_id": many})
        assert [fault["line"] for fault in content["errors"]["data"]] == list(range(2, 102)) and "295 more" in content["error"]["message"]
        empty = server.upload([""])
        assert server.refuse(400, "POST", "/v1/batches", {**body, "input_file_id": empty})["code"] == "empty_file"
        assert server.get("/v1/batches")["data"] == []


@case
def what_does_not_exist_is_404_and_what_is_invalid_400(test):
    with serving(test) as server:
        file = server.upload([chat(1)])
        body = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        for method, path in (("GET", "/v1/files/file-x"), ("GET", "/v1/files/file-x/content"), ("DELETE", "/v1/files/file-x"),
                             ("GET", "/v1/files/..%2f..%2fsheaf.db/content"), ("GET", "/v1/batches/batch_x"),
                             ("POST", "/v1/batches/batch_x/cancel"), ("GET", "/v1/models/other"), ("GET", "/v1/nothing"), ("GET", "/")):
            assert server.refuse(404, method, path)["type"] == "invalid_request_error"
        server.refuse(404, "POST", "/v1/batches", {**body, "input_file_id": "file-x"})
        for change, param in (({"endpoint": "/v1/none"}, "endpoint"), ({"completion_window": "1h"}, "completion_window"),
                              ({"metadata": {"a": 1}}, "metadata"), ({"metadata": {str(i): "x" for i in range(17)}}, "metadata"),
                              ({"metadata": []}, "metadata"), ({"metadata": {"é" * 65: "x"}}, "metadata"), ({"metadata": {"a": "é" * 513}}, "metadata"), ({"input_file_id": 7}, "input_file_id"), ({"endpoint": None}, "endpoint"),
                              ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after.seconds")):
            assert server.refuse(400, "POST", "/v1/batches", {**body, **change})["param"] == param, change
        assert "Unrecognized" in server.refuse(400, "POST", "/v1/batches", {**body, "extra": 1})["message"]
        for raw in (b"", b"{", b"[]", b"\xff"):
            server.refuse(400, "POST", "/v1/batches", raw, {"Content-Type": "application/json"})
            server.refuse(400, "POST", "/v1/chat/completions", raw, {"Content-Type": "application/json"})
        for query, param in (("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("after=batch_x", "after"), ("order=up", "order")):
            assert server.refuse(400, "GET", f"/v1/batches?{query}")["param"] == param
        server.refuse(405, "DELETE", "/v1/batches")
        server.refuse(405, "GET", "/v1/chat/completions")
        assistants = server.upload([chat(1)], fields=(("purpose", "assistants"),))
        assert server.refuse(400, "POST", "/v1/batches", {**body, "input_file_id": assistants})["param"] == "input_file_id"


@case
def lists_have_pages_and_cursors(test):
    with serving(test) as server:
        files = [server.upload([chat(i)]) for i in range(5)]
        batches = [server.create(file) for file in files]
        for path, names in (("/v1/files", files), ("/v1/batches", batches)):
            names = names[::-1]
            page = server.get(f"{path}?limit=2" + ("&purpose=batch" if path == "/v1/files" else ""))
            assert [item["id"] for item in page["data"]] == names[:2] and page["has_more"] is True, page
            assert (page["object"], page["first_id"], page["last_id"]) == ("list", names[0], names[1]), page
            page = server.get(f"{path}?limit=2&after={names[1]}")
            assert [item["id"] for item in page["data"]] == names[2:4] and page["has_more"] is True, page
            page = server.get(f"{path}?limit=2&after={names[3]}")
            assert [item["id"] for item in page["data"] if item["id"] in names] == names[4:] and page["has_more"] is False, page
        assert [item["id"] for item in server.get("/v1/files?order=asc&limit=5")["data"]] == files
        for name in batches:
            server.wait_for(name)
        outputs = server.get("/v1/files?purpose=batch_output")
        assert len(outputs["data"]) == 5 and outputs["has_more"] is False, outputs
        assert server.get("/v1/files?purpose=vision") == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@case
def a_file_that_a_batch_uses_is_not_deleted(test):
    with serving(test, "--engine-test", "fixed:20", "--max-batch", "1") as server:
        file = server.upload([chat(i) for i in range(300)])
        name = server.create(file)
        server.refuse(409, "DELETE", f"/v1/files/{file}")
        assert server.get(f"/v1/files/{file}")["id"] == file
        server.post(f"/v1/batches/{name}/cancel", {})
        batch = server.wait_for(name)
        assert batch["status"] == "cancelled" and batch["cancelling_at"] and batch["cancelled_at"], batch
        deleted = server.ask("DELETE", f"/v1/files/{file}")
        assert deleted == (200, {"id": file, "object": "file", "deleted": True}), deleted
        server.refuse(404, "GET", f"/v1/files/{file}")
        assert not test.exists(f"sheaf.db-files/{file}")


@case
def a_cancelled_batch_keeps_the_answers_that_it_has(test):
    with serving(test, "--engine-test", "fixed:5", "--max-batch", "4", "--window", "4") as server:
        name = server.create(server.upload([chat(i) for i in range(300)]))
        test.wait_until("an answer", lambda: server.batch(name)["request_counts"]["completed"] > 3)
        assert server.post(f"/v1/batches/{name}/cancel", {})["status"] in ("cancelling", "cancelled")
        batch = server.wait_for(name)
        output, errors = server.lines(batch["output_file_id"]), server.lines(batch["error_file_id"])
        assert len(output) == batch["request_counts"]["completed"] > 3 and errors and len(output) + len(errors) == 300, batch
        assert {line["error"]["code"] for line in errors} == {"cancelled"} and len(by_id(output + errors)) == 300
        assert server.post(f"/v1/batches/{name}/cancel", {})["status"] == "cancelled"
        done = server.create(server.upload([chat(1)]))
        server.wait_for(done)
        server.refuse(409, "POST", f"/v1/batches/{done}/cancel", {})


@case
def a_batch_past_its_window_expires_with_what_it_has(test):
    with serving(test, "--engine-test", "fixed:5", "--max-batch", "4", "--window", "4") as server:
        name = server.create(server.upload([chat(i) for i in range(300)]))
        test.wait_until("an answer", lambda: server.batch(name)["request_counts"]["completed"] > 3)
        with contextlib.closing(sqlite3.connect(test.path("sheaf.db"), timeout=30)) as store, store:
            store.execute("UPDATE served_batches SET expires_at_us = created_at_us + 1")
        batch = server.wait_for(name)
        assert batch["status"] == "expired" and batch["expired_at"] and not batch["completed_at"], batch
        output, errors = server.lines(batch["output_file_id"]), server.lines(batch["error_file_id"])
        assert output and {line["error"]["code"] for line in errors} == {"batch_expired"} and len(by_id(output + errors)) == 300


# ---- files ----

@case
def an_upload_has_a_limit_and_its_form_must_be_complete(test):
    with serving(test, "--file-size", "1M") as server:
        status, file = server.try_upload(b"x" * (1 << 20))
        assert status == 200 and file["bytes"] == 1 << 20, (status, file)
        assert server.get(f"/v1/files/{file['id']}/content") == b"x" * (1 << 20)
        for content, fields, expected, param in ((b"x" * ((1 << 20) + 1), (("purpose", "batch"),), 413, "file"), (None, (("purpose", "batch"),), 400, "file"),
                                                 (b"x", (), 400, "purpose"), (b"x", (("purpose", "other"),), 400, "purpose"),
                                                 (b"x", (("purpose", "batch"), ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "1")), 400, "expires_after[seconds]")):
            status, refused = server.try_upload(content, fields=fields)
            assert status == expected and refused["error"]["param"] == param, (status, refused)
        server.refuse(400, "POST", "/v1/files", {"purpose": "batch"})
        names = os.listdir(test.path("sheaf.db-files"))
        assert [name for name in names if name.startswith("file-")] == [file["id"]], names
        status, kept = server.try_upload(b"x", fields=(("purpose", "batch"), ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "3600")))
        assert status == 200 and kept["expires_at"] == kept["created_at"] + 3600, kept
        with contextlib.closing(sqlite3.connect(test.path("sheaf.db"), timeout=30)) as store, store:
            store.execute("UPDATE served_files SET expires_at_us = 1 WHERE expires_at_us IS NOT NULL")
        server.refuse(404, "GET", f"/v1/files/{kept['id']}")
        test.wait_until("the expired file is removed", lambda: not test.exists(f"sheaf.db-files/{kept['id']}"))


@case
def a_form_without_its_end_or_with_two_files_is_refused(test):
    purpose = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'.encode()
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n{"x" * 100}\r\n'.encode()
    end, kind = f"--{BOUNDARY}--".encode(), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    with serving(test) as server:
        for body, word in ((purpose + file, "last boundary"), (purpose + file[:-50], "last boundary"), (file + purpose + end[:-2], "last boundary"),
                           (purpose + file + file + end, "twice")):
            error = server.refuse(400, "POST", "/v1/files", body, kind)
            assert word in error["message"], error
        assert server.get("/v1/files")["data"] == []
        for body in (purpose + file + end, file + purpose + end + b"\r\n"):
            status, stored = server.ask("POST", "/v1/files", body, kind)
            assert status == 200 and server.get(f"/v1/files/{stored['id']}/content") == b"x" * 100, stored
        test.wait_until("whole files alone", lambda: len([n for n in os.listdir(test.path("sheaf.db-files")) if n.startswith("file-")]) == 2)


@case
def a_body_without_end_is_not_read_for_ever(test):
    head = "POST /v1/{} HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with serving(test) as server:
        for path, host in (("chat/completions", "localhost"), ("chat/completions", "attacker.example"), ("files", "attacker.example")):
            with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
                client.sendall(head.format(path, host).encode())
                n_sent = 0
                with contextlib.suppress(OSError):
                    while n_sent < 1000:
                        client.sendall(chunk)
                        n_sent += 1
                assert n_sent < 200, (path, host)
        assert server.post("/v1/chat/completions", chat(1)["body"])["choices"]


@case
def an_upload_that_breaks_off_leaves_nothing(test):
    with serving(test) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
            client.sendall((f"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
                            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n').encode() + b"x" * 5000)
        assert server.get("/v1/files")["data"] == []
        assert server.upload([chat(1)])
        test.wait_until("only the whole file", lambda: [n.split("-")[0] for n in sorted(os.listdir(test.path("sheaf.db-files")))] == ["file", "server"])


# ---- who may ask ----

@case
def a_token_sees_its_own_files_and_batches(test):
    with open(test.path("tokens"), "w", encoding="utf-8") as file:
        file.write(f"# clients\n{TOKEN}\n\n{OTHER_TOKEN}\n")
    with serving(test, "--token", "tokens", token=TOKEN) as server:
        file = server.upload([chat(1)])
        name = server.create(file)
        output = server.wait_for(name)["output_file_id"]
        for headers in ({"Authorization": "Bearer wrong-token-of-some-length"}, {"Authorization": TOKEN}, {"Authorization": ""}):
            assert server.refuse(401, "GET", "/v1/files", headers=headers)["code"] == "invalid_api_key"
        assert server.ask("GET", "/readyz", headers={"Authorization": ""})[0] == 200
        server.token = OTHER_TOKEN
        for path in (f"/v1/files/{file}", f"/v1/files/{output}/content", f"/v1/batches/{name}", f"/v1/files?after={file}"):
            server.refuse(404 if "after" not in path else 400, "GET", path)
        server.refuse(404, "DELETE", f"/v1/files/{file}")
        server.refuse(404, "POST", f"/v1/batches/{name}/cancel", {})
        server.refuse(404, "POST", "/v1/batches", {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"})
        assert server.get("/v1/files")["data"] == [] == server.get("/v1/batches")["data"]


@case
def beyond_the_loopback_it_does_not_start_without_tokens(test):
    refused = test.run("serve", "--model", test.model, "--listen", "0.0.0.0:0", status=2)
    assert "--token FILE" in refused.err, refused
    assert test.run("serve", status=2).err.count("--no-work") == 1
    test.write("short", ["short"])
    assert "printable characters" in test.run("serve", "--no-work", "--token", "short", status=2).err
    test.write("tokens", [TOKEN])
    server = test.start("serve", "--no-work", "--listen", "0.0.0.0:0", "--token", "tokens")
    test.wait_until("the address", lambda: "answering at http://0.0.0.0:" in test.stderr_of(server) or server.poll() is not None)
    server.send_signal(signal.SIGTERM)
    assert test.wait(server).status == 0


@case
def pages_of_other_sites_are_not_answered_without_tokens(test):
    with serving(test, "--no-work") as server:
        assert server.refuse(403, "GET", "/v1/files", headers={"Host": "attacker.example"})["type"] == "permission_error"
        server.refuse(403, "GET", "/v1/files", headers={"Origin": "http://attacker.example"})
        server.refuse(403, "GET", "/v1/files", headers={"Origin": "null"})
        assert server.ask("GET", "/v1/files", headers={"Origin": "http://localhost:3000", "Authorization": "Bearer any"})[0] == 200


@case
def it_is_ready_when_its_worker_computes(test):
    Server(test, "--no-work").stop()  # there is a store
    with contextlib.closing(sqlite3.connect(test.path("sheaf.db"), isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")  # the worker waits for the lock to register itself
        server = Server(test)
        assert server.ask("GET", "/readyz")[0] == 503 and server.ask("GET", "/healthz")[0] == 503
        store.execute("ROLLBACK")
    server.ready()
    assert server.ask("GET", "/healthz")[0] == 200
    assert server.post("/v1/chat/completions", chat(1)["body"])["choices"]
    server.stop()


# ---- kills and two servers ----

@case
def a_server_killed_at_random_instants_answers_every_request_once(test):
    jobs = [{"custom_id": job["custom_id"], "method": "POST", "url": "/v1/chat/completions",
             "body": {key: value for key, value in job.items() if key != "custom_id"}} for job in varied_jobs(400) if "messages" in job]
    test.write("in.jsonl", jobs)
    test.run_file("in.jsonl", "out.jsonl")
    rng = random.Random(SEED)
    print(f"# seed {SEED}, {N_KILLS} kills; SHEAF_TEST_SEED and SHEAF_TEST_KILLS choose others")
    test.environment["SHEAF_CRASH_LIMIT"] = "0"  # killed from outside: no job is to blame
    server, names, longest_s = Server(test), [], 0.05
    for _ in range(N_KILLS):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            file = server.upload(jobs)
            names.append(server.create(file))
        time.sleep(rng.random() * longest_s)  # the instant of the kill
        server.kill()
        server.start()  # at once, on the same port
        longest_s = min(1.5 * longest_s, 1)
    server.ready()
    # a batch whose HTTP response was lost with the server exists too
    listed = [batch["id"] for batch in server.get("/v1/batches?limit=100")["data"]]
    assert set(names) <= set(listed), (names, listed)
    for name in listed:
        batch = server.wait_for(name)
        assert batch["status"] == "completed" and batch["request_counts"]["total"] == len(jobs), batch
        lines = server.lines(batch["output_file_id"]) + server.lines(batch["error_file_id"])
        assert answers_of(lines) == answers_of(test.answers("out.jsonl")) and len(lines) == len(jobs)
    assert test.query("SELECT count(*), count(DISTINCT dataset || job_id) FROM jobs") == [(len(jobs) * len(listed),) * 2]
    assert test.query("PRAGMA integrity_check") == [("ok",)]
    server.stop()


@case
def two_servers_share_a_store(test):
    first, second = Server(test, "--engine-test", "fixed:5").ready(), Server(test, "--no-work").ready()
    file = first.upload([chat(i) for i in range(200)])
    name = second.create(file)
    assert second.get(f"/v1/files/{file}/content") == first.get(f"/v1/files/{file}/content")
    test.wait_until("an answer", lambda: second.batch(name)["request_counts"]["completed"] > 0)
    assert second.get("/v1/models")["data"][0]["id"] == "tiny"
    assert second.post("/v1/chat/completions", chat(1)["body"])["choices"]
    first.kill()
    test.wait_until("its model has gone", lambda: second.get("/v1/models")["data"] == [])
    assert second.refuse(503, "POST", "/v1/chat/completions", chat(1)["body"])["code"] == "no_worker"
    assert second.batch(name)["status"] in ("validating", "in_progress")
    test.run("work", "--model", test.model, "--exit-when-idle", "0", "--engine-test", "instant")
    batch = second.wait_for(name)
    assert batch["status"] == "completed" and len(by_id(second.lines(batch["output_file_id"]))) == 200, batch
    assert first.start() is None and first.ready().batch(name) == second.batch(name)
    first.stop()
    second.stop()


# ---- schemas ----

@case
def an_object_that_lacks_a_member_or_has_another_does_not_fit_the_schema(test):
    with serving(test) as server:
        file = server.upload([chat(1)])
        done = server.wait_for(server.create(file, metadata={"a": "b"}))
        bad = server.upload(["{"])
        stream = server.ask("POST", "/v1/chat/completions", {**chat(1)["body"], "stream": True})[1]
        found = {"file": server.get(f"/v1/files/{file}"), "file_page": server.get("/v1/files"), "batch": done, "batch_page": server.get("/v1/batches"),
                 "model": server.get("/v1/models")["data"][0], "model_list": server.get("/v1/models"), "file_deleted": server.ask("DELETE", f"/v1/files/{file}")[1],
                 "error": server.ask("POST", "/v1/batches", {"input_file_id": bad, "endpoint": "/v1/completions", "completion_window": "24h"})[1],
                 "chat_chunk": served_schema.chunks_of(stream)[0]}
    optional = {"a", "system_fingerprint", "role", "content", "refusal"}
    for kind, item in found.items():
        assert served_schema.is_kind(kind, item) and not served_schema.is_kind(kind, {**item, "extra": 1}), (kind, item)
        names = set()
        for name, less in without_one(item):
            assert served_schema.is_kind(kind, less) == (name in optional or (kind, name) == ("error", "errors")), (kind, name, less)
            names.add(name)
        assert len(names) > 2, (kind, names)


# ---- completions ----

@case
def a_completion_is_answered_and_its_stream_has_the_same_text(test):
    requests = [("/v1/chat/completions", chat(1)["body"]), ("/v1/completions", {"model": "tiny", "prompt": "the water", "max_tokens": 9, "temperature": 0}),
                ("/v1/chat/completions", chat(2, n=3, temperature=0, logprobs=True, top_logprobs=2)["body"])]
    with serving(test) as server:
        for path, body in requests:
            plain = server.post(path, body)
            events = server.ask("POST", path, {**body, "stream": True, "stream_options": {"include_usage": True}})
            assert events[0] == 200, events
            texts, usage, reasons = texts_of(events[1])
            for choice in plain["choices"]:
                assert texts[choice["index"]] == (choice["message"]["content"] if "message" in choice else choice["text"])
                assert reasons[choice["index"]] == choice["finish_reason"]
            assert len(texts) == len(plain["choices"]) and usage == plain["usage"], (usage, plain)
            without = server.ask("POST", path, {**body, "stream": True})[1]
            assert texts_of(without)[1] is None and b'"usage"' not in without
            assert "metadata" not in plain and server.post(path, {**body, "metadata": {"tenant": "a"}})["metadata"] == {"tenant": "a"}
        both = server.post("/v1/completions", {"model": "tiny", "prompt": ["the", "a"], "metadata": {"tenant": "a"}})
        assert both["metadata"] == {"tenant": "a"} and len(both["choices"]) == 2, both
        assert test.query("SELECT count(*) FROM datasets") == [(0,)]  # read and deleted


class Stream:
    """An open stream whose events are read one at a time."""

    def __init__(self, server, path, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S)
        self.connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def events(self):
        """The chunks, up to [DONE]."""
        while (line := self.response.readline()) != b"data: [DONE]\n":
            assert line, "the stream ended without [DONE]"
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def close(self):
        self.connection.close()


def text_in(chunk):
    return "".join(choice["delta"].get("content") or "" if "delta" in choice else choice["text"] for choice in chunk["choices"])


@case
def a_streams_text_arrives_while_it_is_computed_and_is_the_plain_answers(test):
    more = {"max_tokens": 24, "ignore_eos": True}
    with serving(test, "--engine-test", "fixed:50") as server:
        for path, body in (("/v1/chat/completions", chat(1, **more)["body"]),
                           ("/v1/completions", {"model": "tiny", "prompt": "the", "temperature": 0.5, "seed": 3, "n": 2, **more})):
            plain = server.post(path, body)
            stream = Stream(server, path, {**body, "stream_options": {"include_usage": True}})
            chunks, n_early = [], 0
            for chunk in stream.events():
                chunks.append(chunk)
                n_early += bool(text_in(chunk)) and test.query("SELECT count(*) FROM queue") == [(1,)]
            stream.close()
            assert n_early >= 1, len(chunks)
            assert len({(chunk["id"], chunk["object"], chunk["created"], chunk["model"], chunk["system_fingerprint"]) for chunk in chunks}) == 1, chunks[-1]
            assert {key: chunks[0][key] for key in ("model", "system_fingerprint")} == {key: plain[key] for key in ("model", "system_fingerprint")}
            assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == plain["usage"] and all(chunk["usage"] is None for chunk in chunks[:-1])
            texts, _, reasons = texts_of(b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n")
            assert texts == {choice["index"]: choice["message"]["content"] if "message" in choice else choice["text"] for choice in plain["choices"]}
            assert reasons == {choice["index"]: choice["finish_reason"] for choice in plain["choices"]}


@case
def a_streams_text_has_whole_characters_and_nothing_of_a_stop_string(test):
    letters = {"guided_regex": "([äß€😀] ?){12}"}
    body = {"model": "tiny", "prompt": "the", "max_tokens": 40, "temperature": 1.5}
    with serving(test, "--engine-test", "fixed:5") as server:
        for seed in range(6):
            request = {**body, "seed": seed, **(letters if seed % 2 else {})}
            whole = server.post("/v1/completions", request)["choices"][0]["text"]
            for stop in ([], [whole[5:8], "zzz"], [whole[-3:] + "no"]):
                options = {"stop": [text for text in stop if text]} if stop else {}
                plain = server.post("/v1/completions", {**request, **options})["choices"][0]
                stream = Stream(server, "/v1/completions", {**request, **options})
                chunks = list(stream.events())
                stream.close()
                assert "".join(map(text_in, chunks)) == plain["text"], (plain, chunks)
                assert chunks[-1]["choices"][0]["finish_reason"] == plain["finish_reason"]
                assert not seed % 2 or all("\ufffd" not in text_in(chunk) for chunk in chunks), chunks


@case
def a_streams_thoughts_arrive_before_its_content_and_both_are_the_plain_answers(test):
    specials = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
    tiny_model.write(test.model, n_rows=tiny_model.N_VOCAB + len(specials), more_keys=tiny_model.more_specials(specials))
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(THINKS)
    kinds = set()
    with serving(test, "--engine-test", "fixed:5", "--chat-template", "template.jinja") as server:
        for seed in range(12):
            body = chat(seed, max_tokens=30, seed=seed, temperature=1.2, ignore_eos=seed % 3 > 0, thinking_token_budget=6 if seed % 2 else 100,
                        chat_template_kwargs={"enable_thinking": seed % 4 > 0})["body"]
            message = server.post("/v1/chat/completions", body)["choices"][0]["message"]
            stream = Stream(server, "/v1/chat/completions", body)
            deltas = [chunk["choices"][0]["delta"] for chunk in stream.events()]
            stream.close()
            joined = {name: "".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning_content", "content")}
            assert joined == {name: message.get(name) or "" for name in joined}, (message, deltas)
            places = [index for index, delta in enumerate(deltas) if delta.get("reasoning_content")]
            assert not places or not any(delta.get("content") for delta in deltas[:places[-1]]), deltas
            kinds |= {(bool(message.get("reasoning_content")), bool(message["content"]))}
    assert kinds >= {(True, True), (True, False), (False, True)}, kinds


@case
def a_stream_that_nobody_reads_delays_no_other(test):
    with serving(test, "--max-batch", "8") as server:
        unread = [Stream(server, "/v1/completions", {"model": "tiny", "prompt": "the", "max_tokens": 200, "ignore_eos": True, "seed": i}) for i in range(6)]
        for i in range(4):
            assert server.post("/v1/chat/completions", chat(i)["body"])["choices"]
        for stream in unread:
            assert sum(bool(text_in(chunk)) for chunk in stream.events()) > 1
            stream.close()
        gone = Stream(server, "/v1/completions", {"model": "tiny", "prompt": "the", "max_tokens": 200, "ignore_eos": True})
        next(gone.events())
        gone.close()
        assert server.post("/v1/chat/completions", chat(9)["body"])["choices"]
        test.wait_until("its dataset is deleted", lambda: test.query("SELECT count(*) FROM datasets") == [(0,)])


@case
def a_server_of_an_embedding_model_answers_requests_and_batches_with_vectors(test):
    tiny_model.write(test.model, more_keys={"llama.pooling_type": tiny_model.value(tiny_model.UINT32, 1)})
    bodies = [{"model": "tiny", "input": ["the water", "winter"]}, {"model": "tiny", "input": "the water", "dimensions": 3}]
    lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/embeddings", "body": body} for i, body in enumerate(bodies)]
    test.write("in.jsonl", lines)
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--store", "other.db")
    expected = {line["custom_id"]: line["response"]["body"]["data"] for line in test.answers()}
    with serving(test) as server:
        assert {str(i): server.post("/v1/embeddings", body)["data"] for i, body in enumerate(bodies)} == expected
        batch = server.wait_for(server.create(server.upload(lines), endpoint="/v1/embeddings"))
        assert {line["custom_id"]: line["response"]["body"]["data"] for line in server.lines(batch["output_file_id"])} == expected
        server.refuse(400, "POST", "/v1/chat/completions", chat(1)["body"])
    assert len(expected["0"]) == 2 and len(expected["1"][0]["embedding"]) == 3, expected


@case
def a_server_of_a_reranker_answers_requests_and_batches_with_scores(test):
    test.model = head_folder(test, "one", 1)
    bodies = {"/v1/rerank": {"model": "one", "query": "water", "documents": ["the water", " winter"]},
              "/v1/score": {"model": "one", "text_1": "water", "text_2": ["the water", " winter"]}}
    lines = [{"custom_id": url, "method": "POST", "url": url, "body": body} for url, body in bodies.items()]
    test.write("in.jsonl", lines)
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--store", "other.db")
    expected = {line["custom_id"]: line["response"]["body"] for line in test.answers()}
    with serving(test) as server:
        for url, body in bodies.items():
            for path in (url, url[3:]):
                found = server.post(path, body)
                assert {**found, "id": 0, "created": 0} == {**expected[url], "id": 0, "created": 0}, (found, expected[url])
        batch = server.wait_for(server.create(server.upload(lines[:1]), endpoint="/v1/rerank"))
        (answer,) = server.lines(batch["output_file_id"])
        assert answer["response"]["body"]["results"] == expected["/v1/rerank"]["results"], answer
        assert server.refuse(400, "POST", "/v1/rerank", {"query": "a", "documents": ["the", "inner " * 400]})["param"] == "documents[1]"
        assert "start sheaf work with" in server.refuse(400, "POST", "/v1/classify", {"input": "the"})["message"]


@case
def a_completion_that_is_no_request_is_refused_with_its_parameter(test):
    with serving(test) as server:
        for change, param in (({"temperature": "hot"}, "temperature"), ({"messages": []}, "messages"), ({"stream": 1}, "stream"),
                              ({"stream_options": {}}, "stream_options"), ({"max_tokens": -3}, "max_tokens")):
            for streams in ({}, {"stream": True}) if "stream" not in param else ({},):
                error = server.refuse(400, "POST", "/v1/chat/completions", {**chat(1)["body"], **streams, **change})
                assert error["param"] == param, error
        long = {"model": "tiny", "messages": [{"role": "user", "content": "the water " * 20000}]}
        assert server.refuse(400, "POST", "/v1/chat/completions", long)["code"] == "context_length_exceeded"
        assert server.refuse(400, "POST", "/v1/chat/completions", {**long, "stream": True})["code"] == "context_length_exceeded"
        server.refuse(400, "POST", "/v1/completions", {"model": "tiny"})


@case
def a_list_of_prompts_is_one_answer_with_a_choice_of_each(test):
    with serving(test) as server:
        body = {"model": "tiny", "max_tokens": 4, "temperature": 0, "logprobs": 1}
        for prompts in (["the water", "in there"], [[5, 6, 7], [8], [9, 10]], ["alone"]):
            alone = [server.post("/v1/completions", {**body, "prompt": prompt}) for prompt in prompts]
            together = server.post("/v1/completions", {**body, "prompt": prompts})
            assert [choice["index"] for choice in together["choices"]] == list(range(len(prompts)))
            assert [dict(choice, index=0) for choice in together["choices"]] == [answer["choices"][0] for answer in alone]
            for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
                assert together["usage"][name] == sum(answer["usage"][name] for answer in alone), together
            texts, _, _ = texts_of(server.ask("POST", "/v1/completions", {**body, "prompt": prompts, "stream": True})[1])
            assert [texts[i] for i in range(len(prompts))] == [choice["text"] for choice in together["choices"]]
        choices = server.post("/v1/completions", {**body, "prompt": ["a", "b"], "n": 2, "temperature": 0.8})["choices"]
        assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
        assert server.refuse(400, "POST", "/v1/completions", {**body, "prompt": ["a", 5]})["param"] == "prompt"
        server.refuse(400, "POST", "/v1/completions", {**body, "prompt": ["a", "the water " * 2000]})
        assert test.query("SELECT count(*) FROM datasets") == [(0,)]


@case
def a_completion_goes_before_a_batch(test):
    with serving(test, "--engine-test", "fixed:5", "--max-batch", "2", "--window", "4") as server:
        name = server.create(server.upload([chat(i) for i in range(400)]))
        test.wait_until("an answer", lambda: server.batch(name)["request_counts"]["completed"] > 0)
        assert server.post("/v1/chat/completions", chat(1000)["body"])["choices"]
        batch = server.batch(name)
        assert batch["status"] == "in_progress" and batch["request_counts"]["completed"] < 400, batch


@case
def a_client_that_goes_takes_its_request_with_it(test):
    with serving(test, "--engine-test", "fixed:500", "--max-batch", "1", "--window", "1") as server:  # 100 s an answer
        body = json.dumps({**chat(1)["body"], "max_tokens": 200, "ignore_eos": True}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
            client.sendall(head + body)
            test.wait_until("its job", lambda: test.query("SELECT count(*) FROM jobs") == [(1,)])
        test.wait_until("no job", lambda: test.query("SELECT count(*) FROM datasets") == [(0,)], deadline_s=min(DEADLINE_S, 60))
        for ends in (lambda client: client.sendall(b"GET /v1/models HTTP/1.1\r\n"), lambda client: client.shutdown(socket.SHUT_WR)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
                client.sendall(head + body)
                test.wait_until("its job", lambda: test.query("SELECT count(*) FROM jobs") == [(1,)])
                ends(client)  # bytes after the request; half of the connection
                if "shutdown" in ends.__code__.co_names:
                    assert b"client_closed" in client.recv(65536)
            test.wait_until("no job", lambda: test.query("SELECT count(*) FROM datasets") == [(0,)], deadline_s=min(DEADLINE_S, 60))
        # a killed server's requests are removed by the next one
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
            client.sendall(head + body)
            test.wait_until("its job", lambda: test.query("SELECT count(*) FROM jobs") == [(1,)])
            server.kill()
        server.start()
        test.wait_until("no job of the killed server", lambda: test.query("SELECT count(*) FROM datasets") == [(0,)])
        test.wait_until("one server's file", lambda: len([n for n in os.listdir(test.path("sheaf.db-files")) if n.startswith("server-")]) == 1)


@case
def what_a_killed_server_left_does_not_keep_another_model_from_starting(test):
    server = Server(test, "--engine-test", "fixed:100", "--max-batch", "1").ready()
    body = json.dumps({"prompt": list("abcde"), "max_tokens": 10, "ignore_eos": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as client:
        client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        test.wait_until("an answer", lambda: test.query("SELECT n_done FROM datasets WHERE n_done > 0"))  # of this arithmetic alone
        assert test.query("SELECT n_done < 5 FROM datasets") == [(1,)]
        server.kill()
    server.options = ()
    server.start()
    assert server.ready().post("/v1/chat/completions", chat(1)["body"])["choices"]
    test.wait_until("nothing is left", lambda: test.query("SELECT count(*) FROM datasets") == [(0,)])
    server.stop()


@case
def slow_clients_harm_nobody(test):
    with serving(test) as server, contextlib.ExitStack() as open_clients:
        for i in range(64):
            client = open_clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S))
            client.sendall([b"POST /v1/files HTTP/1.1\r\nHost: loc", b"", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
                            b"GET /v1/models HTTP/1.1\r\n"][i % 4])
        name = server.create(server.upload([chat(i) for i in range(20)]))
        assert server.post("/v1/chat/completions", chat(1)["body"])["choices"]
        assert server.wait_for(name)["status"] == "completed"


@case
def a_stopping_server_ends_what_waits(test):
    server = Server(test, "--no-work").ready()
    worker = test.start("work", "--model", test.model, "--engine-test", "fixed:50", "--max-batch", "1")
    test.wait_until("a worker", lambda: server.get("/v1/models")["data"])
    body = json.dumps({**chat(1)["body"], "max_tokens": 200, "ignore_eos": True}).encode()
    connections = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE_S) for _ in range(40)]
    for connection in connections:
        connection.request("POST", "/v1/chat/completions", body)
    test.wait_until("their jobs", lambda: test.query("SELECT count(*) FROM jobs") == [(len(connections),)])
    server.process.send_signal(signal.SIGTERM)
    for connection in connections:
        response = connection.getresponse()
        assert response.status == 503 and json.loads(response.read())["error"]["code"] == "stopping", response.status
        connection.close()
    assert test.wait(server.process).status == 0
    worker.send_signal(signal.SIGTERM)
    test.wait(worker)
