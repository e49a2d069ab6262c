"""Replays of a terminal: Ctrl-C, Ctrl-Z, a closed window, nohup."""

import fcntl
import os
import pty
import signal
import termios
import time

import pytest
import replay
from replay import as_pid_1, ini, wait_until, wild


class Terminal:
    """A pseudo terminal that controls the session of the program started with it."""

    def __init__(self):
        self.master, self.slave = pty.openpty()

    def take(self):
        """preexec_fn"""
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def press(self, key):
        os.write(self.master, key)

    def close(self):
        os.close(self.slave)
        os.close(self.master)


def at_terminal(place, code, before=lambda: None, **settings):
    terminal = Terminal()
    path = ini(place, wild(place, code), **settings)
    run = place.run(path, preexec_fn=lambda: (before(), terminal.take()))
    return terminal, run


def test_ctrl_c_once_is_a_stop(place):
    gate = replay.Gate(place)
    answer = "tell('asked'), time.sleep(0.5), tell('saved'), posix._exit(0)"
    slow = f"_signal.signal(15, lambda *_: ({answer}))"
    terminal, run = at_terminal(place, f"{slow}; up(); gate(); hold()", stop_timeout="1h")
    gate.await_ranks(2)
    terminal.press(b"\x03")
    assert run.wait() == 0, run.told()
    assert run.stdout.count("asked") == run.stdout.count("saved") == 2
    assert "KeyboardInterrupt" not in run.stdout
    terminal.close()


def test_ctrl_c_of_a_job(place):
    gate = replay.Gate(place)
    terminal, run = at_terminal(place, "up(); gate(); hold()", mode="job")
    gate.await_ranks(2)
    terminal.press(b"\x03")
    assert run.wait() == 130, run.told()
    terminal.close()


def test_ctrl_c_twice_hurries(place):
    gate = replay.Gate(place)
    deaf = "ignore('TERM', 'INT'); up(); gate(); hear('STOP'); tell('asked'); hold()"
    terminal, run = at_terminal(place, deaf, stop_timeout="1h")
    gate.await_ranks(2)
    gate.release()
    terminal.press(b"\x03")
    run.wait_line("asked", stream="out")
    wait_until(time.monotonic() + 0.25)  # repeats within 200 ms are one
    terminal.press(b"\x03")
    assert run.wait() == 0, run.told()
    terminal.close()


def test_ctrl_z_stops_the_group_and_its_clocks(place):
    """The time until fg counts for no bound; everybody stops, everybody goes on."""
    gate = replay.Gate(place)
    terminal, run = at_terminal(
        place,
        "hello()\nif rank == 0: ready()\ngate()\nready(); hear('GO'); tell('went'); hold()",
        ready_timeout="1500ms",
    )
    pids = gate.await_ranks(2)
    run.wait_line("rank 0: ready")
    everybody = [run.pid, place.supervisor_of(run), *pids.values()]
    for _ in range(2):
        terminal.press(b"\x1a")
        replay.await_that(lambda: all(replay.state_of(pid) == "T" for pid in everybody))
        wait_until(time.monotonic() + 1.6)
        os.killpg(run.pid, signal.SIGCONT)
        replay.await_that(lambda: not any(replay.state_of(pid) == "T" for pid in everybody))
    gate.release()
    for rank in (0, 1):
        run.wait_line(rf"\[rank {rank}\] went", stream="out")
    assert "was stopped by" not in run.stderr
    run.signal(15)
    assert run.wait() == 0, run.told()
    terminal.close()


def test_ctrl_z_then_a_stop(place):
    gate = replay.Gate(place)
    terminal, run = at_terminal(place, "up(); gate(); hold()", stop_timeout="1h")
    gate.await_ranks(2)
    terminal.press(b"\x1a")
    replay.await_that(lambda: replay.state_of(run.pid) == "T")
    run.signal(15)
    run.signal(signal.SIGCONT)
    assert run.wait() == 0, run.told()
    terminal.close()


def test_ctrl_z_as_pid_1_stops_nobody(place):
    gate = replay.Gate(place)
    run, first = as_pid_1(place, ini(place, wild(place, "up(); gate(); tell('on'); hold()")))
    gate.await_ranks(2)
    os.kill(first, signal.SIGTSTP)
    gate.release()
    run.wait_line("on", stream="out")
    os.kill(first, signal.SIGTERM)
    assert run.wait() == 0, run.told()


def test_closed_terminal_ends_the_group(place):
    gate = replay.Gate(place)
    terminal, run = at_terminal(place, "up(); gate(); hold()")
    gate.await_ranks(2)
    terminal.close()
    assert run.wait() == 0, run.told()


def test_closed_terminal_under_nohup(place):
    gate = replay.Gate(place)
    nohup = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    terminal, run = at_terminal(place, "up(); gate(); tell('on'); hold()", before=nohup)
    gate.await_ranks(2)
    terminal.close()
    gate.release()
    run.wait_line("on", stream="out")
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(15)
    assert run.wait() == 0, run.told()


@pytest.mark.leaves_files
def test_kill_of_the_job_leaves_nothing(place):
    """kill -9 %1 reaches the guard's process group, in which nobody else is."""
    gate = replay.Gate(place)
    code = "ignore('TERM'); escape(prepare='ignore(15)'); up(); gate(); hold()"
    terminal, run = at_terminal(place, code)
    gate.await_ranks(2)
    os.killpg(run.pid, signal.SIGKILL)
    end = replay.deadline_after(1)
    replay.await_that(lambda: not place.processes() or not replay.left(end))
    assert not place.processes()
    terminal.close()
