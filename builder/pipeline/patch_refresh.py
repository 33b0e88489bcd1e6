"""`imgbuild patch refresh`: rewrite the patches of a source for the commit that the lane names."""

from __future__ import annotations

import re

from builder.model.counts import plural
from builder.pipeline.patch_subject import former_tree, subjects
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import refresh as steps
from builder.steps.refresh import RefreshedPatch


def refresh(
    lane: str,
    source: str,
    *,
    update: bool,
    project: Project,
    store: GitStore,
    files: Files,
    progress: Progress,
) -> tuple[RefreshedPatch, ...]:
    """Write the patches that changed; one that conflicts stays as it is, and is told.

    With `update` for the tip of the tracked ref, which a later `lock --update` takes. Raises:
    PatchSetInvalid, SourceUnavailable.
    """
    with Timeline(progress).stage("refresh") as line:
        (subject,) = subjects(
            lane, source, update=update, project=project, store=store, files=files, say=line.say
        )
        former = former_tree(subject, store=store, say=line.say)
        found = tuple(steps.refresh(subject.tree, former, subject.patches, store=store))
        for one in found:
            if one.data is not None:
                project.write(one.patch.path, one.data)
                if one.patch.strip != 1:
                    _without_strip(one.patch.path, project)
        count = sum(one.data is not None for one in found)
        said = f"{count} of {plural(len(found), 'patch')} rewritten for {subject.pinned.commit:.12}"
        line.done(said, good=not any(one.outcome == "conflict" for one in found))
    return found


def _without_strip(path: str, project: Project) -> None:
    """What is written has the names of -p1."""
    folder, _, name = path.rpartition("/")
    series = f"{folder}/series"
    text = (project.read(series) or b"").decode()
    line = rf"(?m)^({re.escape(name)})[ \t]+-p\d+"
    project.write(series, re.sub(line, r"\1", text).encode())
