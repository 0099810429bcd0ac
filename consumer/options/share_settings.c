#include "consumer/options/share_settings.h"

#include <stdlib.h>
#include <string.h>

static enum status refuse(struct error *error, const char *option, const char *value, const char *expected)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--%s %.200s: expected %s", option, value, expected);
}

// Splits NAME=NUMBER at the last equals sign: a name may have others. Without one *name has data NULL.
static const char *split(const char *value, struct text *name)
{
    const char *equals = strrchr(value, '=');
    *name = equals ? (struct text){value, (size_t)(equals - value)} : (struct text){0};
    return equals ? equals + 1 : value;
}

static enum status add_dataset(struct dataset_shares *shares, struct text name, struct dataset_share **share,
                               struct error *error)
{
    *share = dataset_shares_add(shares, name);
    return *share
               ? STATUS_OK
               : error_set(error, STATUS_REFUSE, ERROR_USAGE,
                           "--dataset-weight and --dataset-limit: more than %d datasets", DATASET_SHARES_MAX);
}

static enum status read_weight(struct dataset_shares *shares, const char *value, struct error *error)
{
    struct text name;
    struct dataset_share *share;
    char *end;
    const char *number = split(value, &name);
    double weight = strtod(number, &end);
    if (!name.data || end == number || *end || !(weight >= SHARE_WEIGHT_LEAST && weight <= SHARE_WEIGHT_MOST))
        return refuse(error, "dataset-weight", value, "NAME=WEIGHT, a number from 0.01 to 100");
    enum status status = add_dataset(shares, name, &share, error);
    if (status == STATUS_OK)
        share->weight = weight;
    return status;
}

static enum status read_limit(struct dataset_shares *shares, const char *value, struct error *error)
{
    struct text name;
    struct dataset_share *share;
    char *end;
    const char *number = split(value, &name);
    long long limit = strtoll(number, &end, 10);
    if (end == number || *end || limit < 0 || limit > SHARE_LIMIT_MOST)
        return refuse(error, "dataset-limit", value, "N or NAME=N, from 0 (no limit) to 16384");
    if (!name.data) {
        shares->n_in_flight_max = limit;
        return STATUS_OK;
    }
    enum status status = add_dataset(shares, name, &share, error);
    if (status == STATUS_OK)
        share->n_in_flight_max = limit;
    return status;
}

// A name has one value. The empty name means jobs without a dataset; a value without a name applies to all others.
static enum status refuse_repeated(char *const *values, const char *option, struct error *error)
{
    for (char *const *value = values; value && *value; value++) {
        struct text name, other;
        (void)split(*value, &name);
        for (char *const *earlier = values; earlier < value; earlier++) {
            (void)split(*earlier, &other);
            if (!name.data == !other.data && text_equal(name, other))
                return refuse(error, option, *value, "one value for each dataset, got a second one");
        }
    }
    return STATUS_OK;
}

enum status share_settings_read(struct dataset_shares *shares, const struct worker_options *options,
                                struct error *error)
{
    *shares = (struct dataset_shares){0};
    enum status status = refuse_repeated(options->dataset_weights, "dataset-weight", error);
    if (status == STATUS_OK)
        status = refuse_repeated(options->dataset_limits, "dataset-limit", error);
    for (char **value = options->dataset_weights; status == STATUS_OK && value && *value; value++)
        status = read_weight(shares, *value, error);
    for (char **value = options->dataset_limits; status == STATUS_OK && value && *value; value++)
        status = read_limit(shares, *value, error);
    return status;
}
