"""`python -m asymrl` is the command `asymrl`."""

from asymrl.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
