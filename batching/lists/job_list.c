#include "batching/lists/job_list.h"

void job_list_append(struct job_list *list, struct job *job)
{
    job->next = NULL;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
    list->n_jobs++;
}

struct job *job_list_take(struct job_list *list)
{
    struct job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->last = NULL;
    list->n_jobs--;
    job->next = NULL;
    return job;
}
