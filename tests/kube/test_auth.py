"""Connections from kubeconfigs and from a pod's service account, and their renewal."""

from __future__ import annotations

import base64
import json
import stat
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes.config import ConfigException, incluster_config

from scheduler.kube.auth import Login, LoginError, load_connection, own_namespace

if TYPE_CHECKING:
    from pathlib import Path


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    """Write a kubeconfig with one cluster and one user, and return its path."""
    path = folder / "kubeconfig"
    text = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.test:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(text))
    return str(path)


async def test_a_token_in_a_kubeconfig(tmp_path: Path) -> None:
    """Server and header come out as they are needed."""
    path = kubeconfig(tmp_path, {"token": "secret"}, **{"insecure-skip-tls-verify": True, "tls-server-name": "api"})
    login = Login(lambda: load_connection(path))
    assert login.connection.server == "https://api.example.test:6443"
    assert login.connection.is_insecure
    assert login.connection.tls_server_name == "api"
    assert await login.header() == "Bearer secret"


async def test_an_exec_plugin_is_run_and_run_again(tmp_path: Path) -> None:
    """A refused token makes the plugin run anew."""
    program = tmp_path / "plugin"
    status = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "TOKEN"}}
    count = tmp_path / "count"
    program.write_text(
        f"#!/bin/sh\necho x >> {count}\nn=$(wc -l < {count} | tr -d ' ')\n"
        f"echo '{json.dumps(status)}' | sed \"s/TOKEN/t$n/\"\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "args": [], "interactiveMode": "Never",
    }  # fmt: skip
    path = kubeconfig(tmp_path, {"exec": plugin})
    login = Login(lambda: load_connection(path))
    assert await login.header() == "Bearer t1"
    assert await login.renew("Bearer t1")
    assert await login.header() == "Bearer t2"
    assert await login.renew("Bearer t1")
    assert await login.header() == "Bearer t2"


async def test_basic_authentication(tmp_path: Path) -> None:
    """User and password become a header too."""
    path = kubeconfig(tmp_path, {"username": "u", "password": "p"})
    expected = base64.b64encode(b"u:p").decode()
    assert await Login(lambda: load_connection(path)).header() == f"Basic {expected}"


async def test_in_a_cluster_the_token_file_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet replaces it; a refusal reads the new one."""
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("one")
    authority.write_text("certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr("scheduler.kube.auth.Connection.ssl_context", lambda _: None)
    login = Login(load_connection)
    assert login.connection.server == "https://10.0.0.1:443"
    assert login.connection.ca_path == str(authority)
    assert await login.header() == "bearer one"
    token.write_text("two")
    assert await login.renew("bearer one")
    assert await login.header() == "bearer two"
    token.unlink()
    with pytest.raises(LoginError):
        await login.renew("bearer two")


def test_no_kubeconfig_is_an_error_at_start(tmp_path: Path) -> None:
    """The command line shows it."""
    with pytest.raises(ConfigException):
        load_connection(str(tmp_path / "missing"))


def test_a_kubeconfig_with_an_unreadable_certificate_is_named(tmp_path: Path) -> None:
    """What it refers to belongs to it."""
    path = kubeconfig(tmp_path, {"token": "t"}, **{"certificate-authority-data": base64.b64encode(b"no").decode()})
    with pytest.raises(ConfigException, match=r"\Athe kubeconfig .* cannot be used: "):
        load_connection(path)


def test_the_own_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says it, or the default holds."""
    monkeypatch.setenv("POD_NAMESPACE", "somewhere")
    assert own_namespace() == "somewhere"
    monkeypatch.delenv("POD_NAMESPACE")
    assert own_namespace("fallback") == "fallback"


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00\x01", b"just text", b"[]", b"{}", b"clusters: 7", b""])
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: bytes) -> None:
    """Whatever is wrong with it, the command line shows one line."""
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(ConfigException, match=r"\Athe kubeconfig .*broken cannot be used: .*\Z"):
        load_connection(str(path))
