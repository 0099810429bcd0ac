// Tables: what is read of CSV and TSV field by field, the places of faults, and that what is written is read
// back as it was.
#include "consumer/table/table_reader.h"
#include "consumer/annotate/table_writer.h"
#include "schemas/base/occurrences.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>
#include <unistd.h>

#include <zlib.h>

static const char in_path[] = "unit_table.in", out_path[] = "unit_table.out";

static void write_file(const char *path, struct text content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.size, file), content.size);
    assert_int_equal(fclose(file), 0);
}

// The rows in brackets, the fields between bars; of a fault its text.
static void read_all(const struct table_source *source, struct buffer *out)
{
    struct table_reader *reader = NULL;
    struct table_row row = {0};
    struct error error;
    enum status status = table_reader_open(&reader, source, &error);
    for (bool more = status == STATUS_OK; more;) {
        status = table_reader_next(reader, &row, &error);
        more = status == STATUS_REJECT || (status == STATUS_OK && row.fields);
        if (status == STATUS_REJECT)
            buffer_add_format(out, "<%s>", error.text);
        else if (status == STATUS_OK && row.fields)
            for (size_t i = 0; i < table_reader_columns(reader)->n; i++) {
                buffer_add_byte(out, i ? '|' : '[');
                buffer_add_text(out, row.fields[i].text);
                if (i + 1 == table_reader_columns(reader)->n)
                    buffer_add_byte(out, ']');
            }
    }
    if (status != STATUS_OK)
        buffer_add_format(out, "<%s>", error.text);
    table_reader_close(reader);
    unlink(in_path);
}

static const struct table_source csv = {.path = in_path, .format = TABLE_CSV, .delimiter = ','},
                                 unquoted = {.path = in_path,
                                             .format = TABLE_TSV,
                                             .delimiter = '\t',
                                             .no_quotes = true},
                                 json_lines = {.path = in_path, .format = TABLE_JSONL};

#define ASSERT_READS_AS(source, content, expected)                                                           \
    do {                                                                                                     \
        struct buffer found = {0};                                                                           \
        write_file(in_path, content);                                                                        \
        read_all(&(source), &found);                                                                         \
        buffer_add(&found, "", 0);                                                                           \
        assert_string_equal(found.data ? found.data : "", expected);                                         \
        buffer_finish(&found);                                                                               \
    } while (0)
#define ASSERT_READS(content, expected) ASSERT_READS_AS(csv, TEXT(content), expected)

TEST(fields_are_read_as_they_stand)
{
    ASSERT_READS("a,b\nc,d\n", "[c|d]");
    ASSERT_READS("a,b\r\nc,d\r\n", "[c|d]");
    ASSERT_READS("\xEF\xBB\xBF"
                 "a,b\nc,d",
                 "[c|d]");
    ASSERT_READS("a,b\n c ,\td\t\n", "[ c |\td\t]");
    ASSERT_READS("a,b\n\"c,\"\"x\"\"\",\"d\r\ne\"\n", "[c,\"x\"|d\r\ne]");
    ASSERT_READS("a,b\n,\n\"\",\n", "[|][|]");
    ASSERT_READS("a,b\n\n\r\nc,d\n\n", "[c|d]");
    ASSERT_READS("a\nc\n\n\"\"\nd", "[c][][][d]");
    ASSERT_READS("a,b\n\"\n\n\",\"\r\"\n", "[\n\n|\r]");
    ASSERT_READS("a,b\n", "");
}

// Lines without quotes do not pass through libcsv: the same fields with one of them in quotes do.
TEST(lines_with_and_without_quotes_have_the_same_fields)
{
    enum { LINES = 400 };
    static const char letters[] = "ab \t;\0\x80";
    uint64_t random = random_seed(17);
    struct buffer contents[2] = {{0}}, found[2] = {{0}};
    for (int line = 0; line < LINES; line++) {
        const char *end = random_below(&random, 3) ? "\n" : "\r\n";
        for (uint64_t left = random_below(&random, 20); left > 0; left--) {
            char letter = letters[random_below(&random, sizeof letters - 1)];
            for (int quoted = 0; quoted < 2; quoted++)
                buffer_add_byte(&contents[quoted], letter);
        }
        for (int quoted = 0; quoted < 2; quoted++) {
            buffer_add_string(&contents[quoted], line % 5 ? ",x," : ",,");
            buffer_add_string(&contents[quoted], quoted ? "\"last\"" : "last");
            buffer_add_string(&contents[quoted], end);
        }
    }
    for (int quoted = 0; quoted < 2; quoted++) {
        write_file(in_path, (struct text){contents[quoted].data, contents[quoted].size});
        read_all(
            &(struct table_source){.path = in_path, .format = TABLE_CSV, .delimiter = ',', .no_header = true},
            &found[quoted]);
        buffer_finish(&contents[quoted]);
    }
    assert_int_equal(found[0].size, found[1].size);
    assert_memory_equal(found[0].data, found[1].data, found[0].size);
    assert_true(found[0].size > (size_t)LINES * 10);
    for (int quoted = 0; quoted < 2; quoted++)
        buffer_finish(&found[quoted]);
}

TEST(without_quoting_a_quote_is_a_letter)
{
    static const char content[] = "\xEF\xBB\xBFsize\tnote\r\n3\"\t\"open\r\n\r\na\nb\t c\\n \nd\te\tf\tg\n";
    ASSERT_READS_AS(
        unquoted, text_from_string(content),
        "[3\"|\"open]<unit_table.in: line 4: expected 2 fields as in the first line, got 1>[b| c\\n ]"
        "<unit_table.in: line 6: expected 2 fields as in the first line, got 4>");
}

TEST(members_of_all_json_lines_are_columns)
{
    struct buffer found = {0};
    write_file(in_path, TEXT("{\"a\":\"1\"}\nno json\n{\"b\":\"2\",\"a\":\"3\"}\n\n{\"c\":\"4\"}\n"));
    read_all(&json_lines, &found);
    buffer_add(&found, "", 1);
    assert_non_null(strstr(found.data, "[1||]<unit_table.in: line 2: "));
    assert_non_null(strstr(found.data, ">[3|2|][||4]"));
    buffer_finish(&found);
}

TEST(faults_have_their_line_and_column_and_the_next_row_is_read)
{
    ASSERT_READS("a,b\nc\nd,e\n",
                 "<unit_table.in: line 2: expected 2 fields as in the first line, got 1>[d|e]");
    ASSERT_READS("a,b\n\nc,d,e\nf,g\n",
                 "<unit_table.in: line 3: expected 2 fields as in the first line, got 3>[f|g]");
    ASSERT_READS("a,b\nc,d\"e\nf,g\n",
                 "<unit_table.in: line 2, column 4: a quote inside a field must be doubled, and"
                 " the field quoted>[f|g]");
    ASSERT_READS("a,b\n\"c\nd\"e,f\ng,h\n",
                 "<unit_table.in: line 3, column 3: a quote inside a field must be doubled,"
                 " and the field quoted; the row begins in line 2: is a quote not closed there?>[g|h]");
    ASSERT_READS("a,b\nc,\"d\ne,f\n",
                 "<unit_table.in: line 2, column 1: a quote is not closed before the file's end>");
    ASSERT_READS("a,b\nc\rd,e\nf,g\n",
                 "<unit_table.in: line 2, column 2: a CR without LF must be in quotes>[f|g]");
    ASSERT_READS("a,b\n\rc,d\nf,g\n",
                 "<unit_table.in: line 2, column 1: a CR without LF must be in quotes>[f|g]");
    ASSERT_READS("a,b\nc,d\r\r\nf,g\n",
                 "<unit_table.in: line 2, column 4: a CR without LF must be in quotes>[f|g]");
}

TEST(a_header_names_each_column_once)
{
    ASSERT_READS("", "<unit_table.in: expected a table, got an empty file>");
    ASSERT_READS("a,a\n", "<unit_table.in: two columns are named \"a\": 1 and 2>");
    ASSERT_READS("\n", "<unit_table.in: the first line names no column; without a header line: --no-header>");
    ASSERT_READS(",\n",
                 "<unit_table.in: the first line names no column; without a header line: --no-header>");
    ASSERT_READS(",column1\n", "<unit_table.in: two columns are named \"column1\": 1 and 2>");
    ASSERT_READS("a,\xFF\n", "<unit_table.in: the name of column 2 is not UTF-8: give --encoding cp1252>");
    ASSERT_READS("\xFF\xFE"
                 "a",
                 "<unit_table.in: byte 2: expected UTF-16, got the end of the file within a character>");
    static const char utf16[] = "a\0,\0b\0\n";
    const struct text content = {utf16, sizeof utf16};
    ASSERT_READS_AS(csv, content, "<unit_table.in: expected UTF-8, got other text: give --encoding utf-16>");
    ASSERT_READS_AS(
        csv, ((struct text){"ab\0cdefgh,x\n", 12}),
        "<unit_table.in: the name of column 1 has a NUL: expected UTF-8, is it UTF-16 (--encoding utf-16)?>");
}

TEST(a_column_that_the_header_does_not_name_has_its_number)
{
    struct table_reader *reader;
    struct error error;
    write_file(in_path, TEXT(",a,\n1,2,3\n"));
    const struct table_source source = {.path = in_path, .format = TABLE_CSV, .delimiter = ','};
    assert_ok(table_reader_open(&reader, &source, &error), &error);
    const struct table_columns *columns = table_reader_columns(reader);
    assert_int_equal(columns->n, 3);
    assert_true(text_equals_string(columns->names[0], "column1"));
    assert_true(text_equals_string(columns->names[1], "a"));
    assert_true(text_equals_string(columns->names[2], "column3"));
    assert_true(text_equals_string(table_reader_header(reader), ",a,")); // written again as it is
    table_reader_close(reader);
}

TEST(an_empty_file_is_a_table_where_no_header_is_due)
{
    const struct table_source sources[] = {
        json_lines,
        {.path = in_path, .format = TABLE_CSV, .delimiter = ',', .no_header = true},
        {.path = in_path, .format = TABLE_TSV, .delimiter = '\t', .no_header = true, .no_quotes = true}};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        ASSERT_READS_AS(sources[i], TEXT(""), "");
    ASSERT_READS_AS(json_lines, TEXT("{}\n"),
                    "<unit_table.in: expected a table, got objects without members>");
}

TEST(lines_may_end_in_cr_alone_but_not_some_of_them_without_quoting)
{
    ASSERT_READS_AS(unquoted, TEXT("a\tb\r1\t2\r"), "[1|2]");
    ASSERT_READS_AS(unquoted, TEXT("a\tb\r1\t2\n"),
                    "<unit_table.in: the first line has a CR without LF: lines end in LF or CRLF>");
}

enum { COLUMNS = 3, ROWS = 400, FIELD_BYTES_MAX = 9 };

// Bytes among which those that mean something are frequent.
static struct text draw_field(uint64_t *random, char out[FIELD_BYTES_MAX])
{
    static const char special[] = "\",\r\n\t ;";
    size_t size = random_below(random, FIELD_BYTES_MAX);
    for (size_t i = 0; i < size; i++)
        out[i] = random_below(random, 2) ? special[random_below(random, sizeof special - 1)]
                                         : (char)random_below(random, 256);
    return (struct text){out, size};
}

static void write_table(const struct table_target *target, struct value rows[ROWS][COLUMNS])
{
    struct table_writer *writer;
    struct error error;
    assert_ok(table_writer_open(&writer, target, &error), &error);
    for (int i = 0; i < ROWS; i++) {
        struct table_row row = {.fields = rows[i]};
        assert_ok(table_writer_add(writer, &row, &rows[i][COLUMNS - 1], NULL, &error), &error);
    }
    assert_ok(table_writer_complete(writer, &error), &error);
    table_writer_close(writer);
}

TEST(what_is_written_is_read_back_byte_for_byte)
{
    static char bytes[ROWS][COLUMNS][FIELD_BYTES_MAX];
    static struct value rows[ROWS][COLUMNS];
    uint64_t random = random_seed(7);
    struct text names[COLUMNS] = {TEXT("\xEF\xBB\xBF"), TEXT("b \"x\",y"), TEXT("c")};
    const struct table_columns input = {names, COLUMNS - 1}, added = {names + COLUMNS - 1, 1};
    for (int style = 0; style < 4; style++) {
        struct table_target target = {.path = out_path,
                                      .format = style & 1 ? TABLE_TSV : TABLE_CSV,
                                      .delimiter = style & 1 ? '\t' : ',',
                                      .style = {style & 2, style & 2},
                                      .input = &input,
                                      .added = &added};
        for (int i = 0; i < ROWS * COLUMNS; i++)
            rows[i / COLUMNS][i % COLUMNS] =
                value_string(draw_field(&random, bytes[i / COLUMNS][i % COLUMNS]));
        write_table(&target, rows);
        struct table_source source = {.path = out_path,
                                      .format = target.format,
                                      .delimiter = target.delimiter};
        struct table_reader *reader;
        struct table_row row;
        struct error error;
        assert_ok(table_reader_open(&reader, &source, &error), &error);
        assert_true(text_equal(table_reader_columns(reader)->names[0], names[0]));
        assert_true(text_equal(table_reader_columns(reader)->names[1], names[1]));
        for (int i = 0; i < ROWS; i++) {
            assert_ok(table_reader_next(reader, &row, &error), &error);
            for (int j = 0; j < COLUMNS; j++)
                assert_true(text_equal(row.fields[j].text, rows[i][j].text));
        }
        table_reader_close(reader);
    }
    unlink(out_path);
}

// Fields of a table of the same style are unchanged; tabs and ends of lines in other fields are escaped.
TEST(a_table_without_quoting_escapes_what_it_cannot_hold)
{
    struct text names[] = {TEXT("a\""), TEXT("b")};
    const struct table_columns input = {names, 1}, added = {names + 1, 1};
    struct table_target target = {.path = out_path,
                                  .format = TABLE_TSV,
                                  .delimiter = '\t',
                                  .no_quotes = true,
                                  .is_verbatim = true,
                                  .input = &input,
                                  .added = &added};
    struct table_writer *writer;
    struct error error;
    struct value fields[] = {value_string(TEXT("\"x\\ "))}, answers[] = {value_string(TEXT("1\t2\r\n\\"))};
    assert_ok(table_writer_open(&writer, &target, &error), &error);
    struct table_row row = {.fields = fields};
    assert_ok(table_writer_add(writer, &row, answers, NULL, &error), &error);
    assert_ok(table_writer_complete(writer, &error), &error);
    table_writer_close(writer);
    char written[64] = "";
    FILE *file = fopen(out_path, "r");
    assert_true(file && fread(written, 1, sizeof written - 1, file) > 0);
    fclose(file);
    assert_string_equal(written, "a\"\tb\n\"x\\ \t1\\t2\\r\\n\\\\\n");
    unlink(out_path);
}

// Writes the file at `in_path` with a column `n` added, as annotate does: each row's field is "1".
static void add_column(const struct table_source *source, char *written, size_t size)
{
    struct text name = TEXT("n");
    struct value answer = value_string(TEXT("1"));
    struct table_reader *reader;
    struct table_writer *writer;
    struct table_row row = {0};
    struct error error;
    assert_ok(table_reader_open(&reader, source, &error), &error);
    struct table_target target = {.path = out_path,
                                  .format = source->format,
                                  .delimiter = source->delimiter,
                                  .style = table_reader_style(reader),
                                  .no_header = source->no_header,
                                  .no_quotes = source->no_quotes,
                                  .is_verbatim = true,
                                  .header = table_reader_header(reader),
                                  .input = table_reader_columns(reader),
                                  .added = &(struct table_columns){&name, 1}};
    assert_ok(table_writer_open(&writer, &target, &error), &error);
    while (table_reader_next(reader, &row, &error) == STATUS_OK && row.fields)
        assert_ok(table_writer_add(writer, &row, &answer, NULL, &error), &error);
    assert_ok(table_writer_complete(writer, &error), &error);
    table_writer_close(writer);
    table_reader_close(reader);
    FILE *file = fopen(out_path, "r");
    assert_non_null(file);
    written[fread(written, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(out_path);
}

TEST(each_record_keeps_its_own_line_end)
{
    static const struct {
        const char *in, *out;
        struct table_source source;
    } cases[] = {
        {"a\n\"x\r\ny\"\nz\n", "a,n\n\"x\r\ny\",1\nz,1\n", {.format = TABLE_CSV, .delimiter = ','}},
        {"a\nx\ny\r\nz\n", "a,n\nx,1\ny,1\r\nz,1\n", {.format = TABLE_CSV, .delimiter = ','}},
        {"a\r\nx\n\"y\nz\"", "a,n\r\nx,1\n\"y\nz\",1\r\n", {.format = TABLE_CSV, .delimiter = ','}},
        {"a\nx\r\ny", "a,n\nx,1\r\ny,1\n", {.format = TABLE_CSV, .delimiter = ','}},
        {"a\n\r\n\n\"\"\n", "a,n\n,1\r\n,1\n\"\",1\n", {.format = TABLE_CSV, .delimiter = ','}},
        {"x\ny\r\n", "x,1\ny,1\r\n", {.format = TABLE_CSV, .delimiter = ',', .no_header = true}},
        {"x\r\ny\nz", "x,1\r\ny,1\nz,1\r\n", {.format = TABLE_CSV, .delimiter = ',', .no_header = true}},
        {"a\nx\ny\r\nz\n",
         "a\tn\nx\t1\ny\t1\r\nz\t1\n",
         {.format = TABLE_TSV, .delimiter = '\t', .no_quotes = true}},
        {"a\r\nx\ny", "a\tn\r\nx\t1\ny\t1\r\n", {.format = TABLE_TSV, .delimiter = '\t', .no_quotes = true}},
        {"x\ny\r\nz",
         "x\t1\ny\t1\r\nz\t1\n",
         {.format = TABLE_TSV, .delimiter = '\t', .no_header = true, .no_quotes = true}},
    };
    char written[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table_source source = cases[i].source;
        source.path = in_path;
        write_file(in_path, text_from_string(cases[i].in));
        add_column(&source, written, sizeof written);
        assert_string_equal(written, cases[i].out);
    }
}

// Also if the first line is longer than the reader's buffer, or is the file's last.
TEST(a_byte_order_mark_is_kept)
{
    enum { BUFFER_BYTES = 1 << 18 };
    static char content[BUFFER_BYTES + 64], written[BUFFER_BYTES + 128];
    static const size_t sizes[] = {1, BUFFER_BYTES - 3, BUFFER_BYTES};
    for (size_t i = 0; i < 8 * sizeof sizes / sizeof *sizes; i++) {
        struct table_source source = {
            .path = in_path, .format = TABLE_TSV, .delimiter = '\t', .no_header = i & 1, .no_quotes = i & 2};
        size_t size = sizes[i / 8], n = (size_t)sprintf(content, "\xEF\xBB\xBF");
        memset(content + n, 'x', size);
        n += size;
        content[n] = '\0';
        const char *end = i & 4 ? "\n" : "";
        write_file(in_path, (struct text){content, n + (size_t)sprintf(content + n, "%s", end)});
        add_column(&source, written, sizeof written);
        content[n] = '\0';
        assert_memory_equal(written, content, n);
        assert_string_equal(written + n, source.no_header ? "\t1\n" : "\tn\n");
    }
}

// Its bytes are of three gzip members.
TEST(a_byte_order_mark_of_a_compressed_file_is_none_of_its_first_column)
{
    static const char *const members[] = {"\357", "\273", "\277a,b\nc,d\n"};
    struct table_source source = {.path = in_path, .format = TABLE_CSV, .delimiter = ','};
    struct table_reader *reader;
    struct error error;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        gzFile file = gzopen(in_path, i ? "ab" : "wb");
        assert_non_null(file);
        assert_int_equal(gzputs(file, members[i]), strlen(members[i]));
        assert_int_equal(gzclose(file), Z_OK);
    }
    assert_ok(table_reader_open(&reader, &source, &error), &error);
    assert_true(text_equals_string(table_reader_columns(reader)->names[0], "a"));
    table_reader_close(reader);
    unlink(in_path);
}

// A field, a CR and a quote stand at each place of the buffer's end.
TEST(the_ends_of_buffers_are_not_seen)
{
    enum { BUFFER_BYTES = 1 << 18 };
    static char content[BUFFER_BYTES + 64];
    for (size_t shift = 0; shift < 16; shift++) {
        size_t n = 0, filler = BUFFER_BYTES - shift;
        n += (size_t)sprintf(content, "a,b\r\n\"");
        memset(content + n, 'x', filler - n);
        n = filler + (size_t)sprintf(content + filler, "\"\"\",\"y\r\n\"\r\nc,d\r\n");
        write_file(in_path, (struct text){content, n});
        struct buffer found = {0};
        read_all(&(struct table_source){.path = in_path, .format = TABLE_CSV, .delimiter = ','}, &found);
        assert_string_equal(found.data + found.size - 11, "\"|y\r\n][c|d]");
        assert_int_equal(found.size, filler - 6 + 1 + 11);
        buffer_finish(&found);
    }
}

TEST(formats_follow_from_names)
{
    assert_int_equal(table_format_of("a.csv"), TABLE_CSV);
    assert_int_equal(table_format_of("b/a.TSV.gz"), TABLE_TSV);
    assert_int_equal(table_format_of("a.jsonl"), TABLE_JSONL);
    assert_int_equal(table_format_of("a.sqlite3"), TABLE_SQLITE);
    assert_int_equal(table_format_of(".csv"), TABLE_UNKNOWN);
    assert_int_equal(table_format_of("a.txt"), TABLE_UNKNOWN);
}

TEST(occurrences_are_counted_while_the_table_grows)
{
    struct occurrences occurrences = {0};
    uint64_t n;
    for (uint64_t round = 0; round < 3; round++)
        for (uint64_t hash = 0; hash < 5000; hash++) {
            assert_true(occurrences_count(&occurrences, hash * 4096, &n));
            assert_int_equal(n, round);
        }
    assert_int_equal(occurrences.n_used, 5000);
    occurrences_finish(&occurrences);
}

// Values that are no texts, as CSV has them: an infinity as SQLite's shell writes it.
TEST(numbers_and_infinities_are_written_as_sqlite_does)
{
    struct text names[] = {TEXT("a"), TEXT("b"), TEXT("c"), TEXT("d"), TEXT("e"), TEXT("f")};
    struct table_columns none = {0}, added = {.names = names, .n = 6};
    struct table_target target = {
        .path = out_path, .format = TABLE_CSV, .delimiter = ',', .input = &none, .added = &added};
    struct value values[] = {{.kind = VALUE_FLOAT, .number = 1.5},
                             {.kind = VALUE_FLOAT, .number = INFINITY},
                             {.kind = VALUE_FLOAT, .number = -INFINITY},
                             {.kind = VALUE_INTEGER, .integer = -7},
                             {.kind = VALUE_NULL},
                             {.kind = VALUE_BYTES, .text = TEXT("ab")}};
    struct table_row row = {0};
    struct table_writer *writer;
    struct error error;
    char got[256] = "";
    assert_ok(table_writer_open(&writer, &target, &error), &error);
    assert_ok(table_writer_add(writer, &row, values, NULL, &error), &error);
    assert_ok(table_writer_complete(writer, &error), &error);
    table_writer_close(writer);
    FILE *file = fopen(out_path, "r");
    assert_non_null(file);
    (void)!fread(got, 1, sizeof got - 1, file);
    fclose(file);
    unlink(out_path);
    assert_string_equal(got, "a,b,c,d,e,f\n1.5,Inf,-Inf,-7,,YWI=\n");
}
