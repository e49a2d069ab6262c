"""The status page, in a real browser."""

import os
import re
import signal
import socket

import pytest

import browser as chromium

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="chromium and chromedriver are not installed"
)

HOSTILE = "<img src=x onerror=document.title=1><script>alert(1)</script>"

# Rank 0 is ready at once; rank 1 does as it is told through a FIFO, in every epoch.
TOLD = """\
import os, signal, socket
link = socket.socket(fileno=int(os.environ["TFRANK_LINK_FD"]))
link.send(b"HELLO=1\\nPROTOCOL=1\\nSETTINGS=aa\\n")
print("opening shard 1 of 4", flush=True)
link.send(b"PROGRESS=1/48\\nUNIT=layer\\nBYTES=1000000000/48000000000\\n")
with open(os.environ["TF_FIFO"]) as fifo:
    for line in fifo:
        word, _, rest = line.strip().partition(" ")
        if word == "say":
            link.send(rest.replace("|", "\\n").encode())
        elif word == "print":
            print(rest, flush=True)
        elif word == "exit":
            os._exit(int(rest))
signal.pause()
"""


class Group:
    def __init__(self, place, *lines):
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port = sock.getsockname()[1]
        fifo = place.root / "fifo"
        os.mkfifo(fifo)
        told = place.write("told.py", TOLD)
        first = place.rank(
            "hello",
            "say:PROGRESS=48/48|UNIT=layer|BYTES=48000000000/48000000000",
            "ready:collective,serving",
            "await:GO",
            "say:COLLECTIVE=begin|NAME=gather",
            "say:COLLECTIVE=done|NAME=gather",
            "say:SERVING=1",
            "pause",
        )
        self.place = place
        self.ini = place.write(
            "demo.ini",
            "\n".join(
                ["[group]", "name = demo", "ranks = 2", *lines, "[worker]"]
                + [f"command = {' '.join(first)}", "gpus = none", "[worker.1]"]
                + [f"command = /usr/bin/python3 -S -E {told}", "[environment]", f"TF_FIFO = {fifo}"]
                + ["[health]", f"http = 127.0.0.1:{self.port}", ""]
            ),
        )
        self.run = place.run(self.ini)
        self.run.wait_line("rank 0: ready")
        self.fifo = open(fifo, "w", encoding="utf-8", buffering=1)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def tell(self, line):
        self.fifo.write(line + "\n")

    def load(self, done):
        self.tell(f"say PROGRESS={done}/48|UNIT=layer|BYTES={done}000000000/48000000000")

    def serve(self):
        self.load(48)
        self.tell("say READY=1|THEN=collective,serving")
        self.run.wait_line("go: all 2 ranks ready")
        self.tell("say COLLECTIVE=begin|NAME=gather")
        self.tell("say COLLECTIVE=done|NAME=gather")
        self.tell("say SERVING=1")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    one = chromium.Browser(tmp_path_factory.mktemp("browser"))
    yield one
    one.close()


@pytest.fixture
def browser(opened):
    yield opened
    opened.forget()


def bars(browser):
    """Of every rank's bar its name, value and text, as a screen reader is told."""
    return browser.run(
        "return Array.from(document.querySelectorAll('[role=progressbar]'), bar => "
        "['aria-label', 'aria-valuenow', 'aria-valuetext'].map(name => bar.getAttribute(name)))"
    )


def test_a_load_is_shown_rank_by_rank_with_who_is_waited_for(place, browser):
    group = Group(place)
    browser.open(group.url)
    browser.await_text("1 of 2 ready, waiting for rank 1")
    browser.await_text(r"ready_timeout: [0-9.]+ s of 10 min")
    browser.await_text("layer 1 of 48")
    for done in (12, 24, 36):
        group.load(done)
        browser.await_text(f"layer {done} of 48")
    browser.await_text(r"layer 36 of 48, [0-9.]+ GiB/s, about \d+ s left")
    assert bars(browser) == [
        ["Load of rank 0", "100", "ready, layer 48 of 48"],
        ["Load of rank 1", "75", "loading, layer 36 of 48"],
    ]
    browser.shot("loading")
    assert browser.run("return document.title") == "demo: loading"
    assert browser.complaints() == []


def test_a_late_rank_go_and_serving_follow_without_asking(place, browser):
    group = Group(place)
    browser.open(group.url)
    browser.await_text("waiting for rank 1")
    group.load(40)
    browser.await_text("layer 40 of 48")
    browser.shot("late")
    group.load(48)
    group.tell("say READY=1|THEN=collective,serving")
    browser.await_text("Go was given")
    browser.shot("go")
    group.tell("say COLLECTIVE=begin|NAME=gather")
    group.tell("say COLLECTIVE=done|NAME=gather")
    group.tell("say SERVING=1")
    browser.await_text(r"All 2 ranks serve\..*go after [0-9.]+ s, the last ready [0-9.]+ s behind")
    browser.shot("serving")
    lanes = browser.run(
        "return Array.from(document.querySelectorAll('.lane'), l => l.getAttribute('aria-label'))"
    )
    assert re.match(
        r"Rank 1: starting for .* s, (said hello for .* s, )?loading for .* s, .*"
        r"first collective for .* s, .*serving after .* s$",
        lanes[1],
    )
    assert browser.complaints() == []


def test_a_failure_is_told_with_its_last_lines_and_the_end_of_the_supervisor(place, browser):
    group = Group(place)
    browser.open(group.url)
    browser.await_text("waiting for rank 1")
    group.load(36)
    group.tell("print CUDA out of memory")
    group.run.wait_line("CUDA out of memory")
    browser.await_text("layer 36 of 48")
    group.tell("exit 3")
    assert group.run.wait() == 10
    browser.await_text("The group has ended")
    browser.await_text("RankDisconnected.*exited 3.*opening shard 1 of 4\nCUDA out of memory")
    browser.await_text(r"Last lines of rank 1.*tfsupervisor why demo")
    browser.shot("failure")
    assert browser.run("return document.querySelector('#badge').textContent") == "failed"


def test_a_restart_keeps_the_failure_and_the_start_before_it(place, browser):
    group = Group(place, "restart = on-failure", "restart_backoff = 1s")
    group.serve()
    group.run.wait_line(r"demo: serving\b")
    browser.open(group.url)
    browser.await_text("All 2 ranks serve")
    os.kill(place.status("demo")["ranks"][0]["pid"], signal.SIGKILL)
    browser.await_text("restarting soon|It will be started anew|epoch 2", "s")
    browser.await_text("service · epoch 2")
    group.run.wait_line("starting 2 ranks, epoch 2")
    browser.await_text("Epoch 2 .now..*Epoch 1 .*RankDisconnected")
    browser.await_text("Failure of epoch 1: RankDisconnected.*SIGKILL")
    browser.await_text("1 of 2 ready, waiting for rank 1")
    browser.run("document.querySelectorAll('#timeline details').forEach(d => { d.open = true; })")
    browser.shot("restart")
    assert browser.complaints() == []


def test_the_page_says_when_the_supervisor_is_gone_and_finds_the_next_one(place, browser):
    group = Group(place)
    browser.open(group.url)
    browser.await_text("waiting for rank 1")
    supervisor = place.supervisor_of(group.run)
    os.kill(supervisor, signal.SIGKILL)
    browser.await_text("The supervisor is gone")
    browser.shot("gone")
    group.run.wait()
    again = place.run(group.ini)
    again.wait_line("rank 0: ready")
    browser.await_text("^(?!.*is gone).*1 of 2 ready, waiting for rank 1", seconds=60)


def test_what_ranks_write_is_text_and_nothing_comes_from_elsewhere(place, browser):
    group = Group(place)
    group.tell(f"say STATUS={HOSTILE}")
    browser.open(group.url)
    browser.await_text(re.escape(HOSTILE))
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("return document.title") == "demo: loading"
    assert browser.complaints() == []
    loaded = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded and all(name.startswith(group.url) for name in loaded)
    # The policy holds: whatever got in could not run.
    smuggled = "Object.assign(document.createElement('script'), {text: 'x = 1'})"
    browser.run(f"document.body.append({smuggled})")
    assert browser.run("return typeof window.x") == "undefined"
    assert re.search("content security policy", "".join(browser.complaints()), re.I)
    group.tell(f"print {HOSTILE}")
    group.run.wait_line("onerror")
    group.tell("exit 1")
    browser.await_text("Last lines of rank 1.*" + re.escape(HOSTILE))
    assert browser.run("return document.querySelectorAll('main img, main script').length") == 0


def test_it_fits_a_phone_in_the_dark_and_is_worked_by_keyboard(place, browser):
    group = Group(place, "restart = on-failure", "restart_backoff = 1s")
    browser.devtools(
        "Emulation.setDeviceMetricsOverride",
        width=360,
        height=1400,
        deviceScaleFactor=1,
        mobile=True,
    )
    browser.devtools(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    group.tell("say STATUS=a-word-without-any-end-" + "x" * 200)
    group.tell("print " + "a line without any end " * 20)
    group.run.wait_line("a line without any end")
    group.tell("exit 1")
    group.run.wait_line("starting 2 ranks, epoch 2")
    browser.open(group.url)
    browser.await_text("Failure of epoch 1")
    browser.await_text("waiting for rank 1")
    browser.shot("phone-dark")
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")
    background = "return getComputedStyle(document.body).backgroundColor"
    assert browser.run(background) == "rgb(18, 22, 27)"
    focused = []
    for _ in range(6):
        for kind in ("rawKeyDown", "keyUp"):
            browser.devtools(
                "Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9
            )
        focused.append(browser.run("return document.activeElement.tagName"))
    assert "SUMMARY" in focused and "PRE" in focused
    landmarks = (
        "return ['header', 'main', 'h1', '[aria-live=polite]', '[role=alert]'].map("
        "what => document.querySelectorAll(what).length)"
    )
    assert browser.run(landmarks) == [1, 1, 1, 1, 1]


def test_a_large_group_shows_whom_it_waits_for_first(place, browser):
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    steps = ("hello", "only:97", "pause", "only:*", "ready", "pause")
    ini = place.write(
        "many.ini",
        f"[group]\nname = many\nranks = 100\n[worker]\ncommand = {' '.join(place.rank(*steps))}\n"
        f"gpus = none\n[health]\nhttp = 127.0.0.1:{port}\n",
    )
    run = place.run(ini)
    for rank in (0, 98, 99):
        run.wait_line(f"rank {rank}: ready", 60)
    browser.open(f"http://127.0.0.1:{port}/")
    browser.await_text("waiting for rank 97", seconds=60)
    first = "return document.querySelector('.rank .rank-name').textContent"
    assert browser.run(first) == "Rank 97"
    assert browser.run("return document.querySelectorAll('.rank').length") == 64
    browser.run("document.querySelector('#more').click()")
    assert browser.run("return document.querySelectorAll('.rank').length") == 100
    browser.shot("many")
    assert place.call("stop", "many", seconds=60).status == 0
