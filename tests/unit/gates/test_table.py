"""Tables of gates: strict, with places and near matches."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from builder.errors import Place
from builder.steps.gates import GATES, Gate, parse
from builder.steps.gates.command import Command
from builder.steps.gates.cuda_arch import CudaArch
from builder.steps.gates.file import File
from builder.steps.gates.link import Link
from builder.steps.gates.marker import Marker
from builder.steps.gates.package import Package
from builder.steps.gates.pkg_config import PkgConfig
from builder.steps.gates.python import Python

LANE = Path("locks/demo.toml")


def read(text: str, **more: object) -> tuple[tuple[Gate, ...], list[tuple[str, str, str]]]:
    tables = tomllib.loads(text)["gates"]
    gates, findings = parse(tables, file=LANE, **more)  # type: ignore[arg-type]
    assert all(f.code == "gates" and f.place and f.place.file == LANE for f in findings)
    return gates, [(str(f.place and f.place.key), f.what, f.hint) for f in findings]


def test_every_kind_reads() -> None:
    gates, findings = read("""
        [[gates]]
        kind = "marker"
        source = "b12x"
        file = "b12x/comm/pcie/_oneshot_cute.py"
        contains = "_PREPARED_ONESHOT_LAUNCHERS"
        [[gates]]
        kind = "package"
        name = "liburing-dev"
        version = "2.5*"
        [[gates]]
        kind = "file"
        path = "/opt/demo/libkern.so"
        mode = "755"
        [[gates]]
        kind = "python"
        distribution = "torch"
        version = "==2.9.0+cu130"
        import = "torch.version"
        [[gates]]
        kind = "link"
        libraries = ["cudart"]
        [[gates]]
        kind = "pkg-config"
        module = "liburing"
        compile = "liburing.h"
        define = ["B12X_HAVE_LIBURING=1"]
        [[gates]]
        kind = "cuda-arch"
        files = "**/*.so"
        require = ["sm_121a"]
        min-files = 2
        [[gates]]
        kind = "command"
        run = ["vllm", "--version"]
        timeout-s = 60
        """)
    assert findings == []
    assert gates == (
        Marker(
            "_PREPARED_ONESHOT_LAUNCHERS", source="b12x", file="b12x/comm/pcie/_oneshot_cute.py"
        ),
        Package("liburing-dev", "2.5*"),
        File("/opt/demo/libkern.so", mode="755"),
        Python("torch", "torch.version", "==2.9.0+cu130"),
        Link(("cudart",)),
        PkgConfig("liburing", compile="liburing.h", define=("B12X_HAVE_LIBURING=1",)),
        CudaArch("**/*.so", ("sm_121a",), min_files=2),
        Command(("vllm", "--version"), 60),
    )
    assert {type(gate) for gate in gates} <= set(GATES.values())
    assert all(name == kind.kind for name, kind in GATES.items())
    assert len(set(gates)) == len(gates)


@pytest.mark.parametrize(
    ("table", "key", "what", "hint"),
    [
        ('kind = "pakage"', "kind", "unknown kind of gate 'pakage'", "did you mean 'package'?"),
        ('kind = "x"', "kind", "unknown kind of gate 'x'", f"known kinds: {', '.join(GATES)}"),
        ("kind = 3", "kind", "unknown kind of gate 3", f"known kinds: {', '.join(GATES)}"),
        ('name = "x"', "kind", "is missing", f"known kinds: {', '.join(GATES)}"),
        ('kind = "package"\nnam = "x11"\nname = "xx"', "nam", "unknown key",
         "did you mean 'name'?"),
        ('kind = "package"\nname = "x x"', "name", "must be the name of a Debian package", ""),
        ('kind = "package"\nname = "xx"\nversion = ">=2"', "version", "must be a version", ""),
        ('kind = "link"\nlibraries = []', "libraries", "must name at least one library", ""),
        ('kind = "link"\nlibraries = ["libcuda"]', "libraries", "must be the name behind -l", ""),
        ('kind = "link"\nlibraries = ["-Wl,x"]', "libraries", "must be the name behind -l", ""),
        ('kind = "file"\npath = "/opt/*.so"', "path", "no pattern", ""),
        ('kind = "file"\npath = "/opt/../x"', "path", "a path from the image's root", ""),
        ('kind = "file"\npath = "/x"\nmode = "rwx"', "mode", "permissions in octal digits", ""),
        ('kind = "file"\npath = "/x"\nabsent = true\nmode = "644"', "absent", "nothing", ""),
        ('kind = "python"', "distribution", "is missing", "name a distribution, an"),
        ('kind = "python"\nimport = "x"\nversion = "==1"', "version", "needs a distribution", ""),
        ('kind = "python"\ndistribution = "x"\nversion = "=1"', "version", "is no specifier", ""),
        ('kind = "python"\nimport = "os; x"', "import", "must be a module", ""),
        ('kind = "pkg-config"\nmodule = "x"\ndefine = ["A"]', "define", "of no use", ""),
        ('kind = "pkg-config"\nmodule = "a b"', "module", "must be a module", ""),
        ('kind = "cuda-arch"\nfiles = "*.so"\nrequire = ["12.1a"]', "require", "sm_121a", ""),
        ('kind = "cuda-arch"\nfiles = "*.so"\nrequire = []', "require", "at least one", ""),
        ('kind = "cuda-arch"\nfiles = "*.so"\nrequire = ["sm_121a"]\nmin-files = 0', "min-files",
         "proves nothing", ""),
        ('kind = "cuda-arch"\nfiles = "x**"\nrequire = ["sm_121a"]', "files", "** stands", ""),
        ('kind = "command"\nrun = []', "run", "must name a command", ""),
        ('kind = "command"\nrun = "x"\nstdout-matches = "("', "stdout-matches", "no regular", ""),
        ('kind = "command"\nrun = "x"\ntimeout-s = 0', "timeout-s", "must be 1 or more", ""),
        ('kind = "marker"\ncontains = "x"', "file", "is missing", "file (with source)"),
        ('kind = "marker"\ncontains = ""\nimage-file = "x"', "contains", "must name a text", ""),
        ('kind = "marker"\ncontains = "x"\nfile = "x"', "source", "is missing", "image-file"),
        ('kind = "marker"\ncontains = "x"\nsource = "b12"\nfile = "x"', "source",
         "the lane has no source 'b12'", "did you mean 'b12x'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_place(table: str, key: str, what: str, hint: str) -> None:
    good = '[[gates]]\nkind = "package"\nname = "bash"\n'
    gates, findings = read(f"{good}[[gates]]\n{table}\n{good}", sources=("b12x", "vllm"))
    assert findings, "nothing was found"
    at, said, how = findings[0]
    assert at.startswith(f"('gates', 1, '{key}'")
    assert said.startswith("gates[1].")
    assert what in said
    assert hint in how
    assert [type(g) for g in gates if isinstance(g, Package)][:1] == [Package]


def test_all_findings_at_once() -> None:
    gates, findings = read("""
        [[gates]]
        kind = "linc"
        [[gates]]
        kind = "file"
        [[gates]]
        kind = "command"
        run = "x"
        stdout-matches = "("
        timeout-s = -1
        """)
    assert gates == ()
    assert [at for at, _, _ in findings] == [
        "('gates', 0, 'kind')", "('gates', 1, 'path')", "('gates', 2, 'timeout-s')",
        "('gates', 2, 'stdout-matches')",
    ]  # fmt: skip


def test_what_is_no_table() -> None:
    _, findings = parse(["x"], file=LANE, at=("more",))
    assert [(f.what, f.place) for f in findings] == [
        ("more[0]: must be a table", Place(LANE, key=("more", 0)))
    ]
