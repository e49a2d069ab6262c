"""
Real processes under test. The fixture `place` gives a test a private run and state directory,
starts programs with deadlines, and after the test insists that nothing is left: no process that
carries the test's mark in its environment, no file in the run directory.

    def test_group_goes(place):
        run = place.run("--ranks", "2", "--", *place.rank("hello", "ready", "await:GO"))
        assert run.wait() == 0

Environment: TF_BUILD names the build folder (default build/), TF_SLOW multiplies every deadline.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TF_BUILD", ROOT / "build")).resolve()
SLOW = float(os.environ.get("TF_SLOW", "1"))
TFSUPERVISOR = str(BUILD / "tfsupervisor")
TFWORKER = str(BUILD / "tfworker")
LINK_RANK = str(Path(__file__).resolve().parent / "link_rank.py")
MARK = "TF_TEST_MARK"
DEADLINE_S = 15.0


def pytest_configure(config):
    config.addinivalue_line("markers", "leaves_files: the run directory need not be empty after it")


def deadline_after(seconds):
    return time.monotonic() + seconds * SLOW


def left(deadline):
    return max(0.0, deadline - time.monotonic())


class Program:
    """A started process. Its output lines are collected as they come: (stream, text)."""

    def __init__(self, argv, **popen):
        self.argv = [str(word) for word in argv]
        self.lines = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen
        )
        self.pid = self.process.pid
        self.started = time.monotonic()
        self.readers = [
            threading.Thread(target=self._read, args=(name, pipe), daemon=True)
            for name, pipe in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, name, pipe):
        for raw in pipe:
            text = raw.decode("utf-8", "replace").rstrip("\n")
            with self.changed:
                self.lines.append((name, text))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def wait_line(self, pattern, seconds=DEADLINE_S, stream=None):
        """The match of the first line that has the pattern, awaited until the deadline."""
        end = deadline_after(seconds)
        seen = 0
        with self.changed:
            while True:
                for name, text in self.lines[seen:]:
                    found = re.search(pattern, text)
                    if found and stream in (None, name):
                        return found
                seen = len(self.lines)
                over = not any(reader.is_alive() for reader in self.readers)
                if over or not left(end):
                    why = "its output ended" if over else f"{seconds} s passed"
                    pytest.fail(f"no line with {pattern!r}: {why}\n{self.told()}")
                self.changed.wait(min(left(end), 1.0))

    def wait(self, seconds=DEADLINE_S):
        """The exit status, minus the signal if one killed it, once all its output is in."""
        end = deadline_after(seconds)
        try:
            status = self.process.wait(left(end))
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {seconds} s\n{self.told()}")
        for reader in self.readers:
            reader.join(left(end))
        return status

    def signal(self, number):
        self.process.send_signal(number)

    @property
    def running(self):
        return self.process.poll() is None

    def text(self, stream=None):
        with self.changed:
            return "\n".join(text for name, text in self.lines if stream in (None, name))

    @property
    def stdout(self):
        return self.text("out")

    @property
    def stderr(self):
        return self.text("err")

    @property
    def last_line(self):
        """The last line on standard error: the one that a person acts on."""
        return ([""] + self.stderr.splitlines())[-1]

    def told(self):
        return f"{' '.join(self.argv)}\n" + self.text()


class Place:
    """One test's private directories and everything that it started."""

    def __init__(self, root):
        self.root = root
        self.run_dir = root / "run"
        self.state_dir = root / "state"
        self.mark = uuid.uuid4().hex
        self.programs = []
        self.run_dir.mkdir(mode=0o711)
        self.state_dir.mkdir(mode=0o700)

    def environment(self, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TFRANK_", "NOTIFY_"))}
        env.update(
            RUNTIME_DIRECTORY=str(self.run_dir), STATE_DIRECTORY=str(self.state_dir), NO_COLOR="1"
        )
        env[MARK] = self.mark
        env.update({k: str(v) for k, v in extra.items()})
        return env

    def write(self, name, text):
        """A file beside the directories, such as an INI; its path."""
        path = self.root / name
        path.write_text(text)
        return path

    def start(self, *argv, env=None, **popen):
        """Starts any program, with this test's mark and directories in its environment."""
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("cwd", self.root)
        program = Program(argv, env=self.environment(**(env or {})), **popen)
        self.programs.append(program)
        return program

    def run(self, *argv, **popen):
        """Starts `tfsupervisor run ...`."""
        return self.start(TFSUPERVISOR, "run", *argv, **popen)

    def call(self, *argv, seconds=DEADLINE_S, **popen):
        """Runs `tfsupervisor ...` to its end; the Program, its status in .status."""
        program = self.start(TFSUPERVISOR, *argv, **popen)
        program.status = program.wait(seconds)
        return program

    def rank(self, *steps):
        """The command of a rank that does these steps: see link_rank.py."""
        return ["/usr/bin/python3", "-S", "-E", LINK_RANK, *steps]

    def processes(self):
        """Pids of the living processes that carry this test's mark."""
        mark = f"{MARK}={self.mark}".encode()
        return [pid for pid in all_pids() if mark in environ_of(pid) and not is_zombie(pid)]

    def supervisor_of(self, run):
        """Pid of the supervisor below the guard `run`."""
        below = children_of(run.pid)
        assert len(below) == 1, f"the guard has children {below}"
        return below[0]

    def rank_pids(self, run):
        """Pids of the ranks, in the order of their forks."""
        return children_of(self.supervisor_of(run))

    def http(self, group, path, method="GET", seconds=DEADLINE_S):
        """(status, body) of the group's health socket."""
        end = deadline_after(seconds)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(left(end))
            sock.connect(str(self.run_dir / group / "health.sock"))
            sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while chunk := sock.recv(65536):
                answer += chunk
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def status(self, group):
        return json.loads(self.http(group, "/status")[1])

    def await_end(self, pids, seconds=DEADLINE_S):
        """Waits until every one of these processes has ended."""
        end = deadline_after(seconds)
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            ended = poll.poll(left(end) * 1000)
            os.close(fd)
            assert ended or is_zombie(pid), f"pid {pid} lives after {seconds} s: {cmdline_of(pid)}"

    def await_empty(self, seconds=DEADLINE_S):
        """Waits until no process of this test is left."""
        self.await_end(self.processes(), seconds)
        assert not self.processes()

    def end(self):
        """Ends what still runs; says what should not have been there."""
        wrong = []
        for program in self.programs:
            if program.running:
                program.signal(signal.SIGTERM)
                program.signal(signal.SIGCONT)
        end = deadline_after(DEADLINE_S)
        for program in self.programs:
            try:
                program.process.wait(left(end))
            except subprocess.TimeoutExpired:
                wrong.append(f"did not end on SIGTERM: {program.told()}")
        for pid in self.processes():
            wrong.append(f"left behind: pid {pid}: {cmdline_of(pid)}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return wrong


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read_proc(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def environ_of(pid):
    return read_proc(pid, "environ").split(b"\0")


def cmdline_of(pid):
    return read_proc(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace")


def stat_of(pid):
    """The fields of /proc/PID/stat from the third on, [] if there is no such process."""
    return read_proc(pid, "stat").rpartition(b")")[2].split()


def is_zombie(pid):
    return stat_of(pid)[:1] in ([], [b"Z"], [b"X"])


def children_of(pid):
    """Living direct children, of all its threads, oldest first."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in task.read_text().split()]
    return [child for child in found if not is_zombie(child)]


@pytest.fixture
def place(request):
    root = Path(tempfile.mkdtemp(prefix="tf-"))
    root.chmod(0o755)
    it = Place(root)
    try:
        yield it
        wrong = it.end()
        files = sorted(str(path.relative_to(it.run_dir)) for path in it.run_dir.rglob("*"))
        if files and not request.node.get_closest_marker("leaves_files"):
            wrong.append(f"left in the run directory: {files}")
    finally:
        it.end()
        shutil.rmtree(root, ignore_errors=True)
    assert not wrong, "\n".join(wrong)

