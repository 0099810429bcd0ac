"""Published weights (../shared/real): sheaf's answers equal those of the authors' code in full precision. Skipped where they are absent."""
import json
import math
import os

from session import Skip, case

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")
REAL = os.path.join(os.environ.get("SHEAF_SHARED", SHARED), "real")
# The logits of the two most likely tokens are at least this far apart at each step of an answer that has to be equal: sheaf's logits
# are within 2e-5 of double precision.
MARGIN = 1e-3


def real(*names):
    path = os.path.join(REAL, *names)
    if not os.path.exists(path):
        raise Skip(f"{os.path.join('..', 'shared', 'real', *names)} is not there")
    return path


def golden(*names):
    with open(real(*names, "golden.json"), encoding="utf-8") as file:
        return json.load(file)


def ids_of(test, model, texts, *options):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    return [json.loads(line) for line in test.run("tokenize", model, *options, stdin=lines).out.splitlines()]


def perplexity(test, *arguments):
    return json.loads(test.run("perplexity", *arguments, "--json").out)


@case
def a_trained_llama_continues_texts_as_in_double_precision(test):
    model, expected = real("stories260k.gguf"), golden()["greedy"]
    assert ids_of(test, model, [answer["prompt"] for answer in expected]) == [answer["prompt_ids"] for answer in expected]
    test.write("in.jsonl", [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                             "body": {"prompt": answer["prompt"], "max_tokens": answer["max_tokens"], "temperature": 0}}
                            for i, answer in enumerate(expected)])
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", model)
    lines = {line["custom_id"]: line["response"]["body"]["choices"][0] for line in test.answers()}
    wrong = [i for i, answer in enumerate(expected) if answer["smallest_margin"] >= MARGIN
             and (lines[str(i)]["text"], lines[str(i)]["finish_reason"]) != (answer["text"], answer["finish_reason"])]
    assert len(lines) == len(expected) and not wrong, [(expected[i]["text"], lines[str(i)]) for i in wrong]


@case
def a_trained_llama_has_the_perplexity_of_double_precision(test):
    expected = golden()["perplexity"]
    found = perplexity(test, real("stories260k.gguf"), real(expected["text"]))
    assert found["scored"] == expected["n_tokens"], found
    assert abs(found["nll"] - expected["mean_nll"]) < 1e-6, (found, expected)


def wrong_answers(test, answers, *model_and_options):
    """Answers of a published chat model that differ from the expected ones although the most likely token leads by MARGIN."""
    test.write("in.jsonl", [{"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions",
                             "body": {"messages": [{"role": "user", "content": answer["prompt"]}], "max_tokens": len(answer["answer_ids"]),
                                      "temperature": 0}} for i, answer in enumerate(answers)])
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", *model_and_options)
    lines = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in test.answers()}
    assert len(lines) == len(answers)
    return [(answer["answer"], lines[str(i)]) for i, answer in enumerate(answers)
            if answer["smallest_margin"] >= MARGIN and lines[str(i)] != answer["answer"]]


@case
def a_published_chat_model_answers_as_in_full_precision(test):
    source, expected = real("smollm2", "smollm2-135m-instruct-q4_1.gguf"), golden("smollm2")
    test.run("quantize", source, "f32.gguf", "--type", "f32")
    answers = expected["answers"]
    rendered = [test.run("template", "f32.gguf", stdin=json.dumps({"messages": [{"role": "user", "content": answer["prompt"]}]})).out
                for answer in answers]
    assert rendered == [answer["rendered"] for answer in answers], rendered
    assert ids_of(test, "f32.gguf", rendered, "--special") == [answer["ids"] for answer in answers]
    assert not wrong_answers(test, answers, "f32.gguf")
    found = perplexity(test, "f32.gguf", real("held_out.txt"))
    assert found["tokens"] == len(expected["text"]["ids"]), found
    assert abs(found["nll"] - expected["text"]["mean_nll"]) < 1e-5, found


@case
def with_activations_of_16_bits_a_quantized_model_answers_as_its_weights_in_full_precision(test):
    source = real("smollm2", "smollm2-135m-instruct-q4_1.gguf")
    answers = golden("smollm2")["answers"]
    test.run("quantize", source, "f32.gguf", "--type", "f32")
    assert len(wrong_answers(test, answers, source)) >= 3
    assert not wrong_answers(test, answers, source, "--activation-bits", "16", "--force-new")
    found = [perplexity(test, source, real("held_out.txt"), "--against", "f32.gguf", "--activation-bits", bits) for bits in ("8", "16")]
    assert found[1]["against"]["kl"] < 1e-6 and found[0]["against"]["kl"] > 10000 * found[1]["against"]["kl"], found


def cosine(left, right):
    return math.fsum(x * y for x, y in zip(left, right)) / math.sqrt(math.fsum(x * x for x in left) * math.fsum(y * y for y in right))


@case
def a_published_encoder_has_the_vectors_of_double_precision(test):
    """MiniLM's folder, in float16: it accepts texts of 256 tokens, although it has 512 positions."""
    expected, cut = golden("minilm")["texts"], golden("minilm")["cut_to_256"]
    lines = "".join(json.dumps({"text": text["text"]}) + "\n" for text in expected)
    found = [json.loads(line) for line in test.run("embed", real("minilm"), "--truncate", "right", stdin=lines).out.splitlines()]
    assert len(found) == len(expected), found
    for i, (line, text) in enumerate(zip(found, expected)):
        text = cut if i == cut["text"] else text
        assert line["usage"]["prompt_tokens"] == len(text["ids"]), (i, line["usage"], len(text["ids"]))
        assert 1 - cosine(line["embedding"], text["mean"]) < 1e-10, (i, 1 - cosine(line["embedding"], text["mean"]))


@case
def a_quantized_encoder_keeps_the_nearest_texts(test):
    expected, cut = golden("minilm")["texts"], golden("minilm")["cut_to_256"]
    test.run("quantize", real("minilm"), "q8.gguf", "--type", "q8_0")
    lines = "".join(json.dumps({"text": text["text"]}) + "\n" for text in expected)
    found = [json.loads(line)["embedding"] for line in test.run("embed", "q8.gguf", "--truncate", "right", stdin=lines).out.splitlines()]
    vectors = [cut["mean"] if i == cut["text"] else text["mean"] for i, text in enumerate(expected)]
    cosines = [cosine(left, right) for left, right in zip(found, vectors)]
    assert sum(cosines) / len(cosines) >= 0.9995 and min(cosines) >= 0.999, cosines

    def nearest(all_vectors, i):
        return max((j for j in range(15) if j != i), key=lambda j: cosine(all_vectors[i], all_vectors[j]))
    wrong = [i for i in range(15) if nearest(found, i) != nearest(vectors, i)]
    assert not wrong, wrong
