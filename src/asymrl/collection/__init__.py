"""Collection: what runs learn from. Episodes, streams of them, replays, and what a privileged critic is told."""
