"""LoRA adapters (--lora, --lora-modules): answers are the adapter's, the same in every batch, and never taken for those of another one."""
import csv
import json
import math
import os
import random
import struct

import tiny_model
from serve import Server, by_id, chat
from session import case, varied_jobs

N_JOBS = 24
MODULES = [("self_attn.q_proj", tiny_model.WIDTH, tiny_model.WIDTH), ("self_attn.v_proj", tiny_model.WIDTH // 2, tiny_model.WIDTH),
           ("mlp.down_proj", tiny_model.WIDTH, tiny_model.N_FF)]


def write_adapter(test, name, seed=1, rank=4, **settings):
    """A folder of PEFT with random items."""
    folder, rng, header, data = test.path(name), random.Random(seed), {}, b""
    os.makedirs(folder)
    for layer in range(tiny_model.N_LAYERS):
        for module, n_outputs, n_inputs in MODULES:
            for half, shape in (("A", [rank, n_inputs]), ("B", [n_outputs, rank])):
                n = shape[0] * shape[1]
                header[f"base_model.model.model.layers.{layer}.{module}.lora_{half}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
                data += struct.pack(f"<{n}f", *(rng.uniform(-0.3, 0.3) for _ in range(n)))
    head = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", **settings}, file)
    return folder


def set_item(folder, module, half, item):
    """The first item of one half of a module's adapter."""
    path = os.path.join(folder, "adapter_model.safetensors")
    with open(path, "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(size))[f"base_model.model.model.layers.1.{module}.lora_{half}.weight"]
        file.seek(8 + size + entry["data_offsets"][0])
        file.write(struct.pack("<f", item))


def fingerprints(test, name="out.jsonl"):
    return {answer["response"]["body"]["system_fingerprint"] for answer in test.answers(name)}


def lora_of(fingerprint):
    return next((part for part in fingerprint.split() if part.startswith("lora=")), None)


@case
def an_adapter_changes_the_answers_and_gives_the_same_bytes_in_every_batch(test):
    adapter = write_adapter(test, "adapter")
    test.write("in.jsonl", varied_jobs(N_JOBS))
    test.run_file("in.jsonl", "plain.jsonl")
    test.run_file("in.jsonl", "reference.jsonl", "--lora", adapter, "--threads", "2")
    assert all(answer["error"] is None for answer in test.answers("reference.jsonl"))
    for i, options in enumerate((("--threads", "1", "--max-batch", "1"), ("--max-rows", "7", "--max-batch", "5"), ("--backend", "cpu:plain"),
                                 ("--kv-memory", "300K", "--speculate", "4"))):
        test.run_file("in.jsonl", f"{i}.jsonl", "--lora", adapter, *options)
        assert test.comparable(f"{i}.jsonl") == test.comparable("reference.jsonl"), options
    texts = [[answer["response"]["body"]["choices"] for answer in test.answers(name)] for name in ("plain.jsonl", "reference.jsonl")]
    assert sum(a != b for a, b in zip(*texts)) > N_JOBS // 2
    assert lora_of(*fingerprints(test, "plain.jsonl")) is None
    (name,) = fingerprints(test, "reference.jsonl")
    assert len(lora_of(name)) == len("lora=") + 16, name


@case
def an_adapter_is_applied_to_a_folder_as_to_a_file(test):
    tiny_model.write_folder(test.path("folder"), {})
    adapter = write_adapter(test, "adapter")
    for name, model in (("folder", test.path("folder")), ("file", test.path("file.gguf"))):
        if name == "file":
            test.run("quantize", test.path("folder"), model)
        test.run("logits", model, "--tokens", "3 17 9 40", "-o", f"{name}.f32", "--lora", adapter)
        test.run("logits", model, "--tokens", "3 17 9 40", "-o", f"{name}-plain.f32")
    read = {name: open(test.path(f"{name}.f32"), "rb").read() for name in ("folder", "file", "folder-plain", "file-plain")}
    assert read["folder-plain"] == read["file-plain"] and read["folder"] == read["file"] and read["folder"] != read["folder-plain"]


@case
def another_adapter_or_scale_is_another_arithmetic(test):
    one, two = write_adapter(test, "one"), write_adapter(test, "two", seed=2)
    test.write("in.jsonl", varied_jobs(4))
    test.run_file("in.jsonl", "out.jsonl", "--lora", one)
    (name,) = fingerprints(test)
    lora = lora_of(name)
    test.run_file("in.jsonl", "out.jsonl", "--lora", one)  # resumed
    for options, found in ((("--lora", two), "instead of"), ((), "lora none instead of"), (("--lora", f"{one}=0.5"), "*0.5 instead of"),
                           (("--lora", one, "--lora", two), "instead of")):
        refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, *options, status=1)
        assert found in refused.err and lora.removeprefix("lora=") in refused.err, refused
    test.run_file("in.jsonl", "scaled.jsonl", "--lora", f"{one}=0.5", "--lora", two)
    (name,) = fingerprints(test, "scaled.jsonl")
    first, second = lora_of(name).removeprefix("lora=").split(",")
    assert first == lora.removeprefix("lora=") + "*0.5" and len(second) == 16 and second != first[:16], name
    os.rename(one, test.path("renamed"))
    test.run_file("in.jsonl", "renamed.jsonl", "--lora", test.path("renamed"))
    assert lora_of(*fingerprints(test, "renamed.jsonl")) == lora


@case
def a_table_is_annotated_with_an_adapter_and_its_certificate_needs_it(test):
    adapter = write_adapter(test, "adapter")
    with open(test.path("rows.csv"), "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([i, f"row {i}"] for i in range(12))])
    with open(test.path("prompt.jinja"), "w", encoding="utf-8") as file:
        file.write("{{ text }}")
    options = ("annotate", "rows.csv", "--prompt", "prompt.jinja", "--choice", "a,b", "--model", test.model)
    test.run(*options, "-o", "plain.csv")
    test.run(*options, "-o", "out.csv", "--lora", adapter, "--certificate", "out.cert")
    verify = ("verify", "out.csv", "--certificate", "out.cert", "--model", test.model)
    refused = test.run(*verify, status=1)
    assert "lora" in refused.err, refused
    test.run(*verify, "--lora", adapter)
    refused = test.run("annotate", "rows.csv", "--prompt", "prompt.jinja", "--choice", "a,b", "--cascade", f"{test.model},x.gguf", "-o", "c.csv",
                       "--guarantee", "0.9", "--lora", adapter, status=2)
    assert "--cascade does not fit --lora" in refused.err, refused


@case
def perplexity_compares_a_model_with_and_without_its_adapter(test):
    adapter = write_adapter(test, "adapter")
    with open(test.path("text.txt"), "w", encoding="utf-8") as file:
        file.write("the winter and the other\n" * 20)
    figures = [json.loads(test.run("perplexity", test.model, "text.txt", "--json", *options).out)
               for options in ((), ("--lora", adapter), ("--lora", f"{adapter}=0"))]
    assert figures[0] == figures[2] and figures[0] != figures[1]
    against = json.loads(test.run("perplexity", test.model, "text.txt", "--json", "--lora", adapter, "--against", test.model).out)
    same = json.loads(test.run("perplexity", test.model, "text.txt", "--json", "--against", test.model).out)
    assert against != same


@case
def adapters_that_do_not_fit_are_refused_before_anything_is_written(test):
    adapter = write_adapter(test, "adapter")
    wrong = write_adapter(test, "wrong", use_dora=True)
    test.write("in.jsonl", varied_jobs(2))
    for given, status, found in ((test.path("absent"), 1, "absent"), (f"{adapter}=x", 2, "expected a number after the last ="),
                                 (f"{adapter}=", 2, "expected a number after the last ="), ("=1", 2, "expected a path"),
                                 (os.path.join(adapter, "adapter_model.safetensors"), 1, "a safetensors file: expected its folder"),
                                 (wrong, 1, "use_dora true is not built"), (test.model, 1, "general.type")):
        refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, "--lora", given, status=status)
        assert "sheaf" in refused.err and found in refused.err, (given, refused)
        assert not test.exists("out.jsonl"), given
    refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", adapter, status=1)
    assert "give the model without it, and the adapter's folder as --lora" in refused.err, refused


@case
def an_adapter_whose_items_are_no_numbers_is_refused_by_its_matrix(test):
    test.write("in.jsonl", varied_jobs(2))
    found = "tensor blk.1.attn_v.weight: its adapter has a NaN or an infinity in float32"
    for i, (half, item, settings) in enumerate((("A", math.nan, {}), ("A", math.inf, {}), ("B", -math.inf, {}), ("B", math.nan, {}),
                                                ("B", 1e38, {"lora_alpha": 64}))):
        adapter = write_adapter(test, str(i), **settings)
        set_item(adapter, "self_attn.v_proj", half, item)
        for command in (("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model), ("embed", test.model, "--pooling", "mean")):
            refused = test.run(*command, "--lora", adapter, stdin="the\n", status=1)
            assert found in refused.err and not refused.out, (half, item, refused)
    adapter = write_adapter(test, "large", lora_alpha=8)
    set_item(adapter, "self_attn.v_proj", "B", 1e38)
    test.run("logits", test.model, "--tokens", "3", "-o", "l.f32", "--lora", adapter)


@case
def as_many_adapters_as_a_model_may_have_are_named_by_one_hash(test):
    one, two = write_adapter(test, "one"), write_adapter(test, "two", seed=2)
    test.write("in.jsonl", varied_jobs(2))
    lists = {"ones": [f"{one}=0.123456789012345"] * 64, "twos": [f"{one}=0.123456789012345"] * 63 + [two],
             "scaled": [f"{one}=0.123456789012345"] * 63 + [f"{one}=0.125"], "five": [one] * 5, "four": [one] * 4}
    names = {}
    for name, adapters in lists.items():
        test.run_file("in.jsonl", f"{name}.jsonl", *(part for adapter in adapters for part in ("--lora", adapter)))
        names[name] = lora_of(*fingerprints(test, f"{name}.jsonl"))
    assert len(set(names.values())) == len(lists) and names["four"].count(",") == 3, names
    for name in ("ones", "twos", "scaled", "five"):
        n, digits = names[name].removeprefix("lora=").split(":")
        assert int(n) == len(lists[name]) and len(digits) == 16, names
    refused = test.run("run", "in.jsonl", "-o", "more.jsonl", "--model", test.model, *(["--lora", one] * 65), status=1)
    assert "a model has at most 64 adapters" in refused.err, refused


@case
def embeddings_bench_and_a_worker_take_an_adapter(test):
    adapter = write_adapter(test, "adapter")
    vectors = [test.run("embed", test.model, "--pooling", "mean", *options, stdin="the winter\nother\n").out
               for options in ((), ("--lora", adapter))]
    assert len(vectors[0].splitlines()) == 2 and vectors[0] != vectors[1]
    test.run("bench", test.model, "--prompt", "8", "--generate", "2", "--batch", "1,2", "--json", "--lora", adapter)
    test.write("in.jsonl", varied_jobs(4))
    test.run("submit", "in.jsonl", "--dataset", "d")
    test.run("work", "--model", test.model, "--lora", adapter, "--exit-when-idle", "0")
    test.run("collect", "--dataset", "d", "-o", "out.jsonl")
    assert lora_of(*fingerprints(test))


SETS = ("sql", "org/sum:2", "tiny")


def of_sets(jobs, sets=SETS):
    """The jobs of each model in turns."""
    return [{**job, "model": sets[i % len(sets)]} for i, job in enumerate(jobs)]


def modules(test):
    one, two = write_adapter(test, "one"), write_adapter(test, "two", seed=2, rank=20)
    return {"sql": one, "org/sum:2": two}, ("--lora-modules", f"sql={one}", "--lora-modules", f"org/sum:2={two}=0.5")


@case
def jobs_choose_their_adapters_by_model_within_one_batch(test):
    paths, options = modules(test)
    jobs = of_sets(varied_jobs(N_JOBS))
    test.write("in.jsonl", jobs)
    alone = {}
    for name, lora in (("sql", ("--lora", paths["sql"])), ("org/sum:2", ("--lora", f"{paths['org/sum:2']}=0.5")), ("tiny", ())):
        test.run_file("in.jsonl", "alone.jsonl", "--model-name", name, *lora, "--overwrite")
        alone[name] = [answer["response"] for answer in test.answers("alone.jsonl")]
        os.remove(test.path("alone.jsonl.db"))
    assert len({lora_of(answers[0]["body"]["system_fingerprint"]) for answers in alone.values()}) == 3
    for i, more in enumerate(((), ("--max-batch", "1", "--threads", "1"), ("--max-rows", "7", "--max-batch", "5"), ("--backend", "cpu:plain"),
                              ("--kv-memory", "300K", "--speculate", "4"))):
        test.run_file("in.jsonl", f"{i}.jsonl", *options, "--require-model", *more)
        for place, (job, answer) in enumerate(zip(jobs, test.answers(f"{i}.jsonl"))):
            expected, got = alone[job["model"]][place]["body"], answer["response"]["body"]
            expected = {**expected, "warnings": None, "created": 0}
            assert {**got, "warnings": None, "created": 0} == expected, (more, job, got, expected)


@case
def prompts_are_cached_for_each_adapter_alone(test):
    _, options = modules(test)
    prompt = "the winter and the other within the limit in the end " * 4
    test.write("in.jsonl", [{"custom_id": f"{model} {i}", "model": model, "prompt": prompt, "max_tokens": 2, "temperature": 0, "seed": i,
                             "metadata": {"i": i}, "logit_bias": {str(i): -1}} for i in range(3) for model in SETS])
    test.run_file("in.jsonl", "out.jsonl", *options, "--cached-tokens", "--max-batch", "1", "--kv-memory", "1M")
    cached = {answer["custom_id"]: answer["response"]["body"]["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in test.answers()}
    firsts = sorted((name for name, n in cached.items() if n == 0), key=lambda name: name.split()[0])
    assert sorted(name.split()[0] for name in firsts) == sorted(SETS), cached
    assert all(n > 40 for name, n in cached.items() if name not in firsts), cached


@case
def a_changed_or_further_adapter_is_noticed_and_names_are_not_reused(test):
    paths, options = modules(test)
    test.write("in.jsonl", of_sets([{"custom_id": str(i), "prompt": "the winter", "max_tokens": 4, "temperature": 0} for i in range(6)]))
    test.run_file("in.jsonl", "out.jsonl", *options)
    test.run_file("in.jsonl", "out.jsonl", *options)  # resumed
    test.run_file("in.jsonl", "out.jsonl", *options[2:], *options[:2])
    before = {answer["custom_id"]: answer["response"]["body"] for answer in test.answers()}
    sum_alone = ("--lora-modules", f"org/sum:2={paths['org/sum:2']}=0.5")
    for changed in (sum_alone, (*options[:3], f"org/sum:2={paths['org/sum:2']}"), (*options[:2], "--lora-modules", f"sum={paths['org/sum:2']}=0.5"), ()):
        refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, *changed, status=1)
        assert "lora-modules" in refused.err and "instead of org/sum:2:" in refused.err, refused
    set_item(paths["sql"], "self_attn.v_proj", "B", 3.0)
    refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, *options, status=1)
    assert "lora-modules" in refused.err, refused
    test.run("submit", "in.jsonl", "--dataset", "d", "--store", "out.jsonl.db")
    test.run("work", "--model", test.model, *options, "--exit-when-idle", "0", "--store", "out.jsonl.db", "--dataset", "d")
    test.run("collect", "--dataset", "d", "-o", "again.jsonl", "--store", "out.jsonl.db")
    for answer in test.answers("again.jsonl"):
        body, old = answer["response"]["body"], before[answer["custom_id"]]
        assert body["model"] == old["model"], (body, old)
        assert (body["system_fingerprint"] == old["system_fingerprint"]) == (body["model"] != "sql"), (body, old)


@case
def a_server_lists_adapters_and_computes_a_batch_with_several(test):
    _, options = modules(test)
    server = Server(test, *options, "--require-model").ready()
    assert [model["id"] for model in server.get("/v1/models")["data"]] == ["tiny", "org/sum:2", "sql"]
    assert server.get("/v1/models/sql")["id"] == "sql" and server.get("/v1/models/org/sum:2")["id"] == "org/sum:2"
    body = {"prompt": "the winter", "max_tokens": 8, "temperature": 0}
    answers = [server.post("/v1/completions", {**body, "model": model}) for model in SETS]
    assert [answer["model"] for answer in answers] == list(SETS)
    assert len({answer["choices"][0]["text"] for answer in answers}) == 3 and len({answer["system_fingerprint"] for answer in answers}) == 3
    status, refused = server.ask("POST", "/v1/completions", {**body, "model": "other"})
    assert status == 400 and "got \"other\"" in refused["error"]["message"], (status, refused)
    lines = [chat(i, model=SETS[i % 3]) for i in range(18)]
    batch = server.wait_for(server.create(server.upload(lines)))
    assert batch["request_counts"] == {"total": 18, "completed": 18, "failed": 0}, batch
    found = by_id(server.lines(batch["output_file_id"]))
    for line in lines:
        got, alone = found[line["custom_id"]]["response"]["body"], server.post("/v1/chat/completions", line["body"])
        assert all(got[key] == alone[key] for key in ("model", "choices", "system_fingerprint")) and got["model"] == line["body"]["model"], (got, alone)
    assert server.stop().status == 0


@case
def names_of_adapters_that_can_not_be_told_apart_are_refused(test):
    one = write_adapter(test, "one")
    test.write("in.jsonl", varied_jobs(2))
    for given, status, found in (((one,), 2, "expected NAME=PATH"), ((f"={one}",), 2, "expected NAME=PATH"), ((f"a b={one}",), 2, "expected NAME=PATH"),
                                 ((f"a,b={one}",), 2, "expected NAME=PATH"), (("a=",), 2, "expected a path"), ((f"a={one}=x",), 2, "expected a number"),
                                 ((f"a={test.path('absent')}",), 1, "absent"), ((f"tiny={one}",), 2, "tiny is the model's own name"),
                                 ((f"a={one}", f"a={one}"), 2, "two adapters have the name a"), ((f"{'n' * 257}={one}",), 2, "a name of 1 to 256 bytes")):
        refused = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", test.model, *(part for name in given for part in ("--lora-modules", name)),
                           status=status)
        assert "--lora-modules" in refused.err and found in refused.err, (given, refused)
        assert not test.exists("out.jsonl"), given
    refused = test.run("work", "--model", test.model, "--task", "embed", "--pooling", "mean", "--lora-modules", f"a={one}", "--exit-when-idle", "0", status=2)
    assert "--lora-modules: the worker computes embeddings" in refused.err, refused
