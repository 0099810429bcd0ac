// The log's lines (consumer/observe/log.h), the messages about checked steps (consumer/worker/check_log.h) and progress
// (consumer/worker/progress_line.h), with the test's own clock.
#include "consumer/observe/log.h"
#include "consumer/worker/check_log.h"
#include "consumer/worker/progress_line.h"
#include "tests/support/cases.h"

#include <time.h>
#include <unistd.h>

static int64_t now_ms;   // of every clock
static bool is_terminal; // standard error
static char folder[] = "/tmp/sheaf-log-XXXXXX", path[64], moved[64];
static char text[4096]; // of the file read last

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000};
    return 0;
}

int __wrap_isatty(int fd)
{
    return is_terminal;
}

static const char *content(const char *name)
{
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void write_file(const char *name, const char *bytes)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(bytes, file);
    fclose(file);
}

// Continues with an empty file.
static void configure(enum log_level level, bool json)
{
    struct error error;
    unlink(path);
    assert_int_equal(
        log_configure(&(struct log_settings){.level = level, .json = json, .path = path}, &error), STATUS_OK);
}

static int make_folder(void **state)
{
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(moved, sizeof moved, "%s/moved", folder);
    return 0;
}

static int remove_folder(void **state)
{
    unlink(path);
    unlink(moved);
    return rmdir(folder);
}

TEST(lines_of_a_file_have_the_time_in_milliseconds)
{
    configure(LOG_INFO, false);
    now_ms = 1700000000007;
    log_write(LOG_WARNING, "%d pages", 3);
    now_ms = 1700000000999;
    log_write(LOG_INFO, "started");
    log_write(LOG_DEBUG, "not asked for");
    log_write_unlocked(LOG_ERROR, "the last");
    assert_string_equal(content(path), "2023-11-14T22:13:20.007Z warning: 3 pages\n"
                                       "2023-11-14T22:13:20.999Z started\n"
                                       "2023-11-14T22:13:20.999Z the last\n");
}

TEST(a_message_is_cut_at_twice_an_errors_length)
{
    char message[3 * ERROR_TEXT_BYTES];
    memset(message, 'x', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    configure(LOG_INFO, false);
    log_write(LOG_INFO, "%s", message);
    const char *line = strchr(content(path), 'x');
    assert_non_null(line);
    assert_int_equal(strspn(line, "x"), 2 * ERROR_TEXT_BYTES - 1);
    assert_string_equal(line + 2 * ERROR_TEXT_BYTES - 1, "\n");
}

TEST(lines_of_json_name_their_level)
{
    configure(LOG_DEBUG, true);
    now_ms = 1700000000020;
    log_write(LOG_ERROR, "a\"b");
    log_write(LOG_WARNING, "w");
    log_write(LOG_INFO, "i");
    log_write(LOG_DEBUG, "d");
    assert_string_equal(content(path),
                        "{\"time\":\"2023-11-14T22:13:20.020Z\",\"level\":\"error\",\"message\":\"a\\\"b\"}\n"
                        "{\"time\":\"2023-11-14T22:13:20.020Z\",\"level\":\"warning\",\"message\":\"w\"}\n"
                        "{\"time\":\"2023-11-14T22:13:20.020Z\",\"level\":\"info\",\"message\":\"i\"}\n"
                        "{\"time\":\"2023-11-14T22:13:20.020Z\",\"level\":\"debug\",\"message\":\"d\"}\n");
}

TEST(fields_are_members_of_json_and_leave_the_plain_line_as_it_is)
{
    const struct log_counts counts = {.done = 30, .failed = 0, .total = -1, .tokens = 100, .rate = 4};
    const struct log_fields fields = {.event = "progress", .dataset = TEXT("a\"b"), .counts = &counts};
    configure(LOG_INFO, true);
    now_ms = 1700000000020;
    log_write_fields(LOG_INFO, &fields, "%d jobs", 30);
    log_write_fields(LOG_ERROR, &(struct log_fields){.event = "failed", .code = "store_error"}, "broken");
    log_write_fields(LOG_DEBUG, &fields, "not asked for");
    assert_string_equal(
        content(path),
        "{\"time\":\"2023-11-14T22:13:20.020Z\",\"level\":\"info\",\"message\":\"30 jobs\","
        "\"event\":\"progress\",\"dataset\":\"a\\\"b\",\"done\":30,\"failed\":0,\"tokens\":100,"
        "\"rate\":4.0}\n"
        "{\"time\":\"2023-11-14T22:13:20.020Z\",\"level\":\"error\",\"message\":\"broken\","
        "\"event\":\"failed\",\"code\":\"store_error\"}\n");
    configure(LOG_INFO, false);
    log_write_fields(LOG_INFO, &fields, "30 jobs");
    assert_string_equal(content(path), "2023-11-14T22:13:20.020Z 30 jobs\n");
}

TEST(a_file_that_holds_something_else_is_refused_and_a_log_goes_on)
{
    static const char *const others[] = {"{\"prompt\":\"x\"}\n", "2026 notes\n", "x023-11-14T\n", "{\"tim",
                                         "2023"};
    static const char *const logs[] = {"2023-11-14T22:13:20.020Z x\n", "{\"time\":\"2023\"}\n", "2023-", ""};
    struct error error;
    struct log_settings settings = {.level = LOG_INFO, .path = path};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_file(path, others[i]);
        assert_int_equal(log_configure(&settings, &error), STATUS_REFUSE);
        assert_non_null(strstr(error.text, "expected a log or an empty file"));
        assert_string_equal(content(path), others[i]);
    }
    now_ms = 1700000000000;
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        char expected[128];
        write_file(path, logs[i]);
        assert_ok(log_configure(&settings, &error), &error);
        assert_true(log_has_file());
        log_write(LOG_INFO, "more");
        snprintf(expected, sizeof expected, "%s2023-11-14T22:13:20.000Z more\n", logs[i]);
        assert_string_equal(content(path), expected);
    }
}

TEST(a_log_that_was_moved_is_opened_anew_under_its_name)
{
    configure(LOG_INFO, false);
    log_write(LOG_INFO, "one");
    assert_int_equal(rename(path, moved), 0);
    log_write(LOG_INFO, "two");
    log_reopen();
    log_write(LOG_INFO, "three");
    assert_non_null(strstr(content(moved), "two\n"));
    assert_null(strstr(content(moved), "three"));
    assert_null(strstr(content(path), "two"));
    assert_non_null(strstr(content(path), "three\n"));
    assert_int_equal(unlink(path), 0);
    write_file(path, "no log"); // the old one stays
    log_reopen();
    log_write(LOG_INFO, "four");
    assert_string_equal(content(path), "no log");
}

TEST(a_step_that_was_checked_is_logged_and_another_is_not)
{
    configure(LOG_INFO, false);
    now_ms = 0;
    check_log(&(struct check_figures){.step = 0});
    assert_string_equal(content(path), "");
    check_log(&(struct check_figures){.step = 1,
                                      .difference = 0.5,
                                      .magnitude = 8,
                                      .squared_error = 0.25,
                                      .n_sequences = 2,
                                      .n_sequences_of = 3,
                                      .n_draws_apart = 1,
                                      .n_draws = 4});
    assert_non_null(strstr(content(path),
                           "step 1: logits are up to 0.5 from the CPU's (at one of 8; normalized squared "
                           "error 0.25), 2 of 3 sequences, 1 of 4 tokens differ\n"));
    check_log_totals(&(struct check_totals){.n_steps = 9,
                                            .n_checked = 3,
                                            .n_outputs = 7,
                                            .n_draws = 6,
                                            .n_draws_apart = 2,
                                            .difference = 0.5,
                                            .squared_error = 0.25});
    assert_non_null(strstr(content(path),
                           "3 of 9 steps: 7 rows of logits up to 0.5 from the CPU's (normalized squared "
                           "error up to 0.25), 2 of 6 tokens differ\n"));
}

// ---- progress ----

static void show(struct progress_line *line, int64_t at_ms, int64_t n_done, int64_t n_failed,
                 int64_t n_tokens)
{
    now_ms = at_ms;
    progress_line_show(line, &(struct worker_progress){
                                 .n_done = n_done, .n_failed = n_failed, .generated_tokens = n_tokens});
}

TEST(a_message_of_progress_comes_when_its_time_is_over_and_something_happened)
{
    struct progress_line line = {.n_total = 101, .n_before = 10, .message_ms = 5000};
    is_terminal = false;
    configure(LOG_INFO, false);
    show(&line, 1000, 0, 0, 0);
    show(&line, 5999, 10, 0, 100);
    assert_string_equal(content(path), "");
    show(&line, 6000, 18, 2, 100); // 20 of 91 in 5 s
    assert_string_equal(content(path),
                        "1970-01-01T00:00:06.000Z 30/101 jobs, 4.0/s, 2 failed, 20 tokens/s, 18 s left\n");
    show(&line, 11000, 18, 2, 100);
    show(&line, 13000, 18, 2, 200);
    show(&line, 16000, 18, 2, 200);
    assert_non_null(strstr(content(path), ":16.000Z 30/101 jobs, 1.3/s, 2 failed, 20 tokens/s, 53 s left\n"));
    show(&line, 21000, 89, 2, 200); // all
    assert_non_null(strstr(content(path), ":21.000Z 101/101 jobs, 14.2/s, 2 failed, 0 tokens/s\n"));
}

TEST(a_message_of_progress_has_its_figures_as_fields)
{
    struct progress_line line = {.dataset = TEXT("d"), .n_total = 101, .n_before = 10, .message_ms = 5000};
    is_terminal = false;
    configure(LOG_INFO, true);
    show(&line, 1000, 0, 0, 0);
    show(&line, 6000, 18, 2, 100);
    assert_non_null(strstr(content(path), "\"event\":\"progress\",\"dataset\":\"d\",\"done\":30,\"failed\":2,"
                                          "\"total\":101,\"tokens\":100,\"rate\":4.0}\n"));
    struct log_counts counts = progress_line_counts(&(struct progress_line){.n_before = 3},
                                                    &(struct worker_progress){.n_failed = 1});
    assert_int_equal(counts.done, 4);
    assert_int_equal(counts.total, -1);
    assert_true(counts.rate == 0);
}

// 300 quick jobs in 2 s, then 6 slow ones a second. The window is as long as 16 jobs take with a batch of 8,
// and 128 with one of 64.
TEST(the_time_left_follows_the_rate_of_the_last_jobs)
{
    static const struct {
        int32_t n_batch;
        const char *lines[4];
    } cases[] = {{8,
                  {"300/400 jobs, 150.0/s, 0 failed, 0 tokens/s, 1 s left\n",
                   "312/400 jobs, 19.1/s, 0 failed, 0 tokens/s, 5 s left\n",
                   "324/400 jobs, 6.2/s, 0 failed, 0 tokens/s, 12 s left\n",
                   "336/400 jobs, 6.2/s, 0 failed, 0 tokens/s, 10 s left\n"}},
                 {64,
                  {"300/400 jobs, 150.0/s, 0 failed, 0 tokens/s, 1 s left\n",
                   "312/400 jobs, 47.1/s, 0 failed, 0 tokens/s, 2 s left\n",
                   "324/400 jobs, 30.0/s, 0 failed, 0 tokens/s, 3 s left\n",
                   "336/400 jobs, 22.9/s, 0 failed, 0 tokens/s, 3 s left\n"}}};
    is_terminal = false;
    for (size_t i = 0; i < 2; i++) {
        struct progress_line line = {.n_total = 400, .message_ms = 2000, .n_batch = cases[i].n_batch};
        for (int64_t at_ms = 0; at_ms <= 8000; at_ms += 200) {
            configure(LOG_INFO, false);
            int64_t n = at_ms <= 2000 ? at_ms * 300 / 2000 : 300 + (at_ms - 2000) * 6 / 1000;
            show(&line, 1000 + at_ms, n, 0, 0);
            if (at_ms == 0 || at_ms % 2000)
                continue;
            const char *expected = cases[i].lines[at_ms / 2000 - 1];
            if (!strstr(content(path), expected))
                fail_msg("%s: %s", expected, content(path));
        }
    }
}

// Memory is bounded, and the beginning of a long window stays known.
TEST(a_window_without_jobs_keeps_its_beginning)
{
    struct progress_line line = {.n_total = 400, .message_ms = 1000};
    is_terminal = false;
    for (int64_t at_ms = 0; at_ms <= 99000; at_ms += 200) {
        configure(LOG_INFO, false);
        show(&line, 1000 + at_ms, at_ms ? 100 : 0, 0, at_ms);
    }
    assert_non_null(strstr(content(path), "T00:01:40.000Z 100/400 jobs, 1.0/s, "));
}

TEST(progress_without_an_interval_or_a_total_says_neither)
{
    struct progress_line silent = {.n_total = 100}, open = {.message_ms = 1000};
    is_terminal = false;
    configure(LOG_INFO, false);
    show(&silent, 1000, 0, 0, 0);
    show(&silent, 900000, 50, 0, 5000);
    assert_string_equal(content(path), "");
    show(&open, 1000, 0, 0, 0);
    show(&open, 2000, 3, 0, 7);
    assert_string_equal(content(path), "1970-01-01T00:00:02.000Z 3 jobs, 3.0/s, 0 failed, 7 tokens/s\n");
}

TEST(progress_says_what_the_cache_saved_the_last_error_and_hours_left)
{
    struct progress_line line = {.n_total = 1000000, .message_ms = 1000};
    is_terminal = false;
    configure(LOG_INFO, false);
    show(&line, 1000, 0, 0, 0);
    now_ms = 11000;
    progress_line_show(&line, &(struct worker_progress){.n_done = 99,
                                                        .n_failed = 1,
                                                        .generated_tokens = 50,
                                                        .prompt_tokens = 3000,
                                                        .cached_tokens = 1000,
                                                        .last_error = "the prompt is too long"});
    assert_non_null(strstr(content(path),
                           "100/1000000 jobs, 10.0/s, 1 failed, 5 tokens/s, 33 % of prompts cached, "
                           "28 h left; last error: the prompt is too long\n"));
}

TEST(the_time_that_is_left_is_in_seconds_minutes_or_hours)
{
    static const struct {
        int64_t n_total;
        const char *left;
    } cases[] = {{600, "599 s"},     {601, "10 min"}, {2701, "45 min"},
                 {35970, "599 min"}, {35971, "10 h"}, {90001, "25 h"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { // one job a second
        struct progress_line line = {.n_total = cases[i].n_total, .message_ms = 1000};
        char expected[64];
        is_terminal = false;
        configure(LOG_INFO, false);
        show(&line, 1000, 0, 0, 0);
        show(&line, 2000, 1, 0, 7);
        snprintf(expected, sizeof expected, "7 tokens/s, %s left\n", cases[i].left);
        if (!strstr(content(path), expected))
            fail_msg("%s: %s", expected, content(path));
    }
}

// Text that a call writes to standard error.
static const char *on_the_terminal(struct progress_line *line, int64_t at_ms, int64_t n_done,
                                   int64_t n_tokens)
{
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    FILE *into = fopen(moved, "w");
    assert_non_null(into);
    dup2(fileno(into), STDERR_FILENO);
    if (at_ms)
        show(line, at_ms, n_done, 1, n_tokens);
    else
        progress_line_clear(line);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    fclose(into);
    return content(moved);
}

TEST(a_terminal_has_a_line_that_is_written_over)
{
    struct progress_line line = {.n_total = 48}, open = {.n_total = 0};
    is_terminal = true;
    assert_string_equal(on_the_terminal(&line, 0, 0, 0), ""); // nothing to clear
    assert_string_equal(on_the_terminal(&line, 1000, 1, 0),
                        "\r\033[K[#.......................] 2/48 jobs, 1 failed, 0 tokens/s");
    assert_non_null(strstr(on_the_terminal(&line, 1499, 1, 100), " 0 tokens/s"));
    assert_non_null(
        strstr(on_the_terminal(&line, 2000, 23, 100), // 24 in a second
               "[############............] 24/48 jobs, 24.0/s, 1 failed, 100 tokens/s, 1 s left"));
    assert_non_null(strstr(on_the_terminal(&line, 3000, 23, 300), " 130 tokens/s")); // 0.7 of 100, 0.3 of 200
    assert_non_null(strstr(on_the_terminal(&line, 3001, 47, 300), "[########################] 48/48"));
    assert_non_null(strstr(on_the_terminal(&line, 3002, 99, 300), "[########################] 100/48"));
    assert_string_equal(on_the_terminal(&line, 0, 0, 0), "\r\033[K");
    assert_string_equal(on_the_terminal(&line, 0, 0, 0), "");
    assert_string_equal(on_the_terminal(&open, 1000, 4, 0), "\r\033[K5 jobs, 1 failed, 0 tokens/s");
}

GROUP_FIXTURE(make_folder, remove_folder);
