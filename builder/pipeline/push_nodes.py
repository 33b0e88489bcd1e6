"""What a push does on each node but for moving bytes: ask, prove, tag."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from builder.errors import Finding, ImgbuildError
from builder.model.distribution import NodeFacts, NodePlan, Outcome, Plan, SourceImage
from builder.model.nodes import Hooks, Node
from builder.node_ports import Connection, NodeLine, OpenNodes
from builder.steps.distribution import arrive, probe
from builder.steps.distribution.said import ended, would_move
from builder.tools import process
from builder.tools.hooks import HINT, HookFailed, told
from builder.tools.ssh_words import NodeFailed

_ASK_S = 60.0
_HOOK_S = 600.0
_HELD_S = 10.0
_SAMPLE = 8 << 20  # bytes


class Ends:
    """How the push ends on each node; told to its line as soon as it is known."""

    def __init__(
        self,
        image: SourceImage,
        tags: Sequence[str],
        lines: Callable[[str], NodeLine],
        hooks: Hooks,
        about: Mapping[str, str],
        *,
        is_ahead: bool = False,
    ) -> None:
        self.hooks, self.about = hooks, about
        self.is_ahead = is_ahead  # layers only, which stay under the names that they arrived by
        self.image, self.tags, self.line = image, tuple(tags), lines
        self.token = secrets.token_hex(4)  # of this push, on nodes
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._ends: dict[str, Outcome] = {}
        self._begun: dict[str, Connection] = {}
        self._before: dict[str, tuple[str, int]] = {}

    def again(self, node: str, note: str, *, sent: int = 0) -> None:
        """The node is served another way than was tried first; its outcome says so."""
        self._before[node] = (note, sent)
        self.line(node).say(note)

    def begin(self, link: Connection) -> None:
        """Run before-node there; from now on after-node runs however it ends, since it puts right
        what the first one changed. Raises: HookFailed, ConnectionLost."""
        self._begun[link.node.name] = link
        run_hooks(link, self.hooks.before_node, "before-node", self.about)

    def cut_off(self) -> None:
        """The push ends before it is over: what was begun on nodes is put right."""
        for name in list(self._begun):
            self._righted(Outcome(name, "failed", 0, 0, 0))

    def end(self, outcome: Outcome) -> None:
        outcome = self._righted(outcome)
        note, sent = self._before.get(outcome.node, ("", 0))
        seconds = round(time.monotonic() - self._began, 3)
        note = "; ".join(text for text in (note, outcome.note) if text)
        outcome = replace(outcome, seconds=seconds, note=note, sent=outcome.sent + sent)
        with self._lock:
            if outcome.node in self._ends:
                return
            self._ends[outcome.node] = outcome
        self.line(outcome.node).done(ended(outcome), is_good=outcome.state != "failed")

    def _righted(self, outcome: Outcome) -> Outcome:
        """After after-node, where something was begun. Its failure is the node's, unless that has
        failed already."""
        link, is_failed = self._begun.pop(outcome.node, None), outcome.state == "failed"
        if link is None:
            return outcome
        try:
            about = told(self.about, "failed" if is_failed else "ok")
            run_hooks(link, self.hooks.after_node, "after-node", about)
        except ImgbuildError as error:
            if is_failed:
                return replace(outcome, note=f"after-node did not end well there: {error}")
            return replace(outcome, state="failed", finding=error.findings[0])
        return outcome

    def fail(self, node: str, error: ImgbuildError | Finding, *, sent: int = 0) -> None:
        finding = error if isinstance(error, Finding) else error.findings[0]
        self.end(Outcome(node, "failed", 0, sent, 0, finding=finding))

    def refuse(self, refused: Mapping[str, Finding]) -> None:
        for name, finding in refused.items():
            self.fail(name, finding)

    def expect(self, plan: Plan, sizes: Sequence[int]) -> None:
        for one in plan.nodes:
            self.line(one.node.name).expect(sum(sizes[i] for i in one.missing))

    def planned(self, plan: Plan, sizes: Sequence[int]) -> None:
        for one in plan.nodes:
            self.end(
                Outcome(
                    one.node.name, "planned", 0, 0, len(one.missing), one.present,
                    would_move(one, sizes), one.moves, transport=one.transport or "",
                    via=one.via,
                )
            )  # fmt: skip

    def outcomes(self, nodes: Sequence[Node]) -> tuple[Outcome, ...]:
        return tuple(self._ends[node.name] for node in nodes if node.name in self._ends)


def probe_all(
    nodes: Sequence[Node], opened: OpenNodes, ends: Ends, pool: ThreadPoolExecutor
) -> tuple[Mapping[str, Connection], Mapping[Node, NodeFacts]]:
    """Connect to all nodes at once and ask each in one round trip what it is and has."""

    def ask(node: Node) -> tuple[Connection, NodeFacts] | None:
        try:
            ends.line(node.name).say("connecting")
            link = opened.connect(node)
            ends.line(node.name).say("looking at its images")
            return link, probe.read(node.name, link.script(probe.SCRIPT, timeout_s=_ASK_S))
        except ImgbuildError as error:
            ends.fail(node.name, error)
            return None

    found = dict(zip(nodes, pool.map(ask, nodes), strict=True))
    answered = {node: pair for node, pair in found.items() if pair is not None}
    return (
        {node.name: link for node, (link, _) in answered.items()},
        {node: facts for node, (_, facts) in answered.items()},
    )


def link_rates(links: Sequence[Connection], pool: ThreadPoolExecutor) -> Mapping[str, float]:
    """Bytes a second to each node while all are sent to."""

    def measure(link: Connection) -> float:
        began = time.monotonic()
        link.script("true", timeout_s=_ASK_S)
        trip = time.monotonic() - began
        began = time.monotonic()
        with link.stream("cat >/dev/null", timeout_s=_ASK_S) as running:
            running.communicate(bytes(_SAMPLE))
        took = time.monotonic() - began
        return _SAMPLE / max(took / 2, took - trip)  # a busy moment must not make it endless

    def rate(link: Connection) -> float:
        try:
            return measure(link)
        except (ImgbuildError, OSError):
            return float("inf")  # what is wrong shows when it matters

    names = [link.node.name for link in links]
    return dict(zip(names, pool.map(rate, links), strict=True))


@contextmanager
def held(plan: Plan, links: Mapping[str, Connection], ends: Ends) -> Iterator[None]:
    """While the block runs, no other push removes what is on its way to the nodes."""
    with ExitStack() as stack:
        holding = [
            stack.enter_context(links[name].stream(arrive.holding(ends.image, ends.token, name)))
            for name in (plan.node.name for plan in plan.nodes if plan.transport)
        ]
        process.await_output(holding, timeout_s=_HELD_S)
        try:
            yield
        finally:  # at the end of their stdin they let go
            with suppress(Exception):
                for one in holding:
                    assert one.stdin is not None
                    one.stdin.close()
                for one in holding:
                    one.wait(2)


def before_all(
    plan: Plan, links: Mapping[str, Connection], ends: Ends, pool: ThreadPoolExecutor
) -> Plan:
    """Run the hooks on each node that something will move to; the plan without those whose
    hook failed."""

    def one(node: NodePlan) -> bool:
        if node.is_settled:
            return True
        try:
            ends.begin(links[node.node.name])
        except ImgbuildError as error:
            ends.fail(node.node.name, error)
            return False
        return True

    if not (ends.hooks.before_node or ends.hooks.after_node):
        return plan
    goes = list(pool.map(one, plan.nodes))
    return replace(plan, nodes=tuple(n for n, ok in zip(plan.nodes, goes, strict=True) if ok))


def run_hooks(
    link: Connection, commands: Sequence[Sequence[str]], when: str, about: Mapping[str, str]
) -> None:
    """Raises: HookFailed, ConnectionLost."""
    says = {**about, "IMGBUILD_NODE": link.node.name}
    export = shlex.join(["export", *(f"{name}={text}" for name, text in says.items())])
    for words in commands:
        try:
            link.script(f"exec 2>&1; {export}; {shlex.join(words)}", timeout_s=_HOOK_S)
        except NodeFailed as error:
            raise HookFailed(
                f"{link.node.name}: {when}: {words[0]} failed", detail=error.findings[0].detail,
                hint=HINT,
            ) from error  # fmt: skip


def settle_present(
    plan: Plan,
    links: Mapping[str, Connection],
    config: str,
    ends: Ends,
    pool: ThreadPoolExecutor,
) -> None:
    """Nodes that have the image: prove it, and move the tags that differ."""

    def one(node: NodePlan) -> None:
        if node.is_settled:  # what it said when it was asked is the proof
            proof = "config digest and diff ids"
            ends.end(Outcome(node.node.name, "present", 0, 0, 0, node.present, proof))
        else:
            settle(node, links[node.node.name], config, "", ends)

    list(pool.map(one, [node for node in plan.nodes if node.transport is None]))


def settle(
    plan: NodePlan,
    link: Connection,
    config: str,
    manifest: str,
    ends: Ends,
    *,
    sent: int = 0,
) -> None:
    """Ask the node's engine what it has; only where that is the image, the tags move."""
    name, docker = plan.node.name, plan.facts.docker
    # By its id: another push to the node may take away the name under which it arrived.
    want = plan.present or (manifest if plan.facts.store == "containerd" else config)
    try:
        ends.line(name).say("asking its engine")
        words = arrive.words(docker, want, ends.image, ends.tags, config=config,
                             token=ends.token, keeps=ends.is_ahead)  # fmt: skip
        arrived = arrive.read(name, link.script(arrive.SCRIPT, *words, timeout_s=300))
        proof = arrive.judge(name, arrived, ends.image, want=want, config=config, manifest=manifest)
    except ImgbuildError as error:
        ends.fail(name, error, sent=sent)
        return
    moved = arrived.moved or {}
    ends.end(Outcome(
        name, "present" if plan.transport is None else "pushed", 0, sent, len(plan.missing),
        want, proof, tuple(moved), {tag: old for tag, old in moved.items() if old},
        plan.transport or "", plan.via,
    ))  # fmt: skip
