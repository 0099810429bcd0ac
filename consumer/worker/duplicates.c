#include "consumer/worker/duplicates.h"

#include "store/equal_requests.h"

#include <stdlib.h>
#include <string.h>

struct duplicate_entry {
    struct duplicate_entry *next; // in the bucket
    struct job *leader;
    struct job_list followers;
};

bool duplicates_init(struct duplicates *duplicates, const struct duplicate_limits *limits, int32_t n_jobs_max)
{
    size_t n = 64;
    while (n < (size_t)n_jobs_max * 2)
        n *= 2;
    *duplicates = (struct duplicates){.buckets = calloc(n, sizeof(struct duplicate_entry *)),
                                      .n_buckets = n,
                                      .limits = *limits};
    return duplicates->buckets != NULL;
}

void duplicates_finish(struct duplicates *duplicates)
{
    for (size_t i = 0; duplicates->buckets && i < duplicates->n_buckets; i++)
        for (struct duplicate_entry *entry = duplicates->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    free(duplicates->buckets);
    buffer_finish(&duplicates->record);
    *duplicates = (struct duplicates){0};
}

static bool is_hashed(const struct job *job)
{
    return digest_is_set(&job->request_hash);
}

static bool is_equal(const struct job *a, const struct job *b)
{
    return digest_equal(&a->request_hash, &b->request_hash) && text_equal(a->dataset, b->dataset) &&
           text_equal(a->source.topic, b->source.topic);
}

// The link to the entry of the job's request; *link is NULL if there is no entry.
static struct duplicate_entry **find_entry(struct duplicates *duplicates, const struct job *job)
{
    size_t bucket;
    memcpy(&bucket, job->request_hash.bytes, sizeof bucket);
    struct duplicate_entry **link = &duplicates->buckets[bucket & (duplicates->n_buckets - 1)];
    while (*link && !is_equal((*link)->leader, job))
        link = &(*link)->next;
    return link;
}

// The link to the entry that the job leads, or NULL.
static struct duplicate_entry **find_led(struct duplicates *duplicates, const struct job *job)
{
    if (!duplicates->buckets || !is_hashed(job))
        return NULL;
    struct duplicate_entry **link = find_entry(duplicates, job);
    return *link && (*link)->leader == job ? link : NULL;
}

static bool reuse_result(const struct duplicates *duplicates, struct job *job)
{
    struct error ignored; // on failure the job is computed
    struct text record = {duplicates->record.data, duplicates->record.size};
    return record.size && !duplicates->record.failed &&
           result_reuse(job, record, ENCODING_MSGPACK, &ignored) == STATUS_OK;
}

static void encode_answer(struct duplicates *duplicates, const struct job *leader)
{
    buffer_clear(&duplicates->record);
    if (leader->result.status == RESULT_DONE)
        result_encode(leader, ENCODING_MSGPACK, &duplicates->record);
}

struct taking {
    const struct duplicate_limits *limits;
    struct job *job;
    bool is_shorter; // the answer was computed under a smaller max_tokens
    bool is_taken;
};

static int64_t max_tokens_of(const struct duplicate_limits *limits, const struct job *job)
{
    int32_t given = job->request.stop.max_tokens;
    return given >= 0 ? given : limits->max_tokens_default ? limits->max_tokens_default : INT32_MAX;
}

// Whether the job itself would be admitted, with the same rope frequencies as the answer under the smaller
// limit.
static bool fits(const struct duplicate_limits *limits, const struct job *job)
{
    int64_t n_prompt = job->result.prompt_tokens, most = max_tokens_of(limits, job);
    if (job->request.stop.max_tokens < 0 && most > limits->n_context - n_prompt)
        most = limits->n_context - n_prompt; // up to the end of the context
    return n_prompt + most <= limits->n_positions;
}

static bool take_record(void *context, struct text record)
{
    struct taking *taking = context;
    struct error ignored; // the record is of another model or arithmetic
    struct job before = *taking->job;
    taking->is_taken = result_reuse(taking->job, record, ENCODING_JSON, &ignored) == STATUS_OK;
    if (taking->is_taken && taking->is_shorter && !fits(taking->limits, taking->job)) {
        taking->job->result = before.result;
        taking->job->figures = before.figures;
        taking->is_taken = false;
    }
    return taking->is_taken;
}

// Searches earlier answers. A failing store gives none; its error is reported when the worker writes to it.
static bool find_in_store(const struct duplicates *duplicates, struct job *job, struct store *store)
{
    const struct duplicate_limits *limits = &duplicates->limits;
    struct equal_search search = {.kind = limits->is_within_dataset ? EQUAL_IN_DATASET : EQUAL_ANYWHERE,
                                  .max_tokens = (int32_t)max_tokens_of(limits, job)};
    struct taking taking = {.limits = limits, .job = job};
    struct error ignored;
    if (!store || store_find_equal(store, job, &search, take_record, &taking, &ignored) != STATUS_OK)
        return false;
    if (taking.is_taken || limits->is_within_dataset)
        return taking.is_taken;
    search.kind = EQUAL_BUT_SHORTER;
    taking.is_shorter = true;
    return store_find_equal(store, job, &search, take_record, &taking, &ignored) == STATUS_OK &&
           taking.is_taken;
}

static enum duplicate follow_entry(struct duplicates *duplicates, struct duplicate_entry *entry,
                                   struct job *job)
{
    if (entry->leader->result.status == RESULT_DONE) { // not committed yet
        encode_answer(duplicates, entry->leader);
        return reuse_result(duplicates, job) ? DUPLICATE_ANSWERED : DUPLICATE_NONE;
    }
    if (entry->leader->result.status != RESULT_NONE || job->source.crashes ||
        job_is_more_urgent(job, entry->leader))
        return DUPLICATE_NONE;
    job_list_append(&entry->followers, job);
    duplicates->n_followers++;
    if (job->deadline_s && (!duplicates->next_deadline_s || job->deadline_s < duplicates->next_deadline_s))
        duplicates->next_deadline_s = job->deadline_s;
    return DUPLICATE_FOLLOWS;
}

enum duplicate duplicates_take(struct duplicates *duplicates, struct job *job, struct store *store)
{
    if (!duplicates->buckets || !is_hashed(job) || job->result.status != RESULT_NONE)
        return DUPLICATE_NONE;
    struct duplicate_entry **link = find_entry(duplicates, job);
    if (*link)
        return follow_entry(duplicates, *link, job);
    if (find_in_store(duplicates, job, store))
        return DUPLICATE_ANSWERED;
    struct duplicate_entry *entry = job->source.crashes ? NULL : malloc(sizeof *entry);
    if (entry) // out of memory: equal requests are computed too
        *link = entry, *entry = (struct duplicate_entry){.leader = job};
    return DUPLICATE_NONE;
}

void duplicates_answer(struct duplicates *duplicates, const struct job *job, struct job_list *finished,
                       struct job_list *compute)
{
    struct duplicate_entry **link = find_led(duplicates, job);
    if (!link || (*link)->followers.n_jobs == 0)
        return;
    struct duplicate_entry *entry = *link;
    enum error_code code = job->result.error.code;
    struct job *first = entry->followers.first;
    if (code == ERROR_CANCELLED || code == ERROR_DEADLINE) {
        entry->leader = job_list_take(&entry->followers);
        duplicates->n_followers--;
        job_list_append(compute, first);
        return;
    }
    encode_answer(duplicates, job);
    duplicates->n_followers -= (int32_t)entry->followers.n_jobs;
    for (struct job *follower; (follower = job_list_take(&entry->followers));)
        job_list_append(reuse_result(duplicates, follower) ? finished : compute, follower);
}

void duplicates_leave(struct duplicates *duplicates, const struct job *job, struct job_list *list)
{
    struct duplicate_entry **link = find_led(duplicates, job);
    if (!link)
        return;
    struct duplicate_entry *entry = *link;
    *link = entry->next;
    duplicates->n_followers -= (int32_t)entry->followers.n_jobs;
    for (struct job *follower; (follower = job_list_take(&entry->followers));)
        job_list_append(list, follower);
    free(entry);
}

// Fails the followers for which `ends` is true and moves them to `finished`.
static void end_followers(struct duplicates *duplicates,
                          bool (*ends)(void *context, const struct job *job, struct error *error),
                          void *context, struct job_list *finished)
{
    for (size_t i = 0; duplicates->n_followers && i < duplicates->n_buckets; i++)
        for (struct duplicate_entry *entry = duplicates->buckets[i]; entry; entry = entry->next) {
            struct job_list followers = entry->followers;
            entry->followers = (struct job_list){0};
            for (struct job *job; (job = job_list_take(&followers));) {
                struct error error;
                bool has_ended = ends(context, job, &error);
                if (has_ended) {
                    job_fail(job, &error);
                    duplicates->n_followers--;
                }
                job_list_append(has_ended ? finished : &entry->followers, job);
            }
        }
}

struct cancellation {
    struct text dataset, job_id;
    int64_t until_s;
};

static bool is_cancelled(void *context, const struct job *job, struct error *error)
{
    const struct cancellation *cancellation = context;
    if (!job_is_named(job, cancellation->dataset, cancellation->job_id, cancellation->until_s))
        return false;
    (void)error_set(error, STATUS_REJECT, ERROR_CANCELLED, "cancelled on request");
    return true;
}

void duplicates_cancel(struct duplicates *duplicates, struct text dataset, struct text job_id,
                       int64_t until_s, struct job_list *finished)
{
    struct cancellation cancellation = {dataset, job_id, until_s};
    end_followers(duplicates, is_cancelled, &cancellation, finished);
}

struct expiry {
    int64_t now_s, next_s;
};

static bool is_late(void *context, const struct job *job, struct error *error)
{
    struct expiry *expiry = context;
    if (!job->deadline_s)
        return false;
    if (expiry->now_s < job->deadline_s) {
        if (!expiry->next_s || job->deadline_s < expiry->next_s)
            expiry->next_s = job->deadline_s;
        return false;
    }
    (void)error_set(error, STATUS_REJECT, ERROR_DEADLINE, "deadline %lld passed before the job was finished",
                    (long long)job->deadline_s);
    return true;
}

void duplicates_expire(struct duplicates *duplicates, int64_t now_s, struct job_list *finished)
{
    if (!duplicates->next_deadline_s || now_s < duplicates->next_deadline_s)
        return;
    struct expiry expiry = {.now_s = now_s};
    end_followers(duplicates, is_late, &expiry, finished);
    duplicates->next_deadline_s = expiry.next_s;
}
