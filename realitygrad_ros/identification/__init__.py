"""From a recording to the simulator's parameters."""
