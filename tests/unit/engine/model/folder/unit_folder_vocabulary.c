// Folders without tokenizer.json: tokenizer.model, vocab.json with merges.txt, tekken.json. The ids are those
// of sentencepiece 0.2.3, tokenizers 0.23.3 and mistral_common 1.13.1 for the same small vocabularies.
#include "engine/file/gguf_made.h"
#include "engine/model/folder/folder_parts.h"
#include "engine/model/folder/model_folder.h"
#include "engine/tokenizer/tokenizer.h"
#include "schemas/base/base64.h"
#include "tests/support/cases.h"
#include "tests/support/gguf_writer.h"

#define M "\xE2\x96\x81" // U+2581

// --- Folders ---

struct vocabulary_folder {
    char directory[64];
    struct tokenizer *tokenizer; // NULL: refused
    struct error error;
};

static void bench_open(struct vocabulary_folder *bench)
{
    *bench = (struct vocabulary_folder){0};
    make_directory(bench->directory);
}

static void put_bytes(const struct vocabulary_folder *bench, const char *name, const struct buffer *content)
{
    char path[160];
    assert_false(content->failed);
    snprintf(path, sizeof path, "%s/%s", bench->directory, name);
    write_file(path, content->data, content->size);
}

static void put_file(const struct vocabulary_folder *bench, const char *name, const char *content)
{
    struct buffer bytes = {0};
    buffer_add_string(&bytes, content);
    put_bytes(bench, name, &bytes);
    buffer_finish(&bytes);
}

// With `config` as config.json.
static void bench_read(struct vocabulary_folder *bench, const char *config)
{
    struct arena arena = {0};
    struct gguf_writer keys = {0};
    struct gguf *gguf = NULL;
    struct value json;
    struct folder_files files = {bench->directory, &arena, NULL};
    tokenizer_close(bench->tokenizer);
    bench->tokenizer = NULL;
    assert_int_equal(json_decode(text_from_string(config), &arena, &json, &bench->error), STATUS_OK);
    enum status status = folder_add_tokenizer(&files, &json, &keys, &bench->error);
    if (status == STATUS_OK)
        status = gguf_create(&gguf, bench->directory, &keys, NULL, 0, (struct gguf_source){0}, &bench->error);
    if (status == STATUS_OK)
        status = tokenizer_open(&bench->tokenizer, gguf, NULL, &bench->error);
    assert_true(status == STATUS_OK || status == STATUS_REFUSE);
    gguf_close(gguf);
    gguf_writer_finish(&keys);
    arena_finish(&arena);
}

static void bench_close(struct vocabulary_folder *bench)
{
    tokenizer_close(bench->tokenizer);
    remove_directory(bench->directory);
}

static void assert_ids(const struct vocabulary_folder *bench, const char *text, unsigned flags,
                       const char *expected)
{
    struct token_array ids = {0};
    struct error error;
    char got[256] = "";
    if (!bench->tokenizer)
        fail_msg("%s", bench->error.text);
    assert_ok(tokenizer_encode(bench->tokenizer, text_from_string(text), flags, &ids, &error), &error);
    for (size_t i = 0; i < ids.n_ids; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), i ? " %d" : "%d", ids.ids[i]);
    if (strcmp(got, expected) != 0)
        fail_msg("\"%s\": expected %s, got %s", text, expected, got);
    assert_true(tokenizer_least_tokens(bench->tokenizer, text_from_string(text)) <= (int64_t)ids.n_ids);
    token_array_finish(&ids);
}

struct folder_ids {
    const char *text, *ids;
};

static void assert_cases(const struct vocabulary_folder *bench, unsigned flags,
                         const struct folder_ids *cases, size_t n_cases)
{
    for (size_t i = 0; i < n_cases; i++)
        assert_ids(bench, cases[i].text, flags, cases[i].ids);
}

#define CASES(bench, flags, ...)                                                                             \
    do {                                                                                                     \
        static const struct folder_ids cases[] = {__VA_ARGS__};                                              \
        assert_cases(bench, flags, cases, sizeof cases / sizeof *cases);                                     \
    } while (0)

static void assert_refused(struct vocabulary_folder *bench, const char *config, const char *words)
{
    bench_read(bench, config);
    if (bench->tokenizer || !strstr(bench->error.text, words))
        fail_msg("expected \"%s\" in: %s", words, bench->error.text);
}

static void assert_ends(const struct vocabulary_folder *bench, const char *expected)
{
    char got[128] = "";
    if (!bench->tokenizer)
        fail_msg("%s", bench->error.text);
    for (int32_t id = 0; id < tokenizer_n_tokens(bench->tokenizer); id++)
        if (tokenizer_ends_generation(bench->tokenizer, id))
            snprintf(got + strlen(got), sizeof got - strlen(got), got[0] ? " %d" : "%d", id);
    assert_string_equal(got, expected);
}

// --- tokenizer.model ---

static void put_varint(struct buffer *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        buffer_add_byte(out, (char)(value | 0x80));
    buffer_add_byte(out, (char)value);
}

static void put_number(struct buffer *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_part(struct buffer *out, unsigned field, const char *data, size_t size)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, size);
    buffer_add(out, data, size);
}

static void put_piece(struct buffer *model, const char *piece, float score, unsigned type)
{
    struct buffer message = {0};
    put_part(&message, 1, piece, strlen(piece));
    put_varint(&message, 2 << 3 | 5);
    buffer_add(&message, &score, sizeof score);
    put_number(&message, 3, type);
    put_part(model, 1, message.data, message.size);
    buffer_finish(&message);
}

struct piece_settings {
    bool bytes, no_fallback, no_prefix, removes_blanks, no_escape, suffix;
    unsigned model_type; // 0: BPE
    const char *charsmap;
};

static void put_settings(struct buffer *model, const struct piece_settings *settings)
{
    struct buffer trainer = {0}, normalizer = {0};
    put_number(&trainer, 3, settings->model_type ? settings->model_type : 2);
    put_number(&trainer, 24, settings->suffix);
    put_number(&trainer, 35, settings->bytes && !settings->no_fallback);
    put_part(model, 2, trainer.data, trainer.size);
    put_part(&normalizer, 1, "identity", 8);
    if (settings->charsmap)
        put_part(&normalizer, 2, settings->charsmap, strlen(settings->charsmap));
    put_number(&normalizer, 3, !settings->no_prefix);
    put_number(&normalizer, 4, settings->removes_blanks);
    put_number(&normalizer, 5, !settings->no_escape);
    put_part(model, 3, normalizer.data, normalizer.size);
    buffer_finish(&trainer);
    buffer_finish(&normalizer);
}

static void put_sentencepiece(const struct vocabulary_folder *bench, const struct piece_settings *settings)
{
    static const char *const pieces[] = {"ab", M "a", M "ab", M M, "\xC3\xA9", M, "a", "b", "c"};
    struct buffer model = {0};
    put_piece(&model, "<unk>", 0, 2);
    put_piece(&model, "<s>", 0, 3);
    put_piece(&model, "</s>", 0, 3);
    put_piece(&model, "<t>", 0, 4);
    put_piece(&model, "b" M, 0, 4);
    for (int i = 0; settings->bytes && i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        put_piece(&model, name, 0, settings->no_fallback ? 1 : 6);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        put_piece(&model, pieces[i], -1.0f - (float)i, 1);
    put_settings(&model, settings);
    put_bytes(bench, "tokenizer.model", &model);
    buffer_finish(&model);
}

TEST(a_tokenizer_model_gives_the_ids_of_sentencepiece)
{
    struct vocabulary_folder bench;
    bench_open(&bench);
    put_sentencepiece(&bench, &(struct piece_settings){0});
    bench_read(&bench, "{}");
    CASES(&bench, 0, {"ab a", "6 4 11"}, {"  ab", "8 7"}, {"a<t>ab", "6 3 5"}, {"<t>", "10 3"},
          {"ab ab c", "6 4 11 4 13"}, {"xyc x", "10 0 13 10 0"},
          {"\xC3\xA9"
           "ab!",
           "10 9 5 0"},
          {"", ""}, {"<s>a", "10 0 11"}, {"ab  \n", "6 4 10 0"});
    put_sentencepiece(&bench, &(struct piece_settings){.no_prefix = true});
    bench_read(&bench, "{}");
    CASES(&bench, 0, {"ab a", "11 4 11"}, {"  ab", "10 7"}, {"a<t>ab", "11 3 5"}, {"<t>", "3"},
          {"ab ab c", "11 4 11 4 13"}, {"xyc x", "0 13 10 0"},
          {"\xC3\xA9"
           "ab!",
           "9 5 0"},
          {"<s>a", "0 11"});
    put_sentencepiece(&bench, &(struct piece_settings){.bytes = true});
    bench_read(&bench, "{}");
    CASES(&bench, 0, {"ab a", "262 4 267"}, {"  ab", "264 263"}, {"a<t>ab", "262 3 261"},
          {"xyc x", "266 125 126 269 266 125"},
          {"\xC3\xA9"
           "ab!",
           "266 265 261 38"},
          {"<s>a", "266 65 120 67 267"});
    put_sentencepiece(&bench, &(struct piece_settings){.bytes = true, .no_fallback = true});
    bench_read(&bench, "{}");
    CASES(&bench, 0, {"xyc x", "266 0 269 266 0"}, {"ab!", "263 0"}, {"<0x21>", "266 0"});
    bench_close(&bench);
}

TEST(a_decoded_tokenizer_model_gives_its_text_back)
{
    static const char *const texts[] = {"ab a", "  ab", "a<t>ab b c", "xyz \xE2\x82\xAC\n"};
    struct vocabulary_folder bench;
    bench_open(&bench);
    put_sentencepiece(&bench, &(struct piece_settings){.bytes = true});
    bench_read(&bench, "{}");
    assert_true(tokenizer_strips_first_space(bench.tokenizer));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct token_array ids = {0};
        struct buffer text = {0};
        assert_int_equal(tokenizer_encode(bench.tokenizer, text_from_string(texts[i]), 0, &ids, &bench.error),
                         STATUS_OK);
        for (size_t id = 0; id < ids.n_ids; id++)
            tokenizer_decode(bench.tokenizer, ids.ids[id], true, &text);
        assert_int_equal(text.size, strlen(texts[i]) + 1);
        assert_memory_equal(text.data + 1, texts[i], text.size - 1);
        buffer_finish(&text);
        token_array_finish(&ids);
    }
    bench_close(&bench);
}

TEST(a_folder_adds_tokens_to_its_tokenizer_model_and_says_which_are_special)
{
    const unsigned special = TOKENIZER_PARSE_SPECIAL, both = special | TOKENIZER_ADD_SPECIAL;
    struct vocabulary_folder bench;
    bench_open(&bench);
    put_sentencepiece(&bench, &(struct piece_settings){0});
    bench_read(&bench, "{\"eos_token_id\":2}");
    CASES(&bench, both, {"a<s>a", "1 6 1 6"}); // a blank before each part
    assert_ends(&bench, "2");
    put_file(
        &bench, "tokenizer_config.json",
        "{\"add_bos_token\":false,\"add_eos_token\":true,\"legacy\":false,\"eos_token\":\"<|im_end|>\","
        "\"added_tokens_decoder\":{\"1\":{\"content\":\"<s>\",\"special\":true},\"15\":{\"content\":"
        "\"<|im_end|>\",\"special\":true,\"rstrip\":true},\"16\":{\"content\":\"[U]\",\"special\":false}}}");
    put_file(&bench, "added_tokens.json", "{\"[U]\":16,\"<|x|>\":17}");
    put_file(&bench, "special_tokens_map.json", "{\"eos_token\":\"<|x|>\"}");
    bench_read(&bench, "{\"eos_token_id\":2}");
    CASES(&bench, both, {"a<s>a", "6 1 11 15"}, {"a<|im_end|> \nc[U]<|x|>", "6 15 13 16 17 15"});
    CASES(&bench, 0, {"[U]<|x|>", "16 0"});
    assert_ends(&bench, "2 15 17");
    put_file(&bench, "generation_config.json", "{\"eos_token_id\":[1]}");
    bench_read(&bench, "{\"eos_token_id\":[2,11]}");
    assert_ends(&bench, "1 2 15 17"); // 11 is "a": no control token
    bench_close(&bench);
}

TEST(what_a_tokenizer_model_wants_beyond_this_is_refused_by_name)
{
    static const struct {
        struct piece_settings settings;
        const char *words;
    } cases[] = {
        {{.model_type = 3}, "tokenizer.model: a model of words is not built"},
        {{.model_type = 4}, "tokenizer.model: a model of characters is not built"},
        {{.charsmap = "x"}, "tokenizer.model: precompiled_charsmap"},
        {{.removes_blanks = true}, "tokenizer.model: remove_extra_whitespaces true is not built"},
        {{.no_escape = true}, "tokenizer.model: escape_whitespaces false is not built"},
        {{.suffix = true}, "tokenizer.model: treat_whitespace_as_suffix true is not built"},
    };
    struct vocabulary_folder bench;
    bench_open(&bench);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_sentencepiece(&bench, &cases[i].settings);
        assert_refused(&bench, "{}", cases[i].words);
    }
    put_sentencepiece(&bench, &(struct piece_settings){0});
    put_file(&bench, "tokenizer_config.json",
             "{\"added_tokens_decoder\":{\"16\":{\"content\":\"x\",\"single_word\":true}}}");
    assert_refused(&bench, "{}", "single_word");
    put_file(&bench, "tokenizer_config.json", "{}");
    put_file(&bench, "tokenizer.model", "IQ== 0\nIg== 1\n");
    assert_refused(&bench, "{}", "tokenizer.model: expected a model of SentencePiece");
    put_file(&bench, "tokenizer.model", "");
    assert_refused(&bench, "{}", "tokenizer.model: expected a model of SentencePiece");
    bench_close(&bench);
}

static void put_unigram(const struct vocabulary_folder *bench, const char *file, const char *const *special,
                        size_t n_special, size_t unknown)
{
    struct buffer model = {0};
    for (size_t i = 0; i < n_special; i++)
        put_piece(&model, special[i], 0, i == unknown ? 2 : 3);
    put_piece(&model, M "a", -1, 1);
    put_piece(&model, M "b", -2, 1);
    put_settings(&model, &(struct piece_settings){.model_type = 1, .removes_blanks = true});
    put_bytes(bench, file, &model);
    buffer_finish(&model);
}

TEST(t5_ends_a_text_and_deberta_puts_texts_together_as_bert)
{
    static const char *const t5[] = {"<pad>", "</s>", "<unk>"}, *const deberta[] = {"[PAD]", "[CLS]", "[SEP]",
                                                                                    "[UNK]"};
    struct vocabulary_folder bench;
    struct token_array ids = {0}, types = {0};
    struct error error;
    size_t n_cut;
    const struct tokenizer_input pair = {.texts = {TEXT("a b"), TEXT("b")}, .n_texts = 2};
    bench_open(&bench);
    put_unigram(&bench, "spiece.model", t5, 3, 2);
    bench_read(&bench, "{}");
    CASES(&bench, TOKENIZER_ADD_SPECIAL, {"a  b", "3 4 1"}, {"", "1"});
    bench_close(&bench);
    bench_open(&bench);
    put_unigram(&bench, "spm.model", deberta, 4, 3);
    bench_read(&bench, "{}");
    CASES(&bench, TOKENIZER_ADD_SPECIAL, {"a  b", "1 4 5 2"}, {"", "1 2"});
    assert_ok(tokenizer_encode_input(bench.tokenizer, &pair, TOKENIZER_ADD_SPECIAL, &ids, &types, &n_cut,
                                     &error),
              &error);
    static const int32_t expected[] = {1, 4, 5, 2, 5, 2}, expected_types[] = {0, 0, 0, 0, 1, 1};
    assert_int_equal(ids.n_ids, 6);
    assert_memory_equal(ids.ids, expected, sizeof expected);
    assert_memory_equal(types.ids, expected_types, sizeof expected_types);
    token_array_finish(&ids);
    token_array_finish(&types);
    put_file(&bench, "tokenizer_config.json", "{\"do_lower_case\":true}");
    assert_refused(&bench, "{}", "spm.model: do_lower_case true without tokenizer.json");
    put_file(&bench, "tokenizer_config.json", "{\"split_by_punct\":true}");
    assert_refused(&bench, "{}", "spm.model: split_by_punct true without tokenizer.json");
    put_file(&bench, "tokenizer_config.json", "{\"do_lower_case\":false,\"split_by_punct\":false}");
    bench_read(&bench, "{}");
    bench_close(&bench);
}

// --- vocab.json and merges.txt ---

static void put_vocabulary(const struct vocabulary_folder *bench, const char *tokenizer_config)
{
    put_file(
        bench, "vocab.json",
        "{\"<|endoftext|>\":0,\"a\":1,\"b\":2,\"ab\":3,\"\\u0120\":4,\"\\u0120ab\":5,\"\\u010a\":6,\"1\":7,\"2\":8,"
        "\"12\":9,\"\\u00c3\":10,\"\\u00a9\":11,\"\\u00c3\\u00a9\":12,\"#\":13,\"##\":14,\"'\":15,\"s\":16,\"'s\":17,"
        "\"\\u0120a\":18}");
    put_file(bench, "merges.txt",
             "#version: 0.2\n# #\na b\n\xC4\xA0 ab\n1 2\n\xC3\x83 \xC2\xA9\n' s\r\n\xC4\xA0 a\n");
    put_file(bench, "tokenizer_config.json", tokenizer_config);
}

#define DESCRIBED                                                                                            \
    "\"eos_token\":\"<|im_end|>\",\"added_tokens_decoder\":{\"19\":{\"content\":\"<|im_end|>\",\"special\":" \
    "true},\"20\":{\"content\":\"[T]\",\"special\":false,\"lstrip\":true}}}"

TEST(vocab_json_and_merges_txt_are_read_as_their_class_says)
{
    const unsigned special = TOKENIZER_PARSE_SPECIAL;
    struct vocabulary_folder bench;
    bench_open(&bench);
    put_vocabulary(&bench, "{\"tokenizer_class\":\"GPT2Tokenizer\"," DESCRIBED);
    bench_read(&bench, "{\"model_type\":\"llama\"}");
    CASES(&bench, special, {"ab ab", "3 5"}, {"12##", "9 14"},
          {"\xC3\xA9 e\xCC\x81"
           "a",
           "12 4 1"},
          {"ab's\n", "3 17 6"}, {"a  [T]b<|im_end|><|endoftext|>", "1 20 2 19 0"});
    assert_ends(&bench, "19");
    put_vocabulary(&bench, "{\"tokenizer_class\":\"GPT2TokenizerFast\",\"add_prefix_space\":true," DESCRIBED);
    bench_read(&bench, "{\"model_type\":\"llama\"}");
    CASES(&bench, special, {"ab ab", "5 5"}, {"12##", "4 9 14"},
          {"a  [T]b<|im_end|><|endoftext|>", "18 20 4 2 19 0"});
    put_vocabulary(&bench, "{\"tokenizer_class\":\"Qwen2Tokenizer\"," DESCRIBED);
    bench_read(&bench, "{\"model_type\":\"llama\"}");
    CASES(&bench, special, {"ab ab", "3 5"}, {"12##", "7 8 14"},
          {"\xC3\xA9 e\xCC\x81"
           "a",
           "12 4 12 1"},
          {"ab's\n", "3 17 6"}, {"a  [T]b<|im_end|><|endoftext|>", "1 20 2 19 0"});
    bench_close(&bench);
}

TEST(older_folders_list_their_added_tokens_apart)
{
    struct vocabulary_folder bench;
    bench_open(&bench);
    put_vocabulary(&bench, "{}");
    put_file(&bench, "added_tokens.json", "{\"<|im_end|>\":19,\"[T]\":20}");
    put_file(&bench, "special_tokens_map.json",
             "{\"eos_token\":\"<|endoftext|>\",\"additional_special_tokens\":[\"<|im_end|>\"]}");
    bench_read(&bench, "{\"model_type\":\"qwen2\"}");
    CASES(&bench, TOKENIZER_PARSE_SPECIAL, {"12[T]<|im_end|><|endoftext|>", "7 8 20 19 0"});
    CASES(&bench, 0, {"12[T]", "7 8 20"});
    assert_ends(&bench, "0");
    bench_read(&bench, "{\"model_type\":\"gpt2\"}");
    CASES(&bench, 0, {"12[T]", "9 20"});
    assert_refused(&bench, "{\"model_type\":\"llama\"}", "vocab.json and merges.txt of model_type \"llama\"");
    put_vocabulary(&bench, "{\"tokenizer_class\":\"BartTokenizer\"}");
    assert_refused(&bench, "{\"model_type\":\"gpt2\"}", "tokenizer_class \"BartTokenizer\"");
    put_vocabulary(&bench, "{}");
    put_file(&bench, "merges.txt", "a b\nab\n");
    assert_refused(&bench, "{\"model_type\":\"gpt2\"}", "merges.txt: line 2");
    put_file(&bench, "merges.txt", "#version: 0.2\n\n");
    assert_refused(&bench, "{\"model_type\":\"gpt2\"}", "merges.txt: no merges");
    put_file(&bench, "vocab.json", "[]");
    assert_refused(&bench, "{\"model_type\":\"gpt2\"}", "vocab.json");
    bench_close(&bench);
}

// --- tekken.json ---

static void put_tekken(const struct vocabulary_folder *bench, const char *special_tokens)
{
    static const char *const words[] = {"ab", "bc", "abc", " a", "<s", "<s>", "\xC3\xA9", "12", "cut"};
    enum { N_WORDS = sizeof words / sizeof *words, N_SPECIAL = 24 };
    struct buffer json = {0};
    buffer_add_format(
        &json,
        "{\"config\":{\"pattern\":\"<s>|\\\\p{N}| ?\\\\p{L}+|[^\\\\p{L}\\\\p{N}]+\",\"default_vocab_size\":%d,"
        "\"default_num_special_tokens\":%d,\"version\":\"v3\"}%s,\"vocab\":[",
        N_SPECIAL + 256 + N_WORDS - 1, N_SPECIAL, special_tokens);
    for (int i = 0; i < 256 + N_WORDS; i++) {
        char byte = (char)i;
        buffer_add_format(&json, "%s{\"rank\":%d,\"token_str\":null,\"token_bytes\":\"", i ? "," : "", i);
        base64_encode(i < 256 ? (struct text){&byte, 1} : text_from_string(words[i - 256]), &json);
        buffer_add_string(&json, "\"}");
    }
    buffer_add_string(&json, "]}");
    put_bytes(bench, "tekken.json", &json);
    buffer_finish(&json);
}

TEST(tekken_json_gives_the_ids_of_mistral_common)
{
    static const char *const special_tokens[] = {
        "",
        ",\"special_tokens\":[{\"rank\":0,\"token_str\":\"<unk>\"},{\"rank\":1,\"token_str\":\"<s>\"},{\"rank\":2,"
        "\"token_str\":\"</s>\"},{\"rank\":3,\"token_str\":\"[X]\"}]"};
    struct vocabulary_folder bench;
    bench_open(&bench);
    for (int i = 0; i < 2; i++) {
        put_tekken(&bench, special_tokens[i]);
        bench_read(&bench, "{}");
        // "<s>" as text is a token of the vocabulary's own
        CASES(&bench, 0, {"abc ab", "282 56 280"}, {"abab bcabc", "280 280 56 281 282"},
              {"<s>\xC3\xA9"
               "12",
               "285 286 73 74"},
              {"cut a", "123 141 140 283"}, {"x<s> <s>a", "144 285 56 84 139 86 121"});
        assert_int_equal(tokenizer_n_tokens(bench.tokenizer), 288);
        assert_ids(&bench, "<s>[X]</s><SPECIAL_20>", TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL,
                   i == 0 ? "1 1 115 112 117 2 20" : "1 1 3 2 20");
        assert_ends(&bench, "2");
    }
    put_tekken(&bench, ",\"special_tokens\":[{\"rank\":24,\"token_str\":\"<unk>\"}]");
    assert_refused(&bench, "{}", "tekken.json: special_tokens");
    put_file(&bench, "tekken.json", "{\"config\":{},\"vocab\":[]}");
    assert_refused(&bench, "{}", "tekken.json: expected \"config\"");
    put_file(&bench, "tekken.json", "[");
    assert_refused(&bench, "{}", "tekken.json");
    bench_close(&bench);
}

// --- Others ---

TEST(tiktoken_files_and_adapters_are_named)
{
    static const char *const adapters[] = {"adapter_config.json", "adapter_model.safetensors"};
    struct vocabulary_folder bench;
    bench_open(&bench);
    assert_refused(&bench, "{}", "a folder needs tokenizer.json (or tokenizer.model");
    put_file(&bench, "tiktoken.model", "IQ== 0\n");
    assert_refused(&bench, "{}", "tiktoken.model");
    bench_close(&bench);
    for (int i = 0; i < 2; i++) {
        struct gguf *gguf;
        char expected[160];
        bench_open(&bench);
        put_file(&bench, "config.json", "{\"model_type\":\"llama\"}");
        put_file(&bench, adapters[i], "{\"base_model_name_or_path\":\"maker/model\",\"r\":8}");
        snprintf(expected, sizeof expected, "%s: a LoRA adapter of %s beside the weights", adapters[i],
                 i == 0 ? "maker/model" : "another model");
        assert_int_equal(model_folder_open(&gguf, bench.directory, &bench.error), STATUS_REFUSE);
        if (!strstr(bench.error.text, expected))
            fail_msg("expected \"%s\" in: %s", expected, bench.error.text);
        bench_close(&bench);
    }
}
