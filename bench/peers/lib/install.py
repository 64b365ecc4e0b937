"""Gets the programs of the peers: installs their libraries, in the versions that the files beside this one pin, and builds them.

The package managers ask the servers that they are configured for. A kind of program that cannot be had is reported as missing,
with the reason, and the others go on."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT_S = 900


class Missing(Exception):
    """Why a peer cannot be had."""


def say(text):
    print("==> " + text, file=sys.stderr, flush=True)


def command(*words, cwd=None, log=None):
    if shutil.which(words[0]) is None:
        raise Missing(f"{words[0]} is not installed")
    with open(log, "ab") as out:
        out.write((" ".join(words) + "\n").encode())
        out.flush()
        try:
            done = subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as late:
            raise Missing(f"{words[0]} took more than {TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise Missing(f"{words[0]} failed, see {log}")


class Installer:
    """How to start a program of each kind; made once, when the first entry asks."""

    def __init__(self, build, folder, may_install):
        self.build = build
        self.folder = folder
        self.may_install = may_install
        self.log = os.path.join(folder, "install.log")

    def place(self, name):
        return os.path.join(self.folder, name)

    def need(self, path, make):
        """Make it unless it is there and not older than the files that it is made of."""
        newest = max(os.path.getmtime(os.path.join(base, name)) for base, _, names in os.walk(HERE) for name in names
                     if "lib" not in base)
        if os.path.exists(path) and os.path.getmtime(path) >= newest:
            return
        if not self.may_install:
            raise Missing("not installed yet, and nothing may be installed")
        make()

    def c(self, program):
        path = os.path.join(self.build, "bench", "peers", program)
        if not os.path.exists(path):
            raise Missing(f"{path} was not built: cmake --build {self.build}")
        return [path]

    def go(self, program):
        made = self.place("go-peers")
        self.need(made, lambda: command("go", "build", "-buildvcs=false", "-o", made, ".", cwd=os.path.join(HERE, "go"), log=self.log))
        return [made, program]

    def java(self, program):
        jars, classes = self.place("jars"), self.place("classes")

        def make():
            shutil.copy(os.path.join(HERE, "java", "pom.xml"), self.place("pom.xml"))
            command("mvn", "-q", "-B", "-f", self.place("pom.xml"), "dependency:copy-dependencies",
                    "-DoutputDirectory=" + jars, log=self.log)
            shutil.rmtree(classes, ignore_errors=True)
            sources = [os.path.join(HERE, "java", name) for name in sorted(os.listdir(os.path.join(HERE, "java")))
                       if name.endswith(".java")]
            command("javac", "-cp", jars + "/*", "-d", classes, *sources, log=self.log)

        self.need(classes, make)
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true", "-cp", jars + "/*:" + classes,
                "Peer", program]

    def python(self, program):
        made = self.place("venv")
        python = os.path.join(made, "bin", "python")

        def make():
            command(sys.executable, "-m", "venv", made, log=self.log)
            command(python, "-m", "pip", "install", "-q", "-r", os.path.join(HERE, "python", "requirements.txt"), log=self.log)
            os.utime(made)

        self.need(made, make)
        return [python, "-B", os.path.join(HERE, "python", program)]

    def node(self, program):
        made = self.place("node")

        def make():
            os.makedirs(made, exist_ok=True)
            for name in ("package.json", program):
                shutil.copy(os.path.join(HERE, "node", name), made)
            command("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", cwd=made, log=self.log)
            os.utime(made)

        self.need(made, make)
        return ["node", os.path.join(made, program)]


def install(entries, build, folder, may_install):
    """For every entry the words of its command, without the address, or a text: why it is missing."""
    installer = Installer(build, folder, may_install)
    ways = {}
    failed = {}
    for entry in entries:
        if entry.made_by in failed:
            ways[entry.name] = failed[entry.made_by]
            continue
        try:
            say(f"getting {entry.name}")
            ways[entry.name] = getattr(installer, entry.made_by)(entry.program)
        except Missing as reason:
            ways[entry.name] = str(reason)
            if entry.made_by != "c":
                failed[entry.made_by] = str(reason)
    return ways
