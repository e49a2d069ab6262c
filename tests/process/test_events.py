"""The operator's verbs that go along with a group: events, restart, logs, status --watch."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import termios

import pytest

from conftest import DEADLINE_S, TFSUPERVISOR, deadline_after, left

SERVE = (
    "hello",
    "ready:collective,serving",
    "await:GO",
    "say:COLLECTIVE=done|NAME=x",
    "say:SERVING=1",
)

SERVES = r"demo: (go: .*, )?serving\b"
MOMENTS = ("forked", "hello", "ready", "collective_done", "serving", "gone")


def write_ini(place, command, *lines, ranks=2, worker=()):
    return place.write(
        "demo.ini",
        "\n".join(
            ["[group]", "name = demo", f"ranks = {ranks}", *lines, "[worker]"]
            + [f"command = {' '.join(command)}", "gpus = none", *worker, ""]
        ),
    )


def serving(place, *lines, steps=SERVE, **ini):
    run = place.run(write_ini(place, place.rank(*steps, "pause"), *lines, **ini))
    run.wait_line(SERVES)
    return run


def entries(program):
    return [json.loads(line) for line in program.stdout.splitlines()]


def transitions(program, epoch):
    return [
        f"{e['event']} {e.get('rank', '')} {e['from']}>{e['to']}".replace("  ", " ")
        for e in entries(program)
        if "to" in e and e["epoch"] == epoch
    ]


def kill(place, rank):
    os.kill(place.status("demo")["ranks"][rank]["pid"], signal.SIGKILL)


# --- events ---


def test_events_prints_every_transition_of_the_start(place):
    serving(place)
    told = place.call("events", "demo")
    assert told.status == 0
    kinds = [e["event"] for e in entries(told)]
    assert kinds[0] == "epoch-start" and kinds.count("forked") == 2 and kinds.count("go") == 1
    for rank in (0, 1):
        own = [t for t in transitions(told, 1) if t.startswith(f"rank {rank} ")]
        assert own == [
            f"rank {rank} {a}>{b}"
            for a, b in (
                ("starting", "connected"),
                ("connected", "ready"),
                ("ready", "collective"),
                ("collective", "warming"),
                ("warming", "serving"),
            )
        ]
    assert [e["seq"] for e in entries(told)] == list(range(1, len(kinds) + 1))


def test_events_follow_until_the_group_has_ended(place):
    run = serving(place)
    told = place.start(TFSUPERVISOR, "events", "demo", "--follow")
    told.wait_line(r'"to":"serving".*"text":"serving')
    kill(place, 1)
    assert run.wait() == 10
    assert told.wait() == 0
    news = [e for e in entries(told) if e["event"] == "news"][0]
    assert (news["rank"], news["reason"], news["cause"], news["phase"]) == (
        1,
        "RankDisconnected",
        "killed SIGKILL",
        "serving",
    )
    assert transitions(told, 1)[-1] == "group stopping>failed"
    assert entries(told)[-2]["event"] == "epoch-end"
    assert run.last_line == "tfsupervisor: demo: " + entries(told)[-2]["text"]


def test_the_report_has_the_timeline_of_the_start(place):
    run = serving(place)
    assert place.call("stop", "demo").status == 0
    assert run.wait() == 0
    report = json.loads(next(place.state_dir.glob("demo.*.json")).read_text())
    (epoch,) = report["timeline"]
    for rank in epoch["ranks"]:
        moments = [rank[key] for key in MOMENTS]
        assert moments == sorted(moments)
    assert epoch["go_seconds"] == report["go_seconds"]


def test_readers_of_events_leave_places_for_probes(place):
    serving(place)
    readers = []
    for _ in range(13):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(DEADLINE_S)
        sock.connect(str(place.run_dir / "demo" / "health.sock"))
        sock.sendall(b"GET /events HTTP/1.1\r\n\r\n")
        readers.append(sock)
    heads = [sock.recv(12) for sock in readers]
    assert heads == [b"HTTP/1.1 200"] * 12 + [b"HTTP/1.1 503"]
    refused = place.call("events", "demo")
    assert refused.status == 1 and "too many read its events" in refused.stderr
    assert place.http("demo", "/readyz")[0] == 200
    for sock in readers:
        sock.close()


# --- restart ---


def test_restart_returns_when_the_new_epoch_serves(place):
    run = serving(place)
    before = place.rank_pids(run)
    asked = place.call("restart", "demo")
    assert asked.status == 0 and re.search(r"^demo: serving again after ", asked.stdout)
    status = place.status("demo")
    assert (status["epoch"], status["state"], status["reason"]) == (2, "serving", None)
    assert not set(before) & set(place.rank_pids(run))
    assert [epoch["epoch"] for epoch in status["timeline"]] == [1, 2]
    assert place.call("stop", "demo").status == 0
    assert run.wait() == 0


def test_restart_says_why_if_the_group_ends_instead(place):
    steps = place.write(
        "once.sh",
        f"""[ "$TFRANK_EPOCH" = 1 ] || exit 3\nexec {shlex.join(place.rank(*SERVE, 'pause'))}\n""",
    )
    run = place.run(write_ini(place, ["/bin/sh", str(steps)], ranks=1))
    run.wait_line(SERVES)
    asked = place.call("restart", "demo")
    assert asked.status == 1
    assert re.search(r"demo ended instead: RankDisconnected: rank 0 .* exited 3", asked.stderr)
    assert run.wait() == 10


def test_restart_of_no_group_and_of_a_group_that_stops_is_refused(place):
    absent = place.call("restart", "demo")
    assert absent.status == 1 and "there is no group demo" in absent.stderr
    run = serving(place, "stop_timeout = 60s", steps=("ignore:TERM", *SERVE))
    stop = place.start(TFSUPERVISOR, "stop", "demo")
    run.wait_line("stopping: an operator asked")
    refused = place.call("restart", "demo")
    assert refused.status == 1 and "it is being stopped" in refused.stderr
    assert place.http("demo", "/restart", method="POST")[0] == 409
    for pid in place.rank_pids(run):
        os.kill(pid, signal.SIGKILL)
    assert stop.wait() == 0


def test_restart_while_a_lost_epoch_ends_and_out_of_a_backoff_starts_anew(place):
    run = serving(place, "abort_timeout = 60s", steps=("ignore:TERM", *SERVE))
    kill(place, 1)
    run.wait_line("ending the group")
    asked = place.start(TFSUPERVISOR, "restart", "demo")
    told = place.start(TFSUPERVISOR, "events", "demo", "--follow")
    told.wait_line('"event":"restart"')
    kill(place, 0)
    assert asked.wait() == 0
    assert place.status("demo")["epoch"] == 2
    for pid in place.rank_pids(run):
        os.kill(pid, signal.SIGKILL)
    assert run.wait() == 10


def test_restart_ends_a_backoff(place):
    once = place.write(
        "once.sh",
        f"""[ "$TFRANK_EPOCH" = 1 ] && exit 3\nexec {shlex.join(place.rank(*SERVE, 'pause'))}\n""",
    )
    run = place.run(
        write_ini(
            place, ["/bin/sh", str(once)], "restart = on-failure", "restart_backoff = 1m", ranks=1
        )
    )
    run.wait_line("restarting in")
    assert place.call("restart", "demo").status == 0
    assert place.status("demo")["epoch"] == 2


def test_restart_while_loading_begins_again(place):
    run = place.run(write_ini(place, place.rank("hello", "say:PROGRESS=1/2", "pause"), ranks=1))
    run.wait_line("rank 0: loading")
    asked = place.start(TFSUPERVISOR, "restart", "demo")
    run.wait_line("starting 1 rank, epoch 2")
    run.wait_line("rank 0: loading")
    assert asked.running
    asked.signal(signal.SIGINT)
    assert asked.wait() == -signal.SIGINT


def test_restart_of_an_ungated_job_returns_when_its_ranks_run(place):
    run = place.run("--ranks", "2", "--", *place.rank("print:here", "pause"))
    run.wait_line("here")
    asked = place.call("restart", f"run-{run.pid}")
    assert asked.status == 0 and "running again" in asked.stdout
    assert place.status(f"run-{run.pid}")["epoch"] == 2


def test_restart_by_tcp_is_forbidden(place):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    ini = write_ini(place, place.rank(*SERVE, "pause"))
    ini.write_text(ini.read_text() + f"[health]\nhttp = 127.0.0.1:{port}\n")
    place.run(ini).wait_line(SERVES)
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as sock:
        sock.sendall(b"POST /restart HTTP/1.1\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 403 ")
    assert place.status("demo")["epoch"] == 1


# --- logs ---


def test_logs_are_those_of_the_epoch_rank_by_rank(place):
    serving(place, steps=("print:one-{rank}", "print:two-{rank}", *SERVE))
    shown = place.call("logs", "demo")
    assert shown.status == 0
    assert shown.stdout.splitlines() == [
        "[rank 0] one-0",
        "[rank 0] two-0",
        "[rank 1] one-1",
        "[rank 1] two-1",
    ]
    assert place.call("logs", "demo", "--rank", "1").stdout == "[rank 1] one-1\n[rank 1] two-1"
    none = place.call("logs", "demo", "--rank", "7")
    assert none.status == 0 and "rank 7 of group demo has printed nothing" in none.stderr
    wrong = place.call("logs", "demo", "--rank", "x")
    assert wrong.status == 64 and "--rank wants a number" in wrong.stderr


PRINTER = """\
import os, sys
with open(os.environ["TF_FIFO"]) as fifo:
    for line in fifo:
        n = int(line)
        if n == 0:
            sys.exit(0)
        for i in range(n):
            print(f"line {os.environ['TFRANK_EPOCH']}-{i}", flush=True)
"""


class Printer:
    """A job of one rank that prints as many lines as it is told to through a FIFO."""

    def __init__(self, place, *lines, worker=()):
        fifo = place.root / "fifo"
        os.mkfifo(fifo)
        script = place.write("printer.py", PRINTER)
        ini = write_ini(
            place,
            ["/usr/bin/python3", "-S", "-E", str(script)],
            "mode = job",
            *lines,
            ranks=1,
            worker=worker,
        )
        ini.write_text(ini.read_text() + f"[environment]\nTF_FIFO = {fifo}\n")
        self.run = place.run(ini)
        self.fifo = open(fifo, "w", encoding="ascii", buffering=1)

    def say(self, n):
        self.fifo.write(f"{n}\n")


def test_logs_follow_through_rotation_to_the_end(place):
    printer = Printer(place, worker=("log = 4KiB",))
    printer.say(3)
    printer.run.wait_line("line 1-2")
    follow = place.start(TFSUPERVISOR, "logs", "demo", "--follow")
    for _ in range(20):
        printer.say(100)
        follow.wait_line("line 1-99")
        with follow.changed:
            assert [text for _, text in follow.lines[-100:]] == [
                f"[rank 0] line 1-{i}" for i in range(100)
            ]
            follow.lines.clear()
    printer.say(5)
    printer.say(0)
    printer.fifo.close()
    assert printer.run.wait() == 0
    assert follow.wait() == 0
    assert follow.stdout.splitlines() == [f"[rank 0] line 1-{i}" for i in range(5)]


def test_logs_follow_into_the_next_epoch(place):
    serving(place, steps=("print:epoch-{pid}", *SERVE), ranks=1)
    follow = place.start(TFSUPERVISOR, "logs", "demo", "--follow", "--rank", "0")
    first = follow.wait_line(r"epoch-(\d+)").group(1)
    assert place.call("restart", "demo").status == 0
    follow.wait_line(rf"epoch-(?!{first}\b)\d+")
    assert len(place.call("logs", "demo").stdout.splitlines()) == 1
    assert place.call("stop", "demo").status == 0
    assert follow.wait() == 0
    assert len(follow.stdout.splitlines()) == 2


def test_logs_follow_ends_when_all_of_ours_is_killed(place, request):
    run = serving(place, steps=("print:here", *SERVE))
    request.node.add_marker(pytest.mark.leaves_files)
    follow = place.start(TFSUPERVISOR, "logs", "demo", "--follow")
    follow.wait_line("rank 1. here")
    supervisor = place.supervisor_of(run)
    run.signal(signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    run.signal(signal.SIGKILL)
    assert follow.wait() == 0


def test_logs_of_a_gone_group_are_the_tails_of_its_last_report(place):
    nothing = place.call("logs", "demo")
    assert nothing.status == 1 and "there is no group demo" in nothing.stderr
    run = serving(place, steps=("print:last-word-{rank}", *SERVE))
    kill(place, 1)
    assert run.wait() == 10
    shown = place.call("logs", "demo")
    assert shown.status == 0
    assert shown.stdout.splitlines() == ["[rank 0] last-word-0", "[rank 1] last-word-1"]
    assert re.search(r"group demo has gone: these are its last lines, of epoch 1", shown.stderr)
    assert place.call("logs", "demo", "--rank", "1").stdout == "[rank 1] last-word-1"
    assert "nothing was printed by this rank" in place.call("logs", "demo", "--rank", "9").stderr


# --- status --watch ---


class Terminal:
    """A program on a terminal of its own, and what it wrote there."""

    def __init__(self, place, *argv, columns=80, lines=24, **env):
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.written = ""
        self.process = subprocess.Popen(
            [str(word) for word in argv],
            env=place.environment(**{"TERM": "xterm", "NO_COLOR": "", **env}),
            cwd=place.root,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, columns, lines):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def await_text(self, pattern, start=0):
        """The match of the pattern in what was written from `start` on."""
        end = deadline_after(DEADLINE_S)
        while not (found := re.search(pattern, self.written[start:])):
            assert select.select([self.master], [], [], left(end))[0], repr(self.written)
            self.written += os.read(self.master, 65536).decode()
        return found

    def type(self, keys):
        os.write(self.master, keys)

    def wait(self):
        """The exit status, once everything it wrote is read."""
        status = self.process.wait(DEADLINE_S)
        while select.select([self.master], [], [], 0)[0]:
            self.written += os.read(self.master, 65536).decode()
        return status

    def frames(self):
        """Each frame as its rows, without colours."""
        return [
            re.sub(r"\x1b\[[0-9;]*m", "", frame.split("\x1b[J")[0]).split("\x1b[K\r\n")[:-1]
            for frame in self.written.split("\x1b[H")[1:]
        ]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(place):
    opened = []

    def start(*argv, **options):
        opened.append(Terminal(place, TFSUPERVISOR, *argv, **options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


HELD = ("hello", "say:PROGRESS=36/48|UNIT=layer", "only:0", "ready", "only:*", "pause")


def loading(place):
    run = place.run(write_ini(place, place.rank(*HELD)))
    run.wait_line("rank 0: ready")
    run.wait_line("rank 1: loading")
    return run


def test_watch_shows_the_group_in_place_and_q_leaves(place, terminal):
    loading(place)
    watch = terminal("status", "demo", "--watch")
    watch.await_text(r"demo: .*loading.* \(service, epoch 1, pid \d+\)")
    watch.await_text(r"waiting for rank 1, \d+s of 10m \(ready_timeout\)")
    watch.await_text(r"layer 36 of 48")
    assert watch.written.startswith("\x1b[?1049h")
    assert "\x1b[2J" not in watch.written
    assert termios.tcgetattr(watch.slave) != watch.before
    watch.type(b"q")
    assert watch.wait() == 0
    assert termios.tcgetattr(watch.slave) == watch.before
    picture = watch.written.split("\x1b[?1049l")[1]
    assert "rank" in picture and "layer 36 of 48" in picture
    for frame in watch.frames():
        assert len(frame) < 24 and all(len(row) <= 80 for row in frame)


def test_watch_follows_news_at_once_and_tells_the_end(place, terminal):
    run = loading(place)
    watch = terminal("status", "demo", "--watch")
    watch.await_text("layer 36 of 48")
    kill(place, 1)
    assert run.wait() == 10
    assert watch.wait() == 1
    assert re.search(
        r"demo: RankDisconnected: rank 1 \(pid \d+\) was killed by SIGKILL", watch.written
    )


def test_watch_redraws_at_a_resize_within_the_new_size(place, terminal):
    loading(place)
    watch = terminal("status", "demo", "--watch", columns=120)
    watch.await_text("layer 36 of 48")
    start = len(watch.written)
    watch.resize(40, 6)
    watch.await_text(r"\x1b\[H(?s:.)*\x1b\[J", start)
    for frame in watch.frames()[-1:]:
        assert len(frame) < 6 and all(len(row) <= 40 for row in frame)
    watch.type(b"\x03")
    assert watch.wait() == 0


def test_watch_gives_the_terminal_back_at_ctrl_z_and_takes_it_again(place, terminal):
    loading(place)
    watch = terminal("status", "demo", "--watch")
    watch.await_text("layer 36 of 48")
    watch.type(b"\x1a")
    assert os.WIFSTOPPED(os.waitpid(watch.process.pid, os.WUNTRACED)[1])
    assert termios.tcgetattr(watch.slave) == watch.before
    watch.await_text(r"\x1b\[\?1049l")
    start = len(watch.written)
    watch.process.send_signal(signal.SIGCONT)
    watch.await_text(r"\x1b\[\?1049h(?s:.)*layer 36 of 48", start)
    watch.process.send_signal(signal.SIGTERM)
    assert watch.wait() == 0
    assert termios.tcgetattr(watch.slave) == watch.before


def test_watch_has_colours_unless_they_are_unwanted(place, terminal):
    loading(place)
    plain = terminal("status", "demo", "--watch", NO_COLOR="1")
    plain.await_text("layer 36 of 48")
    colored = terminal("status", "demo", "--watch")
    colored.await_text("layer 36 of 48")
    assert "\x1b[33m" in colored.written and not re.search(r"\x1b\[\d*m", plain.written)


def test_watch_elsewhere_is_a_line_for_each_change(place):
    run = loading(place)
    watch = place.start(TFSUPERVISOR, "status", "demo", "--watch")
    watch.wait_line("layer 36 of 48")
    kill(place, 1)
    assert run.wait() == 10
    assert watch.wait() == 1
    changes = [line for line in watch.stdout.splitlines() if re.match(r"\d\d:\d\d:\d\d  ", line)]
    assert re.search("rank 1: gone, killed SIGKILL", "\n".join(changes))
    assert "\x1b" not in watch.stdout
    assert watch.stdout.splitlines()[-1] == run.last_line.removeprefix("tfsupervisor: ")


def test_watch_and_json_are_two_ways_to_look(place):
    wrong = place.call("status", "demo", "--watch", "--json")
    assert wrong.status == 64 and "choose one" in wrong.stderr
