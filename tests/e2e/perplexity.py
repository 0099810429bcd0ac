"""sheaf perplexity: its figures equal those computed here in double precision from the output of sheaf logits."""
import array
import gzip
import json
import math
import os

import tiny_model
from session import case, text_of

TEXT = text_of(3, 150) + "\n" + text_of(8, 150)
WINDOW = 100


def write(test, name, text):
    with open(test.path(name), "w", encoding="utf-8") as file:
        file.write(text)


def quantize(test):
    test.run("quantize", test.model, "q4.gguf", "--type", "q4_0")


def log_softmax(row):
    top = max(row)
    total = math.log(math.fsum(math.exp(x - top) for x in row)) + top
    return [x - total for x in row]


def predictions(test, model, ids):
    """The log probabilities after each token of a window."""
    test.run("logits", model, "--tokens", " ".join(map(str, ids)), "-o", "window.f32")
    values = array.array("f")
    values.frombytes(test.read("window.f32"))
    os.unlink(test.path("window.f32"))
    width = tiny_model.N_VOCAB
    return [log_softmax(values[at:at + width]) for at in range(0, len(values), width)]


def figures(test, model, against, ids, window, first):
    """[(log-likelihood, the reference's, divergence, same top)] of the scored tokens."""
    scored = []
    for at in range(0, len(ids) - window + 1, window):
        part = ids[at:at + window]
        own, other = (predictions(test, path, part) for path in (model, against))
        for position in range(first, window):
            q, p = own[position - 1], other[position - 1]
            scored.append((q[part[position]], p[part[position]], math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)),
                           q.index(max(q)) == p.index(max(p))))
    return scored


def close(found, expected):
    assert abs(found - expected) <= 1e-6 * max(1, abs(expected)), (found, expected)


def check(test, options, window, first):
    ids = json.loads(test.run("tokenize", test.model, stdin=json.dumps({"text": TEXT}) + "\n").out)
    found = json.loads(test.run("perplexity", "q4.gguf", "text.txt", "--against", test.model, "--json", *options).out)
    window = window or len(ids)
    scored = figures(test, "q4.gguf", test.model, ids, window, first)
    n = len(scored)
    assert (found["tokens"], found["scored"], found["windows"]) == (len(ids), n, len(ids) // window), found
    against = found["against"]
    close(found["nll"], -math.fsum(own for own, _, _, _ in scored) / n)
    close(found["perplexity"], math.exp(found["nll"]))
    close(against["nll"], -math.fsum(other for _, other, _, _ in scored) / n)
    close(against["kl"], math.fsum(kl for _, _, kl, _ in scored) / n)
    close(against["kl_largest"], max(kl for _, _, kl, _ in scored))
    close(against["p_difference"], math.fsum(math.exp(own) - math.exp(other) for own, other, _, _ in scored) / n)
    close(against["p_rms"], math.sqrt(math.fsum((math.exp(own) - math.exp(other)) ** 2 for own, other, _, _ in scored) / n))
    close(against["same_top"], sum(same for _, _, _, same in scored) / n)
    assert against["kl"] > 0 and against["same_top"] < 1, found


@case
def windows_are_scored_from_their_middle_on(test):
    quantize(test)
    write(test, "text.txt", TEXT)
    check(test, ["--context", str(WINDOW)], WINDOW, WINDOW // 2)


@case
def a_text_of_less_than_a_window_is_scored_from_its_second_token_on(test):
    quantize(test)
    write(test, "text.txt", TEXT)
    n = len(json.loads(test.run("tokenize", test.model, stdin=json.dumps({"text": TEXT}) + "\n").out))
    assert n > tiny_model.N_CONTEXT, n
    # the default: the model's context of 256
    check(test, [], tiny_model.N_CONTEXT, tiny_model.N_CONTEXT // 2)
    write(test, "text.txt", "the winter")
    short = json.loads(test.run("perplexity", test.model, "text.txt", "--json").out)
    assert (short["windows"], short["scored"]) == (1, short["tokens"] - 1), short


@case
def a_model_is_not_apart_from_itself(test):
    write(test, "text.txt", TEXT)
    against = json.loads(test.run("perplexity", test.model, "text.txt", "--against", test.model, "--json").out)["against"]
    assert (against["kl"], against["kl_largest"], against["same_top"], against["perplexity_ratio"]) == (0, 0, 1, 1), against


@case
def what_cannot_be_scored_is_refused_by_name(test):
    write(test, "text.txt", TEXT)
    write(test, "one.txt", "a")
    for name, content in (("latin.txt", "a\nsüß\n".encode("latin-1")), ("text.gz", gzip.compress(TEXT.encode()))):
        with open(test.path(name), "wb") as file:
            file.write(content)
    tiny_model.write(test.path("wide.gguf"), n_rows=tiny_model.N_VOCAB + 8)
    for arguments, message in (([test.model, "text.txt", "--context", "257"], "--context: expected at most 256, the model's context, got 257"),
                               ([test.model, "one.txt"], "one.txt: expected at least 2 tokens, got 1"),
                               ([test.model, "absent.txt"], "absent.txt"),
                               ([test.model, "latin.txt"], "latin.txt: line 2: expected text in UTF-8"),
                               ([test.model, "text.gz"], "text.gz: line 1: expected text in UTF-8"),
                               ([test.model, "text.txt", "--against", "wide.gguf"], f"as the model's, got {tiny_model.N_VOCAB + 8}")):
        assert message in test.run("perplexity", *arguments, status=1).err, (arguments, message)
