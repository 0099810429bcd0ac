"""Messages of a chat: each is in the prompt, or its job is refused, or a warning is logged; the model that a line names."""
import json

import tiny_model
from session import case, error_of

QWEN = """{%- for message in messages %}{% if message.role in ["system", "user", "assistant"] %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}{% endfor %}<|im_start|>assistant
"""
USER = {"role": "user", "content": "the winter"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}}
RULE = {"role": "system", "content": "the sea"}


def run(test, jobs, *options, template=QWEN, name="out.jsonl"):
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(template)
    test.write("in.jsonl", [dict(job, max_tokens=2, temperature=0) for job in jobs])
    finished = test.run("run", "in.jsonl", "-o", name, "--model", test.model, "--chat-template", "template.jinja", *options,
                        "--store", name + ".db", status=None)
    return test.answers(name), finished


def warnings_of(answer):
    return answer["response"]["body"].get("warnings", [])


@case
def a_developer_is_a_system_message_with_a_warning(test):
    (developer, system), _ = run(test, [{"messages": [dict(RULE, role="developer"), USER]}, {"messages": [RULE, USER]}])
    bodies = developer["response"]["body"], system["response"]["body"]
    assert bodies[0]["usage"] == bodies[1]["usage"] and bodies[0]["choices"] == bodies[1]["choices"], bodies
    (warning,) = warnings_of(developer)
    assert warning.startswith("messages[0].role: ") and '"developer"' in warning and "warnings" not in developer, developer
    assert warnings_of(system) == [], system


@case
def a_message_that_would_vanish_refuses_its_job_and_no_other(test):
    call = {"role": "assistant", "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    lost, _ = run(test, [{"messages": [dict(USER, role="human")]}, {"messages": [USER, {"role": "tool", "content": "7"}]},
                         {"messages": [USER, call]}, {"messages": [{"role": "user", "contents": "the winter"}]}, {"messages": [USER]}])
    for answer, path, word in zip(lost, ("messages[0].content", "messages[1].content", "messages[1].tool_calls[0]", "messages[0].content"),
                                  ('"human"', '"tool"', '"f"', '"contents"')):
        error = error_of(answer)
        assert answer["response"]["status_code"] == 400 and error["param"] == path and word in error["message"], answer
    assert error_of(lost[4]) is None, lost[4]


@case
def a_template_that_needs_a_content_beside_calls_or_a_name_is_rendered_again(test):
    """Qwen3's template reads every content, also of a call; another one refuses a message without its name."""
    reads_all = ("{%- for m in messages[::-1] %}{% if m.content.startswith('z') %}z{% endif %}{% endfor %}"
                 "{%- for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}"
                 "{% endfor %}")
    call = {"role": "assistant", "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    told = [USER, call, {"role": "tool", "tool_call_id": "c", "content": "7"}]
    answers, _ = run(test, [{"messages": told}, {"messages": [USER, dict(call, content=""), told[2]]}], template=reads_all)
    bodies = [answer["response"]["body"] for answer in answers]
    assert error_of(answers[0]) is None and bodies[0]["usage"] == bodies[1]["usage"], bodies
    needs_name = ("{% for m in messages %}{% if m.role == 'user' and not m.name %}{{ raise_exception('who?') }}{% endif %}"
                  "{{ m.name }}{{ m.content }}{% endfor %}")
    (named,), _ = run(test, [{"messages": [dict(USER, name="eve")]}], template=needs_name, name="named.jsonl")
    assert error_of(named) is None, named


@case
def a_row_s_messages_are_no_exception(test):
    with open(test.path("t.jinja"), "w", encoding="utf-8") as file:
        file.write(QWEN)
    with open(test.path("in.csv"), "w", encoding="utf-8") as file:
        file.write("role,text\nhuman,the sea\nuser,the winter\ndeveloper,the stone\n")
    with open(test.path("m.jsonl.jinja"), "w", encoding="utf-8") as file:
        file.write('{"role": "{{ role }}", "content": "{{ text }}"}\n')
    finished = test.run("annotate", "in.csv", "--messages", "m.jsonl.jinja", "--model", test.model, "--chat-template", "t.jinja",
                        "--max-tokens", "2", "-o", "out.csv", status=3)
    assert 'role "human"' in finished.err and "1 row has no answer" in finished.err, finished
    assert "1 row has warnings in the answer; the first, row 3: messages[0].role: " in finished.err, finished


@case
def a_line_that_names_another_model_is_warned_of_or_refused(test):
    jobs = [{"messages": [USER], "model": name} for name in ("tiny", "gpt-4o", "other")] + [{"messages": [USER]}]
    answers, _ = run(test, jobs, "--model-name", "mine", "--model-name", "other")
    assert [bool(warnings_of(answer)) for answer in answers] == [True, True, False, False], answers
    assert {answer["response"]["body"]["model"] for answer in answers} == {"mine"}, answers
    assert '"gpt-4o"' in warnings_of(answers[1])[0] and '"mine"' in warnings_of(answers[1])[0], answers[1]
    refused, _ = run(test, jobs, "--model-name", "other", "--require-model", name="refused.jsonl")
    assert [error_of(answer) and error_of(answer)["param"] for answer in refused] == ["model", "model", None, None], refused
    own, _ = run(test, [{"messages": [USER], "model": test.model}, {"messages": [USER], "model": "x"}], name="own.jsonl")
    assert [len(warnings_of(answer)) for answer in own] == [0, 1], own


@case
def two_models_of_one_name_differ_in_the_list_of_datasets(test):
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 1}])
    tiny_model.write(test.path("second.gguf"), seed=2)
    for dataset, model in (("a", test.model), ("b", "second.gguf")):
        test.run("run", "in.jsonl", "-o", dataset + ".jsonl", "--model", model, "--model-name", "one", "--dataset", dataset, "--store", "s.db")
    listed = json.loads(test.run("dataset", "list", "--json", "--store", "s.db").out)["datasets"]
    marks = [row["arithmetic"].split("model=")[1][:8] for row in listed]
    lines = test.run("dataset", "list", "--store", "s.db").out.splitlines()[1:]
    assert len(set(marks)) == 2 and all(line.endswith(f"one ({mark})") for line, mark in zip(lines, marks)), (lines, marks)


@case
def sheaf_template_of_a_model_follows_the_rules_of_jobs(test):
    def template(messages, status=0, **more):
        return test.run("template", test.model, stdin=json.dumps(dict(messages=messages, **more)), status=status)
    parts = template([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])
    assert parts.out == "<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n", parts
    developer = template([{"role": "developer", "content": "a"}])
    assert developer.out.startswith("<|im_start|>system\na<|im_end|>") and "messages[0].role" in developer.err, developer
    assert "messages[0].content" in template([{"role": "user"}], status=1).err
    kept = template([USER], add_generation_prompt=False, some_variable=1)
    assert kept.out == "<|im_start|>user\nthe winter<|im_end|>\n" and "chat_template_kwargs.some_variable" in kept.err, kept
    assert "takes none" in template([USER], tools=[TOOL], status=1).err
    hidden = template([USER], tools=[TOOL], tool_choice="none")
    assert 'field "tools" has no effect' in hidden.err and hidden.out.startswith("<|im_start|>user"), hidden
    with open(test.path("plain.jinja"), "w", encoding="utf-8") as file:
        file.write("{{ messages[0].role }}")
    plain = test.run("template", "plain.jinja", stdin=json.dumps({"messages": [{"role": "developer", "content": "a"}]}))
    assert plain.out == "developer" and not plain.err, plain


@case
def sheaf_template_of_a_model_checks_tools_and_takes_the_day_of_a_job(test):
    calls = "{% if tools %}<tool_call>{{ (tools|tojson)[:9] }}</tool_call>{% endif %}{{ messages[0].content }}{{ strftime_now('%Y-%m-%d') }}"
    tiny_model.write(test.model, more_keys={"tokenizer.chat_template": tiny_model.value(tiny_model.STRING, calls)})
    def template(*options, status=0, **more):
        return test.run("template", test.model, *options, stdin=json.dumps(dict(messages=[USER], **more)), status=status)
    good = template(tools=[TOOL], created=86400).out
    assert good.endswith("the winter1970-01-02"), good
    assert template("--now", "2024-07-26", created=86400).out.endswith("2024-07-26")
    bad = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}}}
    test.write("in.jsonl", [{"messages": [USER], "tools": [TOOL, bad], "max_tokens": 1}])
    assert "tools[1].function.parameters" in template(tools=[TOOL, bad], status=1).err
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model)
    assert "tools[1].function.parameters" in error_of(test.answers()[0])["message"], test.answers()


@case
def each_answer_is_one_line_to_readers_that_split_at_unicode_s_line_ends(test):
    ids = ["a\u2028b", "a\u2029b", "a\u0085b"]
    test.write("in.jsonl", [{"prompt": "the", "custom_id": name, "max_tokens": 1} for name in ids])
    test.run_file()
    assert [json.loads(line)["custom_id"] for line in test.read("out.jsonl").decode().splitlines()] == ids
    # Rows of a table are written as they were read, but for these characters.
    rows = [{"text": name, name: 1.50, "é": "\u2030\u00c5"} for name in ids]
    with open(test.path("in.jsonl"), "w", encoding="utf-8", newline="\n") as file:
        file.write("".join(json.dumps(row, ensure_ascii=False).replace("1.5", "1.50") + "\n" for row in rows))
    with open(test.path("p.jinja"), "w") as file:
        file.write("{{ text }}")
    test.run("annotate", "in.jsonl", "--prompt", "p.jinja", "--model", test.model, "--max-tokens", "2", "-o", "rows.jsonl")
    lines = test.read("rows.jsonl").decode().splitlines()
    assert [list(json.loads(line).items())[:3] for line in lines] == [list(row.items()) for row in rows], lines
    assert all("1.50" in line and "é" in line for line in lines), lines


@case
def the_tokens_of_thoughts_are_counted_without_their_marks(test):
    specials = ["<think>", "</think>"]
    tiny_model.write(test.model, n_rows=tiny_model.N_VOCAB + 2, more_keys=tiny_model.more_specials(specials))
    opened, closed = "{{ messages[0].content }}<think>\n", "{# <think></think> #}{{ messages[0].content }}"
    open_mark, end_mark, end = tiny_model.N_VOCAB, tiny_model.N_VOCAB + 1, tiny_model.TOKENS.index("<|im_end|>")
    never = {str(token): -100 for token in (open_mark, end_mark, end)}
    def body(template, name, **more):
        (answer,), _ = run(test, [dict(messages=[USER], **more)], template="{# </think> #}" + template, name=name)
        assert error_of(answer) is None, answer
        return answer["response"]["body"]
    def counted(of):
        return of["usage"]["completion_tokens_details"]["reasoning_tokens"], of["choices"][0]["message"]
    thinking = body(opened, "thinking.jsonl", logit_bias=never)
    n, message = counted(thinking)
    assert n == thinking["usage"]["completion_tokens"] == 2 and message["content"] is None, thinking
    assert message["reasoning"] == message["reasoning_content"], message
    n, message = counted(body(opened, "ended.jsonl", logit_bias={str(end_mark): 100}))
    assert n == 0 and "reasoning" not in message, message  # two marks, and nothing between
    n, message = counted(body(closed, "plain.jsonl", logit_bias=never))
    assert n == 0 and "reasoning" not in message, message
