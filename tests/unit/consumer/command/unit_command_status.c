// sheaf status: the text and the JSON of figures that the test gives in place of a store, and when watching
// ends (consumer/command/command_status.c).
#include "consumer/command/commands.h"
#include "consumer/command/files/named_store.h"
#include "consumer/command/files/output_file.h"
#include "consumer/observe/mirror.h"
#include "consumer/options/kafka_settings.h"
#include "schemas/base/text.h"
#include "tests/support/cases.h"

#include <time.h>

enum { DATASETS_MAX = 3, WAITING_MAX = 2, SUSPECTS_MAX = 3, WORKERS_MAX = 2 };

enum part { PART_OPEN = 1, PART_TOTALS, PART_PROGRESS, PART_WAITING, PART_SUSPECTS, PART_FLEET, PART_LAG };

static struct {
    struct dataset_progress datasets[DATASETS_MAX];
    int n_datasets;
    struct store_totals totals;
    struct waiting_jobs waiting[WAITING_MAX];
    int n_waiting;
    struct suspect_job suspects[SUSPECTS_MAX];
    int n_suspects, n_asked_suspects;
    struct fleet_worker workers[WORKERS_MAX];
    int n_workers;
    struct store_lag lag;
    int fails;           // a part
    const char *dataset; // that was asked for
    char out[4096], steps[16];
    int n_printed, n_slept, n_closed;
} world;

static struct settings settings;
static struct error error;
static char handle; // the store

static enum status answer(int part, struct error *fault)
{
    return world.fails == part ? error_set(fault, STATUS_RETRY, ERROR_STORE, "part %d", part) : STATUS_OK;
}

static void add_step(char letter)
{
    size_t size = strlen(world.steps);
    assert_true(size + 1 < sizeof world.steps);
    world.steps[size] = letter;
}

// ---- the store ----

enum status __wrap_named_store_open_to_read(struct store **store, const struct settings *of,
                                            struct error *fault)
{
    assert_ptr_equal(of, &settings);
    add_step('r');
    *store = world.fails == PART_OPEN ? NULL : (struct store *)&handle;
    return answer(PART_OPEN, fault);
}

enum status __wrap_store_open(struct store **store, const char *path, enum store_mode mode,
                              struct error *fault)
{
    assert_string_equal(path, "some.db");
    assert_int_equal(mode, STORE_CREATE);
    add_step('o');
    *store = (struct store *)&handle;
    return answer(PART_OPEN, fault);
}

void __wrap_store_close(struct store *store)
{
    world.n_closed++;
}

const char *__wrap_store_path(const struct store *store)
{
    assert_ptr_equal(store, &handle);
    return "some.db";
}

enum status __wrap_store_totals(struct store *store, struct store_totals *totals, struct error *fault)
{
    *totals = world.totals;
    return answer(PART_TOTALS, fault);
}

enum status __wrap_store_progress(struct store *store, struct text dataset,
                                  void (*receive)(void *, const struct dataset_progress *), void *context,
                                  struct error *fault)
{
    world.dataset = dataset.data;
    for (int i = 0; i < world.n_datasets; i++)
        receive(context, &world.datasets[i]);
    return answer(PART_PROGRESS, fault);
}

enum status __wrap_store_waiting(struct store *store, struct text dataset,
                                 void (*receive)(void *, const struct waiting_jobs *), void *context,
                                 struct error *fault)
{
    assert_ptr_equal(dataset.data, world.dataset);
    for (int i = 0; i < world.n_waiting; i++)
        receive(context, &world.waiting[i]);
    return answer(PART_WAITING, fault);
}

enum status __wrap_store_suspects(struct store *store, struct text dataset, size_t n_max,
                                  void (*receive)(void *, const struct suspect_job *), void *context,
                                  struct error *fault)
{
    assert_ptr_equal(dataset.data, world.dataset);
    assert_int_equal(n_max, 20);
    world.n_asked_suspects++;
    for (int i = 0; i < world.n_suspects; i++)
        receive(context, &world.suspects[i]);
    return answer(PART_SUSPECTS, fault);
}

enum status __wrap_store_fleet(struct store *store, void (*receive)(void *, const struct fleet_worker *),
                               void *context, struct error *fault)
{
    for (int i = 0; i < world.n_workers; i++)
        receive(context, &world.workers[i]);
    return answer(PART_FLEET, fault);
}

enum status __wrap_store_lag(struct store *store, struct store_lag *lag, struct error *fault)
{
    *lag = world.lag;
    return answer(PART_LAG, fault);
}

enum status __wrap_store_mirror_reset(struct store *store, struct error *fault)
{
    add_step('z');
    return STATUS_OK;
}

enum status __wrap_mirror_run(const struct mirror_config *config, struct error *fault)
{
    assert_ptr_equal(config->store, &handle);
    assert_string_equal(config->kafka->brokers, "broker:9092");
    assert_int_equal(config->stop_fd, -1);
    assert_true(config->until_end);
    add_step('m');
    return STATUS_OK;
}

// ---- the output ----

enum status __wrap_output_file_print(const void *bytes, size_t n, struct error *fault)
{
    assert_true(n < sizeof world.out);
    memcpy(world.out, bytes, n);
    world.out[n] = '\0';
    world.n_printed++;
    return STATUS_OK;
}

// The last job is finished while the command waits.
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    assert_int_equal(time->tv_sec, 1);
    assert_int_equal(time->tv_nsec, 0);
    if (++world.n_slept == 2)
        world.datasets[0].done++;
    assert_true(world.n_slept < 5);
    return 0;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    settings = (struct settings){.store = (char *)"some.db"};
    error = (struct error){0};
    return 0;
}

static int end(void **state)
{
    assert_int_equal(world.n_closed, 1);
    return 0;
}

static void run_it(const char *expected)
{
    assert_ok(command_status(&settings, &error), &error);
    assert_string_equal(world.out, expected);
}

#define HEAD "dataset              submitted      done  failed cancelled  running           jobs/s     left\n"

static void add_dataset(const char *name, struct dataset_progress progress)
{
    progress.dataset = text_from_string(name);
    world.datasets[world.n_datasets++] = progress;
}

// ---- text ----

TEST(a_store_without_jobs_has_totals_alone)
{
    run_it(HEAD "\n0 workers alive; 0 steps, mean batch 0.0, 0 tokens generated per busy second;\n"
                "prefix cache: 0.0 % of lookups hit, 0.0 % of the tokens looked up were in it\n");
    assert_null(world.dataset);
    assert_int_equal(world.n_printed, 1);
    assert_string_equal(world.steps, "r");
}

TEST(each_dataset_has_a_row_with_its_share_and_its_time_left)
{
    world.totals = (struct store_totals){.n_workers_alive = 1};
    add_dataset("a", (struct dataset_progress){.submitted = 200,
                                               .done = 100,
                                               .failed = 20,
                                               .cancelled = 30,
                                               .running = 7,
                                               .jobs_per_second = 2.25,
                                               .seconds_left = 89});
    add_dataset("none", (struct dataset_progress){.seconds_left = -1});
    add_dataset("c", (struct dataset_progress){.submitted = 3, .done = 1, .seconds_left = 5400});
    run_it(HEAD
           "a                          200       100      20        30        7   75.0%      2.2     89 s\n"
           "none                         0         0       0         0        0    0.0%      0.0        -\n"
           "c                            3         1       0         0        0   33.3%      0.0    1.5 h\n"
           "\n1 worker alive; 0 steps, mean batch 0.0, 0 tokens generated per busy second;\n"
           "prefix cache: 0.0 % of lookups hit, 0.0 % of the tokens looked up were in it\n");
}

TEST(notes_stand_below_their_dataset)
{
    world.totals = (struct store_totals){.n_workers_alive = 2};
    add_dataset("late", (struct dataset_progress){.submitted = 1, .failed = 1, .late = 1});
    add_dataset("crashed", (struct dataset_progress){.submitted = 2, .failed = 2, .crashed = 2});
    add_dataset("equal", (struct dataset_progress){
                             .submitted = 9, .done = 9, .duplicates = {.n_jobs = 4, .n_tokens = 77}});
    run_it(HEAD
           "late                         1         0       1         0        0  100.0%      0.0      0 s\n"
           "                     of the failed: 1 past their deadline, 0 that killed workers\n"
           "crashed                      2         0       2         0        0  100.0%      0.0      0 s\n"
           "                     of the failed: 0 past their deadline, 2 that killed workers\n"
           "equal                        9         9       0         0        0  100.0%      0.0      0 s\n"
           "                     answered from equal ones: 4, 77 tokens not computed\n"
           "\n2 workers alive; 0 steps, mean batch 0.0, 0 tokens generated per busy second;\n"
           "prefix cache: 0.0 % of lookups hit, 0.0 % of the tokens looked up were in it\n");
}

// More jobs have ended than a dataset has: a store of another's making. Of an unknown total there is no share.
TEST(a_share_beyond_its_column_is_cut)
{
    world.totals = (struct store_totals){.n_workers_alive = 1};
    add_dataset("a", (struct dataset_progress){.submitted = 1, .done = INT64_C(3) << 60});
    add_dataset("b", (struct dataset_progress){.submitted = 4, .done = 1, .is_total_unknown = true});
    assert_ok(command_status(&settings, &error), &error);
    assert_non_null(strstr(world.out, " 345876451382054      0.0      0 s\n")); // of 345876451382054092800.0%
    assert_non_null(strstr(world.out, "       -      0.0      0 s\n"));
}

static const char *left_of(double seconds)
{
    world.n_datasets = 0;
    add_dataset("a", (struct dataset_progress){.submitted = 2, .done = 1, .seconds_left = seconds});
    world.n_closed = 0;
    assert_ok(command_status(&settings, &error), &error);
    const char *row = world.out + strlen(HEAD);
    return row +
           strlen("a                            2         1       0         0        0   50.0%      0.0 ");
}

TEST(times_left_have_the_unit_that_says_most)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{-0.5, "       -\n"},       {0, "     0 s\n"},
                 {89.4, "    89 s\n"},       {90, "     2 min\n"},
                 {5399, "    90 min\n"},     {5400, "   1.5 h\n"},
                 {360000, " 100.0 h\n"},     {60.4, "    60 s\n"},
                 {1e25, "277777777777777\n"}}; // hours: as many digits as the column's text holds
    world.totals.n_workers_alive = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *row = left_of(cases[i].seconds), *text = cases[i].text;
        while (*text == ' ') // the column is eight wide
            text++;
        while (*row == ' ')
            row++;
        if (strncmp(row, text, strlen(text)) != 0)
            fail_msg("%g s: %.12s", cases[i].seconds, row);
    }
}

// Jobs are left that nobody computes: unless a mirror says so, which knows no workers.
TEST(without_a_worker_the_time_left_is_unknown)
{
    assert_memory_equal(left_of(30), "       -\n", 9);
    world.totals.n_workers_alive = -1;
    assert_memory_equal(left_of(30), "    30 s\n", 9);
    world.totals = (struct store_totals){.is_mirror = true};
    assert_memory_equal(left_of(30), "    30 s\n", 9);
    world.totals = (struct store_totals){0};
    world.n_datasets = 0;
    add_dataset("a", (struct dataset_progress){
                         .submitted = 3, .done = 1, .failed = 1, .cancelled = 1, .seconds_left = 0});
    world.n_closed = 0;
    assert_ok(command_status(&settings, &error), &error);
    assert_non_null(strstr(world.out, " 0 s\n"));
}

TEST(figures_of_steps_and_of_a_mirror)
{
    world.totals = (struct store_totals){.n_workers_alive = -1,
                                         .n_steps = 12,
                                         .prefill_tokens = 99,
                                         .generated_tokens = 50,
                                         .busy_us = 4000000,
                                         .mean_batch = 3.25,
                                         .prefix_hit_share = 0.5,
                                         .tokens_saved_share = 0.125};
    run_it(HEAD "\nworkers alive: unknown, their lock file can't be read; 12 steps, mean batch 3.2, 12 tokens"
                " generated per busy second;\n"
                "prefix cache: 50.0 % of lookups hit, 12.5 % of the tokens looked up were in it\n");
    world.totals.is_mirror = true;
    world.n_closed = 0;
    run_it(HEAD);
}

TEST(unfinished_jobs_and_suspects_are_listed)
{
    world.totals.n_workers_alive = 1;
    world.waiting[0] = (struct waiting_jobs){.dataset = {"a", 1}, .priority = -1, .waiting = 5, .running = 2};
    world.waiting[1] =
        (struct waiting_jobs){.dataset = {"b", 1}, .priority = 3, .waiting = 1, .late = 4, .suspects = 2};
    world.n_waiting = 2;
    world.suspects[0] = (struct suspect_job){
        .dataset = {"b", 1}, .custom_id = {"x", 1}, .crashes = 2, .attempts = 3, .state = SUSPECT_ALONE};
    world.suspects[1] = (struct suspect_job){
        .dataset = {"b", 1}, .custom_id = {"y", 1}, .crashes = 1, .attempts = 1, .state = SUSPECT_AMONG_FEW};
    world.suspects[2] = (struct suspect_job){.dataset = {"b", 1}, .custom_id = {"z", 1}, .attempts = 2};
    world.n_suspects = 3;
    run_it(HEAD "\nunfinished            priority   waiting  running      late  suspects\n"
                "a                           -1         5        2         0         0\n"
                "b                            3         1        0         4         2\n"
                "\njobs that may have killed workers, the worst first:\n"
                "b x: 2 crashes, 3 attempts; is computed alone\n"
                "b y: 1 crash, 1 attempt; is computed among few\n"
                "b z: 0 crashes, 2 attempts; waits\n"
                "\n1 worker alive; 0 steps, mean batch 0.0, 0 tokens generated per busy second;\n"
                "prefix cache: 0.0 % of lookups hit, 0.0 % of the tokens looked up were in it\n");
    world.waiting[1].suspects = 0; // then none is asked for
    world.n_asked_suspects = world.n_closed = 0;
    assert_ok(command_status(&settings, &error), &error);
    assert_int_equal(world.n_asked_suspects, 0);
}

TEST(a_fleet_is_listed_with_its_lag)
{
    world.totals.is_mirror = true;
    world.workers[0] = (struct fleet_worker){.worker = {"w/1", 3},
                                             .done = 8,
                                             .failed = 1,
                                             .cancelled = 2,
                                             .prompt_tokens = 200,
                                             .cached_tokens = 50,
                                             .jobs_per_second = 1.25};
    world.workers[1] = (struct fleet_worker){.worker = {"w/2", 3}};
    world.n_workers = 2;
    world.lag = (struct store_lag){.n_partitions = 1, .n_owned = 1, .jobs_behind = 33, .map_covered = 4};
    const char *rows = HEAD
        "\nworker                              done  failed cancelled   jobs/s   cached\n"
        "w/1                                    8       1         2      1.2    25.0%\n"
        "w/2                                    0       0         0      0.0     0.0%\n"
        "\n1 partition, 1 of them owned: 33 jobs behind; 4 finished above what is committed, kept by offset"
        " maps\n";
    run_it(rows);
    world.n_workers = 0;
    world.lag.n_partitions = 2;
    world.n_closed = 0;
    run_it(HEAD "\n2 partitions, 1 of them owned: 33 jobs behind; 4 finished above what is committed, kept by"
                " offset maps\n");
}

// ---- JSON ----

TEST(json_has_all_figures)
{
    settings.output.json = true;
    world.totals = (struct store_totals){.n_workers_alive = 2,
                                         .n_steps = 12,
                                         .prefill_tokens = 99,
                                         .generated_tokens = 50,
                                         .busy_us = 4000000,
                                         .mean_batch = 3.25,
                                         .prefix_hit_share = 0.5,
                                         .tokens_saved_share = 0.125};
    add_dataset("a\"", (struct dataset_progress){.submitted = 9,
                                                 .done = 1,
                                                 .failed = 2,
                                                 .cancelled = 3,
                                                 .running = 4,
                                                 .prompt_tokens = 5,
                                                 .completion_tokens = 6,
                                                 .cached_tokens = 7,
                                                 .duplicates = {.n_jobs = 8, .n_tokens = 10},
                                                 .jobs_per_second = 2.5,
                                                 .seconds_left = 1.5,
                                                 .late = 11,
                                                 .crashed = 12,
                                                 .is_cancelled = true,
                                                 .is_total_unknown = true});
    add_dataset("b", (struct dataset_progress){.seconds_left = -1});
    world.waiting[0] = (struct waiting_jobs){
        .dataset = {"a", 1}, .priority = -1, .waiting = 5, .running = 2, .late = 3, .suspects = 1};
    world.waiting[1] = (struct waiting_jobs){.dataset = {"b", 1}};
    world.n_waiting = 2;
    world.suspects[0] = (struct suspect_job){
        .dataset = {"a", 1}, .custom_id = {"x", 1}, .crashes = 2, .attempts = 3, .state = SUSPECT_ALONE};
    world.suspects[1] =
        (struct suspect_job){.dataset = {"a", 1}, .custom_id = {"y", 1}, .state = SUSPECT_AMONG_FEW};
    world.suspects[2] = (struct suspect_job){.dataset = {"a", 1}, .custom_id = {"z", 1}};
    world.n_suspects = 3;
    world.workers[0] = (struct fleet_worker){.worker = {"w", 1},
                                             .done = 8,
                                             .failed = 1,
                                             .cancelled = 2,
                                             .completion_tokens = 4,
                                             .jobs_per_second = 1.25,
                                             .last_finished_at_us = 123};
    world.workers[1] = (struct fleet_worker){.worker = {"v", 1}};
    world.n_workers = 2;
    world.lag = (struct store_lag){.n_partitions = 3, .n_owned = 1, .jobs_behind = 33, .map_covered = 4};
    run_it(
        "{\"datasets\":[{\"dataset\":\"a\\\"\",\"submitted\":9,\"done\":1,\"failed\":2,\"cancelled\":3,"
        "\"running\":4,\"prompt_tokens\":5,\"completion_tokens\":6,\"cached_tokens\":7,\"duplicates\":8,"
        "\"duplicate_tokens\":10,\"jobs_per_second\":2.5,\"seconds_left\":1.5,\"late\":11,\"crashed\":12,"
        "\"is_cancelled\":true,\"is_total_unknown\":true},{\"dataset\":\"b\",\"submitted\":0,\"done\":0,\"failed\":0,\"cancelled\":0,"
        "\"running\":0,\"prompt_tokens\":0,\"completion_tokens\":0,\"cached_tokens\":0,\"duplicates\":0,"
        "\"duplicate_tokens\":0,\"jobs_per_second\":0.0,\"seconds_left\":null,\"late\":0,\"crashed\":0,"
        "\"is_cancelled\":false,\"is_total_unknown\":false}],\"unfinished\":[{\"dataset\":\"a\",\"priority\":-1,\"waiting\":5,"
        "\"running\":2,\"late\":3,\"suspects\":1},{\"dataset\":\"b\",\"priority\":0,\"waiting\":0,"
        "\"running\":0,\"late\":0,\"suspects\":0}],\"suspects\":[{\"dataset\":\"a\",\"custom_id\":\"x\","
        "\"crashes\":2,\"attempts\":3,\"state\":\"alone\"},{\"dataset\":\"a\",\"custom_id\":\"y\","
        "\"crashes\":0,\"attempts\":0,\"state\":\"among_few\"},{\"dataset\":\"a\",\"custom_id\":\"z\","
        "\"crashes\":0,\"attempts\":0,\"state\":\"waiting\"}],\"fleet\":[{\"worker\":\"w\",\"done\":8,"
        "\"failed\":1,\"cancelled\":2,\"completion_tokens\":4,\"jobs_per_second\":1.25,"
        "\"last_finished_at\":123},{\"worker\":\"v\",\"done\":0,\"failed\":0,\"cancelled\":0,"
        "\"completion_tokens\":0,\"jobs_per_second\":0.00,\"last_finished_at\":0}],\"partitions\":3,"
        "\"partitions_owned\":1,\"jobs_behind\":33,\"map_covered\":4,\"workers_alive\":2,\"steps\":12,"
        "\"prefill_tokens\":99,\"generated_tokens\":50,\"generated_tokens_per_busy_second\":12.5,"
        "\"mean_batch\":3.25,\"prefix_hit_share\":0.5000,\"tokens_saved_share\":0.1250}\n");
}

TEST(what_is_unknown_is_null)
{
    settings.output.json = true;
    world.totals.n_workers_alive = -1;
    run_it("{\"datasets\":[],\"unfinished\":[],\"suspects\":[],\"fleet\":[],\"partitions\":0,"
           "\"partitions_owned\":0,\"jobs_behind\":0,\"map_covered\":0,\"workers_alive\":null,\"steps\":0,"
           "\"prefill_tokens\":0,\"generated_tokens\":0,\"generated_tokens_per_busy_second\":0.0,"
           "\"mean_batch\":0.00,\"prefix_hit_share\":0.0000,\"tokens_saved_share\":0.0000}\n");
    world.totals.is_mirror = true;
    world.n_closed = 0;
    run_it("{\"datasets\":[],\"unfinished\":[],\"suspects\":[],\"fleet\":[],\"partitions\":0,"
           "\"partitions_owned\":0,\"jobs_behind\":0,\"map_covered\":0,\"workers_alive\":null,\"steps\":null,"
           "\"prefill_tokens\":null,\"generated_tokens\":null,\"generated_tokens_per_busy_second\":null,"
           "\"mean_batch\":null,\"prefix_hit_share\":null,\"tokens_saved_share\":null}\n");
}

// ---- the command ----

TEST(a_dataset_that_is_not_there_is_refused)
{
    settings.dataset = (char *)"gone";
    assert_int_equal(command_status(&settings, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "some.db: there is no dataset gone");
    assert_ptr_equal(world.dataset, settings.dataset);
    assert_int_equal(world.n_printed, 0);
}

TEST(a_store_that_fails_prints_nothing)
{
    world.waiting[0] = (struct waiting_jobs){.suspects = 1};
    world.n_waiting = 1;
    for (int part = PART_OPEN; part <= PART_LAG; part++) {
        world.fails = part;
        assert_int_equal(command_status(&settings, &error), STATUS_RETRY);
        assert_int_equal(error.text[strlen("part ")], '0' + part);
        assert_int_equal(world.n_printed, 0);
    }
    assert_int_equal(world.n_closed, PART_LAG);
    world.n_closed = 1;
}

TEST(watching_ends_with_the_last_job)
{
    settings.follow.watch = true;
    add_dataset("a", (struct dataset_progress){.submitted = 4, .done = 1, .failed = 1, .cancelled = 1});
    add_dataset("b", (struct dataset_progress){.submitted = 2, .done = 2});
    assert_ok(command_status(&settings, &error), &error);
    assert_int_equal(world.n_slept, 2);
    assert_int_equal(world.n_printed, 3);
    settings.follow.watch = false;
    world.datasets[0].done = 0;
    world.n_closed = world.n_slept = world.n_printed = 0;
    assert_ok(command_status(&settings, &error), &error);
    assert_int_equal(world.n_slept, 0);
    assert_int_equal(world.n_printed, 1);
}

TEST(a_store_is_rebuilt_before_it_is_shown)
{
    settings.follow.rebuild = true;
    assert_int_equal(command_status(&settings, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_USAGE);
    assert_non_null(strstr(error.text, "--brokers"));
    assert_string_equal(world.steps, "o");
    assert_int_equal(world.n_printed, 0);
    settings.kafka.brokers = (char *)"broker:9092";
    memset(world.steps, 0, sizeof world.steps);
    world.n_closed = 0;
    assert_ok(command_status(&settings, &error), &error);
    assert_string_equal(world.steps, "ozm");
    assert_int_equal(world.n_printed, 1);
}

TEST_FIXTURE(begin, end);
