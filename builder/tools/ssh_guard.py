"""A command on a node ends when nobody here waits for it any more.

sshd ends a session's pipes, not its processes: a docker that hangs would stay for good, since it
neither reads nor writes. So a watcher beside each command writes an empty line to stderr now and
then; when that fails, the command's own process group is ended, and nothing else there.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

# "$@" the command. One line without single quotes: login shells differ, and chains pass it on
# within such. What sudo started only root may end; it is asked for no more than docker was.
GUARD = (
    'command -v setsid >/dev/null || exec "$@"; '
    'k=:; case "$*" in *"sudo -n"" docker"*) k="sudo -n kill";; esac; '  # and is no match itself
    'exec 3<&0; setsid "$@" <&3 3<&- & p=$!; exec 3<&- </dev/null; '
    '(trap "kill \\$! 2>/dev/null; exit" TERM; '
    "while :; do sleep 5 >/dev/null 2>&1 & wait $! || exit; (echo) >&2 || break; done; "
    'trap "" TERM; exec 2>/dev/null; '
    "for s in TERM KILL; do kill -s $s -- -$p; $k -s $s -- -$p; sleep 5; done"
    ") >/dev/null & t=$!; wait $p; r=$?; kill $t; exit $r"
)


def guarded(words: Sequence[str]) -> str:
    """The shell command that runs these words so."""
    return shlex.join(["sh", "-c", GUARD, "sh", *words])
