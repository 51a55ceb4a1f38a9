"""A thread that does one thing at a fixed rate, by deadlines on the steady clock, and measures how well it keeps it."""

import threading
import time
from collections.abc import Callable

import numpy as np

WINDOW = 4000
"""Newest values that the figures are taken over: 20 s at 200 Hz."""


class Window:
    """The newest `WINDOW` values of a figure."""

    def __init__(self) -> None:
        self._values = np.zeros(WINDOW)
        self._count = 0

    def add(self, value: float) -> None:
        """Take a value, forgetting the oldest."""
        self._values[self._count % WINDOW] = value
        self._count += 1

    def quantile(self, q: float) -> float:
        """The q-quantile of the values, nan while there is none."""
        values = self._values[: min(self._count, WINDOW)].copy()
        return float(np.quantile(values, q)) if len(values) else float("nan")


class DeadlineThread:
    """Calls `tick` every `period` seconds.

    Deadlines are absolute, so that a late tick does not shift those after it; where a tick is late by whole periods
    these are left out and counted. What `tick` raises ends the thread, and `check` raises it again.
    """

    def __init__(self, tick: Callable[[], None], period: float, name: str) -> None:
        """Make the thread; it begins with `start`. `period` is in s and may change while it runs."""
        self.period = period
        self.measure_anew()
        self._tick = tick
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def measure_anew(self) -> None:
        """Forget the figures taken so far."""
        self.period_error = Window()
        """How far the time between two ticks was off the period, absolute [s]."""
        self.missed = 0
        """Ticks left out."""

    def check(self) -> None:
        """Raise what ended the thread, if something did."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the thread, if it was started, and wait for it."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self._failure = error

    def _loop(self) -> None:
        deadline = last = time.monotonic()
        while not self._stop.is_set():
            period = self.period
            deadline += period
            late = time.monotonic() - deadline
            if late < 0.0:
                time.sleep(-late)
            elif late > period:
                left_out = int(late / period)
                self.missed += left_out
                deadline += left_out * period
            now = time.monotonic()
            self.period_error.add(abs(now - last - period))
            last = now
            self._tick()
