"""worker/python/tfrank.py: an engine in Python under the real supervisor, and without one."""

import os
import subprocess
import sys

import pytest

import replay
from conftest import ROOT

PYTHON = ["/usr/bin/python3", "-E"]
MODULE = str(ROOT / "worker" / "python")


def program(place, code):
    text = f"import sys, os\nsys.path.insert(0, {MODULE!r})\nimport tfrank\n{code}"
    return [*PYTHON, str(place.write("engine.py", text))]


def start(place, code, **settings):
    return place.run(replay.ini(place, program(place, code), mode="job", **settings))


def test_three_lines_are_enough(place):
    run = start(
        place,
        "with tfrank.open('ab') as rank:\n"
        "    for layer in rank.track(range(4), 'layer'): pass\n"
        "    rank.ready_and_wait()\n"
        "    with rank.collective('gather'): pass\n"
        "    rank.serving()\n"
        "    print('up', rank.rank, rank.world_size, rank.epoch, flush=True)\n",
    )
    assert run.wait() == 0, run.told()
    assert {"[rank 0] up 0 2 1", "[rank 1] up 1 2 1"} <= set(run.stdout.splitlines())
    for rank in replay.report(place)["ranks"]:
        progress = rank["progress"]
        assert (progress["done"], progress["total"], progress["unit"]) == (4, 4, "layer")


def test_an_exception_is_the_groups_reason(place):
    run = start(
        place,
        "with tfrank.open() as rank:\n"
        "    if rank.rank == 0: rank.put_group_id(b'here')\n"
        "    if rank.rank == 1: rank.get_group_id(10); raise OSError(28, 'No space\\nleft')\n"
        "    try: rank.ready_and_wait()\n"
        "    except tfrank.Aborted as lost:\n"
        "        print('told', lost.reason, lost.rank, flush=True)\n"
        "        raise\n",
    )
    assert run.wait() == 10
    why = replay.reason(place)
    assert (why["rank"], why["cause"]) == (1, "failed: OSError: [Errno 28] No space left")
    assert "[rank 0] told RankDisconnected 1" in run.stdout


def test_the_group_id_reaches_the_others_with_its_descriptor(place):
    run = start(
        place,
        "import os\n"
        "with tfrank.open() as rank:\n"
        "    if rank.rank == 0:\n"
        "        fd = os.memfd_create('shared'); os.write(fd, b'hello')\n"
        "        rank.put_group_id(b'id', fd)\n"
        "    else:\n"
        "        name, fd = rank.get_group_id(10)\n"
        "        print('got', name.decode(), os.pread(fd, 5, 0).decode(), flush=True)\n"
        "    rank.ready_and_wait(())\n",
        ranks=3,
    )
    assert run.wait() == 0, run.told()
    assert {"[rank 1] got id hello", "[rank 2] got id hello"} <= set(run.stdout.splitlines())


def test_a_stop_is_heard_in_asyncio(place):
    run = place.run(
        replay.ini(
            place,
            program(
                place,
                "import asyncio, signal\n"
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "async def main():\n"
                "    async with tfrank.open() as rank:\n"
                "        await rank.ready_and_wait_async('serving')\n"
                "        rank.serving()\n"
                "        print('up', flush=True)\n"
                "        try: await rank.wait_end()\n"
                "        except tfrank.Stopped as stop: print('stop', stop.grace, flush=True)\n"
                "asyncio.run(main())\n",
            ),
            stop_timeout="7s",
        )
    )
    for rank in range(2):
        run.wait_line(rf"\[rank {rank}\] up", stream="out")
    assert place.call("stop", "demo").status == 0
    assert run.wait() == 0
    assert {"[rank 0] stop 7.0", "[rank 1] stop 7.0"} <= set(run.stdout.splitlines())


def test_without_a_supervisor_every_call_succeeds(place):
    words = program(
        place,
        "with tfrank.open('00') as rank:\n"
        "    assert not rank.supervised and rank.gone and rank.fileno() == -1\n"
        "    rank.put_group_id(b'me'); assert rank.get_group_id(0) == (b'me', None)\n"
        "    rank.progress(1, 2); rank.ready_and_wait(); rank.watchdog(); rank.extend(1)\n"
        "    with rank.collective(): pass\n"
        "    rank.serving(); rank.dispatch(); rank.stopping(); rank.close()\n"
        "print('done')\n",
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("TFRANK_")}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("value", ["x", "-1", "9999", "0"])
def test_a_wrong_link_is_named(place, value):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TFRANK_")}
    done = subprocess.run(
        program(place, "tfrank.open()"), env={**env, "TFRANK_LINK_FD": value},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
    )
    assert done.returncode == 1 and f"TFRANK_LINK_FD={value}" in done.stderr


def test_bad_arguments_are_refused_before_they_are_said():
    sys.path.insert(0, MODULE)
    try:
        import tfrank

        with pytest.raises(ValueError, match="hex"):
            tfrank.Rank("xyz")
        rank = tfrank.Rank()
        with pytest.raises(ValueError, match="3 of 2"):
            rank.progress(3, 2)
        with pytest.raises(ValueError, match="banana"):
            rank.ready("banana")
        with pytest.raises(ValueError, match="group id"):
            rank.put_group_id(b"")
    finally:
        sys.path.remove(MODULE)
