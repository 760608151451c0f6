"""Reports: figures and summaries of what runs have written."""
