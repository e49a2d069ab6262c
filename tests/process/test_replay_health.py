"""Replays of health that lies: what probes and verbs say of a group in each of its states."""

import errno
import os
import resource
import select
import socket
import time

import pytest
import replay
from replay import ended, ini, report, start, wild


def asked(place, path, name="demo"):
    """The status of the answer; None if nobody answers any more."""
    try:
        return place.http(name, path)[0]
    except (OSError, IndexError):
        return None


def test_health_lies(place):
    """Asked when the death is there, readyz never says yes, and the exit status is not 0."""
    gate = replay.Gate(place)
    for i in replay.times(100, 10):
        run = start(place, "up(); gate(); hear('ABORT')", ranks=3)
        pids = gate.await_ranks(3)
        run.wait_line("go: ")
        assert asked(place, "/readyz") == 200
        gate.release()
        pidfd = os.pidfd_open(pids[i % 3])
        replay.kill(pids[i % 3], 9)
        assert replay.pidfd_ended(pidfd)
        assert asked(place, "/readyz") in (503, None), run.told()
        os.close(pidfd)
        assert run.wait() == 10


def test_health_lies_to_nobody_while_loading(place):
    gate = replay.Gate(place)
    run = start(place, "hello(); progress(1, 4); gate(); hold()")
    gate.await_ranks(2)
    for path, status in (("/startupz", 503), ("/readyz", 503), ("/livez", 200)):
        assert asked(place, path) == status
    told = place.call("status", "demo")
    assert told.status == 3 and "1/4 layer" in told.stdout
    run.signal(15)
    assert run.wait() == 0


def test_health_lies_at_the_judgement_of_a_quiet_leave(place):
    """A service's rank that left with 0 is judged 50 ms later: until then nobody says ready."""
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); posix._exit(0) if rank else hear('ABORT')")
    pids = gate.await_ranks(2)
    run.wait_line("go: ")
    pidfd = os.pidfd_open(pids[1])
    gate.release()
    assert replay.pidfd_ended(pidfd)
    assert asked(place, "/readyz") in (503, None)
    os.close(pidfd)
    assert run.wait() == 10


def flood(path, n):
    """n connections that say nothing, made as fast as they are taken."""
    socks = []
    poll = select.poll()
    end = replay.deadline_after(20)
    while len(socks) < n:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        while (error := sock.connect_ex(path)) == errno.EAGAIN:
            assert replay.left(end), f"{len(socks)} of {n} taken"
            poll.poll(1)
        assert error == 0, errno.errorcode[error]
        socks.append(sock)
    return socks


def cpu_seconds(pid):
    user, system = replay.stat_of(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_status_flood(place):
    """1,000 silent clients at 64 descriptors while 8 ranks load and go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip(f"the test itself needs 2,048 descriptors; the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    gate = replay.Gate(place)
    run = place.run(
        ini(place, wild(place, "hello(); gate(); ready(); hear('GO'); gate(); hold()"), ranks=8),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    )
    gate.await_ranks(8)
    supervisor = place.supervisor_of(run)
    socks = flood(str(place.run_dir / "demo" / "health.sock"), 1000)
    assert asked(place, "/startupz") == 503
    began = time.monotonic()
    gate.release()
    gate.await_ranks(8)
    assert time.monotonic() - began < 2 * replay.SLOW
    for _ in range(20):
        assert asked(place, "/readyz") == 200
    assert place.call("status", "demo").status == 0
    assert cpu_seconds(supervisor) < 1.5
    assert len(os.listdir(f"/proc/{supervisor}/fd")) <= 64
    run.signal(15)
    assert run.wait() == 0, run.told()
    for sock in socks:
        sock.close()


def test_status_flood_of_half_requests(place):
    """Clients that stop in the middle of their request are dropped for those who ask."""
    gate = replay.Gate(place)
    run = start(place, "up(); gate(); hold()")
    gate.await_ranks(2)
    run.wait_line("go: ")
    socks = []
    endless = b"GET /status HTTP/1.1\r\nX: " + b"y" * 9000
    for piece in (b"G", b"GET /readyz HTTP/1.1\r\n", endless) * 30:
        (sock,) = flood(str(place.run_dir / "demo" / "health.sock"), 1)
        try:
            sock.send(piece)
        except OSError:
            pass
        socks.append(sock)
        assert asked(place, "/readyz") == 200
    run.signal(15)
    assert run.wait() == 0


# Where two ranks must be for the group to be in this state, and what is said of it then:
# status, --startup, --ready, --live.
STATES = {
    "starting": ("gate(); hold()", 3, 1, 1, 0),
    "loading": ("hello(); progress(1, 2); gate(); hold()", 3, 1, 1, 0),
    "loading (one ready)": ("hello(); ready() if rank else None; gate(); hold()", 3, 1, 1, 0),
    "collective": ("up('collective'); gate(); hold()", 3, 0, 1, 0),
    "warming": ("up('serving'); gate(); hold()", 3, 0, 1, 0),
    "serving": ("up(); gate(); hold()", 0, 0, 0, 0),
    "stopping": ("ignore('TERM'); up(); gate(); hear('STOP'); gate(); hold()", 3, 1, 1, 0),
    "stopping (lost)": ("ignore('TERM'); up(); gate(); hear('ABORT'); gate(); hold()", 1, 1, 1, 1),
}


@pytest.mark.parametrize("state", STATES)
def test_every_state(place, state):
    code, status, startup, ready, live = STATES[state]
    gate = replay.Gate(place)
    ranks = 3 if "lost" in state else 2
    run = start(place, code, ranks=ranks, stop_timeout="2s", abort_timeout="60s")
    pids = gate.await_ranks(ranks)
    if state.startswith("stopping"):
        gate.release()
        run.signal(15) if "lost" not in state else replay.kill(pids[2], 9)
        gate.await_ranks(2)
    replay.await_that(lambda: place.status("demo")["state"] == state.split()[0])
    assert place.call("status", "demo").status == status
    for option, expected in (("--startup", startup), ("--ready", ready), ("--live", live)):
        assert place.call("health", "demo", option).status == expected, option
    told = place.call("status", "demo", "--json")
    assert f'"state":"{state.split()[0]}"' in told.stdout
    if "lost" in state:
        assert place.status("demo")["reason"]["rank"] == 2
        assert "rank 2" in place.call("status", "demo").stdout
        gate.release()
    stop = place.call("stop", "demo")
    assert stop.status == 0, stop.told()
    assert run.wait() == (10 if "lost" in state else 0), run.told()
    for verb in ("status", "health", "stop"):
        assert place.call(verb, "demo").status == 1, verb
    why = place.call("why", "demo")
    if "lost" in state:
        assert why.status == 0 and "killed SIGKILL" in why.stdout
    else:
        assert report(place)["reason"] is None


def test_why_knows_each_reason(place):
    cases = {
        "RankDisconnected": (10, "posix._exit(3)"),
        "RankTimeout": (11, "hello(); hold()"),
        "RankMismatch": (12, "hello(f'{rank}a'); hold()"),
        "RankProtocol": (13, "hello(); say('SERVING=1\\n'); hold()"),
        "SpawnFailed": (14, ["/nonexistent/program"]),
    }
    runs = {
        name: start(place, code, name=name, load_timeout="900ms", abort_timeout="200ms")
        for name, (_, code) in cases.items()
    }
    for name, (status, _) in cases.items():
        assert ended(place, runs[name], status, name)["name"] == name
        why = place.call("why", name)
        assert why.status == 0 and name in why.stdout
        assert name in runs[name].last_line and "rank " in runs[name].last_line
    listed = place.call("why", "--list")
    assert listed.status == 0 and all(name in listed.stdout for name in cases)


def test_stop_twice_by_verb_is_one_stop(place):
    """Two clients may ask for the same stop: nobody is hurried by it."""
    gate = replay.Gate(place)
    slow = "_signal.signal(15, lambda *_: (time.sleep(0.8), tell('saved'), posix._exit(0)))"
    run = start(place, f"{slow}; up(); gate(); hold()", stop_timeout="1h")
    gate.await_ranks(2)
    stops = [place.start(replay.TFSUPERVISOR, "stop", "demo") for _ in range(4)]
    assert [stop.wait() for stop in stops] == [0] * 4
    assert run.wait() == 0 and run.stdout.count("saved") == 2
