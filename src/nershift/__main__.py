"""``python -m nershift``: the command line where its script is not on the path."""

from nershift.cli import main

if __name__ == "__main__":
    main()
