"""Gates with programs: headers, ptxas, python-attr, wheel-record; run with this machine's own."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder.model.values import Verdict
from builder.steps.gates import Gate, LaneFacts, examine, parse
from builder.steps.gates.gate import Answer, CouldNotLook, Evidence
from builder.steps.gates.headers import Headers
from builder.steps.gates.ptxas import Ptxas
from builder.steps.gates.python import Python
from builder.steps.gates.python_attr import PythonAttr
from builder.steps.gates.wheel_record import WheelRecord, wheel_files
from tests.unit.gates.fake_image import FakeImage


def seen(gate: Gate) -> tuple[Verdict, ...]:
    return examine((gate,), "x", engine=FakeImage(), facts=LaneFacts())  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")
def test_headers() -> None:
    assert [v.seen for v in seen(Headers(("stdio.h", "math.h")))] == ["found and compiled"]
    assert seen(Headers(("vector",), language="c++", flags=("-std=c++17",)))[0].passed
    missing, plain = seen(Headers(("imgbuild_none.h", "stdio.h", "vector")))
    assert (missing.about, plain.about) == ("imgbuild_none.h", "vector")
    assert "imgbuild_none.h: No such file" in missing.seen
    assert "-dev package" in missing.hint


def ptxas(folder: Path, *known: str) -> str:
    path = folder / "ptxas"
    tests = " ".join(f'[ "$2" = {arch} ] && exit 0;' for arch in known)
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "release 12.8, V12.8.93"; exit 0; }\n'
        f"{tests}\necho \"ptxas fatal   : Value '$2' is not defined for option 'gpu-name'\"\n"
        "exit 1\n"
    )
    path.chmod(0o755)
    return str(path)


def test_ptxas(tmp_path: Path) -> None:
    program = ptxas(tmp_path, "sm_120a")
    (good,) = seen(Ptxas(("sm_120a",), (str(tmp_path / "ptx*"),)))
    assert (good.passed, good.seen) == (True, f"taken by {program} 12.8")
    (bad,) = seen(Ptxas(("sm_120a", "sm_121a"), (program, program)))
    assert not bad.passed
    assert bad.seen.startswith(f"{program} 12.8 refuses sm_121a: ptxas fatal : Value 'sm_121a'")
    assert "TRITON_PTXAS_PATH" in bad.hint
    (none,) = seen(Ptxas(("sm_121a",), (str(tmp_path / "none" / "*"),)))
    assert none.seen == "no ptxas in the image"


def triton(site: Path, **known: tuple[str, ...]) -> Path:
    """A Triton with these programs, by what they take."""
    folder = site / "triton/backends/nvidia/bin"
    folder.mkdir(parents=True)
    for name in sorted(known, reverse=True):
        Path(ptxas(folder, *known[name])).rename(folder / name.replace("_", "-"))
    return folder


NONE = ("/opt/none/ptxas",)
OLD, NEW = ("sm_90a", "sm_120a"), ("sm_90a", "sm_121a")


def test_the_ptxas_that_triton_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "venv/lib/python3.12/site-packages"
    folder = triton(site, ptxas=OLD)
    gate = Ptxas(("sm_121a",), NONE)
    monkeypatch.setenv("PATH", f"{tmp_path}/venv/bin:/usr/bin:/bin")
    (bundled,) = seen(gate)
    assert bundled.seen.startswith(f"{folder}/ptxas 12.8 refuses sm_121a")
    (tmp_path / "cuda").mkdir()
    other = ptxas(tmp_path / "cuda", *NEW)
    monkeypatch.setenv("TRITON_PTXAS_PATH", other)
    assert [(v.passed, v.seen) for v in seen(gate)] == [(True, f"taken by {other} 12.8")]
    monkeypatch.setenv("TRITON_PTXAS_PATH", f"{folder}/ptxas")
    assert not seen(Ptxas(("sm_121a",), (other,)))[0].passed
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/none/bin/ptxas")
    missing, bundled = seen(gate)
    assert missing.seen == "TRITON_PTXAS_PATH names /opt/none/bin/ptxas, which does not run"
    assert bundled.seen.startswith(f"{folder}/ptxas 12.8 refuses sm_121a")


def test_a_triton_with_a_second_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = triton(tmp_path, ptxas=("sm_90a",), ptxas_blackwell=("sm_121a",))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (good,) = seen(Ptxas(("sm_90a", "sm_121a"), NONE))
    assert good.seen == f"taken by {folder}/ptxas 12.8, {folder}/ptxas-blackwell 12.8"
    other = ptxas(tmp_path, "sm_120a")
    monkeypatch.setenv("TRITON_PTXAS_PATH", other)  # not for this GPU
    assert seen(Ptxas(("sm_121a",), NONE))[0].passed
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", other)
    assert seen(Ptxas(("sm_121a",), NONE))[0].seen.startswith(f"{other} 12.8 refuses sm_121a")


@pytest.mark.parametrize(
    ("module", "attr", "passed", "says"),
    [
        ("json.decoder", "JSONDecoder.decode", True, "/json/decoder.py, line "),
        ("json.decoder", "scanner", True, ", line "),
        ("json.decoder", "JSONDecode", False, "does not define JSONDecode (it has JSONDecoder"),
        ("json.decoder", "JSONDecoder.encode", False, "does not define encode (it has decode"),
        ("json.none", "x", False, "there is no module json.none"),
        ("imgbuild_none.x", "x", False, "there is no module imgbuild_none"),
        (
            "decimal",
            "Decimal",
            False,
            "could not look: the name is not in the source, and may come",
        ),
    ],
)
def test_python_attr(module: str, attr: str, passed: bool, says: str) -> None:
    (verdict,) = seen(PythonAttr(module, attr))
    assert verdict.passed is passed
    assert says in verdict.seen


def test_python_attr_with_import() -> None:
    (good,) = seen(PythonAttr("decimal", "Decimal.sqrt", import_=True))
    assert good.passed
    (bad,) = seen(PythonAttr("decimal", "Decimals", import_=True))
    assert bad.seen.startswith("AttributeError: module 'decimal' has no attribute 'Decimals'")
    assert seen(PythonAttr("x", "y", python="/opt/none"))[0].seen == (
        "could not look: the image has no /opt/none"
    )


def test_python_attr_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "canary"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('executed')\n")
    (package / "models.py").write_text(
        "import torch_that_is_not_here\nif True:\n    try:\n        from .a import Aligner as A\n"
        "    except ImportError:\n        A = None\nclass B(Base): x: int = 1\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert seen(PythonAttr("canary.models", "A"))[0].passed
    assert seen(PythonAttr("canary.models", "B.x"))[0].passed
    (inherited,) = seen(PythonAttr("canary.models", "B.forward"))
    assert "may come from a base class" in inherited.seen


NAMES = """
from typing import TYPE_CHECKING
import typing
REG = {}
key = 1
if TYPE_CHECKING:
    from .a import Hint
if typing.TYPE_CHECKING:
    class Checked: ...
else:
    class Plain: ...
if not TYPE_CHECKING:
    real = 1
if False:
    never = 1
if 0: zero = 1
while False: loop = 1
value: int
given: int = 1
gone = 1
del gone
back = 1
del back
back = 2
unclear = 1
if REG: del unclear
REG[index] = 1
REG.attribute = 1
for each, (left, *right) in (): within = 1
with open as handle: opened = 1
with open as (first, second): ...
if (walrus := 1): ...
[found := x for x in ()]
print(printed := 1)
try:
    import torch as library
except ImportError as error:
    fallback = 1
else:
    other = 1
finally:
    last = 1
def function(argument=(default := 1)):
    inside = 1
lambda: (hidden := 1)
(a, b), [c] = (1, 2), [3]
match key:
    case [matched, *rest]: ...
    case {"k": 1, **more}: ...
    case str() as text: ...
class Model:
    field: int
    size: int = 1
    if TYPE_CHECKING:
        typed = 1
"""
BOUND = (
    "REG Plain real given back each left right within handle opened first second walrus found "
    "printed library fallback other last function a b c matched rest more text Model Model.size"
)
NOT_BOUND = (
    "Hint Checked never zero loop value gone index attribute x error inside hidden argument "
    "Model.field Model.typed"
)


def test_python_attr_knows_what_is_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "names.py").write_text(NAMES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    here = {name: seen(PythonAttr("names", name))[0] for name in BOUND.split()}
    assert [name for name, verdict in here.items() if not verdict.passed] == []
    absent = {name: seen(PythonAttr("names", name))[0] for name in NOT_BOUND.split()}
    assert [n for n, v in absent.items() if v.passed or "does not define" not in v.seen] == []
    (unclear,) = seen(PythonAttr("names", "unclear"))
    assert unclear.seen.startswith("could not look: the name is not in the source, and may")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("leftover", "is a folder without __init__.py, in which nothing runs: "),
        ("leftover.sub", "is a folder without __init__.py, in which nothing runs: "),
        ("leaves", "ends the process when it is imported, with code 0"),
        ("drops", "ends the process when it is imported, with code 0"),
        ("fails", "ends the process at once"),
        ("leftover.module", ""),
        ("package", ""),
        ("sys", ""),
        ("_thread", ""),
    ],
)
def test_python_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, says: str
) -> None:
    files = {
        "leftover/sub/data.txt": "", "leftover/module.py": "", "package/__init__.py": "",
        "leaves.py": "import sys\nsys.exit(0)\n", "drops.py": "import os\nos._exit(0)\n",
        "fails.py": "raise SystemExit('ends the process at once')\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (verdict,) = seen(Python(import_=module))
    assert verdict.passed is not bool(says), verdict
    assert verdict.seen.startswith(says or "imports in ")


def answer(files: Mapping[str, str], **more: object) -> Answer:
    whole = {"files": files, "changed": [], "missing": [], "unknown": [], **more}
    packed = base64.b64encode(zlib.compress(json.dumps(whole).encode())).decode()
    said = {"version": "1.0", "copies": 1, "record": True, "whole": packed, **more}
    return Answer(0, 0.1, f"noise\nimgbuild:{json.dumps(said)}\n", "")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def wheel(path: Path, files: Mapping[str, str]) -> Path:
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
            b64 = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
            rows.append(f"{name},sha256={b64.rstrip('=')},{len(text)}")
        archive.writestr("a-1.0.dist-info/RECORD", "\n".join([*rows, "a-1.0.dist-info/RECORD,,"]))
    return path


def judged(gate: WheelRecord, told: Answer, facts: LaneFacts = LaneFacts()) -> list[str]:  # noqa: B008
    verdicts = gate.judge(Evidence(facts, {"record": told}))
    return [f"{'ok' if v.passed else 'no'}: {v.seen}" for v in verdicts]


FILES = {"a/__init__.py": digest("1")[:20], "a/x.py": digest("2")[:20]}


def test_wheel_record() -> None:
    gate = WheelRecord("a")
    assert judged(gate, answer(FILES)) == ["ok: 1.0, 2 files as in its RECORD"]
    assert judged(gate, answer(FILES, changed=["a/x.py"], missing=["a/y.py", "a/z.py"])) == [
        "no: a/x.py differs from its RECORD",
        "no: a/y.py, and 1 more is in its RECORD and not in the image",
    ]
    but = WheelRecord("a", exclude=("a/x*",))
    assert judged(but, answer(FILES, changed=["a/x.py"])) == ["ok: 1.0, 1 file as in its RECORD"]
    assert judged(gate, answer(FILES, copies=2)) == ["no: is installed 2 times"]
    with pytest.raises(CouldNotLook):
        judged(gate, answer(FILES, record=False))
    none = Answer(0, 0.1, 'imgbuild:{"near": ["ab"]}', "")
    assert judged(gate, none) == ["no: the image has no such distribution (it has ab)"]


def test_the_locked_wheel(tmp_path: Path) -> None:
    gate = WheelRecord("a", wheel="a")
    same = wheel(
        tmp_path / "a-1.0-py3.whl", {"a/__init__.py": "1", "a-1.0.data/purelib/a/x.py": "2"}
    )
    assert dict(wheel_files(same)).items() >= FILES.items()
    more = answer({**FILES, "a/extra.py": digest("3")[:20], "../../../bin/a": "1"})
    assert judged(gate, more, LaneFacts(wheels={"a": same})) == [
        "no: a/extra.py is not as in the locked wheel"
    ]
    assert judged(gate, answer(FILES), LaneFacts(wheels={"a": same})) == [
        "ok: 1.0, 2 files as in the locked wheel a"
    ]
    other = wheel(tmp_path / "other.whl", {"a/__init__.py": "1", "a/x.py": "3"})
    assert judged(gate, answer(FILES), LaneFacts(wheels={"a": other})) == [
        "no: a/x.py is not as in the locked wheel"
    ]
    with pytest.raises(CouldNotLook):
        judged(gate, answer(FILES))


def test_the_source() -> None:
    gate = WheelRecord("a", source="kern", folder="python")
    right = {"python/a/x.py": digest("2"), "python/a/__init__.py": digest("1")}
    assert judged(gate, answer(FILES), LaneFacts(sources=lambda _: right)) == [
        "ok: 1.0, 2 files as in source kern"
    ]
    upstream = {**right, "python/a/x.py": digest("upstream")}
    assert judged(gate, answer(FILES), LaneFacts(sources=lambda _: upstream)) == [
        "no: a/x.py is not as in source kern"
    ]
    assert judged(gate, answer(FILES), LaneFacts(sources=lambda _: {"a/x.py": "1"})) == [
        "no: cannot tell: 0 of its 2 files of code can be compared with source kern"
    ]
    with pytest.raises(CouldNotLook):
        judged(gate, answer(FILES), LaneFacts(sources=lambda _: None))


def test_only_what_was_compared_counts() -> None:
    gate = WheelRecord("a", source="kern")
    files = {**FILES, "a/_version.py": "1", "a/_C.so": "2", "a-1.dist-info/METADATA": "3"}
    for folder in ("", "src/", "packages/first/"):
        known = {f"{folder}a/{n}": digest(t) for n, t in (("__init__.py", "1"), ("x.py", "2"))}
        known["other/a/x.py"] = digest("another")
        assert judged(gate, answer(files), LaneFacts(sources=lambda _, known=known: known)) == [
            "ok: 1.0, 2 of 4 files as in source kern (not in it: a/_C.so, and 1 more)"
        ]
        known[f"{folder}a/x.py"] = digest("upstream")
        assert judged(gate, answer(files), LaneFacts(sources=lambda _, known=known: known)) == [
            "no: a/x.py is not as in source kern"
        ]
    few = {"a/__init__.py": digest("1")}
    assert judged(gate, answer(files), LaneFacts(sources=lambda _: few)) == [
        "no: cannot tell: 1 of its 3 files of code can be compared with source kern"
    ]


def installed(folder: Path, rows: Mapping[str, str], **texts: str) -> None:
    info = folder / "a-1.0.dist-info"
    for name, text in {**texts, "a-1.0.dist-info/METADATA": "Name: a\nVersion: 1.0\n"}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    lines = [f"{name},{said},1" for name, said in rows.items()]
    (info / "RECORD").write_text("\n".join([*lines, "a-1.0.dist-info/RECORD,,", "a/x.pyc,,"]))


def hashed(kind: str, text: str) -> str:
    raw = hashlib.new(kind, text.encode()).digest()
    return f"{kind}={base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


def test_the_record_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    gate = WheelRecord("a", exclude=("a/data/*",))
    data = {f"a/data/{i}.bin": "sha256=AAAA" for i in range(60)}
    texts = dict.fromkeys(data, "other")
    core = {"a/core.py": hashed("sha512", "1"), "a/b.py": hashed("blake2b", "2")}
    good = {"a/core.py": "1", "a/b.py": "2", "a/data/x": ""}
    installed(tmp_path, {**data, **core}, **good, **texts)  # sixty that may differ come first
    assert seen(gate)[0].seen == "1.0, 2 files as in its RECORD"
    installed(tmp_path, {**data, **core}, **{**good, "a/core.py": "changed"})
    assert [v.seen for v in seen(gate)] == ["a/core.py differs from its RECORD"]
    installed(tmp_path, {"a/core.py": "rot13=x", "a/b.py": ""}, **good)
    (unknown,) = seen(gate)
    assert unknown.seen == "cannot tell: a/b.py, and 1 more has no known hash in its RECORD"
    installed(tmp_path, data, **good)
    assert [v.seen for v in seen(gate)] == ["cannot tell: no file of it counts"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "headers", "headers": []}, "headers: must name at least one"),
        ({"kind": "headers", "headers": ["a.h"], "flags": ["-o/x"]}, "must be -I, -isystem"),
        ({"kind": "ptxas", "arch": ["12.1a"]}, "must be such as sm_121a"),
        ({"kind": "ptxas", "arch": ["sm_121a"], "programs": ["a; b"]}, "a program or its path"),
        ({"kind": "python-attr", "module": "a", "attr": "b()"}, "attr: must be"),
        ({"kind": "wheel-record", "distribution": "a", "folder": "x"}, "folder: needs a source"),
        ({"kind": "wheel-record", "distribution": "a", "source": "kren"}, "no source 'kren'"),
    ],
)  # fmt: skip
def test_tables_that_make_no_sense(table: dict[str, object], says: str) -> None:
    _, findings = parse([table], file=Path("x.toml"), sources=("kern",))
    assert says in findings[0].what
