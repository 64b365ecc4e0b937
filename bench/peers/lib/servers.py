"""The servers of the comparison, on the loopback interface, with data that is kept in memory and thrown away.

A server knows its address, how much processor time it has used, and how many commands it was given."""
import ctypes
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

TIMEOUT_S = 30
ZOOKEEPER_JARS = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"


class CannotStart(Exception):
    """Why there is no such server."""


def die_with_parent():
    """In the child: a benchmark that is killed leaves nothing behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def exchange(port, text):
    """What a server answers to a line, until it closes the connection or says nothing for a moment."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.sendall(text.encode())
        parts = []
        s.settimeout(0.5)
        try:
            while True:
                part = s.recv(65536)
                parts.append(part)
                if not part or b"".join(parts).endswith(b"\r\n\r\n"):
                    break
        except socket.timeout:
            pass
    return b"".join(parts).decode(errors="replace")


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def start(self, *words):
        if shutil.which(words[0]) is None:
            raise CannotStart(f"{words[0]} is not installed")
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent)
        until = time.monotonic() + TIMEOUT_S
        while not self.serves():
            if self.process.poll() is not None or time.monotonic() > until:
                with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
                    raise CannotStart(f"{words[0]} does not start: {log.read()[-200:].strip()}")
            time.sleep(0.02)

    def serves(self):
        try:
            return self.ready()
        except OSError:
            return False

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def cpu_ns(self):
        """Of all its threads."""
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            try:
                with open(path, encoding="ascii") as file:
                    total += int(file.read().split()[0])
            except OSError:
                pass  # the thread has ended
        return total


class Redis(Server):
    version_command = ("redis-server", "--version")

    def __init__(self, folder):
        super().__init__(folder)
        self.start("redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", "",
                   "--appendonly", "no")

    def ready(self):
        return exchange(self.port, "PING\r\nQUIT\r\n").startswith("+PONG")

    def commands(self):
        """Also those that scripts run."""
        for line in exchange(self.port, "INFO stats\r\nQUIT\r\n").splitlines():
            if line.startswith("total_commands_processed:"):
                return int(line.split(":")[1])
        raise CannotStart("INFO does not tell the number of commands")


class ZooKeeper(Server):
    version_command = ("dpkg-query", "-W", "-f", "ZooKeeper ${Version}", "libzookeeper-java")

    def __init__(self, folder):
        super().__init__(folder)
        if not os.path.exists(ZOOKEEPER_JARS.split(":", maxsplit=1)[0]):
            raise CannotStart("libzookeeper-java is not installed")
        with open(os.path.join(folder, "zoo.cfg"), "w", encoding="ascii") as file:
            file.write(f"tickTime=500\ndataDir={folder}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                       "admin.enableServer=false\n4lw.commands.whitelist=*\nminSessionTimeout=1000\nmaxSessionTimeout=60000\n"
                       "maxClientCnxns=0\n")
        self.start("java", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true",
                   "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", ZOOKEEPER_JARS,
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain", os.path.join(folder, "zoo.cfg"))

    def ready(self):
        return "Mode: " in exchange(self.port, "srvr")

    def commands(self):
        for line in exchange(self.port, "mntr").splitlines():
            if line.startswith("zk_packets_received"):
                return int(float(line.split()[1]))
        raise CannotStart("mntr does not tell the number of packets")


class Etcd(Server):
    version_command = ("etcd", "--version")

    def __init__(self, folder):
        super().__init__(folder)
        url, peers = f"http://{self.address}", f"http://127.0.0.1:{free_port()}"
        self.start("etcd", "--data-dir", os.path.join(folder, "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
                   "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers)

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as page:
            return page.read().decode()

    def ready(self):
        return '"true"' in self.get("/health")

    def commands(self):
        return sum(int(float(line.split()[-1])) for line in self.get("/metrics").splitlines()
                   if line.startswith("grpc_server_msg_received_total"))


class Folder:
    """For locks that are files: no server."""
    process = None
    version_command = None

    def __init__(self, folder):
        self.address = folder

    def stop(self):
        pass


KINDS = {"redis": Redis, "zookeeper": ZooKeeper, "etcd": Etcd, "sqlite": Folder, "files": Folder, "none": Folder}


class Servers:
    """All that are needed; a context. running[kind] is a server or a text: why there is none. Servers keep their data in memory;
    SQLite's file is on the disk, where its files usually are."""

    def __init__(self, kinds):
        self.kinds = kinds
        self.running = {}
        self.folders = []

    def __enter__(self):
        for kind in sorted(self.kinds):
            memory = "/dev/shm" if os.path.isdir("/dev/shm") and kind not in ("sqlite", "files") else None
            folder = tempfile.mkdtemp(prefix="simba-peers-", dir=memory)
            self.folders.append(folder)
            try:
                self.running[kind] = KINDS[kind](folder)
            except CannotStart as reason:
                self.running[kind] = str(reason)
        return self.running

    def __exit__(self, *_):
        for server in self.running.values():
            if not isinstance(server, str):
                server.stop()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


def version(server):
    if isinstance(server, str) or not server.version_command:
        return None
    try:
        said = subprocess.run(server.version_command, capture_output=True, text=True, check=False).stdout
        return said.splitlines()[0][:80] if said else None
    except OSError:
        return None
