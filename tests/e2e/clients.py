"""Lines of the output as OpenAI's clients read them: every kind of result fits schemas/openai.schema.json, which has all that
OpenAI's published schemas require, and a line that lacks a part of it does not."""
import copy
import json
import os
import re

import tiny_model
from session import case, error_of

SCHEMAS = os.path.join(os.path.dirname(__file__), "../../schemas")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
CHAT = [{"role": "user", "content": "the winter"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "required": ["days"], "additionalProperties": False, "properties": {"days": {"enum": [1, 2]}}}}}
THINKS = """{#- <tool_call> #}{%- for tool in tools or [] %}{{ tool.function.name }}
{% endfor %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking %}<think>
{% else %}<think>

</think>

{% endif %}"""

# Kind, job, whether the line has this kind's parts.
KINDS = [
    ("completion", {"prompt": "the", "max_tokens": 4},
     lambda body: body["object"] == "text_completion" and body["choices"][0]["logprobs"] is None),
    ("completion, logprobs", {"prompt": "the", "max_tokens": 4, "logprobs": 2, "ignore_eos": True},
     lambda body: len(body["choices"][0]["logprobs"]["top_logprobs"]) == 4),
    ("completion, echo and logprobs", {"prompt": "the winter", "max_tokens": 2, "logprobs": 1, "echo": True},
     lambda body: body["choices"][0]["logprobs"]["token_logprobs"][0] is None),
    ("completion of no token", {"prompt": "the", "max_tokens": 4, "logprobs": 1, "temperature": 0, "logit_bias": {"END": 100}},
     lambda body: body["choices"][0]["logprobs"]["tokens"] == [] and body["choices"][0]["finish_reason"] == "stop"),
    ("completion, three answers", {"prompt": "the", "max_tokens": 4, "n": 3, "logprobs": 1},
     lambda body: [choice["index"] for choice in body["choices"]] == [0, 1, 2]),
    ("chat", {"messages": CHAT, "max_tokens": 4},
     lambda body: body["object"] == "chat.completion" and body["choices"][0]["message"]["refusal"] is None),
    ("chat, three answers", {"messages": CHAT, "max_tokens": 4, "n": 3},
     lambda body: [choice["index"] for choice in body["choices"]] == [0, 1, 2]),
    ("chat, logprobs", {"messages": CHAT, "max_tokens": 4, "logprobs": True, "top_logprobs": 2, "n": 2, "ignore_eos": True},
     lambda body: [len(token["top_logprobs"]) for token in body["choices"][1]["logprobs"]["content"]] == [2] * 4),
    ("chat, logprobs without others", {"messages": CHAT, "max_tokens": 4, "logprobs": True},
     lambda body: all(token["top_logprobs"] == [] for token in body["choices"][0]["logprobs"]["content"])),
    ("chat, calls", {"messages": CHAT, "max_tokens": 200, "tools": [WEATHER], "tool_choice": "required"},
     lambda body: body["choices"][0]["finish_reason"] == "tool_calls" and body["choices"][0]["message"]["content"] is None
     and json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])["days"] in (1, 2)),
    ("chat, calls with logprobs", {"messages": CHAT, "max_tokens": 200, "tools": [WEATHER], "tool_choice": "required", "logprobs": True},
     lambda body: body["choices"][0]["message"]["tool_calls"] and body["choices"][0]["logprobs"]["content"]),
    ("chat, thoughts that take all tokens", {"messages": CHAT, "max_tokens": 3, "ignore_eos": True,
                                             "chat_template_kwargs": {"enable_thinking": True}},
     lambda body: "reasoning_content" in body["choices"][0]["message"]),
    ("chat, JSON", {"messages": CHAT, "max_tokens": 200, "response_format": {"type": "json_schema", "json_schema": {
        "name": "n", "schema": {"enum": ["yes", "no"]}}}}, lambda body: json.loads(body["choices"][0]["message"]["content"])),
    ("chat, scores of choices", {"messages": CHAT, "max_tokens": 200, "structured_outputs": {"choice": ["the", "winter"]},
                                 "choice_logprobs": True}, lambda body: len(body["choice_logprobs"]) == 2),
    ("completion, scores of the prompt", {"prompt": "the winter", "max_tokens": 1, "prompt_logprobs": 1},
     lambda body: body["choices"][0]["prompt_logprobs"][0] is None),
    ("chat, scores of the prompt", {"messages": CHAT, "max_tokens": 1, "prompt_logprobs": 1},
     lambda body: body["prompt_logprobs"][0] is None),
    ("refused for a field", {"prompt": "the", "temperature": -1}, None),
    ("refused for its length", {"messages": CHAT, "max_tokens": tiny_model.N_CONTEXT}, None),
]


def fits(root, rule, item):
    """The keywords that openai.schema.json has, and no others."""
    if "$ref" in rule:
        return fits(root, root["$defs"][rule["$ref"].removeprefix("#/$defs/")], item)
    unknown = set(rule) - {"$schema", "$defs", "title", "description", "type", "required", "additionalProperties", "properties", "anyOf",
                           "items", "minItems", "minLength", "minimum", "maximum", "const", "enum", "pattern"}
    assert not unknown, unknown
    if "anyOf" in rule and not any(fits(root, other, item) for other in rule["anyOf"]):
        return False
    if "type" in rule and not any(is_of(item, name) for name in ([rule["type"]] if isinstance(rule["type"], str) else rule["type"])):
        return False
    if "const" in rule and item != rule["const"] or "enum" in rule and item not in rule["enum"]:
        return False
    if isinstance(item, dict):
        properties, others = rule.get("properties", {}), rule.get("additionalProperties", True)
        return set(rule.get("required", [])) <= set(item) and all(
            fits(root, properties[key], value) if key in properties else
            others if isinstance(others, bool) else fits(root, others, value) for key, value in item.items())
    if isinstance(item, list):
        return len(item) >= rule.get("minItems", 0) and all(fits(root, rule.get("items", {}), value) for value in item)
    if isinstance(item, str):
        return len(item) >= rule.get("minLength", 0) and bool(re.search(rule.get("pattern", ""), item))
    if is_of(item, "number"):
        return rule.get("minimum", item) <= item <= rule.get("maximum", item)
    return True


def is_of(item, name):
    if name in ("number", "integer"):
        return isinstance(item, (int, float) if name == "number" else int) and not isinstance(item, bool)
    return isinstance(item, TYPES[name])


def is_line(line):
    with open(os.path.join(SCHEMAS, "openai.schema.json"), encoding="utf-8") as file:
        root = json.load(file)
    return fits(root, root, line)


def write_kinds(test, name="in.jsonl"):
    specials = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
    tiny_model.write(test.model, n_rows=tiny_model.N_VOCAB + len(specials), more_keys=tiny_model.more_specials(specials))
    end = tiny_model.TOKENS.index("<|im_end|>")
    jobs = [dict(job, custom_id=kind) for kind, job, _ in KINDS]
    for job in jobs:
        if "logit_bias" in job:
            job["logit_bias"] = {str(end): 100}
    test.write(name, jobs)
    with open(test.path("template.jinja"), "w", encoding="utf-8") as file:
        file.write(THINKS)
    return "--chat-template", "template.jinja"


@case
def a_line_of_every_kind_fits_the_schema(test):
    options = write_kinds(test)
    test.run_file("in.jsonl", "out.jsonl", "--cached-tokens", *options)
    for (kind, _, has_parts), line in zip(KINDS, test.answers()):
        assert line["custom_id"] == kind and is_line(line), line
        if not has_parts:
            assert line["response"]["status_code"] == 400 and set(line["response"]["body"]) == {"error"} and not line["error"], line
            continue
        assert error_of(line) is None and has_parts(line["response"]["body"]), line
        assert line["response"]["body"]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0, line


@case
def a_line_of_a_job_that_was_not_computed_fits_the_schema(test):
    test.write("in.jsonl", [{"prompt": "the", "custom_id": "late", "deadline": 1}, {"prompt": "the", "custom_id": "cancelled"}])
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("cancel", "--dataset", "d")
    test.run("work", "--model", test.model, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    for line in test.answers():
        assert is_line(line) and line["response"] is None and line["error"]["code"], line


def without_one(item):
    """Copies of a value, each without one member of an object, at any depth."""
    for key in (item if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()):
        if isinstance(item, dict):
            less = copy.copy(item)
            del less[key]
            yield key, less
        for name, inner in without_one(item[key]):
            changed = copy.copy(item)
            changed[key] = inner
            yield name, changed


# Members that a line may lack: ours, those that only some answers have, and keys of maps.
OPTIONAL = {"system_fingerprint", "prompt_tokens_details", "reasoning_content", "reasoning", "tool_calls", "choice_logprobs", "prompt_logprobs",
            "warnings"}


@case
def a_line_that_lacks_a_member_does_not_fit(test):
    test.run_file("in.jsonl", "out.jsonl", *write_kinds(test))
    names = set()
    for line in test.answers():
        for choice in line["response"]["body"].get("choices", []):
            if (choice["logprobs"] or {}).get("top_logprobs"):
                choice["logprobs"]["top_logprobs"] = []  # maps of any texts
            choice.pop("prompt_logprobs", None)
        line["response"]["body"].pop("prompt_logprobs", None)
        for name, less in without_one(line):
            assert is_line(less) == (name in OPTIONAL), (name, less)
            names.add(name)
    assert {"refusal", "logprobs", "finish_reason", "bytes", "text_offset", "param", "code", "arguments", "total_tokens", "index",
            "request_id", "error"} <= names, names
