"""What is run where caches lie, on nodes and here: POSIX sh, and `stat`, `flock`, `sha256sum`.

A cache lies in `<root>/<fingerprint, 12>/<name>`. Beside the names: `.incoming-…` (being
copied), `.former-<name>` (until the new one is in place), two files to lock, and the key with the
manifest, `imgbuild-cache.json`. Names are those that a lane declares: none begins with `-`.
"""

from __future__ import annotations

KEY_FILE = "imgbuild-cache.json"

# $1 root, $2 fingerprint, then the names.
LOOK = r"""
export LC_ALL=C
say() { printf '\n-- %s\n' "$1"; }
root=$1; key=$2; shift 2
say machine; uname -m
say gpu; nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u
say tools; for t in rsync flock sha256sum stat; do command -v $t >/dev/null && echo $t; done
say home; (cd && pwd -P)
say root; (cd -P "$root" 2>/dev/null && pwd -P)
say keys; ls "$root" 2>/dev/null
at=$root; while [ ! -d "${at:-/}" ]; do at=${at%/*}; done
say free; df -Pk "${at:-/}" | sed -n '$p'
say links
for n in "" /.imgbuild-lock /.imgbuild-swap /imgbuild-cache.json; do
    [ ! -L "$root/$key$n" ] || echo "$root/$key$n"
done
for n; do [ ! -L "$root/$key/$n" ] || echo "$root/$key/$n"; done
say folders; for n; do [ ! -d "$root/$key/$n" ] || echo "$n"; done
say end
"""
# $1 a folder, then names in it: all that is below them. Nothing is followed.
LIST = r"""
export LC_ALL=C; set -e
say() { printf '\n-- %s\n' "$1"; }
cd -P -- "$1"; shift
say odd
find "$@" \( -name '*[[:cntrl:]]*' -o -name '*\\*' -o ! \( -type f -o -type d -o -type l \) \)
say entries; find "$@" -exec stat -c '%f %s %n' {} +
say links
find "$@" -type l -exec sh -c 'for l; do printf "<%s\n>%s\n" "$l" "$(readlink "$l")"; done' sh {} +
say sums; find "$@" -type f -exec sha256sum {} +
say end
"""
# $1 root, $2 fingerprint, $3 a token: takes the lock, puts right what a killed run left, makes
# the folder to copy into, and holds the lock until its stdin ends. The second lock is for what
# goes on when the connection is cut: nothing is removed while it is renamed.
HOLD = r"""
export LC_ALL=C
root=$1; key=$2; mine=.incoming-$3
mkdir -p "$root/$key" && cd -P -- "$root/$key" || exit 1
exec 9>>.imgbuild-lock 8>>.imgbuild-swap || exit 1
flock -n 9 || { echo busy; exit 0; }
flock 8
rm -rf -- .incoming-*
for old in .former-*; do
    new=${old#.former-}
    if [ ! -e "$old" ]; then continue; fi
    if [ -e "$new" ]; then rm -rf -- "$old"; else mv -T -- "$old" "$new"; fi
done
mkdir -m 700 "$mine" || exit 1
flock -u 8
echo held
cat >/dev/null
flock 8
rm -rf "$mine"
"""
# $1 the folder of the fingerprint, $2 the token, then what is renamed into place. What is copied
# as root belongs to whom the root folder belongs to. In braces: a part of it is never run.
SWAP = r"""
{
export LC_ALL=C; set -e
cd -P -- "$1"; from=.incoming-$2; shift 2
exec 8>>.imgbuild-swap; flock 8
for n; do [ -e "$from/$n" ] || { echo "$from/$n is gone" >&2; exit 1; }; done
[ "$(id -u)" != 0 ] || chown -hR "$(stat -c %u:%g ..)" "$from"
sync
for n; do
    [ ! -e "$n" ] || mv -T -- "$n" ".former-$n"
    mv -T -- "$from/$n" "$n" || { mv -T -- ".former-$n" "$n"; exit 1; }
    rm -rf ".former-$n"
done
}
"""
