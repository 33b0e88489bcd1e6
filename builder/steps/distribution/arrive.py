"""What is run on a node once an image is there: prove it, then move the tags."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from builder.errors import DistributionError
from builder.model.distribution import Arrived, NodeImage, SourceImage
from builder.steps.distribution import probe
from builder.steps.distribution.archives import prefix_tags, transfer_tag
from builder.steps.distribution.plan import is_same, transfer_names

# $1 names of transfers of a lane, with a push's token and the node's name (homes may be shared).
# While it runs, no other push of the lane removes what is on its way. Held by a file's lock, so
# that it ends with its process; where there is no flock, nothing is held.
HOLD = r"""
f=${XDG_RUNTIME_DIR:-$HOME}/.$1
command -v flock >/dev/null || exit 0
until [ -e "$f" ]; do exec 8>"$f"; flock 8; done
echo held
cat >/dev/null 8>&-
rm -f "$f"
"""
# $1 docker, $2 the id of the image, $3 its diff ids as JSON, $4 how the names of temporary images
# of the lane begin (they go; without one they stay), $5 this push's token, $6 and $7 how this
# image's own begin: while another push holds, only those go. Then the tags to move. A store that
# lost content still answers `image inspect` (DISTRIBUTION, trap 1): only the list and a container
# tell. Under a lock where the node has flock, so that two pushes do not mix their tags; a container
# that is there then is of a push that was killed.
SCRIPT = r"""
d=$1; want=$2; layers=$3; transfer=$4; token=$5; one=$6; two=$7; shift 7; export LC_ALL=C
r=${XDG_RUNTIME_DIR:-$HOME}
say() { printf '\n-- %s\n' "$1"; }
probe=imgbuild-push-$$
if command -v flock >/dev/null && exec 9>"$r/.imgbuild-push.lock"; then
    flock -w 240 9 || { echo "another push has been moving tags here for minutes" >&2; exit 1; }
    { left=$($d container ls -a --filter label=io.imgbuild.temporary=push --format '{{.Names}}' |
        grep -vx "$probe") && $d rm -fv $left; } >/dev/null 2>&1 9>&- &
fi
said=$(mktemp) || exit 1
trap 'exit 1' HUP INT PIPE TERM
trap '[ -z "$probe" ] || $d rm -fv $probe >/dev/null 2>&1 9>&-; rm -f "$said"' EXIT
$d create --pull=never --network none --name $probe --label io.imgbuild.temporary=push "$want" - \
    >/dev/null 2>"$said" 9>&- &
all=$($d image ls -a --no-trunc --format '{{.ID}} {{.Repository}}:{{.Tag}}')
say listed; printf '%s\n' "$all"
named() { printf '%s\n' "$all" | awk -v tag="$1" "$2"; }
about=$($d image inspect --format '{{.Id}} {{json .RootFS.Layers}}
{{json .}}' "$want" 2>/dev/null)
wait $! && created=yes || created=
say create; cat "$said"; [ -z "$created" ] || echo created
{ [ -z "$created" ] || $d rm -v $probe >/dev/null; } 9>&- &
say inspect; printf '%s\n' "$about" | sed 1d
case $all in *"$want"*) ;; *) created= ;; esac
if [ -n "$created" ] && [ "$(printf '%s\n' "$about" | sed -n 1p)" = "$want $layers" ]; then
    say tags
    for tag; do
        old=$(named "$tag" '$2 == tag { print $1 }')
        [ "$old" != "$want" ] || continue
        case $tag in
        *-previous) ;;
        *) [ -z "$old" ] || $d tag "$old" "$tag-previous" || exit 1 ;;
        esac
        $d tag "$want" "$tag" || exit 1
        printf '%s %s\n' "$tag" "$old"
    done
    wait
    gone=
    if [ -n "$transfer" ]; then
        gone=$(named "$transfer" 'index($2, tag) == 1 { print $2 }')
        for f in "$r/.$transfer"*; do
            case $f in "$r/.$transfer$token."*) continue;; esac
            [ -e "$f" ] || continue
            flock -n "$f" rm -f "$f" && continue
            gone=$(printf '%s\n' "$gone" | grep -F -e "$one" -e "$two")
        done
    fi
    [ -z "$gone" ] || $d image rm $gone >/dev/null 2>&1
fi
wait
probe=
say end
"""


class NotArrived(DistributionError):
    """The node's engine does not have the image whole."""

    code = "not-arrived"


class OtherImage(DistributionError):
    """The node's engine names another image than the one that was sent."""

    code = "other-image"


def words(
    docker: Sequence[str],
    want: str,
    image: SourceImage,
    tags: Sequence[str],
    *,
    config: str,
    token: str,
    keeps: bool = False,
) -> list[str]:
    """What SCRIPT is started with; `want` is the id that the node's engine must give, `keeps`
    leaves the names under which images arrive."""
    layers = json.dumps(image.layers, separators=(",", ":"))
    names = "" if keeps else transfer_names(image.labels)
    own = transfer_tag(image, config), prefix_tags(image)
    return [" ".join(docker), want, layers, names, token, *own, *tags]


def holding(image: SourceImage, token: str, node: str) -> str:
    """The command that holds what is on its way to a node until its stdin ends."""
    return shlex.join(["sh", "-c", HOLD, "sh", f"{transfer_names(image.labels)}{token}.{node}"])


def read(node: str, answer: str) -> Arrived:
    """What the engine said of the image. Raises: NotArrived when it was cut off."""
    parts = probe.parts(answer)
    if "end" not in parts:
        raise NotArrived(
            f"{node}: the check of the image was cut off", hint="run the same command again",
            detail=answer[-1000:],
        )  # fmt: skip
    text = parts.get("inspect", "").strip()
    try:
        image = probe.image(json.loads(text)) if text else None
    except probe.GARBLED:
        image = None
    created = parts.get("create", "").strip()
    ids = {line.split()[0] for line in parts.get("listed", "").splitlines() if line.strip()}
    moved = [line.split() for line in parts.get("tags", "").splitlines() if line.strip()]
    return Arrived(
        image is not None and image.id in ids,
        created.endswith("created"),
        image,
        created,
        {row[0]: row[1] if len(row) > 1 else "" for row in moved} if "tags" in parts else None,
    )


def judge(
    node: str, arrived: Arrived, image: SourceImage, *, want: str, config: str, manifest: str
) -> str:
    """What proves that the node has this image. Raises: NotArrived, OtherImage."""
    found = arrived.image
    if found is None or not arrived.listed or not arrived.creatable:
        raise NotArrived(
            f"{node}: its engine does not have the image whole", hint="run the same command again",
            detail="" if arrived.creatable else arrived.complaint,
        )  # fmt: skip
    if found.layers != image.layers:
        raise _other(node, "other layers (diff ids)", found, image)
    if found.id != want or arrived.moved is None:
        raise _other(node, f"another id ({found.id})", found, image)
    if found.id in (config, manifest):
        return f"{'config digest' if found.id == config else 'manifest'} and diff ids"
    if is_same(image, found):
        return "diff ids, labels and time"  # it came another way and has another manifest
    raise _other(node, f"another id ({found.id})", found, image)


def _other(node: str, what: str, found: NodeImage, image: SourceImage) -> OtherImage:
    return OtherImage(
        f"{node}: its engine answers with {what} than the image that was sent",
        hint="no tag was moved there; look at the node: docker image inspect",
        detail=f"sent {image.id}\nfound {found.id}\n"
        + "\n".join(f"  {a} {b}" for a, b in zip(image.layers, found.layers, strict=False)
                    if a != b),
    )  # fmt: skip
