"""ai-scheduler beside kube-scheduler and a bare client, on real API servers, in one run: `python -m benchmarks.peers`."""
