// Settings of folders besides the vocabulary: chat templates, end tokens, sampling defaults.
#include "engine/file/gguf_made.h"
#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"
#include "tests/support/gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct folder_file {
    const char *name, *content;
};

static void write_files(const char *directory, const struct folder_file *files, size_t n_files)
{
    char path[160];
    snprintf(path, sizeof path, "%s/additional_chat_templates", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < n_files; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i].name);
        write_file(path, files[i].content, strlen(files[i].content));
    }
}

// The keys that the files and config.json become; NULL: refused.
static struct gguf *open_with_config(const char *json, const struct folder_file *files, size_t n_files,
                                     struct error *error)
{
    char directory[64];
    make_directory(directory);
    write_files(directory, files, n_files);
    struct arena arena = {0};
    struct gguf_writer keys = {0};
    struct gguf *gguf = NULL;
    struct folder_files folder = {directory, &arena, NULL};
    struct value config;
    struct error ignored;
    assert_int_equal(json_decode(text_from_string(json), &arena, &config, &ignored), STATUS_OK);
    if (folder_add_tokenizer(&folder, &config, &keys, error) == STATUS_OK &&
        gguf_create(&gguf, directory, &keys, NULL, 0, (struct gguf_source){0}, error) != STATUS_OK)
        fail_msg("%s", error->text);
    gguf_writer_finish(&keys);
    arena_finish(&arena);
    remove_directory(directory);
    return gguf;
}

static struct gguf *open_files(const struct folder_file *files, size_t n_files, struct error *error)
{
    return open_with_config("{\"eos_token_id\":5}", files, n_files, error);
}

#define OPEN(files, error) open_files(files, sizeof(files) / sizeof *(files), error)

static void assert_text(const struct gguf *gguf, const char *key, const char *expected)
{
    struct text text = {0};
    struct error error;
    assert_int_equal(gguf_text(gguf, key, &text, NULL, &error), STATUS_OK);
    if (!text_equals_string(text, expected))
        fail_msg("%s: expected \"%s\", got \"%.*s\"", key, expected, (int)text.size,
                 text.data ? text.data : "");
}

static void assert_templates(const struct folder_file *files, size_t n_files, const char *usual,
                             const char *tool_use)
{
    struct error error = {0};
    struct gguf *gguf = open_files(files, n_files, &error);
    if (!gguf)
        fail_msg("%s", error.text);
    assert_text(gguf, "tokenizer.chat_template", usual);
    assert_text(gguf, "tokenizer.chat_template.tool_use", tool_use);
    gguf_close(gguf);
}

#define BOTH                                                                                                 \
    "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},{\"name\":\"rag\",\"template\":\"R\"},"  \
    "{\"name\":\"default\",\"template\":\"D\"}]}"

static void templates_come_from_the_files_in_the_order_of_transformers(void **state)
{
    static const struct folder_file processor[] = {{"chat_template.json", "{\"chat_template\":\"P\"}"}};
    static const struct folder_file one[] = {{"tokenizer_config.json", "{\"chat_template\":\"C\"}"},
                                             {"chat_template.json", "{\"chat_template\":\"P\"}"}};
    static const struct folder_file list[] = {{"tokenizer_config.json", BOTH}};
    static const struct folder_file tools_alone[] = {
        {"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"}]}"}};
    static const struct folder_file jinja[] = {{"tokenizer_config.json", BOTH}, {"chat_template.jinja", "J"}};
    static const struct folder_file more[] = {{"tokenizer_config.json", BOTH},
                                              {"chat_template.jinja", "J"},
                                              {"additional_chat_templates/tool_use.jinja", "A"}};
    static const struct folder_file odd[] = {
        {"tokenizer_config.json", "{\"chat_template\":[7,{\"name\":7},{\"name\":\"default\"}]}"}};
    assert_templates(NULL, 0, "", "");
    assert_templates(processor, 1, "P", "");
    assert_templates(one, 2, "C", "");
    assert_templates(list, 1, "D", "T");
    assert_templates(tools_alone, 1, "", "T");
    assert_templates(jinja, 2, "J", "");
    assert_templates(more, 3, "J", "A");
    assert_templates(odd, 1, "", "");
}

// Ids as "7 9", and, where there are any, as "7 9, 5" those that count only as control tokens.
static void assert_ends_with(const char *config, const struct folder_file *files, size_t n_files,
                             const char *expected)
{
    static const char *const keys[] = {"tokenizer.huggingface.eos_token_ids",
                                       "tokenizer.huggingface.further_eos_token_ids"};
    struct error error;
    char got[128] = "";
    struct gguf *gguf = open_with_config(config, files, n_files, &error);
    assert_non_null(gguf);
    for (int k = 0; k < 2; k++) {
        struct gguf_array ends = {0};
        assert_int_equal(gguf_array(gguf, keys[k], &ends, NULL, &error), STATUS_OK);
        for (size_t i = 0; i < ends.n_items; i++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld",
                     i   ? " "
                     : k ? ", "
                         : "",
                     (long long)gguf_array_integer(&ends, i));
    }
    assert_string_equal(got, expected);
    gguf_close(gguf);
}

static void assert_ends(const struct folder_file *files, size_t n_files, const char *expected)
{
    assert_ends_with("{\"eos_token_id\":5}", files, n_files, expected);
}

static void ends_are_those_of_generation_config_else_of_config_and_control_tokens_of_both(void **state)
{
    static const struct folder_file list[] = {{"generation_config.json", "{\"eos_token_id\":[7,9,7]}"}};
    static const struct folder_file one[] = {{"generation_config.json", "{\"eos_token_id\":8}"}};
    static const struct folder_file same[] = {{"generation_config.json", "{\"eos_token_id\":[4,5]}"}};
    static const struct folder_file none[] = {{"generation_config.json", "{\"eos_token_id\":null}"}};
    assert_ends(list, 1, "7 9, 5");
    assert_ends(one, 1, "8, 5");
    assert_ends(same, 1, "4 5");
    assert_ends(none, 1, "5");
    assert_ends(NULL, 0, "5");
}

static void ends_of_a_text_model_within_another_come_after_those_of_the_outer_one(void **state)
{
    static const struct folder_file one[] = {{"generation_config.json", "{\"eos_token_id\":8}"}};
    assert_ends_with("{\"text_config\":{\"eos_token_id\":[1,106]}}", NULL, 0, "1 106");
    assert_ends_with("{\"eos_token_id\":null,\"text_config\":{\"eos_token_id\":2}}", NULL, 0, "2");
    assert_ends_with("{\"eos_token_id\":5,\"text_config\":{\"eos_token_id\":2}}", NULL, 0, "5, 2");
    assert_ends_with("{\"text_config\":{\"eos_token_id\":2}}", one, 1, "8, 2");
    assert_ends_with("{\"text_config\":{}}", NULL, 0, "");
    assert_ends_with("{\"text_config\":[2]}", NULL, 0, "");
}

static void special_tokens_are_a_key_where_they_name_more_than_the_configuration(void **state)
{
    static const struct folder_file files[] = {{"tokenizer_config.json",
                                                "{\"eos_token\":{\"content\":\"</s>\"}}"},
                                               {"special_tokens_map.json", "{\"eos_token\":\"<|im_end|>\"}"}};
    static const struct folder_file same[] = {
        {"tokenizer_config.json", "{\"eos_token\":{\"content\":\"</s>\"}}"},
        {"special_tokens_map.json", "{\"eos_token\":\"</s>\",\"additional_special_tokens\":[\"x\"]}"}};
    struct error error;
    struct gguf *gguf = OPEN(files, &error);
    assert_non_null(gguf);
    assert_text(gguf, "tokenizer.huggingface.special_tokens", files[1].content);
    gguf_close(gguf);
    gguf = OPEN(same, &error);
    assert_non_null(gguf);
    assert_false(gguf_has(gguf, "tokenizer.huggingface.special_tokens"));
    gguf_close(gguf);
}

static void
settings_of_sampling_that_are_not_built_are_a_key_and_those_of_the_tokenizer_an_error(void **state)
{
    static const struct folder_file sampling[] = {
        {"generation_config.json", "{\"typical_p\":1.0,\"num_beams\":1,\"no_repeat_ngram_size\":3}"}};
    static const struct folder_file split[] = {{"tokenizer_config.json", "{\"split_special_tokens\":true}"}};
    struct error error;
    struct gguf *gguf = OPEN(sampling, &error);
    assert_non_null(gguf);
    assert_text(gguf, MODEL_FOLDER_NO_SAMPLING,
                "generation_config.json: no_repeat_ngram_size 3 is not built");
    gguf_close(gguf);
    assert_null(OPEN(split, &error));
    assert_int_equal(error.status, STATUS_REFUSE);
    assert_non_null(strstr(error.text, "tokenizer_config.json: split_special_tokens true is not built"));
}

static void assert_number(const struct gguf *gguf, const char *key, double expected)
{
    double number = -1.0;
    struct error error;
    assert_int_equal(gguf_number(gguf, key, &number, NULL, &error), STATUS_OK);
    if ((float)number != (float)expected)
        fail_msg("%s: expected %g, got %g", key, expected, number);
}

static void suppressed_tokens_become_the_key_that_gguf_files_have(void **state)
{
    static const struct folder_file some[] = {{"generation_config.json", "{\"suppress_tokens\":[258883,7]}"}};
    static const struct folder_file none[] = {{"generation_config.json", "{\"suppress_tokens\":[]}"}};
    static const struct folder_file null[] = {{"generation_config.json", "{\"suppress_tokens\":null}"}};
    static const struct folder_file wrong[] = {{"generation_config.json", "{\"suppress_tokens\":[7,-1]}"}};
    static const struct folder_file one[] = {{"generation_config.json", "{\"suppress_tokens\":7}"}};
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    struct gguf_array array;
    struct error error;
    struct gguf *gguf = OPEN(some, &error);
    assert_non_null(gguf);
    assert_int_equal(gguf_array(gguf, key, &array, NULL, &error), STATUS_OK);
    assert_true(array.kind == GGUF_I32 && array.n_items == 2);
    assert_int_equal(gguf_array_integer(&array, 0), 258883);
    assert_int_equal(gguf_array_integer(&array, 1), 7);
    assert_false(gguf_has(gguf, MODEL_FOLDER_NO_SAMPLING));
    gguf_close(gguf);
    gguf = OPEN(none, &error);
    assert_true(gguf && !gguf_has(gguf, key));
    gguf_close(gguf);
    gguf = OPEN(null, &error);
    assert_true(gguf && !gguf_has(gguf, key));
    gguf_close(gguf);
    assert_null(OPEN(wrong, &error));
    assert_non_null(strstr(error.text, "suppress_tokens: expected a list of token ids, got"));
    assert_null(OPEN(one, &error));
    assert_non_null(strstr(error.text, "suppress_tokens: expected a list of token ids, got 7"));
}

static void sampling_defaults_become_the_keys_that_gguf_files_have(void **state)
{
    static const struct folder_file files[] = {
        {"generation_config.json",
         "{\"do_sample\":true,\"temperature\":0.6,\"top_k\":20,\"top_p\":0.95,\"min_p\":0.05,"
         "\"repetition_penalty\":1.05,\"max_new_tokens\":2048,\"typical_p\":null}"}};
    struct error error;
    struct gguf *gguf = OPEN(files, &error);
    assert_non_null(gguf);
    assert_number(gguf, "general.sampling.temp", 0.6);
    assert_number(gguf, "general.sampling.top_k", 20);
    assert_number(gguf, "general.sampling.top_p", 0.95);
    assert_number(gguf, "general.sampling.min_p", 0.05);
    assert_number(gguf, "general.sampling.penalty_repeat", 1.05);
    assert_number(gguf, "general.sampling.max_new_tokens", 2048);
    gguf_close(gguf);
    static const struct folder_file odd[] = {{"generation_config.json", "{\"temperature\":\"warm\"}"}};
    assert_null(OPEN(odd, &error));
    assert_int_equal(error.status, STATUS_REFUSE);
    assert_string_equal(error.text, "generation_config.json: temperature: expected a number, got \"warm\"");
    static const struct folder_file null[] = {
        {"generation_config.json", "{\"temperature\":null,\"top_k\":null}"}};
    gguf = OPEN(null, &error);
    assert_false(gguf_has(gguf, "general.sampling.temp") || gguf_has(gguf, "general.sampling.top_k"));
    gguf_close(gguf);
}

static void files_that_are_no_json_objects_are_refused_by_name(void **state)
{
    static const char *const names[] = {"tokenizer_config.json", "chat_template.json",
                                        "generation_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct folder_file files[] = {{names[i], "[]"}};
        struct error error;
        assert_null(OPEN(files, &error));
        if (!strstr(error.text, names[i]) || !strstr(error.text, "expected an object"))
            fail_msg("%s", error.text);
        files[0].content = "{";
        assert_null(OPEN(files, &error));
        assert_int_equal(error.status, STATUS_REFUSE);
        assert_non_null(strstr(error.text, names[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_come_from_the_files_in_the_order_of_transformers),
        cmocka_unit_test(ends_are_those_of_generation_config_else_of_config_and_control_tokens_of_both),
        cmocka_unit_test(ends_of_a_text_model_within_another_come_after_those_of_the_outer_one),
        cmocka_unit_test(special_tokens_are_a_key_where_they_name_more_than_the_configuration),
        cmocka_unit_test(
            settings_of_sampling_that_are_not_built_are_a_key_and_those_of_the_tokenizer_an_error),
        cmocka_unit_test(suppressed_tokens_become_the_key_that_gguf_files_have),
        cmocka_unit_test(sampling_defaults_become_the_keys_that_gguf_files_have),
        cmocka_unit_test(files_that_are_no_json_objects_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
