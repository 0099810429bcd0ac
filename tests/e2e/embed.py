"""Vectors of texts: in the order of the lines, the same bytes in any steps, and one bad line harms no other."""
import json
import math

import tiny_model
from session import case

TEXTS = ["the winter", "another thing in the earth rather within the water", "the", "inner " * 30, "the winter"]


def vectors_of(test, texts, *options, status=0):
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    lines = [json.loads(line) for line in test.run("embed", test.model, *options, stdin=stdin, status=status).out.splitlines()]
    assert [line["index"] for line in lines] == list(range(len(texts))), lines
    return lines


@case
def vectors_come_in_the_order_of_the_texts_and_are_normalized(test):
    lines = vectors_of(test, TEXTS)
    for line, text in zip(lines, TEXTS):
        assert line["object"] == "embedding" and len(line["embedding"]) == tiny_model.WIDTH, line
        assert abs(math.fsum(x * x for x in line["embedding"]) - 1) < 1e-5, line
        n = len(json.loads(test.run("tokenize", test.model, stdin=json.dumps({"text": text}) + "\n").out))
        assert line["usage"] == {"prompt_tokens": n, "total_tokens": n}, line
    assert lines[0]["embedding"] == lines[4]["embedding"] != lines[2]["embedding"], lines


@case
def vectors_are_the_same_bytes_in_any_steps_and_threads(test):
    for pooling in ("last", "mean"):
        expected = vectors_of(test, TEXTS, "--pooling", pooling)
        for options in (["--max-rows", "64"], ["--threads", "1"], ["--backend", "cpu:plain"]):
            assert vectors_of(test, TEXTS, "--pooling", pooling, *options) == expected, options
        alone = [vectors_of(test, [text], "--pooling", pooling)[0]["embedding"] for text in TEXTS]
        assert alone == [line["embedding"] for line in expected]


@case
def a_mean_of_one_token_is_its_own_and_dimensions_cut_before_the_length_is_made_one(test):
    raw = vectors_of(test, TEXTS, "--no-normalize")
    cut = vectors_of(test, TEXTS, "--dimensions", "3")
    for whole, part in zip(raw, cut):
        start = whole["embedding"][:3]
        length = math.sqrt(math.fsum(x * x for x in start))
        assert all(abs(a / length - b) < 1e-6 for a, b in zip(start, part["embedding"])) and len(part["embedding"]) == 3
    one = [text for text, line in zip(TEXTS, raw) if line["usage"]["total_tokens"] == 1]
    for pooling in ("mean", "cls"):
        assert one and vectors_of(test, one, "--pooling", pooling) == vectors_of(test, one, "--pooling", "last")


@case
def a_bad_line_has_its_error_and_the_others_their_vectors(test):
    lines = ['{"text": "the winter"}', "the winter", '"the winter"', '{"text": 5}', '{"text"', "", '{"text": "' + "inner " * 400 + '"}',
             "{\"text\": \"the winter\"}"]
    finished = test.run("embed", test.model, stdin="\n".join(lines), status=3)
    got = [json.loads(line) for line in finished.out.splitlines()]
    assert [line["index"] for line in got] == list(range(len(lines))), got
    vectors = {i: line["embedding"] for i, line in enumerate(got) if "embedding" in line}
    assert sorted(vectors) == [0, 1, 2, 7] and len({tuple(vector) for vector in vectors.values()}) == 1, got
    errors = [line["error"] for line in got if "error" in line]
    assert [error["code"] for error in errors] == ["missing_field", "invalid_encoding", "empty_prompt", "context_length_exceeded"], errors
    assert "expected at most 256, the model's context" in errors[3]["message"], errors
    assert "4 of 8 texts have no vector" in finished.err, finished.err


@case
def ids_stand_beside_their_vectors_as_they_came(test):
    lines = ['{"id": "a \\u00e9\\n", "text": "the winter"}', '{"text": "the winter", "id": 12345678901234567890}', '{"custom_id": "c", "text": "the"}',
             "the winter", '{"text": "the", "id": 1.50, "custom_id": "d"}', '{"id": "bad", "text": 5}', '{"id": "empty", "text": ""}',
             '{"id": null, "text": "the"}', '{"id": "", "text": "the"}', '{"id": "' + "x" * 257 + '", "text": "the"}']
    finished = test.run("embed", test.model, stdin="\n".join(lines), status=3).out.splitlines()
    assert '"index":1,"id":12345678901234567890,"embedding"' in finished[1] and '"id":1.50,"custom_id":"d"' in finished[4], finished
    got = [json.loads(line) for line in finished]
    assert [line.get("id") for line in got] == ["a \u00e9\n", 12345678901234567890, None, None, 1.5, "bad", "empty", None, None, None], got
    assert [line.get("custom_id") for line in got] == [None, None, "c", None, "d"] + [None] * 5, got
    assert got[0]["embedding"] == got[1]["embedding"] == got[3]["embedding"], got
    errors = [(line["index"], line["error"]["code"], line["error"]["message"]) for line in got if "error" in line]
    assert [error[:2] for error in errors] == [(5, "missing_field"), (6, "empty_prompt"), (7, "invalid_field"), (8, "limit_exceeded"),
                                               (9, "limit_exceeded")], errors
    assert errors[2][2] == "id: expected a string or a number, got null" and errors[4][2] == "id: expected 1 to 256 bytes, got 257", errors


@case
def vectors_go_to_a_file_and_wrong_options_are_refused(test):
    expected = test.run("embed", test.model, stdin="the winter\n").out
    test.run("embed", "--model", test.model, "-o", "out.jsonl", stdin="the winter\n")
    assert test.read("out.jsonl").decode() == expected
    assert test.run("embed", test.model, stdin="").out == ""
    for options, words in ((["--pooling", "max"], 'expected model, last, mean or cls, got "max"'),
                           (["--dimensions", "100000"], f"expected at most {tiny_model.WIDTH}, the model's width, got 100000"),
                           (["--kv-memory", "64K"], "hold no text beside a step of")):
        finished = test.run("embed", test.model, *options, stdin="the\n", status=None)
        assert finished.status in (1, 2) and words in finished.err and not finished.out, finished
