"""python3 -m minipkg [describe | version]"""

import sys

from minipkg import describe, runtime_version


def main() -> int:
    match sys.argv[1:]:
        case [] | ["describe"]:
            print(describe())
        case ["version"]:
            print(runtime_version())
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
