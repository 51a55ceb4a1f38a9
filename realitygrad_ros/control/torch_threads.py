"""How many threads torch may use."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Have torch compute on one thread; usable as a decorator.

    The tensors of trajectory optimisation and cloning are small. More threads of torch hardly speed them up, but wait
    for one another in busy loops, which takes the cores from the simulator's own threads and from a robot's nodes.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
