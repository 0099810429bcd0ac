#include "consumer/queue/model_names.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_BYTES = 64 };

static struct text last_part(struct text path)
{
    while (path.size > 1 && path.data[path.size - 1] == '/')
        path.size--;
    for (size_t i = path.size; i-- > 0;)
        if (path.data[i] == '/' && i + 1 < path.size)
            return (struct text){path.data + i + 1, path.size - i - 1};
    return path;
}

static struct text without_suffix(struct text name)
{
    static const char suffix[] = ".gguf";
    size_t size = sizeof suffix - 1;
    if (name.size > size && memcmp(name.data + name.size - size, suffix, size) == 0)
        name.size -= size;
    return name;
}

struct text model_names_first(const struct model_names *names)
{
    return names->given && names->given[0] ? text_from_string(names->given[0]) : names->own;
}

static bool is_own(const struct model_names *names, struct text name)
{
    struct text path = text_from_string(names->path), file = last_part(path);
    return text_equal(name, names->own) || text_equal(name, path) || text_equal(name, file) ||
           text_equal(name, without_suffix(file));
}

bool model_names_have(const struct model_names *names, struct text name)
{
    if (!names->given || !names->given[0])
        return is_own(names, name) || is_own(names, last_part(name));
    for (char *const *given = names->given; *given; given++)
        if (text_equals_string(name, *given))
            return true;
    return false;
}

enum status model_names_check(const struct model_names *names, struct job *job, struct error *error)
{
    struct text name = job->request.model, own = model_names_first(names);
    for (int32_t i = 0; i < names->n_adapters; i++)
        if (text_equal(name, names->adapters[i].name)) {
            job->adapter_set = i + 1;
            return STATUS_OK;
        }
    if (!own.size || !name.size || model_names_have(names, name))
        return STATUS_OK;
    int n_name = (int)(name.size < SHOWN_BYTES ? name.size : SHOWN_BYTES);
    int n_own = (int)(own.size < SHOWN_BYTES ? own.size : SHOWN_BYTES);
    if (names->is_required)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "model: expected \"%.*s\", this worker's model%s, got \"%.*s\"", n_own, own.data,
                         names->n_adapters ? ", or the name of an adapter" : "", n_name, name.data);
    return job_warn(job,
                    JOB_WARNING_OF_MODEL "\"%.*s\", the answer is of \"%.*s\" (--model-name names what a "
                                         "worker answers to)",
                    n_name, name.data, n_own, own.data)
               ? STATUS_OK
               : error_memory(error, STATUS_RETRY, "a warning");
}
