"""``python -m kaisched`` is ``kaisched``."""

from kaisched.cli import main

if __name__ == "__main__":
    main()
