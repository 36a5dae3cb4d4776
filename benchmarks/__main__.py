"""`python -m benchmarks`: what needs nothing but Python; the others say what they need."""

from benchmarks import claims, fabric, gpu_sets, policies, preemption
from benchmarks.engine import main
from benchmarks.openb.__main__ import main as openb

if __name__ == "__main__":
    main()
    preemption.main([])
    fabric.main([])
    print()
    gpu_sets.main([])
    claims.main([])
    policies.main([])
    openb(["--seeds", "42"])
    print("\nThe shapes of kube-scheduler's suite: python -m benchmarks.scenarios_of_peers")
    print("On a real API server: python -m benchmarks.peers, python -m benchmarks.kopf_cost")
    print("The edges of the process, without a real API server: python -m benchmarks.edges")
    print("All seeds and other workloads of openb: python -m benchmarks.openb --help")
