"""Writes kubeconfig files that stand alone: certificate and token are inside, so they outlive the folder of the server."""

import base64
from pathlib import Path

TEMPLATE = """\
apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {certificate_authority_data}
users:
- name: {name}
  user:
    token: {token}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
    namespace: {namespace}
"""

OWNER_ONLY = 0o600


def write_kubeconfig(
    path: Path, *, server: str, certificate_authority: str, token: str, namespace: str = "default", name: str = "e2e"
) -> Path:
    """Writes a kubeconfig for a bearer token, readable by its owner only, and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(OWNER_ONLY)
    path.write_text(
        TEMPLATE.format(
            name=name,
            server=server,
            certificate_authority_data=base64.b64encode(certificate_authority.encode()).decode(),
            token=token,
            namespace=namespace,
        )
    )
    return path
