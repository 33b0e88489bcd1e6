"""`imgbuild patch check`: what becomes of every patch, and who broke those that fail."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from builder.errors import Finding, SourceError
from builder.model.counts import plural
from builder.model.lock import PatchState
from builder.model.values import CommitInfo, PatchFile
from builder.pipeline.patch_subject import Subject, subjects
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project, Say
from builder.steps import patches
from builder.steps.hints import at_tip
from builder.steps.patches import FailedPatch


@dataclass(frozen=True, slots=True)
class CheckedPatch:
    source: str
    patch: PatchFile
    state: PatchState | None  # None: it fails, or lies behind one that fails
    locked: PatchState | None = None
    finding: Finding | None = None
    broken_by: CommitInfo | None = None

    @property
    def why(self) -> str:
        """The condition by which it is obsolete."""
        options = self.patch.options
        if self.state != "obsolete":
            return options.reason
        held = options.obsolete_if if options.obsolete_if is not None else options.when
        return options.reason or (str(held) if held is options.obsolete_if else f"not: {held}")


def check(
    lane: str,
    source: str | None,
    *,
    update: bool,
    project: Project,
    store: GitStore,
    files: Files,
    progress: Progress,
) -> tuple[CheckedPatch, ...]:
    """Every patch of a lane on the pins that the lane names now (with `update`, on the tips).

    Nothing is raised for a patch that fails. Raises: PatchSetInvalid, SourceUnavailable.
    """
    with Timeline(progress).stage("patches") as line:
        found = [
            one
            for subject in subjects(
                lane, source, update=update, project=project, store=store, files=files,
                say=line.say,
            )
            for one in _checked(subject, store, line.say, update=update)
        ]  # fmt: skip
        bad = sum(one.finding is not None for one in found)
        untried = sum(one.state is None for one in found) - bad
        counts = [(bad, "failed"), (untried, "not tried")]
        said = ", ".join(f"{count} {word}" for count, word in counts if count)
        line.done(plural(len(found), "patch") + (f", {said}" if said else ""), good=not bad)
    return tuple(found)


def _checked(subject: Subject, store: GitStore, say: Say, *, update: bool) -> list[CheckedPatch]:
    done, failed = patches.examine(subject.tree, subject.patches, store=store)
    states = {result.patch.path: result.state for result in done.patches}
    failures = {one.patch.path: one for one in failed}
    locked = {p.path: p.state for p in subject.old.patches} if subject.old else {}
    found = []
    for patch in subject.patches:
        failure = failures.get(patch.path)
        found.append(
            CheckedPatch(
                subject.name, patch, states.get(patch.path), locked.get(patch.path),
                at_tip(failure.finding, {subject.name} if update else ()) if failure else None,
                _culprit(subject, failure, store, say) if failure else None,
            )
        )  # fmt: skip
    return found


def _culprit(
    subject: Subject, failure: FailedPatch, store: GitStore, say: Say
) -> CommitInfo | None:
    """The upstream commit since the lock; None when no history tells."""
    if subject.old_pin is None:
        return None
    with suppress(SourceError):
        return store.history(subject.pinned.urls).breaking(
            subject.old_pin, subject.pinned, partial(patches.applies, failure.patch),
            paths=sorted(patches.files_of(failure.patch)), say=say,
        )  # fmt: skip
    return None
