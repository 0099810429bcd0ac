// Opening model files: each fault is refused by name, each limit is tested on both sides.
#include "engine/file/mapped_file.h"
#include "engine/model/family.h"
#include "engine/model/model.h"
#include "schemas/base/hash.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/make_encoder.h"
#include "tests/support/make_model.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

struct model_files {
    char directory[64], path[96];
};

static int set_up(void **state)
{
    static struct model_files folder;
    make_directory(folder.directory);
    snprintf(folder.path, sizeof folder.path, "%s/model.gguf", folder.directory);
    *state = &folder;
    return 0;
}

static int tear_down(void **state)
{
    struct model_files *folder = *state;
    remove_directory(folder->directory);
    return 0;
}

static struct model *open_recipe(void **state, const struct model_recipe *recipe)
{
    struct model_files *folder = *state;
    struct error error = {0};
    struct model *model;
    make_model(folder->path, recipe);
    assert_ok(model_open(&model, folder->path, &error), &error);
    return model;
}

static void open_and_close(void **state, const struct model_recipe *recipe)
{
    model_close(open_recipe(state, recipe));
}

static void refuse_model(void **state, const struct model_recipe *recipe, enum error_code code,
                         const char *words)
{
    struct model_files *folder = *state;
    struct error error = {0};
    struct model *model;
    make_model(folder->path, recipe);
    assert_int_equal(model_open(&model, folder->path, &error), STATUS_REFUSE);
    assert_null(model);
    if (!strstr(error.text, words) || !strstr(error.text, folder->path) || error.code != code)
        fail_msg("got %s: %s", error_code_name(error.code), error.text);
}

TEST(layers_that_can_not_share_or_be_predicted_are_refused)
{
    static const struct {
        struct model_recipe recipe;
        enum error_code code;
        const char *words;
    } cases[] = {
        {{.family = "gemma4", .keys = {{"gemma4.attention.shared_kv_layers", GGUF_U32, 5, NULL}}},
         ERROR_MODEL_FILE,
         "layer 2: 2 key-value heads for 4 heads, 5 layers share keys and values"},
        {{.family = "gemma4", .keys = {{"gemma4.attention.shared_kv_layers", GGUF_U32, 6, NULL}}},
         ERROR_LIMIT_EXCEEDED,
         "shared_kv_layers: expected 0 to 5, got 6"},
        {{.family = "gemma4", .drop_tensor = "blk.0.attn_v.weight", .larger = true},
         ERROR_MODEL_FILE,
         "tensor blk.0.attn_v.weight is missing"},
        {{.family = "gemma4", .widen_tensor = "per_layer_model_proj.weight"},
         ERROR_MODEL_FILE,
         "tensor per_layer_model_proj.weight: expected 72x64, file has 73x64"},
        {{.family = "gemma4", .drop_tensor = "blk.5.pre_ffw_norm_2.weight", .larger = true},
         ERROR_MODEL_FILE,
         "tensor blk.5.pre_ffw_norm_2.weight is missing"},
        {{.family = "gemma3n", .keys = {{"gemma3n.altup.num_inputs", GGUF_U32, 17, NULL}}},
         ERROR_LIMIT_EXCEEDED,
         "altup.num_inputs: expected 2 to 16, got 17"},
        {{.family = "gemma3n", .keys = {{"gemma3n.altup.active_idx", GGUF_U32, 3, NULL}}},
         ERROR_LIMIT_EXCEEDED,
         "altup.active_idx: expected 0 to 2, got 3"},
        {{.family = "muse-glimmer",
          .keys = {{"muse-glimmer.attention.post_norm_epsilon", GGUF_F32, -1.0, NULL}}},
         ERROR_MODEL_FILE,
         "norm epsilon"},
        {{.family = "granite-swa", .drop_tensor = "blk.1.attn_sinks.weight"},
         ERROR_MODEL_FILE,
         "tensor blk.1.attn_sinks.weight is missing"},
        {{.family = "step35", .keys = {{"step35.attention.head_count_kv", GGUF_U32, 3, NULL}}},
         ERROR_MODEL_FILE,
         "layer 0: 3 key-value heads for 4 heads"},
        {{.family = "mimo2", .keys = {{"mimo2.attention.head_count", GGUF_U32, 5, NULL}}},
         ERROR_MODEL_FILE,
         "layer 0: 2 key-value heads for 5 heads"},
        {{.family = "laguna", .widen_tensor = "blk.1.attn_gate.weight"},
         ERROR_MODEL_FILE,
         "tensor blk.1.attn_gate.weight: expected 128x64, file has 9x64"},
        {{.family = "qwen3", .keys = {{"qwen3.attention.value_scale", GGUF_F32, 0.5, NULL}}},
         ERROR_MODEL_FILE,
         "qwen3.attention.value_scale is 0.5, which this version can't compute"},
        {{.family = "deepseek32", .keys = {{"deepseek32.attention.indexer.key_length", GGUF_U32, 4, NULL}}},
         ERROR_MODEL_FILE,
         "sparse attention: expected an indexer in layer 0, compressed queries, and keys of at least 8 dimensions"},
        {{.family = "deepseek32", .drop_tensor = "blk.0.indexer.attn_k.weight"},
         ERROR_MODEL_FILE,
         "sparse attention: expected an indexer in layer 0"},
        {{.family = "deepseek32", .drop_tensor = "blk.1.indexer.k_norm.bias"},
         ERROR_MODEL_FILE,
         "tensor blk.1.indexer.k_norm.bias is missing"},
        {{.family = "minimax-m3", .keys = {{"minimax-m3.attention.indexer.head_count", GGUF_U32, 3, NULL}}},
         ERROR_MODEL_FILE,
         "sparse attention to 3 blocks of 5 positions: expected a head for each of 2 key-value heads, "
         "and keys of at least 16 dimensions; got 3, and 20"},
        {{.family = "minimax-m3", .keys = {{"minimax-m3.attention.indexer.local_blocks", GGUF_U32, 4, NULL}}},
         ERROR_LIMIT_EXCEEDED,
         "attention.indexer.local_blocks: expected 0 to 3, got 4"},
        {{.family = "qwen4_exp", .drop_tensor = "blk.3.indexer.qk_proj.weight"},
         ERROR_MODEL_FILE,
         "tensor blk.3.indexer.qk_proj.weight is missing"},
        {{.family = "qwen4_exp", .keys = {{"qwen4_exp.attention.indexer.top_k", GGUF_U32, 13, NULL}}},
         ERROR_MODEL_FILE,
         "sparse attention to 13 positions in blocks of 4: expected whole blocks"},
        {{.family = "qwen4_exp", .keys = {{"qwen4_exp.ngram.vocabulary", GGUF_U32, 90, NULL}}},
         ERROR_MODEL_FILE,
         "tensor blk.0.ngram_embd.weight: expected 408x8, file has 320x8"},
        {{.family = "qwen4_exp", .drop_tensor = "blk.2.ngram_conv1d.weight"},
         ERROR_MODEL_FILE,
         "tensor blk.2.ngram_conv1d.weight is missing"},
        {{.family = "qwen4_exp", .drop_tensor = "hyper_output_mix.weight"},
         ERROR_MODEL_FILE,
         "tensor hyper_output_mix.weight is missing"},
        {{.family = "qwen4_exp", .keys = {{"qwen4_exp.hyper_connection.count", GGUF_U32, 17, NULL}}},
         ERROR_LIMIT_EXCEEDED,
         "hyper_connection.count: expected 2 to 16, got 17"},
        {{.family = "minimax-m3", .drop_tensor = "blk.1.indexer.q_norm.weight"},
         ERROR_MODEL_FILE,
         "tensor blk.1.indexer.q_norm.weight is missing"},
        {{.family = "gemma3n", .n_layers = 4, .keys = {{"gemma3n.block_count", GGUF_U32, 3, NULL}}},
         ERROR_MODEL_FILE,
         "expected an integer of 1 to"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_model(state, &cases[i].recipe, cases[i].code, cases[i].words);
}

TEST(every_family_of_the_table_opens)
{
    const struct family *family;
    for (size_t i = 0; (family = family_at(i)) != NULL; i++) {
        if (family->bidirectional)
            continue;
        struct model *model =
            open_recipe(state, &(struct model_recipe){.family = family->name, .n_layers = 4});
        assert_string_equal(model_family_name(model), family->name);
        assert_string_equal(model->name, "made for a test");
        assert_int_equal(model->shape.n_layers, 4);
        assert_int_equal(model->shape.n_vocab, 320);
        assert_true(model_has_logits(model));
        model_close(model);
    }
}

static struct model *open_encoder(void **state, const struct encoder_recipe *recipe)
{
    struct model_files *folder = *state;
    struct error error = {0};
    struct model *model;
    make_encoder(folder->path, recipe);
    assert_ok(model_open(&model, folder->path, &error), &error);
    return model;
}

static void refuse_encoder(void **state, const struct encoder_recipe *recipe, const char *words)
{
    struct model_files *folder = *state;
    struct error error = {0};
    struct model *model;
    make_encoder(folder->path, recipe);
    assert_int_equal(model_open(&model, folder->path, &error), STATUS_REFUSE);
    if (!strstr(error.text, words))
        fail_msg("expected \"%s\" in: %s", words, error.text);
}

TEST(every_encoder_of_the_table_opens)
{
    const struct family *family;
    for (size_t i = 0; (family = family_at(i)) != NULL; i++) {
        if (!family->bidirectional)
            continue;
        struct model *model = open_encoder(state, &(struct encoder_recipe){.family = family->name});
        assert_string_equal(model_family_name(model), family->name);
        assert_true(model->shape.bidirectional && !model_has_logits(model));
        // pages of one layer, or of one of each kind, the first layer and the last
        assert_int_equal(model->shape.attention.n_layers, family->layers_vary ? 3 : 1);
        model_close(model);
    }
}

TEST(an_encoder_needs_its_tensors_and_may_have_a_head)
{
    static const char *const names[] = {
        "position_embd.weight",         "token_embd_norm.bias", "blk.0.attn_output_norm.weight",
        "blk.1.layer_output_norm.bias", "blk.2.attn_q.bias",    "blk.0.ffn_up.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char words[128];
        snprintf(words, sizeof words, "tensor %s is missing", names[i]);
        refuse_encoder(state, &(struct encoder_recipe){.drop_tensor = names[i]}, words);
    }
    model_close(open_encoder(state, &(struct encoder_recipe){.drop_tensor = "token_types.weight"}));
    model_close(open_encoder(state, &(struct encoder_recipe){.extra_tensor = "cls.output.weight"}));
    refuse_encoder(state, &(struct encoder_recipe){.extra_tensor = "output_norm.weight"},
                   "tensor output_norm.weight has no place in family bert");
    // only the first layer of modern-bert lacks this norm
    refuse_encoder(state,
                   &(struct encoder_recipe){.family = "modern-bert", .drop_tensor = "blk.1.attn_norm.weight"},
                   "tensor blk.1.attn_norm.weight is missing");
    refuse_encoder(state, &(struct encoder_recipe){.family = "mpnet", .drop_tensor = "attn_rel_b.weight"},
                   "tensor attn_rel_b.weight is missing");
}

TEST(the_direction_of_attention_is_the_file_s)
{
    struct model_recipe recurrent = {
        .family = "qwen35", .keys = {{.key = "qwen35.attention.causal", .kind = GGUF_BOOL, .number = 0}}};
    refuse_model(state, &recurrent, ERROR_MODEL_FILE, "qwen35.attention.causal is false");
    struct model_recipe both = {.keys = {{.key = "llama.attention.causal", .kind = GGUF_BOOL, .number = 0}}};
    struct model *model = open_recipe(state, &both);
    assert_true(model->shape.bidirectional && !model_has_logits(model));
    model_close(model);
    both.keys[0].number = 1;
    model = open_recipe(state, &both);
    assert_true(!model->shape.bidirectional && model_has_logits(model));
    model_close(model);
    refuse_encoder(state, &(struct encoder_recipe){.causal = true}, "bert.attention.causal is true");
}

TEST(an_activation_is_found_by_its_name)
{
    struct encoder_recipe recipe = {.text_key = "bert.hidden_activation", .text = "zebra"};
    refuse_encoder(state, &recipe, "bert.hidden_activation \"zebra\" is not known");
    recipe.text = "gelu_new";
    struct model *model = open_encoder(state, &recipe);
    assert_int_equal(model->shape.activation, ACTIVATION_GELU_TANH);
    model_close(model);
}

TEST(an_unknown_family_is_refused_by_name)
{
    struct model_recipe recipe = {
        .keys = {{.key = "general.architecture", .kind = GGUF_STRING, .string = "zebra"}}};
    refuse_model(state, &recipe, ERROR_UNKNOWN_TYPE,
                 "model family \"zebra\" is not known; known are llama qwen2");
    recipe.keys[0].string = "qwen3mo";
    refuse_model(state, &recipe, ERROR_UNKNOWN_TYPE,
                 "\"qwen3mo\" is not known; the nearest is qwen3moe; known");
    recipe = (struct model_recipe){.drop_key = "general.architecture"};
    refuse_model(state, &recipe, ERROR_MODEL_FILE, "key general.architecture is missing");
}

TEST(a_missing_key_is_refused_by_name)
{
    static const char *const keys[] = {
        "llama.block_count",         "llama.embedding_length",     "llama.context_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char words[128];
        snprintf(words, sizeof words, "key %s is missing", keys[i]);
        refuse_model(state, &(struct model_recipe){.drop_key = keys[i]}, ERROR_MODEL_FILE, words);
    }
    open_and_close(state, &(struct model_recipe){.drop_key = "llama.rope.freq_base"}); // has a default
}

TEST(every_tensor_of_a_model_is_missed)
{
    static const char *const names[] = {"token_embd.weight",        "output_norm.weight",
                                        "blk.0.attn_norm.weight",   "blk.0.attn_q.weight",
                                        "blk.1.attn_k.weight",      "blk.0.attn_v.weight",
                                        "blk.0.attn_output.weight", "blk.1.ffn_norm.weight",
                                        "blk.1.ffn_down.weight",    "blk.0.attn_q_norm.weight",
                                        "blk.1.attn_k_norm.weight", "blk.0.ffn_up.weight",
                                        "blk.1.ffn_gate.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char words[128];
        snprintf(words, sizeof words, "tensor %s is missing", names[i]);
        refuse_model(state, &(struct model_recipe){.family = "qwen3", .drop_tensor = names[i]},
                     ERROR_MODEL_FILE, words);
    }
    refuse_model(state, &(struct model_recipe){.family = "qwen2", .drop_tensor = "blk.1.attn_k.bias"},
                 ERROR_MODEL_FILE, "tensor blk.1.attn_k.bias is missing");
    refuse_model(state, &(struct model_recipe){.family = "gpt2", .drop_tensor = "position_embd.weight"},
                 ERROR_MODEL_FILE, "tensor position_embd.weight is missing");
    refuse_model(state, &(struct model_recipe){.family = "gpt2", .drop_tensor = "blk.0.attn_qkv.bias"},
                 ERROR_MODEL_FILE, "tensor blk.0.attn_qkv.bias is missing");
    refuse_model(state,
                 &(struct model_recipe){.family = "mixtral", .drop_tensor = "blk.0.ffn_gate_inp.weight"},
                 ERROR_MODEL_FILE, "tensor blk.0.ffn_gate_inp.weight is missing");
}

TEST(a_misshapen_tensor_is_refused_with_both_shapes)
{
    static const struct {
        const char *family, *name, *words;
    } cases[] = {
        {"llama", "blk.1.attn_q.weight", "tensor blk.1.attn_q.weight: expected 64x64, file has 65x64"},
        {"llama", "blk.0.ffn_down.weight", "expected 64x96, file has 65x96"},
        {"llama", "blk.0.attn_norm.weight", "tensor blk.0.attn_norm.weight: expected 64, file has 65"},
        {"llama", "output.weight", "tensor output.weight: expected 320x64, file has 321x64"},
        {"qwen2", "blk.0.attn_v.bias", "tensor blk.0.attn_v.bias: expected 32, file has 33"},
        {"qwen3", "blk.0.attn_k_norm.weight", "expected 16, file has 17"},
        {"gpt2", "blk.1.attn_qkv.weight", "expected 192x64, file has 193x64"},
        {"gpt2", "position_embd.weight", "expected 512x64, file has 513x64"},
        {"mixtral", "blk.0.ffn_up_exps.weight", "expected 4x96x64, file has 5x96x64"},
        {"llama3", "rope_freqs.weight", "tensor rope_freqs.weight: expected 8 items of F32"},
        {"olmo2", "blk.0.attn_q_norm.weight", "expected 64, file has 65"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_model(state, &(struct model_recipe){.family = cases[i].family, .widen_tensor = cases[i].name},
                     ERROR_MODEL_FILE, cases[i].words);
    // The embedding's rows are the vocabulary: then it is the output that does not fit.
    refuse_model(state, &(struct model_recipe){.widen_tensor = "token_embd.weight"}, ERROR_MODEL_FILE,
                 "tensor output.weight: expected 321x64, file has 320x64");
}

TEST(a_type_without_arithmetic_is_refused_by_name)
{
    refuse_model(state, &(struct model_recipe){.retype_tensor = "blk.1.ffn_up.weight"}, ERROR_UNKNOWN_TYPE,
                 "tensor blk.1.ffn_up.weight: type I32 can't be computed with");
    refuse_model(state, &(struct model_recipe){.retype_tensor = "output_norm.weight"}, ERROR_UNKNOWN_TYPE,
                 "tensor output_norm.weight: type I32");
}

TEST(a_tensor_without_a_place_is_refused_by_name)
{
    refuse_model(state, &(struct model_recipe){.extra_tensor = "blk.0.attn_sub_norm.weight"},
                 ERROR_MODEL_FILE, "tensor blk.0.attn_sub_norm.weight has no place in family llama");
    refuse_model(state, &(struct model_recipe){.extra_tensor = "blk.2.attn_norm.weight"}, ERROR_MODEL_FILE,
                 "tensor blk.2.attn_norm.weight has no place");
    // Old files repeat the rope frequencies; nothing is lost without them.
    open_and_close(state, &(struct model_recipe){.extra_tensor = "blk.0.attn_rot_embd.weight"});
    // A bias is used wherever a file has one.
    open_and_close(state, &(struct model_recipe){.extra_tensor = "blk.0.attn_output.bias"});
}

TEST(dimensions_have_limits)
{
    static const struct {
        const char *key;
        double value;
        enum error_code code;
        const char *words;
    } cases[] = {
        {"llama.block_count", 0, ERROR_LIMIT_EXCEEDED, "llama.block_count: expected 1 to 1024, got 0"},
        {"llama.block_count", MODEL_LAYERS_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1025"},
        {"llama.block_count", MODEL_LAYERS_MAX, ERROR_MODEL_FILE, "tensor blk.2.attn_norm.weight is missing"},
        {"llama.embedding_length", 0, ERROR_LIMIT_EXCEEDED, "got 0"},
        {"llama.embedding_length", MODEL_WIDTH_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1048577"},
        {"llama.context_length", MODEL_CONTEXT_MAX + 1.0, ERROR_LIMIT_EXCEEDED, "got 16777217"},
        {"llama.feed_forward_length", MODEL_WIDTH_MAX, ERROR_MODEL_FILE,
         "expected 1048576x64, file has 96x64"},
        {"llama.feed_forward_length", 4294967295.0, ERROR_LIMIT_EXCEEDED, "at most 2147483647"},
        {"llama.attention.head_count", MODEL_HEADS_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1025"},
        {"llama.attention.head_count_kv", 5, ERROR_LIMIT_EXCEEDED, "expected 1 to 4, got 5"},
        {"llama.attention.head_count_kv", 3, ERROR_MODEL_FILE, "4 heads can't be shared evenly by 3"},
        {"llama.attention.head_count", 6, ERROR_MODEL_FILE, "key llama.attention.key_length is missing"},
        {"llama.attention.key_length", MODEL_HEAD_DIM_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1025"},
        {"llama.expert_count", MODEL_EXPERTS_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1025"},
        {"llama.rope.dimension_count", 17, ERROR_LIMIT_EXCEEDED, "expected 2 to 16, got 17"},
        {"llama.rope.dimension_count", 15, ERROR_MODEL_FILE, "rope dimensions: expected an even number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_recipe recipe = {
            .keys = {{.key = cases[i].key, .kind = GGUF_U32, .number = cases[i].value}}};
        refuse_model(state, &recipe, cases[i].code, cases[i].words);
    }
    open_and_close(
        state, &(struct model_recipe){
                   .keys = {{.key = "llama.context_length", .kind = GGUF_U32, .number = MODEL_CONTEXT_MAX}}});
}

// llama.cpp's own files (src/llama-model-saver.cpp) have every key.
TEST(keys_of_0_that_other_families_use_are_none)
{
    static const char *const families[][2] = {{"mixtral", "llama"},
                                              {"qwen3moe", "qwen3moe"},
                                              {"gpt2", "gpt2"}};
    static const char *const integers[] = {"leading_dense_block_count",
                                           "expert_feed_forward_length",
                                           "expert_shared_feed_forward_length",
                                           "expert_shared_count",
                                           "expert_group_count",
                                           "expert_group_used_count",
                                           "expert_gating_func",
                                           "nextn_predict_layers",
                                           "interleave_moe_layer_step",
                                           "attention.q_lora_rank",
                                           "attention.kv_lora_rank",
                                           "attention.sliding_window",
                                           "attention.temperature_length",
                                           "attention.key_length_mla",
                                           "attention.value_length_mla",
                                           "rope.scaling.original_context_length"};
    static const char *const numbers[] = {"expert_weights_scale",
                                          "logit_scale",
                                          "residual_scale",
                                          "embedding_scale",
                                          "attention.clamp_kqv",
                                          "attention.scale",
                                          "attention.temperature_scale",
                                          "attention.max_alibi_bias",
                                          "attn_logit_softcapping",
                                          "final_logit_softcapping",
                                          "rope.scaling.factor",
                                          "rope.scaling.yarn_log_multiplier"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        char names[MADE_KEYS_MAX][64];
        int n = 0;
        struct model_recipe recipe = {.family = families[f][0]};
        struct model *plain = open_recipe(state, &recipe);
        for (size_t i = 0; i < sizeof integers / sizeof *integers; i++, n++)
            if (f != 1 || strcmp(integers[i], "expert_feed_forward_length"))
                recipe.keys[n] = (struct made_key){.key = names[n], .kind = GGUF_U32};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++, n++)
            recipe.keys[n] = (struct made_key){.key = names[n], .kind = GGUF_F32};
        recipe.keys[n] = (struct made_key){.key = names[n], .kind = GGUF_BOOL};
        for (size_t i = 0; i < (size_t)n; i++)
            snprintf(names[i], sizeof *names, "%s.%s", families[f][1],
                     i < sizeof integers / sizeof *integers
                         ? integers[i]
                         : numbers[i - sizeof integers / sizeof *integers]);
        snprintf(names[n], sizeof *names, "%s.expert_weights_norm", families[f][1]);
        struct model *full = open_recipe(state, &recipe);
        assert_memory_equal(&full->shape, &plain->shape, sizeof full->shape);
        model_close(plain);
        model_close(full);
    }
}

TEST(recurrent_layers_have_limits)
{
    static const struct {
        const char *key;
        double value;
        enum error_code code;
        const char *words;
    } cases[] = {
        {"qwen35.ssm.conv_kernel", 1, ERROR_LIMIT_EXCEEDED, "ssm.conv_kernel: expected 2 to 16, got 1"},
        {"qwen35.ssm.conv_kernel", MODEL_TAPS_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 17"},
        {"qwen35.ssm.conv_kernel", 5, ERROR_MODEL_FILE, "ssm_conv1d.weight: expected 192x5"},
        {"qwen35.ssm.state_size", 0, ERROR_LIMIT_EXCEEDED, "ssm.state_size: expected 1 to 1024, got 0"},
        {"qwen35.ssm.state_size", MODEL_HEAD_DIM_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1025"},
        {"qwen35.ssm.group_count", 0, ERROR_LIMIT_EXCEEDED, "ssm.group_count: expected 1 to 1024, got 0"},
        {"qwen35.ssm.group_count", 4, ERROR_MODEL_FILE, "evenly by 6 heads with 4 key heads"},
        {"qwen35.ssm.time_step_rank", 0, ERROR_LIMIT_EXCEEDED, "ssm.time_step_rank: expected 1 to 1024"},
        {"qwen35.ssm.time_step_rank", MODEL_HEADS_MAX + 1, ERROR_LIMIT_EXCEEDED, "got 1025"},
        {"qwen35.ssm.inner_size", 0, ERROR_LIMIT_EXCEEDED, "ssm.inner_size: expected 1 to 1048576, got 0"},
        {"qwen35.ssm.inner_size", 121, ERROR_MODEL_FILE, "121 values can't be divided evenly by 6 heads"},
        {"qwen35.ssm.inner_size", 1025 * 6, ERROR_LIMIT_EXCEEDED, "6 heads of 18 x 1025 items"},
        {"qwen35.ssm.inner_size", 1024 * 6, ERROR_MODEL_FILE, "attn_qkv.weight: expected"},
        {"qwen35.full_attention_interval", 0, ERROR_LIMIT_EXCEEDED, "expected 1 to 1024, got 0"},
        {"qwen35.full_attention_interval", 5, ERROR_MODEL_FILE, "none of 4 layers has attention"},
        {"qwen35.attention.value_length", 12, ERROR_MODEL_FILE, "gated attention: heads of 16 and 12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_recipe recipe = {
            .family = "qwen35", .keys = {{.key = cases[i].key, .kind = GGUF_U32, .number = cases[i].value}}};
        refuse_model(state, &recipe, cases[i].code, cases[i].words);
    }
    // 1024 heads of 1024 x 1024 items are 4 GB a layer and sequence
    struct model_recipe recipe = {.family = "qwen35",
                                  .keys = {{"qwen35.ssm.time_step_rank", GGUF_U32, 1024, NULL},
                                           {"qwen35.ssm.inner_size", GGUF_U32, 1024 * 1024, NULL},
                                           {"qwen35.ssm.state_size", GGUF_U32, 1024, NULL}}};
    refuse_model(state, &recipe, ERROR_LIMIT_EXCEEDED, "states of 1024 heads of 1024 x 1024 items; at most");
}

TEST(recurrent_layers_need_their_keys_and_tensors)
{
    static const char *const keys[] = {"qwen3next.ssm.conv_kernel", "qwen3next.ssm.state_size",
                                       "qwen3next.ssm.group_count", "qwen3next.ssm.time_step_rank",
                                       "qwen3next.ssm.inner_size"};
    static const char *const grouped[] = {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight",
                                          "blk.1.ssm_ba.weight",   "blk.0.ssm_conv1d.weight",
                                          "blk.2.ssm_dt.bias",     "blk.0.ssm_a",
                                          "blk.0.ssm_norm.weight", "blk.1.ssm_out.weight"};
    static const char *const tiled[] = {"blk.0.ssm_alpha.weight", "blk.1.ssm_beta.weight"};
    char words[128];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        snprintf(words, sizeof words, "key %s is missing", keys[i]);
        refuse_model(state, &(struct model_recipe){.family = "qwen3next", .drop_key = keys[i]},
                     ERROR_MODEL_FILE, words);
    }
    for (size_t i = 0; i < sizeof grouped / sizeof *grouped; i++) {
        snprintf(words, sizeof words, "tensor %s is missing", grouped[i]);
        refuse_model(state, &(struct model_recipe){.family = "qwen3next", .drop_tensor = grouped[i]},
                     ERROR_MODEL_FILE, words);
    }
    for (size_t i = 0; i < sizeof tiled / sizeof *tiled; i++) {
        snprintf(words, sizeof words, "tensor %s is missing", tiled[i]);
        refuse_model(state, &(struct model_recipe){.family = "qwen35", .drop_tensor = tiled[i]},
                     ERROR_MODEL_FILE, words);
    }
    // a layer has tensors of its own kind only
    refuse_model(state, &(struct model_recipe){.family = "qwen35", .extra_tensor = "blk.0.attn_q.weight"},
                 ERROR_MODEL_FILE, "blk.0.attn_q.weight has no place");
    refuse_model(state, &(struct model_recipe){.family = "qwen35", .extra_tensor = "blk.3.ssm_a"},
                 ERROR_MODEL_FILE, "blk.3.ssm_a has no place");
}

TEST(layers_of_either_kind_are_numbered_apart)
{
    struct model *model =
        open_recipe(state, &(struct model_recipe){.family = "qwen35", .n_layers = 6, .n_beyond = 1});
    static const int32_t states[] = {0, 1, 2, 0, 3, 4};
    assert_int_equal(model->shape.n_layers, 6);
    assert_int_equal(model->shape.attention.n_layers, 1);
    assert_int_equal(model->shape.recurrent.n_layers, 5);
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(model->layers[i].recurrent, i != 3);
        assert_int_equal(model->layers[i].attends, i == 3);
        assert_int_equal(model->layers[i].recurrent ? model->layers[i].state : model->layers[i].store,
                         states[i]);
    }
    model_close(model);
    model = open_recipe(state, &(struct model_recipe){.family = "lfm2", .n_layers = 5});
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(model->layers[i].recurrent, i % 3 != 1);
    assert_int_equal(model->shape.attention.n_layers, 2);
    assert_int_equal(model->layers[4].store, 1);
    assert_int_equal(model->layers[3].state, 2);
    model_close(model);
}

TEST(a_scan_has_its_keys_and_tensors)
{
    static const char *const tensors[] = {"blk.0.ssm_in.weight", "blk.2.ssm_conv1d.weight",
                                          "blk.3.ssm_dt.bias",   "blk.0.ssm_a",
                                          "blk.0.ssm_d",         "blk.2.ssm_out.weight",
                                          "blk.1.attn_k.weight"};
    static const char *const keys[] = {"granitehybrid.ssm.conv_kernel", "granitehybrid.ssm.state_size",
                                       "granitehybrid.ssm.group_count", "granitehybrid.ssm.time_step_rank",
                                       "granitehybrid.ssm.inner_size"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        refuse_model(state, &(struct model_recipe){.family = "granitehybrid", .drop_tensor = tensors[i]},
                     ERROR_MODEL_FILE, tensors[i]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        refuse_model(state, &(struct model_recipe){.family = "granitehybrid", .drop_key = keys[i]},
                     ERROR_MODEL_FILE, keys[i]);
    refuse_model(state,
                 &(struct model_recipe){.family = "granitehybrid", .widen_tensor = "blk.0.ssm_norm.weight"},
                 ERROR_MODEL_FILE, "ssm_norm.weight: expected");
    refuse_model(state, &(struct model_recipe){.family = "granitehybrid", .widen_tensor = "blk.0.ssm_a"},
                 ERROR_MODEL_FILE, "ssm_a: expected 6, file has");
    refuse_model(state,
                 &(struct model_recipe){.family = "granitehybrid",
                                        .keys = {{"granitehybrid.ssm.time_step_min", GGUF_F32, 2.0, NULL},
                                                 {"granitehybrid.ssm.time_step_max", GGUF_F32, 1.0, NULL}}},
                 ERROR_MODEL_FILE, "ssm.time_step_min and _max: 2 and 1");
}

TEST(a_layer_of_one_mixer_has_no_mlp_and_an_mlp_no_mixer)
{
    struct model *model =
        open_recipe(state, &(struct model_recipe){.family = "nemotron_h_moe", .n_layers = 5});
    static const char kinds[] = "ME*EM";
    for (int32_t i = 0; i < 5; i++) {
        const struct model_layer *layer = &model->layers[i];
        assert_int_equal(layer->recurrent, kinds[i] == 'M');
        assert_int_equal(layer->attends, kinds[i] == '*');
        assert_int_equal(layer->sparse, kinds[i] == 'E');
        assert_int_equal(layer->tensors[SLOT_FFN_NORM].data != NULL, kinds[i] == 'E');
        assert_int_equal(layer->tensors[SLOT_ATTN_NORM].data != NULL, kinds[i] != 'E');
    }
    model_close(model);
    model = open_recipe(state, &(struct model_recipe){.family = "falcon-h1", .n_layers = 2});
    assert_true(model->layers[1].attends && model->layers[1].recurrent);
    assert_int_equal(model->layers[1].store + model->layers[1].state, 2);
    model_close(model);
    refuse_model(state, &(struct model_recipe){.family = "nemotron_h", .drop_tensor = "blk.1.ffn_up.weight"},
                 ERROR_MODEL_FILE, "blk.1.ffn_up.weight is missing");
    refuse_model(state,
                 &(struct model_recipe){.family = "nemotron_h", .extra_tensor = "blk.0.ffn_norm.weight"},
                 ERROR_MODEL_FILE, "blk.0.ffn_norm.weight has no place");
    refuse_model(state,
                 &(struct model_recipe){.family = "nemotron_h",
                                        .keys = {{"nemotron_h.feed_forward_length", GGUF_U32, 96, NULL}}},
                 ERROR_MODEL_FILE, "layer 2: an MLP of width 96 and attention");
    refuse_model(state,
                 &(struct model_recipe){.family = "nemotron_h_moe",
                                        .keys = {{"nemotron_h_moe.moe_latent_size", GGUF_U32, 16, NULL}}},
                 ERROR_MODEL_FILE, "blk.1.ffn_up_exps.weight: expected 4x48x16");
    refuse_model(state,
                 &(struct model_recipe){
                     .family = "nemotron_h_moe", .larger = true, .drop_tensor = "blk.1.ffn_latent_up.weight"},
                 ERROR_MODEL_FILE, "blk.1.ffn_latent_up.weight is missing");
    refuse_model(state,
                 &(struct model_recipe){.family = "qwen3moe",
                                        .keys = {{"qwen3moe.moe_latent_size", GGUF_U32, 16, NULL}}},
                 ERROR_MODEL_FILE, "moe_latent_size is 16");
}

TEST(a_selective_scan_has_its_keys_and_tensors)
{
    static const char *const tensors[] = {"blk.0.ssm_in.weight",   "blk.1.ssm_x.weight",
                                          "blk.0.ssm_dt.weight",   "blk.0.ssm_dt.bias",
                                          "blk.0.ssm_a",           "blk.0.ssm_d",
                                          "blk.0.attn_norm.weight"};
    static const char *const keys[] = {"mamba.ssm.conv_kernel", "mamba.ssm.state_size",
                                       "mamba.ssm.time_step_rank", "mamba.ssm.inner_size"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        refuse_model(state, &(struct model_recipe){.family = "mamba", .drop_tensor = tensors[i]},
                     ERROR_MODEL_FILE, tensors[i]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        refuse_model(state, &(struct model_recipe){.family = "mamba", .drop_key = keys[i]}, ERROR_MODEL_FILE,
                     keys[i]);
    refuse_model(state, &(struct model_recipe){.family = "jamba", .drop_tensor = "blk.0.ssm_c_norm.weight"},
                 ERROR_MODEL_FILE, "blk.0.ssm_c_norm.weight is missing");
    refuse_model(state, &(struct model_recipe){.family = "mamba", .extra_tensor = "blk.0.ffn_norm.weight"},
                 ERROR_MODEL_FILE, "blk.0.ffn_norm.weight has no place");
    struct model_recipe wide = {.family = "mamba",
                                .keys = {{"mamba.ssm.inner_size", GGUF_U32, MODEL_WIDTH_MAX, NULL}}};
    refuse_model(state, &wide, ERROR_LIMIT_EXCEEDED, "1 heads of 18 x 1048576 items");
}

TEST(a_decay_for_each_channel_has_its_keys_and_tensors)
{
    static const char *const tensors[] = {
        "blk.0.attn_q.weight",       "blk.0.attn_k.weight",       "blk.2.attn_v.weight",
        "blk.0.ssm_conv1d_q.weight", "blk.0.ssm_conv1d_v.weight", "blk.3.ssm_beta.weight",
        "blk.0.ssm_f_a.weight",      "blk.0.ssm_f_b.weight",      "blk.0.ssm_g_a.weight",
        "blk.0.ssm_g_b.weight",      "blk.0.ssm_dt.bias",         "blk.0.ssm_a",
        "blk.0.ssm_norm.weight",     "blk.0.attn_output.weight",  "blk.1.attn_kv_b.weight"};
    static const char *const keys[] = {"kimi-linear.ssm.conv_kernel", "kimi-linear.kda.head_dim",
                                       "kimi-linear.attention.kv_lora_rank"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        refuse_model(state, &(struct model_recipe){.family = "kimi-linear", .drop_tensor = tensors[i]},
                     ERROR_MODEL_FILE, i == 14 ? "attn_k_b.weight is missing" : tensors[i]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        refuse_model(state, &(struct model_recipe){.family = "kimi-linear", .drop_key = keys[i]},
                     ERROR_MODEL_FILE, keys[i]);
    refuse_model(state, &(struct model_recipe){.family = "kimi-linear", .extra_tensor = "blk.1.ssm_a"},
                 ERROR_MODEL_FILE, "blk.1.ssm_a has no place");
    refuse_model(state,
                 &(struct model_recipe){.family = "kimi-linear", .extra_tensor = "blk.0.attn_kv_b.weight"},
                 ERROR_MODEL_FILE, "blk.0.attn_kv_b.weight has no place");
    refuse_model(state, &(struct model_recipe){.family = "kimi-linear", .widen_tensor = "blk.0.ssm_a"},
                 ERROR_MODEL_FILE, "ssm_a: expected 4, file has");
    struct model_recipe wide = {.family = "kimi-linear",
                                .keys = {{"kimi-linear.kda.head_count", GGUF_U32, MODEL_HEADS_MAX, NULL},
                                         {"kimi-linear.kda.head_dim", GGUF_U32, MODEL_HEAD_DIM_MAX, NULL}}};
    refuse_model(state, &wide, ERROR_LIMIT_EXCEEDED, "1024 heads of 1024 x 1024 items");
}

TEST(a_short_convolution_has_its_key_and_tensors)
{
    static const char *const tensors[] = {"blk.0.shortconv.in_proj.weight", "blk.2.shortconv.conv.weight",
                                          "blk.3.shortconv.out_proj.weight", "token_embd_norm.weight",
                                          "blk.1.attn_q_norm.weight"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        refuse_model(state, &(struct model_recipe){.family = "lfm2", .drop_tensor = tensors[i]},
                     ERROR_MODEL_FILE, tensors[i]);
    refuse_model(state, &(struct model_recipe){.family = "lfm2", .drop_key = "lfm2.shortconv.l_cache"},
                 ERROR_MODEL_FILE, "lfm2.shortconv.l_cache is missing");
    refuse_model(state, &(struct model_recipe){.family = "lfm2", .extra_tensor = "blk.0.attn_q.weight"},
                 ERROR_MODEL_FILE, "blk.0.attn_q.weight has no place");
    refuse_model(state,
                 &(struct model_recipe){.family = "lfm2",
                                        .keys = {{"lfm2.shortconv.l_cache", GGUF_U32, 4, NULL}}},
                 ERROR_MODEL_FILE, "shortconv.conv.weight: expected 64x4, file has 64x3");
    refuse_model(state,
                 &(struct model_recipe){.family = "lfm2", .widen_tensor = "blk.0.shortconv.conv.weight"},
                 ERROR_MODEL_FILE, "shortconv.conv.weight: expected 64x3, file has 65x3");
}

TEST(keys_of_the_wrong_kind_are_refused)
{
    struct model_recipe recipe = {.keys = {{.key = "llama.block_count", .kind = GGUF_STRING, .string = "2"}}};
    refuse_model(state, &recipe, ERROR_MODEL_FILE, "llama.block_count: expected");
    recipe.keys[0] = (struct made_key){.key = "llama.rope.freq_base", .kind = GGUF_U32, .number = 10000};
    refuse_model(state, &recipe, ERROR_MODEL_FILE, "llama.rope.freq_base: expected");
    recipe.keys[0] =
        (struct made_key){.key = "llama.rope.freq_base", .kind = GGUF_F32, .number = (double)NAN};
    refuse_model(state, &recipe, ERROR_MODEL_FILE, "llama.rope.freq_base: not a finite number");
}

TEST(arithmetic_that_is_not_built_is_refused_by_its_key)
{
    static const struct {
        const char *key;
        enum gguf_kind kind;
        double refused, neutral;
    } cases[] = {
        {"llama.attention.clamp_kqv", GGUF_F32, 8.0, 0.0},
        {"llama.expert_weights_scale", GGUF_F32, 2.5, 1.0},
        {"llama.expert_gating_func", GGUF_U32, 2, 1},
        {"llama.leading_dense_block_count", GGUF_U32, 1, 0},
        {"llama.attention.q_lora_rank", GGUF_U32, 128, 0},
        {"llama.attention.kv_lora_rank", GGUF_U32, 128, 0},
        {"llama.nextn_predict_layers", GGUF_U32, 1, 0},
        {"llama.expert_group_count", GGUF_U32, 2, 1},
        {"llama.expert_shared_count", GGUF_U32, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_recipe recipe = {
            .keys = {{.key = cases[i].key, .kind = cases[i].kind, .number = cases[i].refused}}};
        refuse_model(state, &recipe, ERROR_MODEL_FILE, cases[i].key);
        recipe.keys[0].number = cases[i].neutral;
        open_and_close(state, &recipe);
    }
}

TEST(experts_belong_to_families_that_have_them)
{
    struct model_recipe recipe = {.family = "qwen2",
                                  .keys = {{.key = "qwen2.expert_count", .kind = GGUF_U32, .number = 4}}};
    refuse_model(state, &recipe, ERROR_MODEL_FILE, "family qwen2 has no experts, file has 4");
    recipe = (struct model_recipe){.family = "mixtral", .n_experts_used = 5};
    refuse_model(state, &recipe, ERROR_LIMIT_EXCEEDED, "llama.expert_used_count: expected 1 to 4, got 5");
    struct model *model = open_recipe(state, &(struct model_recipe){.family = "qwen2moe"});
    assert_int_equal(model->shape.experts.n, 4);
    assert_int_equal(model->shape.experts.n_ff_shared, 96);
    assert_false(model->shape.experts.normalized);
    assert_non_null(model->layers[1].tensors[SLOT_SHARED_ROUTER].data);
    model_close(model);
}

TEST(an_unknown_activation_is_refused_by_name)
{
    struct model_recipe recipe = {
        .family = "gpt2", .keys = {{.key = "gpt2.hidden_activation", .kind = GGUF_STRING, .string = "gelu"}}};
    struct model *model = open_recipe(state, &recipe);
    assert_int_equal(model->shape.activation, ACTIVATION_GELU);
    model_close(model);
    recipe.keys[0].string = "quick_gelu";
    refuse_model(state, &recipe, ERROR_UNKNOWN_TYPE, "gpt2.hidden_activation \"quick_gelu\" is not known");
}

TEST(an_unknown_rope_scaling_is_refused_by_name)
{
    struct model_recipe recipe = {
        .keys = {{.key = "llama.rope.scaling.type", .kind = GGUF_STRING, .string = "ntk"}}};
    refuse_model(state, &recipe, ERROR_UNKNOWN_TYPE, "rope scaling \"ntk\" is not known");
}

TEST(rope_scaling_reaches_the_frequencies)
{
    struct model *plain = open_recipe(state, &(struct model_recipe){0});
    struct model_recipe recipe = {
        .keys = {{.key = "llama.rope.scaling.type", .kind = GGUF_STRING, .string = "linear"},
                 {.key = "llama.rope.scaling.factor", .kind = GGUF_F32, .number = 4.0}}};
    struct model *model = open_recipe(state, &recipe);
    assert_true(model->rope[0].frequencies[3] == plain->rope[0].frequencies[3] / 4.0);
    assert_int_equal(model->shape.rope.n_tables, 1);
    model_close(model);
    recipe.keys[0].string = "yarn";
    recipe.keys[2] = (struct made_key){.key = "llama.rope.scaling.original_context_length",
                                       .kind = GGUF_U32,
                                       .number = 128};
    model = open_recipe(state, &recipe);
    assert_int_equal(model->shape.n_context_original, 128);
    assert_true(model->rope[0].frequencies[0] == 1.0);
    assert_true(fabs(model->rope[0].magnitude - (1.0 + 0.1 * log(4.0))) < 1e-12);
    model_close(model);
    model_close(plain);
}

TEST(gemma3_rotates_windowed_layers_by_a_table_of_their_own)
{
    struct model *model = open_recipe(state, &(struct model_recipe){.family = "gemma3", .n_layers = 7});
    assert_int_equal(model->shape.rope.n_tables, 2);
    assert_true(fabs(model->rope[0].frequencies[1] - pow(1e6, -2.0 / 16)) < 1e-12);
    assert_true(fabs(model->rope[1].frequencies[1] - pow(1e4, -2.0 / 16)) < 1e-12);
    for (int i = 0; i < 7; i++)
        assert_int_equal(model->layers[i].windowed, i != 5);
    model_close(model);
}

TEST(windows_follow_the_family_or_the_file)
{
    struct model *model = open_recipe(state, &(struct model_recipe){.family = "gemma2", .n_layers = 4});
    for (int i = 0; i < 4; i++)
        assert_int_equal(model->layers[i].windowed, i % 2 == 0);
    model_close(model);
    model = open_recipe(state, &(struct model_recipe){.family = "mistral", .window = 100});
    assert_int_equal(model->shape.window.n_positions, 100);
    assert_true(model->layers[0].windowed && model->layers[1].windowed);
    model_close(model);
    model = open_recipe(state, &(struct model_recipe){0});
    assert_false(model->layers[0].windowed);
    model_close(model);
}

TEST(fused_tensors_stand_as_slices)
{
    struct model *model = open_recipe(state, &(struct model_recipe){.family = "phi3", .type = TENSOR_Q8_0});
    const struct model_layer *layer = &model->layers[1];
    uint64_t row_bytes = 64 / 32 * 34;
    assert_int_equal(layer->tensors[SLOT_ATTN_K].dims[1], 32);
    assert_ptr_equal(layer->tensors[SLOT_ATTN_K].data,
                     (const char *)layer->tensors[SLOT_ATTN_Q].data + 64 * row_bytes);
    assert_ptr_equal(layer->tensors[SLOT_ATTN_V].data,
                     (const char *)layer->tensors[SLOT_ATTN_K].data + 32 * row_bytes);
    assert_ptr_equal(layer->tensors[SLOT_FFN_UP].data,
                     (const char *)layer->tensors[SLOT_FFN_GATE].data + 96 * row_bytes);
    assert_int_equal(layer->tensors[SLOT_FFN_UP].size_bytes, 96 * row_bytes);
    model_close(model);
    model = open_recipe(state, &(struct model_recipe){.family = "gpt2"});
    layer = &model->layers[0];
    assert_int_equal(layer->biases[SLOT_ATTN_V].dims[0], 64);
    assert_ptr_equal(layer->biases[SLOT_ATTN_V].data,
                     (const char *)layer->biases[SLOT_ATTN_Q].data + 128 * sizeof(float));
    model_close(model);
}

TEST(an_absent_output_matrix_is_the_embedding)
{
    struct model *model = open_recipe(state, &(struct model_recipe){.tied = true});
    assert_ptr_equal(model->output.data, model->token_embd.data);
    model_close(model);
    model = open_recipe(state, &(struct model_recipe){0});
    assert_ptr_not_equal(model->output.data, model->token_embd.data);
    // 2 x 320 x 64, 2 layers of 64x64 x 2 + 32x64 x 2 + 3 x 96x64 + 2 x 64, and a norm
    assert_int_equal(model_n_parameters(model), 40960 + 2 * (12288 + 18432 + 128) + 64);
    assert_int_equal(model_weight_bytes(model), 4 * model_n_parameters(model));
    model_close(model);
}

TEST(every_token_needs_a_row)
{
    open_and_close(state, &(struct model_recipe){.tokenizer = true});
    refuse_model(state, &(struct model_recipe){.tokenizer = true, .n_tokens_beyond = 1}, ERROR_MODEL_FILE,
                 "tensor token_embd.weight: 320 rows for 321 tokens");
}

TEST(a_vocabulary_without_tensors_is_no_model)
{
    struct model_files *folder = *state;
    struct buffer file = {0};
    struct model *model;
    struct error error;
    put_header(&file, 3, 0, 1);
    put_key_string(&file, "general.architecture", "llama");
    write_file(folder->path, file.data, file.size);
    buffer_finish(&file);
    assert_int_equal(model_open(&model, folder->path, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "the file holds a vocabulary but no tensors"));
    assert_int_equal(model_open(&model, "/nowhere/model.gguf", &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "/nowhere/model.gguf"));
}

static uint64_t fingerprint(void **state, const struct model_recipe *recipe)
{
    struct model *model = open_recipe(state, recipe);
    uint64_t hash = model_fingerprint(model, NULL, NULL);
    model_close(model);
    return hash;
}

// The fingerprint is of every byte, and of no name.
TEST(copies_have_one_fingerprint_and_one_byte_another)
{
    struct model_files *folder = *state;
    struct model_recipe recipe = {.seed = 1, .tokenizer = true};
    uint64_t first = fingerprint(state, &recipe);
    struct buffer content = {0};
    char bytes[65536], other[300];
    FILE *file = fopen(folder->path, "rb");
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
        buffer_add(&content, bytes, n);
    fclose(file);
    snprintf(other, sizeof other, "%s.copy", folder->path);
    for (int changed = 0; changed < 4; changed++) {
        size_t at = changed ? content.size * (size_t)changed / 4 + 1000 : 0; // in the weights
        content.data[at] ^= changed ? 1 : 0;
        write_file(other, content.data, content.size);
        struct model *model;
        struct error error;
        assert_ok(model_open(&model, other, &error), &error);
        assert_int_equal(model_fingerprint(model, NULL, NULL) == first, changed == 0);
        model_close(model);
        content.data[at] ^= changed ? 1 : 0;
    }
    remove(other);
    buffer_finish(&content);
}

static bool count_request(void *context)
{
    int *n_left = context;
    return (*n_left)-- == 0;
}

// A file of 130 MiB, almost all of it a hole: hashing looks at the interrupt every 64 MiB.
TEST(a_large_file_is_hashed_in_parts)
{
    struct model_files *folder = *state;
    struct error error;
    uint64_t hashes[3];
    for (off_t i = 0; i < 3; i++) { // with a byte at 0, 64 and 128 MiB
        struct mapped_file file;
        int descriptor = open(folder->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(descriptor >= 0);
        assert_int_equal(ftruncate(descriptor, 130 << 20), 0);
        assert_int_equal(pwrite(descriptor, "x", 1, i * (64 << 20)), 1);
        close(descriptor);
        assert_ok(mapped_file_open(&file, folder->path, &error), &error);
        hashes[i] = mapped_file_hash(&file, 0, NULL, NULL);
        for (int n_looks = 0; n_looks < 4; n_looks++) {
            int n_left = n_looks;
            struct interrupt interrupt = {count_request, &n_left};
            assert_int_equal(mapped_file_hash(&file, 0, NULL, &interrupt), n_looks < 3 ? 0 : hashes[i]);
        }
        mapped_file_close(&file);
    }
    assert_true(hashes[0] != hashes[1] && hashes[1] != hashes[2] && hashes[0] != hashes[2]);
}

// A fingerprint stands in results: it is the same in every version, and with any number of threads.
TEST(a_file_s_hash_is_of_its_mebibytes_and_its_size)
{
    struct model_files *folder = *state;
    enum { MIB = 1048576, BYTES_MAX = 3 * MIB + 5 };
    static const size_t sizes[] = {1, MIB - 1, MIB, MIB + 1, 2 * MIB, BYTES_MAX};
    uint8_t *bytes = malloc(BYTES_MAX);
    assert_non_null(bytes);
    for (size_t i = 0; i < BYTES_MAX; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 1000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct mapped_file file;
        struct error error;
        uint64_t whole[] = {0, sizes[i]};
        for (size_t start = 0; start < sizes[i]; start += MIB)
            whole[0] +=
                hash_bytes(bytes + start, sizes[i] - start < MIB ? sizes[i] - start : MIB, start / MIB);
        FILE *out = fopen(folder->path, "wb");
        assert_int_equal(fwrite(bytes, 1, sizes[i], out), sizes[i]);
        assert_int_equal(fclose(out), 0);
        assert_ok(mapped_file_open(&file, folder->path, &error), &error);
        assert_int_equal(mapped_file_hash(&file, 7, NULL, NULL), hash_bytes(whole, sizeof whole, 7));
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            struct pool *pool;
            assert_ok(pool_create(&pool, n_threads, &error), &error);
            assert_int_equal(mapped_file_hash(&file, 7, pool, NULL), hash_bytes(whole, sizeof whole, 7));
            pool_destroy(pool);
        }
        mapped_file_close(&file);
    }
    free(bytes);
}

TEST(a_file_s_bytes_are_read_or_left_in_the_mapping)
{
    struct model_files *folder = *state;
    enum { BYTES = 3 * 4096 };
    static const uint8_t elsewhere[16];
    uint8_t bytes[BYTES], buffer[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 1000);
    FILE *out = fopen(folder->path, "wb");
    assert_int_equal(fwrite(bytes, 1, BYTES, out), BYTES);
    assert_int_equal(fclose(out), 0);
    struct mapped_file file, none = {0};
    struct error error;
    assert_ok(mapped_file_open(&file, folder->path, &error), &error);
    static const size_t places[][2] = {{0, BYTES}, {0, 0}, {1, 4096}, {BYTES - 1, 1}, {BYTES, 0}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memset(buffer, 0xA5, sizeof buffer);
        assert_ptr_equal(mapped_file_read(&file, file.data + places[i][0], places[i][1], buffer), buffer);
        assert_memory_equal(buffer, bytes + places[i][0], places[i][1]);
        assert_true(places[i][1] == BYTES || buffer[places[i][1]] == 0xA5);
    }
    assert_ptr_equal(mapped_file_read(&file, file.data + 5, 7, NULL), file.data + 5);
    assert_ptr_equal(mapped_file_read(&file, file.data + 5, BYTES - 4, buffer),
                     file.data + 5); // one too many
    assert_ptr_equal(mapped_file_read(&file, elsewhere, 16, buffer), elsewhere);
    assert_ptr_equal(mapped_file_read(&none, elsewhere, 16, buffer), elsewhere);
    assert_ptr_equal(mapped_file_read(NULL, elsewhere, 16, buffer), elsewhere);
    assert_int_equal(truncate(folder->path, 4096), 0);
    assert_ptr_equal(mapped_file_read(&file, file.data, 4096, buffer), buffer);
    assert_ptr_equal(mapped_file_read(&file, file.data, 4097, buffer), file.data);
    mapped_file_close(&file);
}

TEST(fingerprints_tell_models_apart)
{
    struct model_recipe recipe = {.seed = 1, .tokenizer = true};
    uint64_t first = fingerprint(state, &recipe);
    assert_true(fingerprint(state, &recipe) == first);
    recipe.seed = 2; // other weights
    assert_true(fingerprint(state, &recipe) != first);
    recipe = (struct model_recipe){.seed = 1};
    assert_true(fingerprint(state, &recipe) != first); // no vocabulary
    recipe.tokenizer = true;
    recipe.keys[0] =
        (struct made_key){.key = "tokenizer.chat_template", .kind = GGUF_STRING, .string = "{{ messages }}"};
    assert_true(fingerprint(state, &recipe) != first);
    recipe.keys[0] = (struct made_key){.key = "llama.rope.freq_base", .kind = GGUF_F32, .number = 10000.001};
    assert_true(fingerprint(state, &recipe) != first);
}

TEST_FIXTURE(set_up, tear_down);
