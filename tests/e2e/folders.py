"""Models as Hugging Face's folders: ends, sampling defaults, templates and BOS are what transformers and vLLM take from the same files."""
import json
import os
import random
import struct

import tiny_model
from session import case, error_of, varied_jobs

CHAT = [{"role": "user", "content": "the winter"}]
TOKEN = {name: tiny_model.TOKENS.index(name) for name in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b")}
SETTINGS = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


def write(test, name, **files):
    """files: of the folder, with _ in place of the dot before "json", "txt" or "jinja"."""
    folder = test.path(name)
    tiny_model.write_folder(folder, {".".join(key.rsplit("_", 1)): content for key, content in files.items()})
    return folder


def answers(test, folder, jobs, *options):
    name = f"out-{len(test.processes)}.jsonl"
    test.write("in.jsonl", [dict(job, custom_id=str(i)) for i, job in enumerate(jobs)])
    err = test.run("run", "in.jsonl", "-o", name, "--model", folder, *options).err
    return [body_of(answer) for answer in test.answers(name)], err


def body_of(answer):
    assert error_of(answer) is None, answer
    return answer["response"]["body"]


def n_prompt(bodies):
    return [body["usage"]["prompt_tokens"] for body in bodies]


def forced(token):
    return {"prompt": "the", "max_tokens": 4, "temperature": 0, "logit_bias": {str(TOKEN[token]): 100}}


def ended_by(test, folder):
    """Finds which of these tokens end an answer: an end token is counted but is not in the text."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a"]
    bodies, _ = answers(test, folder, [forced(name) for name in names])
    ends = [name for name, body in zip(names, bodies) if body["choices"][0]["finish_reason"] == "stop"]
    for name, body in zip(names, bodies):
        assert body["usage"]["completion_tokens"] == (1 if name in ends else 4), body
        assert body["choices"][0]["text"] == ("aaaa" if name == "a" and name not in ends else ""), body
    return ends


@case
def the_ends_of_an_answer_are_those_of_all_files_that_name_one(test):
    config = "<|im_end|>", "a"
    assert ended_by(test, write(test, "none")) == ["<|im_end|>"]
    assert ended_by(test, write(test, "list", generation_config_json={"eos_token_id": [TOKEN[name] for name in config]})) == list(config)
    assert ended_by(test, write(test, "one", generation_config_json={"eos_token_id": TOKEN["<|endoftext|>"]})) == [
        "<|endoftext|>", "<|im_end|>"]  # and the eos of tokenizer_config.json, as vLLM has it
    assert ended_by(test, write(test, "config", generation_config_json={"eos_token_id": TOKEN["a"]}, tokenizer_config_json={})) == [
        "<|im_end|>", "a"]  # and the eos of config.json, which is a control token
    assert ended_by(test, write(test, "map", special_tokens_map_json={"eos_token": "<|im_start|>"})) == ["<|im_start|>", "<|im_end|>"]
    assert ended_by(test, write(test, "null", generation_config_json={"eos_token_id": None})) == ["<|im_end|>"]


@case
def sampling_defaults_of_generation_config_hold_for_jobs_that_name_none(test):
    folder = write(test, "model", generation_config_json={"do_sample": True, "temperature": 0.5, "top_k": 1, "repetition_penalty": 1.25,
                                                          "max_new_tokens": 5})
    job = {"prompt": "the winter", "seed": 3, "ignore_eos": True}
    bodies, err = answers(test, folder, [job, dict(job, temperature=0), dict(job, top_k=0, temperature=3), dict(job, max_tokens=2)])
    for name in ("temperature=0.5", "top-k=1", "repetition-penalty=1.25", "max-tokens=5"):
        assert name in err and name in bodies[0]["system_fingerprint"], (name, err, bodies[0])
    greedy, same, drawn, short = [body["choices"][0]["text"] for body in bodies]
    assert greedy == same != drawn and greedy.startswith(short), bodies
    assert [body["usage"]["completion_tokens"] for body in bodies] == [5, 5, 5, 2], bodies
    plain, err = answers(test, folder, [dict(job, max_tokens=5)], "--sampling-defaults", "none")
    assert "top-k" not in err and "top-k" not in plain[0]["system_fingerprint"], (err, plain)
    assert plain[0]["choices"][0]["text"] != greedy, plain


@case
def tokens_of_suppress_tokens_are_never_sampled(test):
    plain = write(test, "plain")
    folder = write(test, "model", generation_config_json={"suppress_tokens": [TOKEN["a"], TOKEN["<|im_end|>"], 10 ** 6]})
    test.run("quantize", folder, "model.gguf", "--type", "f32")
    letters = {"prompt": "the", "max_tokens": 9, "temperature": 2, "guided_regex": "[az]{6}"}
    jobs = [dict(forced("a"), logprobs=3), forced("<|im_end|>")] + [dict(letters, seed=seed) for seed in range(12)]
    jobs += [{"prompt": f"the {i}", "max_tokens": 12, "temperature": 3, "seed": i, "logprobs": 1, **more} for i in range(12)
             for more in ({}, {"bad_words": ["b"]}, {"allowed_token_ids": [TOKEN["a"], TOKEN["b"]], "min_tokens": 2})]
    free, _ = answers(test, plain, jobs)
    bodies, _ = answers(test, folder, jobs, "--max-batch", "16")
    texts = [body["choices"][0]["text"] for body in free]
    assert texts[0] == "aaaa" and texts[1] == "" and len(set(texts[2:14])) > 4, texts
    assert all("a" in body["choices"][0]["logprobs"]["tokens"] for body in free[16::3]), free
    kept = [body["choices"][0] for body in bodies]
    assert [choice["text"] for choice in kept[2:14]] == ["zzzzzz"] * 12, kept
    assert all(choice["finish_reason"] == "length" for choice in kept[:2] + kept[14:]), kept
    drawn = [choice["logprobs"]["tokens"] for choice in kept[:1] + kept[14:]]
    assert not {"a", "<|im_end|>"} & {token for tokens in drawn for token in tokens}, drawn
    for model, names in ((folder, ("--max-batch", "1")), ("model.gguf", ("--max-batch", "16"))):
        assert [body["choices"] for body in answers(test, model, jobs, *names)[0]] == [body["choices"] for body in bodies], model
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 1, "allowed_token_ids": [TOKEN["a"]]}])
    test.run("run", "in.jsonl", "-o", "none.jsonl", "--model", folder, status=3)
    assert "allowed_token_ids: the model's suppress_tokens has all of them" in error_of(test.answers("none.jsonl")[0])["message"]
    assert "of them never sampled" in test.run("inspect", folder).out
    folder = write(test, "wrong", generation_config_json={"suppress_tokens": ["a"]})
    assert "suppress_tokens: expected a list of token ids" in test.run("inspect", folder, status=1).err


@case
def settings_that_are_not_built_are_refused_and_unknown_ones_named(test):
    folder = write(test, "beams", generation_config_json={"num_beams": 4, "temperature": 0.5})
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 1}])
    run = ["run", "in.jsonl", "-o", "out.jsonl", "--model", folder]
    done = test.run(*run, status=1)
    assert "generation_config.json: num_beams 4 is not built (--sampling-defaults none" in done.err, done.err
    test.run(*run, "--sampling-defaults", "none")
    folder = write(test, "unknown", generation_config_json={"surprise": 4, "temperature": 0.5})
    done = test.run("run", "in.jsonl", "-o", "out-2.jsonl", "--model", folder)
    assert "not known here, and not read: generation_config.json: surprise\n" in done.err, done.err
    folder = write(test, "split", tokenizer_config_json=dict(SETTINGS, split_special_tokens=True))
    assert "tokenizer_config.json: split_special_tokens true is not built" in test.run("inspect", folder, status=1).err


def template_of(test, *jobs, **files):
    """Lengths of the prompts of a chat, and of one with tools, before the chat's text: which template was taken."""
    folder = write(test, f"model-{len(test.processes)}", **files)
    tools = [{"type": "function", "function": {"name": "weather"}}]
    n_text = n_prompt(answers(test, folder, [dict(prompt="<|im_start|>the winter", max_tokens=1)])[0])[0]
    return [n - n_text for n in n_prompt(answers(test, folder, [dict(messages=CHAT, max_tokens=1), dict(messages=CHAT, max_tokens=1, tools=tools)],
                                                 "--tool-format", "hermes")[0])]


@case
def the_template_is_the_first_of_the_files_that_has_one(test):
    def shows(letters):
        return letters + "<|im_start|>{{ messages[0].content }}"
    one, two, three = (shows("a" * n) for n in (1, 2, 3))
    named = [{"name": "default", "template": three}, {"name": "tool_use", "template": shows("b" * 7)}]
    assert template_of(test, tokenizer_config_json=dict(SETTINGS, chat_template=three)) == [3, 3]
    assert template_of(test, tokenizer_config_json=dict(SETTINGS, chat_template=named)) == [3, 7]
    assert template_of(test, tokenizer_config_json=SETTINGS, chat_template_json={"chat_template": two}) == [2, 2]
    assert template_of(test, tokenizer_config_json=dict(SETTINGS, chat_template=three), chat_template_json={"chat_template": two}) == [3, 3]
    assert template_of(test, tokenizer_config_json=dict(SETTINGS, chat_template=named), chat_template_json={"chat_template": two},
                       chat_template_jinja=one) == [1, 1]


@case
def a_model_s_template_is_rendered_as_for_a_job_and_a_file_s_as_in_jinja2(test):
    template = "{{ tools is none }} {{ documents is none }} {{ tools | length if tools else tools }} {{ messages[0].content }}"
    tools = [{"type": "function", "function": {"name": "weather"}}]
    folder = write(test, "model", tokenizer_config_json=dict(SETTINGS, chat_template=template))
    with open(test.path("file.jinja"), "w", encoding="utf-8") as file:
        file.write(template)
    for given, of_model, of_file in (({}, "True True None the winter", "False False  the winter"),
                                     ({"tools": tools}, "False True 1 the winter", "False False 1 the winter"),
                                     ({"documents": None}, "True True None the winter", "False True  the winter")):
        stdin = json.dumps(dict(messages=CHAT, **given))
        assert test.run("template", folder, stdin=stdin).out == of_model
        assert test.run("template", "file.jinja", stdin=stdin).out == of_file


@case
def a_model_without_a_tokenizer_is_refused_by_its_name(test):
    folder = write(test, "model")
    os.remove(os.path.join(folder, "tokenizer.json"))
    run = ["run", "in.jsonl", "-o", "out.jsonl", "--model", folder]
    # one thread opens the tokenizer before the weights, several beside them
    for command in (["inspect", folder], ["tokenize", folder], ["template", folder], run, [*run, "--threads", "1"], [*run, "--threads", "2"]):
        test.write("in.jsonl", [dict(prompt="a")])
        done = test.run(*command, stdin="", status=1)
        assert f"{folder}: there is no tokenizer: a folder needs tokenizer.json" in done.err, done
    with open(test.model, "rb") as file:
        content = file.read()
    key = b"tokenizer.ggml.model" + struct.pack("<IQ", 8, 4)
    assert content.count(key + b"gpt2") == 1
    with open(test.path("none.gguf"), "wb") as file:
        file.write(content.replace(key + b"gpt2", key + b"nope"))
    done = test.run("inspect", "none.gguf", status=1)
    assert 'none.gguf: key tokenizer.ggml.model: unknown tokenizer "nope"' in done.err, done
    whole, printed = test.run("inspect", test.model).out.splitlines(), done.out.splitlines()
    differs = [line.split(None, 1) for line in printed[1:] if line not in whole]
    assert [line for line in differs if line[0] != "fingerprint"] == [
        ["tokenizer", "none, bos -1, eos -1"], ["template", "not read"]], done
    facts = json.loads(test.run("inspect", "none.gguf", "--json", status=1).out)
    assert (facts["family"], facts["tokenizer"], facts["eos"], facts["template"]) == ("llama", "none", -1, "not read"), facts


@case
def a_folder_without_tokenizer_json_answers_from_vocab_json_and_merges_txt(test):
    whole, pairs = write(test, "whole"), write(test, "pairs", vocab_json={token: i for i, token in enumerate(tiny_model.TOKENS)},
                                               merges_txt="#version: 0.2\n" + "".join(merge + "\n" for merge in tiny_model.MERGES),
                                               special_tokens_map_json={"additional_special_tokens": ["<|im_start|>"]})
    os.remove(os.path.join(pairs, "tokenizer.json"))
    jobs = [{"messages": CHAT, "max_tokens": 8, "temperature": 0}, {"prompt": "another thing in the earth", "max_tokens": 8, "seed": 3}]
    expected, got = (answers(test, folder, jobs)[0] for folder in (whole, pairs))
    for a, b in zip(expected, got):
        assert (a["choices"], a["usage"]) == (b["choices"], b["usage"]), (a, b)


@case
def a_quantized_folder_keeps_a_tokenizer_that_does_not_fall_back_to_bytes(test):
    vocab = {token: i for i, token in enumerate(["<unk>", "<0x21>", "a", "b", "\u2581"])}
    model = {"type": "BPE", "unk_token": "<unk>", "byte_fallback": False, "vocab": vocab, "merges": []}
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    folder = write(test, "model", tokenizer_json={"normalizer": blanks, "model": model}, tokenizer_config_json={})
    done = test.run("quantize", folder, "model.gguf", "--type", "q8_0")
    assert "byte_fallback false of the tokenizer has no key in GGUF: sheaf follows it" in done.err, done
    for given in (folder, "model.gguf"):
        assert json.loads(test.run("tokenize", given, stdin='{"text": "a !b"}').out) == [2, 4, 0, 3], given


@case
def an_adapter_beside_the_weights_is_named(test):
    folder = write(test, "adapter", adapter_config_json={"peft_type": "LORA", "base_model_name_or_path": "maker/model"})
    assert "adapter_config.json: a LoRA adapter of maker/model beside the weights: give the model without it" in test.run("inspect", folder, status=1).err


@case
def a_folder_without_a_template_refuses_chats_by_name(test):
    folder = write(test, "model", tokenizer_config_json=SETTINGS)
    test.write("in.jsonl", [{"messages": CHAT, "max_tokens": 1}, {"prompt": "the", "max_tokens": 1}])
    test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", folder)
    chat, plain = test.answers()
    assert "template" in error_of(chat)["message"] and error_of(plain) is None, (chat, plain)


@case
def a_bos_is_added_to_texts_where_the_settings_say_so_and_never_twice(test):
    bare, added = (write(test, name, tokenizer_config_json=dict(SETTINGS, chat_template="{{ messages[0].content }}", **more))
                   for name, more in (("bare", {}), ("added", {"add_bos_token": True})))
    text = {"prompt": "the", "max_tokens": 1}
    jobs = [text, dict(text, add_special_tokens=False), dict(text, prompt="<|endoftext|>the"),
            {"messages": [{"role": "user", "content": "the"}], "max_tokens": 1}]
    assert n_prompt(answers(test, bare, jobs)[0]) == [1, 1, 2, 1]
    assert n_prompt(answers(test, added, jobs)[0]) == [2, 1, 2, 1]
    warned = [answer["response"]["body"].get("warnings") for answer in test.answers(f"out-{len(test.processes) - 1}.jsonl")]
    assert [bool(warnings) for warnings in warned] == [False, False, True, False] and "no second one" in warned[2][0], warned


# ---- quantized folders ----

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False}


def quantize(folder, ordered):
    """Replaces the layers' matrices by GPTQ's tensors, drawn at random."""
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack_from("<Q", content)[0]
    before, rng = json.loads(content[8:8 + size]), random.Random(1)
    after, data = {}, b""
    for name, tensor in before.items():
        begin, end = tensor["data_offsets"]
        parts = {name: (tensor["dtype"], tensor["shape"], content[8 + size + begin:8 + size + end])}
        if ".layers." in name and len(tensor["shape"]) == 2:
            rows, columns = tensor["shape"]
            groups = [column // 32 for column in range(columns)]
            if ordered:
                rng.shuffle(groups)
            stem = name.removesuffix("weight")
            parts = {stem + "qweight": ("I32", [columns // 8, rows], rng.randbytes(columns * rows // 2)),
                     stem + "qzeros": ("I32", [columns // 32, rows // 8], b"\x66\x77" * (columns * rows // 128)),
                     stem + "scales": ("F16", [columns // 32, rows], b"".join(
                         struct.pack("<e", rng.uniform(0.5, 1) / columns ** 0.5) for _ in range(columns * rows // 32))),
                     stem + "g_idx": ("I32", [columns], struct.pack(f"<{columns}i", *groups))}
        for part, (dtype, shape, values) in parts.items():
            after[part] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    head = json.dumps(after).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def write_quantized(test, name, ordered=True, **settings):
    folder = write(test, name)
    quantize(folder, ordered)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**config, "quantization_config": {**GPTQ, **settings}}, file)
    return folder


def logits(test, model):
    test.run("logits", model, "--tokens", "3 17 9 30 5", "-o", "logits.f32")
    with open(test.path("logits.f32"), "rb") as file:
        content = file.read()
    return struct.unpack(f"<{len(content) // 4}f", content)


def nmse(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b)) / sum(x * x for x in a)


@case
def a_quantized_folder_is_held_as_it_is_and_computed_alike_in_every_batch(test):
    folder = write_quantized(test, "gptq")
    weights = json.loads(test.run("inspect", folder, "--json").out)["weights"]
    items = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 3 * 64 * 96)
    assert weights["U4_32"] == {"tensors": 14, "bytes": items * 19 // 32}, weights
    test.write("in.jsonl", varied_jobs(24))
    test.run("run", "in.jsonl", "-o", "alone.jsonl", "--model", folder, "--max-batch", "1", "--threads", "1")
    test.run("run", "in.jsonl", "-o", "together.jsonl", "--model", folder, "--max-batch", "8", "--threads", "2")
    alone, together = test.answers("alone.jsonl"), test.answers("together.jsonl")
    assert [body_of(answer)["choices"] for answer in alone] == [body_of(answer)["choices"] for answer in together]
    assert len({json.dumps(body_of(answer)["choices"]) for answer in alone}) > 12, alone


@case
def a_quantized_folder_is_written_with_the_same_items_in_types_of_gguf(test):
    for ordered, written, most in ((False, "14 Q5_0", 1e-9), (True, "21 F32", 1e-2)):
        folder = write_quantized(test, f"gptq-{ordered}", ordered)
        err = test.run("quantize", folder, f"{ordered}.gguf").err
        assert written in err and "14 U4_32" in err, err
        assert nmse(logits(test, folder), logits(test, f"{ordered}.gguf")) < most  # F32: activations are not rounded


@case
def settings_of_a_quantized_folder_that_are_not_built_are_named(test):
    refused = {"bits": ({"bits": 3}, '"bits": expected 4 or 8, got 3'), "dynamic": ({"dynamic": {"-:down": {}}}, '"dynamic": expected none'),
               "bitsandbytes": ({"quant_method": "bitsandbytes"}, 'got "bitsandbytes"'),
               "group": ({"group_size": 64}, "expected 1x64 scales, as quantization_config says, file has F16 of 2x64")}
    for name, (settings, words) in refused.items():
        assert words in test.run("inspect", write_quantized(test, name, **settings), status=1).err
