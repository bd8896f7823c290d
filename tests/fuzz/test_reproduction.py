"""What is printed of a broken law can be pasted above it."""

import hypothesis.strategies as st
from hypothesis import Phase, example, given, is_hypothesis_test, settings

from tests.fuzz.reproduction import called, reproduction, values
from tests.laws.crowded import crowded, make_crowded

# These draw as they go, or build worlds without a text. Of theirs `@reproduce_failure` is printed,
# which lasts as long as the law and the version of hypothesis stay as they are: write no more such.
DRAWS_AS_IT_GOES = {
    "test_a_larger_own_weight_costs_at_most_the_rounding",
    "test_a_spoilt_object_is_refused_or_taken_and_never_a_bug",
    "test_any_plain_value_is_an_object_or_errors",
    "test_any_spoilt_kind_is_refused_or_taken_and_never_a_bug",
    "test_more_usage_is_never_more_share",
    "test_shares_are_those_of_the_library_and_sizes_agree_with_dominance",
    "test_shares_fit_and_nobody_could_get_more_of_those_who_got_more_for_their_weight",
    "test_to_take_fewer_is_never_refused_where_more_may_be_taken",
    "test_units_are_judged_by_the_rules_as_written",
    "test_what_is_remembered_never_shows",
    "test_whoever_the_filter_spares_could_not_be_taken_from_for_what_is_asked",
}


class MetError(Exception):
    """An example was looked at; holds the arguments."""


def notes_of(law, fixtures=()):
    """Return what hypothesis notes of the first example of a law, and the example."""

    def meet(**arguments):
        raise MetError(arguments)

    inner, fixed = law.hypothesis.inner_test, law._hypothesis_internal_use_settings
    law.hypothesis.inner_test = meet
    law._hypothesis_internal_use_settings = settings(
        fixed, max_examples=1, phases=[Phase.generate], print_blob=True
    )
    try:
        law(**dict.fromkeys(fixtures))
    except MetError as met:
        return met.__notes__, met.args[0]
    finally:
        law.hypothesis.inner_test, law._hypothesis_internal_use_settings = inner, fixed
    raise AssertionError("no example was looked at")


def test_a_cluster_is_pasted_as_the_call_that_makes_it():
    @given(crowded, st.integers(0, 9))
    def law(cluster, seed): ...

    notes, drawn = notes_of(law)
    printed = reproduction(notes, {}, ()).splitlines()
    assert printed[0] == "from tests.laws.crowded import make_crowded"
    assert printed[1].startswith("@example(cluster=make_crowded(")
    call = called(notes)
    assert values(call, {"make_crowded": make_crowded}) == list(drawn.values())


def test_fixtures_are_left_out():
    @given(number=st.just(3))
    def law(watched, number): ...

    assert reproduction(notes_of(law, ["watched"])[0], {}, ["watched"]) == "@example(number=3)"


def test_what_has_no_text_is_named_by_what_was_chosen():
    @given(st.data())
    def law(thing): ...

    printed = reproduction(notes_of(law)[0], {}, ()).splitlines()
    assert printed[0] == "from hypothesis import reproduce_failure"
    assert printed[1].startswith("@reproduce_failure(")


def test_floats_and_texts_read_back():
    @example(number=float("inf"), text="a\n'\"")
    @given(number=st.just(float("inf")), text=st.just("a\n'\""))
    def law(number, text): ...

    printed = reproduction(notes_of(law)[0], {}, ())
    assert printed.splitlines()[0] == "from math import inf"


def laws(session):
    """Return the laws among the tests of this run, each once, with its fixtures."""
    return {
        item.obj: item
        for item in session.items
        if is_hypothesis_test(item.obj) and hasattr(item.obj, "hypothesis")
    }


def test_the_examples_of_all_laws_can_be_pasted(request):
    """Looks at the laws that are part of this run: with ``make test`` at all of them."""
    without_text = {
        law.__name__
        for law, item in laws(request.session).items()
        if not is_pasted(item, notes_of(law, item._fixtureinfo.argnames)[0])
    }
    assert without_text - DRAWS_AS_IT_GOES == set()


def is_pasted(item, notes):
    return "@example(" in reproduction(notes, vars(item.module), item.fixturenames)
