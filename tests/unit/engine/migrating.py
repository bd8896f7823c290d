"""Helpers of the tests of migrations."""

import yaml


def documents(made, kind):
    """The objects in one of the files that are made."""
    text = made.files().get(f"{kind}.yaml", "")
    return [it for it in yaml.safe_load_all(text) if it]


def told_of(made):
    """Paths of all that is not taken."""
    return {note.path for note in made.told.left}


def maps_in(value, at=()):
    """Paths of all maps in a value; those of labels and the like are its own."""
    if isinstance(value, dict):
        yield at
        for key, inner in value.items():
            yield from maps_in(inner, (*at, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from maps_in(inner, (*at, number))
