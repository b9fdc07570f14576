"""What NCCL itself does when ranks are killed, stopped or late: questions that only a GPU answers. Each finds its own processes
(tests/gpu/nccl_rank.cc), several ranks on one GPU by distinct NCCL_HOSTIDs, and returns lines for people."""

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


def spread(values):
    values = sorted(values)
    return f"{statistics.median(values):.0f} ms [{values[0]:.0f} to {values[-1]:.0f}]" if values else "none"


def facts(program):
    with ranks(program, 1) as (only,):
        return only.ask("facts")


def names_of(answers):
    return ", ".join(NAMES.get(answer["code"], str(answer["code"])) for answer in answers)


def built_or_stuck(program, members, name, what):
    built = build(program, members, name)
    if any(answer["code"] != 0 for answer in built):
        raise Stuck(f"{what}: {built}")
    return built


def busy(program, members, name="a"):
    built_or_stuck(program, members, name, "no communicator to begin with")
    for member in members:
        member.ask("loop", name, FLOATS)
    until = time.monotonic() + 60
    while members[0].ask("stats", name)["sums"] < 10:
        if time.monotonic() > until:
            raise Stuck("no ten sums within 60 s")
        time.sleep(0.01)


def from_to(before, after):
    return ", ".join(f"{name} {before[name]} to {after[name]}" for name in before)


def connecting(program):
    """Two ranks by host id: what init costs and what the first sums of two sizes cost, connected early and late."""
    for late in ("1", "0"):
        with ranks(program, 2, NCCL_RUNTIME_CONNECT=late) as members:
            before = members[0].ask("resources")
            built = built_or_stuck(program, members, "a", f"NCCL_RUNTIME_CONNECT={late}: no communicator")
            sums = [each(members, "sum", "a", floats) for floats in (1000, 1000, FLOATS, FLOATS)]
            after = members[0].ask("resources")
        failed = [answer for answers in sums for answer in answers if answer["code"] != 0]
        if failed:
            raise Stuck(f"NCCL_RUNTIME_CONNECT={late}: sums ended with {names_of(failed)}")
        took = ", ".join(f"{max(answer['ms'] for answer in answers):.1f}" for answers in sums)
        yield (f"NCCL_RUNTIME_CONNECT={late}: init {max(a['ms'] for a in built):.0f} ms, first and second sum of 4 KB and of "
               f"{4 * FLOATS >> 20} MB {took} ms, {(after['gpu_bytes'] - before['gpu_bytes']) / 1e6:.0f} MB of the GPU")


def abort_behind_work(program, seconds):
    """Whether an abort waits for other work of the device: kernels that are queued in another stream."""
    lines = []
    for wanted in seconds:
        with ranks(program, 2) as members:
            busy(program, members)
            queued = members[0].ask("busy", 1000 * wanted)["ms"]
            answer = members[0].ask("abort", "a", 20_000, timeout=60)
            lines.append(f"{queued / 1000:.1f} s queued: {answer['ms']:.0f} ms" + (" and not done" if answer["code"] == -2 else ""))
    yield "; ".join(lines)


def lonely_builds(program, count):
    """Builds whose peer never comes, aborted: what they leave behind."""
    with ranks(program, 1) as (only,):
        before, times = only.ask("resources"), []
        for number in range(count):
            with unique_id(program) as text:
                only.ask("init", f"l{number}", text, 2, 0, 100)
                answer = only.ask("abort", f"l{number}", 20_000, timeout=60)
            if answer["code"] == -2:
                raise Stuck(f"the abort of build {number + 1} takes longer than 20 s")
            times.append(answer["ms"])
        yield f"{count} builds: {from_to(before, only.ask('resources'))}; abort {spread(times)}"


def kernels(program, floats):
    with ranks(program, 1) as (only,):
        speeds = only.ask("kernels", floats)
    yield (f"prepare {speeds['prepare_gb_per_s']:.0f} GB/s, square sum {speeds['square_sum_gb_per_s']:.0f} GB/s, of "
           f"{4 * floats / 1e6:.0f} MB")


def kill_in_mid_collective(program):
    """(a) What survivors learn of a peer that was killed, and whether Shrink works then."""
    with ranks(program) as members:
        busy(program, members)
        *survivors, victim = members
        victim.end()
        killed, news = time.monotonic(), {}
        while len(news) < 2 and time.monotonic() < killed + QUIET_S:
            for number, rank in enumerate(survivors):
                code = rank.ask("error", "a")["code"]
                if number not in news and code not in (0, IN_PROGRESS):
                    news[number] = (NAMES.get(code, code), (time.monotonic() - killed) * 1000)
            time.sleep(0.01)
        for number in range(2):
            name, after = news.get(number, (f"nothing in {QUIET_S} s", 0))
            yield f"survivor {number}: async error: {name}, after {after:.0f} ms"
        for rank in survivors:
            rank.say("shrink", "a", "b", 1, 2)
        answers = []
        for rank in survivors:
            with contextlib.suppress(Stuck):
                answers.append(rank.answer(15))
        yield ("Shrink with ABORT: " + ", ".join(f"{NAMES.get(a['code'], a['code'])} ({a.get('ms', 0):.0f} ms)" for a in answers)
               + " (trap 1 where it is the error above)")


def side_builds(program, count, loading):
    """(b) Builds beside a communicator in use: how long they take, and the longest pause of the other one."""
    times, pauses, stuck = [], [], 0
    with ranks(program, CUDA_MODULE_LOADING=loading) as members:
        busy(program, members)
        each(members, "stats", "a")
        for number in range(count):
            try:
                built = build(program, members, f"b{number}", timeout=30)
            except Stuck:
                stuck += 1
                break
            times += [answer["ms"] for answer in built]
            each(members, "abort", f"b{number}", 5000)
            pauses += [member.ask("stats", "a")["longest_ms"] for member in members]
    yield (f"{loading}: {len(times) // 3} builds of {count}, {spread(times)}; longest pause of the other {spread(pauses)}; "
           f"deadlocks {stuck}")


def abort_latency(program, count, stop):
    """(c) How long ncclCommAbort takes for those that wait for a peer that was killed or is stopped."""
    answers = []
    for _ in range(count):
        with ranks(program) as members:
            busy(program, members)
            members[2].signal(signal.SIGSTOP if stop else signal.SIGKILL)
            time.sleep(0.3)
            answers += each(members[:2], "abort", "a", 5000)
    stuck = sum(answer["code"] == -2 for answer in answers)
    yield (f"{'stopped' if stop else 'killed'} peer: {spread([answer['ms'] for answer in answers])}, {stuck} of {len(answers)} longer "
           "than 5 s")


def leaks(program, count):
    """(d) Descriptors, threads and GPU memory over many generations."""
    with ranks(program) as members:
        seen = []
        for number in range(count):
            build(program, members, "g")
            each(members, "abort", "g", 5000)
            if number in (count // 10, count - 1):
                seen.append(members[0].ask("resources"))
    yield f"from generation {count // 10 + 1} to {count}: {from_to(*seen)}"


def fresh_after_loss(program, revoke):
    """(e) From a kill to a communicator of the survivors, with and without Revoke before it."""
    with ranks(program) as members:
        busy(program, members)
        members[2].end()
        begin = time.monotonic()
        answers = each(members[:2], *(["revoke", "a"] if revoke else ["abort", "a", 5000]))
        answers += build(program, members[:2], "b")
        took = (time.monotonic() - begin) * 1000
    yield f"{'Revoke' if revoke else 'Abort'}, then a fresh one: {took:.0f} ms ({names_of(answers)})"


def shrink_or_fresh(program, count):
    """(g) A communicator for two of three ranks, nobody lost: shrunk from that of the three, and afresh."""
    times = {"shrink": [], "init": []}
    with ranks(program) as members:
        stay = members[:2]
        for number in range(count):
            build(program, members, "parent")
            shrunk = each(stay, "shrink", "parent", "child", 0, 2)
            for verb, answers in (("shrink", shrunk), ("init", build(program, stay, "fresh"))):
                if any(answer["code"] != 0 for answer in answers):
                    yield f"{verb} {number + 1}: {names_of(answers)}"
                    return
                times[verb].append(max(answer["ms"] for answer in answers))
            for name, owners in (("child", stay), ("fresh", stay), ("parent", members)):
                each(owners, "abort", name, 5000)
    yield f"Shrink {spread(times['shrink'])}, a fresh one {spread(times['init'])}, of {count} each"


def ras_while_hung(program):
    """(f) What the RAS service says of a rank that is stopped."""
    with ranks(program, NCCL_RAS_ENABLE="1", NCCL_RAS_ADDR="127.0.0.1:28328") as members:
        busy(program, members)
        members[2].signal(signal.SIGSTOP)
        time.sleep(2)
        answer = b""
        try:
            with socket.create_connection(("127.0.0.1", 28328), timeout=10) as link:
                link.settimeout(15)
                link.sendall(b"SET FORMAT json\nVERBOSE STATUS\n")
                with contextlib.suppress(TimeoutError):
                    while piece := link.recv(65536):
                        answer += piece
        except OSError as error:
            yield f"no answer: {error}"
            return
    yield f"{len(answer)} bytes; begins: {' '.join(answer.decode(errors='replace').split())[:200]}"
