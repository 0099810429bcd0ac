// New fields of an Arrow schema. tests/e2e/parquet.py reads the extended schema with a reader of its own.
#include "schemas/base/base64.h"
#include "schemas/parquet/arrow_schema.h"
#include "tests/support/cases.h"

// pa.schema([('t', pa.duration('us'))], metadata={'k': 'v'}), serialized by pyarrow.
static const struct text duration = TEXT(
    "/////6gAAAAQAAAAAAAKAA4ABgAFAAgACgAAAAABBAAQAAAAAAAKAAwAAAAEAAgACgAAADQAAAAEAAAAAQAAAAwAAAAIAAwABAAIAAgA"
    "AAAQAAAABAAAAAEAAAB2AAAAAQAAAGsAAAABAAAAFAAAABAAFAAIAAYABwAMAAAAEAAQAAAAAAABEhAAAAAYAAAABAAAAAAAAAABAAAA"
    "dAAGAAgABgAGAAAAAAACAAAAAAA=");

static const struct parquet_new_column columns[] = {{TEXT("label"), WRITTEN_TEXT},
                                                    {TEXT("n"), WRITTEN_INTEGER},
                                                    {TEXT("x"), WRITTEN_NUMBER},
                                                    {TEXT("is_good"), WRITTEN_BOOLEAN}};

enum { COLUMNS = sizeof columns / sizeof *columns };

static bool extends(struct text schema, size_t n_fields, size_t n_columns, struct buffer *out)
{
    buffer_clear(out);
    arrow_schema_extend(schema, n_fields, columns, n_columns, out);
    assert_false(out->failed);
    return out->size != 0;
}

TEST(an_extended_schema_is_extended_again_by_the_number_of_its_fields)
{
    struct buffer first = {0}, second = {0};
    assert_true(extends(duration, 1, COLUMNS, &first));
    const struct text extended = {first.data, first.size};
    assert_false(extends(extended, COLUMNS, 1, &second));
    assert_false(extends(extended, COLUMNS + 2, 1, &second));
    assert_true(extends(extended, COLUMNS + 1, 1, &second));
    assert_true(second.size > first.size);
    buffer_finish(&first);
    buffer_finish(&second);
}

TEST(a_schema_of_another_number_of_fields_is_left_out)
{
    struct buffer out = {0};
    assert_false(extends(duration, 0, COLUMNS, &out));
    assert_false(extends(duration, 2, COLUMNS, &out));
    assert_false(extends(duration, SIZE_MAX, COLUMNS, &out));
    buffer_finish(&out);
}

TEST(a_message_without_the_continuation_of_later_versions_is_read)
{
    struct buffer bytes = {0}, old = {0}, out = {0};
    assert_true(base64_decode(duration, &bytes));
    base64_encode((struct text){bytes.data + 4, bytes.size - 4}, &old);
    assert_true(extends((struct text){old.data, old.size}, 1, COLUMNS, &out));
    buffer_finish(&bytes);
    buffer_finish(&old);
    buffer_finish(&out);
}

TEST(bytes_that_are_no_schema_are_left_out)
{
    struct buffer out = {0};
    const struct text damaged[] = {TEXT(""),           TEXT("AAAA"),         TEXT("//////8="),
                                   TEXT("no base64!"), TEXT("/////wAAAAA="), TEXT("/////////38=")};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_false(extends(damaged[i], 1, COLUMNS, &out));
    buffer_finish(&out);
}

// Sanitizers find a byte that is read outside.
TEST(cut_and_changed_schemas_are_extended_or_left_out)
{
    struct buffer bytes = {0}, changed = {0}, out = {0};
    size_t n_extended = 0;
    assert_true(base64_decode(duration, &bytes));
    for (size_t size = 0; size < bytes.size; size++) {
        buffer_clear(&changed);
        base64_encode((struct text){bytes.data, size}, &changed);
        assert_false(extends((struct text){changed.data, changed.size}, 1, COLUMNS, &out));
    }
    for (size_t i = 0; i < 4 * bytes.size; i++) {
        static const char masks[] = {1, 4, 127, -1};
        bytes.data[i / 4] ^= masks[i % 4];
        buffer_clear(&changed);
        base64_encode((struct text){bytes.data, bytes.size}, &changed);
        n_extended += extends((struct text){changed.data, changed.size}, 1, COLUMNS, &out);
        bytes.data[i / 4] ^= masks[i % 4];
    }
    assert_true(n_extended > 0 && n_extended < 4 * bytes.size);
    buffer_finish(&bytes);
    buffer_finish(&changed);
    buffer_finish(&out);
}
