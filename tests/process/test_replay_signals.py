"""Replays of signals: from terminals, container runtimes and careless operators, also as PID 1."""

import fcntl
import os
import pty
import random
import signal
import termios
import time

import pytest
import replay
from replay import TFSUPERVISOR, ended, ini, start, wild

AS_PID_1 = ["unshare", "--fork", "--pid", "--mount-proc", *replay.user_namespace()]


def blocked(*signals):
    """preexec_fn: the program starts with these signals blocked, so that none can kill it early."""
    return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def first_below(pid):
    """The process that `unshare --fork` or bwrap made PID 1."""
    return replay.await_that(lambda: replay.children_of(pid), step=0.0005)[0]


def wait_until(moment):
    replay.await_that(lambda: time.monotonic() >= moment, step=0.0003)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["plain", "pid 1"])
def test_early_term(place, how, number):
    """In its first milliseconds, the time before main() included (the signal is held from outside)."""
    if how == "pid 1":
        replay.needs_namespaces()
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    path = ini(place, ["sleep", "1000"])
    for i in replay.times(200, 12):
        words = (AS_PID_1 if how == "pid 1" else []) + [TFSUPERVISOR, "run", str(path)]
        run = place.start(*words, preexec_fn=blocked(number))
        moment = time.monotonic() + dice.uniform(0, 0.03)
        pid = first_below(run.pid) if how == "pid 1" else run.pid
        wait_until(moment)
        os.kill(pid, number)
        assert run.wait() == 0, f"seed {seed}, run {i}: {run.told()}"
        assert not place.processes() and not list(place.run_dir.iterdir())


def test_early_term_pending_at_the_exec(place):
    """The stop is there before our first instruction."""
    for _ in replay.times(50, 10):
        run = place.run(
            ini(place, ["sleep", "1000"], stop_timeout="1h"),
            preexec_fn=lambda: (blocked(signal.SIGTERM)(), os.kill(os.getpid(), signal.SIGTERM)),
        )
        assert run.wait() == 0, run.told()


@pytest.mark.parametrize("targets", ["guard", "guard and supervisor"])
@pytest.mark.parametrize("mode, code", [("service", ""), ("service", "0"), ("job", "")])
def test_term_to_all(place, targets, mode, code):
    """To the supervisor and every rank in the same instant, either first."""
    gate = replay.Gate(place)
    dice = random.Random(1)
    handler = f"_signal.signal(15, lambda *_: posix._exit({code}))\n" if code else ""
    for i in replay.times(200, 8):
        run = start(place, f"{handler}up(); gate(); hold()", mode=mode, ranks=3)
        pids = [run.pid, *gate.await_ranks(3).values()]
        if targets == "guard and supervisor":
            pids.append(place.supervisor_of(run))
        dice.shuffle(pids)
        for pid in pids:
            replay.kill(pid, signal.SIGTERM)
        assert run.wait() == (143 if mode == "job" else 0), f"run {i}: {run.told()}"
        assert "RankDisconnected" not in run.stderr


def test_term_to_both_of_us_is_one_stop(place):
    """As systemd does it: the guard passes on what the supervisor has got already."""
    gate = replay.Gate(place)
    slow = "_signal.signal(15, lambda *_: (time.sleep(0.5), tell('saved'), posix._exit(0)))"
    run = start(place, f"{slow}; up(); gate(); hold()", stop_timeout="1h")
    gate.await_ranks(2)
    replay.kill(place.supervisor_of(run), signal.SIGTERM)
    run.wait_line("stopping")
    run.signal(signal.SIGTERM)
    assert run.wait() == 0
    assert run.stdout.count("saved") == 2


def test_term_to_one_rank_is_no_stop(place):
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hear('ABORT')", ranks=3)
    pids = gate.await_ranks(3)
    gate.release()
    replay.kill(pids[1], signal.SIGTERM)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (1, "killed SIGTERM")


def test_timeout_delivers_twice(place):
    """timeout(1) signals its child and its own group: that is one stop, not a hurried one."""
    gate = replay.Gate(place)
    slow = "_signal.signal(15, lambda *_: (time.sleep(0.7), tell('saved'), posix._exit(0)))"
    path = ini(place, wild(place, f"{slow}; up(); gate(); hold()"))
    run = place.start("timeout", "2", TFSUPERVISOR, "run", str(path))
    gate.await_ranks(2)
    run.wait()
    assert run.stdout.count("saved") == 2, run.told()


COUNTER = (
    "def count(who):\n"
    "    for name in ('HUP', 'USR1', 'USR2'):\n"
    "        _signal.signal(number_of(name), lambda n, f, name=name: tell(f'{who} {name}'))\n"
)


def test_user_signals(place):
    gate, children = replay.Gate(place), replay.Gate(place, "child")
    run = start(
        place,
        f"{COUNTER}count('rank')\nup()\nchild(\"count('child'); gate('child'); hold()\")\n"
        "gate(); hold()",
    )
    gate.await_ranks(2)
    children.await_ranks(2)
    gate.release()
    children.release()
    for name in ("USR1", "USR2", "HUP"):
        run.signal(getattr(signal, f"SIG{name}"))
        for rank in (0, 1):
            for who in ("rank", "child"):
                run.wait_line(rf"\[rank {rank}\] {who} {name}", stream="out")
    run.signal(15)
    assert run.wait() == 0
    lines = run.stdout.splitlines()
    assert len(lines) == len(set(lines)) == 12


# --- PID 1 ---


def as_pid_1(place, path, **popen):
    replay.needs_namespaces()
    run = place.start(*AS_PID_1, TFSUPERVISOR, "run", str(path), **popen)
    return run, first_below(run.pid)


def test_pid_1_stop_and_user_signals(place):
    gate = replay.Gate(place)
    code = f"{COUNTER}count('rank')\nup(); gate(); hold()"
    run, first = as_pid_1(place, ini(place, wild(place, code)))
    gate.await_ranks(2)
    gate.release()
    for name in ("HUP", "USR1", "USR2"):
        os.kill(first, getattr(signal, f"SIG{name}"))
        for rank in (0, 1):
            run.wait_line(rf"\[rank {rank}\] rank {name}", stream="out")
    os.kill(first, signal.SIGTERM)
    assert run.wait() == 0, run.told()


def test_pid_1_status(place):
    run, _ = as_pid_1(place, ini(place, ["sh", "-c", "exit 7"]))
    why = ended(place, run, 10)
    assert why["cause"] == "exited 7"


def zombies_below(pid):
    below = [pid]
    zombies = 0
    for parent in below:
        for task in os.listdir(f"/proc/{parent}/task"):
            for word in replay.read_proc(parent, f"task/{task}/children").split():
                below.append(int(word))
                zombies += replay.state_of(int(word)) == "Z"
    return zombies


@pytest.mark.parametrize("where", ["plain", "pid 1"])
def test_orphans_at_pid_1(place, where):
    """100 grandchildren whose parents are gone end by and by: none of them stays a zombie."""
    gate = replay.Gate(place)
    code = (
        "up()\nmine, theirs = posix.pipe()\n"
        "for i in range(100):\n"
        "    pid = posix.fork()\n"
        "    if pid == 0:\n"
        "        if posix.fork() == 0: posix.close(theirs); posix.read(mine, 1)\n"
        "        posix._exit(0)\n"
        "    posix.waitpid(pid, 0)\n"
        "gate(); posix.close(theirs); gate(); hold()\n"
    )
    path = ini(place, wild(place, code), ranks=1)
    run, first = as_pid_1(place, path) if where == "pid 1" else (place.run(path), None)
    first = first or run.pid
    gate.await_ranks(1)
    orphans = 100 + 3 + (where == "pid 1")
    replay.await_that(lambda: len(place.processes()) == orphans)
    gate.release()
    gate.await_ranks(1)
    replay.await_that(lambda: len(place.processes()) == orphans - 100)
    replay.await_that(lambda: zombies_below(first) == 0)
    os.kill(first, signal.SIGTERM)
    assert run.wait() == 0


def test_pid_1_of_bubblewrap(place):
    """As a container: PID, mount, IPC and user namespaces, with /dev/termination-log."""
    replay.needs_program("bwrap")
    note = place.write("termination-log", "")
    words = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--bind", str(note), "/dev/termination-log", "--unshare-all", "--as-pid-1"]
    if place.start(*words, "true").wait() != 0:
        pytest.skip("bubblewrap cannot make its namespaces here")
    gate = replay.Gate(place)
    path = ini(place, wild(place, "up(); gate(); hold()"))
    run = place.start(*words, TFSUPERVISOR, "run", str(path))
    gate.await_ranks(2)
    os.kill(first_below(run.pid), signal.SIGTERM)
    assert run.wait() == 0, run.told()
    run = place.start(*words, TFSUPERVISOR, "run", str(ini(place, ["sh", "-c", "exit 9"])))
    assert run.wait() == 10, run.told()
    text = note.read_text()
    assert "exited 9" in text and len(text) <= 4096


# --- a terminal ---


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
    slow = "_signal.signal(15, lambda *_: (tell('asked'), time.sleep(0.5), tell('saved'), posix._exit(0)))"
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
    code = "ignore('TERM'); escape('ignore(15); hold()'); up(); gate(); hold()"
    terminal, run = at_terminal(place, code)
    gate.await_ranks(2)
    os.killpg(run.pid, signal.SIGKILL)
    end = replay.deadline_after(1)
    replay.await_that(lambda: not place.processes() or not replay.left(end))
    assert not place.processes()
    terminal.close()


# --- how we were started ---

TELL_STATE = (
    "lines = dict(l.split(':\\t') for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)\n"
    "tell(f\"blocked {int(lines['SigBlk'], 16)} ignored {int(lines['SigIgn'], 16)} umask {lines['Umask']}\")\n"
    "tell(f\"stdin {posix.readlink('/proc/self/fd/0')} fds {sorted(int(f) for f in posix.listdir('/proc/self/fd'))}\")\n"
)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_started_with_closed_descriptors(place, closed):
    gate = replay.Gate(place)
    code = f"{TELL_STATE}up(); gate(); posix._exit(5)"
    path = ini(place, wild(place, code))
    run = place.start("sh", "-c", f'exec "$@" {closed}', "sh", TFSUPERVISOR, "run", str(path))
    gate.await_ranks(2)
    log = (place.run_dir / "demo" / "rank-1.log").read_text()
    assert "stdin /dev/null fds [0, 1, 2, 3, 1023]" in log
    gate.release()
    why = ended(place, run, 10)
    assert why["cause"] == "exited 5"


@pytest.mark.parametrize("odd", ["SIGCHLD ignored", "umask 0777", "umask 0", "all blocked"])
def test_started_oddly(place, odd):
    mask = {"umask 0777": 0o777, "umask 0": 0}.get(odd, 0o022)

    def before():
        os.umask(mask)
        if odd == "SIGCHLD ignored":
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if odd == "all blocked":
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    gate = replay.Gate(place)
    code = f"{TELL_STATE}up(); gate(); posix._exit(5)"
    run = place.run(ini(place, wild(place, code)), preexec_fn=before)
    gate.await_ranks(2)
    folder = place.run_dir / "demo"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "health.sock").stat().st_mode & 0o777 == 0o600
    assert (folder / "notify-1.sock").stat().st_mode & 0o777 == 0o600
    assert (folder / "rank-1.log").stat().st_mode & 0o777 == 0o600
    assert place.http("demo", "/readyz")[0] == 200
    told = run.wait_line(r"\[rank 1\] blocked (\d+) ignored (\d+) umask (\d+)", stream="out")
    assert int(told[1]) == 0 and int(told[3], 8) == mask
    assert not int(told[2]) & 1 << (signal.SIGCHLD - 1)
    gate.release()
    why = ended(place, run, 10)
    assert (why["rank"] in (0, 1), why["cause"]) == (True, "exited 5")


# --- stopped ranks ---


def test_stopped_rank_is_said_at_once(place):
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hold()")
    pids = gate.await_ranks(2)
    replay.kill(pids[1], signal.SIGSTOP)
    run.wait_line(rf"rank 1 \(pid {pids[1]}\) was stopped by SIGSTOP")
    assert place.http("demo", "/readyz")[0] == 503
    replay.kill(pids[1], signal.SIGCONT)
    run.wait_line(rf"rank 1 \(pid {pids[1]}\) goes on")
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(15)
    assert run.wait() == 0


def test_stopped_rank_with_a_watchdog(place):
    gate = replay.Gate(place)
    run = start(
        place,
        "up(); gate()\nwhile True: say('WATCHDOG=1\\n'); time.sleep(0.05)",
        watchdog_timeout="800ms",
        abort_timeout="300ms",
    )
    pids = gate.await_ranks(2)
    gate.release()
    assert place.http("demo", "/readyz")[0] == 200
    replay.kill(pids[1], signal.SIGSTOP)
    run.wait_line("rank 1 has not said WATCHDOG")
    assert place.http("demo", "/readyz")[0] == 503
    why = ended(place, run, 11)
    assert (why["name"], why["rank"], why["bound"]) == ("RankTimeout", 1, "watchdog")


def test_stopped_rank_that_comes_back_in_time(place):
    gate = replay.Gate(place)
    run = start(
        place,
        "up(); gate()\nwhile True: say('WATCHDOG=1\\n'); time.sleep(0.05)",
        watchdog_timeout="1s",
    )
    pids = gate.await_ranks(2)
    gate.release()
    replay.kill(pids[1], signal.SIGSTOP)
    run.wait_line("rank 1 has not said WATCHDOG")
    replay.kill(pids[1], signal.SIGCONT)
    run.wait_line("rank 1 is heard again")
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(15)
    assert run.wait() == 0
