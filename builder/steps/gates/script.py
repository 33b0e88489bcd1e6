"""All probes of an image as one sh script, and its answer taken apart again.

What a probe prints goes to files first, and comes out behind a line with a random token and
the numbers of bytes: whatever it prints, it cannot be taken for the frame. The script needs
sh, mkdir, head, wc and cat (coreutils or busybox), /proc/uptime and a writable /tmp. Each
probe is ended in its time by `timeout`; where the image has none that runs its command, only
the time of the whole script is limited.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from builder.steps.gates.gate import Answer, Probe

_MARGIN_S = 30  # for starting the container
_LIMIT = 1 << 20  # bytes of each stream that are kept
_MOST = 64 << 20  # bytes of all probes together

_FRAME = r"""
umask 022
base=/tmp/@TOKEN@
mkdir "$base" || exit 97
for tool in head wc cat; do
    command -v "$tool" >/dev/null 2>&1 || { echo "the image has no $tool" >&2; exit 97; }
done
runs() { # whether a timeout runs what it is told, and says how that ended
    said=$("$@" 9 sh -c 'echo "@TOKEN@"; exit 7' 2>/dev/null)
    [ "$? $said" = "7 @TOKEN@" ]
}
if runs timeout -k 2; then limited() { timeout -k 2 "$@"; }
elif runs timeout; then limited() { timeout "$@"; }
elif runs timeout -t; then limited() { timeout -t "$@"; }
else limited() { shift; "$@"; }
fi
ulimit -f 524288 2>/dev/null
uptime() { read -r now rest </proc/uptime 2>/dev/null || now=0; }
probe() {
    mkdir "$base/$1" || exit 97
    uptime; started=$now
    limited "$2" sh -c "$3" sh "$base/$1" </dev/null >"$base/out" 2>"$base/err"
    code=$?
    uptime
    head -c @LIMIT@ <"$base/out" >"$base/out.head"
    head -c @LIMIT@ <"$base/err" >"$base/err.head"
    out=$(wc -c <"$base/out.head") err=$(wc -c <"$base/err.head")
    echo "@TOKEN@ $1 $code $started $now $((out)) $((err))"
    cat "$base/out.head" "$base/err.head"
}
echo "@TOKEN@ begin"
"""


def most(probes: Sequence[Probe]) -> int:
    """How many bytes the script may print, with room for what a shell says before it."""
    return min((len(probes) * 2 + 1) * (_LIMIT + 256), _MOST)


def write(probes: Sequence[Probe], *, token: str) -> tuple[str, int]:
    """The script for `sh -s`, and how many seconds it may take."""
    frame = _FRAME.replace("@TOKEN@", token).replace("@LIMIT@", str(_LIMIT))
    calls = [
        f"probe {i} {probe.timeout_s} {shlex.quote(probe.script)}\n"
        for i, probe in enumerate(probes)
    ]
    seconds = sum(probe.timeout_s + 2 for probe in probes) + _MARGIN_S
    return frame + "".join(calls) + f'echo "{token} end"\n', seconds


def read(output: bytes, probes: Sequence[Probe], *, token: str) -> tuple[Answer | None, ...]:
    """The answer of each probe; None from where the output is cut off or makes no sense."""
    _, begun, rest = output.partition(f"{token} begin\n".encode())
    answers: list[Answer | None] = []
    for i, probe in enumerate(probes):
        found = _take(rest, f"{token} {i} ".encode(), probe) if begun else None
        if found is None:
            break
        answer, rest = found
        answers.append(answer)
    return (*answers, *[None] * (len(probes) - len(answers)))


def _take(data: bytes, prefix: bytes, probe: Probe) -> tuple[Answer, bytes] | None:
    head, line, rest = data.partition(b"\n")
    if not line or not head.startswith(prefix):
        return None
    try:
        code, started, ended, out, err = head[len(prefix) :].decode().split(" ")
        seconds = max(float(ended) - float(started), 0.0)
        size, whole = int(out), int(out) + int(err)
        number = int(code)
    except ValueError:
        return None
    if not 0 <= size <= whole <= len(rest):
        return None
    # 124: coreutils; 143 and 137: busybox, and both after the second signal.
    late = number in (124, 137, 143) and seconds >= probe.timeout_s - 0.02
    stdout, stderr = (part.decode("utf-8", "replace") for part in (rest[:size], rest[size:whole]))
    return Answer(number, seconds, stdout, stderr, late), rest[whole:]
