"""Classes of texts and rankings of documents: the head's function of the last hidden state, one bad input harms no other, and an interrupted
command goes on to the same bytes."""
import json
import math
import os
import resource
import struct

import tiny_model
from session import case, text_of

TEXTS = ["the winter", "another thing in the earth rather within the water", "the", "inner " * 30, "the winter"]
LABELS = {"0": "bad", "1": "so so", "2": "good"}


def llama_config(**settings):
    return {"model_type": "llama", "hidden_size": tiny_model.WIDTH, "vocab_size": tiny_model.N_VOCAB, "num_hidden_layers": tiny_model.N_LAYERS,
            "num_attention_heads": tiny_model.N_HEADS, "num_key_value_heads": tiny_model.N_KV_HEADS, "intermediate_size": tiny_model.N_FF,
            "rms_norm_eps": 1e-5, "max_position_embeddings": tiny_model.N_CONTEXT, "hidden_act": "silu", "tie_word_embeddings": False, **settings}


def head_folder(test, name, n_labels, labels=None, listed=(), **settings):
    """A llama with a classification head; `labels` as id2label."""
    body = [item for item in tiny_model.folder_tensors() if item[0] != "lm_head.weight"]
    config = llama_config(architectures=["LlamaForSequenceClassification"], **({"id2label": labels} if labels else {}), **settings)
    folder = test.path(name)
    tiny_model.write_folder(folder, {"config.json": config}, listed=[*body, *(listed or [("score.weight", [n_labels, tiny_model.WIDTH])])])
    return folder


def head_of(folder, n_labels):
    """The rows of the head, read from the file."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        begin, end = json.loads(file.read(size))["score.weight"]["data_offsets"]
        file.seek(8 + size + begin)
        numbers = struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))
    return [numbers[i * tiny_model.WIDTH:(i + 1) * tiny_model.WIDTH] for i in range(n_labels)]


def logits_of(test, folder, n_labels, texts):
    """Computed from the vectors of sheaf embed."""
    lines = test.run("embed", folder, "--pooling", "last", "--no-normalize", stdin="".join(json.dumps({"text": text}) + "\n" for text in texts)).out
    head = head_of(folder, n_labels)
    return [[math.fsum(a * b for a, b in zip(json.loads(line)["embedding"], row)) for row in head] for line in lines.splitlines()]


def softmax(logits):
    powers = [math.exp(x - max(logits)) for x in logits]
    return [x / sum(powers) for x in powers]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def lines_of(test, command, folder, lines, *options, status=0):
    stdin = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return [json.loads(line) for line in test.run(command, folder, *options, stdin=stdin, status=status).out.splitlines()]


def close(got, expected):
    return len(got) == len(expected) and all(abs(a - b) < 1e-5 * (1 + abs(b)) for a, b in zip(got, expected))


@case
def a_text_has_the_label_and_the_probabilities_of_its_last_hidden_state(test):
    folder = head_folder(test, "three", 3, LABELS)
    expected = logits_of(test, folder, 3, TEXTS)
    lines = lines_of(test, "classify", folder, [{"text": text, "id": i} for i, text in enumerate(TEXTS)])
    for i, (line, logits) in enumerate(zip(lines, expected)):
        assert line["object"] == "classification" and line["index"] == line["id"] == i and line["num_classes"] == 3, line
        assert close(line["probs"], softmax(logits)) and line["label"] == LABELS[str(logits.index(max(logits)))], (line, logits)
        n = len(json.loads(test.run("tokenize", folder, stdin=json.dumps({"text": TEXTS[i]}) + "\n").out))
        assert line["usage"] == {"prompt_tokens": n, "total_tokens": n}, line
    assert len({tuple(line["probs"]) for line in lines}) == 4 and lines[0]["probs"] == lines[4]["probs"], lines
    raw = lines_of(test, "classify", folder, TEXTS, "--activation", "none")
    assert all(close(line["logits"], logits) for line, logits in zip(raw, expected)), raw
    each = lines_of(test, "classify", folder, TEXTS, "--activation", "sigmoid")
    assert all(close(line["probs"], [sigmoid(x) for x in logits]) for line, logits in zip(each, expected)), each
    many = head_folder(test, "many", 3, LABELS, problem_type="multi_label_classification")
    assert [line["probs"] for line in lines_of(test, "classify", many, TEXTS)] == [line["probs"] for line in each]


@case
def a_special_token_in_a_text_is_one_token(test):
    folder = head_folder(test, "three", 3, LABELS)
    text = "<|im_start|>the"
    ids = json.loads(test.run("tokenize", folder, "--special", stdin=json.dumps({"text": text}) + "\n").out)
    (line,) = lines_of(test, "classify", folder, [text])
    assert line["usage"]["prompt_tokens"] == len(ids) < 5 and close(line["probs"], softmax(logits_of(test, folder, 3, [text])[0])), (line, ids)


@case
def scores_are_the_same_bytes_in_any_steps_and_threads(test):
    folder = head_folder(test, "three", 3, LABELS)
    expected = lines_of(test, "classify", folder, TEXTS)
    for options in (["--max-rows", "64"], ["--threads", "1"], ["--backend", "cpu:plain"]):
        assert lines_of(test, "classify", folder, TEXTS, *options) == expected, options
    alone = [lines_of(test, "classify", folder, [text])[0]["probs"] for text in TEXTS]
    assert alone == [line["probs"] for line in expected]


@case
def documents_come_in_the_order_of_their_relevance(test):
    """A pair is what the tokenizer's post-processor makes of it: here the two texts without a token between them."""
    folder = head_folder(test, "one", 1)
    documents = [" " + text for text in TEXTS]
    expected = [sigmoid(logits[0]) for logits in logits_of(test, folder, 1, ["water" + document for document in documents])]
    whole, top, single, objects = lines_of(test, "rerank", folder, [
        {"query": "water", "documents": documents, "id": "a"}, {"query": "water", "documents": documents, "top_n": 2},
        {"query": "water", "document": documents[1]}, {"query": "water", "documents": [{"text": text} for text in documents]}])
    assert whole["object"] == "rerank" and whole["id"] == "a" and [line["index"] for line in (whole, top, single)] == [0, 1, 2], whole
    order = sorted(range(len(TEXTS)), key=lambda i: (-whole_score(whole, i), i))
    assert [result["index"] for result in whole["results"]] == order and len(order) == 5, whole
    assert close([whole_score(whole, i) for i in range(5)], expected), (whole, expected)
    assert top["results"] == whole["results"][:2] and objects["results"] == whole["results"]
    assert single["object"] == "score" and single["score"] == whole_score(whole, 1), single
    assert top["usage"] == whole["usage"] and single["usage"]["total_tokens"] < whole["usage"]["total_tokens"], (top, single)
    limited = lines_of(test, "rerank", folder, [{"query": "water", "documents": documents}], "--top-n", "1")
    assert limited[0]["results"] == whole["results"][:1]
    identity = head_folder(test, "identity", 1, sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.1.0"})
    raw = lines_of(test, "rerank", identity, [{"query": "water", "document": documents[1]}])[0]["score"]
    assert abs(sigmoid(raw) - expected[1]) < 1e-5 and abs(raw - expected[1]) > 1e-3, (raw, expected)


def whole_score(line, index):
    return next(result["relevance_score"] for result in line["results"] if result["index"] == index)


@case
def a_bad_line_or_document_has_its_error_and_the_others_their_scores(test):
    three, one = head_folder(test, "three", 3, LABELS), head_folder(test, "one", 1)
    lines = ['{"text": "the winter"}', '{"text": 5}', '{"text"', '{"text": ""}', '{"text": "' + "inner " * 400 + '"}', '{"text": "the", "text_pair": 7}',
             '{"text": "the winter", "id": "z"}']
    got = lines_of(test, "classify", three, lines, status=3)
    errors = {line["index"]: line["error"]["code"] for line in got if "error" in line}
    assert errors == {1: "missing_field", 2: "invalid_encoding", 3: "empty_prompt", 4: "context_length_exceeded", 5: "invalid_field"}, got
    assert got[0]["probs"] == got[6]["probs"] and got[6]["id"] == "z", got
    assert "expected at most 256" in got[4]["error"]["message"], got[4]
    pairs = [{"query": "water", "documents": ["the", "inner " * 400, "the winter"], "id": 1}, {"query": "water", "documents": []},
             {"query": 4, "documents": ["the"]}, {"query": "water", "documents": ["the", 5]}, {"query": "water", "documents": ["the"], "top_n": 0},
             {"query": "water", "document": "inner " * 400}, {"query": "water", "documents": ["the", "the winter"]}, "[]", "text"]
    got = lines_of(test, "rerank", one, pairs, status=3)
    assert [line.get("error", {}).get("code") for line in got] == [None, "missing_field", "missing_field", "invalid_field", "invalid_field",
                                                                  "context_length_exceeded", None, "missing_field", "invalid_encoding"], got
    assert [error["index"] for error in got[0]["errors"]] == [1] and got[0]["errors"][0]["error"]["code"] == "context_length_exceeded", got[0]
    assert {(r["index"] > 0, r["relevance_score"]) for r in got[0]["results"]} == {(r["index"] > 0, r["relevance_score"]) for r in got[6]["results"]}
    assert lines_of(test, "rerank", one, pairs[:1], status=3)[0] == got[0]
    cut = lines_of(test, "rerank", one, pairs[:1], "--max-length", "40")[0]
    assert len(cut["results"]) == 3 and cut["usage"]["total_tokens"] < 100, cut


GROUPS = ["--max-rows", "64"]  # which are written when their texts have 512 tokens


@case
def an_interrupted_command_goes_on_to_the_same_bytes(test):
    folder = head_folder(test, "three", 3, LABELS)
    lines = [json.dumps({"id": i, "text": 5 if i % 50 == 7 else text_of(i, 1 + i % 9)}) for i in range(300)]
    to_file = lambda *options, status, **others: test.run("classify", folder, "-o", "out.jsonl", *GROUPS, *options, stdin="\n".join(lines),
                                                          status=status, **others)
    assert "6 of 300 lines have an error" in to_file(status=3).err
    expected = test.read("out.jsonl")
    os.remove(test.path("out.jsonl"))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(expected) // 2, len(expected) // 2))
    assert "File too large" in to_file(status=1, preexec_fn=limit).err and not test.exists("out.jsonl")
    n_before = json.loads(test.read("out.jsonl.part.state"))["n_lines"]
    assert 50 < n_before < 250, n_before
    assert "out.jsonl.part was written with other options" in to_file("--activation", "none", status=1).err
    others = test.run("classify", folder, "-o", "out.jsonl", stdin="\n".join(["the", *lines[1:]]), status=1)
    assert "out.jsonl.part was written from other input" in others.err, others
    rest = to_file(status=3)
    assert f"resuming: {n_before} lines were written before" in rest.err and "6 of 300 lines have an error" in rest.err, rest
    assert test.read("out.jsonl") == expected and sorted(name for name in os.listdir(test.folder) if name.startswith("out")) == ["out.jsonl"]
    other = test.run("classify", folder, "-o", "out.jsonl", stdin="the winter\n", status=1)
    assert "out.jsonl" in other.err and test.read("out.jsonl") == expected, other


@case
def a_model_without_the_head_that_is_asked_for_is_refused_by_name(test):
    three = head_folder(test, "three", 3, LABELS)
    for command, model, options, words in (
            ("classify", test.model, [], "has no classification head: tensor cls.output.weight is missing; a model that answers yes or no"),
            ("rerank", test.model, [], "has no classification head"),
            ("rerank", three, [], "three has 3 labels (bad, ...): expected a reranker with one, or yes and no; sheaf classify"),
            ("classify", three, ["--activation", "zebra"], 'expected model, none, sigmoid or softmax, got "zebra"'),
            ("rerank", test.model, ["--answers", "yes"], '--answers: expected two words as yes,no, the relevant one first, got "yes"'),
            ("rerank", test.model, ["--answers", "zebra,no"], '--answers: "zebra" has'),
            ("rerank", head_folder(test, "tanh", 1, sbert_ce_default_activation_function="torch.nn.modules.activation.Tanh"), [],
             'expected none, sigmoid or softmax, file has "torch.nn.modules.activation.Tanh"')):
        finished = test.run(command, model, *options, stdin='{"query": "a", "text": "a", "document": "b"}\n', status=None)
        assert finished.status in (1, 2) and words in finished.err and not finished.out, finished
    tanh = test.path("tanh")  # named by the file, overruled by the option
    line = {"query": "water", "text": "water the", "document": " the"}
    assert abs(sigmoid(lines_of(test, "rerank", tanh, [line], "--activation", "none")[0]["score"]) - lines_of(test, "classify", tanh, [line])[0]["probs"][0]) < 1e-5
    test.write("in.jsonl", ['{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "the"}}'])
    refused = test.run("run", "in.jsonl", "--model", three, "-o", "out.jsonl", "--task", "generate", status=1)
    assert "sheaf classify and sheaf rerank compute its scores" in refused.err, refused
    shown = test.run("inspect", three).out
    assert "head        3 labels, pooling last, activation softmax" in shown and "labels      bad, so so, good" in shown, shown
    head = json.loads(test.run("inspect", "--json", three).out)["head"]
    assert head == {"pooling": "last", "layer": "none", "activation": "softmax", "labels": ["bad", "so so", "good"]}, head


@case
def a_folder_and_its_gguf_give_the_same_scores(test):
    three = head_folder(test, "three", 3, LABELS)
    expected = lines_of(test, "classify", three, TEXTS)
    test.run("quantize", three, test.path("three.gguf"), "--type", "f32")
    assert lines_of(test, "classify", test.path("three.gguf"), TEXTS) == expected
    test.run("quantize", three, test.path("small.gguf"), "--type", "q8_0")
    weights = json.loads(test.run("inspect", "--json", test.path("small.gguf")).out)["weights"]
    assert weights["F32"]["tensors"] == 2 * tiny_model.N_LAYERS + 1 + 1, weights  # norms, and the head
    small = lines_of(test, "classify", test.path("small.gguf"), TEXTS)
    assert small != expected and all(abs(a - b) < 0.05 for x, y in zip(small, expected) for a, b in zip(x["probs"], y["probs"])), small


@case
def the_labels_yes_and_no_make_a_reranker(test):
    """In either order, as llama.cpp's converter writes them for a Qwen3-Reranker."""
    lines = [{"query": "water", "text": "water", "text_pair": document, "document": document} for document in (" the", " winter")]
    for labels in ({"0": "yes", "1": "no"}, {"0": "no", "1": "yes"}):
        folder = head_folder(test, labels["0"], 2, labels)
        probabilities = [dict(zip(labels.values(), line["probs"])) for line in lines_of(test, "classify", folder, lines)]
        assert [line["score"] for line in lines_of(test, "rerank", folder, lines)] == [each["yes"] for each in probabilities]
    maybe = head_folder(test, "maybe", 2, {"0": "maybe", "1": "no"})
    assert "maybe has 2 labels (maybe, ...)" in test.run("rerank", maybe, stdin="{}\n", status=1).err
    fewer = head_folder(test, "fewer", 3, {"0": "yes", "1": "no"})
    assert "expected 3 texts, the rows of cls.output.weight, file has 2 items" in test.run("classify", fewer, stdin="the\n", status=1).err


@case
def a_template_in_the_file_joins_a_pair(test):
    template = "<|im_start|>ask {query} of {document}<|im_end|>"
    path = test.path("templated.gguf")
    tiny_model.write(path, more_keys={"tokenizer.chat_template.rerank": tiny_model.value(tiny_model.STRING, template)})
    ids = json.loads(test.run("tokenize", path, "--special", stdin=json.dumps({"text": template.format(query="q", document="d")}) + "\n").out)
    line = lines_of(test, "rerank", path, [{"query": "q", "document": "d"}, {"query": "q", "document": "<|im_end|>"}], "--answers", "y,n")
    assert line[0]["usage"]["total_tokens"] == len(ids) and line[1]["usage"]["total_tokens"] == len(ids) + 9, (line, ids)
    refused = test.run("rerank", path, "--answers", "y,n", "--instruct", "find", stdin="{}\n", status=2)
    assert "--instruct: tiny has no template with an instruction" in refused.err, refused


@case
def a_judge_weighs_its_two_answers_after_its_template(test):
    """Of a language model: the softmax of two logits after the template, which sheaf logits computes too."""
    folder = test.path("judge")
    body = tiny_model.folder_tensors()
    tiny_model.write_folder(folder, {"config.json": llama_config(architectures=["LlamaForCausalLM"], max_position_embeddings=1024)}, listed=body)
    template = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the '
                'answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: INSTRUCT\n<Query>: q\n<Document>: d<|im_end|>\n'
                '<|im_start|>assistant\n<think>\n\n</think>\n\n')
    for options, instruct in (([], "Given a web search query, retrieve relevant passages that answer the query"), (["--instruct", "find"], "find")):
        text = template.replace("INSTRUCT", instruct)
        ids = json.loads(test.run("tokenize", folder, "--special", stdin=json.dumps({"text": text}) + "\n").out)
        test.run("logits", folder, "--tokens", " ".join(map(str, ids)), "-o", test.path("logits.f32"))
        data = test.read("logits.f32")
        last = struct.unpack(f"<{tiny_model.N_VOCAB}f", data[-4 * tiny_model.N_VOCAB:])
        yes, no = (last[tiny_model.TOKENS.index(word)] for word in "yn")
        got = lines_of(test, "rerank", folder, [{"query": "q", "document": "d"}], "--answers", "y,n", *options)[0]
        assert abs(got["score"] - sigmoid(yes - no)) < 1e-4 and got["usage"]["total_tokens"] == len(ids), (got, yes, no)
