"""CEL: the Common Expression Language, as far as Kubernetes selects devices with it.

For the allocator, through `Evaluator`.
"""

from .errors import CelCompileError, CelCostError, CelError
from .evaluator import CelEvaluator, Evaluator

__all__ = ["CelCompileError", "CelCostError", "CelError", "CelEvaluator", "Evaluator"]
