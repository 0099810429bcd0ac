// Every single allocation of consumer/annotate/ fails, alone and with all after it: the result is an error, never
// a crash, half a plan or half a table.
#include "consumer/evaluate/evaluation.h"
#include "consumer/annotate/row_messages.h"
#include "consumer/annotate/row_order.h"
#include "consumer/annotate/row_requests.h"
#include "consumer/table/table_reader.h"
#include "consumer/annotate/table_writer.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/failing_memory.h"
#include "tests/support/random.h"

#include <unistd.h>

static const char in_path[] = "unit_table_memory.in", out_path[] = "unit_table_memory.out";

// Runs it with one failure after the other until none is left to fail, and returns their number.
static long fail_each(enum status (*run)(void *context, struct error *error), void *context)
{
    long n_failures = 0;
    for (int alone = 0; alone < 2; alone++) {
        enum status status = STATUS_REFUSE;
        failing_memory.fails_alone = alone;
        for (long n = 0; status != STATUS_OK; n++) {
            struct error error = {0};
            failing_memory_after(n);
            status = run(context, &error);
            failing_memory.n_left = -1;
            if ((status != STATUS_OK) != failing_memory.has_failed)
                fail_msg("allocation %ld: status %d", n, (int)status);
            if (status != STATUS_OK && error.code != ERROR_OUT_OF_MEMORY)
                fail_msg("allocation %ld: \"%s\"", n, error.text);
            n_failures += status != STATUS_OK;
            assert_true(n < 10000);
        }
    }
    return n_failures;
}

// ---- an evaluation ----

static enum status evaluate(void *context, struct error *error)
{
    struct evaluation evaluation;
    char name[6000];
    enum status status = evaluation_open(&evaluation, error);
    assert_int_equal(evaluation.classes && evaluation.counts, status == STATUS_OK);
    for (int i = 0; i < 4 && status == STATUS_OK; i++) { // each name has a block of the arena
        memset(name, 'a' + i, sizeof name);
        status = evaluation_add(&evaluation, (struct text){name, sizeof name}, TEXT("x"), error);
        assert_int_equal(evaluation.n_rows, i + (status == STATUS_OK));
    }
    if (status == STATUS_OK)
        status = evaluation_expect(&evaluation, TEXT("y"), error);
    evaluation_close(&evaluation);
    assert_null(evaluation.counts);
    return status;
}

TEST(an_evaluation_without_memory_is_refused)
{
    assert_true(fail_each(evaluate, NULL) >= 2 * 4);
}

// ---- an order ----

enum { ROWS = 300, COLUMNS = 5 };

struct order_run {
    bool are_fields_free;
    uint32_t rows[ROWS];
    uint16_t fields[ROWS][COLUMNS];
    bool is_known; // without a failure
};

static enum status order_rows(void *context, struct error *error)
{
    struct order_run *run = context;
    struct row_order order = {.n_columns = COLUMNS};
    enum status status = STATUS_OK;
    uint64_t random = 5;
    for (int i = 0; i < ROWS && status == STATUS_OK; i++) {
        struct row_cell *cells;
        status = row_order_add(&order, &cells, error);
        for (uint32_t j = 0; j < COLUMNS && status == STATUS_OK; j++)
            cells[j] = (struct row_cell){(uint32_t)random_below(&random, 2 + 20 * (uint64_t)j), 5 + j};
    }
    if (status == STATUS_OK)
        status = row_order_plan(&order, run->are_fields_free, error);
    if (status == STATUS_OK) {
        if (run->is_known)
            assert_memory_equal(run->rows, order.rows, sizeof run->rows);
        memcpy(run->rows, order.rows, sizeof run->rows);
        if (run->is_known && run->are_fields_free)
            assert_memory_equal(run->fields, order.fields, sizeof run->fields);
        if (run->are_fields_free)
            memcpy(run->fields, order.fields, sizeof run->fields);
        run->is_known = true;
    }
    row_order_finish(&order);
    return status;
}

TEST(an_order_without_memory_is_refused)
{
    static struct order_run runs[2] = {{.are_fields_free = true}};
    struct error error;
    for (int i = 0; i < 2; i++) {
        assert_ok(order_rows(&runs[i], &error), &error);
        assert_true(fail_each(order_rows, &runs[i]) >= (i == 0 ? 2 * 20 : 2 * 2));
    }
}

// ---- requests of rows in a file ----

static enum status hold_requests(void *context, struct error *error)
{
    struct row_requests requests;
    struct buffer request = {0};
    enum status status = row_requests_open(&requests, error);
    for (int i = 0; i < 1500 && status == STATUS_OK; i++)
        status = row_requests_add(&requests, TEXT("request"), i, i, error);
    if (status == STATUS_OK)
        status = row_requests_read(&requests, 1400, &request, error);
    if (status == STATUS_OK && request.failed)
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "reading");
    if (status == STATUS_OK) {
        assert_true(text_equals_string((struct text){request.data, request.size}, "request"));
        assert_int_equal(requests.rows[1400].seed, 1400);
    }
    buffer_finish(&request);
    row_requests_close(&requests);
    return status;
}

TEST(requests_without_memory_for_them_is_refused)
{
    assert_true(fail_each(hold_requests, NULL) >= 2 * 2);
}

// ---- messages of a row ----

static enum status add_messages(void *context, struct error *error)
{
    static const char rendered[] =
        "{\"content\":\"<x>\"}\n{\"role\":\"user\",\"content\":[1,{\"a\":\"b\"}]}\n";
    struct text_span span = {.start = 13, .end = 14};
    struct text_spans spans = {.items = &span, .n_items = 1};
    struct buffer record = {0};
    enum status status = row_messages_add(text_from_string(rendered), &spans, &record, error);
    if (status == STATUS_OK && record.failed) // for the caller to see
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "the record");
    if (status == STATUS_OK)
        assert_true(
            text_equals_string((struct text){record.data, record.size},
                               "{\"content\":\"<x>\"},{\"role\":\"user\",\"content\":[1,{\"a\":\"b\"}]}"));
    buffer_finish(&record);
    return status;
}

TEST(messages_without_memory_are_not_taken_for_bad_rows)
{
    assert_true(fail_each(add_messages, NULL) >= 2 * 4);
}

// ---- a table ----

struct table_run {
    enum table_format format, out_format;
    const char *written; // input; NULL: the last run's output
};

static enum status copy_rows(struct table_reader *reader, struct table_writer *writer, struct error *error)
{
    enum status status = STATUS_OK;
    for (int n = 0; status == STATUS_OK; n++) {
        struct table_row row = {0};
        struct value added = {.kind = VALUE_STRING, .text = TEXT("new, \"one\"")};
        status = table_reader_next(reader, &row, error);
        if (status == STATUS_OK && !row.fields) {
            assert_int_equal(n, 2);
            return STATUS_OK;
        }
        if (status == STATUS_OK)
            status = table_writer_add(writer, &row, &added, NULL, error);
    }
    return status;
}

static enum status copy_table(void *context, struct error *error)
{
    const struct table_run *run = context;
    struct table_source source = {.path = in_path, .format = run->format, .delimiter = ','};
    struct table_reader *reader = NULL;
    struct table_writer *writer = NULL;
    struct text names[] = {run->format == TABLE_PARQUET ? TEXT("again") : TEXT("added")};
    struct table_columns added = {.names = names, .n = 1};
    enum status status = table_reader_open(&reader, &source, error);
    if (status == STATUS_OK) {
        struct table_target target = {.path = out_path,
                                      .format = run->out_format,
                                      .delimiter = ',',
                                      .input = table_reader_columns(reader),
                                      .added = &added};
        target.parquet = table_reader_parquet(reader, &target.n_parquet);
        status = table_writer_open(&writer, &target, error);
    }
    for (int pass = 0; pass < 2 && status == STATUS_OK; pass++) { // the first is only read
        struct table_row row;
        while (pass == 0 && (status = table_reader_next(reader, &row, error)) == STATUS_OK && row.fields)
            continue;
        if (pass == 0 && status == STATUS_OK)
            status = table_reader_rewind(reader, error);
        else if (status == STATUS_OK)
            status = copy_rows(reader, writer, error);
    }
    if (status == STATUS_OK)
        status = table_writer_complete(writer, error);
    table_writer_close(writer);
    table_reader_close(reader);
    return status;
}

TEST(a_table_without_memory_is_refused_and_leaves_no_file)
{
    static struct table_run runs[] = {
        {TABLE_CSV, TABLE_CSV, "a,\"b\"\n\"c\nd\",e\nf,\"g\"\n"},
        {TABLE_CSV, TABLE_PARQUET, "a,\"b\"\n\"c\nd\",e\nf,\"g\"\n"},
        {TABLE_PARQUET, TABLE_PARQUET, NULL},
        {TABLE_JSONL, TABLE_JSONL, "{\"a\":1,\"b\":\"x\"}\n{\"b\":[2,{\"c\":null}],\"a\":\"\\u00e4\"}\n"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        FILE *file = runs[i].written ? fopen(in_path, "w") : NULL;
        assert_true(file || !runs[i].written);
        assert_true(!file || (fputs(runs[i].written, file) >= 0 && fclose(file) == 0));
        if (!runs[i].written)
            assert_int_equal(rename(out_path, in_path), 0);
        unlink(out_path);
        assert_true(fail_each(copy_table, &runs[i]) >= 2 * 5);
        assert_int_equal(access(out_path, F_OK), 0); // of the runs that completed
    }
    unlink(in_path);
    unlink(out_path);
}
