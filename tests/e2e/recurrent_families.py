"""Small folders of families with recurrent layers, or sparse attention: config.json, tensors and their shapes."""
import tiny_model
from tiny_model import N_VOCAB, WIDTH

N_FF, HEADS, KV_HEADS = 32, 4, 2
SIZES = {"hidden_size": WIDTH, "vocab_size": N_VOCAB, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
         "max_position_embeddings": 256, "tie_word_embeddings": False}


def lfm2():
    head, kv = WIDTH // HEADS, WIDTH // HEADS * KV_HEADS
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.embedding_norm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    attention = {"q_proj.weight": [WIDTH, WIDTH], "k_proj.weight": [kv, WIDTH], "v_proj.weight": [kv, WIDTH],
                 "out_proj.weight": [WIDTH, WIDTH], "q_layernorm.weight": [head], "k_layernorm.weight": [head]}
    short = {"in_proj.weight": [3 * WIDTH, WIDTH], "conv.weight": [WIDTH, 1, 3], "out_proj.weight": [WIDTH, WIDTH]}
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        yield prefix + "operator_norm.weight", [WIDTH]
        yield prefix + "ffn_norm.weight", [WIDTH]
        room, parts = ("self_attn", attention) if layer == 1 else ("conv", short)
        for name, shape in parts.items():
            yield f"{prefix}{room}.{name}", shape
        for name, shape in (("w1", [N_FF, WIDTH]), ("w3", [N_FF, WIDTH]), ("w2", [WIDTH, N_FF])):
            yield f"{prefix}feed_forward.{name}.weight", shape


STATE, SCAN_HEADS, SCAN_DIM, GROUPS = 6, 4, 10, 2
INNER, CHANNELS = SCAN_HEADS * SCAN_DIM, SCAN_HEADS * SCAN_DIM + 2 * GROUPS * STATE
MAMBA = {"in_proj.weight": [INNER + CHANNELS + SCAN_HEADS, WIDTH], "conv1d.weight": [CHANNELS, 1, 4], "conv1d.bias": [CHANNELS],
         "A_log": [SCAN_HEADS], "D": [SCAN_HEADS], "dt_bias": [SCAN_HEADS], "norm.weight": [INNER], "out_proj.weight": [WIDTH, INNER]}
SCAN = {"mamba_n_heads": SCAN_HEADS, "mamba_d_head": SCAN_DIM, "mamba_n_groups": GROUPS, "mamba_d_state": STATE, "mamba_d_conv": 4}


def attention(out="o_proj"):
    kv = WIDTH // HEADS * KV_HEADS
    return {"q_proj.weight": [WIDTH, WIDTH], "k_proj.weight": [kv, WIDTH], "v_proj.weight": [kv, WIDTH], f"{out}.weight": [WIDTH, WIDTH]}


def granite():
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.norm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [WIDTH]
        yield prefix + "post_attention_layernorm.weight", [WIDTH]
        room, parts = ("self_attn", attention()) if layer == 2 else ("mamba", MAMBA)
        for name, shape in parts.items():
            yield f"{prefix}{room}.{name}", shape
        yield prefix + "shared_mlp.input_linear.weight", [2 * N_FF, WIDTH]
        yield prefix + "shared_mlp.output_linear.weight", [WIDTH, N_FF]


EXPERT_LATENT = 12


def nemotron():
    yield "backbone.embeddings.weight", [N_VOCAB, WIDTH]
    yield "backbone.norm_f.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    experts = {"gate.weight": [3, WIDTH], "gate.e_score_correction_bias": [3], "fc1_latent_proj.weight": [EXPERT_LATENT, WIDTH],
               "fc2_latent_proj.weight": [WIDTH, EXPERT_LATENT]}
    for expert in ("experts.0", "experts.1", "experts.2", "shared_experts"):
        width = WIDTH if expert == "shared_experts" else EXPERT_LATENT
        experts.update({f"{expert}.up_proj.weight": [N_FF, width], f"{expert}.down_proj.weight": [width, N_FF]})
    for layer, parts in enumerate([MAMBA, experts, attention(), MAMBA, experts]):
        yield f"backbone.layers.{layer}.norm.weight", [WIDTH]
        for name, shape in parts.items():
            yield f"backbone.layers.{layer}.mixer.{name}", shape


def falcon():
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.final_layernorm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    for layer in range(3):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [WIDTH]
        yield prefix + "pre_ff_layernorm.weight", [WIDTH]
        for room, parts in (("self_attn", attention()), ("mamba", MAMBA)):
            for name, shape in parts.items():
                yield f"{prefix}{room}.{name}", shape
        for name, shape in (("gate", [N_FF, WIDTH]), ("up", [N_FF, WIDTH]), ("down", [WIDTH, N_FF])):
            yield f"{prefix}feed_forward.{name}_proj.weight", shape


RANK, WIDE = 3, 2 * WIDTH
SELECTIVE = {"in_proj.weight": [2 * WIDE, WIDTH], "conv1d.weight": [WIDE, 1, 4], "conv1d.bias": [WIDE],
             "x_proj.weight": [RANK + 2 * STATE, WIDE], "dt_proj.weight": [WIDE, RANK], "dt_proj.bias": [WIDE],
             "A_log": [WIDE, STATE], "D": [WIDE], "out_proj.weight": [WIDTH, WIDE]}


def pure(parts):
    yield "backbone.embeddings.weight", [N_VOCAB, WIDTH]
    yield "backbone.norm_f.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    for layer in range(3):
        yield f"backbone.layers.{layer}.norm.weight", [WIDTH]
        for name, shape in parts.items():
            yield f"backbone.layers.{layer}.mixer.{name}", shape


def jamba():
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.final_layernorm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    norms = {"dt_layernorm.weight": [RANK], "b_layernorm.weight": [STATE], "c_layernorm.weight": [STATE]}
    matrices = {"gate_proj.weight": [N_FF, WIDTH], "up_proj.weight": [N_FF, WIDTH], "down_proj.weight": [WIDTH, N_FF]}
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [WIDTH]
        yield prefix + "pre_ff_layernorm.weight", [WIDTH]
        room, parts = ("self_attn", attention()) if layer == 1 else ("mamba", {**SELECTIVE, **norms})
        for name, shape in parts.items():
            yield f"{prefix}{room}.{name}", shape
        if layer % 2 == 0:
            yield prefix + "feed_forward.router.weight", [3, WIDTH]
        for expert in range(3) if layer % 2 == 0 else [None]:
            for name, shape in matrices.items():
                yield f"{prefix}feed_forward.{'' if expert is None else f'experts.{expert}.'}{name}", shape


KDA_HEADS, KDA_DIM, LATENT, PLAIN, SHARED, VALUE = 3, 10, 16, 12, 4, 8
KDA_INNER = KDA_HEADS * KDA_DIM


def kimi():
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.norm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    delta = {"A_log": [1, 1, KDA_HEADS, 1], "dt_bias": [KDA_INNER], "b_proj.weight": [KDA_HEADS, WIDTH], "o_norm.weight": [KDA_DIM],
             "o_proj.weight": [WIDTH, KDA_INNER]}
    for name in "qkv":
        delta.update({f"{name}_proj.weight": [KDA_INNER, WIDTH], f"{name}_conv1d.weight": [KDA_INNER, 1, 4]})
    for name in "fg":
        delta.update({f"{name}_a_proj.weight": [KDA_DIM, WIDTH], f"{name}_b_proj.weight": [KDA_INNER, KDA_DIM]})
    latent = {"q_proj.weight": [HEADS * (PLAIN + SHARED), WIDTH], "kv_a_proj_with_mqa.weight": [LATENT + SHARED, WIDTH],
              "kv_a_layernorm.weight": [LATENT], "kv_b_proj.weight": [HEADS * (PLAIN + VALUE), LATENT], "o_proj.weight": [WIDTH, HEADS * VALUE]}
    dense = {"gate_proj.weight": [N_FF, WIDTH], "up_proj.weight": [N_FF, WIDTH], "down_proj.weight": [WIDTH, N_FF]}
    experts = {"gate.weight": [4, WIDTH], "gate.e_score_correction_bias": [4]}
    experts.update({f"shared_experts.{name}": shape for name, shape in dense.items()})
    for expert in range(4):
        experts.update({f"experts.{expert}.w1.weight": [N_FF, WIDTH], f"experts.{expert}.w3.weight": [N_FF, WIDTH],
                        f"experts.{expert}.w2.weight": [WIDTH, N_FF]})
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [WIDTH]
        yield prefix + "post_attention_layernorm.weight", [WIDTH]
        for name, shape in (latent if layer == 2 else delta).items():
            yield f"{prefix}self_attn.{name}", shape
        for name, shape in (experts if layer else dense).items():
            yield f"{prefix}{'block_sparse_moe' if layer else 'mlp'}.{name}", shape


QUERY, INDEX_HEADS, INDEX_DIM = 24, 6, 12


def dsa():
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "model.norm.weight", [WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    latent = {"q_a_proj.weight": [QUERY, WIDTH], "q_a_layernorm.weight": [QUERY], "q_b_proj.weight": [HEADS * (PLAIN + SHARED), QUERY],
              "kv_a_proj_with_mqa.weight": [LATENT + SHARED, WIDTH], "kv_a_layernorm.weight": [LATENT],
              "kv_b_proj.weight": [HEADS * (PLAIN + VALUE), LATENT], "o_proj.weight": [WIDTH, HEADS * VALUE]}
    indexer = {"wq_b.weight": [INDEX_HEADS * INDEX_DIM, QUERY], "wk.weight": [INDEX_DIM, WIDTH], "k_norm.weight": [INDEX_DIM],
               "k_norm.bias": [INDEX_DIM], "weights_proj.weight": [INDEX_HEADS, WIDTH]}
    for layer in range(3):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [WIDTH]
        yield prefix + "post_attention_layernorm.weight", [WIDTH]
        for name, shape in latent.items():
            yield f"{prefix}self_attn.{name}", shape
        for name, shape in indexer.items() if layer < 2 else ():
            yield f"{prefix}self_attn.indexer.{name}", shape
        for name, shape in (("gate_proj", [N_FF, WIDTH]), ("up_proj", [N_FF, WIDTH]), ("down_proj", [WIDTH, N_FF])):
            yield f"{prefix}mlp.{name}.weight", shape


BLOCK_INDEXER = {"index_q_proj.weight": [KV_HEADS * INDEX_DIM, WIDTH], "index_k_proj.weight": [INDEX_DIM, WIDTH],
                 "index_q_norm.weight": [INDEX_DIM], "index_k_norm.weight": [INDEX_DIM]}


def minimax_m3():
    head, prefix = WIDTH // HEADS, "language_model.model."
    yield prefix + "embed_tokens.weight", [N_VOCAB, WIDTH]
    yield prefix + "norm.weight", [WIDTH]
    yield "language_model.lm_head.weight", [N_VOCAB, WIDTH]
    for layer in range(3):
        prefix = f"language_model.model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [WIDTH]
        yield prefix + "post_attention_layernorm.weight", [WIDTH]
        parts = {**attention(), "q_norm.weight": [head], "k_norm.weight": [head], **(BLOCK_INDEXER if layer else {})}
        for name, shape in parts.items():
            yield f"{prefix}self_attn.{name}", shape
        experts = [f"experts.{i}." for i in range(3)] if layer else []
        for name in ("gate_proj", "up_proj", "down_proj"):
            shape = [WIDTH, N_FF] if name == "down_proj" else [N_FF, WIDTH]
            yield prefix + (f"block_sparse_moe.shared_experts.{name}.weight" if layer else f"mlp.{name}.weight"), shape
        for expert in experts:
            for name, shape in (("w1", [N_FF, WIDTH]), ("w3", [N_FF, WIDTH]), ("w2", [WIDTH, N_FF])):
                yield f"{prefix}block_sparse_moe.{expert}{name}.weight", shape
        if layer:
            yield prefix + "block_sparse_moe.gate.weight", [3, WIDTH]
            yield prefix + "block_sparse_moe.e_score_correction_bias", [3]


STREAMS, STREAM_RANK, NGRAM_WIDTH, NGRAM_ROWS = 3, 8, 24, 60  # rows: the primes from 11 on, 4 of them


def connection(prefix, adds=True):
    yield prefix + "hc_norm.weight", [STREAMS * WIDTH]
    yield prefix + "input_mix_weight_down.weight", [STREAM_RANK, STREAMS * WIDTH]
    yield prefix + "input_mix_weight_up.weight", [STREAMS * WIDTH, STREAM_RANK]
    if adds:
        yield prefix + "block_inject_weight.weight", [STREAMS, STREAMS * WIDTH]


def ngrams(prefix):
    for shard in range(3):
        yield f"{prefix}ple_embedding.ngram_embedding.shard_{shard}.weight", [NGRAM_ROWS // 3, NGRAM_WIDTH // 4]
    yield prefix + "key_proj.weight", [STREAMS * WIDTH, NGRAM_WIDTH]
    yield prefix + "value_proj.weight", [WIDTH, NGRAM_WIDTH]
    yield prefix + "conv1d.weight", [STREAMS * WIDTH, 1, 3]
    for name in ("norm_key", "norm_query", "norm_conv"):
        yield f"{prefix}{name}.weight", [STREAMS * WIDTH]


def qwen4_exp():
    head = WIDTH // HEADS
    delta = {"in_proj_qkv.weight": [64, WIDTH], "in_proj_z.weight": [32, WIDTH], "in_proj_b.weight": [4, WIDTH],
             "in_proj_a.weight": [4, WIDTH], "conv1d.weight": [64, 1, 4], "A_log": [4], "dt_bias": [4], "norm.weight": [8],
             "out_proj.weight": [WIDTH, 32]}
    indexed = {**attention(), "q_proj.weight": [2 * WIDTH, WIDTH], "q_norm.weight": [head], "k_norm.weight": [head],
               "indexer.index_qk_proj.weight": [3 * 2 * head, WIDTH], "indexer.q_layernorm.weight": [2 * head],
               "indexer.k_layernorm.weight": [2 * head]}
    yield "model.embed_tokens.weight", [N_VOCAB, WIDTH]
    yield "lm_head.weight", [N_VOCAB, WIDTH]
    yield from connection("model.hyper_connection_mixer.", False)
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        yield from connection(prefix + "attn_hyper_connection.")
        yield from connection(prefix + "mlp_hyper_connection.")
        for name, shape in (indexed if layer == 3 else delta).items():
            yield f"{prefix}{'self_attn' if layer == 3 else 'linear_attn'}.{name}", shape
        if layer == 1:
            yield from ngrams(prefix + "ple.")
        yield prefix + "mlp.gate.weight", [3, WIDTH]
        yield prefix + "mlp.experts.gate_up_proj", [3, 2 * N_FF, WIDTH]
        yield prefix + "mlp.experts.down_proj", [3, WIDTH, N_FF]
        yield prefix + "mlp.shared_expert_gate.weight", [1, WIDTH]
        for name, shape in (("gate_proj", [N_FF, WIDTH]), ("up_proj", [N_FF, WIDTH]), ("down_proj", [WIDTH, N_FF])):
            yield f"{prefix}mlp.shared_expert.{name}.weight", shape


PURE = {"num_hidden_layers": 3, "conv_kernel": 4, "state_size": STATE, "hidden_size": WIDTH, "vocab_size": N_VOCAB,
        "tie_word_embeddings": False}
FAMILIES = {
    "lfm2": {
        "config": {"model_type": "lfm2", "num_hidden_layers": 4, "intermediate_size": N_FF, "block_auto_adjust_ff_dim": False,
                   "full_attn_idxs": [1], "norm_eps": 1e-5, **SIZES},
        "tensors": lfm2, "shown": "recurrent   3 layers of short convolutions, 3 taps"},
    "granitehybrid": {
        "config": {"model_type": "granitemoehybrid", "num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"],
                   "num_local_experts": 0, "shared_intermediate_size": N_FF, "position_embedding_type": "nope",
                   "attention_multiplier": 0.2, "time_step_limit": [0.0, float("inf")], **SCAN, **SIZES},
        "tensors": granite, "shown": "recurrent   3 layers of 4 heads (2 key) of 6 x 10"},
    "nemotron_h_moe": {
        "config": {"model_type": "nemotron_h", "hybrid_override_pattern": "ME*ME", "head_dim": WIDTH // HEADS, "mamba_num_heads": SCAN_HEADS,
                   "mamba_head_dim": SCAN_DIM, "n_groups": GROUPS, "ssm_state_size": STATE, "conv_kernel": 4, "n_routed_experts": 3,
                   "num_experts_per_tok": 2, "moe_intermediate_size": N_FF, "moe_shared_expert_intermediate_size": N_FF,
                   "mlp_hidden_act": "relu2", "moe_latent_size": EXPERT_LATENT, **SIZES},
        "tensors": nemotron, "shown": "recurrent   2 layers of 4 heads (2 key) of 6 x 10"},
    "falcon-h1": {
        "config": {"model_type": "falcon_h1", "num_hidden_layers": 3, "intermediate_size": N_FF, "mamba_d_ssm": INNER,
                   "attention_in_multiplier": 0.9, "key_multiplier": 0.7, "ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 0.7],
                   "mlp_multipliers": [0.8, 1.3], "lm_head_multiplier": 0.9, "mamba_rms_norm": True, **SCAN, **SIZES},
        "tensors": falcon, "shown": "recurrent   3 layers of 4 heads (2 key) of 6 x 10"},
    "mamba2": {
        "config": {"model_type": "mamba2", "num_heads": SCAN_HEADS, "head_dim": SCAN_DIM, "n_groups": GROUPS,
                   "time_step_limit": [0.0, float("inf")], **PURE},
        "tensors": lambda: pure(MAMBA), "shown": "recurrent   3 layers of 4 heads (2 key) of 6 x 10"},
    "jamba": {
        "config": {"model_type": "jamba", "num_hidden_layers": 4, "intermediate_size": N_FF, "num_experts": 3, "num_experts_per_tok": 2,
                   "attn_layer_period": 4, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 0,
                   "mamba_d_state": STATE, "mamba_dt_rank": RANK, **SIZES},
        "tensors": jamba, "shown": f"recurrent   3 layers of a selective scan, {STATE} x {WIDE}"},
    "kimi-linear": {
        "config": {"model_type": "kimi_linear", "num_hidden_layers": 4, "intermediate_size": N_FF, "moe_intermediate_size": N_FF,
                   "num_experts": 4, "num_experts_per_token": 2, "kv_lora_rank": LATENT, "q_lora_rank": None, "qk_nope_head_dim": PLAIN,
                   "qk_rope_head_dim": SHARED, "v_head_dim": VALUE, "mla_use_nope": True, "rope_scaling": None,
                   "moe_router_activation_func": "sigmoid", "linear_attn_config": {
                       "full_attn_layers": [3], "kda_layers": [1, 2, 4], "num_heads": KDA_HEADS, "head_dim": KDA_DIM,
                       "short_conv_kernel_size": 4}, **{**SIZES, "num_key_value_heads": HEADS, "tie_word_embeddings": True}},
        "tensors": kimi, "shown": "recurrent   3 layers of 3 heads (3 key) of 10 x 10"},
    "glm-dsa": {
        "config": {"model_type": "glm_moe_dsa", "num_hidden_layers": 3, "intermediate_size": N_FF, "kv_lora_rank": LATENT, "q_lora_rank": QUERY,
                   "qk_nope_head_dim": PLAIN, "qk_rope_head_dim": SHARED, "v_head_dim": VALUE, "index_n_heads": INDEX_HEADS,
                   "index_head_dim": INDEX_DIM, "index_topk": 20, "indexer_types": ["full", "full", "shared"], "first_k_dense_replace": 3,
                   "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": N_FF,
                   **{**SIZES, "num_key_value_heads": HEADS}},
        "tensors": dsa, "shown": "family      glm-dsa"},
    "minimax-m3": {
        "config": {"model_type": "minimax_m3_vl", "vision_config": {}, "text_config": {
            "model_type": "minimax_m3_vl_text", "num_hidden_layers": 3, "head_dim": WIDTH // HEADS, "intermediate_size": N_FF,
            "dense_intermediate_size": N_FF, "shared_intermediate_size": N_FF, "n_shared_experts": 1, "num_local_experts": 3,
            "num_experts_per_tok": 2, "partial_rotary_factor": 0.5, "hidden_act": "swigluoai", "moe_layer_freq": [0, 1, 1],
            "sparse_attention_config": {
                "use_sparse_attention": True, "sparse_num_index_heads": KV_HEADS, "sparse_index_dim": INDEX_DIM, "sparse_topk_blocks": 3,
                "sparse_block_size": 7, "sparse_local_block": 1, "sparse_init_block": 0, "sparse_score_type": "max",
                "sparse_attention_freq": [0, 1, 1]}, **SIZES}},
        "tensors": minimax_m3, "shown": "family      minimax-m3"},
    "qwen4_exp": {
        "config": {"model_type": "qwen4_exp_text", "num_hidden_layers": 4, "head_dim": WIDTH // HEADS, "linear_num_key_heads": 2,
                   "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 3,
                   "num_experts_per_tok": 2, "moe_intermediate_size": N_FF, "shared_expert_intermediate_size": N_FF, "hc_count": STREAMS,
                   "hc_lowrank": STREAM_RANK, "ple_layer_ids": [2], "ple_embed_dim": NGRAM_WIDTH, "ple_conv_kernel_size": 3,
                   "ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 11, "eos_token_id": 2, "split_ngram_parts": 3,
                   "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 2 * WIDTH // HEADS, "indexer_budget": 20,
                   "indexer_compress_ratio": 5, "partial_rotary_factor": 0.5, **SIZES},
        "tensors": qwen4_exp, "shown": "recurrent   3 layers of 4 heads (2 key) of 8 x 8"},
    "mamba": {
        "config": {"model_type": "mamba", "time_step_rank": RANK, **PURE},
        "tensors": lambda: pure(SELECTIVE), "shown": "3 layers, width 64, no attention"},
    "falcon-mamba": {
        "config": {"model_type": "falcon_mamba", "time_step_rank": RANK, "mixer_rms_eps": 0.01, "expand": 16, "intermediate_size": WIDE, **PURE},
        "tensors": lambda: pure(SELECTIVE), "shown": "family      mamba"},
}


def write(test, name):
    folder = test.path(name)
    tiny_model.write_folder(folder, {"config.json": FAMILIES[name]["config"]}, listed=list(FAMILIES[name]["tensors"]()))
    return folder
