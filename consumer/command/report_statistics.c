#include "consumer/command/report_statistics.h"

#include "consumer/evaluate/figure_list.h"
#include "consumer/observe/page.h"
#include "consumer/table/table_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOLD, ANSWER, GROUP, LABEL, FIGURE, VALUE, LOW, HIGH, ROWS, GOLD_ROWS, NAME_BYTES = 200 };

struct statistics_page {
    struct table_reader *reader;
    const char *path;
    size_t columns[FIGURE_COLUMNS]; // of the file
    struct buffer *out;
    struct buffer compared; // the names of the columns in the current table
    bool is_open;
};

static enum status find_columns(struct statistics_page *page, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(page->reader);
    for (int i = 0; i < FIGURE_COLUMNS; i++) {
        page->columns[i] = table_columns_find(columns, text_from_string(figure_columns[i]));
        if (page->columns[i] == columns->n)
            return error_set(error, STATUS_REFUSE, ERROR_FILE,
                             "%s: there is no column \"%s\": expected a file of annotate --statistics",
                             page->path, figure_columns[i]);
    }
    return STATUS_OK;
}

static struct text text_of(const struct statistics_page *page, const struct table_row *row, int column)
{
    const struct value *field = &row->fields[page->columns[column]];
    return field->kind == VALUE_STRING ? field->text : (struct text){0};
}

// The number as it is shown; "": there is none.
static void add_number(struct statistics_page *page, const struct table_row *row, int column)
{
    const struct value *field = &row->fields[page->columns[column]];
    char digits[64] = "";
    if (field->kind == VALUE_INTEGER || field->kind == VALUE_FLOAT)
        snprintf(digits, sizeof digits, "%.17g",
                 field->kind == VALUE_FLOAT ? field->number : (double)field->integer);
    else if (field->kind == VALUE_STRING && field->text.size < sizeof digits)
        snprintf(digits, sizeof digits, "%.*s", (int)field->text.size, field->text.data);
    buffer_add_string(page->out, "<td>");
    double number = strtod(digits, NULL);
    // four digits of a year or an income would hide its interval
    const char *format = column >= ROWS ? "%.0f" : fabs(number) >= 100 ? "%.2f" : "%.4g";
    if (*digits)
        buffer_add_format(page->out, format, number);
    buffer_add_string(page->out, "</td>");
}

static void add_name(struct statistics_page *page, const struct table_row *row, int column)
{
    buffer_add_string(page->out, column == FIGURE ? "<td>" : "<td class=\"left\">");
    page_add_beginning(page->out, text_of(page, row, column), NAME_BYTES);
    buffer_add_string(page->out, "</td>");
}

static void end_table(struct statistics_page *page)
{
    if (page->is_open)
        page_end_table(page->out);
    page->is_open = false;
}

// Begins another table if the row is of other columns than the previous row.
static void begin_table(struct statistics_page *page, const struct table_row *row)
{
    struct buffer compared = {0};
    buffer_add_text(&compared, text_of(page, row, GOLD));
    buffer_add_string(&compared, " \u2013 ");
    buffer_add_text(&compared, text_of(page, row, ANSWER));
    bool is_same = page->is_open && text_equal((struct text){compared.data, compared.size},
                                               (struct text){page->compared.data, page->compared.size});
    if (!is_same) {
        end_table(page);
        buffer_add_string(page->out, "<h3>Gold and answers: ");
        page_add_beginning(page->out, (struct text){compared.data, compared.size}, 2 * NAME_BYTES);
        buffer_add_string(page->out, "</h3>\n");
        page_begin_table(page->out, "figure|<label|<group|value|95 % from|to|rows|gold rows");
        page->is_open = true;
    }
    buffer_finish(&page->compared);
    page->compared = compared;
}

static void add_figure(struct statistics_page *page, const struct table_row *row)
{
    begin_table(page, row);
    buffer_add_string(page->out, "<tr>");
    add_name(page, row, FIGURE);
    add_name(page, row, LABEL);
    add_name(page, row, GROUP);
    for (int column = VALUE; column <= GOLD_ROWS; column++)
        add_number(page, row, column);
    buffer_add_string(page->out, "</tr>\n");
}

static enum status add_figures(struct statistics_page *page, struct error *error)
{
    struct table_row row = {0};
    int64_t n = 0;
    enum status status = STATUS_OK;
    do {
        status = table_reader_next(page->reader, &row, error);
        if (status == STATUS_REJECT)
            return error_set(error, STATUS_REFUSE, error->code, "%s", error->text);
        if (status == STATUS_OK && row.fields && n++ == REPORT_STATISTICS_MAX)
            return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: more than %d figures",
                             page->path, REPORT_STATISTICS_MAX);
        if (status == STATUS_OK && row.fields)
            add_figure(page, &row);
    } while (status == STATUS_OK && row.fields);
    return status;
}

enum status report_statistics_add(const char *path, struct buffer *out, struct error *error)
{
    struct statistics_page page = {.path = path, .out = out};
    const struct table_source source = {.path = path,
                                        .format =
                                            table_format_of(path) == TABLE_JSONL ? TABLE_JSONL : TABLE_CSV,
                                        .delimiter = ','};
    enum status status = table_reader_open(&page.reader, &source, error);
    if (status == STATUS_OK)
        status = find_columns(&page, error);
    if (status == STATUS_OK) {
        page_begin_section(out, "Statistics");
        buffer_add_string(
            out, "<p class=\"soft\">Shares and means are of all rows, estimated from all answers and the "
                 "gold rows, with 95 % intervals. They assume that the gold rows are a simple random "
                 "sample of the table.</p>\n");
        status = add_figures(&page, error);
        end_table(&page);
        page_end_section(out);
    }
    table_reader_close(page.reader);
    buffer_finish(&page.compared);
    return status;
}
