// config.json of Hugging Face folders: its settings, their defaults, and refused ones.
#include "engine/model/folder/folder_parts.h"
#include "engine/model/model.h"
#include "tests/support/cases.h"

#include <math.h>

static void config_to_keys(const char *text, struct folder_config *config, struct gguf_writer *keys,
                           struct arena *arena)
{
    struct value json;
    struct error error;
    assert_ok(json_decode(text_from_string(text), arena, &json, &error), &error);
    assert_ok(folder_read_config(config, &json, keys, arena, &error), &error);
}

#define SIZES                                                                                                \
    "\"hidden_size\":2048,\"num_hidden_layers\":2,\"num_attention_heads\":32,\"max_position_embeddings\":"   \
    "131072"
#define QWEN4                                                                                                \
    SIZES ",\"indexer_n_heads\":4,\"indexer_kv_heads\":1,\"indexer_head_dim\":128,\"indexer_budget\":2048,"  \
          "\"indexer_compress_ratio\":8"
#define KIMI                                                                                                 \
    "{\"model_type\":\"kimi_linear\",\"hidden_size\":2048,\"num_hidden_layers\":2,"                          \
    "\"num_attention_heads\":32,\"linear_attn_config\":{"
#define FALCON_MAMBA                                                                                         \
    "{\"model_type\":\"falcon_mamba\",\"hidden_size\":100,\"num_hidden_layers\":2,\"expand\":16"
#define GEMMA4_SIZES "\"hidden_size\":1536,\"num_hidden_layers\":7,\"intermediate_size\":6144"

TEST(llama_3_s_scaling_becomes_divisors)
{
    struct folder_config config;
    struct gguf_writer keys = {0};
    struct arena arena = {0};
    config_to_keys(
        "{\"model_type\":\"llama\"," SIZES ",\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":32.0,"
        "\"high_freq_factor\":4.0,\"low_freq_factor\":1.0,\"original_max_position_embeddings\":8192,"
        "\"rope_type\":\"llama3\"}}",
        &config, &keys, &arena);
    assert_int_equal(config.n_divisors, 32);
    for (int i = 0; i < 32; i++) {
        double frequency = pow(500000.0, -2.0 * i / 64.0), wavelength = 2.0 * acos(-1.0) / frequency;
        double smooth = (8192.0 / wavelength - 1.0) / 3.0, scaled = frequency;
        if (wavelength > 8192.0)
            scaled = frequency / 32.0;
        else if (wavelength >= 2048.0)
            scaled = (1.0 - smooth) * frequency / 32.0 + smooth * frequency;
        assert_true(fabs((double)config.divisors[0][i] - frequency / scaled) < 1e-5 * frequency / scaled);
    }
    assert_true(config.divisors[0][0] == 1.0f && config.divisors[0][31] == 32.0f);
    gguf_writer_finish(&keys);
    arena_finish(&arena);
}

static double number_key(const struct gguf_writer *keys, const char *name)
{
    // A key-value is stored as: size of the name, the name, the kind, the value.
    uint64_t size = strlen(name);
    for (size_t i = 8; i + size + 8 <= keys->keys.size; i++)
        if (memcmp(keys->keys.data + i - 8, &size, 8) == 0 && memcmp(keys->keys.data + i, name, size) == 0) {
            uint32_t kind, bits;
            float number;
            memcpy(&kind, keys->keys.data + i + size, 4);
            memcpy(&bits, keys->keys.data + i + size + 4, 4);
            memcpy(&number, &bits, 4);
            return kind == GGUF_F32 ? (double)number : (double)bits;
        }
    return -1.0;
}

// The base of a sequence as long as the context becomes: transformers, _compute_dynamic_ntk_parameters.
TEST(dynamic_scaling_is_another_base_for_sequences_beyond_the_trained_context)
{
    struct folder_config config;
    struct gguf_writer keys = {0};
    struct arena arena = {0};
    config_to_keys("{\"model_type\":\"llama\"," SIZES
                   ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.0}}",
                   &config, &keys, &arena);
    assert_int_equal(config.n_divisors, 32);
    double base = 10000.0 * pow(2.0 * 2.0 - 1.0, 64.0 / 62.0);
    for (int i = 0; i < 32; i++) {
        double divisor = pow(10000.0, -2.0 * i / 64.0) / pow(base, -2.0 * i / 64.0);
        assert_true(config.divisors[1][i] == 1.0f);
        assert_true(fabs((double)config.divisors[2][i] - divisor) < 1e-6 * divisor);
    }
    assert_true(number_key(&keys, "llama.context_length") == 262144.0);
    assert_true(number_key(&keys, "llama.rope.scaling.original_context_length") == 131072.0);
    assert_true(number_key(&keys, "llama.rope.scaling.attn_factor") == 1.0);
    gguf_writer_finish(&keys);
    arena_finish(&arena);
}

// Settings that config.json leaves out are those of the model_type's configuration class, not anybody's
// guess.
TEST(settings_left_out_are_the_model_type_s)
{
    static const struct {
        const char *json, *key;
        double value;
    } left_out[] = {
        {"{\"model_type\":\"gemma3\",\"vision_config\":{},\"text_config\":{\"hidden_size\":2560,"
         "\"intermediate_size\":10240,\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,"
         "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},\"sliding_window\":1024}}",
         "gemma3.attention.key_length", 256},
        {"{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34}}",
         "gemma3.rope.freq_base", 1e6},
        {"{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34}}",
         "gemma3.attention.head_count_kv", 4},
        {"{\"model_type\":\"mistral3\",\"text_config\":{" SIZES ",\"rope_theta\":1e9}}",
         "llama.rope.freq_base", 1e9},
        {"{\"model_type\":\"gemma4\",\"text_config\":{" GEMMA4_SIZES "}}", "gemma4.attention.key_length",
         512},
        {"{\"model_type\":\"gemma4\",\"text_config\":{" GEMMA4_SIZES "}}", "gemma4.attention.key_length_swa",
         256},
        {"{\"model_type\":\"gemma4\",\"text_config\":{" GEMMA4_SIZES "}}",
         "gemma4.embedding_length_per_layer_input", 256},
        {"{\"model_type\":\"gemma4\",\"text_config\":{" GEMMA4_SIZES "}}", "gemma4.rope.freq_base_swa", 1e4},
        {"{\"model_type\":\"gemma4\",\"text_config\":{" GEMMA4_SIZES
         ",\"use_bidirectional_attention\":\"vision\"}}",
         "gemma4.embedding_length_per_layer_input", 256},
        {"{\"model_type\":\"gemma4_unified\",\"text_config\":{" GEMMA4_SIZES "}}",
         "gemma4.embedding_length_per_layer_input", 0},
        {"{\"model_type\":\"gemma3n\",\"text_config\":{" SIZES ",\"num_kv_shared_layers\":0}}",
         "gemma3n.altup.num_inputs", 4},
        {"{\"model_type\":\"llava\",\"text_config\":{\"model_type\":\"llama\"}}", "llama.feed_forward_length",
         11008},
        {"{\"model_type\":\"llava_next\",\"text_config\":{\"model_type\":\"mistral\"}}",
         "llama.feed_forward_length", 14336},
        {"{\"model_type\":\"qwen2_5_vl\"," SIZES "}", "qwen2vl.attention.head_count_kv", 8},
        {"{\"model_type\":\"apertus1p5\",\"text_config\":{" SIZES "}}", "apertus.rope.freq_base", 12000000},
        {"{\"model_type\":\"bitnet\"," SIZES "}", "bitnet.attention.head_count_kv", 5},
        {"{\"model_type\":\"bailing_moe\"," SIZES ",\"moe_intermediate_size\":96}", "bailingmoe.expert_count",
         16},
        {"{\"model_type\":\"bailing_moe_v2\"," SIZES ",\"score_function\":\"sigmoid\"}",
         "bailingmoe2.expert_count", 256},
        {"{\"model_type\":\"modernbert-decoder\"," SIZES "}", "modernbert-decoder.attention.sliding_window",
         64},
        {"{\"model_type\":\"modernbert-decoder\"," SIZES ",\"local_attention\":33,\"sliding_window\":16}",
         "modernbert-decoder.attention.sliding_window", 16},
        {"{\"model_type\":\"lara_mini\"," SIZES ",\"layer_types\":[\"linear_attention\",\"full_attention\"]}",
         "lara-mini.ssm.inner_size", 2048},
        {"{\"model_type\":\"embedding_gemma2\",\"text_config\":{}}",
         "gemma-embedding2.attention.sliding_window", 1024},
        {"{\"model_type\":\"embedding_gemma2\",\"text_config\":{}}", "gemma-embedding2.attention.key_length",
         512},
        {"{\"model_type\":\"embedding_gemma2_text\"}", "gemma-embedding2.embedding_length_per_layer_input",
         512},
        {"{\"model_type\":\"nanochat\"," SIZES "}", "nanochat.final_logit_softcapping", 15},
        {"{\"model_type\":\"olmo\"," SIZES "}", "olmo.attention.layer_norm_epsilon", (double)1e-5f},
        {"{\"model_type\":\"nanochat\"," SIZES ",\"final_logit_softcapping\":null}",
         "nanochat.final_logit_softcapping", 0},
        {"{\"model_type\":\"gemma2\"," SIZES ",\"attn_logit_softcapping\":null}",
         "gemma2.attn_logit_softcapping", 0},
        {"{\"model_type\":\"ernie4_5_vl_moe\",\"text_config\":{" SIZES ",\"moe_intermediate_size\":[24,16]}}",
         "ernie4_5-moe.expert_feed_forward_length", 24},
        {"{\"model_type\":\"fast_vlm\",\"text_config\":{" SIZES "}}", "qwen2.context_length", 131072},
        {"{\"model_type\":\"glm_ocr\",\"text_config\":{" SIZES "}}", "glm4.attention.head_count_kv", 8},
        {"{\"model_type\":\"granite4_vision\",\"text_config\":{" SIZES "}}", "granite.residual_scale", 1},
        {"{\"model_type\":\"granite_docling\",\"text_config\":{" SIZES "}}", "granite.residual_scale",
         (double)0.263f},
        {"{\"model_type\":\"hunyuan_vl\"," SIZES ",\"rope_scaling\":{\"type\":\"xdrope\",\"alpha\":1}}",
         "hunyuan-dense.rope.freq_base", 10000},
        {"{\"model_type\":\"lfm3_vl\",\"text_config\":{" SIZES ",\"layer_types\":[\"conv\",\"conv\"]}}",
         "lfm3.block_count", 2},
        {"{\"model_type\":\"lighton_ocr\",\"text_config\":{" SIZES "}}", "qwen3.attention.key_length", 128},
        {"{\"model_type\":\"ovis2\",\"text_config\":{" SIZES "}}", "qwen2.context_length", 131072},
        {"{\"model_type\":\"paddleocr_vl\"," SIZES "}", "ernie4_5.rope.freq_base", 500000},
        {"{\"model_type\":\"perception_lm\",\"text_config\":{" SIZES "}}", "llama.context_length", 131072},
        {"{\"model_type\":\"qianfan_ocr\",\"text_config\":{" SIZES "}}", "qwen3.attention.key_length", 128},
        {"{\"model_type\":\"qwen2_5_omni\",\"thinker_config\":{\"text_config\":{" SIZES "}}}",
         "qwen2vl.attention.head_count_kv", 4},
        {"{\"model_type\":\"mimo_v2_flash\"," SIZES "}", "mimo2.attention.sliding_window", 129},
        {"{\"model_type\":\"mimo_v2_flash\"," SIZES ",\"sliding_window_size\":64}",
         "mimo2.attention.sliding_window", 65},
        {"{\"model_type\":\"mimo_v2_flash\"," SIZES "}", "mimo2.rope.dimension_count_swa", 64},
        {"{\"model_type\":\"mimo_v2_flash\"," SIZES "}", "mimo2.rope.freq_base_swa", 1e4},
        {"{\"model_type\":\"step3p7\",\"text_config\":{" SIZES ",\"layer_types\":[\"full_attention\","
         "\"sliding_attention\",\"full_attention\"],\"rope_theta\":[5e6,3e4,5e6],"
         "\"partial_rotary_factors\":[0.5,1.0,0.5]}}",
         "step35.rope.freq_base_swa", 3e4},
        {"{\"model_type\":\"step3p7\",\"text_config\":{" SIZES ",\"layer_types\":[\"full_attention\","
         "\"sliding_attention\",\"full_attention\"],\"rope_theta\":[5e6,3e4,5e6],"
         "\"partial_rotary_factors\":[0.5,1.0,0.5]}}",
         "step35.rope.freq_base", 5e6},
        {"{\"model_type\":\"laguna\"," SIZES "}", "laguna.rope.dimension_count", 64},
        {"{\"model_type\":\"laguna\"," SIZES "}", "laguna.rope.dimension_count_swa", 128},
        {"{\"model_type\":\"deepseek_v32\"," SIZES "}", "deepseek32.attention.indexer.top_k", 2048},
        {"{\"model_type\":\"glm_moe_dsa\"," SIZES "}", "glm-dsa.attention.indexer.head_count", 32},
        {"{\"model_type\":\"minimax_m3_vl_text\"," SIZES "}", "minimax-m3.attention.indexer.top_k", 16},
        {"{\"model_type\":\"qwen4_exp\",\"text_config\":{" QWEN4 "}}", "qwen4_exp.hyper_connection.rank",
         320},
        {"{\"model_type\":\"qwen4_exp_text\"," QWEN4 ",\"ple_layer_ids\":[1],\"eos_token_id\":[9,8]}",
         "qwen4_exp.ngram.end_token_id", 9},
        {"{\"model_type\":\"qwen4_exp_text\"," QWEN4 ",\"ple_layer_ids\":[1],\"eos_token_id\":9}",
         "qwen4_exp.ngram.head_length", 128},
        {"{\"model_type\":\"minimax_m3_vl\",\"text_config\":{" SIZES ",\"rotary_dim\":64,"
         "\"partial_rotary_factor\":0.5,\"sparse_attention_config\":{\"sparse_block_size\":64}}}",
         "minimax-m3.attention.indexer.block_size", 64},
        {"{\"model_type\":\"minimax_m3_vl_text\"," SIZES ",\"partial_rotary_factor\":0.5}",
         "minimax-m3.rope.dimension_count", 64},
        {"{\"model_type\":\"cohere2_moe\"," SIZES ",\"first_k_dense_replace\":1}",
         "cohere2moe.leading_dense_block_count", 1},
        {"{\"model_type\":\"cohere2_moe\"," SIZES
         ",\"intermediate_size\":768,\"prefix_dense_intermediate_size\":3072}",
         "cohere2moe.expert_feed_forward_length", 768},
        {"{\"model_type\":\"cohere2_moe\"," SIZES "}", "cohere2moe.expert_gating_func", 1},
        {"{\"model_type\":\"olmo_hybrid\"," SIZES "}", "olmo_hybrid.ssm.state_size", 48},
        {"{\"model_type\":\"olmo_hybrid\"," SIZES "}", "olmo_hybrid.ssm.inner_size", 3072},
        {"{\"model_type\":\"hy_v3\"," SIZES ",\"mlp_layer_types\":[\"dense\",\"dense\"]}",
         "hy_v3.leading_dense_block_count", 2},
        {"{\"model_type\":\"mistral4\"," SIZES ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}}",
         "mistral4.rope.dimension_count", 64},
        {"{\"model_type\":\"qwen3\"," SIZES "}", "qwen3.attention.key_length", 128},
        {"{\"model_type\":\"phi\"," SIZES "}", "phi2.rope.dimension_count", 32},
        {"{\"model_type\":\"granite\"," SIZES "}", "granite.attention.scale", 1},
        {"{\"model_type\":\"granite_swa\"," SIZES "}", "granite-swa.attention.sliding_window", 128},
        {"{\"model_type\":\"granite_swa\"," SIZES ",\"layer_rope_theta\":[5000,0]}",
         "granite-swa.rope.freq_base", 5000},
        {"{\"model_type\":\"granite_swa\"," SIZES ",\"layer_rope_theta\":[5000,300.0]}",
         "granite-swa.rope.freq_base_swa", 300},
        {"{\"model_type\":\"granitemoe_swa\"," SIZES ",\"layer_rope_theta\":[0,300.0]}",
         "granite-swa.rope.freq_base", 300},
        {"{\"model_type\":\"muse_glimmer\",\"text_config\":{" SIZES "}}",
         "muse-glimmer.attention.sliding_window", 2048},
        {"{\"model_type\":\"muse_glimmer_text\"," SIZES ",\"qk_scale_factor\":8,\"head_dim\":64}",
         "muse-glimmer.attention.scale", 1},
        {"{\"model_type\":\"muse_glimmer_text\"," SIZES "}", "muse-glimmer.attention.post_norm_epsilon",
         (double)1e-8f},
        {"{\"model_type\":\"ultrabert\"," SIZES "}", "ultrabert.attention.sliding_window", 256},
        {"{\"model_type\":\"ultrabert\"," SIZES "}", "ultrabert.rope.freq_base", 2560000},
        {"{\"model_type\":\"ultrabert\"," SIZES "}", "ultrabert.rope.freq_base_swa", 10000},
        {"{\"model_type\":\"ultrabert\"," SIZES ",\"attention_windows\":[64,0],\"rope_theta\":[500,9000]}",
         "ultrabert.attention.sliding_window", 128},
        {"{\"model_type\":\"ultrabert\"," SIZES ",\"attention_windows\":[64,null],\"rope_theta\":[500,9000]}",
         "ultrabert.rope.freq_base", 9000},
        {"{\"model_type\":\"ultrabert\"," SIZES ",\"attention_windows\":[64,0],\"rope_theta\":[500,9000]}",
         "ultrabert.rope.freq_base_swa", 500},
        {"{\"model_type\":\"gte\"," SIZES "}", "gte.rope.freq_base", 160000},
        {"{\"model_type\":\"jina_embeddings_v3\"," SIZES "}", "jina-bert-v3.rope.freq_base", 20000},
        {"{\"model_type\":\"nemotron_h\"," SIZES ",\"hybrid_override_pattern\":\"M*\",\"time_step_min\":0.5}",
         "nemotron_h.ssm.time_step_min", 0.5},
        {"{\"model_type\":\"nemotron_h\"," SIZES ",\"layers_block_type\":[\"moe\",\"attention\"]}",
         "nemotron_h_moe.expert_count", 8},
        {"{\"model_type\":\"jamba\"," SIZES "}", "jamba.ssm.time_step_rank", 128},
        {KIMI "\"kda_layers\":[1],\"full_attn_layers\":[2],\"num_heads\":3,\"head_dim\":7}}",
         "kimi-linear.kda.head_count", 3},
        {KIMI "\"kda_layers\":[1],\"full_attn_layers\":[2],\"num_heads\":3,\"head_dim\":7}}",
         "kimi-linear.kda.head_dim", 7},
        {KIMI "}}", "kimi-linear.ssm.conv_kernel", 4},
        {KIMI "}}", "kimi-linear.expert_gating_func", 2},
        {KIMI "},\"num_expert_group\":2,\"model_max_length\":99}", "kimi-linear.expert_group_count", 2},
        {KIMI "},\"num_expert_group\":2,\"model_max_length\":99}", "kimi-linear.context_length", 99},
        {KIMI "},\"num_experts_per_token\":3}", "kimi-linear.expert_used_count", 3},
        {"{\"model_type\":\"mamba\",\"hidden_size\":100,\"num_hidden_layers\":2}", "mamba.ssm.time_step_rank",
         7},
        {"{\"model_type\":\"mamba\",\"hidden_size\":100,\"num_hidden_layers\":2}",
         "mamba.attention.head_count", 0},
        {FALCON_MAMBA "}", "mamba.ssm.dt_b_c_rms_epsilon", (double)1e-6f},
        {FALCON_MAMBA ",\"mixer_rms_eps\":0.5}", "mamba.ssm.dt_b_c_rms_epsilon", 0.5},
        {FALCON_MAMBA "}", "mamba.ssm.inner_size", 1600},
        {FALCON_MAMBA ",\"intermediate_size\":80}", "mamba.ssm.inner_size", 80},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"block_ff_dim\":12288}", "lfm2.feed_forward_length", 8192},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"block_ff_dim\":100,\"block_auto_adjust_ff_dim\":false}",
         "lfm2.feed_forward_length", 100},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"layer_types\":[\"mamba\",\"attention\"]}",
         "granitehybrid.ssm.inner_size", 4096},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"time_step_limit\":[0.25,4]}",
         "granitehybrid.ssm.time_step_max", 4},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES
         ",\"num_local_experts\":0,\"shared_intermediate_size\":48}",
         "granitehybrid.feed_forward_length", 48},
        {"{\"model_type\":\"gpt_oss\"," SIZES "}", "gpt-oss.rope.scaling.factor", 32},
        {"{\"model_type\":\"deepseek_v3\"," SIZES "}", "deepseek2.expert_gating_func", 2},
        {"{\"model_type\":\"deepseek_v2\"," SIZES "}", "deepseek2.attention.key_length", 192},
        {"{\"model_type\":\"exaone4\"," SIZES "}", "exaone4.attention.sliding_window", 4096},
        {"{\"model_type\":\"exaone4\"," SIZES ",\"sliding_window\":null}", "exaone4.attention.sliding_window",
         0},
        {"{\"model_type\":\"hunyuan_v1_moe\"," SIZES ",\"moe_topk\":[3,3],\"num_experts\":4}",
         "hunyuan-moe.expert_used_count", 3},
        {"{\"model_type\":\"hunyuan_v1_dense\"," SIZES
         ",\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":1000.0,\"factor\":1.0}}",
         "hunyuan-dense.context_length", 131072},
        {"{\"model_type\":\"minicpm3\"," SIZES "}", "minicpm3.logit_scale", 8},
        {"{\"model_type\":\"minicpm3\"," SIZES "}", "minicpm3.attention.value_length", 64},
        {"{\"model_type\":\"minimax_m2\"," SIZES ",\"rotary_dim\":32}", "minimax-m2.rope.dimension_count",
         32},
        {"{\"model_type\":\"ernie4_5_moe\"," SIZES ",\"moe_layer_end_index\":1}",
         "ernie4_5-moe.leading_dense_block_count", 1},
        {"{\"model_type\":\"llama4\",\"text_config\":{" SIZES ",\"intermediate_size\":512}}",
         "llama4.expert_feed_forward_length", 512},
        {"{\"model_type\":\"llama4_text\"," SIZES ",\"attn_temperature_tuning\":false}",
         "llama4.attention.temperature_length", MODEL_CONTEXT_MAX},
        {"{\"model_type\":\"afmoe\"," SIZES ",\"mup_enabled\":true}", "afmoe.embedding_scale",
         (double)45.2548339959f},
        {"{\"model_type\":\"qwen3_vl\",\"vision_config\":{},\"text_config\":{" SIZES
         ",\"rope_scaling\":{\"mrope_section\":[24,20,20],\"rope_type\":\"default\"}}}",
         "qwen3vl.attention.key_length", 128},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_parameters\":{\"rope_type\":\"default\","
         "\"rope_theta\":5e5}}",
         "llama.rope.freq_base", 5e5},
        {"{\"model_type\":\"gemma3_text\"," SIZES
         ",\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":7.0},"
         "\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8.0,\"rope_theta\":9.0}}}",
         "gemma3.rope.scaling.factor", 8},
    };
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        struct folder_config config;
        struct gguf_writer keys = {0};
        struct arena arena = {0};
        config_to_keys(left_out[i].json, &config, &keys, &arena);
        double got = number_key(&keys, left_out[i].key);
        if (got != left_out[i].value)
            fail_msg("%s of %s: expected %g, got %g", left_out[i].key, left_out[i].json, left_out[i].value,
                     got);
        gguf_writer_finish(&keys);
        arena_finish(&arena);
    }
}

static void expect_windows(const char *json, const char *windows)
{
    static const char name[] = "cohere2moe.attention.sliding_window_pattern";
    struct folder_config config;
    struct gguf_writer keys = {0};
    struct arena arena = {0};
    config_to_keys(json, &config, &keys, &arena);
    const char *at = memmem(keys.keys.data, keys.keys.size, name, sizeof name - 1);
    assert_non_null(at);
    at += sizeof name - 1 + 4 + 4 + 8; // after the types of the list and of its items, and the count
    for (size_t i = 0; windows[i]; i++)
        assert_int_equal(at[i], windows[i] == 'w');
    gguf_writer_finish(&keys);
    arena_finish(&arena);
}

// configuration_cohere2_moe.py: windows count the layers from first_k_dense_replace, whatever mlp_layer_types says.
TEST(windows_of_cohere_2_s_mixtures_follow_the_code)
{
#define COHERE                                                                                               \
    "{\"model_type\":\"cohere2_moe\",\"hidden_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":8"
    expect_windows(COHERE "}", "wwwfwwwf");
    expect_windows(COHERE ",\"first_k_dense_replace\":3}", "fffwwwfw");
    expect_windows(COHERE ",\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"sparse\",\"sparse\","
                          "\"sparse\",\"sparse\",\"sparse\"]}",
                   "wwwfwwwf");
#undef COHERE
}

TEST(the_two_forms_of_gelu_are_told_apart)
{
    static const struct {
        const char *json, *key; // the key's value is the text after the last blank; NULL: no key
    } given[] = {
        {"{\"model_type\":\"falcon\"," SIZES ",\"activation\":\"gelu\"}", "falcon.hidden_activation gelu"},
        {"{\"model_type\":\"gpt_neox\"," SIZES ",\"hidden_act\":\"gelu_fast\"}",
         "gptneox.hidden_activation gelu_fast"},
        {"{\"model_type\":\"gemma2\"," SIZES
         ",\"hidden_act\":\"gelu\",\"hidden_activation\":\"gelu_pytorch_tanh\"}",
         "gemma2.hidden_activation gelu_pytorch_tanh"},
        {"{\"model_type\":\"gemma\"," SIZES ",\"hidden_act\":\"gelu\"}", NULL},
        {"{\"model_type\":\"gpt_oss\"," SIZES ",\"hidden_act\":\"silu\"}", NULL},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct folder_config config;
        struct gguf_writer keys = {0};
        struct arena arena = {0};
        config_to_keys(given[i].json, &config, &keys, &arena);
        const char *name = given[i].key ? given[i].key : "hidden_activation", *value = strchr(name, ' ');
        size_t size = value ? (size_t)(value - name) : strlen(name);
        const char *at = memmem(keys.keys.data, keys.keys.size, name, size);
        assert_true((at != NULL) == (given[i].key != NULL));
        if (at) // the kind, 4 bytes, and the size, 8, precede the value
            assert_memory_equal(at + size + 12, value + 1, strlen(value + 1));
        gguf_writer_finish(&keys);
        arena_finish(&arena);
    }
}

#define FACTORS "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"

TEST(settings_that_change_the_computation_are_refused_by_name)
{
    static const struct {
        const char *json, *words;
    } refused[] = {
        {"{}", "model_type"},
        {"{\"model_type\":\"zebra\"}", "\"zebra\" is not known; known are llama mistral"},
        {"{\"model_type\":\"qwen33\"}", "the nearest is qwen3; known are"},
        {"{\"model_type\":\"llama\"}", "0 layers"},
        {"{\"model_type\":\"llama\"," SIZES ",\"hidden_act\":\"relu\"}", "hidden_act"},
        {"{\"model_type\":\"llama\"," SIZES ",\"quantization_config\":{\"quant_method\":\"gptq\"}}",
         "quantization_config"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"mrope\"}}", "rope_scaling"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":7}", "rope_scaling"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":0}}",
         "rope_scaling"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":99999}", "head_dim"},
        {"{\"model_type\":\"llama\"," SIZES ",\"head_dim\":\"x\"}", "head_dim"},
        {"{\"model_type\":\"phi3\"," SIZES ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1]}}",
         "short_factor"},
        {"{\"model_type\":\"qwen2_moe\"," SIZES ",\"decoder_sparse_step\":2}", "decoder_sparse_step"},
        {"{\"model_type\":\"qwen2_moe\"," SIZES ",\"mlp_only_layers\":[1]}", "mlp_only_layers"},
        {"{\"model_type\":\"falcon\"," SIZES ",\"alibi\":true}", "alibi"},
        {"{\"model_type\":\"smollm3\"," SIZES ",\"no_rope_layers\":[1,0]}", "no_rope_layers"},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"layer_types\":[\"conv\"]}", "layer_types"},
        {"{\"model_type\":\"mistral4\"," SIZES ",\"n_group\":2}", "n_group"},
        {"{\"model_type\":\"mistral4\"," SIZES ",\"rope_interleave\":false}", "rope_interleave"},
        {"{\"model_type\":\"olmo_hybrid\"," SIZES ",\"linear_allow_neg_eigval\":false}",
         "linear_allow_neg_eigval"},
        {"{\"model_type\":\"bailing_moe\"," SIZES ",\"score_function\":\"relu\"}", "score_function"},
        {"{\"model_type\":\"modernbert-decoder\"," SIZES ",\"classifier_activation\":\"silu\"}",
         "classifier_activation"},
        {"{\"model_type\":\"lara_mini\"," SIZES "}", "layer_types"},
        {"{\"model_type\":\"bitnet\"," SIZES ",\"hidden_act\":\"gelu\"}", "hidden_act"},
        {"{\"model_type\":\"bailing_moe\"," SIZES ",\"score_function\":\"sigmoid\",\"use_qk_norm\":false}",
         "use_qk_norm"},
        {"{\"model_type\":\"gpt_bigcode\"," SIZES ",\"multi_query\":false}", "multi_query"},
        {"{\"model_type\":\"exaone_moe\"," SIZES ",\"mlp_layer_types\":[\"sparse\",\"dense\"]}",
         "mlp_layer_types"},
        {"{\"model_type\":\"qwen3_moe\"," SIZES ",\"mlp_layer_types\":[\"dense\",\"sparse\"]}",
         "mlp_layer_types"},
        {"{\"model_type\":\"mellum\"," SIZES
         ",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"yarn\"},\"full_attention\":{}}}",
         "rope_parameters"},
        {"{\"model_type\":\"olmo\"," SIZES ",\"clip_qkv\":8.0}", "clip_qkv"},
        {"{\"model_type\":\"llava\"," SIZES "}", "expected an object \"text_config\""},
        {"{\"model_type\":\"jamba\"," SIZES ",\"mamba_expand\":0}", "mamba_expand"},
        {KIMI "\"kda_layers\":[1],\"full_attn_layers\":[1]}}", "linear_attn_config"},
        {KIMI "\"num_heads\":0}}", "num_heads"},
        {KIMI "\"head_dim\":\"x\"}}", "head_dim"},
        {KIMI "},\"moe_router_activation_func\":\"tanh\"}", "scoring_func"},
        {"{\"model_type\":\"falcon_h1\"," SIZES ",\"ssm_multipliers\":[1,1]}", "ssm_multipliers"},
        {"{\"model_type\":\"falcon_h1\"," SIZES ",\"mlp_multipliers\":[1,\"x\"]}", "mlp_multipliers"},
        {"{\"model_type\":\"falcon_h1\"," SIZES ",\"projectors_bias\":true}", "projectors_bias"},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"layer_types\":[\"conv\",\"mlp\"]}", "layer_types"},
        {"{\"model_type\":\"nemotron_h\"," SIZES ",\"hybrid_override_pattern\":\"M?\"}", "layer_types"},
        {"{\"model_type\":\"nemotron_h\"," SIZES ",\"hybrid_override_pattern\":\"M*-\"}", "layer_types"},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"layer_types\":[\"conv\",\"other\"]}", "layer_types"},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"block_multiple_of\":0}", "block_ffn_dim_multiplier"},
        {"{\"model_type\":\"lfm2\"," SIZES ",\"block_ffn_dim_multiplier\":1e9}", "block_ffn_dim_multiplier"},
        {"{\"model_type\":\"llama\"," SIZES ",\"position_embedding_type\":\"nope\"}",
         "position_embedding_type"},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"mamba_n_heads\":3}", "mamba_n_heads"},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"mamba_n_heads\":0}", "mamba_n_heads"},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"mamba_n_groups\":3}", "mamba_n_groups"},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"time_step_limit\":[0.1]}", "time_step_limit"},
        {"{\"model_type\":\"granitemoehybrid\"," SIZES ",\"time_step_limit\":[null,1]}", "time_step_limit"},
        {"{\"model_type\":\"smollm3\"," SIZES ",\"no_rope_layer_interval\":3}", "no_rope_layer_interval"},
        {"{\"model_type\":\"gpt_oss\"," SIZES ",\"swiglu_limit\":5.0}", "swiglu_limit"},
        {"{\"model_type\":\"gpt_oss\"," SIZES ",\"quantization_config\":{\"quant_method\":\"hqq\"}}",
         "quantization_config"},
        {"{\"model_type\":\"gemma3\"," SIZES "}", "text_config"},
        {"{\"model_type\":\"mistral3\",\"quantization_config\":{},\"text_config\":{" SIZES "}}",
         "quantization_config"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES ",\"scoring_func\":\"tanh\"}", "scoring_func"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES ",\"topk_method\":\"greedy\"}", "topk_method"},
        {"{\"model_type\":\"deepseek_v3\"," SIZES ",\"moe_layer_freq\":2}", "moe_layer_freq"},
        {"{\"model_type\":\"ernie4_5_moe\"," SIZES ",\"moe_layer_interval\":2}", "moe_layer_interval"},
        {"{\"model_type\":\"ernie4_5_moe\"," SIZES ",\"moe_layer_end_index\":0}", "moe_layer_end_index"},
        {"{\"model_type\":\"glm4_moe_lite\"," SIZES ",\"mlp_layer_types\":[\"sparse\",\"dense\"]}",
         "mlp_layer_types"},
        {"{\"model_type\":\"glm4_moe_lite\"," SIZES ",\"rope_interleave\":false}", "rope_interleave"},
        {"{\"model_type\":\"hunyuan_v1_moe\"," SIZES ",\"moe_topk\":[1,2]}", "moe_topk"},
        {"{\"model_type\":\"llama4_text\"," SIZES ",\"moe_layers\":[0]}", "moe_layers"},
        {"{\"model_type\":\"llama4_text\"," SIZES ",\"no_rope_layer_interval\":2}", "no_rope_layer_interval"},
        {"{\"model_type\":\"nemotron\"," SIZES ",\"hidden_act\":\"silu\"}", "hidden_act"},
        {"{\"model_type\":\"phimoe\"," SIZES
         ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":" FACTORS ",\"long_factor\":" FACTORS
         ",\"short_mscale\":1.2,\"long_mscale\":1.3}}",
         "long_mscale"},
        {"{\"model_type\":\"llama\"," SIZES ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":0.5}}",
         "rope_scaling"},
        {"{\"model_type\":\"llama\"," SIZES
         ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"truncate\":false}}",
         "rope_scaling"},
        {"{\"model_type\":\"muse_glimmer_text\"," SIZES ",\"layer_rope_theta\":[0]}", "layer_rope_theta"},
        {"{\"model_type\":\"muse_glimmer_text\"," SIZES ",\"layer_rope_theta\":[0,\"x\"]}",
         "layer_rope_theta"},
        {"{\"model_type\":\"granite_swa\"," SIZES ",\"layer_rope_theta\":[5000]}", "layer_rope_theta"},
        {"{\"model_type\":\"granite_swa\"," SIZES ",\"layer_rope_theta\":[5000,-1]}", "layer_rope_theta"},
        {"{\"model_type\":\"granite_swa\"," SIZES ",\"layer_rope_theta\":[5000,\"x\"]}", "layer_rope_theta"},
        {"{\"model_type\":\"granite_swa\"," SIZES
         ",\"layer_types\":[\"full_attention\",\"full_attention\"],\"layer_rope_theta\":[5000,6000]}",
         "layer_rope_theta"},
        {"{\"model_type\":\"granite_swa\"," SIZES ",\"layer_rope_theta\":[5000,6000],"
         "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}}",
         "layer_rope_theta"},
        {"{\"model_type\":\"ultrabert\"," SIZES ",\"attention_windows\":[64,\"x\"]}", "layer_types"},
        {"{\"model_type\":\"new\"," SIZES ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":0.5}}",
         "rope_scaling"},
        {"{\"model_type\":\"new\"," SIZES ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":8,\"mixed_b\":1}}",
         "rope_scaling"},
        {"{\"model_type\":\"gte\"," SIZES ",\"rope_scaling\":{\"type\":\"ntk\",\"factor\":8}}",
         "rope_scaling"},
        {"{\"model_type\":\"mimo_v2_flash\"," SIZES ",\"swa_head_dim\":64}", "swa_head_dim"},
        {"{\"model_type\":\"mimo_v2_flash\"," SIZES ",\"hybrid_layer_pattern\":[0]}", "hybrid_layer_pattern"},
        {"{\"model_type\":\"step3p5\"," SIZES ",\"zero_centered\":false}", "zero_centered"},
        {"{\"model_type\":\"step3p5\"," SIZES ",\"swiglu_limits\":[\"a\",1]}", "swiglu_limits"},
        {"{\"model_type\":\"step3p5\"," SIZES ",\"layer_types\":[\"a\",\"b\"]}", "layer_types"},
        {"{\"model_type\":\"laguna\"," SIZES ",\"num_attention_heads_per_layer\":[32,33]}",
         "layer 1: 33 heads"},
        {"{\"model_type\":\"laguna\"," SIZES ",\"moe_apply_router_weight_on_input\":true}",
         "moe_apply_router_weight_on_input"},
        {"{\"model_type\":\"glm_moe_dsa\"," SIZES ",\"indexer_types\":[\"full\",\"half\"]}", "indexer_types"},
        {"{\"model_type\":\"glm_moe_dsa\"," SIZES ",\"index_topk_pattern\":\"FX\"}", "indexer_types"},
        {"{\"model_type\":\"minimax_m3_vl_text\"," SIZES ",\"layer_types\":[\"full_attention\"]}",
         "layer_types"},
        {"{\"model_type\":\"qwen4_exp_text\"," QWEN4 ",\"output_gate_type\":\"gelu\"}", "output_gate_type"},
        {"{\"model_type\":\"cohere2_moe\"," SIZES ",\"expert_selection_fn\":\"relu\"}",
         "expert_selection_fn"},
        {"{\"model_type\":\"cohere2_moe\"," SIZES ",\"shared_expert_combination_strategy\":\"max\"}",
         "shared_expert_combination_strategy"},
        {"{\"model_type\":\"cohere2_moe\"," SIZES ",\"first_k_dense_replace\":1,"
         "\"prefix_dense_sliding_window_pattern\":2}",
         "prefix_dense_sliding_window_pattern"},
        {"{\"model_type\":\"cohere2_moe\"," SIZES
         ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}}",
         "rope_scaling"},
        {"{\"model_type\":\"cohere2_moe\"," SIZES ",\"mlp_layer_types\":[\"sparse\",\"dense\"]}",
         "mlp_layer_types"},
        {"{\"model_type\":\"qwen4_exp_text\"," QWEN4 ",\"ple_layer_ids\":[1]}", "eos_token_id"},
        {"{\"model_type\":\"qwen4_exp_text\"," QWEN4
         ",\"ple_layer_ids\":[1],\"eos_token_id\":9,\"ngram_size\":9}",
         "ngram_size"},
        {"{\"model_type\":\"qwen4_exp_text\"," QWEN4
         ",\"ple_layer_ids\":[1],\"eos_token_id\":9,\"ple_embed_dim\":40}",
         "ple_embed_dim"},
        {"{\"model_type\":\"minimax_m3_vl_text\"," SIZES ",\"sparse_attention_config\":"
         "{\"sparse_init_block\":1}}",
         "sparse_init_block"},
        {"{\"model_type\":\"minimax_m3_vl_text\"," SIZES ",\"sparse_attention_config\":"
         "{\"sparse_score_type\":\"mean\"}}",
         "sparse_score_type"},
        {"{\"model_type\":\"minimax_m3_vl_text\"," SIZES ",\"attention_output_gate\":true}",
         "attention_output_gate"},
        {"{\"model_type\":\"gpt2\"," SIZES ",\"scale_attn_weights\":false}", "scale_attn_weights"},
        {"{\"model_type\":\"gemma4_text\"," GEMMA4_SIZES
         ",\"per_layer_config\":{\"1\":{\"rms_norm_eps\":1}}}",
         "per_layer_config"},
        {"{\"model_type\":\"gemma4_text\"," GEMMA4_SIZES ",\"per_layer_config\":{\"0\":{\"head_dim\":99}}}",
         "per_layer_config"},
        {"{\"model_type\":\"gemma4_text\"," GEMMA4_SIZES ",\"use_bidirectional_attention\":\"all\"}",
         "use_bidirectional_attention"},
        {"{\"model_type\":\"gemma4_text\"," GEMMA4_SIZES
         ",\"sliding_window\":512,\"use_bidirectional_attention\":true}",
         "sliding_window"},
        {"{\"model_type\":\"gemma4_text\"," GEMMA4_SIZES
         ",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\"},\"full_attention\":{}}}",
         "rope_parameters"},
        {"{\"model_type\":\"gemma3n_text\"," SIZES ",\"altup_correct_scale\":false}", "altup_correct_scale"},
        {"{\"model_type\":\"gemma3n_text\"," SIZES ",\"intermediate_size\":[7]}", "intermediate_size"},
        {"{\"model_type\":\"gemma3n_text\"," SIZES ",\"activation_sparsity_pattern\":[0.5,1.0]}",
         "activation_sparsity_pattern"},
        {"{\"model_type\":\"gemma2\"," SIZES ",\"sliding_window\":8,\"layer_types\":[\"full_attention\"]}",
         "layer_types"},
        {"{\"model_type\":\"gemma2\"," SIZES ",\"sliding_window\":8,\"layer_types\":[\"a\",\"b\"]}",
         "layer_types"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct folder_config config;
        struct gguf_writer keys = {0};
        struct arena arena = {0};
        struct value json;
        struct error error = {0};
        assert_ok(json_decode(text_from_string(refused[i].json), &arena, &json, &error), &error);
        if (folder_read_config(&config, &json, &keys, &arena, &error) != STATUS_REFUSE)
            fail_msg("not refused: %s", refused[i].json);
        if (!strstr(error.text, refused[i].words))
            fail_msg("expected \"%s\" in: %s", refused[i].words, error.text);
        gguf_writer_finish(&keys);
        arena_finish(&arena);
    }
}
