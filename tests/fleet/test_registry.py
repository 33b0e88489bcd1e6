"""`imgbuild push --via registry`: once into Debian's docker-registry, from there to the nodes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.conftest import KB, TAG, Host, Ran, layers_of
from tests.fleet.images import Layer
from tests.fleet.machine import call
from tests.fleet.registry import PROGRAM, Served, free_port, log_in, lying, registry

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="no docker-registry"),
]
BASE = (Layer(3000 * KB, 101), Layer(200 * KB, 102))
OLD, NEW = Layer(2000 * KB, 103), Layer(2000 * KB, 104)


@pytest.fixture
def plain(host: Host) -> Iterator[Served]:
    with registry(host.folder / "registry", host.fleet.network.host) as served:
        yield served


def push(host: Host, url: str, nodes: str = "all") -> Ran:
    return host.push(nodes, "--via", "registry", url)


def foreign_names(host: Host) -> set[str]:
    """Names on the nodes that are not the image's own."""
    shown = [n.docker("image", "ls", "-a", "--digests", "--format", "{{.Repository}}:{{.Tag}}")
             for n in host.nodes]  # fmt: skip
    return {name for text in shown for name in text.split()} - {TAG, f"{TAG}-previous"}


def test_once_into_the_registry_and_from_there(host: Host, plain: Served) -> None:
    config = host.has(*BASE, OLD)
    first = push(host, f"http://{plain.host}/team")
    assert first.code == 0, first.out + first.err
    ids = {n.name: n.engine.ids()[TAG] for n in host.nodes}
    assert ids["node1"] == ids["node3"] == config
    assert first.report["via"].startswith(f"{plain.host}/team/fleet@{ids['node2']}")
    assert first.report["uploaded"] > BASE[0].size + BASE[1].size + OLD.size
    assert {o["transport"] for o in first.report["nodes"]} == {"registry"}
    assert plain.puts() == ["blobs"] * 4 + ["manifests"]

    changed = host.has(*BASE, NEW, day=13)
    second = push(host, f"http://{plain.host}/team")
    assert second.code == 0, second.out + second.err
    assert NEW.size < second.report["uploaded"] < NEW.size + 40 * KB  # what is there is not sent
    assert plain.puts()[5:] == ["blobs"] * 2 + ["manifests"]
    assert {layers_of(n) for n in host.nodes} == {source_layers(host)}
    assert host.nodes[0].engine.ids()[TAG] == changed
    assert {n.name: n.engine.ids()[f"{TAG}-previous"] for n in host.nodes} == ids
    assert not foreign_names(host)
    assert not any(n.docker("container", "ls", "-aq") for n in host.nodes)
    assert [one["via"] for one in host.receipts()] == [first.report["via"], second.report["via"]]

    host.nodes[0].engine.empty()
    again = push(host, f"http://{plain.host}/team")
    assert (again.states["node1"], again.states["node2"]) == ("pushed", "present")
    assert again.report["uploaded"] == 0
    assert push(host, f"http://{plain.host}/team").report["via"] == ""  # nobody lacks it

    # Whatever the way, the engines give it the same names.
    names = [n.engine.ids()[TAG] for n in host.nodes]
    for node in host.nodes:
        node.engine.empty()
    assert host.push().code == 0
    assert [n.engine.ids()[TAG] for n in host.nodes] == names


def test_a_registry_on_loopback_is_reached_through_tunnels(host: Host) -> None:
    host.has(*BASE)
    with registry(host.folder / "registry", "127.0.0.1") as served:
        done = host.push("node1,node2", "--via", "registry", served.host, IMGBUILD_PUSH_SAVE="1")
    assert done.code == 0, done.out + done.err
    assert {layers_of(n) for n in host.nodes[:2]} == {source_layers(host)}
    assert not foreign_names(host)


def test_tls_and_a_login_on_each_side(host: Host) -> None:
    """Neither the CA nor the login is asked for or copied: docker's own are used."""
    host.has(*BASE)
    address = f"{host.fleet.network.subnet}.2"
    engines = [host.fleet.source, *(n.engine for n in host.nodes[:2])]
    with registry(host.folder / "registry", address, tls=True, login=True) as served:
        untrusted = push(host, served.host, "node1,node2")
        assert set(untrusted.codes.values()) == {"registry-down"}
        assert f"/etc/docker/certs.d/{served.host}/ca.crt" in untrusted.out
        trusted = Path("/etc/docker/certs.d") / served.host
        try:
            trusted.mkdir(parents=True)
            shutil.copy(served.certificate, trusted)
            refused = push(host, served.host, "node1,node2")
            assert set(refused.codes.values()) == {"registry-denied"}
            assert f"docker login {served.host}" in refused.out
            assert not served.puts()
            log_in(engines[0].prefix / "usr/bin/docker", engines[0].env, served.host)
            refused = push(host, served.host, "node1,node2")
            assert set(refused.codes.values()) == {"registry-denied"}
            assert "wants a login there" in refused.out
            assert not foreign_names(host)
            for engine in engines[1:]:
                log_in(engine.prefix / "usr/bin/docker", engine.env, served.host)
            done = push(host, served.host, "node1,node2")
            assert done.code == 0, done.out + done.err
            shutil.rmtree(trusted)
            host.nodes[0].engine.empty()
            unknown = host.push("node1", "--via", "registry", served.host,
                                SSL_CERT_FILE=str(served.certificate))  # fmt: skip
            assert unknown.codes == {"node1": "registry-unreached"}
            assert f"/etc/docker/certs.d/{served.host}/ca.crt" in unknown.out
        finally:
            shutil.rmtree(trusted, ignore_errors=True)
            for engine in engines:
                (engine.home / "config/config.json").unlink(missing_ok=True)
    for said in (untrusted, refused, done, unknown):
        assert "secret" not in said.out + said.err


def test_a_registry_that_is_down_or_lies(host: Host, plain: Served) -> None:
    host.has(*BASE)
    address = host.fleet.network.host
    url = f"http://{address}:{free_port(address)}"
    assert set(push(host, url, "node1,node2").codes.values()) == {"registry-down"}
    down = host.run("push", "--nodes", "node1,node2", "--via", "registry", url)
    assert (down.code, down.err.count("error[registry-down]")) == (8, 1)
    with lying(plain, address, "header") as url:
        done = push(host, f"http://{url}", "node1,node2")
        assert set(done.codes.values()) == {"registry-differs"}, done.out
    with lying(plain, address, "bytes") as url:
        done = push(host, f"http://{url}", "node1,node2")
        assert set(done.codes.values()) == {"registry-differs"}, done.out
        assert "gave it other bytes" in done.out
    assert not any(n.engine.ids() for n in host.nodes)


def test_a_node_that_does_not_get_there(host: Host) -> None:
    """It alone fails; and an engine that wants TLS is told from one without a route."""
    host.has(*BASE)
    address = f"{host.fleet.network.subnet}.2"
    node = host.nodes[1]
    route = ("ip", "-n", node.space, "route")
    with registry(host.folder / "registry", address) as served:
        call(*route, "add", "unreachable", f"{address}/32")
        try:
            done = push(host, f"http://{served.host}", "node1,node2")
        finally:
            call(*route, "del", "unreachable", f"{address}/32")
        assert done.codes == {"node1": "registry-unreached", "node2": "registry-unreached"}
        hints = [one["finding"]["hint"] for one in done.report["nodes"]]
        assert '"insecure-registries"' in hints[0]
        assert f"curl -I {served.host}/v2/" in hints[1]
    assert push(host, f"http://{served.host}", "node1").codes == {"node1": "registry-down"}


def source_layers(host: Host) -> str:
    return host.fleet.source.docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", TAG)
