"""Calls of tools and thoughts: if an answer must call a function, it does, with arguments that satisfy the schema, in every format."""
import json
import os
import random
import re
import signal
import time

import tiny_model
from session import case, error_of

CITY = {"type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
                       "unit": {"enum": ["c", "f"]}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": CITY}},
         {"type": "function", "function": {"name": "now"}}]
NAMED = {"type": "function", "function": {"name": "weather"}}
FORMATS = ["hermes", "llama3-json", "llama3-pythonic", "lfm2", "mistral", "mistral-v11", "mistral-v13", "deepseek-v3", "deepseek-v3.1",
           "deepseek-dsml", "glm-4.5", "glm-4.7", "qwen3-coder", "seed-oss", "harmony", "kimi-k2", "granite", "command-r7b", "command-r",
           "functools", "phi-4-mini", "apriel", "apertus", "gemma-4", "functionary", "json"]
SPECIALS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|channel|>", "<|message|>"]
TEMPLATE = """{%- for tool in tools or [] %}{{ tool.function.name }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""
HERMES = "{#- <tool_call> #}" + TEMPLATE
THINKS = HERMES + "{%- if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"


def jobs(count, max_tokens=140, **more):
    choices = [{"tool_choice": "required"}, {"tool_choice": NAMED}, {"tool_choice": "required", "parallel_tool_calls": False}, {}]
    return [dict(choices[i % 4], custom_id=str(i), messages=[{"role": "user", "content": f"the {i}"}], tools=TOOLS, temperature=i % 3,
                 max_tokens=max_tokens, **more) for i in range(count)]


def choice_of(answer):
    assert error_of(answer) is None, answer
    return answer["response"]["body"]["choices"][0]


def check_call(call):
    assert call["type"] == "function" and call["id"], call
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "now":
        assert arguments == {}, call
        return
    assert call["function"]["name"] == "weather" and list(arguments) in (
        ["city"], ["city", "days"], ["city", "unit"], ["city", "days", "unit"]), call
    assert isinstance(arguments["city"], str) and len(arguments["city"]) <= 6, call
    assert arguments.get("days", 1) in range(1, 10) and arguments.get("unit", "c") in "cf", call


def check_answer(index, choice):
    """Finished answers that must call a function have calls."""
    calls = choice["message"].get("tool_calls", [])
    for call in calls:
        check_call(call)
    assert len({call["id"] for call in calls}) == len(calls), calls
    if choice["finish_reason"] == "length":
        assert not calls, choice
        return False
    assert (choice["finish_reason"] == "tool_calls") == bool(calls), choice
    if index % 4 == 3:
        return True
    assert calls and choice["message"]["content"] is None, choice
    assert index % 4 != 1 or {call["function"]["name"] for call in calls} == {"weather"}, choice
    assert index % 4 not in (1, 2) or len(calls) == 1, choice
    return True


def write_model(test):
    tiny_model.write(test.path("special.gguf"), n_rows=tiny_model.N_VOCAB + len(SPECIALS), more_keys=tiny_model.more_specials(SPECIALS))
    return test.path("special.gguf")


def template(test, text):
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(text)
    return "--chat-template", test.path("template.jinja")


@case
def forced_calls_are_valid_in_every_format(test):
    test.write("in.jsonl", jobs(16))
    for model in (test.model, write_model(test)):
        n_ended = 0
        for name in FORMATS:
            output = f"{name}-{os.path.basename(model)}.jsonl"
            test.run("run", "in.jsonl", "-o", output, "--model", model, "--tool-format", name, *template(test, TEMPLATE))
            n_ended += sum(check_answer(i, choice_of(answer)) for i, answer in enumerate(test.answers(output)))
        assert n_ended > 8 * len(FORMATS), n_ended


@case
def calls_are_the_same_alone_and_in_a_batch(test):
    model = write_model(test)
    test.write("in.jsonl", jobs(24, n=2))
    texts = []
    for options in (["--max-batch", "1"], ["--threads", "1"], ["--max-batch", "16", "--max-rows", "32"]):
        test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", model, "--overwrite", "--store", f"{len(texts)}.db", *options, *template(test, THINKS))
        texts.append([answer["response"]["body"]["choices"] for answer in test.answers("out.jsonl")])
    assert texts[0] == texts[1] == texts[2]
    ids = [call["id"] for choices in texts[0] for choice in choices for call in choice["message"].get("tool_calls", [])]
    assert ids and len(set(ids)) == len(ids), ids


@case
def calls_are_the_same_after_the_worker_was_killed(test):
    test.environment["SHEAF_CRASH_LIMIT"] = "0"
    options = ("--model", test.model, "--window", "16", *template(test, HERMES))
    test.write("in.jsonl", jobs(120))
    whole_s = test.run("run", "in.jsonl", "-o", "reference.jsonl", *options).seconds
    rng = random.Random(7)
    for _ in range(4):
        process = test.start("run", "in.jsonl", "-o", "out.jsonl", *options)
        time.sleep(rng.random() * whole_s)  # the instant of the kill, whichever it is
        process.send_signal(signal.SIGKILL)
        test.wait(process)
    test.run("run", "in.jsonl", "-o", "out.jsonl", *options)
    assert test.comparable() == test.comparable("reference.jsonl")


@case
def thoughts_are_split_off_and_constraints_hold_behind_them(test):
    model = write_model(test)
    label = {"type": "json_schema", "json_schema": {"name": "l", "schema": {"enum": ["yes", "no"]}}}
    message = [{"role": "user", "content": "the"}]
    lines = [{"custom_id": str(i), "messages": message, "seed": i, "max_tokens": 200, "response_format": label} for i in range(12)]
    lines += [{"custom_id": f"off {i}", "messages": message, "seed": i, "max_tokens": 200, "response_format": label,
               "chat_template_kwargs": {"enable_thinking": False}} for i in range(6)]
    test.write("in.jsonl", lines)
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", model, *template(test, THINKS))
    n_thoughts = 0
    for answer in test.answers():
        choice = choice_of(answer)
        message = choice["message"]
        n_thoughts += "reasoning_content" in message
        if answer["custom_id"].startswith("off"):
            assert "reasoning_content" not in message and choice["finish_reason"] == "stop", answer
        if choice["finish_reason"] == "stop":
            assert json.loads(message["content"]) in ("yes", "no"), answer
        else:
            assert message["reasoning_content"], answer
    assert n_thoughts > 4, n_thoughts


@case
def tools_that_can_not_be_called_refuse_their_job_alone(test):
    message = [{"role": "user", "content": "the"}]
    bad = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"pattern": "(x)\\1"}}}}}
    cases = [({"tool_choice": "required"}, "tool_choice", "needs tools"),
             ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice.function.name", "a function of tools"),
             ({"tools": [{"type": "web_search"}]}, "tools[0].type", "only \"function\""),
             ({"tools": TOOLS + [TOOLS[1]]}, "tools", "two functions"),
             ({"tools": TOOLS + [bad]}, "tools[2].function.parameters", "pattern at /properties/a"),
             ({"tools": TOOLS, "tool_choice": "required"}, None, None)]
    test.write("in.jsonl", [dict(more, custom_id=str(i), messages=message, max_tokens=140) for i, (more, _, _) in enumerate(cases)])
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, *template(test, HERMES))
    for answer, (_, param, text) in zip(test.answers(), cases):
        error = error_of(answer)
        if param is None:
            check_answer(0, choice_of(answer))
        else:
            assert error["param"] == param and text in error["message"], error


@case
def a_template_without_tools_refuses_them_and_inspect_names_the_formats(test):
    test.write("in.jsonl", [{"custom_id": "a", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS},
                            {"custom_id": "b", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "tool_choice": "none", "max_tokens": 9}])
    test.run_file()
    refused, answered = test.answers()
    assert "takes none" in error_of(refused)["message"], refused
    assert error_of(answered) is None, answered
    assert re.search(r"^tools +none$", test.run("inspect", test.model).out, re.M)
    inspected = json.loads(test.run("inspect", test.model, "--json", *template(test, THINKS)).out)
    assert (inspected["tools"], inspected["thinking"]) == ("hermes", "think"), inspected
    assert "expected one of" in test.run("inspect", test.model, "--tool-format", "nonsense", status=None).err


@case
def calls_that_take_the_last_token_are_calls(test):
    test.write("in.jsonl", jobs(60, max_tokens=80, close_at_max_tokens=True))
    n_full = 0
    for name in ("hermes", "json"):
        output = f"{name}.jsonl"
        test.run("run", "in.jsonl", "-o", output, "--model", write_model(test), "--tool-format", name, *template(test, TEMPLATE))
        for i, answer in enumerate(test.answers(output)):
            choice = choice_of(answer)
            check_answer(i, choice)
            n_full += i % 4 != 3 and answer["response"]["body"]["usage"]["completion_tokens"] == 80
            assert i % 4 == 3 or choice["finish_reason"] == "tool_calls", choice
    assert n_full > 0
