"""What sheaf serve answers, against schemas/serve.schema.json and openai.schema.json: each response of the suites serve and serve_kafka is
checked, and an object that lacks a member does not fit."""
import json
import os

from clients import SCHEMAS, fits

ANSWERS = {"/v1/chat/completions": "chat", "/v1/completions": "completion", "/v1/embeddings": "embeddings", "/v1/classify": "items", "/v1/score": "items",
           "/v1/rerank": "ranking", "/v2/rerank": "ranking"}
CHUNKS = {"/v1/chat/completions": "chat_chunk", "/v1/completions": "completion_chunk"}


def load():
    roots = []
    for name in ("openai", "serve"):
        with open(os.path.join(SCHEMAS, f"{name}.schema.json"), encoding="utf-8") as file:
            roots.append(json.load(file)["$defs"])
    assert not set(roots[0]) & set(roots[1]), "a name of both"
    return {"$defs": roots[0] | roots[1]}


ROOT = load()


def is_kind(kind, item):
    return fits(ROOT, {"$ref": f"#/$defs/{kind}"}, item)


def kind_of(method, path):
    """The schema of a good answer in JSON; None: it is no JSON."""
    path = path.partition("?")[0]
    parts = path.strip("/").split("/")
    if path in ANSWERS or f"/v1{path}" in ANSWERS:
        return ANSWERS.get(path) or ANSWERS[f"/v1{path}"]
    if parts[:2] == ["v1", "models"]:
        return "model_list" if len(parts) == 2 else "model"
    if parts[:2] == ["v1", "files"] and parts[-1] != "content":
        return "file_deleted" if method == "DELETE" else "file_page" if len(parts) == 2 and method == "GET" else "file"
    if parts[:2] == ["v1", "batches"]:
        return "batch_page" if len(parts) == 2 and method == "GET" else "batch"
    return None


def chunks_of(events):
    """The objects of a stream's events, [DONE] aside."""
    found = [event.removeprefix(b"data: ") for event in events.split(b"\n\n") if event and not event.startswith(b":")]
    assert found and found[-1] == b"[DONE]", events[-200:]
    return [json.loads(event) for event in found[:-1]]


def check(method, path, status, content_type, content):
    """content: a response's body, read if it is JSON. Raises AssertionError."""
    if content_type.startswith("text/event-stream"):
        for chunk in chunks_of(content):
            assert is_kind(CHUNKS[path], chunk) or ("error" in chunk and is_kind("error", chunk)), (path, chunk)
        return
    kind = kind_of(method, path) if status == 200 else None if path in ("/healthz", "/readyz") else "error"
    if kind:
        assert content_type == "application/json" and is_kind(kind, content), (method, path, status, kind, content)
