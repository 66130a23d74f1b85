"""Run the command line with ``python -m mondrian_kernel``."""

from mondrian_kernel.app.main import main

if __name__ == "__main__":
    raise SystemExit(main())
