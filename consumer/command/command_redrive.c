// sheaf redrive: sends dead letters to the jobs topic again.
#include "consumer/command/commands.h"
#include "consumer/command/files/topic_redrive.h"
#include "consumer/observe/log.h"
#include "consumer/options/kafka_settings.h"

static void report_left_out(const struct topic_redriven *redriven)
{
    if (redriven->n_unmatched)
        log_write(LOG_INFO, "%lld do not match --where", (long long)redriven->n_unmatched);
    if (redriven->n_foreign)
        log_write(LOG_INFO, "%lld records are no dead letters of the jobs topic",
                  (long long)redriven->n_foreign);
    if (redriven->n_without)
        log_write(
            LOG_WARNING,
            "%lld dead letters lack their record, which was larger than their topic takes: the jobs topic "
            "has it at the place in __sheaf.errors.partition and __sheaf.errors.offset",
            (long long)redriven->n_without);
    if (redriven->n_refused)
        log_write(LOG_WARNING, "%lld dead letters are larger than the jobs topic takes",
                  (long long)redriven->n_refused);
}

enum status command_redrive(const struct settings *settings, struct error *error)
{
    if (!settings->kafka.brokers)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf redrive: of which Kafka? give --brokers HOSTS");
    struct kafka_settings kafka;
    struct topic_redriven redriven = {0};
    enum status status = topic_redrive_check(settings->redrive_where, error);
    if (status == STATUS_OK)
        status = kafka_settings_init(&kafka, &settings->kafka, NULL, error);
    if (status != STATUS_OK)
        return status;
    status = topic_redrive(&kafka.config, settings->redrive_where, &redriven, error);
    if (status == STATUS_OK) {
        log_write(LOG_INFO, "%lld dead letters of topic %s were sent to topic %s again; %lld had been before",
                  (long long)redriven.n_sent, kafka.config.topics.dead, kafka.config.topics.jobs,
                  (long long)redriven.n_before);
        report_left_out(&redriven);
    }
    kafka_settings_finish(&kafka);
    return status;
}
