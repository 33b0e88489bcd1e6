"""Programs for the image's own Python, which print one line of JSON for a gate.

They run in an empty folder, so that no source tree in the image's working directory stands in
for what is installed; nothing of the image is imported.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from builder.steps.gates.gate import Answer, CouldNotLook, last_line

SAYS = "imgbuild:"

ATTRIBUTE = r"""
import ast, json, sys
from importlib.machinery import PathFinder, SOURCE_SUFFIXES
MAYBE = object()

def locate(module):
    path, spec = None, None
    parts = module.split(".")
    for i in range(len(parts)):
        name = ".".join(parts[: i + 1])
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None, name
        path = spec.submodule_search_locations
    return spec, module

# What a condition comes to on each machine; None where it depends.
def always(test):
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = always(test.operand)
        return None if inner is None else not inner
    if getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING":
        return False
    return bool(test.value) if isinstance(test, ast.Constant) else None

# Each name that these nodes bind, and where; None: it is deleted, MAYBE: under a condition.
def bound(nodes, sure=True):
    for node in nodes:
        kind = type(node).__name__
        if kind in ("FunctionDef", "AsyncFunctionDef", "ClassDef"):
            yield node.name, node
        elif kind in ("Import", "ImportFrom"):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], node
        elif kind in ("If", "While"):
            yield from bound([node.test], sure)
            known = always(node.test)
            if known is not False:
                yield from bound(node.body, sure and known is True)
            if known is not True or kind == "While":
                yield from bound(node.orelse, sure and known is False)
        elif kind == "Name" and isinstance(node.ctx, ast.Store):
            yield node.id, node
        elif kind == "Name" and isinstance(node.ctx, ast.Del):
            yield node.id, None if sure else MAYBE
        elif kind.startswith("Match") and isinstance(getattr(node, "name", None) or getattr(
                node, "rest", None), str):
            yield getattr(node, "name", None) or node.rest, node
            yield from bound(ast.iter_child_nodes(node), False)
        elif kind in ("ListComp", "SetComp", "DictComp", "GeneratorExp"):
            for inner in ast.walk(node):
                if type(inner).__name__ == "NamedExpr":
                    yield inner.target.id, inner.target
        elif kind == "AnnAssign" and node.value is None or kind == "Lambda":
            pass
        else:
            steady = sure and kind not in ("Try", "TryStar", "For", "AsyncFor", "Match")
            yield from bound(ast.iter_child_nodes(node), steady)

def look(module, attr):
    spec, missing = locate(module)
    if spec is None:
        return {"missing": missing}
    if not spec.origin or not spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
        return {"opaque": spec.origin or "a namespace package"}
    with open(spec.origin, "rb") as file:
        body = ast.parse(file.read()).body
    where, parts = None, attr.split(".")
    for i, part in enumerate(parts):
        names, maybe = {}, set()
        for name, node in bound(body):
            if node is None:
                names.pop(name, None)
            elif node is MAYBE:
                maybe.add(name)
            else:
                names.setdefault(name, node)
                maybe.discard(name)
        if part in names and part in maybe:
            return {"dynamic": ["a del under a condition"], "file": spec.origin}
        if part not in names:
            stars = [n.module or "." for n in ast.walk(ast.Module(body, [])) if
                     isinstance(n, ast.ImportFrom) and n.names[0].name == "*"]
            if i == 0 and ("__getattr__" in names or stars):
                return {"dynamic": stars or ["__getattr__"], "file": spec.origin}
            bases = [b for b in getattr(where, "bases", ()) if getattr(b, "id", "") != "object"]
            if i and bases:
                return {"dynamic": ["a base class"], "file": spec.origin}
            return {"lacks": part, "names": sorted(names), "file": spec.origin}
        where = names[part]
        if i + 1 < len(parts) and not isinstance(where, ast.ClassDef):
            return {"dynamic": ["not a class"], "file": spec.origin}
        body = getattr(where, "body", [])
    return {"line": where.lineno, "file": spec.origin}

try:
    found = look(*sys.argv[1:3])
except SyntaxError as error:
    found = {"syntax": str(error)}
print("\nimgbuild:" + json.dumps(found))
"""

RECORD = r"""
import base64, csv, hashlib, importlib.metadata as m, json, os, re, sys, zlib
def same(name):
    return re.sub(r"[-_.]+", "-", name).lower()
wanted = same(sys.argv[1])
every = {str(d.locate_file("")) + str(d.version): d for d in m.distributions()
         if same(d.metadata["Name"] or "") == wanted}
found = list(every.values())
if not found:
    names = sorted({d.metadata["Name"] or "" for d in m.distributions()})
    import difflib
    said = {"near": difflib.get_close_matches(sys.argv[1], names, 3, 0.6)}
else:
    said = {"version": found[0].version, "copies": len(found)}
    text = found[0].read_text("RECORD")
    files, changed, missing, unknown = {}, [], [], []
    for row in filter(None, csv.reader((text or "").splitlines())):
        path, (kind, _, value) = str(found[0].locate_file(row[0])), row[1].partition("=")
        if not os.path.isfile(path):
            missing.append(row[0])
            continue
        digests = [hashlib.sha256()]
        if kind in hashlib.algorithms_available and not kind.startswith("shake"):
            digests.append(hashlib.new(kind))
        else:
            unknown.append(row[0])
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                for digest in digests:
                    digest.update(chunk)
        if digests[1:] and base64.urlsafe_b64decode(value + "==") != digests[1].digest():
            changed.append(row[0])
        files[row[0]] = digests[0].hexdigest()[:20]
    said["record"] = text is not None
    whole = {"files": files, "changed": changed, "missing": missing, "unknown": unknown}
    said["whole"] = base64.b64encode(zlib.compress(json.dumps(whole).encode(), 9)).decode()
print("\nimgbuild:" + json.dumps(said))
"""


def script(python: str, program: str, *argv: str) -> str:
    """The sh text that runs one of these."""
    command = shlex.join((python, "-c", program, *argv))
    return f'command -v {shlex.quote(python)} >/dev/null || exit 127; cd "$1"; {command}'


def told(answer: Answer, python: str) -> dict[str, Any]:
    """What it printed. Raises: CouldNotLook."""
    if answer.code == 127:
        hint = "name the interpreter by `python`, such as /opt/venv/bin/python"
        raise CouldNotLook(f"the image has no {python}", hint=hint)
    lines = [line for line in answer.stdout.splitlines() if line.startswith(SAYS)]
    if answer.code or not lines:
        why = f"{python} ended with code {answer.code}: {last_line(answer.stderr)}"
        raise CouldNotLook(why, detail=answer.stderr)
    try:
        found: dict[str, Any] = json.loads(lines[-1].removeprefix(SAYS))
    except (ValueError, RecursionError) as error:
        raise CouldNotLook(f"{python} printed what is no JSON: {error}") from error
    return found
