// The certificate's file: one reading of each, all of it bound by the statement, and what it refuses.
#include "consumer/certificate/certificate.h"
#include "tests/support/cases.h"

static const char whole[] =
    "{\"sheaf_certificate\": 1, \"rows\": 2, \"format\": \"csv\", \"arithmetic\": \"sheaf=4 model=1\", \"columns\": [\"a\","
    "\"b\"], \"answers\": [\"label\"], \"unread\": [\"c\"], \"options\": {\"prompt\": \"{{ a }}\", \"votes\": 3, "
    "\"choice\": [\"x,y\"], \"schema\": {\"maximum\": 1.5}, \"figures\": true}, "
    "\"root\": \"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\", \"tags\": \"0123cdef\"}";

static char *replaced(const char *old, const char *new)
{
    const char *at = strstr(whole, old);
    char *text = NULL;
    assert_non_null(at);
    assert_true(asprintf(&text, "%.*s%s%s", (int)(at - whole), whole, new, at + strlen(old)) >= 0);
    return text;
}

static enum status decode(struct certificate *certificate, const char *json, struct error *error)
{
    return certificate_decode(certificate, text_from_string(json), error);
}

static struct sha256 statement_of(const char *json)
{
    struct certificate certificate;
    struct sha256 leaf;
    struct error error = {0};
    if (decode(&certificate, json, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_true(certificate_statement(&certificate, &leaf));
    certificate_finish(&certificate);
    return leaf;
}

TEST(a_certificate_is_read_as_it_was_written)
{
    struct certificate certificate, again;
    struct error error;
    struct buffer first = {0}, second = {0};
    assert_int_equal(decode(&certificate, whole, &error), STATUS_OK);
    assert_int_equal(certificate.n_rows, 2);
    assert_int_equal(certificate.format, TABLE_CSV);
    assert_int_equal(certificate.tags.items[1], 0xcdef);
    assert_int_equal(certificate.root.bytes[1], 0x11);
    certificate_encode(&certificate, &first);
    assert_int_equal(decode(&again, first.data, &error), STATUS_OK);
    certificate_encode(&again, &second);
    assert_string_equal(first.data, second.data);
    certificate_finish(&certificate);
    certificate_finish(&again);
    buffer_finish(&first);
    buffer_finish(&second);
}

TEST(every_member_is_part_of_the_statement)
{
    static const char *const changes[][2] = {{"\"rows\": 2", "\"rows\": 3"},
                                             {"\"format\": \"csv\"", "\"format\": \"tsv\""},
                                             {"model=1", "model=2"},
                                             {"[\"a\",\"b\"]", "[\"b\",\"a\"]"},
                                             {"[\"a\",\"b\"]", "[\"ab\"]"},
                                             {"[\"label\"]", "[\"label\",\"d\"]"},
                                             {"\"unread\": [\"c\"]", "\"unread\": []"},
                                             {"{{ a }}", "{{ a }} "},
                                             {"\"votes\": 3", "\"votes\": 4"},
                                             {"\"x,y\"", "\"x\",\"y\""},
                                             {"\"maximum\": 1.5", "\"maximum\": 1.25"},
                                             {"\"figures\": true", "\"same_draws\": true"}};
    struct sha256 statement = statement_of(whole);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        bool is_longer = strstr(changes[i][1], "rows") != NULL;
        char *text = replaced(changes[i][0], changes[i][1]),
             *at = is_longer ? strstr(text, "0123cdef") : NULL;
        char *more = NULL;
        if (at)
            assert_true(asprintf(&more, "%.*s0123cdef0000\"}", (int)(at - text), text) >= 0);
        struct sha256 other = statement_of(more ? more : text);
        if (sha256_equal(&statement, &other))
            fail_msg("%s is not bound", changes[i][0]);
        free(text);
        free(more);
    }
    char *text = replaced("\"rows\": 2, \"format\": \"csv\"", "\"format\":\"csv\",\"rows\":2");
    struct sha256 reordered = statement_of(text); // members in another order and other blanks say the same
    assert_true(sha256_equal(&statement, &reordered));
    free(text);
}

TEST(what_is_no_certificate_is_refused_by_name)
{
    static const struct {
        const char *old, *new, *says;
    } faults[] = {
        {"\"sheaf_certificate\": 1", "\"sheaf_certificate\": 2", "expected version 1, got 2"},
        {"\"sheaf_certificate\": 1", "\"sheaf_certificate\": 1.0", "expected version 1"},
        {"\"sheaf_certificate\": 1, ", "", "without \"sheaf_certificate\""},
        {"\"rows\": 2, ", "", "without \"rows\""},
        {"\"rows\": 2, ", "\"rows\": 2, \"rows\": 2, ", "rows"},
        {"\"rows\": 2, ", "\"rows\": 2, \"signature\": 2, ", "no member \"signature\""},
        {"\"rows\": 2", "\"rows\": -1", "a number of rows"},
        {"\"rows\": 2", "\"rows\": 3", "tags: expected 4 digits"},
        {"\"csv\"", "\"xlsx\"", "format: expected csv"},
        {"\"csv\"", "1", "format: expected csv"},
        {"\"sheaf=4 model=1\"", "4", "arithmetic: expected"},
        {"model=1", "model=\\u0000", "arithmetic: expected"},
        {"[\"a\",\"b\"]", "[\"a\",\"a\"]", "different columns"},
        {"[\"a\",\"b\"]", "[\"a\",\"label\"]", "different columns"},
        {"[\"a\",\"b\"]", "[\"a\",1]", "names of columns"},
        {"[\"a\",\"b\"]", "{}", "a list of columns"},
        {"\"votes\": 3", "\"votes\": 0", "votes: expected a number above 0"},
        {"\"votes\": 3", "\"votes\": 65", "votes: expected a number above 0 within its range, got 65"},
        {"\"votes\": 3", "\"max_tokens\": 1048577", "max_tokens: expected a number above 0 within its range"},
        {"\"votes\": 3", "\"votes\": \"3\"", "votes: expected a number"},
        {"\"votes\": 3", "\"seeds\": 3", "no option is named \"seeds\""},
        {"\"votes\": 3", "\"votes\": 3, \"votes\": 3", "votes"},
        {"\"figures\": true", "\"figures\": false", "figures: expected true"},
        {"\"{{ a }}\"", "\"\\u0000\"", "prompt: expected a text"},
        {"[\"x,y\"]", "[]", "choice: expected a list"},
        {"[\"x,y\"]", "[3]", "choice: expected a list of texts"},
        {"{\"maximum\": 1.5}", "[]", "schema: expected an object"},
        {"0011223344", "00112233", "root: expected 64 digits"},
        {"aabbccddeeff", "AABBCCDDEEFF", "root: expected 64 digits"},
        {"0123cdef", "0123cde", "tags: expected 4 digits"},
        {"0123cdef", "0123CDEF", "tags: expected digits"},
        {"0123cdef\"}", "0123cdef\"", "JSON"},
        {"0123cdef\"}", "0123cdef\"} {}", ""},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct certificate certificate;
        struct error error = {0};
        char *text = replaced(faults[i].old, faults[i].new);
        enum status status = decode(&certificate, text, &error);
        if (status != STATUS_REFUSE || !strcasestr(error.text, faults[i].says))
            fail_msg("%s: %d, %s", faults[i].new, (int)status, error.text);
        certificate_finish(&certificate);
        free(text);
    }
    static const char *const others[] = {"", "null", "[]", "1", "{", "\"", "{}"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct certificate certificate;
        struct error error = {0};
        assert_int_equal(decode(&certificate, others[i], &error), STATUS_REFUSE);
        assert_true(error.text[0]);
        certificate_finish(&certificate);
    }
}

static struct sha256 leaf_of(int64_t number)
{
    return merkle_leaf(&number, sizeof number);
}

TEST(tags_of_a_long_table_are_of_groups_of_rows)
{
    struct row_tags tags = {0};
    static const int64_t lengths[] = {ROW_TAGS_MAX, ROW_TAGS_MAX + 1, 2 * ROW_TAGS_MAX, 2 * ROW_TAGS_MAX + 1};
    int64_t n = 0;
    for (size_t i = 0; i < 4; i++) {
        for (; n < lengths[i]; n++) {
            struct sha256 leaf = leaf_of(n);
            assert_true(row_tags_add(&tags, &leaf));
        }
        assert_int_equal(tags.group_rows, row_tags_group(n));
        assert_int_equal(tags.n, row_tags_count(n));
        assert_int_equal(tags.group_rows, i == 0 ? 1 : i < 3 ? 2 : 4);
    }
    uint16_t expected = 0;
    for (int64_t row = 4 * 1000; row < 4 * 1001; row++) {
        struct sha256 leaf = leaf_of(row);
        expected ^= (uint16_t)(leaf.bytes[0] << 8 | leaf.bytes[1]);
    }
    assert_int_equal(tags.items[1000], expected);
    row_tags_finish(&tags);
    assert_int_equal(row_tags_count(0), 0);
    assert_int_equal(row_tags_count(1), 1);
}
