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

def bound(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], node
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for target in getattr(node, "targets", None) or [node.target]:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        yield name.id, node
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from bound(getattr(node, part, ()))
            for handler in getattr(node, "handlers", ()):
                yield from bound(handler.body)

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
        names = {}
        for name, node in bound(body):
            names.setdefault(name, node)
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
    rows, files, changed, missing = [], {}, [], []
    for row in csv.reader((text or "").splitlines()):
        path = str(found[0].locate_file(row[0]))
        if row[1:2] != [""] and not os.path.isfile(path):
            missing.append(row[0])
        elif row[1:2] != [""] and row[1].startswith("sha256="):
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
            pad = row[1][7:] + "=" * (-len(row[1][7:]) % 4)
            if base64.urlsafe_b64decode(pad) != digest.digest():
                changed.append(row[0])
            files[row[0]] = digest.hexdigest()[:20]
    said["record"] = text is not None
    said["changed"], said["missing"] = changed[:50], missing[:50]
    said["files"] = base64.b64encode(zlib.compress(json.dumps(files).encode(), 9)).decode()
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
