"""What a proven image says of itself, and how it gets its names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from builder.model.label_names import PROVEN
from builder.model.lane import Build, Lane
from builder.model.lock import Final, Lock, LockedBase, LockedImage, LockedSource
from builder.model.proven import digest_of
from builder.model.values import BuiltImage, ImageInfo, PassedGates, Verdict
from builder.steps.labels import (
    BUILD_ID,
    LabellingChanged,
    OnBuildLeft,
    built,
    candidate_reference,
    drop_candidates,
    label,
    labels,
    references,
)

HEX, DIGEST, BUILD = "ab" * 20, "sha256:" + "ab" * 32, "3f9c1a2b77d0" + "0" * 52
LANE = Lane(
    1, "demo", "x-demo", ("linux/arm64",), Build("12.1a"), {}, {}, description="a demo", name="demo"
)
SOURCE = LockedSource(
    DIGEST, "https://example.org/k.git", HEX, HEX, DIGEST, 1757692800, Final("cd" * 20, DIGEST)
)
LOCK = Lock(
    1,
    LockedImage(DIGEST),
    {"kern": SOURCE},
    {"runtime": LockedBase(DIGEST, {"linux/arm64": DIGEST})},
)
VERDICTS = (Verdict("link", "cudart", True, "ok"), Verdict("load", "cudart", True, "ok"))


@dataclass
class Engine:
    """The part of an engine that labelling needs: tags of images in memory."""

    tags: dict[str, ImageInfo] = field(default_factory=dict)
    changes: Mapping[str, object] = field(default_factory=dict)  # what labelling does besides
    config_of: Mapping[str, object] = field(default_factory=dict)

    def image(self, reference: str) -> ImageInfo | None:
        by_id = {image.id: image for image in self.tags.values()}
        found = self.tags.get(reference) or by_id.get(reference)
        names = tuple(t for t, i in self.tags.items() if found and i.id == found.id)
        return replace(found, tags=names) if found else None

    def images(self, repository: str) -> tuple[ImageInfo, ...]:
        names = [t for t in self.tags if t.startswith(f"{repository}:")]
        return tuple(replace(self.tags[t], tags=(t,)) for t in names)

    def relabel(
        self, reference: str, labels: Mapping[str, str], *, platform: str, epoch: int, tag: str,
        log: Path,
    ) -> str:  # fmt: skip
        self.tags[tag] = replace(self.tags[reference], id="labelled", labels=labels)
        return "labelled"

    def config(self, image: str) -> Mapping[str, object]:
        found = self.image(image)
        assert found
        changes = self.changes if image == "labelled" else {}
        told = {"Labels": dict(found.labels), "Layers": list(found.layers), "OnBuild": None}
        return {**told, **self.config_of, **changes}

    def history(self, image: str) -> tuple[str, ...]:
        return ("RUN x",)

    def tag(self, image: str, reference: str) -> None:
        found = self.image(image)
        assert found
        self.tags[reference] = found

    def untag(self, reference: str) -> None:
        self.tags.pop(reference, None)


def info(image: str) -> ImageInfo:
    return ImageInfo(image, ("one", "two"), {}, (), {}, "arm64", 1, "")


def passed(engine: Engine) -> PassedGates:
    reference = candidate_reference("demo", "1")
    engine.tags[reference] = info("candidate")
    return PassedGates(BuiltImage("candidate", reference, Path("log"), ()), VERDICTS)


def test_labels_say_what_it_was_made_of() -> None:
    found = labels(LANE, LOCK, build_id=BUILD, lock_digest=DIGEST, verdicts=VERDICTS)
    assert found == {
        "io.imgbuild.arch-list": "12.1a",
        "io.imgbuild.base.runtime.linux-arm64": DIGEST,
        "io.imgbuild.build-id": BUILD,
        "io.imgbuild.gates": "2 of 2",
        "io.imgbuild.lane": "demo",
        "io.imgbuild.lock-digest": DIGEST,
        "io.imgbuild.source.kern.commit": HEX,
        "io.imgbuild.source.kern.tree": "cd" * 20,
        "org.opencontainers.image.created": "2025-09-12T16:00:00Z",
        "org.opencontainers.image.ref.name": "x-demo:3f9c1a2b77d0",
        "org.opencontainers.image.revision": BUILD,
        "org.opencontainers.image.source": "https://example.org/k.git",
        "org.opencontainers.image.title": "demo",
        "org.opencontainers.image.version": "3f9c1a2b77d0",
    }
    assert list(found) == sorted(found)
    lane = replace(LANE, env={"B": "2", "A": "1"})
    found = labels(lane, LOCK, build_id=BUILD, lock_digest=DIGEST, verdicts=VERDICTS)
    assert found["io.imgbuild.env"] == "A B"


def test_the_lanes_own_tag_moves_last_and_temporary_ones_go() -> None:
    engine = Engine()
    done = label(
        passed(engine), {BUILD_ID: BUILD}, references(LANE, BUILD), platform="linux/arm64", epoch=1,
        engine=engine,  # type: ignore[arg-type]
    )  # fmt: skip
    assert done.tags == ("x-demo:3f9c1a2b77d0", "x-demo:local")
    assert list(engine.tags) == list(done.tags)
    digest = digest_of(info("candidate"))
    assert engine.tags["x-demo:local"].labels == {BUILD_ID: BUILD, PROVEN: digest} == done.labels


@pytest.mark.parametrize(
    ("engine", "error", "says"),
    [
        (Engine(changes={"Layers": ["other"]}), LabellingChanged, "of the image: Layers"),
        (Engine(changes={"Env": ["A=b"], "User": "0"}), LabellingChanged, "image: Env, User"),
        (Engine(changes={"Labels": {"a": "b"}}), LabellingChanged, "of the image: Labels"),
        (Engine(config_of={"OnBuild": ["USER root"]}), OnBuildLeft, "holds ONBUILD USER root"),
    ],
)  # fmt: skip
def test_another_image_is_never_named(engine: Engine, error: type[Exception], says: str) -> None:
    engine.tags["x-demo:local"] = info("former")
    with pytest.raises(error, match=says):
        label(
            passed(engine), {}, references(LANE, BUILD), platform="linux/arm64", epoch=1,
            engine=engine,  # type: ignore[arg-type]
        )  # fmt: skip
    assert engine.tags["x-demo:local"].id == "former"
    assert set(engine.tags) == {"x-demo:local", candidate_reference("demo", "1")}


def test_a_built_image_is_known_by_its_labels_not_by_its_tag() -> None:
    engine = Engine({"x-demo:3f9c1a2b77d0": info("x"), "x-demo:local": info("x")})
    assert built(LANE, BUILD, engine=engine) is None  # type: ignore[arg-type]
    whole = replace(info("x"), labels={BUILD_ID: BUILD, "io.imgbuild.gates": "2 of 2"})
    engine = Engine({"x-demo:3f9c1a2b77d0": whole, "x-demo:local": info("former")})
    found = built(LANE, BUILD, engine=engine)  # type: ignore[arg-type]
    assert found is not None
    assert found.tags == ("x-demo:3f9c1a2b77d0",)
    inherits = {**whole.labels, PROVEN: digest_of(replace(whole, layers=("one",)))}
    engine.tags["x-demo:3f9c1a2b77d0"] = replace(whole, labels=inherits)
    assert built(LANE, BUILD, engine=engine) is None  # type: ignore[arg-type]


def test_candidates_of_former_runs_of_this_lane_go() -> None:
    names = [candidate_reference("demo", run) for run in "1234"]
    names += [candidate_reference(other, "1") for other in ("demo-x", "a.demo")]
    engine = Engine({name: info(name) for name in [*names, f"{names[0]}-labelled"]})
    dropped = drop_candidates(
        "demo", keep="4", ended=lambda run: run != "3", engine=engine,  # type: ignore[arg-type]
    )  # fmt: skip
    assert dropped == (names[0], f"{names[0]}-labelled", names[1])
    assert sorted(engine.tags) == sorted(names[2:])
