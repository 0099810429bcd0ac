// Turns of datasets. The index queue_urgent has the free jobs by urgency, then by dataset, so that the first
// job of each dataset is found without reading the others:
//
//   priority 3, deadline 1000   dataset 4: jobs 12, 15
//   priority 0, no deadline     dataset 2: jobs 1 to 1,000,000   dataset 5: jobs 1,000,001 to 1,000,010
//
// The order of turns is start-time fair queueing (Goyal, Vin and Cheng, 1996): each dataset has a virtual time,
// which a job advances by its expected tokens divided by the dataset's weight, and the dataset with the earliest
// time is next. One that begins to wait starts at the time of the last chosen job, so it pays for no past.
// Expected tokens are the mean of the dataset's finished jobs.
//
// A claim costs a few searches for each urgency and each dataset that it reads, and a row for each job; the
// number of waiting jobs does not matter.
#include "store/claim.h"

#include <stdlib.h>

// Datasets that share one claim; the next claim continues with the datasets after them.
enum { TURNS_MAX = 256 };

// After this many urgencies in a row of which only datasets at their limits have jobs, these datasets are skipped by one
// query: with deadlines a dataset may have an urgency for each job.
enum { URGENCIES_FULL_MAX = 32, FULL_MAX = 1024 };

struct urgency {
    int64_t priority, deadline_us;
};

struct claim_turn {
    int64_t dataset;
    double time, weight, n_tokens; // n_tokens: expected of a job; 0: unknown
    int64_t room;                  // jobs that may be added
    int64_t n_wanted;
    int64_t last_job; // of the chosen ones
    bool is_empty;    // no free job is left
};

struct claim_choice {
    struct store *store;
    int64_t only; // the dataset's number; 0: all
    int64_t *ids;
    int64_t *datasets; // [n], of the ids: their rows are not marked as claimed yet
    size_t n, n_max;
    int64_t bytes_left;
    struct claim_turn turns[TURNS_MAX];
    int n_turns;
    int64_t full[FULL_MAX]; // datasets that may get no more jobs
    int n_full, n_urgencies_full;
};

// Reads the one or two integers of a statement's only row.
static enum status read_two(struct store *store, sqlite3_stmt *select, int64_t values[2], bool *found,
                            struct error *error)
{
    int code = sqlite3_step(select);
    *found = code == SQLITE_ROW;
    for (int i = 0; *found && i < sqlite3_column_count(select); i++)
        values[i] = sqlite3_column_int64(select, i);
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for free jobs", error);
}

enum status claim_number_of(struct store *store, struct text dataset, int64_t *number, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database, "SELECT number FROM datasets WHERE dataset = ?", error);
    if (!select)
        return error->status;
    bind_text(select, 1, dataset);
    return database_read_integer(&store->database, select, 0, number, "looking for a dataset", error);
}

enum status claim_needs_turns(struct store *store, struct text dataset, bool *needs_turns,
                              struct error *error)
{
    *needs_turns =
        dataset.size || (store->claiming.shares && dataset_shares_have_limits(store->claiming.shares));
    if (*needs_turns)
        return STATUS_OK;
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT count(*) FROM (SELECT 1 FROM datasets WHERE n_submitted > n_done + n_failed + n_cancelled"
        " LIMIT 2)",
        error);
    int64_t n = 0;
    if (!select)
        return error->status;
    enum status status = database_read_integer(&store->database, select, 0, &n, "counting datasets", error);
    *needs_turns = n > 1;
    return status;
}

#define NOT_SKIPPED " AND dataset_number NOT IN (SELECT value FROM json_each(?3))"

// The urgency that follows `urgency`, or with `found` false the first one. `skipped`: a JSON array of datasets whose
// jobs do not count; size 0: none.
static enum status next_urgency(struct store *store, struct text skipped, struct urgency *urgency,
                                bool *found, struct error *error)
{
    static const char *const queries[2][2] = {
        {"SELECT priority, deadline_us FROM queue WHERE worker IS NULL AND priority = ?1 AND deadline_us > ?2"
         " ORDER BY deadline_us LIMIT 1",
         "SELECT priority, deadline_us FROM queue WHERE worker IS NULL AND priority < ?1"
         " ORDER BY priority DESC, deadline_us LIMIT 1"},
        {"SELECT priority, deadline_us FROM queue WHERE worker IS NULL AND priority = ?1 AND deadline_us > ?2" NOT_SKIPPED
         " ORDER BY deadline_us LIMIT 1",
         "SELECT priority, deadline_us FROM queue WHERE worker IS NULL AND priority < ?1" NOT_SKIPPED
         " ORDER BY priority DESC, deadline_us LIMIT 1"}};
    int64_t values[2] = {0};
    enum status status = STATUS_OK;
    bool is_first = !*found;
    *found = false;
    for (int i = is_first; status == STATUS_OK && !*found && i < 2; i++) {
        sqlite3_stmt *select = database_statement(&store->database, queries[skipped.size > 0][i], error);
        if (!select)
            return error->status;
        if (skipped.size)
            bind_text(select, 3, skipped);
        bind_integer(select, 1, is_first ? INT64_MAX : urgency->priority);
        if (i == 0)
            bind_integer(select, 2, urgency->deadline_us);
        status = read_two(store, select, values, found, error);
    }
    *urgency = (struct urgency){values[0], values[1]};
    return status;
}

enum status claim_oldest_is_first(struct store *store, bool *is_first, struct error *error)
{
    sqlite3_stmt *select = database_statement(&store->database,
                                              "SELECT priority, deadline_us FROM queue INDEXED BY queue_free"
                                              " WHERE worker IS NULL ORDER BY job LIMIT 1",
                                              error);
    int64_t values[2] = {0};
    bool found = false, exists = false;
    struct urgency first = {0};
    if (!select)
        return error->status;
    enum status status = read_two(store, select, values, &exists, error);
    if (status == STATUS_OK)
        status = next_urgency(store, (struct text){0}, &first, &found, error);
    *is_first = exists && found && values[0] == first.priority && values[1] == first.deadline_us;
    return status;
}

// ---- the datasets of one urgency ----

static enum status count_held(struct store *store, int64_t dataset, int64_t *n, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&store->database,
                           "SELECT count(*) FROM queue WHERE worker = ?1 AND dataset_number = ?2", error);
    if (!select)
        return error->status;
    BIND_INTEGERS(select, 1, store->worker, dataset);
    return database_read_integer(&store->database, select, 0, n, "counting claimed jobs", error);
}

// Reads the share and the mean tokens of a dataset's finished jobs.
static enum status read_dataset(struct store *store, struct claim_turn *turn, struct dataset_share *share,
                                struct error *error)
{
    *share = (struct dataset_share){.weight = 1};
    sqlite3_stmt *select = database_statement(
        &store->database,
        "SELECT dataset, n_done, prompt_tokens + completion_tokens - cached_tokens FROM datasets WHERE number = ?",
        error);
    if (!select)
        return error->status;
    bind_integer(select, 1, turn->dataset);
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW && store->claiming.shares)
        *share = dataset_share_of(store->claiming.shares, column_text(select, 0));
    int64_t n_done = code == SQLITE_ROW ? sqlite3_column_int64(select, 1) : 0;
    if (n_done > 0)
        turn->n_tokens = 1 + (double)sqlite3_column_int64(select, 2) / (double)n_done;
    if (!(turn->n_tokens >= 0)) // totals that were corrected by hand
        turn->n_tokens = 0;
    sqlite3_reset(select);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? STATUS_OK
               : database_error(&store->database, "looking for a dataset", error);
}

static struct claim_account *find_account(struct claiming *claiming, int64_t dataset)
{
    for (int i = 0; i < CLAIM_ACCOUNTS; i++)
        if (claiming->accounts[i].dataset == dataset)
            return &claiming->accounts[i];
    return NULL;
}

static void save_account(struct claiming *claiming, const struct claim_turn *turn)
{
    struct claim_account *account = find_account(claiming, turn->dataset);
    if (!account) {
        account = &claiming->accounts[claiming->next_account];
        claiming->next_account = (claiming->next_account + 1) % CLAIM_ACCOUNTS;
    }
    *account = (struct claim_account){turn->dataset, turn->time};
}

static enum status read_turn(struct store *store, int64_t dataset, struct claim_turn *turn,
                             struct error *error)
{
    struct dataset_share share;
    int64_t n_held = 0;
    const struct claim_account *account = find_account(&store->claiming, dataset);
    *turn = (struct claim_turn){.dataset = dataset, .time = store->claiming.time, .room = INT64_MAX};
    if (account && account->time > turn->time)
        turn->time = account->time;
    enum status status = read_dataset(store, turn, &share, error);
    turn->weight = share.weight;
    if (status != STATUS_OK || share.n_in_flight_max <= 0)
        return status;
    status = count_held(store, dataset, &n_held, error);
    turn->room = share.n_in_flight_max > n_held ? share.n_in_flight_max - n_held : 0;
    return status;
}

enum status claim_room_of(struct store *store, int64_t dataset, int64_t *room, struct error *error)
{
    struct claim_turn turn;
    enum status status = read_turn(store, dataset, &turn, error);
    *room = turn.room;
    return status;
}

static void note_full(struct claim_choice *choice, int64_t dataset)
{
    int i = 0;
    while (i < choice->n_full && choice->full[i] != dataset)
        i++;
    if (i < choice->n_full || i == FULL_MAX)
        return;
    choice->full[choice->n_full++] = dataset;
}

static enum status add_turn(struct claim_choice *choice, int64_t dataset, struct error *error)
{
    struct claim_turn *turn = &choice->turns[choice->n_turns];
    enum status status = read_turn(choice->store, dataset, turn, error);
    for (size_t i = 0; status == STATUS_OK && turn->room != INT64_MAX && i < choice->n; i++)
        turn->room -= choice->datasets[i] == dataset;
    choice->n_turns += status == STATUS_OK && turn->room > 0;
    if (status == STATUS_OK && turn->room <= 0)
        note_full(choice, dataset);
    return status;
}

// Lists the datasets of this urgency, beginning after the one that was served last.
static enum status list_turns(struct claim_choice *choice, const struct urgency *urgency, struct error *error)
{
    choice->n_turns = 0;
    if (choice->only)
        return add_turn(choice, choice->only, error);
    const int64_t served = choice->store->claiming.turn_after;
    const int64_t ranges[2][2] = {{served, INT64_MAX}, {INT64_MIN, served}}; // (after, upto]
    for (int i = 0; i < 2; i++) {
        int64_t at = ranges[i][0], values[2] = {0};
        for (bool found = true; found && choice->n_turns < TURNS_MAX;) {
            sqlite3_stmt *select =
                database_statement(&choice->store->database,
                                   "SELECT dataset_number FROM queue WHERE worker IS NULL AND priority = ?1"
                                   " AND deadline_us = ?2 AND dataset_number > ?3 AND dataset_number <= ?4"
                                   " ORDER BY dataset_number LIMIT 1",
                                   error);
            if (!select)
                return error->status;
            BIND_INTEGERS(select, 1, urgency->priority, urgency->deadline_us, at, ranges[i][1]);
            enum status status = read_two(choice->store, select, values, &found, error);
            at = values[0];
            if (status == STATUS_OK && found)
                status = add_turn(choice, at, error);
            if (status != STATUS_OK)
                return status;
        }
    }
    return STATUS_OK;
}

// ---- dividing a claim ----

// Datasets without a finished job are taken for as cheap as the cheapest other one.
static void guess_tokens(struct claim_choice *choice)
{
    double least = 0;
    for (int i = 0; i < choice->n_turns; i++) {
        double n_tokens = choice->turns[i].n_tokens;
        if (n_tokens > 0 && (least == 0 || n_tokens < least))
            least = n_tokens;
    }
    for (int i = 0; i < choice->n_turns; i++)
        if (choice->turns[i].n_tokens <= 0)
            choice->turns[i].n_tokens = least > 0 ? least : 1;
}

static double cost_of(const struct claim_turn *turn)
{
    return turn->n_tokens / turn->weight;
}

// Divides the room of the claim among the datasets. Returns whether any gets a job.
static bool divide_room(struct claim_choice *choice)
{
    size_t room = choice->n_max - choice->n;
    bool any = false;
    for (; room > 0; room--) {
        struct claim_turn *next = NULL;
        for (int i = 0; i < choice->n_turns; i++) {
            struct claim_turn *turn = &choice->turns[i];
            if (!turn->is_empty && turn->n_wanted < turn->room && (!next || turn->time < next->time))
                next = turn;
        }
        if (!next)
            break;
        next->time += cost_of(next);
        next->n_wanted++;
        any = true;
    }
    return any;
}

static enum status choose_of(struct claim_choice *choice, const struct urgency *urgency,
                             struct claim_turn *turn, struct error *error)
{
    sqlite3_stmt *select =
        database_statement(&choice->store->database,
                           "SELECT job, " CLAIM_RECORD_BYTES
                           " FROM queue WHERE worker IS NULL AND priority = ?1"
                           " AND deadline_us = ?2 AND dataset_number = ?3 AND job > ?4 ORDER BY job LIMIT ?5",
                           error);
    if (!select)
        return error->status;
    BIND_INTEGERS(select, 1, urgency->priority, urgency->deadline_us, turn->dataset, turn->last_job,
                  turn->n_wanted);
    int64_t n = 0;
    int code = SQLITE_DONE;
    while (choice->bytes_left > 0 && (code = sqlite3_step(select)) == SQLITE_ROW) {
        choice->datasets[choice->n] = turn->dataset;
        turn->last_job = choice->ids[choice->n++] = sqlite3_column_int64(select, 0);
        choice->bytes_left -= sqlite3_column_int64(select, 1);
        n++;
    }
    sqlite3_reset(select);
    if (n)
        choice->store->claiming.turn_after = turn->dataset;
    turn->is_empty = n < turn->n_wanted;
    turn->time -= cost_of(turn) * (double)(turn->n_wanted - n);
    turn->room -= turn->room == INT64_MAX ? 0 : n;
    turn->n_wanted = 0;
    return code == SQLITE_DONE || code == SQLITE_ROW
               ? STATUS_OK
               : database_error(&choice->store->database, "claiming jobs", error);
}

// Saves the datasets' times. The virtual time is the earliest of those that still wait: one that begins to wait
// begins there.
static void save_times(struct claim_choice *choice)
{
    struct claiming *claiming = &choice->store->claiming;
    double earliest = -1, latest = claiming->time;
    for (int i = 0; i < choice->n_turns; i++) {
        const struct claim_turn *turn = &choice->turns[i];
        save_account(claiming, turn);
        latest = turn->time > latest ? turn->time : latest;
        if (!turn->is_empty && turn->room > 0 && (earliest < 0 || turn->time < earliest))
            earliest = turn->time;
    }
    claiming->time = earliest >= 0 ? earliest : latest;
}

// Datasets with fewer free jobs than their part leave the rest to the others.
static enum status choose_of_urgency(struct claim_choice *choice, const struct urgency *urgency,
                                     struct error *error)
{
    enum status status = list_turns(choice, urgency, error);
    guess_tokens(choice);
    while (status == STATUS_OK && choice->bytes_left > 0 && divide_room(choice))
        for (int i = 0; i < choice->n_turns && status == STATUS_OK; i++)
            if (choice->turns[i].n_wanted)
                status = choose_of(choice, urgency, &choice->turns[i], error);
    save_times(choice);
    return status;
}

// Whether each dataset that is unfinished is at its limit.
static enum status are_all_full(struct claim_choice *choice, bool *are, struct error *error)
{
    sqlite3_stmt *select = database_statement(
        &choice->store->database,
        "SELECT count(*) FROM datasets WHERE n_submitted > n_done + n_failed + n_cancelled", error);
    int64_t n = 0;
    if (!select)
        return error->status;
    enum status status =
        database_read_integer(&choice->store->database, select, 0, &n, "counting datasets", error);
    *are = n <= choice->n_full || (choice->only && choice->n_full);
    return status;
}

// The next urgency that may have jobs for the claim.
static enum status next_useful(struct claim_choice *choice, struct urgency *urgency, bool *found,
                               struct error *error)
{
    if (choice->n_urgencies_full < URGENCIES_FULL_MAX)
        return next_urgency(choice->store, (struct text){0}, urgency, found, error);
    bool are_full = false;
    enum status status = are_all_full(choice, &are_full, error);
    if (status != STATUS_OK || are_full) {
        *found = false;
        return status;
    }
    struct buffer skipped = {0};
    for (int i = 0; i < choice->n_full; i++) {
        buffer_add_byte(&skipped, i ? ',' : '[');
        buffer_add_integer(&skipped, choice->full[i]);
    }
    buffer_add_byte(&skipped, ']');
    status = skipped.failed ? error_memory(error, STATUS_RETRY, "claiming jobs")
                            : next_urgency(choice->store, (struct text){skipped.data, skipped.size}, urgency,
                                           found, error);
    buffer_finish(&skipped);
    return status;
}

enum status claim_choose_by_turns(struct store *store, struct text dataset, size_t n_max, int64_t *bytes_left,
                                  int64_t *ids, size_t *n, struct error *error)
{
    struct claim_choice *choice = malloc(sizeof *choice);
    int64_t *datasets = calloc(n_max ? n_max : 1, sizeof *datasets);
    if (!choice || !datasets) {
        free(choice);
        free(datasets);
        return error_memory(error, STATUS_RETRY, "claiming %zu jobs", n_max);
    }
    *choice = (struct claim_choice){
        .store = store, .ids = ids, .datasets = datasets, .n_max = n_max, .bytes_left = *bytes_left};
    enum status status = STATUS_OK;
    if (dataset.size)
        status = claim_number_of(store, dataset, &choice->only, error);
    bool found = false, is_known = !dataset.size || choice->only;
    struct urgency urgency = {0};
    while (status == STATUS_OK && is_known && choice->n < choice->n_max && choice->bytes_left > 0) {
        status = next_useful(choice, &urgency, &found, error);
        if (status != STATUS_OK || !found)
            break;
        size_t n_before = choice->n;
        status = choose_of_urgency(choice, &urgency, error);
        choice->n_urgencies_full = choice->n > n_before ? 0 : choice->n_urgencies_full + 1;
    }
    *n = choice->n;
    *bytes_left = choice->bytes_left;
    free(choice);
    free(datasets);
    return status;
}
