"""Replays of signals: from container runtimes and careless operators, also as PID 1."""

import os
import random
import signal
import time

import pytest
import replay
from replay import (
    AS_PID_1,
    TFSUPERVISOR,
    as_pid_1,
    ended,
    first_below,
    ini,
    start,
    wait_until,
    wild,
)


def blocked(*signals):
    """preexec_fn: the program starts with these signals blocked, so that none can kill it early."""
    return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signals)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["plain", "pid 1"])
def test_early_term(place, how, number):
    """In its first milliseconds, those before main() included: there it is held from outside."""
    if how == "pid 1":
        replay.needs_namespaces()
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    path = ini(place, ["sleep", "1000"])
    for i in replay.times(200, 6):
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
    for _ in replay.times(50, 5):
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
    for i in replay.times(200, 5):
        run = start(place, f"{handler}up(); gate(); hold()", mode=mode, ranks=3)
        pids = [run.pid, *gate.await_ranks(3).values()]
        if targets == "guard and supervisor":
            pids.append(place.supervisor_of(run))
        dice.shuffle(pids)
        for pid in pids:
            replay.kill(pid, signal.SIGTERM)
        assert run.wait() == (143 if mode == "job" else 0), f"run {i}: {run.told()}"
        assert "RankDisconnected" not in run.stderr


def test_term_to_all_with_a_slow_guard(place):
    """A guard that the machine leaves no time has its SIGTERM still before it: that counts."""
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hold()")
    pids = gate.await_ranks(2)
    run.signal(signal.SIGSTOP)
    replay.await_that(lambda: replay.state_of(run.pid) == "T")
    run.signal(signal.SIGTERM)
    for pid in pids.values():
        replay.kill(pid, signal.SIGTERM)
    run.wait_line("demo: stopped on request")
    run.signal(signal.SIGCONT)
    assert run.wait() == 0


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


# --- how we were started ---

TELL_STATE = (
    "status = [line.split() for line in open('/proc/self/status')]\n"
    "lines = {words[0]: words[1] for words in status if len(words) > 1}\n"
    "blocked, ignored = int(lines['SigBlk:'], 16), int(lines['SigIgn:'], 16)\n"
    "tell(f\"blocked {blocked} ignored {ignored} umask {lines['Umask:']}\")\n"
    "fds = sorted(int(fd) for fd in posix.listdir('/proc/self/fd'))\n"
    "tell(f\"stdin {posix.readlink('/proc/self/fd/0')} fds {fds}\")\n"
)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_started_with_closed_descriptors(place, closed):
    gate = replay.Gate(place)
    code = f"{TELL_STATE}up(); gate(); posix._exit(5)"
    path = ini(place, wild(place, code))
    run = place.start("sh", "-c", f'exec "$@" {closed}', "sh", TFSUPERVISOR, "run", str(path))
    gate.await_ranks(2)
    log = place.run_dir / "demo" / "rank-1.log"
    replay.await_that(lambda: log.exists() and log.read_text().count("\n") >= 2)
    assert "stdin /dev/null fds [0, 1, 2, 3, 1023]" in log.read_text()
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
