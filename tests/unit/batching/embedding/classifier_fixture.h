// A tokenizer of single letters and a model without layers, for tests of the inputs of a classification head.
#pragma once

#include "batching/embedding/classifier_input.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/support/cases.h"

// Tokens: 0 [C], 1 [S], 2 a, 3 b, 4 c, 5 the blank.
static inline struct tokenizer *create_tokenizer(const char *processor)
{
    char json[4096];
    struct vocabulary vocabulary = {0};
    struct tokenizer *tokenizer = NULL;
    struct error error;
    snprintf(
        json, sizeof json,
        "{\"added_tokens\":[{\"id\":0,\"content\":\"[C]\",\"special\":true},{\"id\":1,\"content\":\"[S]\","
        "\"special\":true}],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"post_processor\":%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"[C]\":0,\"[S]\":1,\"a\":2,\"b\":3,\"c\":4,"
        "\"\xC4\xA0\":5,\"[\":6,\"]\":7,\"S\":8},\"merges\":[]}}",
        processor);
    const struct vocabulary_json files = {.tokenizer = text_from_string(json), .config = TEXT("{}")};
    assert_ok(vocabulary_parse_json(&vocabulary, &files, &error), &error);
    assert_ok(tokenizer_create(&tokenizer, &vocabulary, &error), &error);
    vocabulary_finish(&vocabulary);
    return tokenizer;
}

static const char bert_processor[] = "{\"type\":\"BertProcessing\",\"sep\":[\"[S]\",1],\"cls\":[\"[C]\",0]}";

struct input_fixture {
    struct tokenizer *tokenizer;
    struct model model;
    struct classifier_facts facts;
    struct classifier_reader reader;
};

static inline void open_fixture(struct input_fixture *fixture, const char *template)
{
    static const float rows[2] = {0};
    *fixture =
        (struct input_fixture){.tokenizer = create_tokenizer(bert_processor),
                               .model = {.shape = {.bidirectional = true, .n_context = 32},
                                         .token_types = {.data = rows, .dims = {1, 2, 1, 1}, .n_dims = 2}},
                               .facts = {.padding = -1,
                                         .answers = {{.id = -1}, {.id = -1}},
                                         .template = text_from_string(template)}};
    fixture->reader = (struct classifier_reader){
        .model = &fixture->model, .tokenizer = fixture->tokenizer, .facts = &fixture->facts, .n_longest = 16};
}
