"""What the replays share: groups from a few words, gates, reports, namespaces."""

import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from conftest import SLOW, TFSUPERVISOR, children_of, deadline_after, left, read_proc, stat_of

THOROUGH = os.environ.get("TF_THOROUGH") == "1"
WILD_RANK = str(Path(__file__).resolve().parent / "wild_rank.py")
PYTHON = ["/usr/bin/python3", "-S", "-E", "-I"]
BLOCKED = 1 << (signal.SIGTERM - 1)


def times(full, short):
    """How often a test repeats: `full` with TF_THOROUGH=1."""
    return range(full if THOROUGH else short)


def wild(place, code, *words):
    """The command of a rank that does this Python: see wild_rank.py."""
    path = place.write(f"{uuid.uuid4().hex}.py", code)
    return [*PYTHON, WILD_RANK, str(path), *map(str, words)]


def ini(place, command, name="demo", ranks=2, mode="service", worker=None, **group):
    """Writes NAME.ini; command is a list of words, group and worker are keys and values."""
    lines = ["[group]", f"name = {name}", f"ranks = {ranks}", f"mode = {mode}"]
    lines += [f"{key} = {value}" for key, value in group.items()]
    lines += ["[worker]", "gpus = none", f"command = {shlex.join(command)}"]
    lines += [f"{key} = {value}" for key, value in (worker or {}).items()]
    return place.write(f"{name}.ini", "\n".join(lines) + "\n")


def start(place, code, *words, popen=None, **settings):
    """Starts a group whose ranks do this Python, or run this command if it is a list."""
    command = wild(place, code, *words) if isinstance(code, str) else code
    return place.run(ini(place, command, **settings), **(popen or {}))


def report(place, name="demo"):
    """The newest report of a group in the state directory."""
    found = sorted(place.state_dir.glob(f"{name}.*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert found, f"no report of {name} in {list(place.state_dir.iterdir())}"
    return json.loads(found[-1].read_text())


def reason(place, name="demo"):
    return report(place, name)["reason"]


def ended(place, run, status, name="demo", seconds=15.0):
    """Waits for the end with this status; the reason."""
    assert run.wait(seconds) == status, run.told()
    return reason(place, name)


def pids_of(place, name="demo"):
    return [rank["pid"] for rank in place.status(name)["ranks"]]


def pidfd_ended(pidfd, seconds=15.0):
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * SLOW * 1000))


def await_death(pid, seconds=15.0):
    """Waits until the process has ended, reaped or not."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert pidfd_ended(pidfd, seconds), f"pid {pid} lives after {seconds} s"
    finally:
        os.close(pidfd)


def await_that(what, seconds=15.0, step=0.002):
    """For what the kernel shows but does not announce: the first true answer of what()."""
    end = deadline_after(seconds)
    while not (answer := what()):
        assert left(end), f"not within {seconds} s"
        time.sleep(step)
    return answer


def holds_signals(pid):
    """True once the process has reached its main()."""
    for line in read_proc(pid, "status").decode().splitlines():
        if line.startswith("SigBlk:"):
            return int(line.split()[1], 16) & BLOCKED != 0
    return False


def state_of(pid):
    return (stat_of(pid) or ["gone"])[0].decode() if stat_of(pid) else "gone"


class Gate:
    """Where ranks wait until the test lets them through: gate() in wild_rank.py."""

    def __init__(self, place, name="gate"):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(place.root / name))
        self.listener.listen(1024)
        os.chmod(place.root / name, 0o777)
        self.waiting = {}

    def await_ranks(self, n, seconds=15.0):
        """Waits until n more ranks stand here; their pids by their numbers."""
        end = deadline_after(seconds)
        pids = {}
        while len(pids) < n:
            self.listener.settimeout(max(left(end), 0.001))
            sock, _ = self.listener.accept()
            sock.settimeout(max(left(end), 0.001))
            rank, pid = map(int, sock.recv(64).split())
            self.waiting[rank] = sock
            pids[rank] = pid
        return pids

    def release(self, *ranks):
        """Lets these ranks through, all if none are named."""
        for rank in ranks or list(self.waiting):
            sock = self.waiting.pop(rank)
            try:
                sock.send(b"x")
            except OSError:
                pass
            sock.close()


def kill(pid, number):
    """True if the process was there to get it."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def needs_program(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")


def needs_namespaces():
    """Skips where PID, mount and user namespaces are not to be had."""
    needs_program("unshare")
    words = ["unshare", "--fork", "--pid", "--mount-proc", *user_namespace(), "true"]
    tried = subprocess.run(words, capture_output=True)
    if tried.returncode != 0:
        pytest.skip(f"no namespaces here: {tried.stderr.decode().strip()}")


def user_namespace():
    return [] if os.geteuid() == 0 else ["--map-root-user"]


def wait_until(moment):
    """Until CLOCK_MONOTONIC is here, in seconds: for moments that are under test."""
    await_that(lambda: time.monotonic() >= moment, step=0.0003)


def first_below(pid):
    """The process that `unshare --fork` or bwrap made PID 1."""
    return await_that(lambda: children_of(pid), step=0.0005)[0]


AS_PID_1 = ["unshare", "--fork", "--pid", "--mount-proc", *user_namespace()]


def as_pid_1(place, path, **popen):
    """Starts a group as PID 1 of a namespace: the Program of unshare, and the guard's pid."""
    needs_namespaces()
    run = place.start(*AS_PID_1, TFSUPERVISOR, "run", str(path), **popen)
    return run, first_below(run.pid)
