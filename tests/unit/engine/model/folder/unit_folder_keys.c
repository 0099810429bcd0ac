// The keys of a folder's small files: each is read, has no part in results, or is refused by its name.
#include "engine/model/folder/folder_parts.h"
#include "tests/support/cases.h"

struct checked_keys {
    struct arena arena;
    struct buffer unknown;
    struct folder_files files;
    struct text refused;
};

static void check(struct checked_keys *bench, const char *file, const char *json)
{
    struct value object;
    struct error error;
    *bench = (struct checked_keys){0};
    bench->files = (struct folder_files){"folder", &bench->arena, &bench->unknown};
    assert_ok(json_decode(text_from_string(json), &bench->arena, &object, &error), &error);
    assert_ok(folder_check_keys(&bench->files, file, file, &object, &bench->refused, &error), &error);
}

static void finish(struct checked_keys *bench)
{
    arena_finish(&bench->arena);
    buffer_finish(&bench->unknown);
}

// Calls `what` for each text of a list separated by blanks.
static void each(const char *list,
                 void (*what)(const struct folder_key *key, struct text text, struct text name),
                 const struct folder_key *key, struct text name)
{
    while (list && *list) {
        size_t size = strcspn(list, " ");
        what(key, (struct text){list, size}, name);
        list += size + (list[size] == ' ');
    }
}

static void check_neutral(const struct folder_key *key, struct text value, struct text name)
{
    struct checked_keys bench;
    char json[512];
    snprintf(json, sizeof json, "{\"%.*s\":%.*s}", (int)name.size, name.data, (int)value.size, value.data);
    check(&bench, key->file, json);
    if (bench.refused.data)
        fail_msg("%s", bench.refused.data);
    finish(&bench);
}

static void check_name(const struct folder_key *key, struct text name, struct text none)
{
    struct checked_keys bench;
    char json[256], expected[256];
    if (folder_key_find(key->file, name) != key)
        fail_msg("%s: %.*s is listed twice", key->file, (int)name.size, name.data);
    check_neutral(key, TEXT("null"), name);
    each(key->neutral, check_neutral, key, name);
    snprintf(json, sizeof json, "{\"%.*s\":\"surprise\"}", (int)name.size, name.data);
    snprintf(expected, sizeof expected, "%s: %.*s \"surprise\" is not built", key->file, (int)name.size,
             name.data);
    check(&bench, key->file, json);
    assert_int_equal(bench.unknown.size, 0);
    assert_true(text_equal(bench.refused, text_from_string(key->use == KEY_REFUSED ? expected : NULL)));
    finish(&bench);
}

TEST(each_key_is_listed_once_and_refused_where_it_is_not_built)
{
    size_t n_keys;
    const struct folder_key *keys = folder_keys(&n_keys);
    for (size_t i = 0; i < n_keys; i++)
        each(keys[i].names, check_name, &keys[i], (struct text){0});
}

TEST(unknown_keys_are_refused_in_small_files_and_named_in_the_others)
{
    struct checked_keys bench;
    check(&bench, "sentence_bert_config.json", "{\"max_seq_length\":3,\"surprise\":1}");
    assert_true(text_equals_string(bench.refused, "sentence_bert_config.json: surprise 1 is not built"));
    finish(&bench);
    check(&bench, "config.json", "{\"hidden_size\":3,\"surprise\":1,\"nothing\":null,\"more\":[]}");
    assert_null(bench.refused.data);
    assert_true(text_equals_string((struct text){bench.unknown.data, bench.unknown.size},
                                   "config.json: surprise, config.json: more"));
    finish(&bench);
}

// The names that stand in a string of the source, each after a blank or the string's start.
static void assert_listed(const char *file, struct text names)
{
    char list[256];
    snprintf(list, sizeof list, "%.*s", (int)names.size, names.data);
    for (char *name = strtok(list, " "); name; name = strtok(NULL, " "))
        if (!folder_key_find(file, text_from_string(name)))
            fail_msg("%s: %s is read and not listed", file, name);
}

static char *read_source(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", SOURCE_ROOT, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *content = calloc(1, 1 << 20);
    assert_non_null(content);
    size_t size = fread(content, 1, (1 << 20) - 1, file);
    assert_true(size > 0 && size < (1 << 20) - 1);
    fclose(file);
    return content;
}

// Settings that folder_config.c asks for by name: the first text of such calls.
TEST(each_setting_of_config_json_that_is_read_is_listed)
{
    static const char *const calls[] = {"find_setting(config, \"", "read_integer(config, \"",
                                        "read_number(config, \"", "read_truth(config, \"",
                                        "read_integer(&config, \""};
    char *source = read_source("engine/model/folder/folder_config.c");
    size_t n_found = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (const char *at = source; (at = strstr(at, calls[c])); n_found++) {
            at += strlen(calls[c]);
            assert_listed("config.json", (struct text){at, strcspn(at, "\"")});
        }
    assert_true(n_found > 30);
    free(source);
}
