// Any bytes as what `sheaf serve` reads: a batch's input file, a file of tokens, a result.
#include "consumer/serve/answer_body.h"
#include "consumer/serve/answer_events.h"
#include "consumer/serve/batch_check.h"
#include "consumer/serve/serve_token.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_file(const char *path)
{
    static struct batch_check check;
    struct error error;
    struct serve_tokens tokens;
    char owner[SERVE_OWNER_BYTES];
    if (batch_check(&check, path, "/v1/completions", &error) == STATUS_OK) {
        fuzz_check(check.n_requests > 0 || check.n_faults > 0);
        for (int64_t i = 1; i < check.n_faults && i < BATCH_FAULTS_MAX; i++)
            fuzz_check(check.faults[i - 1].line <= check.faults[i].line);
    }
    if (serve_tokens_read(&tokens, path, &error) == STATUS_OK) {
        fuzz_check(tokens.n > 0 && !serve_tokens_match(&tokens, "Bearer x", owner));
        serve_tokens_finish(&tokens);
    }
}

// A piece of the text, then the end that the body says.
static void stream(struct text body, struct text piece, struct buffer *out)
{
    struct answer_events events = {.is_chat = true, .include_usage = true};
    buffer_add_string(&events.name, "\"id\":\"a\",");
    buffer_clear(out);
    answer_events_add(&events, 0, false, piece, out);
    if (!answer_events_end(&events, body, out))
        answer_events_fail(body, out);
    answer_events_finish(&events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("serve", MFD_CLOEXEC), status;
    fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_file(path);
    close(fd);
    struct text record = {(const char *)data, size};
    struct buffer body = {0}, events = {0};
    if (answer_body_write(record, &body, &status) && status == 200)
        stream((struct text){body.data, body.size}, record, &events);
    stream(record, record, &events);
    buffer_finish(&events);
    buffer_finish(&body);
    return 0;
}
