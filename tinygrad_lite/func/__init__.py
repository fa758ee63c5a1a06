"""Transforms of functions: derivatives, vmap, and modules as functions, under torch.func's names."""

from tinygrad_lite.func.gradients import grad, grad_and_value, jvp, linearize, value_and_grad, vjp
from tinygrad_lite.func.jacobians import hessian, jacfwd, jacrev
from tinygrad_lite.func.stateless import functional_call, stack_module_state
from tinygrad_lite.func.vectorize import vmap

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "value_and_grad",
    "vjp",
    "vmap",
]
