"""Models with recurrent layers: Qwen3.5's mixture of experts, as the language model of a vision-language folder, and the families of
recurrent_families.py; as folders and as GGUF."""
import json
import os

import recurrent_families
import tiny_model
from session import case, error_of, varied_jobs
from tiny_model import N_VOCAB, WIDTH

N_LAYERS, N_EXPERTS, N_FF, HEAD_DIM = 4, 3, 32, 16
KEY_HEADS, VALUE_HEADS, STATE = 2, 4, 8
TEXT_CONFIG = {
    "model_type": "qwen3_5_moe_text", "hidden_size": WIDTH, "vocab_size": N_VOCAB, "num_hidden_layers": N_LAYERS,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD_DIM, "num_experts": N_EXPERTS, "num_experts_per_tok": 2,
    "moe_intermediate_size": N_FF, "shared_expert_intermediate_size": N_FF, "linear_num_key_heads": KEY_HEADS,
    "linear_num_value_heads": VALUE_HEADS, "linear_key_head_dim": STATE, "linear_value_head_dim": STATE,
    "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"], "attn_output_gate": True,
    "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "rms_norm_eps": 1e-6, "max_position_embeddings": 256,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0],
                        "mrope_interleaved": True}}
CONFIG = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "text_config": TEXT_CONFIG,
          "vision_config": {}, "tie_word_embeddings": False}


def tensors():
    """(name, shape), with a vision tower and a draft head, which are left out."""
    keys, values = KEY_HEADS * STATE, VALUE_HEADS * STATE
    yield "model.language_model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.language_model.norm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    yield "model.visual.patch_embed.proj.weight", [2, 2]
    yield "mtp.fc.weight", [WIDTH, 2 * WIDTH]
    attention = {"q_proj.weight": [2 * 4 * HEAD_DIM, WIDTH], "k_proj.weight": [2 * HEAD_DIM, WIDTH], "v_proj.weight": [2 * HEAD_DIM, WIDTH],
                 "o_proj.weight": [WIDTH, 4 * HEAD_DIM], "q_norm.weight": [HEAD_DIM], "k_norm.weight": [HEAD_DIM]}
    recurrent = {"in_proj_qkv.weight": [2 * keys + values, WIDTH], "in_proj_z.weight": [values, WIDTH],
                 "in_proj_a.weight": [VALUE_HEADS, WIDTH], "in_proj_b.weight": [VALUE_HEADS, WIDTH],
                 "conv1d.weight": [2 * keys + values, 1, 4], "A_log": [VALUE_HEADS], "dt_bias": [VALUE_HEADS],
                 "norm.weight": [STATE], "out_proj.weight": [WIDTH, values]}
    mlp = {"gate.weight": [N_EXPERTS, WIDTH], "experts.gate_up_proj": [N_EXPERTS, 2 * N_FF, WIDTH],
           "experts.down_proj": [N_EXPERTS, WIDTH, N_FF], "shared_expert_gate.weight": [1, WIDTH],
           "shared_expert.gate_proj.weight": [N_FF, WIDTH], "shared_expert.up_proj.weight": [N_FF, WIDTH],
           "shared_expert.down_proj.weight": [WIDTH, N_FF]}
    for layer in range(N_LAYERS):
        prefix = f"model.language_model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{prefix}{name}.weight", [WIDTH]
        room, parts = ("self_attn", attention) if layer == N_LAYERS - 1 else ("linear_attn", recurrent)
        for part, group in ((room, parts), ("mlp", mlp)):
            for name, shape in group.items():
                yield f"{prefix}{part}.{name}", shape


def write(test, name="qwen"):
    folder = test.path(name)
    tiny_model.write_folder(folder, {"config.json": CONFIG}, listed=list(tensors()))
    return folder


def run(test, model, *options):
    """The answers by custom_id, and the log."""
    name = f"out-{len(test.processes)}.jsonl"
    err = test.run("run", "in.jsonl", "-o", name, "--model", model, *options).err
    answers = {answer["custom_id"]: answer for answer in test.answers(name)}
    assert all(error_of(answer) is None for answer in answers.values()), answers
    return {key: answer["response"]["body"]["choices"] for key, answer in answers.items()}, err


@case
def answers_are_the_same_in_every_batch_and_from_either_file(test):
    folder = write(test)
    test.write("in.jsonl", varied_jobs(24))
    alone, _ = run(test, folder, "--max-batch", "1", "--threads", "1")
    together, err = run(test, folder, "--max-batch", "8", "--threads", "2")
    assert alone == together
    assert "recurrent states" in err and "(8 of sequences, 4 of shared prefixes)" in err, err
    assert len({json.dumps(choices) for choices in alone.values()}) > 12, alone
    test.run("quantize", folder, "model.gguf", "--type", "f32")
    assert run(test, "model.gguf")[0] == alone
    # pages for little more than one sequence: others are preempted and recomputed
    assert run(test, folder, "--max-batch", "8", "--kv-memory", "40K")[0] == alone


def tokens(n, seed):
    return [3 + (seed * 7919 + i * i * 31 + i * 17) % 241 for i in range(n)]


def tree_of_jobs():
    """A system text of 37 tokens, documents, questions to each, three samples of the first one's answer: the jobs,
    the prompt tokens that sharing everything computes, and how many more if no branch is known before a second job
    takes it."""
    system, jobs, nodes, longest = tokens(37, 0), [], set(), 37
    for document in range(5):
        text = system + tokens(23 + 9 * document, 1 + document)
        longest += len(text)
        for question in range(5):
            prompt = text + tokens(4 + question, 100 + 10 * document + question)
            jobs.append({"custom_id": f"{document}, {question}", "prompt": prompt, "max_tokens": 6, "temperature": 0.9,
                         "seed": len(jobs), "logprobs": 1, "n": 1 if question else 3})
            nodes.update(tuple(prompt[:i + 1]) for i in range(len(prompt)))
    return jobs, len(nodes) + sum(job["n"] - 1 for job in jobs), longest + sum(len(job["prompt"]) for job in jobs if job["n"] > 1)


@case
def shared_prefixes_are_computed_once_to_the_bytes_of_each_job_alone(test):
    jobs, fewest, late = tree_of_jobs()
    for model in (write(test), test.model):
        alone = {}
        for job in jobs[::3]:
            test.write("in.jsonl", [job])
            alone.update(run(test, model, "--threads", "1")[0])
        test.write("in.jsonl", jobs)
        together, _ = run(test, model, "--max-batch", "16", "--threads", "2")
        figures = "SELECT prefix_lookups, prefix_hits, prefix_tokens - tokens_saved, prefill_tokens FROM workers"
        [(lookups, hits, unsaved, prefill)] = test.query(figures, f"out-{len(test.processes) - 1}.jsonl.db")
        assert {key: together[key] for key in alone} == alone
        assert lookups == sum(job["n"] for job in jobs) and hits == lookups - 1 and unsaved == prefill, (lookups, hits, unsaved, prefill)
        assert fewest <= prefill <= fewest + (late if model != test.model else 0), (fewest, prefill, late)
        memory = json.loads(test.run("inspect", model, "--json").out)["memory"]
        pages = str(11 * memory["pages"] // memory["n_pages"])  # for hardly more than one sequence
        assert run(test, model, "--max-batch", "8", "--kv-memory", pages)[0] == together


@case
def what_such_a_model_cannot_do_is_said_by_name(test):
    folder = write(test)
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    err = test.run("run", "in.jsonl", "-o", "out.jsonl", "--model", folder, "--speculate", "4", status=2).err
    assert "--speculate 4: family qwen35moe has recurrent layers" in err, err
    shown = test.run("inspect", folder).out
    assert "recurrent   3 layers of 4 heads (2 key) of 8 x 8" in shown and "its language model alone" in shown, shown
    memory = json.loads(test.run("inspect", folder, "--json").out)["memory"]
    assert memory["states"] > 0 and memory["n_states"] == 96, memory
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({**CONFIG, "text_config": {**TEXT_CONFIG, "attn_output_gate": False}}, file)
    assert "attn_output_gate" in test.run("inspect", folder, status=1).err


def shares(test, model):
    """Jobs of a prefix tree: alone, in a batch, and with pages for hardly more than one sequence."""
    jobs, fewest, late = tree_of_jobs()
    alone = {}
    for job in jobs[::6]:
        test.write("in.jsonl", [job])
        alone.update(run(test, model, "--threads", "1", "--max-batch", "1")[0])
    test.write("in.jsonl", jobs)
    together, _ = run(test, model, "--max-batch", "16", "--threads", "2")
    [(prefill,)] = test.query("SELECT prefill_tokens FROM workers", f"out-{len(test.processes) - 1}.jsonl.db")
    assert {key: together[key] for key in alone} == alone
    assert fewest <= prefill <= fewest + late, (fewest, prefill, late)
    memory = json.loads(test.run("inspect", model, "--json").out)["memory"]
    pages = str(11 * memory["pages"] // memory["n_pages"])
    assert run(test, model, "--max-batch", "8", "--kv-memory", pages)[0] == together
    return together


def family_case(name):
    def answers(test):
        folder = recurrent_families.write(test, name)
        together = shares(test, folder)
        assert len({json.dumps(choices) for choices in together.values()}) > 12, together
        test.run("quantize", folder, "model.gguf", "--type", "f32")
        assert run(test, "model.gguf", "--max-batch", "16")[0] == together
        shown = test.run("inspect", folder).out
        assert recurrent_families.FAMILIES[name]["shown"] in shown, shown
    answers.__name__ = name.replace("-", "_") + "_answers_alike_in_every_way"
    return case(answers)


for family in recurrent_families.FAMILIES:
    globals()[family] = family_case(family)
