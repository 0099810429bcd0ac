"""Logprobs of given texts: equal to the model's, and the same bytes in every batch."""
import array
import json
import math

import tiny_model
from session import case, error_of, text_of
from tiny_model import BOOL, value

CHOICES = ["positive", "negative", "the", "the mixed one", "\u00e9"]


def body_of(answer):
    assert error_of(answer) is None, answer
    return answer["response"]["body"]


def tokens_of(test, text, *options):
    return json.loads(test.run("tokenize", test.model, *options, stdin=json.dumps({"text": text}) + "\n").out)


def drawn_logprobs(test, prompt, targets):
    """The logprob of each target, from a job that has the tokens before it as its prompt and must draw it."""
    test.write("one.jsonl", [dict(custom_id=str(i), tokens=prompt + targets[:i], max_tokens=1, temperature=0, logprobs=True,
                                  ignore_eos=True, logit_bias={str(target): 100}) for i, target in enumerate(targets)])
    store = f"{len(prompt)}-{'-'.join(map(str, targets))}.db"
    test.run("run", "one.jsonl", "-o", "one.out.jsonl", "--model", test.model, "--overwrite", "--store", store)
    return [body_of(answer)["choices"][0]["logprobs"]["token_logprobs"][0] for answer in test.answers("one.out.jsonl")]


def evaluated_logprobs(test, prompt, targets):
    """The same from the model's logits, in double precision. `logits` rounds keys and values elsewhere than a worker."""
    tokens = prompt + targets
    test.run("logits", test.model, "--tokens", " ".join(map(str, tokens)), "-o", "logits.f32")
    logits = array.array("f", open(test.path("logits.f32"), "rb").read())
    n = len(logits) // len(tokens)
    logprobs = []
    for i, target in enumerate(targets):
        row = logits[(len(prompt) + i - 1) * n:(len(prompt) + i) * n]
        logprobs.append(row[target] - max(row) - math.log(math.fsum(math.exp(x - max(row)) for x in row)))
    return logprobs


@case
def choices_have_the_sum_of_their_tokens_logprobs(test):
    end = tokens_of(test, "<|im_end|>", "--special")
    jobs = [dict(custom_id=f"{i}", tokens=tokens_of(test, text_of(i, 3 + 9 * i)), choice_logprobs=True, max_tokens=4 * i,
                 structured_outputs={"choice": CHOICES}, choice_logprobs_include_end=i == 1, temperature=0.7, logit_bias={"5": 30},
                 repetition_penalty=1.3) for i in range(2)]
    test.write("in.jsonl", jobs)
    test.run_file()
    for job, answer in zip(jobs, test.answers()):
        scores = body_of(answer)["choice_logprobs"]
        assert [score["choice"] for score in scores] == CHOICES, scores
        total = math.fsum(math.exp(score["logprob"]) for score in scores)
        for score in scores:
            targets = tokens_of(test, score["choice"]) + (end if job["choice_logprobs_include_end"] else [])
            assert abs(score["logprob"] - sum(drawn_logprobs(test, job["tokens"], targets))) < 1e-5, score
            assert abs(score["logprob"] - sum(evaluated_logprobs(test, job["tokens"], targets))) < 0.2 * len(targets), score
            assert abs(score["probability"] - math.exp(score["logprob"]) / total) < 1e-6, (score, total)


@case
def choices_are_scored_to_the_same_bytes_in_every_batch(test):
    test.write("in.jsonl", [dict(custom_id=str(i), prompt=text_of(i % 7, 30) + text_of(i, i % 9), guided_choice=CHOICES[:1 + i % 5],
                                 choice_logprobs=True, max_tokens=i % 3 * 20, seed=i) for i in range(40)])
    outputs = []
    for options in (["--max-batch", "1"], ["--threads", "1"], ["--max-batch", "16", "--max-rows", "32"], ["--backend", "cpu:plain"]):
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--overwrite", "--store", f"{len(outputs)}.db", *options)
        outputs.append(test.comparable("out.jsonl"))
    assert len(set(outputs)) == 1
    assert all(len(body_of(answer)["choice_logprobs"]) == 1 + i % 5 for i, answer in enumerate(test.answers()))


@case
def the_most_probable_choice_is_the_answer_where_the_scores_decide(test):
    requests = [dict(prompt=text_of(i, 9), guided_choice=CHOICES[i % 5:] + CHOICES[:i % 5], choice_logprobs=True) for i in range(30)]
    test.write("in.jsonl", [dict(request, custom_id=f"{i}-{decides}", max_tokens=12, choice_logprobs_decide=decides, temperature=0)
                            for i, request in enumerate(requests) for decides in (True, False)])
    test.run_file()
    n_other = 0
    answers = test.answers()
    for decided, drawn in zip(answers[::2], answers[1::2]):
        decided, drawn = body_of(decided), body_of(drawn)
        assert decided["choice_logprobs"] == drawn["choice_logprobs"]
        best = max(decided["choice_logprobs"], key=lambda score: score["logprob"])
        assert decided["choices"][0]["text"] == best["choice"] and decided["choices"][0]["finish_reason"] == "stop", decided
        assert decided["usage"]["completion_tokens"] == 0 < drawn["usage"]["completion_tokens"], decided
        n_other += drawn["choices"][0]["text"] != best["choice"]
    assert n_other > 0


SCHEMA = {"type": "object", "properties": {"why": {"type": "string", "pattern": "^[a-z ]{1,6}$"}, "tone": {"enum": ["warm", "x,y", "wa"]},
                                           "k": {"enum": [1, 10, None]}, "ok": {"type": "boolean"}, "may": {"$ref": "#/$defs/may"}},
          "required": ["why", "tone", "k", "ok"], "additionalProperties": False, "$defs": {"may": {"enum": ["a", "b"]}}}


def dumped(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def places_of(text):
    """Where each member's value is in an object's compact JSON; both may be spelled with escapes."""
    decoder = json.JSONDecoder()
    at, places = 0, {}
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at + 1)
        _, end = decoder.raw_decode(text, at + 1)
        places[name] = (at + 1, end)
        at = end
    return places


def branch(tokens, name, value):
    """The tokens kept of the answer, and the text after them with another value of a property."""
    text = "".join(tokens)
    begin, end = places_of(text)[name]
    ends = [len("".join(tokens[:i + 1])) for i in range(len(tokens))]
    kept = sum(at <= begin for at in ends)
    last = next(at for at in ends if at > end)
    return kept, text[ends[kept - 1] if kept else 0:begin] + dumped(value) + text[end:last]


@case
def values_of_a_schemas_properties_are_scored_given_the_answer_before_them(test):
    prompts = [tokens_of(test, text_of(i, 9 + i)) for i in range(4)]
    requests = [dict(custom_id=str(i), tokens=prompt, seed=i, max_tokens=90, temperature=1.2, logprobs=True, guided_json=SCHEMA, choice_logprobs=True)
                for i, prompt in enumerate(prompts)]
    test.write("in.jsonl", requests + [dict(request, custom_id="plain" + request["custom_id"], choice_logprobs=False) for request in requests])
    test.run_file()
    answers = test.answers()
    n_without, choices, found_scores = 0, [], {}
    for prompt, answer, plain in zip(prompts, answers, answers[len(prompts):]):
        body = body_of(answer)
        choice = body["choices"][0]
        assert choice == body_of(plain)["choices"][0] and body["usage"] == body_of(plain)["usage"], (choice, plain)
        found, tokens = json.loads(choice["text"]), choice["logprobs"]["tokens"]
        assert "".join(tokens) == choice["text"], tokens  # ASCII alone
        ids = [tokens_of(test, token) for token in tokens]
        assert all(len(each) == 1 for each in ids), tokens
        values = {"tone": SCHEMA["properties"]["tone"]["enum"], "k": [1, 10, None], "ok": [True, False], "may": ["a", "b"]}
        n_without += "may" not in found
        scores = iter(body["choice_logprobs"])
        for name in (name for name in values if name in found):
            branches = [branch(tokens, name, value) for value in values[name]]
            of_name = [next(scores) for _ in branches]
            assert [score["choice"] for score in of_name] == [dumped({name: value}) for value in values[name]], body
            before = prompt + [each[0] for each in ids[:branches[0][0]]]
            choices.append(dict(custom_id=f"{answer['custom_id']}-{name}", tokens=before, guided_choice=[rest for _, rest in branches],
                                choice_logprobs=True, max_tokens=0))
            found_scores[choices[-1]["custom_id"]] = [(score["logprob"], score["probability"]) for score in of_name]
            targets = tokens_of(test, branches[0][1])
            assert abs(of_name[0]["logprob"] - sum(evaluated_logprobs(test, before, targets))) < 0.2 * len(targets), (name, of_name)
        assert next(scores, None) is None, body
    assert 0 < n_without < len(prompts), n_without
    test.write("choices.jsonl", choices)
    test.run("run", "choices.jsonl", "-o", "choices.out.jsonl", "--model", test.model)
    for answer in test.answers("choices.out.jsonl"):  # the same bytes as of choices after these tokens
        assert [(score["logprob"], score["probability"]) for score in body_of(answer)["choice_logprobs"]] == found_scores[answer["custom_id"]], answer


@case
def values_of_properties_are_scored_to_the_same_bytes_in_every_batch(test):
    test.write("in.jsonl", [dict(custom_id=str(i), prompt=text_of(i % 7, 12) + text_of(i, i % 9), guided_json=SCHEMA, choice_logprobs=True,
                                 max_tokens=3 if i % 8 == 0 else 90, seed=i) for i in range(24)])
    outputs = []
    for options in (["--max-batch", "1"], ["--threads", "1"], ["--max-batch", "16", "--max-rows", "32"], ["--backend", "cpu:plain"], ["--speculate", "off"],
                    ["--max-batch", "16", "--kv-memory", "160K"]):
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--overwrite", "--store", f"{len(outputs)}.db", *options)
        outputs.append(test.comparable("out.jsonl"))
    assert len(set(outputs)) == 1
    assert all(("choice_logprobs" in body_of(answer)) == (i % 8 > 0) for i, answer in enumerate(test.answers()))  # cut answers have none


@case
def scores_without_choices_are_refused_by_name(test):
    test.write("in.jsonl", [dict(custom_id="a", prompt="p", choice_logprobs=True), dict(custom_id="b", prompt="p", max_tokens=1)])
    test.run_file()
    refused, good = test.answers()
    assert error_of(refused)["param"] == "choice_logprobs", refused
    assert "choice_logprobs" not in body_of(good), good


@case
def a_prompts_tokens_have_their_logprobs(test):
    prompt = tokens_of(test, text_of(3, 9))
    request = dict(tokens=prompt, max_tokens=3, temperature=0)
    test.write("in.jsonl", [dict(request, custom_id="a", prompt_logprobs=2), dict(request, custom_id="b", echo=True, logprobs=2),
                            dict(request, custom_id="c", echo=True, logprobs=0, max_tokens=0), dict(request, custom_id="d"),
                            dict(request, custom_id="e", echo=True)])
    test.run_file()
    scored, echoed, alone, plain, text_alone = [body_of(answer)["choices"][0] for answer in test.answers()]
    expected = drawn_logprobs(test, prompt[:1], prompt[1:])
    rows = scored["prompt_logprobs"]
    assert rows[0] is None and len(rows) == len(prompt), rows
    for row, token, logprob in zip(rows[1:], prompt[1:], expected):
        assert row[str(token)]["logprob"] == logprob and 2 <= len(row) <= 3, (row, token, logprob)
        assert sorted(entry["rank"] for entry in row.values() if entry["rank"]) == [1, 2], row
        assert all(entry["logprob"] <= max(row.values(), key=lambda other: other["logprob"])["logprob"] for entry in row.values()), row
    assert scored["text"] == plain["text"]
    logprobs = echoed["logprobs"]
    assert echoed["text"] == text_of(3, 9) + plain["text"] == text_alone["text"], (echoed, plain)
    assert alone["text"] == text_of(3, 9) and alone["logprobs"]["token_logprobs"] == [None] + expected, alone
    assert logprobs["token_logprobs"][:len(prompt)] == [None] + expected and logprobs["top_logprobs"][0] is None, logprobs
    assert "".join(logprobs["tokens"][:len(prompt)]) == text_of(3, 9), logprobs
    assert logprobs["text_offset"][:len(prompt)] == [len("".join(logprobs["tokens"][:i])) for i in range(len(prompt))], logprobs
    assert len(logprobs["tokens"]) == len(prompt) + 3


@case
def an_echoed_token_has_the_offset_where_it_stands_in_the_text(test):
    prompts = {"the<|im_end|>a b": [0, 0, 3, 13, 14, 15], "<|endoftext|><|im_start|>the": [0, 13, 25], "\u00e9<|im_end|>a": [0, 0, 0, 1, 11],
               "a<|im_end|> <|im_end|>": [0, 0, 1, 11, 12]}
    adds_bos = {"tokenizer.ggml.add_bos_token": value(BOOL, True)}
    for adds_space in (False, True):  # a blank before the first word, and after a special token
        tiny_model.write(test.model, more_keys={**adds_bos, "tokenizer.ggml.add_space_prefix": value(BOOL, adds_space)})
        test.write("in.jsonl", [dict(prompt=prompt, max_tokens=1, temperature=0, logit_bias={"97": 100}, logprobs=0, echo=True)
                                for prompt in prompts])
        test.run("run", "in.jsonl", "-o", f"{adds_space}.jsonl", "--model", test.model)
        for (prompt, offsets), answer in zip(prompts.items(), test.answers(f"{adds_space}.jsonl")):
            choice = body_of(answer)["choices"][0]
            tokens, found = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
            assert choice["text"] == prompt + "a" and found[-1] == len(prompt), choice
            spelled = [(token.lstrip(" ") or token, offset) for token, offset in zip(tokens, found) if "bytes:" not in token]
            assert all(prompt[offset:].lstrip(" ").startswith(token.lstrip(" ")) for token, offset in spelled[1:-1]), choice
            assert adds_space or found[:-1] == offsets, (found, offsets)


@case
def an_echo_and_prompt_logprobs_have_each_their_own_number_of_alternatives(test):
    prompt = tokens_of(test, text_of(3, 9))
    cases = [(n, m) for n in (0, 1, 2, 4) for m in (None, 0, 1, 3)]
    test.write("in.jsonl", [dict(custom_id=str(i), tokens=prompt, max_tokens=2, temperature=0, echo=True, logprobs=n,
                                 **({} if m is None else {"prompt_logprobs": m})) for i, (n, m) in enumerate(cases)])
    test.run_file()
    for (n, m), answer in zip(cases, test.answers()):
        choice = body_of(answer)["choices"][0]
        for row in choice["logprobs"]["top_logprobs"][1:]:
            assert n <= len(row or {}) <= n + 1, (n, m, row)
        for row in choice.get("prompt_logprobs", [None])[1:]:
            assert max(m, 1) <= len(row) <= m + 1, (n, m, row)


@case
def a_scored_prompt_is_the_same_from_the_cache_and_in_every_batch(test):
    test.write("in.jsonl", [dict(custom_id=str(i), prompt=text_of(i % 3, 40) + text_of(i, i % 9), max_tokens=i % 3, seed=i,
                                 **({"prompt_logprobs": i % 4} if i % 2 else {"echo": i % 4 == 0, "logprobs": 1})) for i in range(40)])
    outputs = []
    for options in (["--max-batch", "1"], ["--threads", "1"], ["--max-batch", "16", "--max-rows", "32"], ["--backend", "cpu:plain"]):
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--overwrite", "--store", f"{len(outputs)}.db", *options)
        outputs.append(test.comparable("out.jsonl"))
    assert len(set(outputs)) == 1
