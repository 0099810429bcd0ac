// A certificate of an annotated table, a file of JSON:
//
//   {"sheaf_certificate": 1,       version
//    "rows": 1000, "format": "csv",
//    "arithmetic": "sheaf=4 ...",  system_fingerprint of the answers; empty: no row was computed
//    "columns": [...],             the input's, by name
//    "answers": [...],             the answers'
//    "unread": [...],              columns of types that are not read: the certificate says nothing about them
//    "options": {...},             what the requests and columns follow from (certificate_options.h)
//    "root": "...",                Merkle root of the rows (row_leaf.h) and of the statement, all of the above
//    "tags": "..."}                of the rows (row_tags.h)
//
// Whoever has the root from elsewhere, such as a paper, knows by `sheaf verify` that certificate and table are the ones
// that were published. A certificate whose root nobody else knows proves only what is computed again.
// Thread: main.
#pragma once

#include "consumer/certificate/row_tags.h"
#include "consumer/table/table.h"

enum { CERTIFICATE_VERSION = 1, CERTIFICATE_BYTES_MAX = 32 << 20 };

struct certificate {
    int64_t n_rows;
    enum table_format format; // that the table was written in
    struct text arithmetic;
    struct table_columns columns, answers, unread;
    struct value options; // object
    struct sha256 root;
    struct row_tags tags;
    struct arena arena;
};

void certificate_finish(struct certificate *certificate);
// STATUS_REFUSE: the file can't be read, or is no certificate of this version.
enum status certificate_read(struct certificate *certificate, const char *path,
                             struct error *error) WARN_UNUSED;
// The same of its bytes. The certificate needs certificate_finish after an error too.
enum status certificate_decode(struct certificate *certificate, struct text json,
                               struct error *error) WARN_UNUSED;
void certificate_encode(const struct certificate *certificate, struct buffer *out);
// The last leaf. False: out of memory.
bool certificate_statement(const struct certificate *certificate, struct sha256 *leaf) WARN_UNUSED;
