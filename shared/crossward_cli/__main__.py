"""The `crossward` command, also as `python -m crossward_cli`.

The library installs without the command line's own packages: then one line says which extra brings them.
"""

import gc
import sys

from crossward_cli.extras import REFUSED, missing_part, print_missing


def main() -> None:
    """Run the command line."""
    gc.set_threshold(200_000)  # more than is loaded: to look through that for garbage takes a fifth of a start
    try:
        from crossward_cli.main import app
    except ModuleNotFoundError as error:
        print_missing(missing_part(error), as_json="--json" in sys.argv[1:])
        sys.exit(REFUSED)
    app()


if __name__ == "__main__":
    main()
