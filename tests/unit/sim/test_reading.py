import gzip
from pathlib import Path

import pytest

from kaisched.errors import ConfigError
from kaisched.sim.traces import bundled_names, find_trace, place_of, read_trace

GOOD = "0,60,1,a\n"


def error_of(folder):
    with pytest.raises(ConfigError) as caught:
        read_trace(folder)
    return str(caught.value).replace(str(folder) + "/", "")


def test_the_bundled_trace_is_whole():
    trace = read_trace(find_trace("philly-2017"))
    assert len(trace) == 82_247
    assert trace.gpus.min() == 1
    assert trace.gpus.max() == 128
    assert float(trace.gpus @ trace.duration_s) / 3600 == pytest.approx(978_078.5, abs=1)
    assert len(trace.queue_names) == 15
    assert sum(number or 0 for number in trace.published_nodes) == 352


def test_bundled_traces_carry_their_licences():
    for name in bundled_names():
        folder = place_of(name, Path())
        assert (folder / "README.md").is_file()
        assert list(folder.glob("LICENSE*"))


def test_a_bundled_trace_without_vcs_is_none_for_the_command_that_needs_them():
    with pytest.raises(ConfigError, match=r"of a bundled trace: philly-2017$"):
        find_trace("openb-2023")


def test_rows_are_sorted_by_submission_and_ties_keep_their_order(write_trace):
    trace = read_trace(write_trace("90,1,3,a\n0,60,1,a\n90,1,4,b\n0.5,1.5,2,b\n"))
    assert trace.submit_s.tolist() == [0, 0.5, 90, 90]
    assert trace.gpus.tolist() == [1, 2, 3, 4]
    assert [trace.queue_names[row] for row in trace.queue] == ["a", "b", "a", "b"]


def test_columns_may_stand_in_any_order_and_more_are_not_looked_at(write_trace):
    folder = write_trace("a,x,1,60,0\n", header="vc,user,num_gpus,duration_s,submit_s")
    assert read_trace(folder).duration_s.tolist() == [60]


def test_a_compressed_file_comes_first(write_trace):
    folder = write_trace(GOOD)
    with gzip.open(folder / "jobs.csv.gz", "wt") as file:
        file.write("submit_s,duration_s,num_gpus,vc\n0,60,2,a\n")
    assert read_trace(folder).gpus.tolist() == [2]


def test_a_part_takes_what_was_submitted_in_it(write_trace):
    trace = read_trace(write_trace("0,9,1,a\n10,9,2,a\n20,9,3,a\n30,9,4,a\n"))
    assert trace.part(10, 30).gpus.tolist() == [2, 3]
    assert trace.part(11, 12).gpus.tolist() == []
    assert trace.part(30, 10).gpus.tolist() == []


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("x,60,1,a", "submit_s: is not a number (value 'x')"),
        (",60,1,a", "submit_s: is not a number (value '')"),
        ("-1,60,1,a", "submit_s: is out of range (value '-1')"),
        ("nan,60,1,a", "submit_s: is out of range (value 'nan')"),
        ("0,inf,1,a", "duration_s: is out of range (value 'inf')"),
        ("0,-0.5,1,a", "duration_s: is out of range (value '-0.5')"),
        ("0,1e300,1,a", "duration_s: is out of range (value '1e300')"),
        ("0,1e999,1,a", "duration_s: is out of range (value '1e999')"),
        ("0,60,0,a", "num_gpus: is out of range (value '0')"),
        ("0,60,-8,a", "num_gpus: is out of range (value '-8')"),
        ("0,60,1.5,a", "num_gpus: is not whole (value '1.5')"),
        ("0,60,NaN,a", "num_gpus: is out of range (value 'NaN')"),
        ("0,60,99999999,a", "num_gpus: is out of range (value '99999999')"),
        ("0,60,1,z", "vc: is not known (value 'z')"),
        ("0,60,1", "3 values where the first line names 4 columns (value '0,60,1')"),
        ("0,60,1,a,b", "5 values where the first line names 4 columns (value '0,60,1,a,b')"),
    ],
)
def test_a_malformed_row_is_named_with_line_value_and_fix(write_trace, row, complaint):
    message = error_of(write_trace(GOOD + row + "\n" + GOOD))
    assert message.startswith(f"jobs.csv:3: {complaint}; ")
    assert len(message.split("; ")) == 2


def test_an_empty_line_counts_but_means_nothing(write_trace):
    assert error_of(write_trace(GOOD + "\n" + "0,60,x,a\n")).startswith("jobs.csv:4: num_gpus:")
    assert len(read_trace(write_trace(GOOD + "\n" + GOOD))) == 2


def test_a_missing_column_is_named(write_trace):
    message = error_of(write_trace("0,60,1\n", header="submit_s,duration_s,num_gpus"))
    assert message.startswith("jobs.csv:1: no column is called vc (value ")


@pytest.mark.parametrize(
    ("vcs", "complaint"),
    [
        ("vc,published_nodes\na,3\na,1\n", "vcs.csv:3: vc: appears twice (value 'a'); "),
        ("vc,published_nodes\n,3\n", "vcs.csv:2: vc: is no name (value ''); "),
        ("vc,published_nodes\na\x1b[2J,3\n", "vcs.csv:2: vc: is no name (value 'a\\x1b[2J'); "),
        ("vc,published_nodes\na,-3\n", "vcs.csv:2: published_nodes: is out of range (value '-3')"),
        ("vc,published_nodes\na,many\n", "vcs.csv:2: published_nodes: is not a number"),
        ("vc\na\n", "vcs.csv:1: no column is called published_nodes (value 'vc'); "),
        ("", "vcs.csv:1: no column is called vc"),
    ],
)
def test_a_malformed_queue_is_named(write_trace, vcs, complaint):
    assert error_of(write_trace(GOOD, vcs=vcs)).startswith(complaint)


def test_a_missing_file_is_named(write_trace):
    folder = write_trace(GOOD)
    (folder / "jobs.csv").unlink()
    assert error_of(folder).startswith("jobs.csv: does not exist; ")
    (folder / "vcs.csv").unlink()
    assert error_of(folder).startswith("vcs.csv: does not exist; ")


@pytest.mark.parametrize(
    "data",
    [b"no gzip", gzip.compress(b"submit_s,duration_s", mtime=0)[:-9]],
    ids=["not one", "cut short"],
)
def test_a_broken_archive_is_named(write_trace, data):
    folder = write_trace(GOOD)
    (folder / "jobs.csv.gz").write_bytes(data)
    assert error_of(folder).startswith("jobs.csv.gz: cannot be read: ")


def test_text_in_another_encoding_is_named(write_trace):
    folder = write_trace(GOOD)
    (folder / "jobs.csv").write_bytes(b"submit_s,duration_s,num_gpus,vc\n0,60,1,\xff\n")
    assert error_of(folder).startswith("jobs.csv: cannot be read: ")


def test_an_unknown_trace_names_the_bundled_ones():
    with pytest.raises(ConfigError, match=r"no such trace \(value 'phily'\).* philly-2017"):
        find_trace("phily")
