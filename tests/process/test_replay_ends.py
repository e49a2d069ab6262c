"""Replays of groups that would not end: finished means tree empty, whoever dies first."""

import os
import random
import signal
import time

import pytest
import replay
from replay import ended, report, start

DEAF = "ignore('TERM', 'INT', 'HUP')"


def nothing_after_a_second(place):
    end = replay.deadline_after(1)
    replay.await_that(lambda: not place.processes() or not replay.left(end))
    left = place.processes()
    assert not left, [replay.read_proc(pid, "cmdline") for pid in left]


def escaping(place, run, ranks=2):
    """Waits until every rank has its escapee."""
    for rank in range(ranks):
        run.wait_line(rf"\[rank {rank}\] escaped", stream="out")


ESCAPING = f"{DEAF}; up(); escape(prepare=\"{DEAF}\"); tell('escaped'); hold()"


@pytest.mark.leaves_files
def test_supervisor_killed(place):
    run = start(place, ESCAPING, ranks=4)
    escaping(place, run, 4)
    replay.kill(place.supervisor_of(run), signal.SIGKILL)
    nothing_after_a_second(place)
    assert run.wait() == 128 + 9
    assert "the supervisor was killed by SIGKILL: the group was ended" in run.last_line


def test_supervisor_killed_its_guard(place):
    run = start(place, ESCAPING, ranks=4)
    escaping(place, run, 4)
    run.signal(signal.SIGKILL)
    nothing_after_a_second(place)
    assert run.wait() == -9
    assert "the guard has died: ending the group" in run.stderr


@pytest.mark.leaves_files
def test_supervisor_killed_and_its_guard(place):
    """Both at once: the ranks at least are gone."""
    run = start(place, f"{DEAF}; up(); tell('up'); hold()", ranks=4)
    for rank in range(4):
        run.wait_line(rf"\[rank {rank}\] up", stream="out")
    supervisor = place.supervisor_of(run)
    run.signal(signal.SIGSTOP)
    replay.await_that(lambda: replay.state_of(run.pid) == "T")
    replay.kill(supervisor, signal.SIGKILL)
    run.signal(signal.SIGKILL)
    nothing_after_a_second(place)


@pytest.mark.leaves_files
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run ranks as another user")
def test_supervisor_killed_with_ranks_of_another_user(place):
    """A change of user clears the parent-death signal: it is set behind it."""
    os.chmod(place.root, 0o777)
    command = ["sh", "-c", 'trap "" TERM; id -u; while :; do sleep 1000; done']
    run = start(place, command, ranks=2, mode="job", worker={"user": "nobody"})
    for rank in range(2):
        run.wait_line(rf"\[rank {rank}\] 65534", stream="out")
    ranks = place.rank_pids(run)
    supervisor = place.supervisor_of(run)
    run.signal(signal.SIGSTOP)
    replay.await_that(lambda: replay.state_of(run.pid) == "T")
    replay.kill(supervisor, signal.SIGKILL)
    for pid in ranks:
        replay.await_death(pid, 1)
    run.signal(signal.SIGCONT)
    run.wait()
    nothing_after_a_second(place)


@pytest.mark.leaves_files
@pytest.mark.parametrize("whom", ["supervisor", "guard", "both"])
def test_supervisor_killed_around_exec(place, whom):
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    command = ["sh", "-c", 'trap "" TERM; exec sleep 1000']
    for i in replay.times(100, 5):
        run = start(place, command, ranks=24, name=f"x{i}")
        moment = time.monotonic() + dice.uniform(0.002, 0.04)
        below = replay.await_that(lambda: replay.children_of(run.pid), step=0.0002)
        replay.await_that(lambda: time.monotonic() >= moment, step=0.0002)
        if whom == "both":
            run.signal(signal.SIGSTOP)
        if whom != "guard":
            replay.kill(below[0], signal.SIGKILL)
        if whom != "supervisor":
            run.signal(signal.SIGKILL)
        run.wait()
        nothing_after_a_second(place)


@pytest.mark.parametrize("how", ["stop", "failure", "job"])
def test_setsid_escape(place, how):
    gate = replay.Gate(place)
    run = start(
        place,
        f"up(); escape(prepare=\"{DEAF}\"); gate()\n"
        "posix._exit(0 if argv[0] == 'job' else 3)",
        how,
        mode="job" if how == "job" else "service",
        stop_timeout="400ms",
        abort_timeout="400ms",
    )
    gate.await_ranks(2)
    run.signal(15) if how == "stop" else gate.release()
    assert run.wait() == {"stop": 0, "failure": 10, "job": 0}[how], run.told()
    assert not place.processes()


def test_setsid_escape_of_the_obedient(place):
    """Escapees get their SIGTERM first: who obeys is not killed, and costs no time."""
    gate = replay.Gate(place)
    bye = "_signal.signal(15, lambda *_: (tell('bye'), posix._exit(0)))"
    code = f'up(); escape(prepare="""{bye}"""); gate(); hold()'
    run = start(place, code, stop_timeout="60s")
    gate.await_ranks(2)
    run.signal(15)
    assert run.wait() == 0
    assert run.stdout.count("bye") == 2


def test_setsid_escape_chain(place):
    """Each escapee bears another and leaves: the tree is never still, and ends all the same."""
    walk = (
        f"{DEAF}\n"
        "while True:\n"
        "    if posix.fork(): posix._exit(0)\n"
        "    posix.setsid()\n"
    )
    gate = replay.Gate(place)
    run = start(place, f"up(); escape({walk!r}); gate(); hold()", stop_timeout="200ms")
    gate.await_ranks(2)
    run.signal(15)
    assert run.wait() == 0, run.told()
    assert not place.processes()


def test_setsid_escape_of_many(place):
    """300 descendants, three deep."""
    code = (
        f"{DEAF}; up()\n"
        "for i in range(25): child('child(\"child(\\'hold()\\'); hold()\"); hold()')\n"
        "gate(); hold()"
    )
    gate = replay.Gate(place)
    run = start(place, code, ranks=4, stop_timeout="300ms")
    gate.await_ranks(4)
    replay.await_that(lambda: len(place.processes()) == 2 + 4 + 300)
    run.signal(15)
    assert run.wait() == 0
    assert not place.processes()


BOMB = f"""
{DEAF}
tell('armed')
while True:
    try:
        if posix.fork() == 0: posix.setsid()
    except OSError:
        pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the bomb's bound, nproc, wants a user of its own")
def test_setsid_escape_of_a_bomb(place):
    """Bounded to 64 processes, each of them forks without end, into sessions of their own."""
    os.chmod(place.root, 0o777)
    run = start(
        place,
        BOMB,
        ranks=1,
        mode="job",
        stop_timeout="200ms",
        reap_timeout="60s",
        worker={"user": "nobody", "limits": "nproc=64"},
    )
    run.wait_line("armed", stream="out")
    replay.await_that(lambda: len(place.processes()) > 60)
    run.signal(15)
    assert run.wait(60) == 143, run.told()
    assert not place.processes()


def test_stubborn_sibling(place):
    """The leader goes on TERM, a child in its group does not: `stop` does not return before."""
    gate, children = replay.Gate(place), replay.Gate(place, "child")
    run = start(
        place,
        f"up(); pid = child(\"{DEAF}; gate('child'); hold()\"); gate(); hold()",
        stop_timeout="500ms",
    )
    gate_pids = gate.await_ranks(2)
    pids = children.await_ranks(2)
    stop = place.start(replay.TFSUPERVISOR, "stop", "demo")
    for pid in gate_pids.values():
        replay.await_death(pid)
    assert stop.running and all(replay.state_of(pid) == "S" for pid in pids.values())
    assert stop.wait() == 0
    assert all(replay.state_of(pid) == "gone" for pid in pids.values())
    assert run.wait() == 0


def test_innocent_bystander(place):
    """The same command and user, not below us: it survives stop, failure and kill."""
    command = replay.wild(place, "gate(environ['GATE']) if 'GATE' in environ else None; hold()")
    bystander = place.start(*command, start_new_session=True)
    for how in ("stop", "failure", "guard killed"):
        gate = replay.Gate(place, how)
        run = start(place, command, mode="job", popen={"env": {"GATE": how}})
        pids = gate.await_ranks(2)
        if how == "stop":
            run.signal(15)
        elif how == "failure":
            replay.kill(pids[0], 9)
        else:
            run.signal(9)
        run.wait()
        replay.await_that(lambda: place.processes() == [bystander.pid])
        assert bystander.running, how


def test_innocent_bystander_of_a_used_number(place):
    """A dead leader's number is nobody else's while its group may still be signalled."""
    gate = replay.Gate(place)
    run = start(place, f"{DEAF}; up(); gate(); hear('ABORT'); gate(); hold()", abort_timeout="1h")
    pids = gate.await_ranks(2)
    gate.release()
    replay.kill(pids[1], 9)
    gate.await_ranks(1)
    replay.await_death(pids[1])
    assert replay.state_of(pids[1]) == "Z"
    gate.release()
    replay.kill(pids[0], 9)
    assert run.wait() == 10


def test_respawn_in_stop(place):
    """Ranks that fail between TERM and KILL are part of the stop: no epoch follows."""
    gate = replay.Gate(place)
    run = start(
        place,
        "_signal.signal(15, lambda *_: posix._exit(1) if rank else None); up(); gate(); hold()",
        restart="on-failure",
        restart_backoff="1ms",
        stop_timeout="500ms",
    )
    pids = gate.await_ranks(2)
    run.signal(15)
    replay.await_death(pids[1])
    assert run.wait() == 0, run.told()
    assert report(place)["epoch"] == 1


def test_respawn_in_stop_while_forking(place):
    """A stop in the middle of the forks: the rest is never forked."""
    born = place.root / "born"
    born.mkdir()
    run = start(
        place, ["sh", "-c", f"touch {born}/$RANK; exec sleep 1000"], ranks=400, name="many"
    )
    replay.await_that(lambda: any(born.iterdir()), step=0.0005)
    run.signal(15)
    assert run.wait(30) == 0
    assert 0 < len(list(born.iterdir())) < 400


def test_term_ignored(place):
    gate = replay.Gate(place)
    run = start(place, f"{DEAF}; up(); gate(); hold()", stop_timeout="600ms")
    gate.await_ranks(2)
    began = time.monotonic()
    run.signal(15)
    assert run.wait() == 0
    assert 0.6 <= time.monotonic() - began < 0.6 + 1.5 * replay.SLOW
    assert "stop_timeout = 600ms" in run.last_line


def test_term_ignored_second_hurries(place):
    gate = replay.Gate(place)
    run = start(
        place, f"{DEAF}; up(); gate(); hear('STOP'); tell('asked'); hold()", stop_timeout="1h"
    )
    gate.await_ranks(2)
    gate.release()
    run.signal(15)
    run.wait_line("asked", stream="out")
    over = time.monotonic() + 0.25  # repeats within 200 ms are one
    replay.await_that(lambda: time.monotonic() > over)
    run.signal(15)
    assert run.wait() == 0


def test_late_grace(place):
    """What needs its time after TERM gets it, up to stop_timeout as it is set."""
    slow = "_signal.signal(15, lambda *_: (time.sleep(1.2), tell('saved'), posix._exit(0)))\n"
    for stop_timeout, saved in (("20s", 2), ("400ms", 0)):
        gate = replay.Gate(place, f"gate-{saved}")
        run = start(place, f"{slow}up(); gate('gate-{saved}'); hold()", stop_timeout=stop_timeout)
        gate.await_ranks(2)
        run.signal(15)
        assert run.wait() == 0
        assert run.stdout.count("saved") == saved


def test_stopped_rank_at_the_stop(place):
    """SIGSTOP holds no stop up: who can obey is woken, who is deaf is killed."""
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hold()", stop_timeout="1h")
    pids = gate.await_ranks(2)
    replay.kill(pids[1], signal.SIGSTOP)
    replay.await_that(lambda: replay.state_of(pids[1]) == "T")
    run.signal(15)
    assert run.wait() == 0


def test_stopped_rank_at_a_failure(place):
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hold()", abort_timeout="1s")
    pids = gate.await_ranks(2)
    replay.kill(pids[1], signal.SIGSTOP)
    replay.await_that(lambda: replay.state_of(pids[1]) == "T")
    replay.kill(pids[0], 9)
    why = ended(place, run, 10)
    assert why["rank"] == 0 and not place.processes()


def test_stopped_supervisor_at_the_stop(place):
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hold()")
    gate.await_ranks(2)
    replay.kill(place.supervisor_of(run), signal.SIGSTOP)
    run.signal(15)
    assert run.wait() == 0


def test_rank_in_a_group_of_its_own_choice(place):
    """A rank that has joined the process group of another is reached all the same."""
    gate = replay.Gate(place)
    run = start(
        place,
        "up()\n"
        "if rank == 0: child('hold()')\n"
        "gate()\n"
        "if rank == 1: posix.setpgid(0, posix.getpgid(posix.getppid()))\n"
        "gate(); hold()",
        stop_timeout="2s",
    )
    gate.await_ranks(2)
    gate.release()
    gate.await_ranks(2)
    began = time.monotonic()
    run.signal(15)
    assert run.wait() == 0, run.told()
    assert time.monotonic() - began < 2


def test_kernel_that_does_not_give_up_in_time(place):
    """reap_timeout is the last bound: what is left is named, and the exit comes all the same."""
    gate = replay.Gate(place)
    run = start(
        place,
        f"{DEAF}; hoard = bytearray(b'x') * (300 << 20); up(); gate(); hold()",
        ranks=1,
        stop_timeout="50ms",
        reap_timeout="1ms",
    )
    pids = gate.await_ranks(1)
    run.signal(15)
    why = ended(place, run, 11)
    assert (why["name"], why["bound"], why["rank"]) == ("RankTimeout", "stop", 0)
    assert str(pids[0]) in run.last_line and "reap_timeout" in run.last_line
    assert not place.processes()


def test_stop_is_refused_where_nothing_runs(place):
    stop = place.call("stop", "demo")
    assert stop.status == 1 and "demo" in stop.stderr


def test_stop_during_a_failure(place):
    """An end only gets harder: a stop holds a failure's end to stop_timeout."""
    gate = replay.Gate(place)
    run = start(
        place, f"{DEAF}; up(); gate(); hold()", abort_timeout="1h", stop_timeout="300ms"
    )
    pids = gate.await_ranks(2)
    replay.kill(pids[0], 9)
    run.wait_line("ending the group")
    run.signal(15)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (0, "killed SIGKILL")
