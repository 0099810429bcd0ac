"""Thinking budgets: thoughts end at their budget with the family's closing text, the answer follows, and both are counted separately."""
import csv
import io
import json
import random
import signal
import time

import tiny_model
from session import case, error_of

OF_CHARACTER = 3  # tokens that may end a character, beyond the budget: a token of the tiny model is a byte
USER = {"role": "user", "content": "the water"}
LABEL = {"type": "json_schema", "json_schema": {"name": "l", "schema": {"enum": ["yes", "no"]}}}
PROMPT = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
THINKS = "{# \\n</think>\\n\\n #}" + PROMPT + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
SEED_WORDS = ("\n<seed:cot_budget_reflect>I have exhausted my token budget, and now I will start answering the question."
              "</seed:cot_budget_reflect>\n")
# template, the end of its prompt, special tokens, the text that closes a thought
FAMILIES = {
    "Qwen 3": ("{# \\n</think>\\n\\n #}", "<think>\n", ["<think>", "</think>"], "\n</think>\n\n"),
    "Qwen 3, marks as text": ("{# \\n</think>\\n\\n #}", "<think>\n", [], "\n</think>\n\n"),
    "DeepSeek R1": ("{# <think>\\n </think> #}", "<think>\n", ["<think>", "</think>"], "\n</think>\n\n"),
    "Kimi": ("{# </think> #}", "<think>", ["<think>", "</think>"], "</think>"),
    "Mistral": ("{# [THINK] [/THINK] #}", "[THINK]", ["[THINK]", "[/THINK]"], "[/THINK]"),
    "Seed": ("{# <seed:think> #}", "<seed:think>", ["<seed:think>", "</seed:think>", "<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>"],
             SEED_WORDS + "</seed:think>\n"),
    "gpt-oss": ("{# <|channel|> analysis <|message|> #}", "<|channel|>analysis<|message|>", ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"],
                "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "Cohere": ("{# <|START_THINKING|> <|START_RESPONSE|> #}", "<|START_THINKING|>",
               ["<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"], "<|END_THINKING|><|START_RESPONSE|>"),
    "Gemma 4": ("{# <|channel>thought '\\n<channel|>' #}", "<|channel>thought\n", ["<|channel>", "<channel|>"], "\n<channel|>"),
}


def write_model(test, specials=("<think>", "</think>")):
    tiny_model.write(test.model, n_rows=tiny_model.N_VOCAB + len(specials), more_keys=tiny_model.more_specials(list(specials)))


def run(test, lines, *options, template=THINKS, output="out.jsonl", **others):
    test.write("in.jsonl", lines)
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(template)
    ran = test.run("run", "in.jsonl", "-o", output, "--model", test.model, "--chat-template", test.path("template.jinja"), "--overwrite",
                   "--store", output + ".db", *options, **others)
    return test.answers(output), ran


def body_of(answer):
    assert error_of(answer) is None, answer
    return answer["response"]["body"]


def thought_of(answer):
    """Number of tokens, text."""
    body = body_of(answer)
    return body["usage"]["completion_tokens_details"]["reasoning_tokens"], body["choices"][0]["message"].get("reasoning_content", "")


@case
def each_family_s_thoughts_end_at_the_budget_as_its_template_writes_it(test):
    for name, (marks, opening, specials, closing) in FAMILIES.items():
        write_model(test, specials)
        lines = [dict(messages=[USER], custom_id=f"{budget} {seed} {form}", seed=seed, max_tokens=200, thinking_token_budget=budget, logprobs=True,
                      **({"response_format": LABEL} if form else {})) for budget in (0, 1, 7) for seed in range(3) for form in range(2)]
        answers, _ = run(test, lines, template=marks + PROMPT + opening, output=name + ".jsonl")
        n_forced = 0
        for answer in answers:
            budget, _, form = map(int, answer["custom_id"].split())
            body = body_of(answer)
            choice = body["choices"][0]
            n, thought = thought_of(answer)
            assert n <= budget + OF_CHARACTER * (budget > 0) and closing.strip() not in thought, (name, answer)
            assert "reasoning_content" not in choice["message"] or choice["message"]["reasoning"] == thought, (name, answer)
            entries = choice["logprobs"]["content"]
            # a thought that ends with a line feed has the closing text's first one
            n_forced += any(b"".join(bytes(entry["bytes"]) for entry in entries[at:]).lstrip(b"\n").startswith(closing.lstrip("\n").encode())
                            for at in range(budget, budget + OF_CHARACTER + 1))
            if form and choice["finish_reason"] == "stop":
                assert json.loads(choice["message"]["content"]) in ("yes", "no"), (name, answer)
            assert not form or choice["finish_reason"] == "stop", (name, answer)
        assert n_forced >= 16, (name, n_forced)


@case
def answers_with_budgets_are_the_same_in_every_batch_with_drafts_and_after_a_kill(test):
    write_model(test)
    test.environment["SHEAF_CRASH_LIMIT"] = "0"
    lines = [dict(messages=[dict(USER, content=f"the {i % 5}")], custom_id=str(i), seed=i, n=1 + i % 3, max_tokens=60, temperature=i % 2, logprobs=i % 4 == 0,
                  **({} if i % 7 == 6 else {"thinking_token_budget": i % 11}), **({"response_format": LABEL} if i % 3 else {})) for i in range(64)]
    _, whole = run(test, lines, "--max-batch", "1", output="reference.jsonl")
    for number, options in enumerate((["--threads", "1"], ["--max-batch", "16", "--max-rows", "32", "--speculate", "off"], ["--speculate", "4"],
                                      ["--max-batch", "8", "--kv-memory", "1M"])):
        run(test, lines, *options, output=f"{number}.jsonl")
        assert test.comparable(f"{number}.jsonl") == test.comparable("reference.jsonl"), options
    rng = random.Random(3)
    arguments = ("run", "in.jsonl", "-o", "killed.jsonl", "--model", test.model, "--chat-template", test.path("template.jinja"))
    for _ in range(3):
        process = test.start(*arguments)
        time.sleep(rng.random() * whole.seconds)  # the instant of the kill, whichever it is
        process.send_signal(signal.SIGKILL)
        test.wait(process)
    test.run(*arguments)
    assert test.comparable("killed.jsonl") == test.comparable("reference.jsonl")


@case
def calls_follow_a_thought_that_was_closed(test):
    write_model(test, ["<think>", "</think>", "<tool_call>", "</tool_call>"])
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
                                                                   "additionalProperties": False}}}]
    lines = [dict(messages=[USER], custom_id=str(i), seed=i, max_tokens=100, tools=tools, tool_choice="required", parallel_tool_calls=False,
                  thinking_token_budget=i) for i in range(8)]
    answers, _ = run(test, lines, template="{# <tool_call> #}{{ tools | length }}" + THINKS)
    for answer in answers:
        choice = body_of(answer)["choices"][0]
        assert "tool_calls" in choice["message"], answer
        (call,) = choice["message"]["tool_calls"]
        assert choice["finish_reason"] == "tool_calls" and json.loads(call["function"]["arguments"])["a"] in (1, 2), answer
        assert thought_of(answer)[0] <= int(answer["custom_id"]) + OF_CHARACTER, answer


@case
def max_tokens_counts_thoughts_and_answer_and_a_larger_budget_ends_by_length(test):
    write_model(test)
    never = {str(tiny_model.N_VOCAB + 1): -100, str(tiny_model.IM_END): -100, str(tiny_model.END_OF_TEXT): -100}
    lines = [dict(messages=[USER], custom_id=str(budget), max_tokens=9, temperature=0, thinking_token_budget=budget, logit_bias=never)
             for budget in (0, 4, 8, 9, 20)]
    answers, _ = run(test, lines)
    for answer in answers:
        body = body_of(answer)
        assert body["choices"][0]["finish_reason"] == "length" and body["usage"]["completion_tokens"] == 9, answer
        assert thought_of(answer)[0] == min(int(answer["custom_id"]), 9), answer
        assert (body["choices"][0]["message"]["content"] is None) == (int(answer["custom_id"]) > 5), answer


@case
def a_thought_of_tokens_without_text_ends_at_its_budget_too(test):
    write_model(test, ["<think>", "</think>", "<|extra|>"])
    always = {str(tiny_model.N_VOCAB + 2): 100}
    answers, _ = run(test, [dict(messages=[USER], max_tokens=30, temperature=0, thinking_token_budget=5, logit_bias=always, logprobs=True)])
    n, _ = thought_of(answers[0])
    entries = body_of(answers[0])["choices"][0]["logprobs"]["content"]
    assert n == 5 and [entry["token"] for entry in entries[:8]] == ["<|extra|>"] * 5 + ["\n", "</think>", "\n"], entries


@case
def a_budget_that_is_none_refuses_its_job_and_one_without_thoughts_warns(test):
    bad = [-1, 1.5, "5", True, [], 1 << 40]
    lines = [dict(messages=[USER], custom_id=str(i), max_tokens=2, thinking_token_budget=budget) for i, budget in enumerate(bad + [3, 3.0, None])]
    answers, _ = run(test, lines, template=PROMPT)
    for answer in answers[:len(bad)]:
        error = error_of(answer)
        assert error["param"] == "thinking_token_budget", answer
    for answer in answers[len(bad):len(bad) + 2]:
        assert "thinking_token_budget\" has no effect: no thoughts are known" in body_of(answer)["warnings"][0], answer
    assert "warnings" not in body_of(answers[-1]), answers[-1]
    (answer,), _ = run(test, [dict(prompt="the", max_tokens=2, thinking_token_budget=3)], output="prompt.jsonl")
    assert "only answers to messages" in body_of(answer)["warnings"][0], answer


@case
def options_are_the_defaults_of_jobs_and_part_of_the_arithmetic(test):
    write_model(test)
    lines = [dict(messages=[USER], seed=1, max_tokens=30, custom_id="default"), dict(messages=[USER], seed=1, max_tokens=30, custom_id="own", thinking_token_budget=2),
             dict(messages=[USER], seed=1, max_tokens=30, custom_id="off", enable_thinking=False)]
    answers, ran = run(test, lines, "--thinking-token-budget", "5")
    assert [thought_of(answer)[0] for answer in answers] == [5, 2, 0], answers
    assert "thinking-token-budget=5" in body_of(answers[0])["system_fingerprint"], answers
    answers, _ = run(test, lines, "--reasoning-effort", "none", output="none.jsonl")
    assert [thought_of(answer)[0] for answer in answers] == [0, 0, 0], answers
    assert "reasoning-effort=none" in body_of(answers[0])["system_fingerprint"], answers
    for option in (("--thinking-token-budget", "-1"), ("--thinking-token-budget", "x"), ("--reasoning-effort", "much")):
        _, ran = run_refused(test, lines, *option)
        assert option[0] in ran.err, ran
    _, ran = run(test, lines[:1], "--thinking-token-budget", "5", template=PROMPT, output="plain.jsonl")
    assert "--thinking-token-budget has no effect" in ran.err, ran


def run_refused(test, lines, *options):
    test.write("in.jsonl", lines)
    return None, test.run("run", "in.jsonl", "-o", "refused.jsonl", "--model", test.model, "--store", "refused.db", *options, status=2)


@case
def seed_s_template_gets_the_budget_as_its_own_variable(test):
    write_model(test, FAMILIES["Seed"][2])
    template = "{# <seed:think> #}{{ thinking_budget }}" + PROMPT
    lines = [dict(messages=[USER], max_tokens=2, thinking_token_budget=512), dict(messages=[USER], max_tokens=2, chat_template_kwargs={"thinking_budget": 512}),
             dict(messages=[USER], max_tokens=2, thinking_token_budget=512, chat_template_kwargs={"thinking_budget": 77})]
    answers, _ = run(test, lines, template=template)
    first, same, other = (body_of(answer)["usage"]["prompt_tokens"] for answer in answers)
    assert first == same == other + 1, answers  # a token is a digit
    assert not any("warnings" in body_of(answer) for answer in answers), answers
    tiny_model.write(test.model, more_keys={"tokenizer.chat_template": tiny_model.value(tiny_model.STRING, template)})
    shown = test.run("template", test.model, stdin=json.dumps({"messages": [USER], "thinking_token_budget": 512}))
    assert shown.out == "512the water\n", shown


def read_csv(test, name):
    return list(csv.DictReader(io.StringIO(test.read(name).decode(), newline="")))


def annotate(test, *options, out="out.csv", **others):
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(THINKS)
    return test.run("annotate", "in.csv", "--prompt", "p.jinja", "--choice", "yes,no", "--max-tokens", "80", "--model", test.model,
                    "--chat-template", test.path("template.jinja"), "-o", out, "--overwrite", *options, **others)


@case
def a_table_has_its_thoughts_in_a_column_and_their_tokens_in_figures_and_the_store(test):
    write_model(test)
    with open(test.path("in.csv"), "w") as file:
        file.write("text\n" + "".join(f"the water {i}\n" for i in range(40)))
    with open(test.path("p.jinja"), "w") as file:
        file.write("{{ text }}")
    ran = annotate(test, "--thinking-token-budget", "6", "--figures", "--thoughts", "why")
    rows = read_csv(test, "out.csv")
    assert list(rows[0]) == ["text", "label", "sheaf_prompt_tokens", "sheaf_completion_tokens", "sheaf_reasoning_tokens", "why", "sheaf_finish_reason", "sheaf_error"]
    assert {row["label"] for row in rows} <= {"yes", "no"} and all(int(row["sheaf_reasoning_tokens"]) <= 6 + OF_CHARACTER for row in rows), rows
    assert sum(int(row["sheaf_reasoning_tokens"]) >= 6 for row in rows) > 30 and sum(bool(row["why"]) for row in rows) > 30, rows
    assert "thinks before it answers" not in ran.err, ran
    total = sum(int(row["sheaf_reasoning_tokens"]) for row in rows)
    generated = sum(int(row["sheaf_completion_tokens"]) for row in rows)
    assert test.query("SELECT sum(reasoning_tokens) FROM answers", "out.csv.db") == [(total,)]
    longest = max(int(row["sheaf_reasoning_tokens"]) for row in rows)
    assert test.query("SELECT jobs, completion_tokens, reasoning_tokens, longest FROM thoughts", "out.csv.db") == [(40, generated, total, longest)]
    other = annotate(test, "--thinking-token-budget", "6", "--thoughts", "why", "--prefix", "m_", "--votes", "3", "--temperature", "1", out="votes.csv")
    assert "m_why" in read_csv(test, "votes.csv")[0], other


@case
def a_table_without_a_budget_says_once_what_thoughts_cost(test):
    write_model(test)
    with open(test.path("in.csv"), "w") as file:
        file.write("text\n" + "".join(f"the water {i}\n" for i in range(60)))
    with open(test.path("p.jinja"), "w") as file:
        file.write("{{ text }}")
    says = "the model thinks before it answers"
    first = annotate(test, "--max-batch", "4", status=None)
    assert first.err.count(says) == 1 and "of that --thinking-token-budget 64 would save" in first.err, first
    sample = annotate(test, "--sample", "5", out="sampled.csv", status=None)
    assert sample.err.count(says) == 1 and "(5 answers)" in sample.err, sample
    whole = annotate(test, out="sampled.csv", status=None)
    assert whole.err.count(says) == 1 and "(5 answers)" in whole.err, whole  # of the sample, before anything is computed
    assert says not in annotate(test, "--reasoning-effort", "none", out="none.csv").err
    assert says not in annotate(test, "--thinking-token-budget", "0", out="zero.csv").err


@case
def choices_that_are_scored_without_their_thoughts_are_a_warning(test):
    write_model(test)
    with open(test.path("in.csv"), "w") as file:
        file.write("text\n" + "".join(f"the water {i}\n" for i in range(3)))
    with open(test.path("p.jinja"), "w") as file:
        file.write("{{ text }}")
    says = "3 rows have warnings in the answer; the first, row 1: choice_logprobs: the choices are scored without the thoughts"
    assert says in annotate(test, "--probabilities").err
    assert "warnings" not in annotate(test, "--probabilities", "--reasoning-effort", "none", out="none.csv").err
    lines = [dict(messages=[USER], guided_choice=["yes", "no"], choice_logprobs=True, max_tokens=0, **more) for more in ({}, {"reasoning_effort": "none"})]
    answers, _ = run(test, lines + [dict(prompt="x", guided_choice=["yes", "no"], choice_logprobs=True, max_tokens=0)])
    assert [len(body_of(answer).get("warnings", [])) for answer in answers] == [1, 0, 0], answers


@case
def an_answer_that_ends_in_its_thoughts_is_no_answer(test):
    write_model(test)
    with open(test.path("in.csv"), "w") as file:
        file.write("text\n" + "".join(f"the water {i}\n" for i in range(20)))
    with open(test.path("p.jinja"), "w") as file:
        file.write("{{ text }}")
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(THINKS)
    options = ["annotate", "in.csv", "--prompt", "p.jinja", "--model", test.model, "--chat-template", "template.jinja", "--thoughts", "why"]
    free = test.run(*options, "--max-tokens", "5", "-o", "free.csv", status=3)
    rows = read_csv(test, "free.csv")
    lost = [row for row in rows if row["why"] and not row["answer"]]
    assert lost and all(row["sheaf_error"].startswith("the answer ended in its thoughts: raise --max-tokens") for row in lost), rows
    assert f"{len(lost)} of them without an answer" in free.err and "were cut off" in free.err, free
    budget = test.run(*options, "--max-tokens", "40", "--thinking-token-budget", "2", "-o", "budget.csv")
    n_cut = sum(row["sheaf_finish_reason"] == "length" for row in read_csv(test, "budget.csv"))
    assert n_cut and f"{n_cut} of 20 answers end where max_tokens cut them" in budget.err, budget
    form = test.run(*options, "--max-tokens", "5", "--choice", "yes,no", "-o", "form.csv", status=3)
    lost = [row for row in read_csv(test, "form.csv") if row["why"]]
    assert lost and all("in its thoughts" in row["sheaf_error"] for row in lost), form
