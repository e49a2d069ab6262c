"""Replays of loads that go wrong: who is waited for, for how long, and what go means."""

import re

import pytest
import replay
from replay import ended, report, start, wild


def test_skew_inside_bound(place):
    gate = replay.Gate(place)
    run = start(
        place,
        "hello(); gate() if rank == 1 else None; ready(); hear('GO'); tell('up'); hold()",
        ready_timeout="3s",
    )
    gate.await_ranks(1)
    run.wait_line(r"90 % of ready_timeout = 3s has passed; late: rank 1 ")
    gate.release()
    for rank in (0, 1):
        run.wait_line(rf"\[rank {rank}\] up", stream="out")
    run.signal(15)
    assert run.wait() == 0
    assert "RankTimeout" not in run.text()


def test_skew_past_bound(place):
    """Packets of progress do not stretch the bound of a rank that is never ready."""
    run = start(
        place,
        "hello()\n"
        "if rank == 1:\n"
        "    progress(36, 48)\n"
        "    while True: time.sleep(0.02); progress(36, 48)\n"
        "ready(); hear('ABORT'); tell('aborted'); hold()",
        ready_timeout="400ms",
    )
    why = ended(place, run, 11)
    assert (why["name"], why["rank"], why["bound"], why["phase"]) == (
        "RankTimeout",
        1,
        "ready",
        "loading",
    )
    assert (why["progress"]["done"], why["progress"]["total"]) == (36, 48)
    for word in ("rank 1", "layer 36 of 48", "ready_timeout = 400ms"):
        assert word in run.last_line
    assert "[rank 0] aborted" in run.stdout


def test_no_early_go(place):
    gate = replay.Gate(place)
    run = start(
        place,
        "hello(); hear('WELCOME')\n"
        "if rank == 7: gate(); tell(f'ready at {now()}')\n"
        "ready(); packet = link.recv(65536).decode()\n"
        "tell(f'{packet.split(chr(10))[0]} at {now()}'); hold()",
        ranks=8,
    )
    gate.await_ranks(1)
    for rank in range(7):
        run.wait_line(rf"demo: rank {rank}: ready")
    assert "GO" not in run.stdout and place.http("demo", "/startupz")[0] == 503
    gate.release()
    last = int(run.wait_line(r"\[rank 7\] ready at (\d+)", stream="out")[1])
    for rank in range(8):
        go = int(run.wait_line(rf"\[rank {rank}\] GO=1 at (\d+)", stream="out")[1])
        assert go > last
    run.signal(15)
    assert run.wait() == 0


@pytest.mark.parametrize(
    "code, bound, phase",
    [
        ("hello()", "load", "connected"),
        ("pass", "load", "starting"),
        ("hello(); progress(1, 2)", "ready", "loading"),
        ("hello()", "stall", "connected"),
    ],
)
def test_silent_rank(place, code, bound, phase):
    run = start(
        place,
        f"if rank == 1:\n    {code}\n    hold()\nhello(); ready(); hear('ABORT')",
        **{f"{bound}_timeout": "700ms"},
    )
    why = ended(place, run, 11)
    assert (why["name"], why["rank"], why["bound"], why["phase"]) == (
        "RankTimeout",
        1,
        bound,
        phase,
    )
    assert f"{bound}_timeout" in run.last_line and "rank 1" in run.last_line


def test_unmodified_job_runs_to_its_end(place):
    """Its time is beyond every bound, and it says nothing on link or output."""
    run = start(
        place,
        ["sleep", "0.5"],
        mode="job",
        **{f"{bound}_timeout": "50ms" for bound in ("load", "ready", "stall", "collective")},
    )
    status = None
    assert run.wait() == 0, run.told()
    assert "job done: all 2 ranks exited 0" in run.last_line
    assert status is None and report(place)["reason"] is None


def test_unmodified_service_is_told_what_it_needs(place):
    path = replay.ini(place, ["sleep", "1000"], load_timeout="200ms")
    told = place.call("check", path)
    assert told.status == 0
    assert "load_timeout" in told.stdout and "ready" in told.stdout
    run = place.run(path)
    why = ended(place, run, 11)
    assert (why["name"], why["bound"]) == ("RankTimeout", "load")
    assert "load_timeout = 200ms" in run.last_line


UP = "up(); tell('up'); hold()"


@pytest.mark.parametrize(
    "wrap",
    [
        ["sh", "-c", '"$@" & wait', "sh"],
        ["sh", "-c", '"$@"; exit $?', "sh"],
        ["sh", "-c", 'trap "" HUP; "$@" & wait $!', "sh"],
        ["nice", "-n", "1"],
        ["env", "-u", "FOO"],
        ["setsid", "--wait"],
        ["sudo", "-E", "-C", "1024"],
        ["numactl", "--all"],
        ["timeout", "1000"],
    ],
    ids=lambda wrap: "-".join(wrap[:2]),
)
def test_wrapper_shell(place, wrap):
    """The worker below the wrapper goes, and its end ends the group, tree empty."""
    replay.needs_program(wrap[0])
    gate = replay.Gate(place)
    run = start(place, [*wrap, *wild(place, "up(); gate(); hold()")])
    pids = gate.await_ranks(2)
    run.wait_line("go: ")
    assert place.http("demo", "/readyz")[0] == 200
    replay.kill(pids[1], 9)
    why = ended(place, run, 10)
    assert (why["name"], why["rank"]) == ("RankDisconnected", 1)


def test_wrapper_shell_stops_with_its_worker(place):
    gate = replay.Gate(place)
    run = start(place, ["sh", "-c", '"$@" & wait', "sh", *wild(place, "up(); gate(); hold()")])
    gate.await_ranks(2)
    run.signal(15)
    assert run.wait() == 0


def test_wrapper_shell_that_closes_what_it_does_not_know(place):
    """As sudo does: the link is not missed before a HELLO, and the notify socket serves."""
    code = (
        "import socket, posix\n"
        "posix.closerange(3, 65536)\n"
        "sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "sock.sendto(b'READY=1', environ['NOTIFY_SOCKET']); tell('said'); hold()"
    )
    run = start(place, code.replace("posix.closerange", "link.detach(); posix.closerange"))
    run.wait_line("go: ")
    assert place.http("demo", "/readyz")[0] == 200
    run.signal(15)
    assert run.wait() == 0


def test_wrapper_shell_job_without_the_link(place):
    run = start(
        place,
        "posix.closerange(3, 65536); link.detach(); tell('worked'); posix._exit(0)",
        mode="job",
    )
    assert run.wait() == 0, run.told()
    assert sorted(run.stdout.splitlines()) == ["[rank 0] worked", "[rank 1] worked"]


@pytest.mark.parametrize("python", [["-m", "timeit"], ["-m", "json.tool", "/dev/null"]])
def test_wrapper_shell_python_m(place, python):
    run = start(place, ["/usr/bin/python3", *python], mode="job", ranks=1)
    expected = 0 if python[1] == "timeit" else 10
    assert run.wait() == expected, run.told()


def test_eof_before_hello_is_no_loss(place):
    gate = replay.Gate(place)
    run = start(place, "link.close(); gate(); tell('alive'); posix._exit(0)", mode="job")
    gate.await_ranks(2)
    assert {rank["state"] for rank in place.status("demo")["ranks"]} == {"starting"}
    gate.release()
    assert run.wait() == 0, run.told()


def test_connect_while_loading(place):
    """From the first moment: there is no such file yet, or an answer; never a refusal."""
    import errno
    import socket

    for i in replay.times(40, 8):
        run = start(place, "up(); hold()", name=f"c{i}")
        path = str(place.run_dir / f"c{i}" / "health.sock")
        answers = []
        while len(answers) < 3:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                error = sock.connect_ex(path)
                assert error in (0, errno.ENOENT), errno.errorcode[error]
                if error == 0:
                    sock.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answers.append(sock.recv(65536))
            assert run.running
        assert all(re.match(rb"HTTP/1.1 (200|503) ", answer) for answer in answers)
        run.signal(15)
        assert run.wait() == 0


def test_connect_while_loading_from_the_rank_itself(place):
    """The socket listens before the first fork."""
    run = start(
        place,
        "sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)\n"
        "sock.connect(argv[0] + '/health.sock')\n"
        "sock.send(b'GET /livez HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "tell(sock.recv(4096).decode().split('\\r')[0])",
        place.run_dir / "demo",
        ranks=1,
        mode="job",
    )
    assert run.wait() == 0, run.told()
    assert "[rank 0] HTTP/1.1 200 OK" in run.stdout
