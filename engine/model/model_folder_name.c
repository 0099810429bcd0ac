// Names of a folder's tensors, from the rules of model_folder_names.c.
#include "engine/model/model_folder_parts.h"

#include <stdio.h>
#include <string.h>

struct text folder_expand_name(const struct folder_names *names, const char *from, int64_t layer,
                               size_t index, const char *suffix, char out[512])
{
    size_t size = 0;
    from += *from == '=';
    if (names->language_part) {
        bool model = strncmp(from, "model.", 6) == 0;
        const char *prefix = model ? names->naming->model : names->naming->head;
        size = (size_t)snprintf(out, 512, "%s", prefix);
        from += model ? 6 : 0;
    } else if (names->is_bare && strncmp(from, "model.", 6) == 0)
        from += 6;
    for (; *from && size < 400; from++) {
        if (*from == '*')
            size += (size_t)snprintf(out + size, 512 - size, "%lld", (long long)layer);
        else if (from[0] == '{' && from[1] == '}')
            size += (size_t)snprintf(out + size, 512 - size, "%zu", index), from++;
        else if (from[0] == '{') {
            const char *one = from + 1, *end = from + strcspn(from, "}");
            for (; index > 0 && one < end; index--)
                one += strcspn(one, "|}") + 1;
            size_t n = one < end ? strcspn(one, "|}") : 0; // none is left: a name that no tensor has
            size += (size_t)snprintf(out + size, 512 - size, "%.*s", (int)n, one);
            from = end;
        } else
            out[size++] = *from;
    }
    size += (size_t)snprintf(out + size, 512 - size, "%s", suffix);
    return (struct text){out, size};
}
