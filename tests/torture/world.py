"""The world of a torture run: a network of namespaces (net.c), and processes in its nodes."""
import json
import os
import re
import signal
import subprocess
import time

NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig=KILL"]


class Failed(Exception):
    """The test cannot go on. This is no verdict about the product."""


def until(what, condition, seconds=60):
    """Wait for a condition; how long that took."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise Failed(f"waited {seconds} s in vain: {what}")
        time.sleep(0.1)
    return time.monotonic() - begun


def descendants(pid):
    """A process and all below it, the oldest first."""
    found = [pid]
    for each in found:
        try:
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children", encoding="ascii") as file:
                    found += [int(word) for word in file.read().split()]
        except OSError:
            pass  # it has just ended
    return found


class Net:
    """Nodes from 1 on, node N has the address 10.99.0.N."""

    FLOATING = "10.99.0.200"

    def __init__(self, program, nodes, seed, floating=0):
        self.nodes = nodes
        self.paths = {}
        self.process = subprocess.Popen([program, str(nodes), str(seed), str(floating)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "ready":
                return
            self.paths[int(words[1])] = words[2]
        raise Failed("no network: see what it said above")

    @staticmethod
    def address(node):
        return f"10.99.0.{node}"

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer in ("", "error"):
            raise Failed(f"the network does not understand: {command}")
        return answer

    def rule(self, sender, receiver, lost=0, delay=0, jitter=0):
        """Packets from the one to the other: so many of 1000 are lost, the others so many ms late."""
        self.tell(f"rule {sender} {receiver} {lost} {delay} {jitter}")

    def heal(self):
        self.tell("heal")

    def float_to(self, node):
        self.tell(f"float {node}")

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def enter(self, node):
        return ["nsenter", f"--net={self.paths[node]}", "--"]


class Process:
    """A program in a node, which may be killed, paused, and started again."""

    def __init__(self, world, name, node, argv, as_nobody=True):
        self.world, self.name, self.node, self.argv, self.as_nobody = world, name, node, argv, as_nobody
        self.process = None
        self.is_paused = False

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def start(self):
        argv = self.world.net.enter(self.node) + (NOBODY if self.as_nobody else []) + self.argv
        with open(f"{self.world.folder}/{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        self.is_paused = False

    def signal(self, number):
        if self.is_running():
            for pid in descendants(self.process.pid):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass

    def kill(self):
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def pause(self):
        self.signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self):
        self.signal(signal.SIGCONT)
        self.is_paused = False

    def restart(self):
        self.kill()
        self.start()


class World:
    """The folder, the network and the records of a run.

    leases.jsonl has what clients believed and what was done to them, additions.jsonl what they did to the register: see client.c.
    faults.log tells people what was done."""

    def __init__(self, folder, programs):
        self.folder, self.programs = folder, programs
        self.net = None
        self.epoch_ns = time.monotonic_ns()
        self.leases, self.additions = f"{folder}/leases.jsonl", f"{folder}/additions.jsonl"
        for path in (self.leases, self.additions, f"{folder}/faults.log"):
            with open(path, "w", encoding="utf-8"):
                os.chmod(path, 0o666)

    def now_ns(self):
        return time.monotonic_ns() - self.epoch_ns

    def append(self, path, text):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)

    def say(self, text):
        self.append(f"{self.folder}/faults.log", f"{self.now_ns() / 1e9:8.2f}  {text}\n")

    def record(self, **event):
        """A line of leases.jsonl, as tools/torture/history.h has it."""
        self.append(self.leases, json.dumps(event, separators=(",", ":")) + "\n")

    def latest_holder(self):
        """Who has added to the register last."""
        with open(self.additions, "rb") as file:
            file.seek(max(0, os.path.getsize(self.additions) - 512))
            names = re.findall(rb'"who":"(c[0-9]+)/[0-9]+","event":"begin"', file.read())
        return names[-1].decode() if names else None

    def make_folder(self, name):
        """A new folder that belongs to nobody, as the servers do."""
        path = f"{self.folder}/{name}"
        os.mkdir(path)
        subprocess.run(["chown", "nobody:nogroup", path], check=True)
        return path

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["chown", "nobody:nogroup", path], check=True)

    def ask(self, node, *argv, text=None, seconds=20):
        """What a program says that is run in a node, as nobody; "" if it fails."""
        try:
            done = subprocess.run(self.net.enter(node) + NOBODY + list(argv), input=text, capture_output=True, text=True,
                                  timeout=seconds, check=False, cwd="/")
        except subprocess.TimeoutExpired:
            return ""
        if done.returncode != 0:
            self.say(f"{argv[0]} failed: {done.stderr.strip()[-300:]}")
            return ""
        return done.stdout

    def must(self, node, *argv, text=None, seconds=60):
        done = subprocess.run(self.net.enter(node) + NOBODY + list(argv), input=text, capture_output=True, text=True,
                              timeout=seconds, check=False, cwd="/")
        if done.returncode != 0:
            raise Failed(f"{' '.join(argv)}: {done.stderr.strip()[-500:]}")
        return done.stdout
