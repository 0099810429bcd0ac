#include "tests/kafka/kafka_broker.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *brokers;

static char folder[64];
static char address[128];

static bool run_script(const char *script, const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "%s/ops/kafka/%s --dir %s %s", SOURCE_ROOT, script, folder, arguments);
    return system(command) == 0;
}

static const char *start(void)
{
    const char *given = getenv("SHEAF_TEST_BROKER");
    if (given && *given) {
        snprintf(address, sizeof address, "%s", given);
        return address;
    }
    if (system("command -v java >/dev/null") != 0) {
        fprintf(stderr, "skipped: needs java, or SHEAF_TEST_BROKER=HOST:PORT\n");
        return NULL;
    }
    strcpy(folder, "/tmp/sheaf-broker-XXXXXX");
    if (!mkdtemp(folder) || !run_script("start", ">/dev/null")) {
        fprintf(stderr, "skipped: ops/kafka/start could not bring up a broker\n");
        return NULL;
    }
    char path[128];
    snprintf(path, sizeof path, "%s/address", folder);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(address, sizeof address, file))
        exit(1);
    fclose(file);
    address[strcspn(address, "\n")] = '\0';
    return address;
}

int broker_start_group(void **state)
{
    (void)state;
    brokers = start();
    return 0;
}

int broker_stop_group(void **state)
{
    (void)state;
    if (!*folder)
        return 0;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (!run_script("stop", "--kill") || system(command) != 0)
        fprintf(stderr, "%s was not cleared away\n", folder);
    *folder = '\0';
    return 0;
}

static void run_case(void **state)
{
    if (!brokers)
        skip();
    ((const struct broker_case *)*state)->run(state);
}

struct CMUnitTest broker_test(const char *name, struct broker_case *which)
{
    return (struct CMUnitTest){name, run_case, NULL, NULL, which};
}

bool broker_is_ours(void)
{
    return *folder;
}

void broker_kill(void)
{
    if (!run_script("stop", "--kill"))
        exit(1);
}

void broker_restart(void)
{
    if (!run_script("start", ">/dev/null"))
        exit(1);
}

static void send_signal_to(const char *path, int signal)
{
    char pid[32] = "";
    FILE *file = fopen(path, "r");
    if (!file || !fgets(pid, sizeof pid, file) || kill(atoi(pid), signal) != 0) {
        fprintf(stderr, "%s: no signal was sent\n", path);
        exit(1);
    }
    fclose(file);
}

void broker_pause(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/pid", folder);
    send_signal_to(path, SIGSTOP);
}

void broker_resume(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/pid", folder);
    send_signal_to(path, SIGCONT);
}

// ---- a cluster ----

enum { N_BROKERS = 3 };

static char addresses[N_BROKERS + 1][64];

static bool run_shell(const char *format)
{
    char command[2048];
    snprintf(command, sizeof command, format, SOURCE_ROOT, folder);
    return system(command) == 0;
}

static void read_file(int id, const char *name, char *line, int size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%d/%s", folder, id, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, size, file)) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

int cluster_start_group(void **state)
{
    (void)state;
    const char *given = getenv("SHEAF_TEST_BROKER");
    if (system("command -v java >/dev/null") != 0 || (given && *given)) {
        fprintf(stderr, "skipped: needs java and brokers of its own\n");
        return 0;
    }
    strcpy(folder, "/tmp/sheaf-brokers-XXXXXX");
    static const char start[] =
        "start=%s/ops/kafka/start dir=%s; printf '%%s\\n' default.replication.factor=3 "
        "offsets.topic.replication.factor=3 transaction.state.log.replication.factor=3 >$dir/properties; "
        "$start --dir $dir/1 --properties $dir/properties >/dev/null || exit; "
        "$start --dir $dir/2 --properties $dir/properties --join $dir/1 --node 2 >/dev/null & "
        "$start --dir $dir/3 --properties $dir/properties --join $dir/1 --node 3 >/dev/null && wait $!";
    if (!mkdtemp(folder) || !run_shell(start)) {
        fprintf(stderr, "skipped: ops/kafka/start could not bring up a cluster\n");
        return 0;
    }
    size_t used = 0;
    for (int id = 1; id <= N_BROKERS; id++) {
        read_file(id, "address", addresses[id], sizeof addresses[id]);
        used +=
            (size_t)snprintf(address + used, sizeof address - used, "%s%s", used ? "," : "", addresses[id]);
    }
    brokers = address;
    return 0;
}

int cluster_stop_group(void **state)
{
    (void)state;
    if (*folder &&
        !run_shell("stop=%s/ops/kafka/stop dir=%s; for id in 3 2 1; do $stop --kill --dir $dir/$id; "
                   "done; rm -rf $dir"))
        fprintf(stderr, "%s was not cleared away\n", folder);
    *folder = '\0';
    return 0;
}

const char *cluster_address(int id)
{
    return addresses[id];
}

static void send_signal(int id, int signal)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%d/pid", folder, id);
    send_signal_to(path, signal);
}

void cluster_pause(int id)
{
    send_signal(id, SIGSTOP);
}

void cluster_resume(int id)
{
    send_signal(id, SIGCONT);
}

size_t cluster_count_logged(int id, const char *text)
{
    char path[128], *line = NULL;
    size_t capacity = 0, n_lines = 0;
    snprintf(path, sizeof path, "%s/%d/broker.log", folder, id);
    FILE *file = fopen(path, "r");
    while (file && getline(&line, &capacity, file) >= 0)
        n_lines += strstr(line, text) != NULL;
    if (file)
        fclose(file);
    free(line);
    return n_lines;
}
