"""[group] pid_namespace = yes: the promise that nothing survives holds when both of ours die at once."""

import os
import signal
import subprocess
import time

import pytest

import replay
from conftest import SLOW

ESCAPING = "escape(prepare='ignore(15)'); up(''); tell('up'); hold()"


def can_unshare():
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_unshare(), reason="no PID namespace can be made here")


def up(place, **settings):
    run = replay.start(place, ESCAPING, pid_namespace="yes", **settings)
    for rank in range(2):
        run.wait_line(rf"\[rank {rank}\] up", stream="out")
    return run


@pytest.mark.leaves_files
def test_nothing_survives_the_death_of_both(place):
    run = up(place)
    supervisor = place.supervisor_of(run)
    assert len(place.processes()) >= 6
    os.kill(supervisor, signal.SIGSTOP)  # it must not see the guard go first
    os.kill(run.pid, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    replay.await_that(lambda: not place.processes(), seconds=1.0)


def test_a_stop_empties_the_namespace(place):
    run = up(place)
    began = time.monotonic()
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    assert time.monotonic() - began < 8 + 2 * SLOW
    assert not place.processes()


def test_a_loss_is_named_as_without_one(place):
    run = up(place)
    supervisor = place.supervisor_of(run)
    rank = replay.children_of(supervisor)[1]
    os.kill(rank, signal.SIGKILL)
    why = replay.ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "killed SIGKILL")
