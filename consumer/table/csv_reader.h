// Reads CSV (RFC 4180) and TSV: fields of any bytes, quoted line feeds, a byte order mark, LF or CR LF. White
// space belongs to the fields. Input is read a line at a time, so an error has a line and a column, and an
// unclosed quote has bounded memory. A blank line is a row if the table has one column; otherwise it is
// skipped.
#pragma once

#include "consumer/table/table_reader.h"
#include "consumer/command/files/input_source.h"

struct csv_reader;

// The caller closes the source later. `delimiter` is a byte that is neither quote, CR nor LF.
enum status csv_reader_open(struct csv_reader **reader, struct input_source *source, char delimiter,
                            struct error *error) WARN_UNUSED;
void csv_reader_close(struct csv_reader *reader);
// Reads the next record, with any number of fields. *n_fields 0: a blank line; row->fields holds one empty
// field. row->fields NULL: the end. STATUS_REJECT: as for table_reader_next.
enum status csv_reader_next(struct csv_reader *reader, size_t *n_fields, struct table_row *row,
                            struct error *error) WARN_UNUSED;
enum status csv_reader_rewind(struct csv_reader *reader, struct error *error) WARN_UNUSED;
struct table_style csv_reader_style(const struct csv_reader *reader);
