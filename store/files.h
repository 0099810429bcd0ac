// Detects that the store's files were deleted or replaced: SQLite continues to write to a deleted file.
#pragma once

#include "store/database.h"

// Records the identity of the open files. Called after the first statement, with which SQLite opens its log.
void files_note(struct store *store);
