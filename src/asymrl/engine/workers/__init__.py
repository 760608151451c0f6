"""Workers train the runs of a store: in threads, in processes of their own, or on a Ray cluster."""
