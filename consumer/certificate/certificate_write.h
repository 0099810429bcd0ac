// annotate --certificate: certifies a table after it was written. The table is read again as `sheaf verify` will read it,
// and each row's requests, rendered from it, are compared with those that were answered. Thread: main.
#pragma once

#include "consumer/annotate/annotate.h"
#include "consumer/certificate/certificate.h"

// Reads the options and names of columns while annotate has its table open, before anything is computed. STATUS_REFUSE:
// with these options there is no certificate. certificate_finish also after an error.
enum status certificate_begin(struct certificate *certificate, struct annotate *annotate,
                              struct error *error) WARN_UNUSED;
// Called after annotate_collect has written the table. STATUS_REFUSE: the table can't be certified: two rows were
// computed with different arithmetics, a row failed for a reason that may pass, or the output's format keeps too little
// of the input's values to render the requests again.
enum status certificate_write(struct certificate *certificate, struct annotate *annotate,
                              struct error *error) WARN_UNUSED;
