// Any bytes as a file of jobs, gzip or not: what is read is the same each time, and a line that is a job has
// its id found as the decoder does.
#include "consumer/command/files/input.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static enum status check_group(void *context, const struct submission *submissions, size_t n,
                               struct error *error)
{
    int64_t *n_jobs = context;
    (void)error;
    for (size_t i = 0; i < n; i++, ++*n_jobs) {
        struct job *job = job_create();
        struct arena arena = {0};
        struct error fault;
        struct text id;
        fuzz_check(job && submissions[i].index > 0 && submissions[i].custom_id.size > 0);
        if (job_decode(job, submissions[i].record, ENCODING_JSON, &fault) == STATUS_OK && job->custom_id.size)
            fuzz_check(input_ids_find(submissions[i].record, &arena, &id) && text_equal(id, job->custom_id));
        arena_finish(&arena);
        job_destroy(job);
    }
    return STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct input input;
    struct error error;
    int64_t n_jobs = 0;
    int fd = memfd_create("input", MFD_CLOEXEC);
    fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (input_open(&input, path, TEXT("d"), &error) == STATUS_OK) {
        struct input_position whole = input.whole;
        fuzz_check(input_read(&input, TEXT("d"), check_group, &n_jobs, &error) == STATUS_OK);
        fuzz_check(n_jobs == whole.n_jobs);
        input_close(&input);
    } else {
        fuzz_check(error.status == STATUS_REFUSE);
    }
    close(fd);
    return 0;
}
