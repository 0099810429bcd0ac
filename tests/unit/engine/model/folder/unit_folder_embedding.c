// Folders of sentence-transformers: what their files say of vectors is read, or refused by its name.
#include "engine/model/folder/folder_parts.h"
#include "tests/support/cases.h"
#include "tests/support/safetensors_writer.h"

#include <sys/stat.h>

struct sentence_folder {
    struct arena arena;
    struct folder_files files;
    char directory[64];
    struct folder_embedding embedding;
    struct error error;
};

static void put_file(const struct sentence_folder *bench, const char *name, const char *content)
{
    char path[192];
    snprintf(path, sizeof path, "%s/%s", bench->directory, name);
    char *slash = strrchr(path + strlen(bench->directory) + 1, '/');
    if (slash) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    write_file(path, content, strlen(content));
}

static void bench_open(struct sentence_folder *bench)
{
    *bench = (struct sentence_folder){0};
    make_directory(bench->directory);
    bench->files = (struct folder_files){bench->directory, &bench->arena};
}

static enum status bench_read(struct sentence_folder *bench)
{
    bench->embedding = (struct folder_embedding){.files = &bench->files};
    return folder_read_embedding(&bench->embedding, &bench->error);
}

static void bench_close(struct sentence_folder *bench)
{
    arena_finish(&bench->arena);
    remove_directory(bench->directory);
}

static void assert_refused(struct text refused, const char *expected)
{
    if (!text_equal(refused, text_from_string(expected)))
        fail_msg("expected \"%s\", got \"%.*s\"", expected ? expected : "", (int)refused.size,
                 refused.data ? refused.data : "");
}

TEST(pooling_is_read_as_old_and_new_files_name_it)
{
    static const struct {
        const char *json;
        uint32_t type;
        const char *pooling_refused, *refused;
    } rows[] = {
        {"{\"pooling_mode\":\"mean\",\"embedding_dimension\":8,\"include_prompt\":true}", 1, NULL, NULL},
        {"{\"pooling_mode\":\"cls\"}", 2, NULL, NULL},
        {"{\"pooling_mode\":[\"lasttoken\"]}", 3, NULL, NULL},
        {"{\"pooling_mode\":\"mean\",\"pooling_mode_cls_token\":true}", 1, NULL, NULL}, // as the library
        {"{\"pooling_mode\":\"max\"}", 101, NULL, NULL},
        {"{\"pooling_mode\":\"mean_sqrt_len_tokens\"}", 102, NULL, NULL},
        {"{\"pooling_mode\":\"weightedmean\"}", 103, NULL, NULL},
        {"{\"pooling_mode\":\"zebra\"}", 0, "1_Pooling/config.json: pooling_mode \"zebra\" is not built",
         NULL},
        {"{\"pooling_mode\":[\"mean\",\"cls\"]}", 1, "1_Pooling/config.json: more than one mode is not built",
         NULL},
        {"{\"pooling_mode\":7}", 0, "1_Pooling/config.json: pooling_mode 7 is not built", NULL},
        {"{\"pooling_mode_cls_token\":false,\"pooling_mode_mean_tokens\":true}", 1, NULL, NULL},
        {"{\"pooling_mode_cls_token\":true}", 2, NULL, NULL},
        {"{\"pooling_mode_lasttoken\":true,\"include_prompt\":true}", 3, NULL, NULL},
        {"{\"pooling_mode_cls_token\":false,\"word_embedding_dimension\":8}", 1, NULL, NULL},
        {"{\"pooling_mode_max_tokens\":true}", 101, NULL, NULL},
        {"{\"pooling_mode_mean_sqrt_len_tokens\":true}", 102, NULL, NULL},
        {"{\"pooling_mode_weightedmean_tokens\":true}", 103, NULL, NULL},
        {"{\"pooling_mode_mean_tokens\":true,\"pooling_mode_max_tokens\":true}", 1,
         "1_Pooling/config.json: more than one mode is not built", NULL},
        {"{\"pooling_mode_cls_token\":true,\"pooling_mode_lasttoken\":true}", 2,
         "1_Pooling/config.json: more than one mode is not built", NULL},
        {"{\"pooling_mode_mean_tokens\":1}", 0,
         "1_Pooling/config.json: pooling_mode_mean_tokens is not built", NULL},
        {"{\"pooling_mode\":\"mean\",\"surprise\":1}", 1, NULL,
         "1_Pooling/config.json: surprise 1 is not built"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sentence_folder bench;
        bench_open(&bench);
        put_file(&bench, "1_Pooling/config.json", rows[i].json);
        assert_int_equal(bench_read(&bench), STATUS_OK);
        assert_int_equal(bench.embedding.pooling_type, rows[i].type);
        assert_refused(bench.embedding.pooling_refused, rows[i].pooling_refused);
        assert_refused(bench.embedding.refused, rows[i].refused);
        assert_false(bench.embedding.is_listed);
        bench_close(&bench);
    }
}

#define TRANSFORMER                                                                                          \
    "{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"}"
#define POOLING(path) "{\"path\":\"" path "\",\"type\":\"sentence_transformers.models.Pooling\"}"

TEST(modules_are_followed_to_their_folders)
{
    static const struct {
        const char *json, *pooling; // where the pooling's file is
        uint32_t type;
        bool normalizes;
        const char *refused;
    } rows[] = {
        {"[{\"type\":\"a.Transformer\"},{\"type\":\"a.Pooling\"},{\"type\":\"a.Normalize\"}]",
         "1_Pooling/config.json", 2, true, NULL},
        {"[" TRANSFORMER "," POOLING("2_Pool") "]", "2_Pool/config.json", 2, false, NULL},
        {"[" TRANSFORMER "," POOLING("p/") ",{\"type\":\"Dropout\"},{\"path\":\"3\",\"type\":\"Normalize\"}]",
         "p/config.json", 2, true, NULL},
        {"[" TRANSFORMER "," POOLING("other") "]", "1_Pooling/config.json", 0, false,
         "other/config.json: a missing file is not built"},
        {"[" TRANSFORMER "," POOLING("../p") "]", "1_Pooling/config.json", 0, false,
         "modules.json: such a path is not built"},
        {"[" TRANSFORMER "," POOLING("1_Pooling") "," POOLING("1_Pooling") "]", "1_Pooling/config.json", 2,
         false, "modules.json: sentence_transformers.models.Pooling is not built"},
        {"[{\"type\":\"a.Transformer\"},{\"type\":\"sentence_transformers.models.Dense\"}]",
         "1_Pooling/config.json", 0, false, "modules.json: sentence_transformers.models.Dense is not built"},
        {"[" TRANSFORMER "]", "1_Pooling/config.json", 0, false,
         "modules.json: a list of fewer than two modules is not built"},
        {"[" TRANSFORMER "," POOLING("1_Pooling") ",{\"type\":\"LayerNorm\"}]", "1_Pooling/config.json", 2,
         false, "modules.json: LayerNorm is not built"},
        {"[{\"type\":\"Transformer\",\"path\":\"0_Transformer\"}," POOLING("1_Pooling") "]",
         "1_Pooling/config.json", 2, false, "modules.json: a Transformer with a path is not built"},
        {"[{\"type\":\"Transformer\",\"kwargs\":[\"task\"]}," POOLING("1_Pooling") "]",
         "1_Pooling/config.json", 2, false, "modules.json: kwargs [\"task\"] is not built"},
        {"[7,8]", "1_Pooling/config.json", 0, false, "modules.json: a module without a type is not built"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sentence_folder bench;
        bench_open(&bench);
        put_file(&bench, "modules.json", rows[i].json);
        put_file(&bench, rows[i].pooling, "{\"pooling_mode\":\"cls\"}");
        assert_int_equal(bench_read(&bench), STATUS_OK);
        assert_true(bench.embedding.is_listed);
        assert_refused(bench.embedding.refused, rows[i].refused);
        assert_int_equal(bench.embedding.pooling_type, rows[i].type);
        assert_int_equal(bench.embedding.normalizes, rows[i].normalizes);
        bench_close(&bench);
    }
}

#define DENSE(path) "{\"path\":\"" path "\",\"type\":\"sentence_transformers.models.Dense\"}"

static void put_dense(const struct sentence_folder *bench, const char *folder, const char *config)
{
    static const float weight[6] = {1, 2, 3, 4, 5, 6}, bias[2] = {7, 8};
    static const uint64_t shape[2] = {2, 3};
    struct safetensors_writer writer = {0};
    char name[96], path[192];
    snprintf(name, sizeof name, "%s/config.json", folder);
    put_file(bench, name, config);
    put_entry(&writer, "linear.weight", "F32", 2, shape, weight, sizeof weight);
    put_entry(&writer, "linear.bias", "F32", 1, shape, bias, sizeof bias);
    snprintf(path, sizeof path, "%s/%s/model.safetensors", bench->directory, folder);
    write_safetensors(&writer, path);
}

TEST(linear_layers_are_read_with_their_weights)
{
    struct sentence_folder bench;
    bench_open(&bench);
    put_file(&bench, "modules.json",
             "[" TRANSFORMER "," POOLING("1_Pooling") "," DENSE("2_Dense") "," DENSE(
                 "3_Dense/") ",{\"type\":\"Normalize\"}]");
    put_file(&bench, "1_Pooling/config.json", "{}");
    put_dense(&bench, "2_Dense", "{\"in_features\":3,\"out_features\":2,\"bias\":true}");
    put_dense(&bench, "3_Dense", "{\"activation_function\":\"torch.nn.modules.linear.Identity\"}");
    assert_ok(bench_read(&bench), &bench.error);
    assert_refused(bench.embedding.refused, NULL);
    const struct folder_dense *dense = bench.embedding.dense;
    assert_int_equal(bench.embedding.n_dense, 2);
    assert_string_equal(dense[0].activation, "tanh"); // the default
    assert_null(dense[1].activation);
    assert_true(text_equals_string(dense[0].weight.name, "dense_2.weight"));
    assert_true(text_equals_string(dense[1].bias.name, "dense_3.bias"));
    assert_true(dense[1].weight.dims[0] == 3 && dense[1].weight.dims[1] == 2);
    assert_true(((const float *)dense[0].weight.data)[5] == 6 && ((const float *)dense[1].bias.data)[1] == 8);
    put_dense(&bench, "3_Dense", "{\"activation_function\":\"torch.nn.modules.activation.GELU\"}");
    assert_ok(bench_read(&bench), &bench.error);
    assert_refused(bench.embedding.refused,
                   "3_Dense/config.json: torch.nn.modules.activation.GELU is not built");
    put_dense(&bench, "3_Dense", "{\"surprise\":1}");
    assert_ok(bench_read(&bench), &bench.error);
    assert_refused(bench.embedding.refused, "3_Dense/config.json: surprise 1 is not built");
    put_file(&bench, "3_Dense/config.json", "{}");
    put_file(&bench, "3_Dense/model.safetensors", "");
    assert_int_equal(bench_read(&bench), STATUS_REFUSE);
    assert_non_null(strstr(bench.error.text, "3_Dense"));
    put_file(&bench, "modules.json",
             "[" TRANSFORMER "," POOLING("1_Pooling") ",{\"type\":\"Normalize\"}," DENSE("2_Dense") "]");
    assert_ok(bench_read(&bench), &bench.error);
    assert_refused(bench.embedding.refused, "modules.json: sentence_transformers.models.Dense is not built");
    bench_close(&bench);
}

TEST(a_normalized_part_other_than_the_vector_is_refused)
{
    struct sentence_folder bench;
    bench_open(&bench);
    put_file(&bench, "modules.json",
             "[" TRANSFORMER "," POOLING("1_Pooling") ",{\"path\":\"2_Normalize\",\"type\":\"Normalize\"}]");
    put_file(&bench, "1_Pooling/config.json", "{}");
    put_file(&bench, "2_Normalize/config.json", "{\"module_input_name\":\"sentence_embedding\"}");
    assert_int_equal(bench_read(&bench), STATUS_OK);
    assert_refused(bench.embedding.refused, NULL);
    put_file(&bench, "2_Normalize/config.json", "{\"module_input_name\":\"token_embeddings\"}");
    assert_int_equal(bench_read(&bench), STATUS_OK);
    assert_refused(bench.embedding.refused,
                   "2_Normalize/config.json: module_input_name \"token_embeddings\" is not built");
    bench_close(&bench);
}

TEST(settings_of_texts_are_read_or_refused)
{
    static const struct {
        const char *file, *json;
        uint32_t longest;
        const char *prompt, *refused;
    } rows[] = {
        {"sentence_bert_config.json", "{\"max_seq_length\":256,\"do_lower_case\":false}", 256, NULL, NULL},
        {"sentence_roberta_config.json", "{\"max_seq_length\":64}", 64, NULL, NULL},
        {"sentence_bert_config.json", "{\"max_seq_length\":null,\"model_args\":{},\"unpad_inputs\":true}", 0,
         NULL, NULL},
        {"sentence_bert_config.json",
         "{\"transformer_task\":\"feature-extraction\",\"modality_config\":{\"text\":{\"method\":\"forward\","
         "\"method_output_name\":\"last_hidden_state\"}},\"module_output_name\":\"token_embeddings\"}",
         0, NULL, NULL},
        {"sentence_bert_config.json",
         "{\"modality_config\":{\"message\":{\"method\":\"forward\",\"method_output_name\":\"x\"}}}", 0, NULL,
         "sentence_bert_config.json: modality_config {\"message\":{\"method\":\"forward\",\"method_output_name\":\"x\"}} is not built"},
        {"sentence_bert_config.json", "{\"do_lower_case\":true}", 0, NULL,
         "sentence_bert_config.json: do_lower_case true is not built"},
        {"sentence_bert_config.json", "{\"max_seq_length\":\"all\"}", 0, NULL,
         "sentence_bert_config.json: max_seq_length \"all\" is not built"},
        {"sentence_bert_config.json", "{\"max_seq_length\":0}", 0, NULL,
         "sentence_bert_config.json: max_seq_length 0 is not built"},
        {"sentence_bert_config.json", "{\"surprise\":[]}", 0, NULL,
         "sentence_bert_config.json: surprise [] is not built"},
        {"tokenizer_config.json", "{\"model_max_length\":128}", 0, NULL, NULL}, // no sentence-transformers
        {"config_sentence_transformers.json",
         "{\"__version__\":{},\"prompts\":{\"query\":\"Q: \",\"document\":\"\"},\"default_prompt_name\":"
         "\"query\",\"similarity_fn_name\":\"cosine\",\"model_type\":\"SentenceTransformer\"}",
         0, "Q: ", NULL},
        {"config_sentence_transformers.json",
         "{\"prompts\":{\"query\":\"Q: \"},\"default_prompt_name\":null,\"truncate_dim\":null}", 0, NULL,
         NULL},
        {"config_sentence_transformers.json",
         "{\"prompts\":{\"query\":\"Q: \"},\"default_prompt_name\":\"q\"}", 0, NULL,
         "config_sentence_transformers.json: a default_prompt_name that is not among the prompts is not built"},
        {"config_sentence_transformers.json", "{\"model_type\":\"SparseEncoder\"}", 0, NULL,
         "config_sentence_transformers.json: model_type \"SparseEncoder\" is not built"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sentence_folder bench;
        bench_open(&bench);
        put_file(&bench, rows[i].file, rows[i].json);
        assert_int_equal(bench_read(&bench), STATUS_OK);
        assert_refused(bench.embedding.refused, rows[i].refused);
        assert_int_equal(bench.embedding.n_tokens_max, rows[i].longest);
        assert_true(text_equal(bench.embedding.prompt, text_from_string(rows[i].prompt)));
        bench_close(&bench);
    }
}

TEST(a_tokenizer_s_longest_text_counts_where_modules_are_listed)
{
    static const struct {
        const char *json;
        uint32_t longest;
        const char *refused;
    } rows[] = {
        {"{\"model_max_length\":128}", 128, NULL},
        {"{\"model_max_length\":1000000000000000019884624838656}", 0, NULL},
        {"{\"model_max_length\":1e30}", 0, NULL},
        {"{\"model_max_length\":128,\"truncation_side\":\"right\"}", 128, NULL},
        {"{\"model_max_length\":128,\"truncation_side\":\"left\"}", 128,
         "tokenizer_config.json: truncation_side other than right is not built"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sentence_folder bench;
        bench_open(&bench);
        put_file(&bench, "modules.json", "[" TRANSFORMER "," POOLING("1_Pooling") "]");
        put_file(&bench, "1_Pooling/config.json", "{}");
        put_file(&bench, "tokenizer_config.json", rows[i].json);
        assert_int_equal(bench_read(&bench), STATUS_OK);
        assert_refused(bench.embedding.refused, rows[i].refused);
        assert_int_equal(bench.embedding.n_tokens_max, rows[i].longest);
        put_file(&bench, "sentence_bert_config.json", "{\"max_seq_length\":9}");
        assert_int_equal(bench_read(&bench), STATUS_OK);
        assert_int_equal(bench.embedding.n_tokens_max, 9);
        bench_close(&bench);
    }
}

TEST(a_prompt_that_pooling_leaves_out_and_fewer_dimensions_are_refused)
{
    struct sentence_folder bench;
    bench_open(&bench);
    put_file(&bench, "1_Pooling/config.json", "{\"pooling_mode\":\"mean\",\"include_prompt\":false}");
    put_file(&bench, "config_sentence_transformers.json", "{\"truncate_dim\":4}");
    assert_int_equal(bench_read(&bench), STATUS_OK);
    assert_refused(bench.embedding.refused, NULL);
    assert_refused(bench.embedding.dimensions_refused,
                   "config_sentence_transformers.json: truncate_dim is not built");
    put_file(&bench, "config_sentence_transformers.json",
             "{\"prompts\":{\"q\":\"Q\"},\"default_prompt_name\":\"q\"}");
    assert_int_equal(bench_read(&bench), STATUS_OK);
    assert_refused(bench.embedding.refused,
                   "config_sentence_transformers.json: a prompt that pooling leaves out (include_prompt "
                   "false) is not built");
    bench_close(&bench);
}

TEST(files_of_another_kind_are_refused_by_name)
{
    static const char *const rows[][2] = {{"1_Pooling/config.json", "[]"},
                                          {"modules.json", "{"},
                                          {"sentence_bert_config.json", "[]"},
                                          {"config_sentence_transformers.json", "{"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sentence_folder bench;
        bench_open(&bench);
        put_file(&bench, rows[i][0], rows[i][1]);
        assert_int_equal(bench_read(&bench), STATUS_REFUSE);
        assert_non_null(strstr(bench.error.text, rows[i][0]));
        bench_close(&bench);
    }
}
