"""The commands of `asymrl`, one a file. Each imports what it needs when it runs, so that help is immediate."""
