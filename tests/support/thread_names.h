// The names of this process's threads.
#pragma once

#include <glob.h>
#include <stdio.h>
#include <string.h>

// Threads whose name begins so. 0 also where the system does not list them.
static inline int threads_count(const char *name)
{
    glob_t found;
    int n = 0;
    if (glob("/proc/self/task/*/comm", 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char line[32] = "";
        FILE *file = fopen(found.gl_pathv[i], "r"); // NULL: it has just ended
        if (file && fgets(line, sizeof line, file))
            n += strncmp(line, name, strlen(name)) == 0;
        if (file)
            fclose(file);
    }
    globfree(&found);
    return n;
}
