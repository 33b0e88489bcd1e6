"""`imgbuild patch refresh --into` and `--from`: a patch that only a person can carry over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builder.errors import UsageError
from builder.model.counts import plural
from builder.model.values import PatchFile, SourceTree
from builder.pipeline.timeline import Timeline
from builder.ports import Files, GitStore, Progress, Project
from builder.steps import identity, patches, refresh, staging, trees
from builder.steps.hints import settling
from builder.steps.lanes import read_lane
from builder.steps.refresh import RefreshedPatch
from builder.tools import settle_folder
from builder.tools.settle_folder import Settling


def lay_out(
    folder: Path,
    lane: str,
    source: str,
    found: tuple[RefreshedPatch, ...],
    *,
    update: bool,
    store: GitStore,
    files: Files,
) -> tuple[RefreshedPatch, ...]:
    """The source as it is before the first patch that conflicts, in a new folder: what merges is
    merged, what does not has markers or lies beside its file as .rej. The findings say how to go
    on. Raises: UsageError."""
    first = next((one for one in found if one.outcome == "conflict"), None)
    if first is None or first.finding is None:
        raise UsageError("no patch conflicts: there is nothing to settle")
    if first.patch.edits:
        raise UsageError(
            f"{first.patch.path} holds text edits: they are corrected in the file itself",
            hint=f"imgbuild patch check {lane} {source}" + (" --update" if update else "")
            + " shows what stands at their places",
        )  # fmt: skip
    tree = SourceTree(source, first.marked or first.before)
    about = Settling(lane, source, first.patch.path, first.patch.sha256, first.before, update)
    settle_folder.write(folder, staging.archive(tree, store=store, files=files).path, about)
    how = "has markers (<<<<<<<) where it conflicts"
    if first.marked is None:
        data, name = first.patch.data, Path(first.patch.path).name
        left = settle_folder.reject(folder, data, strip=first.patch.strip, name=name)
        how = f"has what was not applied in {', '.join(left[:4])}"
    hint = f"{folder} {how}; settle it, then: imgbuild patch refresh LANE {source} --from {folder}"
    said = replace(first.finding, hint=hint)
    return tuple(replace(one, finding=said) if one is first else one for one in found)


def take_back(
    folder: Path,
    lane: str,
    source: str,
    *,
    project: Project,
    store: GitStore,
    progress: Progress,
) -> tuple[Settling, tuple[str, ...]]:
    """Write what was settled in a folder as the patch; which files it changes.

    Raises: UsageError, when something is left to settle, or the patch was changed meanwhile.
    """
    with Timeline(progress).stage("settle") as line:
        about = settle_folder.read_note(folder, hint=settling(source))
        if (about.lane, about.source) != (lane, source):
            raise UsageError(
                f"{folder} is for {about.source} of {about.lane}",
                hint=f"imgbuild patch refresh {about.lane} {about.source} --from {folder}",
            )
        patch = _patch(about, project, folder)
        if not store.holds(about.tree):
            raise UsageError(
                f"the tree {about.tree:.12} of {folder} is not in the store any more",
                hint=settling(source),
            )
        entries = trees.whole(SourceTree(source, about.tree), store=store)
        found = settle_folder.changes(
            folder, [e for e in entries if not trees.is_desktop_file(e.path)]
        )
        after = about.tree
        with store.patching(about.tree) as index:
            for path in found.gone:
                after = index.drop(path)
            for path, (data, executable) in found.files.items():
                after = index.put(path, data, executable=executable)
        if after == about.tree:
            raise UsageError(
                f"{folder} is as the source was before the patch",
                hint=f"if nothing of {patch.path} is needed: take it out of the series",
            )
        project.write(patch.path, refresh.rewritten(patch.data, store.diff(about.tree, after)))
        if patch.strip != 1:
            refresh.without_strip(patch.path, project)
        changed = tuple(sorted([*found.files, *found.gone]))
        line.done(f"{patch.path} changes {plural(len(changed), 'file')}")
    return about, changed


def _patch(about: Settling, project: Project, folder: Path) -> PatchFile:
    wanted = read_lane(about.lane, project=project).lane.sources.get(about.source)
    sets = patches.read_sets(wanted.patches, project=project) if wanted else ()
    found = next((one for one in sets if one.path == about.patch), None)
    data = project.read(about.patch)
    if found is None or data is None or identity.sha256(data) != about.sha256:
        raise UsageError(
            f"{about.patch} is not as it was when {folder} was made",
            hint=settling(about.source),
        )
    return found
