"""
A rank for tests that speaks the link by hand: its arguments are steps, done in this order.

    hello[:DIGEST]   says HELLO with this settings digest (default "aa")
    ready[:WORDS]    says READY, THEN=WORDS if there are any (collective,serving)
    say:LINES        sends LINES as one packet; "|" stands for a newline
    await:VERB       reads packets until one of this verb comes; an EOF ends the rank with 9
    await:any        reads one packet
    print:TEXT       a line on standard output; {rank} and {pid} are filled in
    print-packet     the last packet read, as one line
    ignore:TERM      ignores a signal
    leader           becomes the leader of a session of its own
    fork             forks; the child goes on with the steps, the parent skips to after `endfork`
    endfork          the child waits here for ever
    close            closes the link
    kill:SIG         sends itself a signal
    exit:N           exits
    pause            waits for ever
    only:N           does what follows only if this is rank N, up to the next `only`; `only:*` is all

After the last step the rank exits 0.
"""

import os
import signal
import socket
import sys

RANK = os.environ.get("RANK", "0")


def fill(text):
    return text.replace("{rank}", RANK).replace("{pid}", str(os.getpid()))


def end_of(steps, i):
    return steps.index("endfork", i) if "endfork" in steps[i:] else len(steps) - 1


def main(steps):
    link = None
    if "TFRANK_LINK_FD" in os.environ:
        link = socket.socket(fileno=int(os.environ["TFRANK_LINK_FD"]))
    packet, mine, i = "", True, 0
    while i < len(steps):
        word, _, rest = steps[i].partition(":")
        if word == "only":
            mine = rest in ("*", RANK)
        elif not mine:
            pass
        elif word == "hello":
            link.send(f"HELLO=1\nPROTOCOL=1\nSETTINGS={rest or 'aa'}\n".encode())
        elif word == "ready":
            link.send(f"READY=1\nTHEN={rest}\n".encode() if rest else b"READY=1\n")
        elif word == "say":
            link.send(rest.replace("|", "\n").encode())
        elif word == "await":
            while True:
                packet = link.recv(65536).decode()
                if not packet:
                    sys.exit(9)
                if rest == "any" or packet.startswith(rest + "="):
                    break
        elif word == "print":
            print(fill(rest), flush=True)
        elif word == "print-packet":
            print(packet.strip().replace("\n", " "), flush=True)
        elif word == "ignore":
            signal.signal(getattr(signal, "SIG" + rest), signal.SIG_IGN)
        elif word == "leader":
            os.setsid()
        elif word == "fork":
            if os.fork():
                i = end_of(steps, i)
        elif word == "close":
            link.close()
        elif word == "kill":
            os.kill(os.getpid(), getattr(signal, "SIG" + rest))
        elif word == "exit":
            sys.stdout.flush()
            os._exit(int(rest))
        elif word in ("pause", "endfork"):
            while True:
                signal.pause()
        else:
            sys.exit(f"link_rank.py: no step {steps[i]!r}")
        i += 1


main(sys.argv[1:])
