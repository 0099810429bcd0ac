// Files by their paths: follows links, detects two names of one file, reads a small file, opens unnamed
// temporary files. Thread: main.
#pragma once

#include "schemas/base/text.h"

#include <limits.h>

enum { FILE_LINKS_MAX = 40 /* as Linux */ };

// Reads the whole file, which may have at most size_max bytes. Errors: STATUS_REFUSE, ERROR_FILE;
// ERROR_LIMIT_EXCEEDED.
enum status file_read(const char *path, size_t size_max, struct buffer *content,
                      struct error *error) WARN_UNUSED;
// The same of a text that people write: UTF-8, from which a byte order mark at the start is removed, because no reader means
// it. Errors also: ERROR_INVALID_ENCODING, with the first line that is not UTF-8.
enum status file_read_text(const char *path, size_t size_max, struct buffer *content,
                           struct error *error) WARN_UNUSED;

// The target of a path after following symbolic links.
struct file_place {
    char path[PATH_MAX]; // not a link; may not exist, but its folder does
    int descriptor;      // the path is one of this process's open files (/dev/stdout, /dev/fd/3); else -1
};
// Follows the links of a path. False: errno says why, as for open().
bool file_follow(const char *path, struct file_place *place);
// Returns the descriptor if the path is one of this process's open files, else -1.
int file_own_descriptor(const char *path);
// True if the path is not a regular file: "-", a pipe, a terminal, a device, or a descriptor of this process.
bool file_is_stream(const char *path);

// A file that a command uses, by the option that names it.
struct file_use {
    const char *name, *path; // path NULL: not given. "-": standard input or output
    bool is_written;
    // The store also uses the side files PATH-wal, PATH-shm, PATH-journal and PATH-workers.
    bool is_store;
    // The path is a folder, or a part of a split GGUF model (NAME-00001-of-00003.gguf): the model uses all
    // its files.
    bool is_model;
};
// Refuses two uses of one regular file if one of them writes. Also refuses to write a file to a model's
// folder, whose reader might read it, unless it is a store or its name ends in .gguf. Devices and pipes may
// be named twice; "-" may be read and written.
enum status file_check_uses(const struct file_use *uses, size_t n, struct error *error) WARN_UNUSED;

const char *file_temporary_folder(void); // TMPDIR, else /tmp
// Opens an unnamed file in that folder for reading and writing. -1: errno says why.
int file_open_temporary(const char *folder);
