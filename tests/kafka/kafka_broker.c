#include "tests/kafka/kafka_broker.h"

#include <setjmp.h>
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

static bool run(const char *script, const char *arguments)
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
    if (!mkdtemp(folder) || !run("start", ">/dev/null")) {
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
    if (!run("stop", "--kill") || system(command) != 0)
        fprintf(stderr, "%s was not cleared away\n", folder);
    *folder = '\0';
    return 0;
}

void broker_run_case(void **state)
{
    if (!brokers)
        skip();
    ((const struct broker_case *)*state)->run(state);
}

bool broker_is_ours(void)
{
    return *folder;
}

void broker_kill(void)
{
    if (!run("stop", "--kill"))
        exit(1);
}

void broker_restart(void)
{
    if (!run("start", ">/dev/null"))
        exit(1);
}
