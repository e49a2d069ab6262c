"""`tfworker rank` at the end of a link whose other end is this test."""

import array
import json
import os
import signal
import socket

import pytest

from conftest import DEADLINE_S, SLOW, TFWORKER, stat_of

PF_EXITING = 4
SHAPE = "--layout qwen3 --layers 4 --hidden 64 --intermediate 128 --vocab 512 --seed 7".split()


class Link:
    """One rank and the supervisor's end of its link."""

    def __init__(self, place, rank, *args, world_size=2, before=None):
        self.here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.here.settimeout(DEADLINE_S * SLOW)
        self.rank, self.fds, self.packets = rank, [], []
        if before:
            self.here.send(before)
        self.receipt_path = place.root / f"rank-{rank}.json"
        self.program = place.start(
            TFWORKER,
            "rank",
            place.root / "model",
            "--receipt",
            self.receipt_path,
            *args,
            env={
                "TFRANK_LINK_FD": there.fileno(),
                "TFRANK_RANK": rank,
                "TFRANK_WORLD_SIZE": world_size,
                "TFRANK_EPOCH": 1,
            },
            pass_fds=[there.fileno()],
        )
        there.close()
        self.world_size = world_size

    def say(self, text, fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.here.sendmsg([text.encode()], ancillary)

    def hear(self):
        """The next packet as a dict with its verb, None at the end of the link."""
        data, ancillary, _, _ = self.here.recvmsg(65536, socket.CMSG_SPACE(16))
        for level, kind, payload in ancillary:
            assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            self.fds += array.array("i", payload)
        if not data:
            return None
        lines = [line.split("=", 1) for line in data.decode().splitlines()]
        packet = dict(lines) | {"verb": lines[0][0]}
        self.packets.append(packet)
        return packet

    def await_verb(self, verb):
        while packet := self.hear():
            if packet["verb"] == verb:
                return packet
        pytest.fail(f"rank {self.rank} left before {verb}: {self.verbs}\n{self.program.told()}")

    def drain(self):
        while self.hear():
            pass

    @property
    def verbs(self):
        return [packet["verb"] for packet in self.packets]

    def welcome(self, collective_s=30):
        self.say(
            f"WELCOME=1\nRANK={self.rank}\nWORLD_SIZE={self.world_size}\nEPOCH=1\n"
            f"READY_TIMEOUT_USEC=600000000\nCOLLECTIVE_TIMEOUT_USEC={collective_s * 1000000}\n"
        )

    def end(self):
        """The exit status and the receipt."""
        status = self.program.wait()
        self.here.close()
        return status, json.loads(self.receipt_path.read_text())


@pytest.fixture
def model(place):
    assert place.start(TFWORKER, "synth", place.root / "model", *SHAPE).wait() == 0
    return place.root / "model"


def to_ready(links):
    """Speaks as the supervisor does until all are ready."""
    for link in links:
        assert link.hear()["verb"] == "HELLO"
        link.welcome()
    given = links[0].await_verb("GROUP_ID")
    for link in links[1:]:
        link.say(f"GROUP_ID={given['GROUP_ID']}\n", links[0].fds)
    for fd in links[0].fds:
        os.close(fd)
    return [link.await_verb("READY") for link in links]


def go(links):
    for link in links:
        link.say("GO=1\n")


def pair(place, *args):
    return [Link(place, rank, *args) for rank in (0, 1)]


def test_a_rank_speaks_in_the_order_of_the_contract(place, model):
    links = pair(place)
    ready = to_ready(links)
    assert [packet["THEN"] for packet in ready] == ["collective,serving"] * 2
    go(links)
    for link in links:
        assert link.hear() == {"verb": "COLLECTIVE", "COLLECTIVE": "begin", "NAME": "gather"}
        assert link.hear() == {"verb": "COLLECTIVE", "COLLECTIVE": "done", "NAME": "gather"}
        assert link.hear() == {"verb": "SERVING", "SERVING": "1"}
        link.say("STOP=1\nGRACE_USEC=8000000\n")
        assert link.hear() is None
    hellos = [link.packets[0] for link in links]
    assert hellos[0]["SETTINGS"] == hellos[1]["SETTINGS"]
    assert [link.verbs.count("GROUP_ID") for link in links] == [1, 0]
    for link in links:
        status, receipt = link.end()
        assert (status, receipt["outcome"]) == (0, "served")
        assert receipt["gather"]["wrong"] == 0 and receipt["gather"]["elements"] > 0
        assert receipt["abort"] is None and receipt["error"] is None
        known = [ns for ns in receipt["moments_ns"].values() if ns]
        assert known == sorted(known) and len(known) == len(receipt["moments_ns"])


def test_progress_rises_to_the_whole_before_ready(place, model):
    link = Link(place, 0, world_size=1)
    to_ready([link])
    told = [packet for packet in link.packets if packet["verb"] == "PROGRESS"]
    done = [int(packet["PROGRESS"].split("/")[0]) for packet in told]
    assert done == sorted(done)
    assert told[-1]["PROGRESS"] == "4/4" and told[-1]["UNIT"] == "layer"
    part, whole = told[-1]["BYTES"].split("/")
    assert part == whole
    link.say("STOP=1\n")
    status, receipt = link.end()
    assert (status, receipt["outcome"]) == (0, "stopped")
    assert receipt["load"]["bytes"] == int(whole)


def test_checksums_of_the_ranks_add_up_to_that_of_verify(place, model):
    links = pair(place, "--once")
    to_ready(links)
    go(links)
    total = 0
    for link in links:
        link.drain()
        status, receipt = link.end()
        assert (status, receipt["outcome"]) == (0, "done")
        assert link.verbs[-1] == "COLLECTIVE" and receipt["moments_ns"]["serving"] is None
        total += int(receipt["load"]["checksum"], 16)
    verify = place.start(TFWORKER, "verify", model)
    assert verify.wait() == 0
    assert f"{total % 2**64:016x}" in verify.stdout


def test_sums_of_expert_slots_equal_the_reference(place, model):
    links = pair(place, "--once", "--sum")
    to_ready(links)
    go(links)
    for link in links:
        link.drain()
        status, receipt = link.end()
        assert status == 0
        assert receipt["sum"]["wrong"] == 0 and receipt["sum"]["rows"] > 67
        assert receipt["gather"]["wrong"] == 0


def test_a_rank_that_is_done_leaves_its_link_to_its_exit(place, model):
    link = Link(place, 0, "--once", world_size=1)
    to_ready([link])
    go([link])
    link.drain()
    stat = stat_of(link.program.pid)
    assert stat == [] or stat[0] in (b"Z", b"X") or int(stat[6]) & PF_EXITING
    assert link.end()[0] == 0


def abort(reason="RankDisconnected", rank=1, detail="rank 1 was killed by SIGKILL"):
    return f"ABORT={reason}\nRANK={rank}\nDETAIL={detail}\n"


def assert_aborted(link):
    link.drain()
    status, receipt = link.end()
    assert (status, receipt["outcome"]) == (1, "aborted")
    assert receipt["abort"] == {
        "reason": "RankDisconnected",
        "rank": 1,
        "detail": "rank 1 was killed by SIGKILL",
    }
    assert "rank 1 was killed by SIGKILL" in link.program.stdout
    return receipt


def test_an_abort_before_the_load_ends_it(place, model):
    link = Link(place, 0, before=abort().encode())
    receipt = assert_aborted(link)
    assert receipt["moments_ns"]["ready"] is None and "READY" not in link.verbs


def test_an_abort_while_held_in_the_load_ends_it(place, model):
    link = Link(place, 1, "--drill", "gone", "--delay", "10m")
    link.await_verb("PROGRESS")
    link.say(abort())
    receipt = assert_aborted(link)
    assert receipt["moments_ns"]["ready"] is None


def test_an_abort_while_waiting_for_go_ends_the_wait(place, model):
    links = pair(place)
    to_ready(links)
    links[0].say(abort())
    receipt = assert_aborted(links[0])
    assert receipt["moments_ns"]["go"] is None
    links[1].say("STOP=1\n")
    links[1].end()


def test_an_abort_in_the_collective_ends_it(place, model):
    link = Link(place, 0)
    to_ready([link])
    go([link])
    link.await_verb("COLLECTIVE")
    link.say(abort())
    receipt = assert_aborted(link)
    assert receipt["moments_ns"]["collective_begin"]
    assert receipt["moments_ns"]["collective_done"] is None


@pytest.mark.parametrize("last", ["HELLO", "READY", "COLLECTIVE"])
def test_a_dead_supervisor_ends_the_rank_wherever_it_is(place, model, last):
    link = Link(place, 0)
    if last == "HELLO":
        link.await_verb("HELLO")
    else:
        to_ready([link])
    if last == "COLLECTIVE":
        go([link])
        link.await_verb("COLLECTIVE")
    link.here.close()
    status, receipt = link.end()
    assert (status, receipt["outcome"]) == (1, "closed")


def test_sigterm_without_a_stop_ends_as_the_signal_does(place, model):
    link = Link(place, 0)
    to_ready([link])
    link.program.signal(signal.SIGTERM)
    link.drain()
    status, receipt = link.end()
    assert (status, receipt["outcome"]) == (-signal.SIGTERM, "signalled")


def test_sigterm_behind_a_stop_is_the_stop(place, model):
    link = Link(place, 0)
    to_ready([link])
    link.say("STOP=1\nGRACE_USEC=8000000\n")
    link.program.signal(signal.SIGTERM)
    link.drain()
    status, receipt = link.end()
    assert (status, receipt["outcome"]) == (0, "stopped")


def test_a_bad_checkpoint_is_told_before_hello_with_file_and_error(place, model):
    shard = next(model.glob("*.safetensors"))
    with shard.open("r+b") as file:
        file.truncate(shard.stat().st_size - 1)
    link = Link(place, 0)
    packet = link.hear()
    assert packet["verb"] == "FAILED" and shard.name in packet["FAILED"]
    assert link.hear() is None
    status, receipt = link.end()
    assert (status, receipt["outcome"]) == (1, "failed")
    assert receipt["error"]["text"] == packet["FAILED"]
    assert shard.name in link.program.stderr


def test_a_missing_checkpoint_is_told_with_its_errno(place):
    link = Link(place, 0)
    packet = link.hear()
    assert packet["verb"] == "FAILED" and packet["ERRNO"] == "2"
    assert "model" in packet["FAILED"]
    assert link.end()[0] == 1


def test_go_without_a_group_id_is_refused(place, model):
    link = Link(place, 1)
    assert link.hear()["verb"] == "HELLO"
    link.welcome()
    link.await_verb("READY")
    go([link])
    assert "group id" in link.await_verb("FAILED")["FAILED"]
    assert link.end()[0] == 1


def test_a_group_id_of_another_kind_is_refused(place, model):
    link = Link(place, 1, before=b"GROUP_ID=AAAA\n")
    while (packet := link.hear())["verb"] != "FAILED":
        if packet["verb"] == "READY":
            go([link])
    assert "group id of 3 bytes" in packet["FAILED"]
    assert link.end()[0] == 1


def test_the_work_loop_pets_the_watchdog_while_serving(place, model):
    link = Link(place, 0, "--watchdog", "10ms", world_size=1)
    to_ready([link])
    go([link])
    for _ in range(3):
        link.await_verb("WATCHDOG")
    assert link.verbs.index("WATCHDOG") > link.verbs.index("SERVING")
    link.say("STOP=1\n")
    link.drain()
    assert link.end()[1]["outcome"] == "served"


def test_different_settings_give_different_digests(place, model):
    links = [Link(place, 0), Link(place, 1, "--sum")]
    digests = [link.hear()["SETTINGS"] for link in links]
    assert digests[0] != digests[1]
    for link in links:
        link.say("STOP=1\n")
        link.end()


def test_by_hand_a_rank_runs_without_a_supervisor(place, model):
    run = place.start(TFWORKER, "rank", model, "--once")
    assert run.wait() == 0
    assert "0 of" in run.stdout and "elements wrong" in run.stdout


def test_a_link_that_is_none_is_refused_by_name(place, model):
    run = place.start(TFWORKER, "rank", model, env={"TFRANK_LINK_FD": "77"})
    assert run.wait() == 1
    assert "TFRANK_LINK_FD=77" in run.stderr


def test_a_receipt_that_cannot_be_written_is_an_error(place, model):
    run = place.start(TFWORKER, "rank", model, "--once", "--receipt", place.root / "no" / "r.json")
    assert run.wait() == 1
    assert "no/r.json" in run.stderr


@pytest.mark.parametrize(
    "args, word",
    [
        ([], "one folder"),
        (["a", "b"], "one folder"),
        (["--threads", "0", "a"], "'0'"),
        (["--drill", "slow", "a"], "'slow'"),
        (["--drill", "none", "a"], "'none'"),
        (["--delay", "7", "a"], "'7'"),
        (["--backend", "cuda", "a"], "'cuda'"),
        (["--nothing", "a"], "'--nothing'"),
        (["a", "--receipt"], "--receipt"),
    ],
)
def test_a_wrong_command_line_is_64_with_the_usage(place, args, word):
    run = place.start(TFWORKER, "rank", *args)
    assert run.wait() == 64
    assert word in run.stderr and "usage: tfworker rank DIR" in run.stderr


def test_the_verbs_are_listed_and_others_refused(place):
    for args, status in ((["--help"], 0), ([], 64), (["rnak"], 64)):
        run = place.start(TFWORKER, *args)
        assert run.wait() == status
        assert all(verb in run.text() for verb in ("rank", "synth", "plan", "verify"))
    assert "rnak" in run.stderr
