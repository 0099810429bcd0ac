"""Structured output: every finished answer satisfies its constraint, alone and in a batch, and a refusal names its cause."""
import json
import re

import tiny_model
from session import case, error_of

LABELS = ["positive", "negative", "mixed"]
REVIEW = {"type": "object", "additionalProperties": False, "required": ["label", "score", "words"],
          "properties": {"label": {"enum": LABELS}, "score": {"type": "integer", "minimum": 1, "maximum": 5},
                         "words": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
                         "note": {"type": ["string", "null"], "maxLength": 12}}}


def is_review(text):
    review = json.loads(text)
    assert list(review) in (["label", "score", "words"], ["label", "score", "words", "note"]), text
    assert review["label"] in LABELS and review["score"] in range(1, 6) and len(review["words"]) <= 3, text
    assert all(isinstance(word, str) and len(word) <= 8 for word in review["words"]), text
    note = review.get("note")
    assert note is None or (isinstance(note, str) and len(note) <= 12), text
    review["score"] = int(review["score"])  # 3E0 is an integer too
    text = re.sub('"score":[^,]+', f'"score":{review["score"]}', text, count=1)
    assert text == json.dumps(review, ensure_ascii=False, separators=(",", ":")) or "\\" in text, text


KINDS = [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "review", "schema": REVIEW}}}, is_review),
    ({"structured_outputs": {"choice": LABELS}}, lambda text: LABELS.index(text)),
    ({"guided_regex": r"[A-Z][a-z]{2,6} (19|20)\d{2}"}, lambda text: re.fullmatch(r"[A-Z][a-z]{2,6} (19|20)[0-9]{2}", text)[0]),
    ({"guided_json": {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 2, "maxItems": 4}},
     lambda text: [[1, 2, 3].index(item) for item in json.loads(text)][1]),
    ({}, str),
]


def jobs(n):
    return [dict(KINDS[i % len(KINDS)][0], custom_id=str(i), prompt=f"the {i}", temperature=i % 3, max_tokens=120) for i in range(n)]


def text_of(answer):
    assert error_of(answer) is None, answer
    return answer["response"]["body"]["choices"][0]


@case
def answers_that_ended_are_what_their_jobs_asked_for(test):
    test.write("in.jsonl", jobs(100))
    test.run_file()
    n_ended = 0
    for answer in test.answers():
        choice = text_of(answer)
        if choice["finish_reason"] == "stop":
            n_ended += 1
            KINDS[int(answer["custom_id"]) % len(KINDS)][1](choice["text"])
    assert n_ended > 60, n_ended


@case
def numbers_beyond_64_bits_are_enforced_to_the_last_digit(test):
    long, limits = 123456789012345678901234567890, {"type": "integer", "minimum": 123456789012345678901, "maximum": 123456789012345678902}
    schemas = {"const": {"const": long}, "negative": {"const": -2**63 - 1}, "power": {"const": 2**64}, "range": limits}
    fields = {"response_format": lambda schema: {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
              "guided_json": lambda schema: schema, "structured_outputs": lambda schema: {"json": json.dumps(schema)}}
    test.write("in.jsonl", [{"custom_id": f"{name} {field}", "prompt": "x", "max_tokens": 60, "temperature": 0, field: wrap(schema)}
                            for name, schema in schemas.items() for field, wrap in fields.items()])
    test.run_file()
    for answer in test.answers():
        schema = schemas[answer["custom_id"].split()[0]]
        number = json.loads(text_of(answer)["text"])
        assert number == schema.get("const", number) and (schema is not limits or limits["minimum"] <= number <= limits["maximum"]), answer


@case
def a_keyword_of_another_draft_is_refused(test):
    """In draft 4 exclusiveMinimum is a flag beside minimum."""
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "exclusiveMinimum": 5, "maximum": 6}
    test.write("in.jsonl", [{"prompt": "x", "guided_json": schema}])
    test.run_file(status=3)
    fault, = test.answers()
    assert "exclusiveMinimum" in error_of(fault)["message"] and "boolean" in error_of(fault)["message"], fault


@case
def a_regex_is_read_as_python_reads_it(test):
    regexes = [r"\[[^]]*\]", r"[]a]+", r"[a-c]\d{,2}", r"\A(a|b$)\s?\Z", r"[^^]\w\b."]
    refused = ["a++", "[a&&b]", "[[:alpha:]]", r"(?i)a", r"\p{L}", "[^]"]
    test.write("in.jsonl", [{"custom_id": str(i), "prompt": "p", "structured_outputs": {"regex": regexes[i % len(regexes)]}, "temperature": 2, "seed": i,
                             "max_tokens": 60} for i in range(40)] +
               [{"custom_id": regex, "prompt": "p", "guided_regex": regex} for regex in refused])
    test.run_file()
    ended = 0
    for answer in test.answers():
        if answer["custom_id"] in refused:
            assert "pattern, byte" in error_of(answer)["message"], answer
        elif text_of(answer)["finish_reason"] == "stop":
            ended += 1
            assert re.fullmatch(regexes[int(answer["custom_id"]) % len(regexes)], text_of(answer)["text"], re.ASCII), answer
    assert ended > 20, ended


@case
def a_constrained_answer_is_the_same_alone_and_in_a_batch(test):
    test.write("in.jsonl", jobs(40))
    texts = []
    for options in (["--max-batch", "1"], ["--threads", "1"], ["--max-batch", "16", "--max-rows", "32"]):
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--overwrite", "--store", f"{len(texts)}.db", *options)
        texts.append([text_of(answer) for answer in test.answers("out.jsonl")])
    assert texts[0] == texts[1] == texts[2]


HOSTILE = 'root ::= ' + 'e ' * 150 + 'root? "b"\ne ::= [a-z]?'  # each letter may be any of the e, of any root


@case
def a_grammar_whose_work_grows_with_its_answer_ends_alone(test):
    hostile = dict(prompt="p", max_tokens=100, temperature=1.5, guided_grammar=HOSTILE)
    test.write("in.jsonl", [dict(hostile, custom_id="hostile")] + [dict(custom_id=str(i), prompt="hi", max_tokens=20) for i in range(3)])
    test.run_file()
    answers = {answer["custom_id"]: answer for answer in test.answers()}
    error = error_of(answers.pop("hostile"))
    assert "grammar_answer_work: more than 15000000" in error["message"] and error["code"] == "limit_exceeded", error
    assert all(text_of(answer)["text"] for answer in answers.values()) and len(answers) == 3, answers


@case
def the_engine_without_a_model_draws_allowed_tokens_too(test):
    test.write("in.jsonl", jobs(50))
    test.run_file("in.jsonl", "out.jsonl", "--engine-test", "instant")
    for answer in test.answers():
        if text_of(answer)["finish_reason"] == "stop":
            KINDS[int(answer["custom_id"]) % len(KINDS)][1](text_of(answer)["text"])


@case
def a_keyword_that_is_not_enforced_refuses_its_job_alone(test):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(x)\\1"}}}
    test.write("in.jsonl", [{"custom_id": "bad", "prompt": "p", "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
                            {"custom_id": "none", "prompt": "p", "guided_json": {"type": "integer", "minimum": 2, "maximum": 1}},
                            {"custom_id": "again", "prompt": "p", "structured_outputs": {"json": {"type": "integer", "minimum": 2, "maximum": 1}}},
                            {"custom_id": "good", "prompt": "p", "guided_regex": "yes|no", "max_tokens": 9}])
    test.run_file()
    bad, none, again, good = test.answers()
    error = error_of(bad)
    assert "pattern" in error["message"] and "/properties/a" in error["message"], error
    assert error_of(none)["param"] == "guided_json", none
    assert error_of(again)["message"].startswith("structured_outputs.json: "), again  # compiled once, named by each
    assert text_of(good)["text"] in ("yes", "no"), good


def written(text):
    """The names in order, and the text without the contents of strings and numbers."""
    return tuple(json.loads(text)), re.sub(r'"[^"]*"', "s", re.sub(r"-?[0-9][0-9.eE+-]*(?=[],}\s])", "n", text))


@case
def json_is_written_as_its_job_asks(test):
    # a value whose strings and numbers are given, so that every answer ends
    schema = {"type": "object", "additionalProperties": False, "required": ["b", "a"],
              "properties": {"b": {"const": 1}, "a": {"type": "array", "prefixItems": [{"const": "x"}, {"const": 2}], "minItems": 2,
                                                      "maxItems": 2, "items": False}}}
    value = {"b": 1, "a": ["x", 2]}
    compact = json.dumps(value, separators=(",", ":"))
    ways = [({}, [compact]), ({"json_spacing": "compact"}, [compact]), ({"json_spacing": "spaced"}, [json.dumps(value)]),
            ({"json_spacing": 3}, [json.dumps(value, indent=3)]), ({"guided_whitespace_pattern": "[ \\n]{0,3}"}, [compact]),
            ({"json_any_order": True, "json_spacing": "spaced"}, [json.dumps(value), json.dumps({"a": value["a"], "b": 1})])]
    test.write("in.jsonl", [dict(options, custom_id=f"{i} {seed}", prompt=f"{seed} p", guided_json=schema, seed=seed, max_tokens=200)
                            for i, (options, _) in enumerate(ways) for seed in range(20)])
    test.run_file()
    found = [set() for _ in ways]
    for answer in test.answers():
        choice = text_of(answer)
        if choice["finish_reason"] == "stop":
            assert json.loads(choice["text"]) == value, choice
            found[int(answer["custom_id"].split()[0])].add(written(choice["text"]))
    for (options, expected), texts in zip(ways, found):
        assert texts == {written(text) for text in expected}, (options, texts)


@case
def white_space_that_nothing_bounds_is_refused(test):
    test.write("in.jsonl", [{"custom_id": "a", "prompt": "p", "structured_outputs": {"json": {"type": "integer"}, "whitespace_pattern": "[ ]+"}},
                            {"custom_id": "b", "prompt": "p", "guided_json": {"const": 7}, "guided_whitespace_pattern": "("},
                            {"custom_id": "c", "prompt": "p", "guided_json": {"const": 7}, "guided_whitespace_pattern": "[ ]*", "max_tokens": 9}])
    test.run_file()
    plus, broken, good = test.answers()
    assert "whitespace_pattern" in error_of(plus)["message"], plus
    assert error_of(broken)["message"].startswith("guided_json: "), broken
    assert text_of(good)["text"].startswith("7"), good


@case
def no_answer_has_a_token_that_completes_a_bad_word(test):
    request = dict(max_tokens=60, logprobs=0, ignore_eos=True)
    test.write("in.jsonl", [dict(request, custom_id=f"{i}", prompt=f"the {i}", seed=i) for i in range(20)])
    test.run_file()
    free = [text_of(answer)["logprobs"]["tokens"] for answer in test.answers()]
    plain = [[token for token in tokens if re.fullmatch("[!-~]", token)] for tokens in free]
    words = [[tokens[0]] + ["".join(tokens[1:3])] for tokens in plain]
    test.write("bad.jsonl", [dict(request, custom_id=f"{i}", prompt=f"the {i}", seed=i, bad_words=words[i]) for i in range(20)])
    test.run("run", "bad.jsonl", "-o", "bad.out.jsonl", "--model", test.model, "--store", "bad.db")
    for i, answer in enumerate(test.answers("bad.out.jsonl")):
        tokens = text_of(answer)["logprobs"]["tokens"]
        assert words[i][0] in free[i] and words[i][0] not in tokens, (words[i], tokens)
        assert all(a + b != words[i][1] or [a, b] != plain[i][1:3] for a, b in zip(tokens, tokens[1:])), (words[i], tokens)


# "th" is also a token, so "t" is drawn only if "h" may not follow; the text before it always ends a word.
@case
def forced_tokens_end_before_the_first_that_may_go_on(test):
    n_forced = {"xyt(h|q)": 2, "qthext(h|q)": 3, "xyt(h|q)zzt(h|q)": 4, "t(h|q)": 0, "xyt(k|q)": 3}
    test.write("in.jsonl", [{"custom_id": f"{regex} {i}", "prompt": f"the {i}", "temperature": 2, "seed": i, "guided_regex": regex}
                            for regex in n_forced for i in range(4)])
    test.run_file()
    for name, forced in test.query("SELECT custom_id, forced_tokens FROM jobs", "out.jsonl.db"):
        assert forced == n_forced[name.split()[0]] + 1, (name, forced)  # with the end


# Two tokens have no merges: they count for the shortest end, and the tokenizer never writes them.
@case
def an_answer_that_closes_is_complete_although_its_tokens_are_forced(test):
    names = ["xqzjkvw", "wvkjzqx"]
    types = [tiny_model.NORMAL] * (tiny_model.N_VOCAB - 3) + [tiny_model.CONTROL] * 3 + [tiny_model.NORMAL] * len(names)
    tiny_model.write(test.path("long.gguf"), n_rows=len(types), more_keys={
        "tokenizer.ggml.tokens": tiny_model.array(tiny_model.STRING, tiny_model.TOKENS + names),
        "tokenizer.ggml.token_type": tiny_model.array(tiny_model.INT32, types)})
    schema = {"type": "object", "additionalProperties": False, "required": ["xqzjkvw", "wvkjzqx"],
              "properties": {"xqzjkvw": {"type": "string"}, "wvkjzqx": {"enum": ["thetheqq", "andandzz", 7]}}}
    test.write("in.jsonl", [{"custom_id": f"{n} {i}", "prompt": f"the {i}", "temperature": 2, "seed": i, "max_tokens": n, "guided_json": schema,
                             "close_at_max_tokens": True} for n in range(5, 60) for i in range(4)])
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", "long.gguf", status=3)
    n_closed, shortest = 0, None
    for answer in test.answers():
        if error_of(answer):
            shortest = int(re.search("the shortest answer has ([0-9]+) tokens", error_of(answer)["message"])[1])
            assert int(answer["custom_id"].split()[0]) < shortest, answer
            continue
        body = answer["response"]["body"]
        assert list(json.loads(text_of(answer)["text"])) == ["xqzjkvw", "wvkjzqx"], answer
        assert body["usage"]["completion_tokens"] <= int(answer["custom_id"].split()[0]), answer
        n_closed += 1
    assert shortest and n_closed >= 40, (shortest, n_closed)
    (forced,), = test.query("SELECT sum(forced_tokens) FROM jobs", "out.jsonl.db")
    assert forced > 4 * n_closed, (forced, n_closed)
