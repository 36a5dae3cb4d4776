"""A real Kubernetes control plane on this machine: how its programs are built, started, stopped and spoken to."""
