"""The differentiable simulator: traced, robot-specialised Warp kernels behind torch autograd."""
