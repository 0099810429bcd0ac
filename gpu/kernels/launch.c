#include "gpu/kernels/launch.h"

#include <string.h>

static struct kernel_entry *last;

// gcc writes "... [with auto kernel = NAME]", clang "... [kernel = &NAME]".
void kernel_register(struct kernel_entry *entry, const void *function, const char *description)
{
    static const char mark[] = "kernel = ";
    const char *name = strstr(description, mark), *within;
    name = name ? name + strlen(mark) : description;
    name += *name == '&';
    // Removes the namespace of the translation unit.
    while ((within = strstr(name, "::")) && strcspn(name, "<") > (size_t)(within - name))
        name = within + 2;
    size_t length = strlen(name);
    length -= length > 0 && name[length - 1] == ']';
    if (length >= sizeof entry->name)
        length = sizeof entry->name - 1;
    memcpy(entry->name, name, length);
    entry->name[length] = '\0';
    entry->function = function;
    entry->next = last;
    last = entry;
}

const struct kernel_entry *kernel_list(void)
{
    return last;
}
