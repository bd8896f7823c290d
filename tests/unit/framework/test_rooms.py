"""Room by shape: counted once, kept between cycles, never out of date."""

from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.placement import Rooms
from tests.unit.framework.fakes import job, policy, session, store


def two_shapes(memory=None):
    snapshot = store(job("small", gpu=1), job("large", gpu=3), nodes=(4, 2)).snapshot()
    return snapshot, session(snapshot, memory=memory)


def test_room_is_what_the_scarcest_resource_allows():
    _, opened = two_shapes()
    assert opened.room(0).tolist() == [4, 2]
    assert opened.room(1).tolist() == [1, 0]


def test_moves_are_taken_in():
    _, opened = two_shapes()
    opened.room(0)
    opened.statement().allocate(1, 0)
    assert opened.room(0).tolist() == [1, 2]
    assert opened.room(1).tolist() == [0, 0]


def test_what_a_cycle_tried_is_forgotten_by_the_next():
    """Also what a shape saw that was first asked about after the move."""
    memory = Memory()
    snapshot, opened = two_shapes(memory)
    opened.room(0)
    opened.statement().allocate(1, 0)
    assert opened.room(1).tolist() == [0, 0]
    again = session(snapshot, memory=memory)
    assert again.room(1).tolist() == [1, 0]
    again.statement().allocate(0, 1)
    assert again.room(1).tolist() == [1, 0]
    assert again.room(0).tolist() == [4, 1]


def test_a_shape_first_seen_after_a_move_hears_of_the_first_move_of_the_next_cycle():
    memory = Memory()
    snapshot, opened = two_shapes(memory)
    opened.statement().allocate(1, 0)
    opened.room(0)
    again = session(snapshot, memory=memory)
    assert again.room(0).tolist() == [4, 2]
    again.statement().allocate(1, 0)
    assert again.room(0).tolist() == [1, 2]


def test_a_session_read_late_does_not_see_a_later_ones_room():
    memory = Memory()
    snapshot, early = two_shapes(memory)
    early.statement().allocate(1, 0)
    assert early.room(0).tolist() == [1, 2]
    late = session(snapshot, memory=memory)
    assert late.room(0).tolist() == [4, 2]
    assert early.room(0).tolist() == [1, 2]
    late.statement().allocate(0, 1)
    assert late.room(0).tolist() == [4, 1]


def test_records_read_cycles_later_tell_of_their_own_cycle():
    made = store(job("a", pods=2, minimum=2, gpu=4), nodes=(4, 2))
    rules, memory = policy(), Memory()
    first, memory = run_cycle(made.snapshot(), None, rules, 0.0, memory)
    made.place(first.bind_tasks, first.bind_nodes)
    said = [
        record.message
        for record in run_cycle(made.snapshot(), None, rules, 0.0, Memory())[0].records
    ]
    second, memory = run_cycle(made.snapshot(), None, rules, 0.0, memory)
    made.set_state(0, 8)
    run_cycle(made.snapshot(), None, rules, 0.0, memory)
    assert [record.message for record in second.records] == said


def test_a_table_serves_only_the_nodes_it_was_made_for():
    made = store(job("a"))
    before = made.snapshot()
    rooms = Rooms(before)
    assert rooms.serves(before)
    made.remove_node("n1")
    assert not rooms.serves(made.snapshot())
