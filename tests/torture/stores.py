"""The stores that are tortured: how their servers are started, kept, and failed over, each server in a node of its own.

Every server is configured so that it keeps what it has acknowledged, as docs/safety.md wants it."""
import glob
import os
import re
import shutil
import subprocess

from world import NOBODY, Net, Process, until

TTL_MS, TRANSITION_MS, SESSION_MS = 1000, 1500, 3000


class Store:
    name = ""
    nodes = 1  # of servers
    floating = 0
    outage_ms = 1  # trouble that is shorter costs nobody the leadership; servers of a group go on with theirs when a fault is over
    timeout_s = 10  # when nothing is wrong any more, somebody leads within so many seconds
    lease_ms = TTL_MS + TRANSITION_MS

    def __init__(self, world, hurry=1):
        """`hurry`: how many times shorter than usual leases are."""
        self.world, self.hurry = world, hurry
        self.servers = []
        self.lease_ms = self.lease_ms // hurry
        self.lease = f"ttl={TTL_MS // hurry}ms&transition={TRANSITION_MS // hurry}ms"

    def start(self):
        raise NotImplementedError

    def url(self):
        raise NotImplementedError

    def favourites(self):
        """The servers that faults prefer."""
        return self.servers

    def state(self):
        """What the servers say about themselves, for people who look into a run that came to nothing."""
        return ""

    def can_fail_over(self):
        return False

    def fail_over(self, chance):
        """Promote the other server. `chance` draws the way."""

    def repair(self):
        """The network is well. Start what does not run, and make a pair of what is left of one."""
        for server in self.servers:
            if server.is_paused:
                server.resume()
            if not server.is_running():
                server.start()

    def close(self):
        for server in self.servers:
            server.kill()


# --- Redis ------------------------------------------------------------------------------------------


class Redis(Store):
    name = "redis"
    outage_ms = 500
    durability = "appendonly yes\nappendfsync always\n"

    def add(self, name, node, more=""):
        folder = self.world.make_folder(name)
        self.world.write(f"{folder}/redis.conf", f"port 6379\nprotected-mode no\ndir {folder}\nsave \"\"\n"
                         f"{self.durability}repl-diskless-sync-delay 0\nrepl-timeout 5\nrepl-ping-replica-period 1\n{more}")
        server = Process(self.world, name, node, ["redis-server", f"{folder}/redis.conf"])
        server.start()
        self.servers.append(server)
        self.until_answers(node, "PONG", "PING")

    def tell(self, node, *words, port="6379"):
        return self.world.ask(node, "redis-cli", "-p", port, *words)

    def until_answers(self, node, part, *words, port="6379"):
        until(f"{part} from {words}", lambda: part in self.tell(node, *words, port=port))

    def start(self):
        self.add("redis", 1)

    def url(self):
        return f"redis://{Net.address(1)}?restart-wait=no&{self.lease}"


class Forgetful(Redis):
    """Against docs/safety.md: a restart loses everything. Two holders at once have to be found."""

    name = "redis-forgetful"
    durability = "appendonly no\n"


class Sentinel(Redis):
    """One replica, and replicas=1: every replica that can be promoted has confirmed every grant."""

    name = "sentinel"
    nodes = 5
    timeout_s = 60
    replicas = 1
    outage_ms = 1

    def start(self):
        self.add("redis1", 1)
        self.add("redis2", 2, f"replicaof {Net.address(1)} 6379\n")
        self.until_answers(2, "master_link_status:up", "INFO", "replication")
        for node in (3, 4, 5):
            folder = self.world.make_folder(f"sentinel{node}")
            self.world.write(f"{folder}/sentinel.conf", f"port 26379\nprotected-mode no\ndir {folder}\n"
                             f"sentinel monitor fire {Net.address(1)} 6379 2\nsentinel down-after-milliseconds fire 1500\n"
                             "sentinel failover-timeout fire 3000\n")
            server = Process(self.world, f"sentinel{node}", node,
                             ["redis-server", f"{folder}/sentinel.conf", "--sentinel"])
            server.start()
            self.servers.append(server)
        for node in (3, 4, 5):
            self.until_answers(node, "slaves=1,sentinels=3", "INFO", "sentinel", port="26379")

    def favourites(self):
        return self.servers[:2]

    def url(self):
        hosts = ",".join(Net.address(node) for node in (3, 4, 5))
        return f"redis+sentinel://{hosts}/fire?replicas={self.replicas}&restart-wait=no&{self.lease}"


class Careless(Sentinel):
    """Against docs/safety.md: a replica is promoted that may lack the latest grants."""

    name = "sentinel-careless"
    replicas = 0


class Cluster(Redis):
    """Three masters with a replica each, and replicas=1."""

    name = "cluster"
    nodes = 6
    outage_ms = 1
    timeout_s = 60

    def start(self):
        for node in range(1, 7):
            self.add(f"redis{node}", node, "cluster-enabled yes\ncluster-config-file nodes.conf\n"
                     "cluster-node-timeout 2000\n")
        hosts = [f"{Net.address(node)}:6379" for node in range(1, 7)]
        self.world.must(1, "redis-cli", "--cluster", "create", *hosts, "--cluster-replicas", "1", "--cluster-yes")
        for node in range(1, 7):
            self.until_answers(node, "cluster_state:ok", "CLUSTER", "INFO")
        until("a replica for every master", lambda: all(
            re.search("connected_slaves:1|master_link_status:up", self.tell(node, "INFO", "replication"))
            for node in range(1, 7)))

    def favourites(self):
        """The two that have the mutex. They change roles, and stay a pair."""
        if not hasattr(self, "pair"):
            slot = int(self.tell(1, "CLUSTER", "KEYSLOT", "simba:{fire}"))
            for line in self.tell(1, "CLUSTER", "NODES").splitlines():
                words = line.split()
                ranges = [word.split("-") for word in words[8:]]
                if any(int(r[0]) <= slot <= int(r[-1]) for r in ranges):
                    master = words[0]
            addresses = [line.split()[1].split(":")[0] for line in self.tell(1, "CLUSTER", "NODES").splitlines()
                         if master in (line.split()[0], line.split()[3])]
            self.pair = [server for server in self.servers if Net.address(server.node) in addresses]
        return self.pair

    def url(self):
        hosts = ",".join(Net.address(node) for node in range(1, 7))
        return f"redis+cluster://{hosts}?replicas=1&restart-wait=no&{self.lease}"


# --- SQL: a primary and a standby that confirms every commit ----------------------------------------


class Pair(Store):
    """Servers 1 and 2; `primary` is which of them is to be written to."""

    nodes = 2
    timeout_s = 60

    def __init__(self, world, hurry=1):
        super().__init__(world, hurry)
        self.primary = 1
        self.is_whole = True  # the other one follows the primary

    def standby(self):
        return 3 - self.primary

    def server(self, node):
        return self.servers[node - 1]

    def folder(self, node):
        return f"{self.world.folder}/server{node}"

    def favourites(self):
        return [self.server(self.primary)]

    def can_fail_over(self):
        return self.is_whole and self.has_everything()

    def fail_over(self, chance):
        old, new = self.primary, self.standby()
        way = chance.choice(["killed", "cut off", "cut off from the standby", "paused"])
        self.world.say(f"fail-over: server{old} is {way}, server{new} is promoted")
        if way == "killed":
            self.server(old).kill()
        elif way == "paused":
            self.server(old).pause()
        others = [new] if way == "cut off from the standby" else range(1, self.world.net.nodes + 1)
        for other in others:
            if way.startswith("cut") and other != old:
                self.world.net.rule(old, other, lost=1000)
                self.world.net.rule(other, old, lost=1000)
        self.is_whole = False
        self.promote(new)
        self.primary = new

    def repair(self):
        if self.is_whole:
            super().repair()
            return
        if not self.server(self.primary).is_running():
            self.server(self.primary).start()
        self.server(self.primary).resume()
        self.server(self.standby()).kill()
        shutil.rmtree(self.folder(self.standby()))
        self.rebuild(self.standby())
        self.is_whole = True
        self.world.say(f"server{self.standby()} is a standby again")

    def has_everything(self):
        """The standby has all that the primary has."""
        raise NotImplementedError

    def promote(self, node):
        raise NotImplementedError

    def rebuild(self, node):
        """A standby without data gets them from the primary."""
        raise NotImplementedError


class Postgresql(Pair):
    name = "postgresql"

    def __init__(self, world, hurry=1):
        super().__init__(world, hurry)
        self.programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]

    def make(self, node):
        # By its name: while the standby is built, pg_basebackup would pass for one too.
        more = {"listen_addresses": "*", "unix_socket_directories": "", "shared_buffers": "16MB", "max_connections": "60",
                "cluster_name": "standby", "synchronous_standby_names": "standby", "wal_keep_size": "64MB",
                "wal_sender_timeout": "3s", "wal_receiver_timeout": "3s", "wal_retrieve_retry_interval": "500ms",
                "wal_receiver_status_interval": "1s"}
        argv = [f"{self.programs}/postgres", "-D", self.folder(node)]
        for key, value in more.items():
            argv += ["-c", f"{key}={value}"]
        return Process(self.world, f"server{node}", node, argv)

    def sql(self, node, text, seconds=20):
        return self.world.ask(node, "psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-U", "postgres", "-v",
                              "ON_ERROR_STOP=1", "-c", text, seconds=seconds).strip()

    def start(self):
        os.chmod(self.world.folder, 0o777)
        self.servers = [self.make(1), self.make(2)]
        self.world.must(1, f"{self.programs}/initdb", "-D", self.folder(1), "-A", "trust", "-U", "postgres",
                        "--no-locale", "-E", "UTF8", "--no-sync")
        with open(f"{self.folder(1)}/pg_hba.conf", "a", encoding="utf-8") as file:
            file.write("host all all 10.99.0.0/24 trust\nhost replication all 10.99.0.0/24 trust\n")
        self.server(1).start()
        until("the primary answers", lambda: self.sql(1, "select 1") == "1")
        self.rebuild(2)
        self.sql(1, "create database simba")

    def rebuild(self, node):
        primary = Net.address(self.primary)
        self.world.must(node, f"{self.programs}/pg_basebackup", "-h", primary, "-U", "postgres", "-D", self.folder(node),
                        "-R", "-X", "stream", "--no-sync", "-c", "fast")
        self.server(node).start()
        until("the standby confirms", self.has_everything)

    def has_everything(self):
        return self.sql(self.primary, "select count(*) from pg_stat_replication where sync_state = 'sync'") == "1"

    def promote(self, node):
        until("the standby is promoted", lambda: self.sql(node, "select pg_promote()") == "t" or
              self.sql(node, "select pg_is_in_recovery()") == "f")

    def url(self):
        return f"postgresql://postgres@{Net.address(1)},{Net.address(2)}/simba?sslmode=disable&create=yes&{self.lease}"


class Mariadb(Pair):
    """Clients use the floating address, which goes with the primary. Commits wait for the standby (semi-synchronous)."""

    name = "mariadb"
    floating = 2

    def argv(self, node, is_primary):
        role = ["--rpl-semi-sync-master-enabled=1"] if is_primary else ["--read-only=1"]
        return ["mariadbd", "--no-defaults", f"--datadir={self.folder(node)}", f"--tmpdir={self.folder(node)}",
                "--socket=my.sock", "--port=3306", "--bind-address=0.0.0.0", "--skip-name-resolve",
                f"--server-id={node}", "--log-bin=binlog", "--log-slave-updates", "--binlog-format=ROW",
                "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--innodb-log-file-size=8M",
                "--innodb-data-file-path=ibdata1:4M:autoextend", "--innodb-buffer-pool-size=16M",
                "--performance-schema=OFF", "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
                "--rpl-semi-sync-master-timeout=4000000000", "--rpl-semi-sync-slave-enabled=1", "--slave-net-timeout=3",
                "--gtid-strict-mode=1", "--expire-logs-days=0"] + role

    def make(self, node, is_primary):
        return Process(self.world, f"server{node}", node, self.argv(node, is_primary))

    def install(self, node):
        folder = self.folder(node)
        template = f"{self.world.folder}/template"
        if not os.path.exists(template):
            self.world.make_folder("template")
            subprocess.run(NOBODY + ["mariadb-install-db", "--no-defaults", f"--datadir={template}", f"--tmpdir={template}",
                                     "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
                                     "--innodb-log-file-size=8M", "--innodb-data-file-path=ibdata1:4M:autoextend"],
                           check=True, capture_output=True)
        subprocess.run(["cp", "-a", template, folder], check=True)

    def sql(self, node, text, seconds=20):
        return self.world.ask(node, "mariadb", "--no-defaults", "-h", "127.0.0.1", "-u", "root", "-N", "-B", text=text,
                              seconds=seconds).strip()

    def state(self):
        return "\n".join(self.sql(node, "show full processlist; show status like 'rpl_semi%'; show slave status\\G "
                                  "select @@gtid_binlog_pos, @@gtid_slave_pos") for node in (1, 2))

    def until_answers(self, node):
        until(f"server{node} answers", lambda: self.sql(node, "select 1") == "1")

    def start(self):
        self.servers = [self.make(1, True), self.make(2, False)]
        self.install(1)
        self.server(1).start()
        self.let_in(1)
        self.rebuild(2)
        self.sql(1, "create database simba")

    def let_in(self, node):
        self.until_answers(node)
        self.sql(node, "set sql_log_bin=0; create user simba@'%'; grant all privileges on *.* to simba@'%'")

    def rebuild(self, node):
        self.install(node)
        self.servers[node - 1] = self.make(node, False)
        self.server(node).start()
        self.let_in(node)
        has_database = self.sql(self.primary, "show databases like 'simba'") == "simba"
        dump = self.world.must(self.primary, "mariadb-dump", "--no-defaults", "-h", "127.0.0.1", "-u", "root",
                               "--single-transaction", "--master-data=1", "--gtid", "--databases",
                               "simba") if has_database else ""
        self.world.must(node, "mariadb", "--no-defaults", "-h", "127.0.0.1", "-u", "root", text=
                        f"set sql_log_bin=0;\n{dump}\nchange master to master_host='{Net.address(self.primary)}', "
                        "master_user='simba', master_use_gtid=slave_pos, master_connect_retry=1, "
                        "master_heartbeat_period=1;\nstart slave;\n")
        until("the standby follows", self.has_everything)

    def has_everything(self):
        if self.sql(self.primary, "show status like 'Rpl_semi_sync_master_clients'").split()[-1:] != ["1"]:
            return False
        position = self.sql(self.primary, "select @@gtid_binlog_pos")
        return self.sql(self.standby(), f"select master_gtid_wait('{position}', 5)") == "0"

    def promote(self, node):
        """What was confirmed is in the relay log: first all of that is carried out."""
        self.sql(node, "stop slave io_thread")
        until("the standby has carried out all", lambda: "read all relay log" in
              self.sql(node, "select state from information_schema.processlist where user='system user'"))
        self.sql(node, "stop slave; reset slave all; set global rpl_semi_sync_master_enabled=1; set global read_only=0")
        self.server(node).argv = self.argv(node, True)
        self.world.net.float_to(node)

    def url(self):
        return f"mysql://simba@{Net.FLOATING}/simba?create=yes&{self.lease}"


# --- ZooKeeper --------------------------------------------------------------------------------------


class Zookeeper(Store):
    name = "zookeeper"
    nodes = 3
    timeout_s = 60
    lease_ms = SESSION_MS

    def start(self):
        ensemble = "".join(f"server.{node}={Net.address(node)}:2888:3888\n" for node in (1, 2, 3))
        for node in (1, 2, 3):
            folder = self.world.make_folder(f"zookeeper{node}")
            self.world.write(f"{folder}/myid", f"{node}\n")
            self.world.write(f"{folder}/zoo.cfg", f"tickTime=500\ndataDir={folder}\nclientPort=2181\n"
                             "admin.enableServer=false\n4lw.commands.whitelist=*\nminSessionTimeout=1000\n"
                             f"maxClientCnxns=0\ninitLimit=20\nsyncLimit=6\n{ensemble}")
            server = Process(self.world, f"zookeeper{node}", node, [
                "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
                "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.jmx.log4j.disable=true",
                "org.apache.zookeeper.server.quorum.QuorumPeerMain", f"{folder}/zoo.cfg"])
            server.start()
            self.servers.append(server)

    def url(self):
        hosts = ",".join(Net.address(node) for node in (1, 2, 3))
        return f"zookeeper://{hosts}?session-timeout={self.lease_ms}ms"


# --- etcd -------------------------------------------------------------------------------------------


class Etcd(Store):
    name = "etcd"
    nodes = 3
    timeout_s = 60
    lease_ms = SESSION_MS

    def start(self):
        cluster = ",".join(f"etcd{node}=http://{Net.address(node)}:2380" for node in (1, 2, 3))
        for node in (1, 2, 3):
            folder = self.world.make_folder(f"etcd{node}")
            peers, clients = f"http://{Net.address(node)}:2380", f"http://{Net.address(node)}:2379"
            server = Process(self.world, f"etcd{node}", node, [
                "etcd", "--name", f"etcd{node}", "--data-dir", f"{folder}/data", "--log-level", "warn",
                "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--listen-client-urls", clients, "--advertise-client-urls", clients,
                "--initial-cluster", cluster, "--heartbeat-interval", "50", "--election-timeout", "500"])
            server.start()
            self.servers.append(server)

    def url(self):
        hosts = ",".join(Net.address(node) for node in (1, 2, 3))
        return f"etcd://{hosts}?session-timeout={max(self.lease_ms, 1000)}ms"


# --- Kubernetes -------------------------------------------------------------------------------------


class Kubernetes(Store):
    """An API server, which comes back when it has ended, and its etcd. $SIMBA_KUBERNETES is what scripts/kubernetes prints."""

    name = "kubernetes"
    timeout_s = 60

    def start(self):
        folder = self.folder = self.world.make_folder("kubernetes")
        self.world.write(f"{folder}/tokens.csv", 'secret,admin,1,"system:masters"\n')
        self.world.write(f"{folder}/token", "secret\n")
        self.world.must(1, "sh", "-c", f"cd {folder} && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 9 "
                        "-subj /CN=simba 2>/dev/null && openssl rsa -in key.pem -pubout -out key.pub 2>/dev/null && chmod a+r key.pem")
        etcd = Process(self.world, "etcd", 1, ["etcd", "--data-dir", f"{folder}/etcd"])
        options = " ".join((
            "--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443", f"--cert-dir={folder}/certs", f"--tls-cert-file={folder}/cert.pem",
            f"--tls-private-key-file={folder}/key.pem", f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount", "--service-account-issuer=https://simba",
            f"--service-account-key-file={folder}/key.pub", f"--service-account-signing-key-file={folder}/key.pem",
            f"--advertise-address={Net.address(1)}"))
        server = Process(self.world, "kube-apiserver", 1,
                         ["sh", "-c", f"while :; do {os.environ['SIMBA_KUBERNETES']}/kube-apiserver {options}; sleep 0.1; done"])
        self.servers = [etcd, server]
        for each in self.servers:
            each.start()
        until("there is a namespace", lambda: '"Active"' in self.world.ask(
            1, "curl", "-sk", "-m", "5", "-H", "Authorization: Bearer secret", f"https://{Net.address(1)}:6443/api/v1/namespaces/default"))

    def url(self):
        return f"kubernetes://{Net.address(1)}/default?verify=no&token-file={self.folder}/token&{self.lease}"


STORES = {store.name: store
          for store in (Redis, Sentinel, Cluster, Mariadb, Postgresql, Zookeeper, Etcd, Kubernetes, Forgetful, Careless)}
