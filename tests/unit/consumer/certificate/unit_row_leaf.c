// The leaf of a row: every part of it counts, and no two rows have the same bytes.
#include "consumer/certificate/row_leaf.h"
#include "tests/support/cases.h"

#include <math.h>

static struct sha256 hash_of(const char *text)
{
    return sha256_of(text, strlen(text));
}

TEST(each_part_of_a_row_changes_its_leaf)
{
    const struct row_leaf row = {
        LEAF_ROW, 7, hash_of("cells"), hash_of("request"), hash_of("arithmetic"), hash_of("answer")};
    struct row_leaf others[8];
    for (size_t i = 0; i < 8; i++)
        others[i] = row;
    others[0].kind = LEAF_LEFT_OUT;
    others[1].kind = LEAF_STATEMENT;
    others[2].number = 8;
    others[3].number = 7 + ((int64_t)1 << 56);
    others[4].cells = hash_of("other");
    others[5].request = hash_of("other");
    others[6].arithmetic = hash_of("other");
    others[7].answer = hash_of("other");
    struct sha256 leaf = row_leaf_hash(&row);
    for (size_t i = 0; i < 8; i++) {
        struct sha256 other = row_leaf_hash(&others[i]);
        assert_false(sha256_equal(&leaf, &other));
    }
    others[0] = row;
    others[0].cells = row.answer;
    others[0].answer = row.cells;
    struct sha256 swapped = row_leaf_hash(&others[0]);
    assert_false(sha256_equal(&leaf, &swapped));
}

static struct sha256 fields_of(const char *first, const char *second, const char *third)
{
    struct buffer fields = {0};
    const char *const texts[] = {first, second, third};
    for (size_t i = 0; i < 3; i++)
        if (texts[i])
            row_leaf_add_field(&fields, text_from_string(texts[i]));
    struct sha256 hash = sha256_of(fields.data, fields.size);
    buffer_finish(&fields);
    return hash;
}

TEST(text_that_moves_between_fields_changes_their_hash)
{
    static const char *const fields[][3] = {{"ab", "c", NULL}, {"a", "bc", NULL},   {"abc", "", NULL},
                                            {"", "abc", NULL}, {"abc", NULL, NULL}, {"ab", "c", ""}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (size_t j = 0; j < i; j++) {
            struct sha256 a = fields_of(fields[i][0], fields[i][1], fields[i][2]);
            struct sha256 b = fields_of(fields[j][0], fields[j][1], fields[j][2]);
            assert_false(sha256_equal(&a, &b));
        }
}

static void assert_text(struct value value, enum table_format format, const char *expected)
{
    struct buffer text = {0};
    row_leaf_add_text(&value, format, &text);
    assert_string_equal(text.data ? text.data : "", expected);
    buffer_finish(&text);
}

TEST(a_cell_is_the_text_that_csv_has)
{
    struct value items[] = {value_string(TEXT("a")), value_string(TEXT("b, c"))};
    struct value list = {.kind = VALUE_ARRAY};
    list.array.items = items;
    list.array.n_items = 2;
    assert_text((struct value){.kind = VALUE_NULL}, TABLE_JSONL, "");
    assert_text(value_string(TEXT(" a\"b ")), TABLE_CSV, " a\"b ");
    assert_text(value_integer(-5), TABLE_SQLITE, "-5");
    assert_text(value_float(0.1), TABLE_PARQUET, "0.1");
    assert_text(value_float(INFINITY), TABLE_SQLITE, "Inf");
    assert_text(value_float(-INFINITY), TABLE_SQLITE, "-Inf");
    assert_text(value_bool(true), TABLE_JSONL, "true");
    assert_text((struct value){.kind = VALUE_BYTES, .text = {"\x00\xff", 2}}, TABLE_SQLITE, "AP8=");
    assert_text(list, TABLE_JSONL, "[\"a\",\"b, c\"]");
    assert_text(list, TABLE_PARQUET, "[a, 'b, c']");
}
