// Files of jobs: lines, marks, groups.
#include "consumer/command/files/input.h"
#include "schemas/base/hash.h"
#include "tests/support/cases.h"

#include <unistd.h>

static char path[] = "/tmp/sheaf-input-XXXXXX";
static struct error error;

static int make_path(void **state)
{
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    return unlink(path);
}

static void write_file(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *text)
{
    write_file(text, strlen(text));
}

// Records returned by input_read.
struct submitted {
    const struct input *input;
    struct buffer text; // "LINE ID RECORD;" for each
    struct input_position position;
    int n_groups;
};

static enum status receive_submissions(void *context, const struct submission *submissions, size_t n,
                                       struct error *failure)
{
    struct submitted *submitted = context;
    for (size_t i = 0; i < n; i++) {
        const struct submission *s = &submissions[i];
        buffer_add_format(&submitted->text, "%lld %.*s ", (long long)s->index, (int)s->custom_id.size,
                          s->custom_id.data);
        buffer_add_text(&submitted->text,
                        (struct text){s->record.data, s->record.size < 40 ? s->record.size : 40});
        buffer_add_byte(&submitted->text, ';');
    }
    submitted->position = input_position(submitted->input);
    submitted->n_groups++;
    return STATUS_OK;
}

static enum status submit(struct submitted *submitted)
{
    struct input input;
    buffer_clear(&submitted->text);
    buffer_add_string(&submitted->text, "");
    submitted->input = &input;
    enum status status = input_open(&input, path, TEXT("d"), &error);
    if (status != STATUS_OK)
        return status;
    status = input_skip(&input, &submitted->position, &error);
    if (status == STATUS_OK)
        status = input_read(&input, TEXT("d"), receive_submissions, submitted, &error);
    input_close(&input);
    return status;
}

TEST(a_job_has_the_number_of_its_line)
{
    struct submitted submitted = {0};
    write_text("\n{\"prompt\":\"a\"}\r\n \t\n{\"prompt\":\"b\",\"custom_id\":\"x\"}\n\n{\"prompt\":\"c\"}");
    assert_int_equal(submit(&submitted), STATUS_OK);
    assert_string_equal(submitted.text.data,
                        "2 d-2 {\"prompt\":\"a\"}\r;4 x {\"prompt\":\"b\",\"custom_id\":\"x\"};"
                        "6 d-6 {\"prompt\":\"c\"};");
    assert_int_equal(submitted.position.n_lines, 6);
    buffer_finish(&submitted.text);
}

TEST(a_line_of_nul_bytes_is_a_line)
{
    struct submitted submitted = {0};
    write_file("\0\0\n\n{}\n\0", 8);
    assert_int_equal(submit(&submitted), STATUS_OK);
    assert_int_equal(submitted.position.n_lines, 4);
    assert_memory_equal(submitted.text.data, "1 d-1 \0\0;3 d-3 {};4 d-4 \0;", 26);
    buffer_finish(&submitted.text);
}

TEST(a_file_submitted_by_version_4_is_known_by_its_bytes)
{
    struct buffer bytes = {0};
    for (int i = 0; i < 20000; i++)
        buffer_add_format(&bytes, "{\"prompt\":\"%d\"}\n", i);
    write_file(bytes.data, bytes.size);
    uint64_t expected = 0, hash = 0;
    for (size_t at = 0; at < bytes.size; at += 65536)
        expected = hash_bytes(bytes.data + at, bytes.size - at < 65536 ? bytes.size - at : 65536, expected);
    struct input input;
    assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
    assert_ok(input_hash_bytes(&input, &hash, &error), &error);
    assert_true(hash == (expected & INT64_MAX));
    assert_int_equal(input.whole.n_jobs, 20000);
    input_close(&input);
    buffer_finish(&bytes);
}

TEST(a_file_that_grows_while_it_is_read_is_read_as_it_was)
{
    struct input input;
    struct submitted submitted = {.input = &input};
    write_text("{\"prompt\":\"a\"}\n");
    assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
    write_text("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n");
    assert_ok(input_read(&input, TEXT("d"), receive_submissions, &submitted, &error), &error);
    assert_string_equal(submitted.text.data, "1 d-1 {\"prompt\":\"a\"};");
    input_close(&input);
    assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
    write_text("{\"prompt\":\"a\"}\n{\"prompt\":\"c\"}\n");
    assert_int_equal(input_read(&input, TEXT("d"), receive_submissions, &submitted, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "changed while it was read"));
    input_close(&input);
    buffer_finish(&submitted.text);
}

TEST(groups_have_at_most_their_limit)
{
    for (int n = INPUT_GROUP_JOBS - 1; n <= INPUT_GROUP_JOBS + 1; n++) {
        struct submitted submitted = {0};
        struct buffer bytes = {0};
        for (int i = 0; i < n; i++)
            buffer_add_string(&bytes, "{\"prompt\":\"a\"}\n\n");
        write_file(bytes.data, bytes.size);
        assert_int_equal(submit(&submitted), STATUS_OK);
        assert_int_equal(submitted.n_groups, n > INPUT_GROUP_JOBS ? 2 : 1);
        buffer_finish(&bytes);
        buffer_finish(&submitted.text);
    }
}

// A line of n bytes, its line feed included, between two others.
static void read_long_line(size_t n, struct text *line, uint64_t *line_bytes, uint64_t *hash)
{
    static struct input_source source;
    static struct input_lines lines;
    char *bytes = malloc(n + 8);
    assert_non_null(bytes);
    memset(bytes, 'x', n + 8);
    memcpy(bytes, "one\n", 4);
    memcpy(bytes + n + 3, "\ntwo\n", 5);
    write_file(bytes, n + 8);
    free(bytes);
    input_lines_close(&lines);
    assert_ok(input_source_open(&source, path, &error), &error);
    assert_ok(input_lines_open(&lines, &source, &error), &error);
    struct text other;
    assert_ok(input_lines_next(&lines, &other, &error), &error);
    assert_true(text_equal(other, TEXT("one")));
    assert_ok(input_lines_next(&lines, line, &error), &error);
    *line_bytes = lines.line_bytes;
    *hash = lines.hash;
    size_t size = line->size;
    assert_true(size > 0 && line->data[0] == 'x' && line->data[size - 1] == 'x');
    assert_ok(input_lines_next(&lines, &other, &error), &error);
    assert_true(text_equal(other, TEXT("two")));
    line->size = size;
    assert_ok(input_lines_next(&lines, &other, &error), &error);
    assert_null(other.data);
    assert_int_equal(lines.number, 3);
    input_lines_close(&lines);
    input_source_close(&source);
}

TEST(a_line_is_kept_up_to_its_limit_and_its_size_is_known)
{
    static const size_t sizes[] = {INPUT_BUFFER_BYTES - 5,     INPUT_BUFFER_BYTES - 4,
                                   INPUT_BUFFER_BYTES - 3,     INPUT_BUFFER_BYTES,
                                   2 * INPUT_BUFFER_BYTES - 4, INPUT_LINE_BYTES_MAX - 1,
                                   INPUT_LINE_BYTES_MAX,       INPUT_LINE_BYTES_MAX + 1,
                                   3 * INPUT_LINE_BYTES_MAX};
    uint64_t hashes[sizeof sizes / sizeof sizes[0]];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct text line;
        uint64_t line_bytes;
        read_long_line(sizes[i] + 1, &line, &line_bytes, &hashes[i]);
        assert_int_equal(line_bytes, sizes[i]);
        assert_int_equal(line.size, sizes[i] < INPUT_LINE_BYTES_MAX ? sizes[i] : INPUT_LINE_BYTES_MAX);
        for (size_t j = 0; j < i; j++)
            assert_true(hashes[i] != hashes[j]);
    }
}

// ---- custom_ids ----

struct submission_count {
    size_t n;
    char ids[2][64];
};

static enum status keep_first_id(void *context, const struct submission *submissions, size_t n,
                                 struct error *reading)
{
    struct submission_count *count = context;
    for (size_t i = 0; i < n && count->n < 2; i++)
        snprintf(count->ids[count->n++], sizeof count->ids[0], "%.*s", (int)submissions[i].custom_id.size,
                 submissions[i].custom_id.data);
    return STATUS_OK;
}

static void assert_id(const char *line, const char *expected)
{
    struct arena arena = {0};
    struct text id;
    bool found = input_ids_find(text_from_string(line), &arena, &id);
    if (found != (expected != NULL) || (found && !text_equals_string(id, expected)))
        fail_msg("%s: got \"%.*s\"", line, found ? (int)id.size : 4, found ? id.data : "none");
    arena_finish(&arena);
}

static void assert_found_after(const char *tail, const char *expected)
{
    struct arena arena = {0};
    struct text id = {0};
    bool found = input_ids_find_after(text_from_string(tail), &arena, &id);
    if (found != (expected != NULL) || (found && !text_equals_string(id, expected)))
        fail_msg("%s: got \"%.*s\"", tail, found ? (int)id.size : 4, found ? id.data : "none");
    arena_finish(&arena);
}

TEST(the_id_after_what_made_a_line_too_long_is_found_by_its_end)
{
    assert_found_after("xxx\"}]},\"custom_id\":\"a b\"}", "a b");
    assert_found_after("xxx\"}]}, \"custom_id\" : \"a\", \"method\":\"POST\",\"index\":[1,{\"b\":2}] } \r",
                       "a");
    assert_found_after("xxx\",\"metadata\":{\"custom_id\":\"b\"}},\"custom_id\":\"a\"}", "a");
    assert_found_after("xxx\",\"metadata\":{\"custom_id\":\"b\"}}", NULL);
    assert_found_after("xxx \\\"custom_id\\\":\\\"b\\\"}", NULL);
    assert_found_after("xxx\"},\"custom_id\":\"a\"", NULL);
    assert_found_after("xxx\"},\"custom_id\":null}", NULL);
    assert_found_after("", NULL);
}

TEST(a_line_above_the_limit_keeps_its_end)
{
    static const char after[] = "\"}}],\"custom_id\":\"late\"}";
    struct submission_count count = {0};
    struct buffer text = {0};
    buffer_add_string(&text, "{\"body\":{\"messages\":[{\"content\":\"");
    for (size_t i = 0; i < JOB_RECORD_BYTES_MAX + (size_t)3 * INPUT_BUFFER_BYTES; i++)
        buffer_add_byte(&text, 'x');
    buffer_add_string(&text, after);
    buffer_add_string(&text, "\n{\"prompt\":\"y\"}\n");
    write_text(text.data);
    struct input input;
    assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
    assert_ok(input_read(&input, TEXT("d"), keep_first_id, &count, &error), &error);
    assert_int_equal(count.n, 2);
    assert_string_equal(count.ids[0], "late");
    assert_string_equal(count.ids[1], "d-2");
    input_close(&input);
    buffer_finish(&text);
}

TEST(the_id_of_a_line_is_found_also_where_it_is_no_json)
{
    assert_id("{\"custom_id\":\"a\",\"prompt\":\"x\"}", "a");
    assert_id(" { \"prompt\" : \"}\\\"custom_id\\\":\\\"b\" , \t\"custom_id\" : \"a b\" } ", "a b");
    assert_id("{\"x\":{\"custom_id\":\"b\"},\"y\":[{\"custom_id\":\"c\"}],\"custom_id\":\"a\"}", "a");
    assert_id("{\"body\":{\"custom_id\":\"b\"}}", NULL);
    assert_id(" \t{\"body\":{\"custom_id\":\"b\"}}", NULL);
    assert_id("{\"prompt\":\"custom_id\"}", NULL);
    assert_id("{\"custom_id\":\"\\u00e4\\n\"}", "\xc3\xa4\n");
    assert_id("{\"job_id\":\"j\",\"prompt\":1}", "j");
    assert_id("{\"job_id\":\"j\",\"custom_id\":\"a\"}", "a");
    assert_id("{\"job_id\":\"j\",\"custom_id\":null}", "j");
    assert_id("{\"custom_id\":17}", "17");
    assert_id("{\"custom\\u005fid\":\"a\"}", "a");
    assert_id("{\"job_id\":\"jjjjjjjjjjjjjjjjjjjj\"}", "jjjjjjjjjjjjjjjjjjjj");
    assert_id("{\"job_id\":{\"custom_id\":\"b\"},\"custom_id\":\"a\"}", "a");
    assert_id("{}", NULL);
    assert_id("{\"custom_id\":\"\"}", NULL);
    assert_id("{\"custom_id\":true}", NULL);
    assert_id("{\"custom_id\":", NULL);
    assert_id("{\"custom_id\":\"a", NULL);
    assert_id("{\"custom_id\":\"\xff\"}", NULL);
    assert_id("", NULL);
    // no JSON
    assert_id("{\"prompt\": no json, \"custom_id\": \"a\"}", "a");
    assert_id("{\"prompt\":\"it says \"hello\"\", \"custom_id\":\"a\"", "a");
    assert_id("\"custom_id\" is missing, \"custom_id\":\"a\"", "a");
    assert_id("{\"custom_id\":\"a\",\"prompt\":\"cut he", "a");
    assert_id("{\"job_id\":\"j\",\"prompt\": no json, \"custom_id\": \"a\"}", "a");
    assert_id("{\"job_id\":\"j\",\"prompt\": no json}", "j");
    assert_id("{\"prompt\": no json, \"custom_id\": \"a", NULL);
    char line[JOB_ID_BYTES_MAX + 32], id[JOB_ID_BYTES_MAX + 2];
    for (int n = JOB_ID_BYTES_MAX; n <= JOB_ID_BYTES_MAX + 1; n++) {
        memset(id, 'i', (size_t)n);
        id[n] = '\0';
        snprintf(line, sizeof line, "{\"custom_id\":\"%s\"}", id);
        assert_id(line, n > JOB_ID_BYTES_MAX ? NULL : id);
    }
}

// Line i has id i but for line `same`, which has that of line `of`; 0: none.
static enum status check_ids(int n_lines, int same, int of, struct input_ids_limits limits)
{
    struct buffer bytes = {0};
    for (int i = 1; i <= n_lines; i++)
        buffer_add_format(&bytes, "%s{\"custom_id\":\"%d\"}\n", i % 7 == 0 ? " " : "", i == same ? of : i);
    write_file(bytes.data, bytes.size);
    buffer_finish(&bytes);
    struct input_source source;
    struct input_lines lines;
    assert_ok(input_source_open(&source, path, &error), &error);
    assert_ok(input_lines_open(&lines, &source, &error), &error);
    error = (struct error){0};
    enum status status = input_ids_check(&lines, TEXT("d"), &limits, &error);
    input_lines_close(&lines);
    input_source_close(&source);
    return status;
}

TEST(two_lines_with_one_id_are_found_however_many_passes_it_takes)
{
    static const struct input_ids_limits limits[] = {
        {INPUT_IDS_MAX, 64}, {200, 64}, {199, 64}, {10, 64}, {10, 3}, {1, 1}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        assert_int_equal(check_ids(200, 0, 0, limits[i]), STATUS_OK);
        static const int pairs[][2] = {{200, 1}, {2, 1}, {200, 199}, {113, 87}};
        for (size_t j = 0; j < sizeof pairs / sizeof pairs[0]; j++) {
            char expected[80];
            assert_int_equal(check_ids(200, pairs[j][0], pairs[j][1], limits[i]), STATUS_REFUSE);
            snprintf(expected, sizeof expected, "lines %d and %d have the same custom_id \"%d\"", pairs[j][1],
                     pairs[j][0], pairs[j][1]);
            assert_non_null(strstr(error.text, expected));
        }
    }
}

TEST(a_line_without_an_id_has_its_number_and_may_collide)
{
    struct input input;
    write_text("\n{\"prompt\":\"a\"}\n\n{\"custom_id\":\"d-2\"}\n");
    assert_int_equal(input_open(&input, path, TEXT("d"), &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text,
                           "line 2 has no custom_id and is named \"d-2\", which is the custom_id of "
                           "line 4: give line 2 one, or the dataset another name"));
    assert_ok(input_open(&input, path, TEXT("e"), &error), &error);
    input_close(&input);
}

// ---- an input read in parts: only of the same lines ----

enum { N_LINES = 2500 }; // three groups

struct received {
    const struct input *input;
    struct input_position positions[8]; // after each group
    size_t n_groups;
    int64_t first, last, n_jobs; // indexes
};

static enum status receive_group(void *context, const struct submission *submissions, size_t n,
                                 struct error *failure)
{
    struct received *received = context;
    if (received->n_jobs == 0)
        received->first = submissions[0].index;
    received->last = submissions[n - 1].index;
    received->n_jobs += (int64_t)n;
    received->positions[received->n_groups++] = input_position(received->input);
    return STATUS_OK;
}

static char *lines_of(int n_lines)
{
    char *text = calloc((size_t)n_lines + 1, 40);
    for (int i = 0, at = 0; i < n_lines; i++)
        at += sprintf(text + at, "%s{\"prompt\": \"p%d\"}\n", i % 10 == 3 ? "\n" : "", i);
    return text;
}

// Skips, then reads the rest; what was received.
static enum status read_from(const char *text, const struct input_position *from, struct received *received)
{
    write_text(text);
    struct input input;
    *received = (struct received){.input = &input};
    assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
    enum status status = from ? input_skip(&input, from, &error) : STATUS_OK;
    if (status == STATUS_OK)
        status = input_read(&input, TEXT("d"), receive_group, received, &error);
    input_close(&input);
    return status;
}

TEST(an_input_goes_on_after_the_lines_of_each_position)
{
    struct received whole, rest;
    char *text = lines_of(N_LINES);
    assert_int_equal(read_from(text, NULL, &whole), STATUS_OK);
    assert_int_equal(whole.n_groups, 3);
    assert_int_equal(whole.n_jobs, N_LINES);
    for (size_t i = 0; i < whole.n_groups; i++) {
        assert_int_equal(read_from(text, &whole.positions[i], &rest), STATUS_OK);
        assert_int_equal(rest.n_jobs, N_LINES - whole.positions[i].n_jobs);
        if (rest.n_jobs) {
            // line 1,000 * n is followed by no blank one
            assert_int_equal(rest.first, whole.positions[i].n_lines + 1);
            assert_int_equal(rest.last, whole.positions[2].n_lines);
            assert_memory_equal(&rest.positions[rest.n_groups - 1], &whole.positions[2],
                                sizeof rest.positions[0]);
        }
    }
    free(text);
}

TEST(appended_lines_are_read_also_after_a_last_line_without_line_feed)
{
    struct received first, more;
    assert_int_equal(read_from("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}", NULL, &first), STATUS_OK);
    const char *longer = "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n";
    assert_int_equal(read_from(longer, &first.positions[0], &more), STATUS_OK);
    assert_int_equal(more.n_jobs, 1);
    assert_int_equal(more.first, 3);
}

TEST(other_lines_and_fewer_are_refused)
{
    struct received first, other;
    assert_int_equal(read_from("{}one\n{}two\n{}three\n", NULL, &first), STATUS_OK);
    static const char *const others[] = {"{}one\n{}two\n{}threee\n", "{}one\n{}two{}three\n\n",
                                         "{}two\n{}one\n{}three\n", "\n{}one\n{}two\n{}three\n",
                                         "{}one\r\n{}two\n{}three\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(read_from(others[i], &first.positions[0], &other), STATUS_REFUSE);
        assert_non_null(strstr(error.text, "first 3 lines are not the ones"));
    }
    assert_int_equal(read_from("{}one\n{}two\n", &first.positions[0], &other), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "expected the 3 lines submitted before"));
    assert_non_null(strstr(error.text, "got 2 lines"));
    assert_int_equal(other.n_jobs, 0);
}

TEST(a_file_without_one_object_is_refused)
{
    static const char *const texts[] = {"id,text\n1,good\n",
                                        "{\n  \"prompt\": \"a\"\n}\n",
                                        "[{\"prompt\":\"a\"}]",
                                        "{no json\n",
                                        "{\"\1\n",
                                        "{ \"key\x7\" \n",
                                        "\"a\"\n\n7\n"};
    static const char *const likely[] = {"a\n{\"prompt\": no json\n", "\n \t{ \t\"x", "{}", "{ } x"};
    struct input input;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(texts[i]);
        assert_int_equal(input_open(&input, path, TEXT("d"), &error), STATUS_REFUSE);
        assert_non_null(strstr(error.text, "expected a JSON object in each line, got none in "));
    }
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++) {
        write_text(likely[i]);
        assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
        input_close(&input);
    }
}

GROUP_FIXTURE(make_path, remove_path);
