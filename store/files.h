// Detects that the store's files were deleted or replaced. SQLite would continue to write to a deleted file.
#pragma once

#include "store/database.h"

// Records the identity of the open files. Called after the first statement, because SQLite opens its log with
// it.
void files_note(struct store *store);
