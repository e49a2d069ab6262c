"""Replays of who is who: names, leftovers, environments, clocks, limits and sockets."""

import os
import re
import resource
import signal
import socket

import pytest
import replay
from replay import TFSUPERVISOR, ended, ini, start, wild


def test_eight_at_once(place):
    """All run; of two more with one of their names the second is refused by name and pid."""
    gate = replay.Gate(place)
    command = wild(place, "up(); gate(); hold()")
    paths = [ini(place, command, name=f"g{i}", ranks=1) for i in range(8)]
    runs = [place.run(path) for path in paths]
    for _ in range(8):
        gate.await_ranks(1)
    for i, run in enumerate(runs):
        run.wait_line("go: ")
        assert place.http(f"g{i}", "/readyz")[0] == 200
    for i in (0, 7):
        second = place.run(paths[i])
        assert second.wait() == 15
        assert f"g{i}" in second.last_line and str(runs[i].pid) in second.last_line
        assert place.http(f"g{i}", "/readyz")[0] == 200
    for run in runs:
        run.signal(15)
    assert [run.wait() for run in runs] == [0] * 8


def test_eight_at_once_of_one_name(place):
    """Exactly one of eight runs."""
    for _ in replay.times(50, 6):
        path = ini(place, ["sleep", "1000"], mode="job")
        runs = [place.run(path) for _ in range(8)]
        refused = replay.await_that(
            lambda: len([run for run in runs if not run.running]) == 7
            and [run for run in runs if not run.running]
        )
        assert [run.wait() for run in refused] == [15] * 7
        (winner,) = [run for run in runs if run.running]
        assert all("demo" in run.last_line for run in refused)
        winner.signal(15)
        assert winner.wait() == 143


def test_stale_leftovers(place):
    """kill -9 of everything, then a start over what it left."""
    gate = replay.Gate(place)
    path = ini(place, wild(place, "tell('here'); up(); gate(); hold()"))
    run = place.run(path)
    gate.await_ranks(2)
    run.signal(signal.SIGSTOP)
    replay.await_that(lambda: replay.state_of(run.pid) == "T")
    replay.kill(place.supervisor_of(run), 9)
    run.signal(9)
    place.await_empty()
    left = sorted(os.listdir(place.run_dir / "demo"))
    assert "health.sock" in left and "rank-0.log" in left
    for verb, status in (("status", 1), ("health", 1), ("stop", 1)):
        assert place.call(verb, "demo").status == status
    again = place.run(path)
    gate.await_ranks(2)
    again.wait_line(rf"cleaned .*demo: {len(left)} files left by a supervisor that is gone")
    again.wait_line("go: ")
    assert place.http("demo", "/readyz")[0] == 200
    again.signal(15)
    assert again.wait() == 0


def test_stale_leftovers_removed_while_alive(place):
    """Somebody cleans up below a living group: it is missed, and said, and the group lives on."""
    gate = replay.Gate(place)
    path = ini(place, wild(place, "up(); gate(); hold()"))
    run = place.run(path)
    gate.await_ranks(2)
    for name in os.listdir(place.run_dir / "demo"):
        if name != "pid":
            os.unlink(place.run_dir / "demo" / name)
    status = place.call("status", "demo")
    assert status.status == 1 and "health.sock" in status.stderr
    second = place.run(path)
    assert second.wait() == 15 and str(run.pid) in second.last_line
    run.signal(15)
    assert run.wait() == 0, run.told()


def test_stale_leftovers_folder_removed_while_alive(place):
    gate = replay.Gate(place)
    path = ini(place, wild(place, "up(); gate(); posix._exit(3)"))
    run = place.run(path)
    gate.await_ranks(2)
    folder = place.run_dir / "demo"
    for name in os.listdir(folder):
        os.unlink(folder / name)
    folder.rmdir()
    gate.release()
    why = ended(place, run, 10)
    assert why["cause"] == "exited 3"


INJECTED = {
    "TFSUPERVISOR_PORT": "tcp://10.0.0.1:1",
    "TFSUPERVISOR_RUN_DIR": "/nonexistent",
    "TFSUPERVISOR_GROUP_RANKS": "7",
    "RANK": "5",
    "WORLD_SIZE": "9",
    "NOTIFY_SOCKET": "/nonexistent",
    "WATCHDOG_USEC": "1",
    "LISTEN_FDS": "3",
    "LISTEN_PID": "1",
    "TFRANK_LINK_FD": "0",
    "TFRANK_RANK": "5",
    "ODD": "a\nRANK=6\nb",
}


def test_injected_names(place):
    code = (
        "names = 'RANK WORLD_SIZE TFRANK_RANK WATCHDOG_USEC LISTEN_FDS LISTEN_PID'\n"
        "tell(' '.join(f'{n}={environ.get(n)}' for n in names.split()))\n"
        "tell(environ['NOTIFY_SOCKET']); tell(environ['TFSUPERVISOR_PORT'])\n"
        "tell(repr(environ['ODD']))\n"
        "up(); posix._exit(0)"
    )
    run = start(place, code, mode="job", popen={"env": INJECTED})
    assert run.wait() == 0, run.told()
    for rank in (0, 1):
        lines = [x[9:] for x in run.stdout.splitlines() if x.startswith(f"[rank {rank}] ")]
        assert lines == [
            f"RANK={rank} WORLD_SIZE=2 TFRANK_RANK={rank} "
            "WATCHDOG_USEC=None LISTEN_FDS=None LISTEN_PID=None",
            str(place.run_dir / "demo" / f"notify-{rank}.sock"),
            "tcp://10.0.0.1:1",
            repr(INJECTED["ODD"]),
        ]


def notify_socket(place, rank, name="demo"):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.connect(str(place.run_dir / name / f"notify-{rank}.sock"))
    return sock


JUNK = [
    b"",
    b"\0",
    b"\n\n\n",
    b"READY",
    b"READY=2",
    b"=1",
    b"nonsense",
    b"STATUS=\xff\xfe\x00\n",
    b"EXTEND_TIMEOUT_USEC=-1",
    b"EXTEND_TIMEOUT_USEC=99999999999999999999999",
    b"WATCHDOG=trigger",
    b"MAINPID=1\nERRNO=abc\nX_VENDOR=1",
    b"HELLO=1\nPROTOCOL=1\n",
    b"GO=1",
    b"A" * 100000,
    b"READY=1\0\nSTATUS=hidden",
]


def test_datagram_junk(place):
    """Ignored with one warning a rank; then READY counts, though its sender has already gone."""
    gate = replay.Gate(place)
    run = start(place, "gate(); hold()")
    gate.await_ranks(2)
    for rank in (0, 1):
        sock = notify_socket(place, rank)
        for junk in JUNK[:-1] * 20:
            sock.send(junk)
        sock.close()
    assert place.status("demo")["state"] in ("starting", "loading")
    for rank in (0, 1):
        sender = os.fork()
        if sender == 0:
            try:
                notify_socket(place, rank).send(b"STATUS=loaded\nREADY=1")
            finally:
                os._exit(0)
        os.waitpid(sender, 0)
    run.wait_line("go: ")
    assert place.http("demo", "/readyz")[0] == 200
    for rank in (0, 1):
        assert run.stderr.count(f"rank {rank}: its notify socket") == 1
        assert place.status("demo")["ranks"][rank]["status_text"] == "loaded"
    run.signal(15)
    assert run.wait() == 0


def test_datagram_junk_with_descriptors(place):
    """Descriptors that come along are closed, which is what the sender of a BARRIER waits for."""
    gate = replay.Gate(place)
    run = start(place, "gate(); hold()")
    gate.await_ranks(2)
    sock = notify_socket(place, 0)
    before = len(os.listdir(f"/proc/{place.supervisor_of(run)}/fd"))
    mine, theirs = os.pipe()
    for _ in range(50):
        socket.send_fds(sock, [b"BARRIER=1"], [theirs] * 10)
    os.close(theirs)
    assert os.read(mine, 1) == b""
    sock.send(b"READY=1")
    notify_socket(place, 1).send(b"READY=1")
    run.wait_line("go: ")
    assert len(os.listdir(f"/proc/{place.supervisor_of(run)}/fd")) == before
    os.close(mine)
    run.signal(15)
    assert run.wait() == 0


def test_clock_back(place):
    """The wall clock goes back an hour, then ahead: bounds are kept to the millisecond."""
    replay.needs_program("faketime")
    libraries = [
        f"/usr/lib/{arch}/faketime/libfaketime.so.1"
        for arch in ("x86_64-linux-gnu", "aarch64-linux-gnu")
    ]
    library = next(filter(os.path.exists, libraries), None)
    if library is None:
        pytest.skip("libfaketime is not installed")
    clock = place.write("clock", "+0\n")
    env = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    for offset in ("-1h", "+1h"):
        gate = replay.Gate(place, f"gate{offset}")
        clock.write_text("+0\n")
        run = start(
            place,
            f"hello()\nif rank: hold()\nready(); tell(f'ready {{now()}}'); gate('gate{offset}')\n"
            "hear('ABORT'); tell(f'abort {now()}')",
            ready_timeout="800ms",
            popen={"env": env},
        )
        gate.await_ranks(1)
        clock.write_text(f"{offset}\n")
        gate.release()
        why = ended(place, run, 11)
        assert (why["rank"], why["bound"]) == (1, "ready")
        began = int(run.wait_line(r"ready (\d+)", stream="out")[1])
        over = int(run.wait_line(r"abort (\d+)", stream="out")[1])
        assert 0.79e9 < over - began < 0.8e9 + 0.5e9 * replay.SLOW


DEAF = "ignore(15)"


def limited(soft, hard=None):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard or soft))


def test_few_descriptors(place):
    """ulimit -n 64, hard: 8 ranks load, go, and are told of a death."""
    gate = replay.Gate(place)
    code = "tell(link.fileno()); up(); gate(); hear('ABORT'); tell('aborted')"
    run = place.run(ini(place, wild(place, code), ranks=8), preexec_fn=limited(64))
    pids = gate.await_ranks(8)
    run.wait_line("go: ")
    assert place.http("demo", "/readyz")[0] == 200
    gate.release()
    replay.kill(pids[3], 9)
    why = ended(place, run, 10)
    assert why["rank"] == 3
    assert run.stdout.count("] 63") == 8 and run.stdout.count("aborted") == 7


@pytest.mark.parametrize("limit", [4, 8, 16, 24, 32, 40, 48, 56])
def test_too_few_descriptors(place, limit):
    """Whatever the limit: a typed end that names the descriptors, and nothing left."""
    run = place.run(ini(place, ["sleep", "1000"], ranks=16), preexec_fn=limited(limit))
    assert run.wait() in (14, 15, 71, 127), run.told()
    assert run.wait() == 127 or "open files" in run.text() or "descriptor" in run.text()
    assert not place.processes()
    for path in place.run_dir.rglob("*"):
        assert run.wait() == 71, path


@pytest.mark.skipif(os.geteuid() != 0, reason="nproc binds a user other than root")
def test_too_few_processes(place):
    """The second rank cannot be started: it is named, and the first does not outlive it."""
    os.chmod(place.root, 0o777)
    worker = {"user": "nobody", "limits": "nproc=1"}
    run = place.run(ini(place, ["sleep", "1000"], ranks=3, worker=worker))
    why = ended(place, run, 14)
    assert why["name"] == "SpawnFailed" and "temporarily unavailable" in run.last_line


def test_thousand_ranks(place):
    """A job of 1,000: started, seen, one killed, all gone."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 8192:
        pytest.skip("1,000 ranks need 8,192 descriptors; the hard limit is lower")
    n = 1000 if replay.THOROUGH else 200
    run = place.run(ini(place, ["sleep", "1000"], ranks=n, mode="job"))
    replay.await_that(
        lambda: (place.run_dir / "demo" / "health.sock").exists()
        and all(rank["pid"] for rank in place.status("demo")["ranks"]),
        60,
        0.05,
    )
    ranks = place.status("demo")["ranks"]
    assert len(ranks) == n
    replay.kill(ranks[n // 2]["pid"], 9)
    why = ended(place, run, 10, seconds=60)
    assert (why["rank"], why["cause"]) == (n // 2, "killed SIGKILL")
    assert len(why["victims"]) == n - 1


@pytest.mark.skipif(not replay.THOROUGH, reason="1,000 interpreters: TF_THOROUGH=1")
def test_thousand_ranks_go(place):
    run = start(place, "up(); tell('went'); posix._exit(0)", ranks=1000, mode="job")
    assert run.wait(120) == 0, run.last_line
    assert run.stdout.count("went") == 1000


def test_no_descriptor_is_inherited(place):
    """Whatever leaks from who started us ends at us: a rank has its three and its link."""
    leaks = [os.dup(0) for _ in range(20)]
    for leak in leaks:
        os.set_inheritable(leak, True)
    code = "tell(sorted(int(f) for f in posix.listdir('/proc/self/fd'))); up(); posix._exit(0)"
    run = place.run(ini(place, wild(place, code), mode="job"), pass_fds=leaks)
    assert run.wait() == 0
    for rank in (0, 1):
        assert f"[rank {rank}] [0, 1, 2, 3, 1023]" in run.stdout
    for leak in leaks:
        os.close(leak)


def test_after_many_deaths_all_is_as_before(place):
    """A group that is restarted again and again: the same descriptors, the same priority."""
    gate = replay.Gate(place)
    run = start(
        place,
        f"{DEAF}; up(); tell(f'nice {{posix.getpriority(0, 0)}}'); gate()\n"
        "posix._exit(1) if rank else hold()",
        restart="on-failure",
        restart_max=100,
        abort_timeout="50ms",
        stop_timeout="50ms",
        restart_backoff="1ms",
    )
    held = None
    for epoch in range(1, 7):
        gate.await_ranks(2)
        # A rank's log is opened at its first words.
        replay.await_that(lambda: run.stdout.count("nice ") == 2 * epoch)
        fds = f"/proc/{place.supervisor_of(run)}/fd"
        held = held or os.listdir(fds)
        replay.await_that(lambda: len(os.listdir(fds)) == len(held))
        gate.release()
    gate.await_ranks(2)
    assert run.stdout.count("nice ") == run.stdout.count("nice 0")
    run.signal(15)
    assert run.wait() == 0, run.told()


def test_run_directory_of_another(place):
    """A directory that others may write to is refused."""
    os.chmod(place.run_dir, 0o777)
    run = place.run(ini(place, ["true"]))
    assert run.wait() == 15 and str(place.run_dir) in run.last_line
    os.chmod(place.run_dir, 0o711)


def test_working_directory_removed_while_alive(place):
    gone = place.root / "gone"
    gone.mkdir()
    gate = replay.Gate(place)
    path = ini(place, wild(place, f"up(); gate('{place.root}/gate'); hold()"))
    run = place.run(path, cwd=gone)
    gate.await_ranks(2)
    gone.rmdir()
    run.signal(15)
    assert run.wait() == 0
    vanish = f'cd {place.root} && mkdir x && cd x && rmdir ../x && exec "$@"'
    again = place.start("sh", "-c", vanish, "sh", TFSUPERVISOR, "run", str(path))
    gate.await_ranks(2)
    again.signal(15)
    assert again.wait() == 0, again.told()


def test_datagram_flood(place):
    """A rank that never stops notifying keeps nobody else from being heard or answered."""
    gate = replay.Gate(place)
    flood = (
        "import os, socket\n"
        "sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "sock.connect(environ['NOTIFY_SOCKET']); sock.send(b'READY=1')\n"
        "for i in range(3): os.fork()\n"
        "while True: sock.send(b'STATUS=busy')\n"
    )
    run = start(place, f"if rank == 0:\n    exec({flood!r})\nup(); gate(); hold()", ranks=3)
    pids = gate.await_ranks(2)
    assert place.http("demo", "/readyz")[0] == 200
    run.wait_line("go: ")
    replay.kill(pids[2], 9)
    why = ended(place, run, 10)
    assert (why["rank"], why["cause"]) == (2, "killed SIGKILL")


def test_too_few_descriptors_are_a_preflight(place):
    """Told before there is a trace of the group; and as many as are asked for are enough."""
    path = ini(place, wild(place, "up(); print('x', flush=True); hold()"), ranks=8)
    run = place.start("prlimit", "--nofile=40:40", TFSUPERVISOR, "run", str(path))
    assert run.wait() == 15, run.told()
    need = int(re.search(r"8 ranks need (\d+) open files here, .* is 40 ", run.last_line)[1])
    assert os.listdir(place.run_dir) == []
    run = place.start("prlimit", f"--nofile={need}:{need}", TFSUPERVISOR, "run", str(path))
    run.wait_line("go: ")
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(15)
    assert run.wait() == 0, run.told()
