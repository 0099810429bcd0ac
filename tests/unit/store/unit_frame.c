// Frames: what records share, found from samples, and records that are cut into gaps and filled again.
#include "schemas/base/text.h"
#include "store/frame/frame.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static struct buffer frame, gaps, record;
static const struct frame_ids no_ids;

static struct text text_of(const struct buffer *buffer)
{
    return (struct text){buffer->data ? buffer->data : "", buffer->size};
}

static bool finds(const char *const *texts, size_t n, bool numbers_vary)
{
    struct text samples[FRAME_SAMPLES];
    for (size_t i = 0; i < n; i++)
        samples[i] = text_from_string(texts[i]);
    return frame_find(samples, n, numbers_vary, &frame);
}

static void assert_frame(const char *expected)
{
    for (size_t i = 0; i < frame.size; i++)
        if (frame.data[i] == FRAME_GAP)
            frame.data[i] = '|';
    assert_string_equal(frame.data, expected);
    for (size_t i = 0; i < frame.size; i++)
        if (frame.data[i] == '|')
            frame.data[i] = FRAME_GAP;
}

static void assert_round(struct text parts, struct text whole, const struct frame_ids *ids)
{
    buffer_clear(&gaps);
    buffer_clear(&record);
    assert_true(frame_match(parts, whole, ids, &gaps));
    assert_true(frame_fill(parts, text_of(&gaps), ids, &record));
    assert_int_equal(record.size, whole.size);
    assert_memory_equal(record.data, whole.data, whole.size);
}

static bool matches(const char *parts, const char *whole)
{
    buffer_clear(&gaps);
    bool does = frame_match(text_from_string(parts), text_from_string(whole), &no_ids, &gaps);
    assert_true(does || gaps.size == 0);
    return does;
}

TEST(a_frame_is_the_system_text_the_template_and_the_schema)
{
    static const char *const requests[] = {
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You sort reviews.\"},{\"role\":\"user\",\"content\":\""
        "What is the tone of this review of a book?\\nIt is good.\\nAnswer with a single word, please: \"}],"
        "\"temperature\":0,\"seed\":1234}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You sort reviews.\"},{\"role\":\"user\",\"content\":\""
        "What is the tone of this review of a lamp?\\nBroken, \\\"warm\\\".\\nAnswer with a single word, please: "
        "\"}],\"temperature\":0,\"seed\":77}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You sort reviews.\"},{\"role\":\"user\",\"content\":\""
        "What is the tone of this review of a tree?\\n\\nAnswer with a single word, please: \"}],"
        "\"temperature\":0,\"seed\":90}"};
    assert_true(finds(requests, 3, false));
    assert_frame(
        "{\"messages\":[{\"role\":\"system\",\"content\":\"You sort reviews.\"},{\"role\":\"user\",\"content\":\""
        "What is the tone of this review of a |\\nAnswer with a single word, please: \"}],"
        "\"temperature\":0,\"seed\":|");
    for (size_t i = 0; i < 3; i++)
        assert_round(text_of(&frame), text_from_string(requests[i]), &no_ids);
}

TEST(each_number_of_a_result_is_a_gap_and_ids_stand_for_themselves)
{
    static const char *const results[] = {
        "{\"job_id\":\"47887677d0596d37\",\"custom_id\":\"row-1\",\"created\":1796001703,\"choices\":[{\"text\":\"mixed\","
        "\"finish_reason\":\"stop\"}],\"ok\":true,\"usage\":{\"tokens\":17}}",
        "{\"job_id\":\"3d57059059371a1a\",\"custom_id\":\"row-2\",\"created\":1796001703,\"choices\":[{\"text\":\"pos\","
        "\"finish_reason\":\"stop\"}],\"ok\":true,\"usage\":{\"tokens\":17}}"};
    assert_true(finds(results, 2, true));
    assert_frame(
        "{\"job_id\":\"|\",\"custom_id\":\"|\",\"created\":|,\"choices\":[{\"text\":\"|\",\"finish_reason\":\"stop\"}],"
        "\"ok\":true,\"usage\":{\"tokens\":|");
    const struct frame_ids ids = {TEXT("47887677d0596d37"), TEXT("row-1")};
    assert_round(text_of(&frame), text_from_string(results[0]), &ids);
    assert_string_equal(gaps.data, "\x1e\x1f\x1d\x1f"
                                   "1796001703\x1fmixed\x1f"
                                   "17}}");
    assert_round(text_of(&frame), text_from_string(results[1]), &ids); // another job's: whole ids
}

TEST(what_few_samples_share_by_chance_within_a_text_is_no_part)
{
    static const char *const requests[] = {
        "{\"prompt\":\"2026-01-05 the weather was fine\",\"temperature\":0,\"max_tokens\":16}",
        "{\"prompt\":\"2026-01-06 a fine day, the weather too\",\"temperature\":0,\"max_tokens\":16}"};
    assert_true(finds(requests, 2, false));
    assert_frame("{\"prompt\":\"|\",\"temperature\":0,\"max_tokens\":16}");
    static const char *const accents[] = {"{\"a\":\"\xC3\xA9\",\"temperature\":0,\"max_tokens\":16}",
                                          "{\"a\":\"\xC3\xA8\",\"temperature\":0,\"max_tokens\":16}"};
    assert_true(finds(accents, 2, false));
    assert_frame("{\"a\":\"|\",\"temperature\":0,\"max_tokens\":16}");
}

TEST(samples_with_nothing_in_common_have_no_frame)
{
    static const char *const others[] = {"{\"prompt\":\"a\"}", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"};
    static const char *const small[] = {"{\"prompt\":\"a\"}", "{\"prompt\":\"b\"}"};
    assert_false(finds(others, 2, false));
    assert_false(finds(small, 2, false)); // would save less than FRAME_SAVED_LEAST
    assert_false(finds(others, 1, false));
}

TEST(a_record_that_differs_from_the_frame_or_has_its_marks_does_not_match)
{
    assert_true(matches("a\x1f"
                        "b",
                        "ab"));
    assert_true(matches("a\x1f"
                        "b",
                        "axxb"));
    assert_true(matches("\x1f", ""));
    assert_false(matches("a\x1f"
                         "b",
                         "a"));
    assert_false(matches("aba\x1f"
                         "ba",
                         "aba")); // the first and the last part may not overlap
    assert_true(matches("aba\x1f"
                        "ba",
                        "ababa"));
    assert_false(matches("a\x1fx\x1f"
                         "b",
                         "ab"));
    assert_true(matches("a\x1fx\x1f"
                        "b",
                        "axb"));
    assert_false(matches("ab", "ab")); // no gap
    assert_false(matches("", ""));
    static const char *const marked[] = {"a\x1f"
                                         "b",
                                         "a\x1e"
                                         "b",
                                         "a\x1d"
                                         "b",
                                         "a\\u001fb",
                                         "a\\u001eb",
                                         "ax\\u001db"};
    for (size_t i = 0; i < sizeof marked / sizeof *marked; i++)
        assert_false(matches("a\x1f"
                             "b",
                             marked[i]));
    assert_true(matches("a\x1f"
                        "b",
                        "a\\u001cb"));
    assert_true(matches("a\x1f"
                        "b",
                        "a\\u0010b"));
    assert_false(frame_match(TEXT("a\x1f"
                                  "b"),
                             (struct text){"a\0b", 3}, &no_ids, &gaps));
}

TEST(gaps_of_another_frame_are_no_record)
{
    assert_false(frame_fill(TEXT("a\x1f"
                                 "b"),
                            TEXT("x\x1fy"), &no_ids, &record));
    assert_false(frame_fill(TEXT("a\x1f"
                                 "b\x1f"
                                 "c"),
                            TEXT("x"), &no_ids, &record));
    buffer_clear(&record);
    assert_true(frame_fill(TEXT("a\x1f"
                                "b"),
                           (struct text){0}, &no_ids, &record));
    assert_string_equal(record.data, "ab");
}

// Texts over a small alphabet share many substrings.
TEST(random_records_come_back_as_they_were)
{
    uint64_t random = random_seed(17);
    int n_found = 0;
    for (int round = 0; round < 3000; round++) {
        char texts[FRAME_SAMPLES][512];
        const char *pointers[FRAME_SAMPLES];
        int n = 2 + (int)(random_below(&random, FRAME_SAMPLES - 1)),
            n_common = (int)(random_below(&random, 6));
        for (int i = 0; i < n; i++) {
            size_t size = 0;
            for (int part = 0; part < n_common; part++) {
                size += (size_t)snprintf(texts[i] + size, sizeof texts[i] - size,
                                         "\"part %d of all of them\":\"", part);
                for (int j = (int)(random_below(&random, 20)); j > 0; j--)
                    texts[i][size++] = "ab\",\\:"[random_below(&random, 6)];
            }
            snprintf(texts[i] + size, sizeof texts[i] - size, "%s", round % 2 ? "\"}" : "");
            pointers[i] = texts[i];
        }
        if (!finds(pointers, (size_t)n, round % 3 == 0))
            continue;
        n_found++;
        for (int i = 0; i < n; i++) {
            buffer_clear(&gaps);
            if (frame_match(text_of(&frame), text_from_string(texts[i]), &no_ids, &gaps))
                assert_round(text_of(&frame), text_from_string(texts[i]), &no_ids);
        }
    }
    assert_true(n_found > 1000);
}

static int finish(void **state)
{
    buffer_finish(&frame);
    buffer_finish(&gaps);
    buffer_finish(&record);
    return 0;
}

GROUP_FIXTURE(NULL, finish);
