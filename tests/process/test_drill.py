"""The six drills on the host backend, with short delays: `tfsupervisor drill`."""

import json
import os
import signal
import tempfile

import pytest

from conftest import SLOW, TFSUPERVISOR, TFWORKER

# How long what is prompt may take on a machine that is busy with other tests; the drill's own word
# is judged by hand, where nothing else runs.
PROMPT = {"rank 1 waited for go", "the leaving to rank 0's ABORT", "the leaving to rank 2's ABORT"}


@pytest.fixture
def temporary(place, monkeypatch):
    """The drills' temporary directories, which must be empty afterwards."""
    with tempfile.TemporaryDirectory(prefix="tfd-") as path:
        monkeypatch.setenv("TMPDIR", path)
        yield path
        assert os.listdir(path) == []


def drill(place, *args):
    run = place.call("drill", *args, "--json", seconds=60)
    document = json.loads(run.stdout)
    assert (document["verdict"] == "PASS") == (run.status == 0)
    return document


def wrong(document):
    return [check for check in document["checks"] if not check["ok"]]


def assert_passed(document):
    """PASS, or nothing worse than a busy machine."""
    late = [check for check in wrong(document) if check["check"] not in PROMPT]
    assert late == [], json.dumps(document, indent=1)
    for check in wrong(document):
        assert float(check["measured"].split()[0]) < 200 * SLOW, check
    assert len(document["checks"]) >= 6


def found(document, check):
    return next(c["measured"] for c in document["checks"] if c["check"] == check)


def test_late_a_rank_is_waited_for_and_the_collective_bound_never_fires(place, temporary):
    document = drill(place, "late", "--delay", "700ms")
    assert_passed(document)
    assert document["exit_status"] == 0
    waited = float(found(document, "rank 0 waited for go").split()[0])
    assert waited >= 700 > 600  # the collective bound was 600 ms
    assert "600 ms" in next(
        c["bound"] for c in document["checks"] if c["check"].startswith("rank 0's go")
    )


def test_gone_a_failed_load_ends_the_others_at_once(place, temporary):
    document = drill(place, "gone", "--delay", "300ms")
    assert_passed(document)
    assert document["exit_status"] == 10
    assert document["report"]["reason"]["rank"] == 1
    assert all(receipt["moments_ns"]["go"] is None for receipt in document["receipts"])


def test_sum_every_rank_has_the_sums_of_the_reference(place, temporary):
    document = drill(place, "sum", "--ranks", "3")
    assert_passed(document)
    assert [receipt["sum"]["wrong"] for receipt in document["receipts"]] == [0, 0, 0]


def test_eof_a_closed_link_is_a_lost_rank(place, temporary):
    document = drill(place, "eof", "--delay", "300ms", "--ranks", "3")
    assert_passed(document)
    assert document["report"]["reason"]["cause"] == "link-closed"


def test_missing_the_ready_bound_names_the_rank_that_never_came(place, temporary):
    document = drill(place, "missing", "--delay", "500ms")
    assert_passed(document)
    reason = document["report"]["reason"]
    assert (reason["name"], reason["rank"], reason["bound"]) == ("RankTimeout", 1, "ready")


def test_timeout_the_collective_bound_fires_and_not_the_ready_bound(place, temporary):
    document = drill(place, "timeout", "--delay", "500ms")
    assert_passed(document)
    reason = document["report"]["reason"]
    assert (reason["name"], reason["rank"], reason["bound"]) == ("RankTimeout", 1, "collective")


def test_people_get_a_table_with_the_verdict_last(place, temporary):
    run = place.call("drill", "gone", "--delay", "200ms", seconds=60)
    lines = run.stdout.splitlines()
    assert lines[0] == "drill gone, 2 ranks, delay 200ms, backend host"
    assert lines[-1] == ("PASS" if run.status == 0 else "FAIL")
    assert "RankDisconnected: rank 1" in run.stdout
    assert "[rank 1]" in run.stderr and "[rank" not in run.stdout


def test_a_model_of_ones_own_can_be_drilled_with(place, temporary):
    model = place.root / "own model"
    shape = "--layers 2 --hidden 64 --intermediate 128 --vocab 256".split()
    assert place.start(TFWORKER, "synth", model, *shape).wait() == 0
    document = drill(place, "sum", "--model", model)
    assert_passed(document)
    assert document["receipts"][0]["load"]["layers"] == 2


def test_a_model_that_is_none_fails_with_its_name(place, temporary):
    run = place.call("drill", "sum", "--model", place.root / "no-model")
    assert run.status == 1 and "no-model" in run.stderr


def test_a_backend_that_tfworker_lacks_is_told(place, temporary):
    run = place.call("drill", "sum", "--backend", "cuda")
    if run.status == 0:
        pytest.skip("this tfworker has a cuda backend")
    assert run.status == 1 and "no backend cuda" in run.stderr


def test_an_interrupted_drill_ends_its_group_and_cleans_up(place, temporary):
    run = place.start(TFSUPERVISOR, "drill", "late", "--delay", "10m")
    run.wait_line(r"waits for rank 1")
    run.signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert "interrupted" in run.stderr
    place.await_empty()


@pytest.mark.parametrize(
    "args, word",
    [
        ([], "one mode"),
        (["lat"], '"lat"'),
        (["late", "gone"], '"gone"'),
        (["late", "--ranks", "1"], '"1"'),
        (["late", "--ranks", "2x"], '"2x"'),
        (["late", "--delay", "7"], '"7"'),
        (["late", "--delay", "1ms"], '"1ms"'),
        (["late", "--backend", "tpu"], '"tpu"'),
        (["late", "--dleay", "7s"], "--dleay"),
        (["late", "--delay"], "--delay"),
    ],
)
def test_a_wrong_command_line_is_64_with_the_usage(place, args, word):
    run = place.call("drill", *args)
    assert run.status == 64
    assert word in run.stderr and "usage: tfsupervisor drill" in run.stderr
