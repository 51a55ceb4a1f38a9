"""Speed and timing, measured as ratios against peers in one run: what `realitygrad bench` calls."""
