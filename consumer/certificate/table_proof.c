#include "consumer/certificate/table_proof.h"

enum { FILE_BYTES_SHOWN = 200, FIRST_BYTES = FILE_BYTES_SHOWN + 64 };

struct proof {
    const struct certificate *certificate;
    struct merkle merkle;
    int64_t n_requested;
    uint16_t tag;        // of the group that is not complete
    int64_t n_different; // groups whose tags differ
    int64_t first;       // of these, from 0
    uint16_t first_tag;
    const char *file, *first_file; // of the row, and of that one; NULL: the table has one file
};

static void compare_group(struct proof *proof, int64_t group)
{
    const struct row_tags *tags = &proof->certificate->tags;
    bool is_equal = (uint64_t)group < tags->n && tags->items[group] == proof->tag;
    if (!is_equal && !proof->n_different++) {
        proof->first = group;
        proof->first_tag = proof->tag;
        proof->first_file = proof->file;
    }
    proof->tag = 0;
}

static void add_leaf(struct proof *proof, const struct sha256 *leaf)
{
    int64_t rows = proof->certificate->tags.group_rows, group_rows = rows ? rows : 1;
    merkle_add(&proof->merkle, leaf);
    proof->tag ^= (uint16_t)(leaf->bytes[0] << 8 | leaf->bytes[1]);
    if ((int64_t)proof->merkle.n % group_rows == 0)
        compare_group(proof, (int64_t)proof->merkle.n / group_rows - 1);
}

static void describe_first(const struct proof *proof, char *text, size_t size)
{
    int64_t rows = proof->certificate->tags.group_rows, begin = proof->first * rows + 1;
    if (rows > 1)
        snprintf(text, size, "one of rows %lld to %lld", (long long)begin, (long long)(begin + rows - 1));
    else
        snprintf(text, size, "row %lld%s%.*s%s", (long long)proof->first + 1,
                 proof->first_file ? " (in " : "", FILE_BYTES_SHOWN,
                 proof->first_file ? proof->first_file : "", proof->first_file ? ")" : "");
}

static enum status refuse_count(const struct proof *proof, int64_t n_rows, struct error *error)
{
    char first[FIRST_BYTES];
    int64_t n_wanted = proof->certificate->n_rows;
    describe_first(proof, first, sizeof first);
    const char *others = n_rows ? "; all others are the certificate's" : "";
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "rows were %s: expected %lld, got %lld%s%s",
                     n_rows < n_wanted ? "removed" : "added", (long long)n_wanted, (long long)n_rows,
                     proof->n_different ? "; the first that differs is " : others,
                     proof->n_different ? first : "");
}

static enum status refuse_rows(const struct proof *proof, struct error *error)
{
    char first[FIRST_BYTES];
    describe_first(proof, first, sizeof first);
    const struct row_tags *tags = &proof->certificate->tags;
    const char *units = tags->group_rows > 1 ? "groups of rows" : "rows";
    bool is_all = (size_t)proof->n_different == tags->n && tags->n > 1;
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s: %lld of %zu %s differ from the certificate, the first is %s: its tag is %04x, "
        "expected %04x",
        is_all ? "another table, or a certificate whose columns, prompt, options or arithmetic were changed"
               : "changed",
        (long long)proof->n_different, tags->n, units, first, proof->first_tag, tags->items[proof->first]);
}

static enum status refuse_certificate(const struct proof *proof, bool is_root, const struct sha256 *root,
                                      struct error *error)
{
    char expected[SHA256_HEX + 1], got[SHA256_HEX + 1], first[FIRST_BYTES];
    if (is_root) { // and yet a tag differs
        describe_first(proof, first, sizeof first);
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "the certificate was changed: the tag of %s is %04x, expected %04x", first,
                         proof->certificate->tags.items[proof->first], proof->first_tag);
    }
    sha256_write_hex(&proof->certificate->root, expected);
    sha256_write_hex(root, got);
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "the certificate was changed (or, once in 65,536 times, a row): its root is %s, that of this table "
        "and of what it states is %s",
        expected, got);
}

static enum status judge(struct proof *proof, struct error *error)
{
    struct sha256 statement;
    int64_t n_rows = (int64_t)proof->merkle.n;
    if (!certificate_statement(proof->certificate, &statement))
        return error_memory(error, STATUS_REFUSE, "the certificate");
    merkle_add(&proof->merkle, &statement);
    struct sha256 root = merkle_root(&proof->merkle);
    bool is_root = sha256_equal(&root, &proof->certificate->root);
    if (is_root && !proof->n_different)
        return STATUS_OK;
    if (n_rows != proof->certificate->n_rows)
        return refuse_count(proof, n_rows, error);
    return is_root || !proof->n_different ? refuse_certificate(proof, is_root, &root, error)
                                          : refuse_rows(proof, error);
}

enum status table_proof_check(struct certified_table *table, int64_t *n_requested, struct error *error)
{
    struct proof proof = {.certificate = table->certificate};
    struct sha256 leaf;
    bool is_end = false;
    int64_t left_out = 0; // the first row that was left out
    size_t n_parts = table_reader_n_parts(table->reader);
    enum status status = certified_table_rewind(table, error);
    while (status == STATUS_OK && !is_end) {
        status = certified_table_next(table, &leaf, &is_end, error);
        if (status != STATUS_OK || is_end)
            break;
        proof.file = n_parts > 1 ? table_reader_part_path(table->reader, table->part) : NULL;
        add_leaf(&proof, &leaf);
        proof.n_requested += !table->is_left_out;
        left_out = table->is_left_out && !left_out ? table->number : left_out;
    }
    int64_t group_rows = proof.certificate->tags.group_rows;
    if (group_rows > 1 && (int64_t)proof.merkle.n % group_rows)
        compare_group(&proof, (int64_t)proof.merkle.n / group_rows);
    if (status == STATUS_OK && judge(&proof, error) != STATUS_OK)
        status = error_prefix(error, "%s", table->name.data);
    if (status == STATUS_OK && proof.n_requested && !proof.certificate->arithmetic.size)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "the certificate names no arithmetic, but rows were asked");
    if (status == STATUS_OK && left_out &&
        table->certificate->format != TABLE_PARQUET) // which keep such rows
        status = error_set(
            error, STATUS_REFUSE, ERROR_FILE,
            "%s: row %lld has neither an answer nor a reason why not: annotate writes no such rows to a "
            "%s table",
            table->name.data, (long long)left_out, table_format_name(table->certificate->format));
    *n_requested = proof.n_requested;
    if (status != STATUS_OK && status != STATUS_RETRY)
        error->status = status = STATUS_REFUSE;
    return status;
}
