"""Bring one pin: the ladder over its places, and what to say when none has it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen

from builder.errors import Finding, SourceError
from builder.model.ids import is_local_url
from builder.model.values import GitPin
from builder.tools import git_env, git_quarantine, git_words, process
from builder.tools.git_words import Why

FETCH_LIMIT_S = 3600.0
_DEPTHS = (1, 50, 500, 5000)
_TRIES = 3
_MAY_GIVE_BY_REF = frozenset({Why.REFUSED, Why.OTHER})
_GOT = "refs/imgbuild/got"
_FLAGS = (
    "--progress", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
    "--no-recurse-submodules", "--no-show-forced-updates", "--force",
)  # fmt: skip


class SourceUnavailable(SourceError):
    """No place gives what is asked for; every attempt is listed."""

    code = "source-unavailable"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way that was tried at one place, and git's last words."""

    url: str
    way: str
    why: Why
    words: str


@dataclass(frozen=True, slots=True)
class Fetching:
    """One transfer into a quarantine: where to, and whom to tell how far it is."""

    folder: Path
    own: Sequence[git_env.Setting]
    progress: Callable[[int], None]
    attempts: list[Attempt] = field(default_factory=list)
    stop: Stop = field(default_factory=lambda: Stop())


class Stop:
    """Ends every transfer that shares it: theirs are sessions that no Ctrl-C reaches."""

    def __init__(self) -> None:
        self._running: set[Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._now = False

    def now(self) -> None:
        with self._lock:
            self._now = True
            for running in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGTERM)  # git-remote-https holds the pipe too

    @contextlib.contextmanager
    def heard_by(self, running: Popen[bytes]) -> Iterator[None]:
        with self._lock:
            if self._now:
                raise KeyboardInterrupt
            self._running.add(running)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(running)
        if self._now:
            raise KeyboardInterrupt


def fetch(pin: GitPin, at: Fetching) -> str | None:
    """Try every place in turn; the URL that gave the commit, whole, or None."""
    return next((url for url in pin.urls if _from_url(pin, url, at)), None)


def unavailable(
    pin: GitPin, attempts: Sequence[Attempt], own: Sequence[git_env.Setting]
) -> Finding:
    """What was tried for a pin that cannot be had, with a hint that fits."""
    places = f"{len(pin.urls)} places" if len(pin.urls) > 1 else _asked(pin.urls[0], own)
    what = f"{pin.name}: commit {pin.commit:.12} cannot be had from {places}"
    return Finding(
        SourceUnavailable.code, what, hint(pin, attempts), told(attempts, own), place=pin.place
    )


def hint(pin: GitPin, attempts: Sequence[Attempt]) -> str:
    """What to do about the failures that were met while the pin was asked for."""
    return git_words.cure(pin, {attempt.why for attempt in attempts})


def told(attempts: Sequence[Attempt], own: Sequence[git_env.Setting]) -> str:
    """The attempts by place, for a finding's detail."""
    lines: list[str] = []
    url = ""
    for attempt in attempts:
        if attempt.url != url:
            url = attempt.url
            lines.append(_asked(url, own))
        lines += [f"  {attempt.way}: {attempt.why.value}"]
        lines += [f"    {line}" for line in attempt.words.splitlines()]
    return "\n".join(lines)


def _asked(url: str, own: Sequence[git_env.Setting]) -> str:
    """A place, and the address that git takes for it where a setting of the person says so."""
    used = git_env.rewritten(url, own)
    instead = "" if used == url else f", asked at {git_words.shown(used)} (url.insteadOf of git)"
    return git_words.shown(url) + instead


def retried(call: Callable[[], process.Completed]) -> process.Completed:
    """Call a transfer again, a few times, while git's words say that the connection broke."""
    import stamina

    logging.getLogger("stamina").addHandler(logging.NullHandler())  # else it warns on stderr
    done = process.Completed((), 1, b"", b"")
    with contextlib.suppress(_BrokenError):
        for attempt in stamina.retry_context(
            on=_BrokenError, attempts=_TRIES, timeout=None, wait_initial=0.5, wait_jitter=0.5
        ):
            with attempt:
                done = call()
                if done.returncode and git_words.why(done.complaint) is Why.TRANSIENT:
                    raise _BrokenError
    return done


class _BrokenError(Exception):
    pass


def _from_url(pin: GitPin, url: str, at: Fetching) -> bool:
    if is_local_url(url) and url.endswith(".bundle"):
        return _from_bundle(pin, url, at)
    done = transfer(url, [f"{pin.commit}:{_GOT}"], 1, at)
    if not done.returncode:
        return _is_whole(pin, url, "by commit id", at)
    attempt = failure(url, "by commit id", done)
    at.attempts.append(attempt)
    return attempt.why in _MAY_GIVE_BY_REF and pin.ref is not None and _by_ref(pin, url, at)


def _by_ref(pin: GitPin, url: str, at: Fetching) -> bool:
    """Fetch the declared ref, deeper and deeper, until the commit is in its history."""
    way = ""
    for depth in _DEPTHS:
        way = f"by {pin.ref}, {depth} deep"
        done = transfer(url, [f"{pin.ref}:{_GOT}"], depth, at)
        if done.returncode:
            at.attempts.append(failure(url, way, done))
            return False
        if _git(("cat-file", "-e", f"{pin.commit}^{{commit}}"), at.folder).returncode == 0:
            return _is_whole(pin, url, way, at)
    words = f"commit {pin.commit:.12} is not in the history of {pin.ref}"
    at.attempts.append(Attempt(url, way, Why.REFUSED, words))
    return False


def _from_bundle(pin: GitPin, url: str, at: Fetching) -> bool:
    file = url.removeprefix("file://")
    done = _git(("bundle", "unbundle", file), at.folder)
    if not done.returncode:
        return _is_whole(pin, url, "as a bundle", at)
    at.attempts.append(failure(url, "as a bundle", done))
    return False


def transfer(url: str, refspecs: Sequence[str], depth: int, at: Fetching) -> process.Completed:
    """One `git fetch` into the folder; how it ended is in what is given back."""
    argv = ("git", "fetch", *_FLAGS, f"--depth={depth}", "--", url, *refspecs)
    env = git_env.network(at.folder, url, at.own)
    return retried(lambda: _streamed(argv, env, at))


def _streamed(argv: Sequence[str], env: Mapping[str, str], at: Fetching) -> process.Completed:
    heard: deque[str] = deque(maxlen=100)
    with (
        process.started(
            argv, env=env, cwd=at.folder, stdin=DEVNULL, timeout_s=FETCH_LIMIT_S
        ) as running,
        at.stop.heard_by(running),
    ):
        assert running.stderr is not None
        for line in git_words.lines(running.stderr):
            size = git_words.amount(line)
            if size is None:
                heard.append(line)
            else:
                at.progress(size)
        code = running.wait()
    if code == -signal.SIGKILL:
        heard.append(f"no end after {FETCH_LIMIT_S:g} s")
    return process.Completed(tuple(argv), code, b"", "\n".join(heard).encode())


def _is_whole(pin: GitPin, url: str, way: str, at: Fetching) -> bool:
    """Whether the id is a commit's, with all of its tree: shown before it is published."""
    git_quarantine.bound(at.folder, [pin.commit])
    kind = _git(("cat-file", "-t", pin.commit), at.folder)
    if kind.returncode or kind.text.strip() != "commit":
        words = f"{pin.commit:.12} is {kind.text.strip() or 'not there'}, not a commit"
        at.attempts.append(Attempt(url, way, Why.REFUSED, words))
        return False
    done = _git(("rev-list", "--objects", "--quiet", pin.commit, "--"), at.folder)
    if done.returncode:
        words = f"the commit is not whole: {git_words.last_words(done.complaint)}"
        at.attempts.append(Attempt(url, way, Why.DAMAGED, words))
    return done.returncode == 0


def _git(arguments: Sequence[str], git_dir: Path) -> process.Completed:
    return process.run(
        ("git", *arguments), env=git_env.local(git_dir), timeout_s=FETCH_LIMIT_S,
        cwd=git_dir, check=False,
    )  # fmt: skip


def failure(url: str, way: str, done: process.Completed) -> Attempt:
    """An attempt that failed, with git's words."""
    words = done.complaint
    return Attempt(url, way, git_words.why(words), git_words.last_words(words))
