// The folder PATH-files beside the store: the contents of files, named by their ids, and a locked file of each
// living server. Thread: any.
#pragma once

#include "consumer/serve/serve_state.h"

#include <limits.h>

// Opens the folder (mode 0700), and locks the file of this server in it.
enum status serve_folder_open(struct serve *serve, struct error *error) WARN_UNUSED;
void serve_folder_close(struct serve *serve);
// False: the path would be too long, or the id is no name of a file.
bool serve_folder_path(const struct serve *serve, struct text id, char path[PATH_MAX]) WARN_UNUSED;
// Removes contents without a row that are an hour old: a server was killed between two steps.
void serve_folder_sweep(const struct serve *serve, struct store *store);
// Passes the names of servers that have ended without removing their file; removes the file if `receive`
// returns true.
void serve_folder_find_dead(const struct serve *serve, bool (*receive)(void *context, const char *name),
                            void *context);
