// `sheaf` with faults, for ops/storm: SHEAF_FAULT in the environment is a list of "POINT:COUNT:ACTION",
// separated by commas. POINT is a name of `names`; at the COUNTth time that it is passed the process does
// what ACTION says:
//
//   kill        SIGKILL to itself
//   stop        SIGSTOP to itself; somebody else must continue it
//   wait=MS     pauses so long, as a machine that is short of memory does
//
// "token:ID:kill": the process dies of each step that computes a prompt with this token twice in a row.
//
// "poll:COUNT:again": at every COUNTth poll a partition is fetched again from its lowest unfinished offset,
// so that what runs or is finished above it is delivered again.
#include "consumer/queue/fault.h"
#include "engine/backend.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAULTS_MAX = 16, POINT_POLL = FAULT_PUBLISHED + 1, POINT_TOKEN };

static const char *const names[] = {
    [FAULT_CLAIMED] = "claimed",     [FAULT_BEGUN] = "begun",
    [FAULT_PRODUCED] = "produced",   [FAULT_OFFSETS_SENT] = "offsets",
    [FAULT_COMMITTED] = "committed", [FAULT_PUBLISHED] = "published",
    [POINT_POLL] = "poll",           [POINT_TOKEN] = "token",
};

static struct fault {
    int point;
    long count, n_passed;
    char action[32];
} faults[FAULTS_MAX];
static int n_faults = -1; // not read yet

static void refuse_text(const char *text)
{
    fprintf(stderr, "SHEAF_FAULT: expected POINT:COUNT:ACTION[,...], got \"%s\"\n", text);
    exit(2);
}

static int point_named(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return (int)i;
    }
    return -1;
}

static void read_faults(void)
{
    const char *order = getenv("SHEAF_FAULT");
    n_faults = 0;
    while (order && *order) {
        char point[16];
        struct fault *fault = &faults[n_faults];
        int length = 0;
        if (n_faults == FAULTS_MAX ||
            sscanf(order, "%15[a-z]:%ld:%31[a-z0-9=]%n", point, &fault->count, fault->action, &length) != 3)
            refuse_text(order);
        fault->point = point_named(point);
        if (fault->point < 0 || fault->count < 1 || (order[length] && order[length] != ','))
            refuse_text(order);
        n_faults++;
        order += length + (order[length] == ',');
    }
}

static void take_action(const char *action)
{
    long wait_ms;
    if (strcmp(action, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(action, "stop") == 0)
        raise(SIGSTOP);
    else if (sscanf(action, "wait=%ld", &wait_ms) == 1)
        nanosleep(&(struct timespec){.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000}, NULL);
    else
        refuse_text(action);
}

void fault_point(enum fault_point point)
{
    if (n_faults < 0)
        read_faults();
    for (int i = 0; i < n_faults; i++) {
        if (faults[i].point == (int)point && ++faults[i].n_passed == faults[i].count)
            take_action(faults[i].action);
    }
}

// An answer's tokens come one a step, so only a prompt has two in one.
static bool holds_twice(const struct step *step, int32_t token)
{
    for (int32_t s = 0; s < step->n_sequences; s++) {
        const struct step_sequence *sequence = &step->sequences[s];
        for (int32_t i = 1; i < sequence->n_tokens; i++) {
            const int32_t *tokens = step->tokens + sequence->first_row + i;
            if (tokens[-1] == token && tokens[0] == token)
                return true;
        }
    }
    return false;
}

void fault_step(const struct step *step)
{
    for (int i = 0; i < n_faults; i++) { // read by the main thread's first poll
        if (faults[i].point == POINT_TOKEN && holds_twice(step, (int32_t)faults[i].count))
            take_action(faults[i].action);
    }
}

bool fault_redelivers(void)
{
    bool redelivers = false;
    if (n_faults < 0)
        read_faults();
    for (int i = 0; i < n_faults; i++) {
        if (faults[i].point == POINT_POLL && ++faults[i].n_passed % faults[i].count == 0)
            redelivers = true;
    }
    return redelivers;
}
