#!/bin/sh
# The -gencode flags for TORCH_CUDA_ARCH_LIST: 12.1a -> compute_121a, sm_121a.
set -eu

fail() {
    echo "kern: TORCH_CUDA_ARCH_LIST $1" >&2
    exit 1
}

list=$(printf %s "${TORCH_CUDA_ARCH_LIST:-}" | tr ';,' '  ')
[ -n "$(printf %s "$list" | tr -d ' ')" ] || fail 'is empty: say for which architectures, as in 12.1a'
for entry in $list; do
    arch=${entry%+PTX}
    printf '%s\n' "$arch" | grep -Eq '^[0-9]{1,2}\.[0-9][af]?$' || fail "has a malformed entry: '$entry'"
    number=$(printf %s "$arch" | tr -d .)
    printf -- '-gencode=arch=compute_%s,code=sm_%s ' "$number" "$number"
    [ "$arch" = "$entry" ] || printf -- '-gencode=arch=compute_%s,code=compute_%s ' "$number" "$number"
done
echo
