// Where an answer is taken apart, its text is spelled again from its tokens, here one for each byte.
#include "batching/sequence.h"
#include "tests/support/cases.h"
#include "tests/support/job_records.h"
#include "tests/support/vocabulary_file.h"

TEST(content_after_thoughts_has_the_same_bad_utf8)
{
    static const struct {
        const char *bytes;
        enum finish_reason reason;
        const char *content;
    } cases[] = {
        {"<think>x</think>a\xE2\x82z", FINISH_STOP, "a\xEF\xBF\xBDz"},
        {"<think>x</think>a\xF0\x9F\x98", FINISH_STOP, "a\xEF\xBF\xBD"},
        {"<think>x</think>a\xF0\x9F\x98", FINISH_LENGTH, "a"},
        {"<think>x</think>a\x98", FINISH_LENGTH, "a\xEF\xBF\xBD"},
    };
    enum { FIRST_BYTE_TOKEN = 3 };
    struct vocabulary_file file = {0};
    struct error error;
    add_spm_start(&file);
    struct tokenizer *tokenizer = vocabulary_file_open(&file, "llama", "default", &error);
    assert_non_null(tokenizer);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job *job = decode_good("{'messages':[{'role':'user','content':'p'}]}");
        struct prompt *prompt = prompt_create(job);
        assert_non_null(prompt);
        struct sequence_answer *answer = &prompt->sequences.items[0].answer;
        answer_format_detect(&prompt->rules.format, TEXT("{% set close = '</think>' %}"));
        assert_non_null(prompt->rules.format.thinking);
        size_t n = strlen(cases[i].bytes);
        answer->generated = calloc(n, sizeof *answer->generated);
        answer->n_generated = (int32_t)n;
        for (size_t at = 0; at < n; at++)
            answer->generated[at] = FIRST_BYTE_TOKEN + (unsigned char)cases[i].bytes[at];
        buffer_add(&answer->text, cases[i].bytes, n);
        answer->finish_reason = cases[i].reason;
        prompt_finish_job(prompt, tokenizer);
        const struct choice *choice = &job->result.choices[0];
        if (!text_equals_string(choice->text, cases[i].content))
            fail_msg("case %zu: got \"%.*s\", expected \"%s\"", i, (int)choice->text.size, choice->text.data,
                     cases[i].content);
        assert_true(text_equals_string(choice->reasoning, "x"));
        prompt_destroy(prompt);
        job_destroy(job);
    }
    tokenizer_close(tokenizer);
}
