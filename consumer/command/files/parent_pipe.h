// The process that started this one, known by a pipe (--parent-fd): this process has the read end, only that process
// has the write end. The kernel closes it when that process ends, also by SIGKILL.
//
//   a byte       the parent has written all of standard input
//   end of file  the parent has ended
//
// PR_SET_PDEATHSIG would be sent at the end of the thread that started this process, not of its process.
#pragma once

#include <stdbool.h>

// Starts a thread that stops this process when its parent has ended: SIGTERM, again after 2 s, SIGKILL after a minute.
// 0 or a descriptor that is no pipe: nothing is watched. Call once, before standard input is read.
void parent_pipe_watch(int fd);
// Waits, at the end of standard input, until the parent says that it is complete. False: the parent has ended. True
// at once where nothing is watched.
bool parent_pipe_input_is_complete(void);
