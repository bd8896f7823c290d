"""Owners of jobs with lists: who may pass a job on, and who hears of it."""

from kaisched.cluster.pools.owners import FixedOwners, SharedOwners


def seats(*pools):
    owners, woken = SharedOwners(), []
    made = [owners.seat(it, wake=lambda it=it: woken.append(it)) for it in pools]
    return owners, woken, made


def test_a_job_is_claimed_once_and_passed_on_by_its_owner_alone():
    owners, woken, (a, b, c) = seats("a", "b", "c")
    assert a.owner("j") is None
    a.claim("j", "a")
    assert a.owner("j") is None, "a job that nobody knows has no owner"
    for seat in (a, b, c):
        seat.join("j")
    a.claim("j", "a")
    b.claim("j", "b")
    assert {it.owner("j") for it in (a, b, c)} == {"a"}
    c.move("j", "c")
    assert owners.owner("j") == "a"
    a.move("j", "b")
    assert owners.owner("j") == "b"
    assert woken == ["a", "b"]


def test_no_job_goes_to_a_pool_that_nobody_serves():
    owners, woken, (a,) = seats("a")
    a.join("j")
    a.claim("j", "a")
    a.move("j", "x")
    assert owners.owner("j") == "a"
    assert woken == ["a"]


def test_only_a_new_owner_that_knows_the_job_hears_of_it_and_once():
    _, _, (a, b) = seats("a", "b")
    a.join("j")
    b.join("k")
    for job in ("j", "k"):
        a.claim(job, "b")
    assert a.news() == set()
    assert b.news() == {"k"}
    assert b.news() == set()


def test_a_job_that_no_shard_knows_any_more_has_no_owner():
    owners, _, (a, b) = seats("a", "b")
    for seat in (a, b):
        seat.join("j")
    a.claim("j", "a")
    a.leave("j")
    assert owners.owner("j") == "a"
    b.leave("j")
    b.leave("j")
    assert owners.owner("j") is None
    a.join("j")
    assert owners.owner("j") is None


def test_lists_have_an_effect_from_the_second_pool_on():
    owners, _, (a,) = seats("a")
    assert not a.is_on
    owners.seat("b", admits_all=True)
    assert a.is_on
    assert dict(a.served) == {"a": False, "b": True}
    assert not FixedOwners("a", {"a": False}).is_on
    assert FixedOwners("a", {"a": False, "b": True}).is_on


def test_owners_of_one_moment_tell_each_job_once_and_change_nothing():
    fixed = FixedOwners("a", {"a": False, "b": False})
    fixed.grant("j")
    assert (fixed.owner("j"), fixed.owner("k")) == ("a", None)
    fixed.move("j", "b")
    fixed.claim("k", "a")
    assert (fixed.owner("j"), fixed.owner("k")) == ("a", None)
    assert fixed.news() == {"j"}
    assert fixed.news() == set()
