"""What goes wrong in a torture run: drawn from a seed, done, and undone."""
import math


class Faults:
    def __init__(self, world, store, clients, chance):
        self.world, self.store, self.clients, self.chance = world, store, clients, chance
        self.counts = {}
        self.under_way = set()  # what was recorded and is not healed: (word, number of the client or None)
        self.kinds = [self.cut_client, self.cut_server, self.split, self.loss, self.delay, self.pause_client,
                      self.pause_client, self.pause_server, self.kill_client, self.kill_server]

    # --- who and how long ---

    def draw_seconds(self):
        """From 0.2 to 8, short ones as often as long ones: leases last 2.5 s, if there is no hurry."""
        return 0.2 * math.exp(self.chance.random() * math.log(40)) / self.store.hurry

    def draw_server(self):
        favoured = self.chance.random() < 0.6
        return self.chance.choice(self.store.favourites() if favoured else self.store.servers)

    def draw_client(self):
        """Rather the one that has the mutex than another."""
        holder = self.world.latest_holder() if self.chance.random() < 0.6 else None
        named = [client for client in self.clients if client.name == holder]
        return named[0] if named else self.chance.choice(self.clients)

    def nodes(self):
        return range(1, self.world.net.nodes + 1)

    # --- the network ---

    def part(self, some, others):
        """Cut some nodes off from others, in one direction or both."""
        way = self.chance.choice(["both ways", "outward", "inward"])
        for a in some:
            for b in others:
                if way != "inward":
                    self.world.net.rule(a, b, lost=1000)
                if way != "outward":
                    self.world.net.rule(b, a, lost=1000)
        return way

    def cut_client(self):
        client = self.draw_client()
        self.begin("cut", client)
        way = self.part([client.node], [server.node for server in self.store.servers])
        self.world.say(f"{client.name} is cut off, {way}")

    def cut_server(self):
        server = self.draw_server()
        self.begin("cut")
        way = self.part([server.node], [node for node in self.nodes() if node != server.node])
        self.world.say(f"{server.name} is cut off, {way}")

    def split(self):
        some = [node for node in self.nodes() if self.chance.random() < 0.5]
        self.begin("cut")
        way = self.part(some, [node for node in self.nodes() if node not in some])
        self.world.say(f"nodes {some} are cut off from the others, {way}")

    def all_links(self, **how):
        for a in self.nodes():
            for b in self.nodes():
                if a != b:
                    self.world.net.rule(a, b, **how)

    def loss(self):
        lost = self.chance.choice([20, 100, 300])
        self.begin("loss")
        self.all_links(lost=lost)
        self.world.say(f"{lost / 10:.0f} % of all packets are lost")

    def delay(self):
        delay = self.chance.choice([5, 30, 150, 400])
        self.begin("delay")
        self.all_links(delay=delay, jitter=delay)
        self.world.say(f"all packets are {delay} to {2 * delay} ms late")

    # --- processes ---

    def pause_client(self):
        client = self.draw_client()
        self.begin("pause", client)
        client.pause()
        self.world.say(f"{client.name} is paused")

    def pause_server(self):
        server = self.draw_server()
        self.begin("server")
        server.pause()
        self.world.say(f"{server.name} is paused")

    def kill_client(self):
        client = self.draw_client()
        if client.is_running():
            self.kill(client)

    def kill(self, client):
        at = self.world.now_ns()
        client.kill()
        client.is_killed = True
        self.world.record(at=at, kind="killed", contender=client.number, life=client.life, to=self.world.now_ns())
        self.world.say(f"{client.name} is killed")

    def kill_server(self):
        server = self.draw_server()
        self.begin("server")
        server.kill()
        if self.chance.random() < 0.5:
            server.start()
            self.world.say(f"{server.name} is killed and restarted")
        else:
            self.world.say(f"{server.name} is killed")

    def fail_over(self):
        self.begin("server")
        self.store.fail_over(self.chance)

    # --- steps ---

    def begin(self, word, client=None):
        """Record that something is done to a client, or to all of them."""
        if (word, client) not in self.under_way:
            self.under_way.add((word, client))
            self.record("fault", word, client)

    def record(self, kind, word, client):
        whom = {"contender": client.number, "life": client.life} if client else {}
        self.world.record(at=self.world.now_ns(), kind=kind, what=word, **whom)

    def do(self, fault, name=None):
        name = name or fault.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        fault()

    def open(self):
        """Every run begins with what any lock has to survive: its holder dies, and nobody leads before its lease has ended."""
        for client in [client for client in self.clients if client.name == self.world.latest_holder()]:
            self.do(lambda: self.kill(client), "kill_client")
        return self.store.lease_ms / 1000 + 0.5

    def strike(self):
        """Up to three faults at once, or a fail-over and perhaps a client that is paused; how long they are to last."""
        if self.chance.random() < 0.2 and self.store.can_fail_over():
            self.do(self.fail_over)
            if self.chance.random() < 0.5:
                self.do(self.pause_client)
        else:
            for fault in self.chance.sample(self.kinds, self.chance.choice([1, 1, 2, 3])):
                self.do(fault)
        return self.draw_seconds()

    def strike_broken(self):
        """What a client that does not look at its clock cannot survive: as holder, to be cut off for two leases."""
        name = self.world.latest_holder()
        for client in [client for client in self.clients if client.name == name]:
            self.begin("cut", client)
            for server in self.store.servers:
                self.world.net.rule(client.node, server.node, lost=1000)
                self.world.net.rule(server.node, client.node, lost=1000)
            self.world.say(f"{name} is cut off, both ways")
        return 5

    def heal(self):
        self.world.net.heal()
        for client in self.clients:
            client.resume()
            if not client.is_running():
                if client.is_killed:
                    client.is_killed = False
                else:
                    self.world.record(at=self.world.now_ns(), kind="ended", contender=client.number, life=client.life,
                                      what=f"status {client.process.returncode}")
                client.start_again()
        self.store.repair()
        for word, client in self.under_way:
            self.record("healed", word, client)
        self.under_way.clear()
        self.world.say("healed")
