"""
A rank for tests that does the Python in the file that its first argument names; further arguments
are argv[].
Only what the interpreter has built in is loaded at the start: hundreds of these are started.

    rank, world, link      its number, the size of the group, its socket (None where it has none)
    say(TEXT)              one packet
    hello() ready(THEN) progress(DONE, TOTAL) failed(TEXT)
    hear(VERB)             reads packets until one has this verb, returns it; an ABORT that is not
                           asked for makes it exit 0, EOF 9
    up(THEN)               hello, ready, hear GO
    tell(TEXT)             a line on standard output
    now()                  CLOCK_MONOTONIC in nanoseconds
    ignore(SIGNAL...)      by number or name
    die(SIGNAL)            by a signal to itself
    gate(NAME)             meets the test at its Gate of this name, and waits to be let through
    child(CODE)            forks a child of its own that does CODE; its pid
    escape(CODE, PREPARE)  a grandchild in a session of its own that does PREPARE, then CODE; returns
                           when it is prepared
    hold()                 waits for ever
"""

import _signal
import _socket
import posix
import sys
import time

environ = {key.decode(): value.decode() for key, value in posix.environ.items()}
rank = int(environ.get("RANK", 0))
world = int(environ.get("WORLD_SIZE", 1))
argv = sys.argv[2:]
link = None
if "TFRANK_LINK_FD" in environ:
    link = _socket.socket(fileno=int(environ["TFRANK_LINK_FD"]))
now = time.monotonic_ns


def say(text):
    link.send(text.encode() if isinstance(text, str) else text)


def hello(digest="aa"):
    say(f"HELLO=1\nPROTOCOL=1\nSETTINGS={digest}\n")


def ready(then=""):
    say("READY=1\n" + (f"THEN={then}\n" if then else ""))


def progress(done, total, unit="layer"):
    say(f"PROGRESS={done}/{total}\nUNIT={unit}\n")


def failed(text):
    say(f"FAILED={text}\n")


def hear(verb):
    while packet := link.recv(65536).decode():
        if packet.startswith(verb + "="):
            return packet
        if packet.startswith("ABORT="):
            posix._exit(0)
    posix._exit(9)


def up(then=""):
    hello()
    ready(then)
    hear("GO")


def tell(text):
    data = f"{text}\n".encode()
    while data:
        data = data[posix.write(1, data) :]


def number_of(signal):
    return signal if isinstance(signal, int) else getattr(_signal, "SIG" + signal)


def ignore(*signals):
    for signal in signals:
        _signal.signal(number_of(signal), _signal.SIG_IGN)


def die(signal):
    if number_of(signal) != _signal.SIGKILL:
        _signal.signal(number_of(signal), _signal.SIG_DFL)
    posix.kill(posix.getpid(), number_of(signal))


def gate(name="gate"):
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.connect(name)
    sock.send(f"{rank} {posix.getpid()}\n".encode())
    sock.recv(1)
    sock.close()


def child(code):
    pid = posix.fork()
    if pid == 0:
        try:
            exec(code, globals())
        finally:
            posix._exit(0)
    return pid


def escape(code="hold()", prepare=""):
    mine, theirs = posix.pipe()
    pid = posix.fork()
    if pid == 0:
        posix.setsid()
        if posix.fork() == 0:
            exec(prepare, globals())
            posix.write(theirs, b"x")
            posix.close(mine)
            posix.close(theirs)
            try:
                exec(code, globals())
            finally:
                posix._exit(0)
        posix._exit(0)
    posix.waitpid(pid, 0)
    posix.close(theirs)
    posix.read(mine, 1)
    posix.close(mine)


def hold():
    # pause() would sleep over a signal that came just before it, its handler not yet run.
    wakes, wake = posix.pipe()
    posix.set_blocking(wake, False)
    _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        posix.read(wakes, 4096)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        what = file.read()
    exec(what, globals())
