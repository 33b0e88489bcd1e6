"""Follow CMake files as CMake would, into every branch that may be taken.

Where branches meet, a variable may be what either of them made it. Of a loop neither the number
of rounds nor the variable is known. Files that are included are read, functions and macros are
followed with their arguments; of those that are never called, the arguments are not known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from builder.steps.cmake_blocks import Node, blocks
from builder.steps.cmake_calls import bound, parameters, replaced, told
from builder.steps.cmake_condition import holds
from builder.steps.cmake_content import Reading, Unclassified, content
from builder.steps.cmake_files import Tree, at, named
from builder.steps.cmake_lines import Argument, Command, Unreadable
from builder.steps.cmake_loops import loop, untaken
from builder.steps.cmake_programs import LEAVE, other
from builder.steps.cmake_scope import TREE, UNKNOWN, Scope, Truth, meet
from builder.steps.cmake_variables import assign, given_back, policies

_DEEPEST, _LONGEST = 30, 100_000  # files and calls within each other; statements
_OWN = frozenset({"set", "option", "unset", "include", "add_subdirectory", "find_package",
                  "fetchcontent_declare", "fetchcontent_populate", "execute_process", "file",
                  "return", "cmake_language"})  # fmt: skip
_DEPS_FOLDER = re.compile(r"\$\{[^}]*_(?:SOURCE|SRC|BINARY)_DIR\}")


class _TooMuch(Exception):
    """More statements than are followed."""


@dataclass(slots=True)
class Run:
    reading: Reading
    tree: Tree
    seen: set[str] = field(default_factory=set)
    functions: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)  # with their file
    called: set[str] = field(default_factory=set)
    frames: list[list[Scope]] = field(default_factory=list)  # where files and functions were left
    loops: list[list[Scope]] = field(default_factory=list)  # where each open one was left
    stack: list[str] = field(default_factory=list)
    count: int = 0

    def whole(self, path: str) -> None:
        """Read a file that nothing includes."""
        at(self.reading.scope, CMAKE_SOURCE_DIR="", PROJECT_SOURCE_DIR="",
           CMAKE_CURRENT_SOURCE_DIR="")  # fmt: skip
        self._bounded(path, lambda: self._file(path, self.reading.scope))

    def uncalled(self) -> None:
        """Read what is defined and called nowhere."""
        for name in sorted(self.functions.keys() - self.called):
            for file, node in self.functions[name]:
                call = partial(self._call, file, node, None, self.reading.scope.copy())
                self._bounded(file, call)

    def _bounded(self, path: str, what: Callable[[], object]) -> None:
        self.count, self.frames, self.loops, self.reading.silent = 0, [[]], [], False
        try:
            what()
        except (_TooMuch, RecursionError):
            self._cannot("more statements than are followed here", path, 1)

    # --- statements

    def _block(self, nodes: Sequence[Node], scope: Scope) -> Scope | None:
        """The scope after the statements; None when they do not come to their end."""
        now: Scope | None = scope
        for node in nodes:
            if now is None:
                untaken([node], scope, self.reading)
                continue
            self.count += 1
            if self.count > _LONGEST:
                raise _TooMuch
            scope = now
            self.reading.scope = now
            now = self._node(node, now)
        return now

    def _node(self, node: Node, scope: Scope) -> Scope | None:
        """A statement; one that the files define too may be theirs or CMake's own."""
        name = node.command.name
        if name not in self.functions:
            return self._own(node, scope)
        self.called.add(name)
        ends = [
            self._call(file, defined, node.command.arguments, scope.copy())
            for file, defined in self.functions[name]
        ]
        if name in _OWN:
            ends.append(self._own(node, scope.copy()))
        alive = [end for end in ends if end is not None]
        return meet(alive) if alive else None

    def _define(self, node: Node) -> None:
        known = self.functions.setdefault(node.command.words[0].lower(), [])
        place = (self.reading.file, node.command.line)
        if place not in [(file, other.command.line) for file, other in known]:
            known.append((self.reading.file, node))

    def _own(self, node: Node, scope: Scope) -> Scope | None:
        command = node.command
        name = command.name
        if name == "if":
            return self._if(node, scope)
        if name in ("foreach", "while"):
            return self._loop(node, scope)
        if name in ("function", "macro") and command.arguments:
            self._define(node)
        elif name == "block":
            return self._scoped(node, scope)
        elif name == "return":
            self.frames[-1].append(scope)
            return None
        elif name in ("break", "continue") and self.loops:
            self.loops[-1].append(scope)
            return None
        elif name in ("include", "add_subdirectory", "find_package"):
            return self._other_file(command, scope)
        elif name == "cmake_language":
            return self._language(command, scope)
        else:
            self._statement(command, scope)
        return scope

    def _statement(self, command: Command, scope: Scope) -> None:
        name = command.name
        if name in ("set", "option", "unset"):
            assign(command, self.reading)
            return
        if name in ("cmake_minimum_required", "cmake_policy"):
            policies(command, self.reading)
        if name == "fetchcontent_declare" or (
            name == "fetchcontent_populate" and len(command.words) > 1
        ):
            if command.words:
                content(command, self.reading)
        elif not self.reading.silent:
            other(command, self.reading)
        given_back(command, scope)

    # --- branches and loops

    def _if(self, node: Node, scope: Scope) -> Scope | None:
        ends: list[Scope] = []
        is_left = True
        for command, body in node.branches:
            truth: Truth = command.name == "else" or holds(command.arguments, scope)
            if not is_left or truth is False:
                untaken(body, scope, self.reading)
                continue
            if (end := self._block(body, scope.copy())) is not None:
                ends.append(end)
            if truth is True:
                is_left = False
        if is_left:
            ends.insert(0, scope)
        return meet(ends) if ends else None

    def _loop(self, node: Node, scope: Scope) -> Scope | None:
        command, ((_, body),) = node.command, node.branches
        if command.name == "while" and holds(command.arguments, scope) is False:
            untaken(body, scope, self.reading)
            return scope
        return loop(command, scope, lambda start: self._round(body, start))

    def _round(self, body: Sequence[Node], scope: Scope) -> Scope:
        self.loops.append([])
        end = self._block(body, scope.copy())
        ends = [*self.loops.pop(), *([end] if end is not None else [])]
        return meet(ends) if ends else scope

    def _scoped(self, node: Node, scope: Scope) -> Scope | None:
        """block(): what it sets may be gone after it, or be set outside of it."""
        end = self._block(node.branches[0][1], scope.copy())
        if end is None:
            return None
        outside = [n for n, values in end.above.items() if scope.above.get(n) != values]
        after = meet([scope, end])
        for name in outside:
            after.set(name, (UNKNOWN,))
        return after

    # --- calls and files

    def _call(
        self, file: str, node: Node, arguments: Sequence[Argument] | None, scope: Scope
    ) -> Scope | None:
        """Follow a function or macro of a file; without arguments none of them is known."""
        names, body = parameters(node), node.branches[0][1]
        if len(self.stack) > _DEEPEST:
            what = "functions call each other without end"
            self._cannot(what, file, node.command.line)
            return scope
        values = {} if arguments is None else bound(node, arguments, scope)
        self.stack.append(node.command.words[0])
        caller, self.reading.file = self.reading.file, file
        try:
            if node.command.name == "macro":
                return self._block(replaced(body, {n: values.get(n) for n in names}), scope)
            inner = scope.inner()
            for name in names:
                inner.set(name, (values.get(name),))
            return self._entered(body, scope, inner)
        finally:
            self.stack.pop()
            self.reading.file = caller

    def _entered(self, body: Sequence[Node], scope: Scope, inner: Scope) -> Scope:
        """After a function or a folder below, which may return early."""
        above = scope.above
        self.frames.append([])
        loops, self.loops = self.loops, []
        end = self._block(body, inner)
        self.loops = loops
        ends = [*self.frames.pop(), *([end] if end is not None else [])]
        scope.leave(meet(ends) if ends else inner)
        scope.above = above
        return scope

    def _file(self, path: str, scope: Scope, *, folder: str | None = None) -> Scope:
        """Read a file of the sources; with `folder` as a folder of its own."""
        self.seen.add(path)
        text = self.tree.text(path)
        if text is None:
            return scope
        if len(self.stack) > _DEEPEST:
            self._cannot("files include each other without end", path, 1)
            return scope
        try:
            nodes = blocks(text)
        except Unreadable as wrong:
            self._cannot(f"not CMake: {wrong}", path, wrong.line,
                         "is it CMake? if not, name the files: files = […]")  # fmt: skip
            return scope
        file, self.reading.file = self.reading.file, path
        self.stack.append(path)
        below = posixpath.dirname(path)
        try:
            if folder is not None:
                inner = scope.inner()
                at(inner, CMAKE_CURRENT_LIST_DIR=below, CMAKE_CURRENT_SOURCE_DIR=folder)
                return self._entered(nodes, scope, inner)
            before = scope.normal.get("CMAKE_CURRENT_LIST_DIR", (TREE,))
            at(scope, CMAKE_CURRENT_LIST_DIR=below)
            self.frames.append([])
            end = self._block(nodes, scope)
            ends = [*self.frames.pop(), *([end] if end is not None else [])]
            after = meet(ends) if ends else scope
            after.normal["CMAKE_CURRENT_LIST_DIR"] = before
            self.reading.scope = after
            return after
        finally:
            self.stack.pop()
            self.reading.file = file

    def _other_file(self, command: Command, scope: Scope) -> Scope:
        """`include`, `add_subdirectory`, and the module that `find_package` looks for first."""
        given_back(command, scope)
        if not command.arguments:
            return scope
        text = command.words[0]
        ends: list[Scope] = []
        for value in scope.paths(text):
            found = named(command, value, scope, self.tree)
            if found is None and (command.name == "include" or not _DEPS_FOLDER.search(text)):
                what = f"{command.name}({text}): which file that is is not known"
                if command.name != "find_package":
                    self.reading.report(command, what, LEAVE)
            for path in found or ():
                folder = posixpath.dirname(path) if command.name == "add_subdirectory" else None
                ends.append(self._file(path, scope.copy(), folder=folder))
            is_module = "/" not in text and not text.endswith(".cmake")
            if len(found or ()) != 1 or (is_module and command.name != "add_subdirectory"):
                ends.append(scope.copy())  # another module of that name, or none
        return meet(ends)

    def _language(self, command: Command, scope: Scope) -> Scope | None:
        nodes = told(command, scope)
        if nodes is None:
            what = f"cmake_language({' '.join(command.words[:3])} …): what it runs is not known"
            self.reading.report(command, what, LEAVE)
            return scope
        end = self._block(nodes, scope.copy())
        ends = [scope] if command.words[:1] == ("DEFER",) else []
        ends += [end] if end is not None else []
        return meet(ends) if ends else None

    def _cannot(self, what: str, file: str, line: int, hint: str = LEAVE) -> None:
        found = Unclassified("", what, hint, file, line)
        if found not in self.reading.unclassified:
            self.reading.unclassified.append(found)
