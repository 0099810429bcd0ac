// The rows of a table for sheaf embed: their texts, and the first pass, which computes a vector for each row. The
// text of a row is a column, or a template over the columns. Equal texts are computed once.
// Thread: main.
#pragma once

#include "consumer/annotate/row_prompt.h"
#include "consumer/table/table_reader.h"
#include "consumer/command/embed_group.h"
#include "consumer/command/files/text_rows.h"
#include "consumer/command/files/vector_file.h"

// Where the texts of rows come from.
struct embed_source {
    struct table_source table;
    struct table_reader *reader;
    const char *column_name; // NULL: the template
    size_t column;
    struct row_prompt prompt;
};

struct embed_fault {
    int64_t row;
    struct error error;
};

struct embed_rows {
    struct embed_source *source;
    struct embed_group group;
    struct vector_file file;
    struct text_rows texts;
    int32_t *items;   // [group.n_max] the group's item of each row that waits; -1: an equal text came earlier
    int64_t *earlier; // [group.n_max] its row
    float *vectors;   // [group.n_max, n_dimensions] of the rows that wait
    int32_t n_waiting; // rows
    struct output_part_state done;
    int64_t n_copied; // rows with the text of an earlier one
    // Faults of rows without a vector, ascending; of vectors computed here they are computed again from the text.
    struct embed_fault *faults;
    size_t n_faults, faults_capacity;
    bool keeps_faults;
};

// Opens the table, and the column or the template of the options. needs_columns: the rows' other columns are read
// too. STATUS_REFUSE: ERROR_USAGE, ERROR_FILE, ERROR_TEMPLATE.
enum status embed_source_open(struct embed_source *source, const struct settings *settings, const char *path,
                              bool needs_columns, struct error *error) WARN_UNUSED;
void embed_source_close(struct embed_source *source);
// The text of a row, valid until the next call. STATUS_REJECT: the row has none.
enum status embed_source_text(struct embed_source *source, const struct table_row *row, struct text *text,
                              struct error *error) WARN_UNUSED;
// table_reader_next; a bad row ends the command, because row i of the vectors is row i of the table.
enum status embed_source_next(struct embed_source *source, struct table_row *row,
                              struct error *error) WARN_UNUSED;

// The group must be open, and the file taken up.
enum status embed_rows_compute(struct embed_rows *rows, struct error *error) WARN_UNUSED;
enum status embed_rows_add_fault(struct embed_rows *rows, int64_t row, const struct error *fault,
                                 struct error *error) WARN_UNUSED;
// Why a row has no vector. Errors: of embed_source_text.
enum status embed_rows_fault(struct embed_rows *rows, const struct table_row *row, int64_t number,
                             struct error *fault, struct error *error) WARN_UNUSED;
void embed_rows_close(struct embed_rows *rows);
