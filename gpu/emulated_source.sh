#!/bin/sh
# emulated_source.sh KERNEL.cu [NAME=VALUE]...: prints a C++ source that includes the kernel after these definitions.
set -eu
source=$1
shift
for definition; do
    printf '#define %s %s\n' "${definition%%=*}" "${definition#*=}"
done
printf '#include "gpu/kernels/%s"\n' "$source"
