"""What a second user may try to say to a cluster, and what must come of it."""

import json
import os
import random

REFUSED, TAKEN = "refused", "taken"


def join(**changes):
    return {"command": "join", "protocol": 1, "job": None, "run": "liar", "directory": "/nowhere/liar", "pid": 1, "min": 1,
            "max": 2, "start": 1, "lease": 0, "holds": [], "samples_total": None, "suspend": [],
            "wishes": {"one_host": False, "most_hosts": 0, "hosts": []}, **changes}


def wishes(**changes):
    return join(wishes={"one_host": False, "most_hosts": 0, "hosts": [], **changes})


def report(**changes):
    return {"report": {"lease": 0, "holds": [], "phase": "waiting", "workers": 0, "step": 0, "samples": 0, "samples_total": None,
                       "rates": [], "memory_bytes": 0, "wants": None, "lost_hosts": [], **changes}}


def rate(**changes):
    return report(rates=[{"workers": 1, "hosts": 1, "samples_per_s": 1.0, "views": 3, **changes}])


def submit(**changes):
    return {"command": "submit", "job": {"name": "theirs", "min": 1, "max": 2, "start": 1, **changes}}


def holds(slots, host="localhost"):
    return [{"host": host, "slots": slots}]


def no_requests():
    yield "no JSON", ["nonsense"]
    yield "an empty line", [""]
    yield "an object of nothing", ["{}"]
    for text in ("7", "[]", "null", '"join"', "true"):
        yield "no object: " + text, [text]
    yield "a request that is cut off", ['{"command":"queue"']
    yield "deep lists", ["[" * 100_000]
    yield "deep objects", ['{"a":' * 20_000]
    yield "zero bytes", ["\0" * 100]
    yield "no UTF-8", ["\xff\xfe\x80"]
    yield "a line that is too long", ["x" * 300_000]
    for command in ("nothing", 7, None, "", "x" * 300, ["queue"]):
        yield f"command {str(command)[:20]}", [{"command": command}]
    yield "the word join where it is no command", [{"command": "que", "text": '"join"'}]


def bad_submissions():
    yield "no job", [{"command": "submit"}]
    yield "a list as a job", [{"command": "submit", "job": []}]
    for changes in ({"name": ""}, {"name": "x" * 300}, {"name": "a\nb"}, {"min": 0}, {"min": 2, "max": 1}, {"start": 9},
                    {"min": 5, "max": 5, "start": 5}, {"min": -1}, {"max": 1e300}, {"hosts": ["nowhere"]},
                    {"hosts": ["localhost"] * 5000}, {"hosts": "localhost"}, {"priority": 999}, {"priority": "high"},
                    {"deadline_s": -1}, {"arguments": 7}, {"environment": ["A=\0"]}, {"working_directory": "/a\nb"},
                    {"one_host": "yes"}, {"most_hosts": -1}, {"samples_total": -5}):
        yield "a submission with " + json.dumps(changes)[:40], [submit(**changes)]


def orders_on(owner):
    for job in (owner["id"], owner["name"]):
        for command in ("cancel", "pause", "resume"):
            yield f"{command} {job}", [{"command": command, "job": job}]
        yield f"priority {job}", [{"command": "priority", "job": job, "priority": -5}]
    yield "a job that is not there", [{"command": "cancel", "job": "j999999"}]
    yield "no job to cancel", [{"command": "cancel"}]
    yield "priority without end", [{"command": "priority", "job": owner["id"], "priority": 1e300}]


def bad_joins(owner):
    yield "the job of another user", [join(job=owner["id"])]
    yield "the job and the name of another user", [join(job=owner["id"], run=owner["name"], directory=owner["directory"])]
    for changes in ({"protocol": 2}, {"protocol": None}, {"run": None}, {"run": "x" * 300}, {"directory": "relative"},
                    {"directory": 7}, {"directory": "/" + "x" * 5000}, {"pid": 0}, {"pid": -1}, {"min": 0}, {"min": 3},
                    {"start": 3}, {"min": 100_000, "max": 100_000, "start": 100_000}, {"lease": 9}, {"lease": -1},
                    {"priority": 1000}, {"priority": "x"}, {"deadline_s": -1}, {"suspend": ["magic"]}, {"suspend": "file"},
                    {"samples_total": 1e30}, {"holds": 7}):
        yield "a join with " + json.dumps(changes)[:40], [join(**changes)]
    for name, claimed in (("slots of another job", holds(owner["slots"])), ("a free slot", holds(owner["free"][:1])),
                          ("a slot that is not there", holds([9])), ("a negative slot", holds([-1])),
                          ("one slot twice", holds([0, 0])), ("one host twice", holds([2]) + holds([3])),
                          ("a host that is not there", holds([0], "elsewhere")), ("a host that is an option", holds([0], "--kubeconfig=x")),
                          ("a host with a blank", holds([0], "a b")), ("too many slots", holds(list(range(1024)))),
                          ("too many hosts", [{"host": f"h{i}", "slots": [0]} for i in range(3000)])):
        yield "a join that claims " + name, [join(holds=claimed)]
    for wish in ({"hosts": ["nowhere"]}, {"hosts": ["localhost"] * 5000}, {"most_hosts": -1}, {"one_host": 7}):
        yield "a wish for " + json.dumps(wish)[:40], [wishes(**wish)]


def bad_messages(owner):
    """The join is taken, the next line is not."""
    for name, said in (("the same again", join()), ("nonsense", "nonsense"), ("a request", {"command": "queue"}),
                       ("nothing of a report", {"report": {}}), ("an end of nothing", {"ended": {}}),
                       ("status 300", {"ended": {"status": 300}}), ("a lease that nobody gave", report(lease=99)),
                       ("a slot of another job", report(holds=holds(owner["slots"][:1]))), ("a phase", report(phase="flying")),
                       ("samples below 0", report(samples=-1)), ("memory without end", report(memory_bytes=1e300)),
                       ("a wish below 0", report(wants=-1)), ("a speed that is text", rate(samples_per_s="3")),
                       ("a speed below 0", rate(samples_per_s=-1)), ("a speed that is none", '{"report":{"rates":[NaN]}}'),
                       ("a speed of no worker", rate(workers=0)), ("lost hosts as text", report(lost_hosts="localhost")),
                       ("a line that is too long", "x" * 300_000)):
        yield "a run that says " + name, [join(), said]


def before_joining():
    yield "a report before the join", [report()]
    yield "an end before the join", [{"ended": {"status": 0}}]


def taken(places, owner):
    """Nothing of these is a lie that can be seen. What they name belongs to others, or is a trap."""
    for name, place in places.items():
        yield "phantom in " + name, [join(run="phantom-" + name, directory=place)]
    yield "phantom where the owner's run is", [join(run="phantom", directory=owner["directory"])]
    yield "phantom with the owner's name", [join(run=owner["name"], directory="/nowhere/phantom")]
    yield "all hosts are lost", [join(run="unlucky"), report(lost_hosts=["localhost"] * 4000)]
    yield "it ends twice", [join(run="twice"), {"ended": {"status": 0}}, {"ended": {"status": 0}}]
    yield "program, directory and environment", [submit(arguments=["--", "true"], working_directory="/", environment=["A=b"])]
    yield "a user that it is not", [submit(uid=0, user="root", owner={"uid": 0, "of_cluster": True})]


def all_lies(places, owner):
    """(name, lines, what must come of it). `owner`: a job of another user, and the slots that it has and has not."""
    refused = [*no_requests(), *bad_submissions(), *orders_on(owner), *bad_joins(owner), *bad_messages(owner), *before_joining()]
    found = [(name, lines, REFUSED) for name, lines in refused]
    found += [(name, lines, TAKEN) for name, lines in taken(places, owner)]
    return [(name, [line if isinstance(line, str) else json.dumps(line) for line in lines], what) for name, lines, what in found]


# --- Mutations

ODD = [None, True, -1, 0, 1, 2**31, 2**32, 2**63, 2**64, 1e300, -1e300, 0.5, "", "x", "\0", "j1", "../..", "--option", "x" * 2000,
       [], {}, [[]], [None], ["localhost"] * 100, {"host": "localhost", "slots": [0]}, [{"host": "localhost", "slots": [0, 1, 2, 3]}]]


def seeds(owner):
    yield submit()
    yield join()
    yield join(job=owner["id"], holds=holds(owner["slots"]))
    yield report()
    yield rate()
    yield {"ended": {"status": 0}}
    yield {"command": "queue"}
    yield {"command": "cancel", "job": owner["id"]}
    yield {"command": "priority", "job": owner["name"], "priority": 1}


def places_in(value, found):
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            places_in(value[key], found)
    return found


def with_another_value(made, message):
    message = json.loads(json.dumps(message))
    container, key = made.choice(places_in(message, []))
    if isinstance(container, dict) and made.random() < 0.2:
        container[str(made.choice(ODD))[:20]] = container.pop(key)
    else:
        container[key] = made.choice(ODD)
    return json.dumps(message)


def with_other_bytes(made, text):
    line = bytearray(text.encode())
    for _ in range(made.randrange(1, 6)):
        at = made.randrange(len(line))
        line[at : at + made.randrange(0, 3)] = bytes(made.randrange(256) for _ in range(made.randrange(0, 4)))
        line = line or bytearray(b"x")
    return line.decode("latin-1")


def mutations(seed, count, owner):
    """Lists of one or two lines, of which one or more have been changed."""
    made = random.Random(seed)
    kinds = list(seeds(owner))
    for _ in range(count):
        message = made.choice(kinds)
        line = with_another_value(made, message)
        if made.random() < 0.5:
            line = with_other_bytes(made, line if made.random() < 0.5 else json.dumps(message))
        first = [json.dumps(join(run=f"mutant-{made.randrange(5)}"))] if made.random() < 0.5 else []
        yield [*first, line]


def traps(directory, uid):
    """Directories of the second user, each with something in the place of a file of a run. The socket there is one of theirs."""
    def place(name):
        path = os.path.join(directory, name)
        os.mkdir(path)
        os.chown(path, uid, uid)
        return path

    places = {name: place(name) for name in ("pipe", "endless", "swapped", "loop")}
    os.mkfifo(os.path.join(places["pipe"], "run.json"))
    os.symlink("/dev/zero", os.path.join(places["endless"], "run.json"))
    os.symlink(places["loop"], os.path.join(places["loop"], "run.json"))
    return places
