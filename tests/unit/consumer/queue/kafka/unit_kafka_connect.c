// The transport's start step by step, without brokers: what each step is given, where a failure or a request
// to stop ends it, and what it waits for.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { WAKE_FILE = 77, ROOM = 1 << 20 };

// The steps, by letters: [s]lot, slot without a [f]ile, [o]pens a client, [t]opics, limits of [r]esults and
// [d]ead letters, settings of [j]obs and [c]ontrol, [C]ontrol's partitions, [x] closes the client, [g]roup,
// [n]amesake, [h]indrance, [p]ublishing, committed [m]aps, follows contro[l].
static const char all[] = "sotrdjcCxgnhpml", without_control[] = "sotrdjxgnhpm";

static struct {
    char steps[64];
    char failing;         // this step,
    enum status how;      // so, as an error of
    enum error_code code; // and
    int n_times;          // so often; 0: always
    char stop_after;      // the request comes in this step
    bool stopping;
    int64_t now_ms, n_sleeps;
    struct kafka_topic_settings settings[4]; // of results, dead, jobs, control
    struct kafka_topic required[4];
    char warnings[1024];
    int patience_ms;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;

static enum status step(char letter, struct error *fault)
{
    size_t n = strlen(world.steps);
    assert_true(n + 1 < sizeof world.steps);
    world.steps[n] = letter;
    world.stopping = world.stopping || letter == world.stop_after;
    if (letter != world.failing)
        return STATUS_OK;
    if (world.n_times && --world.n_times == 0)
        world.failing = 0;
    return error_set(fault, world.how, world.code, "step %c", letter);
}

static struct slot *fill(struct slot *slot, const char *id)
{
    *slot = (struct slot){.file = -1};
    strcpy(slot->id, id);
    return slot;
}

enum status __wrap_slot_open(struct slot *slot, const char *directory, const char *group, struct error *fault)
{
    assert_string_equal(directory, "folder");
    assert_string_equal(group, "workers");
    return step('s', fault) == STATUS_OK ? (fill(slot, "0123"), STATUS_OK) : fault->status;
}

enum status __wrap_slot_open_named(struct slot *slot, const char *directory, const char *group,
                                   const char *name, struct error *fault)
{
    assert_string_equal(directory, "folder");
    assert_string_equal(group, "workers");
    return step('s', fault) == STATUS_OK ? (fill(slot, name), STATUS_OK) : fault->status;
}

enum status __wrap_slot_open_without_file(struct slot *slot, const char *name, struct error *fault)
{
    fill(slot, name ? name : "drawn");
    return step('f', fault);
}

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *conf, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_int_equal(role, KAFKA_ADMIN);
    rd_kafka_conf_destroy(conf);
    return step('o', fault);
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_int_equal(deadline_ms, world.now_ms + KAFKA_CLOSE_TIMEOUT_MS);
    (void)step('x', &(struct error){0});
}

enum status __wrap_kafka_topics_require(struct kafka_handle *handle, const struct kafka_topic *topics,
                                        size_t n_topics, struct error *fault)
{
    assert_int_equal(n_topics, config.topics.control ? 4 : 3);
    memcpy(world.required, topics, n_topics * sizeof *topics);
    return step('t', fault);
}

void __wrap_kafka_topic_read_settings(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                      struct kafka_topic_settings *settings)
{
    static const char *const names[] = {"results", "dead", "jobs", "control"};
    assert_int_equal(timeout_ms, 3000);
    for (int i = 0; i < 4; i++)
        if (strcmp(topic, names[i]) == 0) {
            *settings = world.settings[i];
            (void)step(topic[0], &(struct error){0});
        }
}

enum status __wrap_kafka_topic_await(struct kafka_handle *handle, const char *topic, int32_t *n_partitions,
                                     struct error *fault)
{
    assert_string_equal(topic, "control");
    *n_partitions = 5;
    return step('C', fault);
}

#define STEP(function, letter)                                                                               \
    enum status __wrap_##function(struct kafka_transport *of, struct error *fault);                          \
    enum status __wrap_##function(struct kafka_transport *of, struct error *fault)                           \
    {                                                                                                        \
        assert_ptr_equal(of, &kafka);                                                                        \
        return step(letter, fault);                                                                          \
    }
STEP(kafka_group_open, 'g')
STEP(kafka_namesake_await, 'n')
STEP(kafka_hindrance_open, 'h')

enum status __wrap_kafka_publish_open(struct kafka_transport *of, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    assert_int_equal(timeout_ms, 1000);
    return step('p', fault);
}

enum status __wrap_kafka_check_committed(struct kafka_transport *of, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    assert_int_equal(timeout_ms, 3000);
    return step('m', fault);
}

enum status __wrap_kafka_control_open(struct kafka_control *control, const struct kafka_config *of,
                                      const char *id, int wake_file, int patience_ms, struct error *fault)
{
    assert_ptr_equal(control, &kafka.control);
    assert_ptr_equal(control->partitions, &kafka.partitions);
    assert_int_equal(control->n_partitions, 5);
    assert_ptr_equal(of, &config);
    assert_string_equal(id, kafka.identity.id);
    assert_int_equal(wake_file, WAKE_FILE);
    world.patience_ms = patience_ms;
    return step('l', fault);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    assert_int_equal(time->tv_sec, 0);
    world.now_ms += time->tv_nsec / 1000000;
    world.n_sleeps++;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    assert_int_equal(flags, 0);
    memset(bytes, 0x5a, size);
    errno = ENOSYS;
    return world.failing == '1' ? -1 : (ssize_t)size;
}

int __wrap_eventfd(unsigned value, int flags)
{
    assert_int_equal(value, 0);
    assert_int_equal(flags, EFD_NONBLOCK | EFD_CLOEXEC);
    errno = EMFILE;
    return world.failing == '2' ? -1 : world.failing == '0' ? 0 : WAKE_FILE;
}

static bool asked_to_stop(void *context)
{
    assert_ptr_equal(context, &world);
    return world.stopping;
}

static void keep_warning(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    strncat(world.warnings, line, sizeof world.warnings - strlen(world.warnings) - 1);
    strncat(world.warnings, "\n", sizeof world.warnings - strlen(world.warnings) - 1);
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 1000000;
    for (int i = 0; i < 4; i++)
        world.settings[i] = (struct kafka_topic_settings){.bytes_max = ROOM + (size_t)i};
    config = (struct kafka_config){.brokers = "127.0.0.1:1",
                                   .topics = {.jobs = "jobs",
                                              .results = "results",
                                              .dead = "dead",
                                              .control = "control",
                                              .n_partitions = 6},
                                   .group.name = "workers",
                                   .directory = "folder",
                                   .is_stopping = asked_to_stop,
                                   .stop_context = &world,
                                   .log = keep_warning};
    kafka = (struct kafka_transport){.config = &config};
    error = (struct error){0};
    return 0;
}

TEST(all_steps_are_done_in_their_order)
{
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_string_equal(world.steps, all);
    assert_string_equal(kafka.identity.id, "sheaf-workers-0123");
    assert_true(kafka.identity.owner == kafka_fleet_owner(&config, 0x5a5a5a5aull));
    assert_int_equal(kafka.intake.wake_file, WAKE_FILE);
    assert_int_equal(kafka.publishing.outputs.results_bytes_max, ROOM);
    assert_int_equal(kafka.publishing.outputs.dead_bytes_max, ROOM + 1);
    assert_false(kafka.publishing.outputs.dead_is_compacted);
    assert_string_equal(world.warnings, "");
    assert_int_equal(world.patience_ms, KAFKA_START_PATIENCE_MS);
    static const struct kafka_topic topics[] = {
        {"jobs", 6, false}, {"results", 6, false}, {"dead", 1, false}, {"control", 1, true}};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(world.required[i].name, topics[i].name);
        assert_int_equal(world.required[i].n_partitions, topics[i].n_partitions);
        assert_int_equal(world.required[i].compacted, topics[i].compacted);
    }
}

TEST(without_a_control_topic_none_is_asked_for)
{
    config.topics.control = NULL;
    config.group.member_name = "pod-1";
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_string_equal(world.steps, without_control);
    assert_string_equal(kafka.identity.id, "sheaf-workers-pod-1");
}

TEST(a_failed_step_ends_the_start)
{
    for (const char *letter = all; *letter; letter++) {
        if (strchr("rdjcx", *letter)) // these have no answer of their own
            continue;
        begin(state);
        world.failing = *letter;
        world.how = STATUS_REFUSE;
        world.code = ERROR_BROKER;
        assert_int_equal(kafka_connect(&kafka, &error), STATUS_REFUSE);
        const char *at = strrchr(world.steps, *letter);
        assert_non_null(at); // after it only the client is closed
        assert_true(at[1] == '\0' || (strcmp(at + 1, "x") == 0 && strchr("otC", *letter)));
        assert_non_null(strstr(error.text, "step "));
    }
    for (int i = 0; i < 2; i++) { // of results and of dead letters
        begin(state);
        world.settings[i].bytes_max = KAFKA_TOPIC_BYTES_MIN - 1;
        assert_int_equal(kafka_connect(&kafka, &error), STATUS_REFUSE);
        assert_string_equal(world.steps, i == 0 ? "sotrx" : "sotrdx");
        assert_non_null(strstr(error.text, i == 0 ? "topic results takes 16383" : "topic dead takes 16383"));
        begin(state);
        world.settings[i].bytes_max = KAFKA_TOPIC_BYTES_MIN;
        assert_ok(kafka_connect(&kafka, &error), &error);
    }
}

TEST(what_the_system_refuses_ends_the_start)
{
    world.failing = '1';
    assert_int_equal(kafka_connect(&kafka, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "getrandom: Function not implemented");
    assert_string_equal(world.steps, "s");
    begin(state);
    world.failing = '2';
    assert_int_equal(kafka_connect(&kafka, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "eventfd: Too many open files");
    assert_string_equal(world.steps, "s");
}

TEST(a_request_to_stop_ends_the_start)
{
    for (const char *letter = all; *letter; letter++) {
        begin(state);
        world.stop_after = *letter;
        assert_int_equal(kafka_connect(&kafka, &error), STATUS_RESTART);
        assert_non_null(strstr(error.text, "stopped while starting"));
        const char *last = letter <= strchr(all, 'n') ? "sotrdjcCxgn"
                           : *letter == 'l'           ? all
                                                      : "sotrdjcCxgnhpm";
        assert_string_equal(world.steps, last);
    }
}

TEST(a_coordinator_without_an_answer_is_asked_again_for_as_long_as_patience_lasts)
{
    world.failing = 'p';
    world.how = STATUS_RETRY;
    world.code = ERROR_BROKER;
    world.n_times = 3;
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_string_equal(world.steps, "sotrdjcCxgnhppppml");
    assert_int_equal(world.n_sleeps, 3);
    assert_int_equal(world.now_ms, 1000000 + 600);
    begin(state); // for good
    config.start_timeout_ms = 1000;
    world.failing = 'p';
    world.how = STATUS_RETRY;
    world.code = ERROR_BROKER;
    assert_int_equal(kafka_connect(&kafka, &error), STATUS_REFUSE);
    assert_int_equal(error.status, STATUS_REFUSE);
    assert_string_equal(world.steps, "sotrdjcCxgnhppppp");
    assert_int_equal(world.n_sleeps, 5);
    begin(state);
    world.failing = 'p';
    world.how = STATUS_RETRY;
    world.code = ERROR_BROKER;
    world.stop_after = 'p';
    assert_int_equal(kafka_connect(&kafka, &error), STATUS_RESTART);
    assert_string_equal(world.steps, "sotrdjcCxgnhp");
    assert_int_equal(world.n_sleeps, 0);
}

TEST(maps_that_another_worker_is_committing_are_read_later)
{
    world.failing = 'm';
    world.how = STATUS_RETRY;
    world.code = ERROR_BROKER;
    config.start_timeout_ms = 1234;
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_string_equal(world.steps, all);
    assert_int_equal(world.patience_ms, 1234);
}

TEST(a_worker_goes_on_without_a_file_for_its_slot)
{
    world.failing = 's';
    world.how = STATUS_REFUSE;
    world.code = ERROR_FILE;
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_string_equal(world.steps, "sfotrdjcCxgnhpml");
    assert_string_equal(kafka.identity.id, "sheaf-workers-drawn");
    assert_string_equal(world.warnings,
                        "step s; this worker's name ends with it, and its partitions wait for the end of "
                        "its session then\n");
    begin(state);
    world.failing = 's';
    world.how = STATUS_REFUSE;
    world.code = ERROR_FILE;
    config.group.member_name = "pod-2";
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_string_equal(kafka.identity.id, "sheaf-workers-pod-2");
    assert_string_equal(world.warnings,
                        "step s; nothing here keeps another worker from taking the same name\n");
}

TEST(compacted_topics_are_warned_of)
{
    static const char *const expected[] = {
        "topic results has cleanup.policy=compact: of results with one key the newest stays\n",
        "", // dead letters
        "topic jobs has cleanup.policy=compact: a job is lost when a newer one has its key\n",
        "", // as it should be
    };
    for (int i = 0; i < 4; i++) {
        begin(state);
        world.settings[i].is_compacted = true;
        assert_ok(kafka_connect(&kafka, &error), &error);
        assert_string_equal(world.warnings, expected[i]);
        assert_int_equal(kafka.publishing.outputs.dead_is_compacted, i == 1);
    }
    begin(state);
    world.settings[3].deletes = true;
    assert_ok(kafka_connect(&kafka, &error), &error);
    assert_non_null(strstr(world.warnings, "topic control has cleanup.policy=delete"));
}

TEST(names_and_properties_are_checked_without_a_broker)
{
    static const struct kafka_property of_consumers = {"fetch.min.bytes", "none"},
                                       of_producers = {"linger.ms", "none"};
    assert_ok(kafka_check_config(&config, &error), &error);
    config.n_properties = 1;
    config.properties = &of_consumers;
    assert_int_equal(kafka_check_config(&config, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "fetch.min.bytes"));
    config.properties = &of_producers;
    assert_int_equal(kafka_check_config(&config, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "linger.ms"));
    config.n_properties = 0;
    config.group.member_name = "no/name";
    assert_int_equal(kafka_check_config(&config, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    config.group.member_name = "a-name";
    assert_ok(kafka_check_config(&config, &error), &error);
    assert_string_equal(world.steps, "");
}

TEST_FIXTURE(begin, NULL);
