"""What NCCL itself does when ranks are killed, stopped or late: questions that only a GPU answers. Each finds its own
processes (tests/gpu/nccl_rank.cc), several ranks on one GPU by distinct NCCL_HOSTIDs, and returns lines for people.
"""
import contextlib
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import time

IN_PROGRESS = 7
NAMES = {0: "success", 1: "CUDA error", 2: "system error", 3: "internal error", 4: "invalid argument",
         5: "invalid usage", 6: "remote error", IN_PROGRESS: "in progress", -1: "not asked", -2: "stuck", -3: "absent"}
FLOATS = 1 << 20
QUIET_S = 5  # in which a survivor that is told of a loss learns it


class Stuck(Exception):
    """A rank did not answer in time."""


# For several ranks on one GPU, each a host of its own: over loopback, with few blocks each.
ON_ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2"}


def environment(rank, **more):
    names = {"NCCL_HOSTID": f"check-{rank}", "CUDA_MODULE_LOADING": "LAZY", "NCCL_RAS_ENABLE": "0",
             "NCCL_RUNTIME_CONNECT": "0"}
    return {**os.environ, **ON_ONE_GPU, **names, **more}


class Rank:
    def __init__(self, program, rank, **more):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=environment(rank, **more))
        self.buffer = b""

    def say(self, *words):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.process.stdin.flush()

    def answer(self, timeout=90):
        until = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                raise Stuck(f"no answer within {timeout} s" if not ready else "the process ended")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, *words, timeout=90):
        self.say(*words)
        return self.answer(timeout)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextlib.contextmanager
def ranks(program, count=3, **more):
    started = [Rank(program, rank, **more) for rank in range(count)]
    try:
        yield started
    finally:
        for rank in started:
            rank.end()


@contextlib.contextmanager
def unique_id(program):
    """In a process that is thrown away with the threads that the id leaves behind."""
    helper = Rank(program, "id")
    try:
        yield helper.ask("id")["id"]
    finally:
        helper.end()


def each(members, *words, timeout=30):
    """All at once; returns their answers."""
    for member in members:
        member.say(*words)
    return [member.answer(timeout) for member in members]


def build(program, members, name, timeout=90):
    """All of them at once; returns their answers."""
    with unique_id(program) as text:
        for rank, member in enumerate(members):
            member.say("init", name, text, len(members), rank)
        return [member.answer(timeout) for member in members]


def busy(program, members, name="a"):
    built = build(program, members, name)
    if any(answer["code"] != 0 for answer in built):
        raise Stuck(f"no communicator to begin with: {built}")
    for member in members:
        member.ask("loop", name, FLOATS)
    until = time.monotonic() + 60
    while members[0].ask("stats", name)["sums"] < 10:
        if time.monotonic() > until:
            raise Stuck("no ten sums within 60 s")
        time.sleep(0.01)


def spread(values):
    values = sorted(values)
    return f"{statistics.median(values):.0f} ms [{values[0]:.0f} to {values[-1]:.0f}]" if values else "none"


def facts(program):
    with ranks(program, 1) as (only,):
        return only.ask("facts")


def connecting(program):
    """Two ranks by host id: what init costs and what the first sums of two sizes cost, connected early and late."""
    lines = []
    for late in ("1", "0"):
        with ranks(program, 2, NCCL_RUNTIME_CONNECT=late) as members:
            before = members[0].ask("resources")
            built = build(program, members, "a")
            if any(answer["code"] != 0 for answer in built):
                raise Stuck(f"NCCL_RUNTIME_CONNECT={late}: no communicator: {built}")
            sums = [each(members, "sum", "a", floats) for floats in (1000, 1000, FLOATS, FLOATS)]
            after = members[0].ask("resources")
            took = ", ".join(f"{max(answer['ms'] for answer in answers):.1f}" for answers in sums)
            codes = {answer["code"] for answers in sums for answer in answers} - {0}
            if codes:
                raise Stuck(f"NCCL_RUNTIME_CONNECT={late}: sums ended with {[NAMES.get(code, code) for code in codes]}")
            lines.append(f"NCCL_RUNTIME_CONNECT={late}: init {max(a['ms'] for a in built):.0f} ms, first and second sum of "
                         f"4 KB and of {4 * FLOATS >> 20} MB {took} ms, "
                         f"{(after['gpu_bytes'] - before['gpu_bytes']) / 1e6:.0f} MB of the GPU")
    return lines


def abort_behind_work(program, seconds):
    """Whether an abort waits for other work of the device: kernels that are queued in another stream."""
    lines = []
    for wanted in seconds:
        with ranks(program, 2) as members:
            busy(program, members)
            queued = members[0].ask("busy", 1000 * wanted)["ms"]
            answer = members[0].ask("abort", "a", 20_000, timeout=60)
            lines.append(f"{queued / 1000:.1f} s queued: {answer['ms']:.0f} ms"
                         + (" and not done" if answer["code"] == -2 else ""))
    return ["; ".join(lines)]


def lonely_builds(program, count):
    """Builds whose peer never comes, aborted: what they leave behind."""
    with ranks(program, 1) as (only,):
        before = only.ask("resources")
        times = []
        for number in range(count):
            with unique_id(program) as text:
                only.ask("init", f"l{number}", text, 2, 0, 100)
                answer = only.ask("abort", f"l{number}", 20_000, timeout=60)
            if answer["code"] == -2:
                raise Stuck(f"the abort of build {number + 1} takes longer than 20 s")
            times.append(answer["ms"])
        after = only.ask("resources")
    changes = ", ".join(f"{name} {before[name]} to {after[name]}" for name in before)
    return [f"{count} builds: {changes}; abort {spread(times)}"]


def kernels(program, floats):
    with ranks(program, 1) as (only,):
        speeds = only.ask("kernels", floats)
    return [f"prepare {speeds['prepare_gb_per_s']:.0f} GB/s, square sum {speeds['square_sum_gb_per_s']:.0f} GB/s, "
            f"of {4 * floats / 1e6:.0f} MB"]


def kill_in_mid_collective(program):
    """(a) What survivors learn of a peer that was killed, and whether Shrink works then."""
    lines = []
    with ranks(program) as (first, second, victim):
        busy(program, (first, second, victim))
        victim.end()
        killed = time.monotonic()
        news = {}
        while len(news) < 2 and time.monotonic() < killed + QUIET_S:
            for number, rank in enumerate((first, second)):
                code = rank.ask("error", "a")["code"]
                if number not in news and code not in (0, IN_PROGRESS):
                    news[number] = (NAMES.get(code, code), (time.monotonic() - killed) * 1000)
            time.sleep(0.01)
        for number in range(2):
            name, after = news.get(number, (f"nothing in {QUIET_S} s", 0))
            lines.append(f"survivor {number}: async error: {name}, after {after:.0f} ms")
        for rank in (first, second):
            rank.say("shrink", "a", "b", 1, 2)
        answers = []
        for rank in (first, second):
            with contextlib.suppress(Stuck):
                answers.append(rank.answer(15))
        lines.append("Shrink with ABORT: " + ", ".join(f"{NAMES.get(a['code'], a['code'])} ({a.get('ms', 0):.0f} ms)"
                                                      for a in answers) + " (trap 1 where it is the error above)")
    return lines


def side_builds(program, count, loading):
    """(b) Builds beside a communicator in use: how long they take, and the longest pause of the other one."""
    times, gaps, stuck = [], [], 0
    with ranks(program, CUDA_MODULE_LOADING=loading) as members:
        busy(program, members)
        for member in members:
            member.ask("stats", "a")
        for number in range(count):
            try:
                built = build(program, members, f"b{number}", timeout=30)
            except Stuck:
                stuck += 1
                break
            times += [answer["ms"] for answer in built]
            for member in members:
                member.say("abort", f"b{number}", 5000)
            for member in members:
                member.answer(30)
            gaps += [member.ask("stats", "a")["longest_ms"] for member in members]
    return [f"{loading}: {len(times) // 3} builds of {count}, {spread(times)}; longest pause of the other "
            f"{spread(gaps)}; deadlocks {stuck}"]


def abort_latency(program, count, stop):
    """(c) How long ncclCommAbort takes for those that wait for a peer that was killed or is stopped."""
    times, stuck = [], 0
    for _ in range(count):
        with ranks(program) as (first, second, victim):
            busy(program, (first, second, victim))
            victim.signal(signal.SIGSTOP if stop else signal.SIGKILL)
            time.sleep(0.3)
            for rank in (first, second):
                rank.say("abort", "a", 5000)
            for rank in (first, second):
                answer = rank.answer(30)
                times.append(answer["ms"])
                stuck += answer["code"] == -2
    return [f"{'stopped' if stop else 'killed'} peer: {spread(times)}, {stuck} of {len(times)} longer than 5 s"]


def leaks(program, count):
    """(d) Descriptors, threads and GPU memory over many generations."""
    with ranks(program) as members:
        seen = []
        for number in range(count):
            build(program, members, "g")
            for member in members:
                member.say("abort", "g", 5000)
            for member in members:
                member.answer(30)
            if number in (count // 10, count - 1):
                seen.append(members[0].ask("resources"))
    before, after = seen
    changes = ", ".join(f"{name} {before[name]} to {after[name]}" for name in before)
    return [f"from generation {count // 10 + 1} to {count}: {changes}"]


def fresh_after_loss(program, revoke):
    """(e) From a kill to a communicator of the survivors, with and without Revoke before it."""
    with ranks(program) as (first, second, victim):
        busy(program, (first, second, victim))
        victim.end()
        survivors = (first, second)
        begin = time.monotonic()
        for verb in (["revoke", "a"] if revoke else ["abort", "a", 5000],):
            for rank in survivors:
                rank.say(*verb)
            answers = [rank.answer(30) for rank in survivors]
        built = build(program, survivors, "b")
        took = (time.monotonic() - begin) * 1000
    name = "Revoke, then a fresh one" if revoke else "Abort, then a fresh one"
    codes = [NAMES.get(answer["code"], answer["code"]) for answer in answers + built]
    return [f"{name}: {took:.0f} ms ({', '.join(map(str, codes))})"]


def shrink_or_fresh(program, count):
    """(g) A communicator for two of three ranks, nobody lost: shrunk from that of the three, and afresh."""
    times = {"shrink": [], "init": []}
    with ranks(program) as members:
        stay = members[:2]
        for number in range(count):
            build(program, members, "parent")
            for rank in stay:
                rank.say("shrink", "parent", "child", 0, 2)
            shrunk = [rank.answer(30) for rank in stay]
            fresh = build(program, stay, "fresh")
            for verb, answers in (("shrink", shrunk), ("init", fresh)):
                if any(answer["code"] != 0 for answer in answers):
                    codes = ", ".join(NAMES.get(answer["code"], str(answer["code"])) for answer in answers)
                    return [f"{verb} {number + 1}: {codes}"]
                times[verb].append(max(answer["ms"] for answer in answers))
            for name, owners in (("child", stay), ("fresh", stay), ("parent", members)):
                for rank in owners:
                    rank.say("abort", name, 5000)
                for rank in owners:
                    rank.answer(30)
    return [f"Shrink {spread(times['shrink'])}, a fresh one {spread(times['init'])}, of {count} each"]


def ras_while_hung(program):
    """(f) What the RAS service says of a rank that is stopped."""
    address = "127.0.0.1:28328"
    with ranks(program, NCCL_RAS_ENABLE="1", NCCL_RAS_ADDR=address) as (first, second, victim):
        busy(program, (first, second, victim))
        victim.signal(signal.SIGSTOP)
        time.sleep(2)
        try:
            with socket.create_connection(("127.0.0.1", 28328), timeout=10) as link:
                link.settimeout(15)
                link.sendall(b"SET FORMAT json\nVERBOSE STATUS\n")
                answer = b""
                with contextlib.suppress(TimeoutError):
                    while piece := link.recv(65536):
                        answer += piece
        except OSError as error:
            return [f"no answer: {error}"]
    text = answer.decode(errors="replace")
    return [f"{len(answer)} bytes; begins: {' '.join(text.split())[:200]}"]
