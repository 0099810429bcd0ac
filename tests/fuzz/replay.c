// Runs a fuzz target once on every file of a folder, so that earlier findings of the fuzzer remain tested.
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void replay(const char *path)
{
    struct stat information;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &information) != 0) {
        perror(path);
        exit(1);
    }
    size_t size = (size_t)information.st_size;
    uint8_t *data = malloc(size ? size : 1); // exactly the input: a sanitizer sees the first byte too many
    if (!data || fread(data, 1, size, file) != size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    int n_inputs = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        replay(path);
        n_inputs++;
    }
    closedir(folder);
    printf("%d inputs\n", n_inputs);
    return n_inputs ? 0 : 1;
}
