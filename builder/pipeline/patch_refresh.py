"""`imgbuild patch refresh`: rewrite the patches of a source for the commit that the lane names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.model.counts import plural
from builder.pipeline.patch_settle import lay_out
from builder.pipeline.patch_subject import former_tree, subjects
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import refresh as steps
from builder.steps.hints import at_tip
from builder.steps.refresh import RefreshedPatch
from builder.tools import settle_folder


def refresh(
    lane: str,
    source: str,
    *,
    update: bool,
    into: Path | None = None,
    project: Project,
    store: GitStore,
    files: Files,
    progress: Progress,
) -> tuple[RefreshedPatch, ...]:
    """Write the patches that changed; one that conflicts stays as it is, and is told.

    With `update` for the tip of the tracked ref, which a later `lock --update` takes; with `into`
    the first one that conflicts is laid out there to be settled. Raises: PatchSetInvalid,
    SourceUnavailable, UsageError.
    """
    if into is not None:
        settle_folder.check_new(into)
    with Timeline(progress).stage("refresh") as line:
        (subject,) = subjects(
            lane, source, update=update, project=project, store=store, files=files, say=line.say
        )
        former, unknown = former_tree(subject, store=store, say=line.say)
        found = tuple(
            steps.refresh(subject.tree, former, subject.patches, unknown=unknown, store=store)
        )
        for one in found:
            if one.data is not None:
                project.write(one.patch.path, one.data)
                if one.patch.strip != 1:
                    steps.without_strip(one.patch.path, project)
        count = sum(one.data is not None for one in found)
        said = f"{count} of {plural(len(found), 'patch')} rewritten for {subject.pinned.commit:.12}"
        line.done(said, good=not any(one.outcome == "conflict" for one in found))
    tips = {source} if update else set[str]()
    found = tuple(
        replace(one, finding=at_tip(one.finding, tips)) if one.finding else one for one in found
    )
    if into is None:
        return found
    return lay_out(into, lane, source, found, update=update, store=store, files=files)
