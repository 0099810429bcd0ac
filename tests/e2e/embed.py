"""Vectors of texts: in the order of the lines, the same bytes in any steps, and one bad line harms no other."""
import gzip
import json
import math
import os
import re
import resource

import tiny_model
from session import case, text_of

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
def a_special_token_in_a_text_or_a_prompt_is_one_token(test):
    """Also for decoders: prompts of embedding models contain special tokens."""
    ids = json.loads(test.run("tokenize", test.model, "--special", stdin=json.dumps({"text": "<|im_start|>the"}) + "\n").out)
    assert ids[0] == tiny_model.TOKENS.index("<|im_start|>") and len(ids) < 5, ids
    (text,), (prompt,) = vectors_of(test, ["<|im_start|>the"]), vectors_of(test, ["the"], "--prefix", "<|im_start|>")
    test.write("in.jsonl", [{"custom_id": "ids", "input": [ids]}])
    test.run("run", "in.jsonl", test.model, "-o", "out.jsonl", "--task", "embed", "--pooling", "last")
    (answer,) = test.answers("out.jsonl")
    assert text["usage"]["prompt_tokens"] == len(ids) and text["embedding"] == prompt["embedding"], (text["usage"], ids)
    assert text["embedding"] == answer["response"]["body"]["data"][0]["embedding"]


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


def embedded_file(test, name, content, *options, status=0):
    """Input from a file redirected to standard input."""
    with open(test.path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    redirected = lambda: os.dup2(os.open(test.path(name), os.O_RDONLY), 0)
    finished = test.run("embed", test.model, *options, status=status, preexec_fn=redirected)
    return finished, [json.loads(line) for line in finished.out.splitlines()]


def piped(test, content, *options, status=0):
    read_end, write_end = os.pipe()
    os.write(write_end, content)  # less than a pipe holds
    os.close(write_end)
    finished = test.run("embed", test.model, *options, status=status, preexec_fn=lambda: os.dup2(read_end, 0))
    os.close(read_end)
    return finished, [json.loads(line) for line in finished.out.splitlines()]


@case
def a_byte_order_mark_is_no_text(test):
    expected = vectors_of(test, ["the winter", "the"])
    assert [line["embedding"] for line in embedded_file(test, "in.txt", "\ufeffthe winter\nthe\n")[1]] == [e["embedding"] for e in expected]
    lines = [json.loads(line) for line in test.run("embed", test.model, stdin='\ufeff{"text": "the winter"}\n{"text": "the"}\n').out.splitlines()]
    assert lines == expected, lines


@case
def texts_that_begin_with_a_quote_are_no_json_unless_all_lines_are(test):
    texts = ['"the winter"', '"the winter," he said.', "the"]
    expected = [line["embedding"] for line in vectors_of(test, texts)]
    content = "\n".join(texts) + "\n"
    assert [line["embedding"] for line in embedded_file(test, "in.txt", content)[1]] == expected
    for stdin, options in (("\n".join(texts[1:]), []), (content, ["--plain-text"]), ('{"text"\n', ["--plain-text"])):
        lines = [json.loads(line) for line in test.run("embed", test.model, *options, stdin=stdin).out.splitlines()]
        assert len(lines) == stdin.strip().count("\n") + 1 and all("embedding" in line for line in lines), lines
    strings = embedded_file(test, "in.txt", '"the winter"\n\n"the"\n', status=3)[1]  # an empty line has no tokens
    assert [line.get("embedding") for line in strings] == [line.get("embedding") for line in vectors_of(test, ["the winter", "", "the"], status=3)]
    piped = test.run("embed", test.model, stdin=content)
    assert [json.loads(line)["embedding"] for line in piped.out.splitlines()] == expected, piped


@case
def gzip_is_read_from_a_file_and_from_a_pipe(test):
    for content in ("the winter\nthe\n", '{"text": "the winter"}\n{"text": "the"}\n'):
        packed = gzip.compress(content.encode())
        plain = embedded_file(test, "in.txt", content)[1]
        assert embedded_file(test, "in.gz", packed)[1] == piped(test, packed)[1] == plain and "embedding" in plain[0]
        for fault, words in ((packed[:-9], "the gzip data end too early"), (b"\x28\xb5\x2f\xfd....", "sheaf reads no zstd")):
            for given in (embedded_file(test, "in.gz", fault, status=1), piped(test, fault, status=1)):
                assert words in given[0].err and not given[1], given[0]


@case
def texts_in_another_encoding_are_refused_with_their_line_before_a_vector(test):
    good = "the winter\n" * 500
    for content, words in (((good + "süß\n").encode("latin-1"), "line 501: expected text in UTF-8, got other bytes"),
                           (good.encode("utf-16-le"), "line 1: expected text in UTF-8, got a byte 0"),
                           ('"the"\n"s"\n'.encode() + "süß\n".encode("latin-1"), "line 3: expected text in UTF-8"),
                           ('"s" süß\nthe\n'.encode("latin-1"), "line 1: expected text in UTF-8")):
        for given in (embedded_file(test, "in.txt", content, status=1), piped(test, content, status=1)):
            assert "standard input: " + words in given[0].err and not given[1], given[0]
    lines = embedded_file(test, "in.jsonl", '{"text": "süß"}\n{"text": "the"}\n'.encode("latin-1"), status=3)[1]
    assert lines[0]["error"]["code"] == "invalid_encoding" and "embedding" in lines[1], lines  # one bad line of JSON harms no other
    longest = 16 << 20
    lines = embedded_file(test, "long.txt", b"x" * (longest + 5) + b"\nthe\n", status=3)[1]
    assert f"the line has {longest + 5} bytes: expected at most {longest}" in lines[0]["error"]["message"] and "embedding" in lines[1], lines


@case
def tables_are_refused_by_name(test):
    for name in ("in.csv", "in.TSV", "in.parquet", "in.csv.gz"):
        finished = embedded_file(test, name, "id,text\n1,the winter\n", status=1)[0]
        assert f'standard input is "{name}", a table: expected lines of text or JSON' in finished.err, finished
    assert len(embedded_file(test, "in.csv", "id,text\n1,the winter\n", "--plain-text")[1]) == 2
    assert "sheaf reads no Parquet" in embedded_file(test, "in.bin", "PAR1\x15...", "--plain-text", status=1)[0].err


GROUPS = ["--max-rows", "64"]  # which are written when their texts have 512 tokens


def many_lines(n=300):
    """Some have no vector."""
    return [f"{{\"id\": {i}, \"text\": 5}}" if i % 50 == 7 else json.dumps({"id": i, "text": text_of(i, 1 + i % 9)}) for i in range(n)]


def interrupt_in_the_middle(test, lines):
    """At half of the output the file may not grow further."""
    n_bytes = len(test.run("embed", test.model, stdin=lines[0]).out) * len(lines) // 2
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
    finished = test.run("embed", test.model, "-o", "out.jsonl", *GROUPS, stdin="\n".join(lines), status=1, preexec_fn=limit)
    assert "File too large" in finished.err and len(lines) // 3 < state_of(test)["n_lines"] < len(lines) * 2 // 3, finished
    assert len(test.read("out.jsonl.part")) == n_bytes > state_of(test)["n_bytes"] and not test.exists("out.jsonl")


def is_locked(test):
    with open("/proc/locks", encoding="ascii") as locks:
        return f':{os.stat(test.path("out.jsonl.part")).st_ino} ' in locks.read()


def state_of(test):
    if not test.exists("out.jsonl.part.state"):
        return {}
    return json.loads(test.read("out.jsonl.part.state"))


def to_file(test, lines, *options, status):
    return test.run("embed", test.model, "-o", "out.jsonl", *GROUPS, *options, stdin="\n".join(lines), status=status)


def files_of(test):
    return sorted(name for name in os.listdir(test.folder) if name.startswith("out.jsonl"))


def tokens_of(finished):
    return int(re.search(r"(\d+) tokens,", finished.err)[1])


@case
def an_interrupted_command_goes_on_behind_the_lines_that_it_wrote_to_the_same_bytes(test):
    lines = many_lines()
    whole = to_file(test, lines, status=3)
    expected = test.read("out.jsonl")
    assert "6 of 300 texts have no vector" in whole.err and files_of(test) == ["out.jsonl"], (whole, files_of(test))
    os.remove(test.path("out.jsonl"))
    interrupt_in_the_middle(test, lines)
    n_before = state_of(test)["n_lines"]
    rest = to_file(test, lines, status=3)
    assert f"resuming: {n_before} lines were written before" in rest.err and "6 of 300 texts have no vector" in rest.err, rest
    assert test.read("out.jsonl") == expected and files_of(test) == ["out.jsonl"], files_of(test)
    assert 0 < tokens_of(rest) < tokens_of(whole) * 2 // 3, (rest, whole)


@case
def a_part_of_other_lines_or_options_is_kept_and_the_command_refused(test):
    lines = many_lines()
    interrupt_in_the_middle(test, lines)
    part = test.read("out.jsonl.part")[:state_of(test)["n_bytes"]]  # bytes after them were being written
    for options in (["--dimensions", "3"], ["--pooling", "mean"], ["--no-normalize"], ["--kv-type", "q8_0"]):
        refused = to_file(test, lines, *options, status=1).err
        assert "out.jsonl.part was written with other options" in refused and "remove it" in refused, refused
    for other in (["another"] + lines[1:], lines[:60], []):
        refused = to_file(test, other, status=1).err
        assert "out.jsonl.part was written from other input" in refused and "remove it" in refused, refused
    first = test.start("embed", test.model, "-o", "out.jsonl", stdin="")  # waits for its input
    test.wait_until("it has the part", lambda: is_locked(test))
    refused = to_file(test, lines, status=1).err
    assert "out.jsonl.part: another process writes it" in refused, refused
    first.kill()
    test.wait(first)
    assert test.read("out.jsonl.part")[:len(part)] == part and not test.exists("out.jsonl")
    os.remove(test.path("out.jsonl.part"))
    assert "resuming" not in to_file(test, lines[:60], status=3).err and len(test.answers()) == 60


@case
def a_file_of_that_name_that_is_no_part_is_left_alone(test):
    with open(test.path("out.jsonl.part"), "w", encoding="utf-8") as file:
        file.write("mine")
    for state in (None, "mine too", "{}"):
        if state:
            with open(test.path("out.jsonl.part.state"), "w", encoding="utf-8") as file:
                file.write(state)
        refused = to_file(test, ["the"], status=1).err
        assert "out.jsonl.part" in refused and "not what an interrupted command left" in refused, refused
        assert test.read("out.jsonl.part") == b"mine" and not test.exists("out.jsonl"), refused


@case
def vectors_go_to_a_file_and_wrong_options_are_refused(test):
    expected = test.run("embed", test.model, stdin="the winter\n").out
    test.run("embed", "--model", test.model, "-o", "out.jsonl", stdin="the winter\n")
    assert test.read("out.jsonl").decode() == expected
    assert test.run("embed", test.model, stdin="").out == ""
    for options, words in ((["--pooling", "zebra"], 'expected model, last, mean, cls, max, mean_sqrt_len or weightedmean, got "zebra"'),
                           (["--dimensions", "100000"], f"expected at most {tiny_model.WIDTH}, the model's width, got 100000"),
                           (["--kv-memory", "64K"], "hold no text beside a step of")):
        finished = test.run("embed", test.model, *options, stdin="the\n", status=None)
        assert finished.status in (1, 2) and words in finished.err and not finished.out, finished


MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
           {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]


def sentence_folder(test, name, modules=MODULES, pooling=None, **files):
    folder = test.path(name)
    tiny_model.write_folder(folder, {"modules.json": modules, **{f"{key}.json": value for key, value in files.items()}})
    os.mkdir(os.path.join(folder, "1_Pooling"))
    with open(os.path.join(folder, "1_Pooling", "config.json"), "w", encoding="utf-8") as file:
        json.dump(pooling or {"pooling_mode": "mean", "embedding_dimension": tiny_model.WIDTH, "include_prompt": True}, file)
    return folder


def folder_vectors(test, folder, texts, *options):
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = test.run("embed", folder, *options, stdin=stdin)
    return [json.loads(line)["embedding"] for line in done.out.splitlines()], done.err


@case
def a_folder_of_sentence_transformers_says_how_its_vectors_are_made(test):
    """Pooling, prompt, limit and length come from the folder. Options override them, and give the same vectors with a folder without them."""
    prompts = {"prompts": {"query": "find: ", "document": ""}, "default_prompt_name": "query"}
    plain, bare = sentence_folder(test, "plain"), sentence_folder(test, "bare", MODULES[:2])
    whole = sentence_folder(test, "whole", config_sentence_transformers=prompts, sentence_bert_config={"max_seq_length": 7, "do_lower_case": False})
    old = sentence_folder(test, "old", pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    expected, _ = folder_vectors(test, plain, TEXTS)
    assert expected == folder_vectors(test, plain, TEXTS, "--pooling", "mean")[0] != folder_vectors(test, plain, TEXTS, "--pooling", "last")[0]
    assert folder_vectors(test, old, TEXTS)[0] == folder_vectors(test, plain, TEXTS, "--pooling", "cls")[0]
    got, err = folder_vectors(test, whole, TEXTS, "--truncate", "right")
    assert got == folder_vectors(test, plain, TEXTS, "--prefix", "find: ", "--max-length", "7", "--truncate", "right")[0] != expected
    assert "4 texts were cut to 7 tokens, the model's max_seq_length" in err and 'after the prompt "find: "' in err, err
    assert folder_vectors(test, whole, TEXTS, "--prefix", "", "--max-length", "256")[0] == expected
    raw, err = folder_vectors(test, bare, TEXTS)
    assert raw == folder_vectors(test, plain, TEXTS, "--no-normalize")[0] != expected and "not normalized" in err, err
    assert folder_vectors(test, bare, TEXTS, "--normalize")[0] == expected
    longest = "find: " + TEXTS[1]
    ids = json.loads(test.run("tokenize", whole, stdin=json.dumps({"text": longest}) + "\n").out)
    assert len(ids) > 7, ids


@case
def what_a_folder_of_sentence_transformers_wants_beyond_this_is_refused_by_name(test):
    other = {"idx": 2, "name": "2", "path": "2_LayerNorm", "type": "sentence_transformers.models.LayerNorm"}
    for i, (words, options, files) in enumerate((
            ("modules.json: sentence_transformers.models.LayerNorm is not built", [], {"modules": MODULES[:2] + [other]}),
            ('pooling_mode "zebra" is not built', ["--pooling", "mean"], {"pooling": {"pooling_mode": "zebra"}}),
            ("do_lower_case true is not built", [], {"sentence_bert_config": {"do_lower_case": True}}),
            ("truncate_dim is not built", ["--dimensions", "3"], {"config_sentence_transformers": {"truncate_dim": 3}}))):
        folder = sentence_folder(test, f"refused-{i}", **files)
        assert words in test.run("embed", folder, stdin="the\n", status=1).err
        if options:
            assert len(folder_vectors(test, folder, TEXTS, *options)[0]) == len(TEXTS)


@case
def the_eos_that_a_tokenizer_adds_ends_a_cut_text_too(test):
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "add_eos_token": True}
    folder = sentence_folder(test, "eos", pooling={"pooling_mode": "lasttoken"}, tokenizer_config=settings, sentence_bert_config={"max_seq_length": 4})
    text = "a b a b a b a b"
    cut, _ = folder_vectors(test, folder, [text], "--truncate", "right")
    ids = json.loads(test.run("tokenize", folder, stdin=json.dumps({"text": "a b"}) + "\n").out)
    assert len(ids) == 3, ids  # and the eos
    assert folder_vectors(test, folder, ["a b"])[0] == cut != folder_vectors(test, folder, [text], "--max-length", "5", "--truncate", "right")[0]
    assert folder_vectors(test, folder, ["b b"])[0] == folder_vectors(test, folder, ["a b b b"], "--truncate", "left")[0] != cut


@case
def a_file_with_other_lines_is_not_replaced(test):
    lines = ["one", "two"]
    test.write("out.jsonl", ["precious"])
    refused = to_file(test, lines, status=1)
    assert "out.jsonl exists, and has other lines than these vectors" in refused.err and test.read("out.jsonl") == b"precious\n", refused
    to_file(test, lines, "--overwrite", status=0)
    vectors = test.read("out.jsonl")
    assert len(test.answers()) == 2
    to_file(test, lines, status=0)
    to_file(test, lines + ["three"], status=0)  # the earlier file is its beginning
    assert test.read("out.jsonl").startswith(vectors) and len(test.answers()) == 3
    to_file(test, ["three"], status=1)
    assert len(test.answers()) == 3


def tokens(n):
    return "the" + " the" * (n - 1)


@case
def a_text_that_is_too_long_is_refused_with_both_numbers_or_cut_where_it_is_asked_for(test):
    texts = [tokens(7), "a" + " the" * 8, "the"]
    lines = vectors_of(test, texts, "--max-length", "7", status=3)
    assert "embedding" in lines[0] and "embedding" in lines[2], lines
    assert lines[1]["error"] == {"code": "context_length_exceeded", "message": "the text has 9 tokens: expected at most 7, --max-length"}, lines
    for side, same in (("right", "a" + " the" * 6), ("left", " the" * 7)):
        cut = vectors_of(test, texts, "--max-length", "7", "--truncate", side)
        assert cut[1]["usage"]["total_tokens"] == 7 and cut[1]["embedding"] == vectors_of(test, [same])[0]["embedding"], (side, cut)
        assert [cut[0], cut[2]] == [lines[0], lines[2]], side
    assert '--truncate: expected left or right, got "up"' in test.run("embed", test.model, "--truncate", "up", stdin="the\n", status=2).err


BOTH_WAYS = {"llama.attention.causal": tiny_model.value(tiny_model.BOOL, False)}


@case
def a_model_that_attends_in_both_directions_has_the_same_vectors_in_any_steps(test):
    tiny_model.write(test.model, more_keys=BOTH_WAYS)
    texts = TEXTS + [tokens(63), tokens(64), tokens(65), tokens(255), tokens(256)]
    expected = vectors_of(test, texts)
    assert expected[2]["embedding"] != expected[-1]["embedding"], expected
    for options in (["--max-rows", "64"], ["--max-rows", "1"], ["--threads", "1", "--max-rows", "63"], ["--backend", "cpu:plain"]):
        assert vectors_of(test, texts, *options) == expected, options
    assert [vectors_of(test, [text])[0]["embedding"] for text in texts] == [line["embedding"] for line in expected]
    assert vectors_of(test, TEXTS, "--pooling", "mean") == vectors_of(test, TEXTS)  # its default
    assert vectors_of(test, TEXTS, "--pooling", "last") != vectors_of(test, TEXTS)
    said = test.run("embed", test.model, stdin="the\n").err
    assert "keys and values of one layer" in said and "rows of texts" in said, said


@case
def such_a_model_refuses_longer_texts_pages_and_to_generate(test):
    tiny_model.write(test.model, more_keys=BOTH_WAYS)
    lines = vectors_of(test, [tokens(256), tokens(257), "the"], status=3)
    assert "embedding" in lines[0] and "embedding" in lines[2], lines
    assert "the text has 257 tokens: expected at most 256, the model's context" in lines[1]["error"]["message"], lines
    cut = vectors_of(test, [tokens(257)], "--max-length", "100", "--truncate", "right")
    assert cut[0]["embedding"] == vectors_of(test, [tokens(100)])[0]["embedding"] and cut[0]["usage"]["total_tokens"] == 100, cut
    for option, value in (("--kv-type", "q8_0"), ("--kv-memory", "64M")):
        refused = test.run("embed", test.model, option, value, stdin="the\n", status=2)
        assert f"{option}: family llama attends in both directions" in refused.err, refused
    test.write("in.jsonl", ['{"prompt": "the"}'])
    refused = test.run("run", test.path("in.jsonl"), test.model, "-o", test.path("out.jsonl"), "--task", "generate", status=1)
    assert "attends in both directions: it generates no text; a worker with --task embed and sheaf embed compute its embeddings" in refused.err, refused
    shown = test.run("inspect", test.model).out
    assert re.search(f"embeddings +pooling mean, width {tiny_model.WIDTH}, normalized, texts of up to 256 tokens", shown), shown
    facts = json.loads(test.run("inspect", "--json", test.model).out)["embeddings"]
    assert facts == {"pooling": "mean", "width": tiny_model.WIDTH, "normalized": True, "longest": 256, "prompt": "", "prompts": {}}, facts


@case
def a_prompt_is_chosen_by_its_name(test):
    prompts = {"prompts": {"query": "find: ", "document": ""}, "default_prompt_name": None}
    folder = sentence_folder(test, "named", config_sentence_transformers=prompts)
    plain, _ = folder_vectors(test, folder, TEXTS)
    assert folder_vectors(test, folder, TEXTS, "--prompt-name", "query")[0] == folder_vectors(test, folder, TEXTS, "--prefix", "find: ")[0] != plain
    assert folder_vectors(test, folder, TEXTS, "--prompt-name", "document")[0] == plain
    assert "the model has the prompts query, document" in test.run("embed", folder, "--prompt-name", "q", stdin="the\n", status=2).err
    assert "expected one" in test.run("embed", folder, "--prompt-name", "query", "--prefix", "q", stdin="the\n", status=2).err
    assert "the model has no prompts" in test.run("embed", test.model, "--prompt-name", "q", stdin="the\n", status=2).err
    assert 'prompts     {"query":"find: ","document":""}' in test.run("inspect", folder).out


@case
def a_model_that_needs_a_prompt_and_gets_none_is_warned_of_once(test):
    def warnings(folder, *options):
        return [line for line in folder_vectors(test, folder, TEXTS, *options)[1].splitlines() if "warning" in line and "the texts get n" in line]
    own = sentence_folder(test, "own", config_sentence_transformers={"prompts": {"query": "find: ", "document": ""}})
    (line,) = warnings(own)
    assert "the model has the prompts query, document" in line, line
    empty = sentence_folder(test, "empty", config_sentence_transformers={"prompts": {"query": "", "document": ""}})
    default = sentence_folder(test, "default", config_sentence_transformers={"prompts": {"query": "find: "}, "default_prompt_name": "query"})
    assert not warnings(own, "--prompt-name", "document") and not warnings(own, "--prefix", "") and not warnings(empty) and not warnings(default)
    assert 'prompt      "find: " before each text' in test.run("inspect", default).out
    for name, words in (("multilingual-e5-small", '"query: " before queries and "passage: "'), ("nomic_embed_text-v1.5", '"search_query: "'),
                        ("ModernBERT-embed-base", '"search_document: " before documents'), ("EmbeddingGemma-300m", '"task: search result | query: "')):
        known = sentence_folder(test, name)
        (line,) = warnings(known)
        assert words in line and not warnings(known, "--prefix", "query: ") and not warnings(known, "--prefix", ""), line
    for name in ("e5-mistral-7b-instruct", "type5-small", "e55"):
        assert not warnings(sentence_folder(test, name)), name


def roberta_parts():
    """config.json and the tensors of an encoder."""
    width, heads = tiny_model.WIDTH, tiny_model.N_HEADS
    listed = [("embeddings.word_embeddings.weight", [tiny_model.N_VOCAB, width]), ("embeddings.position_embeddings.weight", [50, width]),
              ("embeddings.token_type_embeddings.weight", [1, width]), ("embeddings.LayerNorm.weight", [width]),
              ("embeddings.LayerNorm.bias", [width]), ("pooler.dense.weight", [width, width])]
    for layer in range(2):
        for name, rows, columns in (("attention.self.query", width, width), ("attention.self.key", width, width),
                                    ("attention.self.value", width, width), ("attention.output.dense", width, width),
                                    ("attention.output.LayerNorm", width, 0), ("intermediate.dense", 96, width), ("output.dense", width, 96),
                                    ("output.LayerNorm", width, 0)):
            listed += [(f"encoder.layer.{layer}.{name}.weight", [rows, columns] if columns else [rows]),
                       (f"encoder.layer.{layer}.{name}.bias", [rows])]
    config = {"architectures": ["RobertaModel"], "model_type": "roberta", "hidden_size": width, "num_hidden_layers": 2,
              "num_attention_heads": heads, "intermediate_size": 96, "max_position_embeddings": 50, "pad_token_id": 1, "hidden_act": "gelu"}
    return config, listed


@case
def a_roberta_folder_and_its_linear_layer_give_vectors(test):
    width, (config, listed) = tiny_model.WIDTH, roberta_parts()
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    folder = test.path("roberta")
    tiny_model.write_folder(folder, {"config.json": config, "modules.json": MODULES[:2] + [dense], "sentence_bert_config.json": {"max_seq_length": 512}},
                            listed=listed)
    for name, content in (("1_Pooling", {"pooling_mode": "cls"}), ("2_Dense", {"in_features": width, "out_features": 7, "bias": True})):
        os.mkdir(os.path.join(folder, name))
        with open(os.path.join(folder, name, "config.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)
    tiny_model.write_tensors(os.path.join(folder, "2_Dense"), [("linear.weight", [7, width]), ("linear.bias", [7])])
    vectors, err = folder_vectors(test, folder, TEXTS, "--truncate", "right")
    assert [len(vector) for vector in vectors] == [7] * len(TEXTS) and "texts of up to 48 tokens" in err, err
    assert all(-1 <= x <= 1 for vector in vectors for x in vector), vectors  # tanh, the default
    long = [tokens(48), tokens(49), tokens(60)]
    assert "2 texts were cut to 48 tokens, the model's context" in folder_vectors(test, folder, long, "--truncate", "right")[1]
    quantized = test.path("roberta.gguf")
    test.run("quantize", folder, quantized, "--type", "q8_0")
    shown = test.run("inspect", quantized).out
    assert "embeddings  pooling cls, width 7, not normalized, texts of up to 48 tokens" in shown, shown
    near, _ = folder_vectors(test, quantized, TEXTS, "--truncate", "right")
    dots = [math.fsum(a * b for a, b in zip(x, y)) / math.sqrt(math.fsum(a * a for a in x) * math.fsum(b * b for b in y)) for x, y in zip(vectors, near)]
    assert min(dots) > 0.99, dots
