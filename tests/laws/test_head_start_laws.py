"""Laws of head starts (R25): what goes to somebody before the weights share out the rest."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.fairshare import fair_share
from kaisched.units import UNLIMITED
from tests.laws.test_division_laws import plain_claims, trees
from tests.oracles import division_loop

chosen = st.sets(st.integers(0, 9))


def first_of(queues, wants, surplus):
    """What the chosen queues get, in turn: all they want, as long as there is some."""
    ahead = {}
    for queue in queues:
        ahead[queue] = min(wants[queue], surplus)
        surplus -= ahead[queue]
    return ahead


def start_for(chosen):
    def start(resource, queue, group, weights, has, wants, surplus):
        answer = np.zeros(len(queue), np.int64)
        for each in np.unique(group):
            rows = {int(queue[at]): at for at in np.flatnonzero(group == each)}
            wanted = {row: int(wants[at]) for row, at in rows.items()}
            left = int(surplus[next(iter(rows.values()))])
            for row, amount in first_of([q for q in wanted if q in chosen], wanted, left).items():
                answer[rows[row]] = amount
        return answer

    return start


def divided(drawn, start, transform=None):
    tree, total, claims, unit, _ = drawn
    return fair_share(tree, total, claims, unit, transform, start=start)


@given(trees(), chosen, st.sampled_from([None, 0.5, 1.0]))
def test_head_starts_agree_with_the_plain_loop_bit_for_bit(drawn, chosen, k):
    tree, total, claims, unit, usage = drawn

    def transform(resource, queue, group, active, weights):
        return np.maximum(0, weights + k * (weights - usage[resource, queue]))

    share = divided(drawn, start_for(chosen), None if k is None else transform)
    for r in range(len(total)):

        def one(normal, r=r):
            return {q: max(0.0, w + k * (w - usage[r, q])) for q, w in normal.items()}

        rows = plain_claims(claims, r)
        expected = division_loop.divide_tree(
            tree.parent_of_queue.tolist(),
            int(total[r]),
            rows,
            int(unit[r]),
            None if k is None else one,
            lambda wants, left: first_of([q for q in wants if q in chosen], wants, left),
        )
        assert share[r].tolist() == expected


@given(trees(), chosen)
def test_what_is_deserved_is_untouched_and_nobody_gets_more_than_it_asks_for(drawn, chosen):
    _, _, claims, _, _ = drawn
    share = divided(drawn, start_for(chosen))
    requestable = np.minimum(claims.request, claims.limit)
    finite = np.where(claims.deserved == UNLIMITED, 0, claims.deserved)
    assert (share >= np.minimum(finite, requestable)).all()
    assert (share <= requestable).all()


@given(trees(), chosen)
def test_the_roots_share_as_much_as_without(drawn, chosen):
    roots = drawn[0].levels[0]
    plain, ahead = divided(drawn, None), divided(drawn, start_for(chosen))
    # All of a surplus goes to queues with a weight, head start or not.
    assert ahead[:, roots].sum(axis=1).tolist() == plain[:, roots].sum(axis=1).tolist()


@given(trees())
def test_no_head_start_is_as_if_nobody_had_been_asked(drawn):
    plain = divided(drawn, None).tolist()
    assert divided(drawn, lambda *asked: None).tolist() == plain
    assert divided(drawn, start_for(set())).tolist() == plain
