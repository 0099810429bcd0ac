// Reads a table as its certificate describes it: each row's requests are rendered again from the cells of the input's
// columns, and the row's leaf is made. The certificate is written and verified with these leaves. Thread: main.
#pragma once

#include "consumer/annotate/annotate.h"
#include "consumer/certificate/certificate.h"
#include "consumer/certificate/certificate_options.h"
#include "consumer/certificate/row_leaf.h"

struct certified_table {
    const struct certificate *certificate;
    struct certified_settings certified;
    struct annotate annotate; // its questions and options; no reader, no outputs
    struct table_source source;
    struct buffer name; // its files, for messages
    struct table_reader *reader;
    size_t
        *places; // [columns + answers] of the certificate in the table; SIZE_MAX: a line of JSON may lack it
    struct value *fields; // [columns] of the row
    struct sha256 arithmetic;
    struct occurrences draws;
    struct buffer cells, request, answer, text;
    // this row
    int64_t number;
    size_t part; // its file, from 0
    bool is_left_out;
    const struct value *row; // its cells, in the table's order
};

// paths: [n_paths] the table's files. The certificate must outlive the result, and so must `settings`. STATUS_REFUSE: the
// table can't be read or has other columns. certified_table_close also after an error.
enum status certified_table_open(struct certified_table *table, const struct certificate *certificate,
                                 const struct settings *settings, const char *const *paths, size_t n_paths,
                                 struct error *error) WARN_UNUSED;
void certified_table_close(struct certified_table *table);
enum status certified_table_rewind(struct certified_table *table, struct error *error) WARN_UNUSED;
// Reads the next row and makes its leaf. annotate.row.records have its requests without their ends, and row.seeds the
// seeds. *is_end: there was none. STATUS_REJECT: the row can't be read, or its requests can't be rendered.
enum status certified_table_next(struct certified_table *table, struct sha256 *leaf, bool *is_end,
                                 struct error *error) WARN_UNUSED;
// The text of the row's cell in column number i of the answers, valid until the next call.
struct text certified_table_answer(struct certified_table *table, size_t i);
