"""Collection: what runs learn from. Episodes, streams of them, replays, and the signals of privileged critics."""
