"""A llama of 60,000 seeded random weights as a GGUF file: its answers are meaningless but reproducible.

Written here rather than by the engine's own test code: the end-to-end tests know nothing but the command line and
the file formats. Format: GGUF version 3 (github.com/ggml-org/ggml, docs/gguf.md). The matrices are Q8_0: blocks of 32
signed bytes behind a half-precision scale.
"""
import functools
import json
import math
import os
import random
import struct

N_CONTEXT, WIDTH, N_LAYERS, N_HEADS, N_KV_HEADS, N_FF = 256, 64, 2, 4, 2, 96
MERGES = ["t h", "th e", "e r", "Ġ a", "Ġ the", "i n"]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, Q8_0 = 0, 8
NORMAL, CONTROL = 1, 3


def byte_alphabet():
    """The printable character that stands for each byte in byte-level BPE (Radford et al. 2019)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)]


TOKENS = byte_alphabet() + [merge.replace(" ", "") for merge in MERGES] + SPECIALS
N_VOCAB = len(TOKENS)
END_OF_TEXT = TOKENS.index("<|endoftext|>")
IM_END = TOKENS.index("<|im_end|>")


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == STRING:
        return struct.pack("<I", kind) + string(content)
    if kind == FLOAT32:
        return struct.pack("<If", kind, content)
    return struct.pack("<I?" if kind == BOOL else "<II", kind, content)


def array(kind, items):
    body = b"".join(string(item) if kind == STRING else struct.pack("<i", item) for item in items)
    return struct.pack("<IIQ", ARRAY, kind, len(items)) + body


def keys():
    return {
        "general.architecture": value(STRING, "llama"),
        "general.name": value(STRING, "tiny"),
        "llama.context_length": value(UINT32, N_CONTEXT),
        "llama.embedding_length": value(UINT32, WIDTH),
        "llama.block_count": value(UINT32, N_LAYERS),
        "llama.feed_forward_length": value(UINT32, N_FF),
        "llama.attention.head_count": value(UINT32, N_HEADS),
        "llama.attention.head_count_kv": value(UINT32, N_KV_HEADS),
        "llama.attention.layer_norm_rms_epsilon": value(FLOAT32, 1e-5),
        "llama.rope.freq_base": value(FLOAT32, 10000.0),
        "llama.rope.dimension_count": value(UINT32, WIDTH // N_HEADS),
        "llama.vocab_size": value(UINT32, N_VOCAB),
        "tokenizer.ggml.model": value(STRING, "gpt2"),
        "tokenizer.ggml.pre": value(STRING, "gpt-2"),
        "tokenizer.ggml.tokens": array(STRING, TOKENS),
        "tokenizer.ggml.token_type": array(INT32, [NORMAL] * (N_VOCAB - 3) + [CONTROL] * 3),
        "tokenizer.ggml.merges": array(STRING, MERGES),
        "tokenizer.ggml.bos_token_id": value(UINT32, END_OF_TEXT),
        "tokenizer.ggml.eos_token_id": value(UINT32, IM_END),
        "tokenizer.chat_template": value(STRING, TEMPLATE),
    }


def tensors(n_rows):
    """(name, rows, columns, type)"""
    kv_width = WIDTH // N_HEADS * N_KV_HEADS
    yield "token_embd.weight", n_rows, WIDTH, Q8_0
    yield "output_norm.weight", 1, WIDTH, F32
    yield "output.weight", n_rows, WIDTH, Q8_0
    for layer in range(N_LAYERS):
        for name, rows, columns, kind in (
                ("attn_norm", 1, WIDTH, F32), ("ffn_norm", 1, WIDTH, F32),
                ("attn_q", WIDTH, WIDTH, Q8_0), ("attn_k", kv_width, WIDTH, Q8_0), ("attn_v", kv_width, WIDTH, Q8_0),
                ("attn_output", WIDTH, WIDTH, Q8_0), ("ffn_gate", N_FF, WIDTH, Q8_0), ("ffn_up", N_FF, WIDTH, Q8_0),
                ("ffn_down", WIDTH, N_FF, Q8_0)):
            yield f"blk.{layer}.{name}.weight", rows, columns, kind


def weights(rng, rows, columns, kind):
    if kind == F32:
        return struct.pack(f"<{columns}f", *(1 + rng.uniform(-0.2, 0.2) for _ in range(columns)))
    scale = 2 / 73 / columns ** 0.5  # uniform bytes have a deviation of 73: gain 2
    return b"".join(struct.pack("<e32b", scale, *(rng.randint(-127, 127) for _ in range(32)))
                    for _ in range(rows * columns // 32))


def more_specials(names):
    """Keys of a vocabulary with further special tokens; the model needs as many rows."""
    n = len(names)
    return {"tokenizer.ggml.tokens": array(STRING, TOKENS + names),
            "tokenizer.ggml.token_type": array(INT32, [NORMAL] * (N_VOCAB - 3) + [CONTROL] * (3 + n))}


def drawn_tensors(seed, n_rows):
    """[(name, dimensions, type, offset)], bytes"""
    rng, listed, data = random.Random(seed), [], b""
    for name, rows, columns, kind in tensors(n_rows):
        listed.append((name, (columns,) if rows == 1 else (columns, rows), kind, len(data)))
        data += weights(rng, rows, columns, kind)
        data += bytes(-len(data) % 32)
    return listed, data


cached_tensors = functools.cache(drawn_tensors)  # drawing takes 0.1 s, and each case has a model


def write(path, seed=1, n_rows=N_VOCAB, more_keys=None, drawn=cached_tensors):
    """n_rows: of the embedding and the output matrix; more than N_VOCAB are padding. more_keys: beside keys(), or instead."""
    listed, data = drawn(seed, n_rows)
    pairs = {**keys(), "llama.vocab_size": value(UINT32, n_rows), **(more_keys or {})}
    head = b"".join(string(key) + content for key, content in pairs.items())
    for name, dimensions, kind, offset in listed:
        head += string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(pairs)) + head
    with open(path, "wb") as file:
        file.write(start + bytes(-len(start) % 32) + data)


# ---- the same model as a Hugging Face folder ----

FOLDER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
                "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
                "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
                "ffn_down": "mlp.down_proj"}


def folder_name(name):
    parts = name.removesuffix(".weight").split(".")
    layer = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    return f"{layer}{FOLDER_NAMES[parts[-1]]}.weight"


def folder_tensors():
    """[(name, shape)]"""
    return [(folder_name(name), [columns] if rows == 1 else [rows, columns]) for name, rows, columns, _ in tensors(N_VOCAB)]


def write_tensors(path, listed, seed=1):
    """model.safetensors with random tensors [(name, shape)]; vectors are near 1."""
    rng = random.Random(seed)
    header, data = {}, b""
    for name, shape in listed:
        mean, width = (1, 0.2) if len(shape) == 1 else (0, 3 / shape[-1] ** 0.5)
        n = math.prod(shape)
        values = struct.pack(f"<{n}f", *(mean + rng.uniform(-width, width) for _ in range(n)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    head = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


def write_folder(path, files=None, seed=1, listed=None):
    """files: {name: object}, written as JSON, or {name: text}; None leaves out one of those that there are otherwise. listed: the
    tensors [(name, shape)], instead of a llama's."""
    os.makedirs(path)
    write_tensors(path, listed or folder_tensors(), seed)
    added = [{"id": TOKENS.index(token), "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False} for token in SPECIALS]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    usual = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "vocab_size": N_VOCAB,
                        "num_hidden_layers": N_LAYERS, "num_attention_heads": N_HEADS, "num_key_value_heads": N_KV_HEADS,
                        "intermediate_size": N_FF, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": N_CONTEXT,
                        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": END_OF_TEXT, "eos_token_id": IM_END},
        "tokenizer.json": {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": byte_level,
                           "post_processor": byte_level, "decoder": byte_level,
                           "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(TOKENS[:-len(SPECIALS)])},
                                     "merges": MERGES}},
        "tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>",
                                  "chat_template": TEMPLATE},
        **(files or {})}
    for name, content in usual.items():
        if content is not None:
            with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
