"""Small folders of families with recurrent layers: config.json, tensors and their shapes."""
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


FAMILIES = {
    "lfm2": {
        "config": {"model_type": "lfm2", "num_hidden_layers": 4, "intermediate_size": N_FF, "block_auto_adjust_ff_dim": False,
                   "full_attn_idxs": [1], "norm_eps": 1e-5, **SIZES},
        "tensors": lfm2, "shown": "recurrent   3 layers of short convolutions, 3 taps"},
}


def write(test, name):
    folder = test.path(name)
    tiny_model.write_folder(folder, {"config.json": FAMILIES[name]["config"]}, listed=list(FAMILIES[name]["tensors"]()))
    return folder
