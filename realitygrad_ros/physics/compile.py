"""From the source of a kernel to its launch on all worlds.

Warp keeps compiled kernels on disk, keyed on their source, which is the same for the same robot. It differentiates none
of them (`enable_backward=False`): the derivatives are traced too.
"""

import hashlib
import linecache
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
import warp as wp

wp.config.log_level = wp.LOG_ERROR  # Else it tells of each compilation, and of a missing GPU.

SCALAR_TYPES = {torch.float32: "wp.float32", torch.float64: "wp.float64"}


@cache
def kernel(source: str) -> Any:
    """The Warp kernel of a source, compiled when it is first launched; the same object for the same source."""
    name = source[len("def ") : source.index("(")]
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    file = f"<realitygrad {name} {digest}>"
    # Warp and tracebacks look up a function's lines by its file name.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    # Warp reads the source itself; Python need not compile more of it than the arguments and their types.
    stub = source[: source.index("):\n") + len("):\n")] + "    pass\n"
    scope: dict[str, Any] = {"wp": wp, "__name__": f"realitygrad_{name}_{digest}"}
    exec(compile(stub, file, "exec"), scope)
    return wp.Kernel(
        scope[name],
        key=name,
        module=wp.get_module(scope["__name__"]),
        options={"enable_backward": False},
        source=source,
    )


PIECES = 4
"""Into how many pieces a launch is cut for each thread, so that a core which others use too does not delay the end."""


class Launcher:
    """Launches kernels over worlds, shared among CPU threads: a Warp launch releases the interpreter's lock."""

    def __init__(self, threads: int | None = None) -> None:
        """Prepare `threads` threads; without a number, one a core."""
        wp.init()
        self.threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="realitygrad") if self.threads > 1 else None

    def launch(self, source: str, count: int, arguments: Sequence[Any]) -> None:
        """Run `kernel(source)` for threads 0 to count - 1; `arguments` follow the kernel's `first`."""
        compiled = kernel(source)
        # Here, so that the threads need not each compile it; with the block size that Warp launches with on a CPU, for
        # which it would compile anew otherwise.
        compiled.module.load("cpu", block_dim=1)
        share = -(-count // (self.threads * PIECES))
        if self._pool is None or count < 2:
            wp.launch(compiled, dim=count, inputs=[0, *arguments], device="cpu")
            return
        futures = [
            self._pool.submit(
                wp.launch, compiled, dim=min(share, count - first), inputs=[first, *arguments], device="cpu"
            )
            for first in range(0, count, share)
        ]
        for future in futures:
            future.result()
