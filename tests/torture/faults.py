"""What goes wrong in a torture run: drawn from a seed, done, and undone."""
import math


class Faults:
    def __init__(self, world, store, clients, chance):
        self.world, self.store, self.clients, self.chance = world, store, clients, chance
        self.counts = {}
        self.kinds = [self.cut_client, self.cut_server, self.split, self.loss, self.delay, self.pause_client,
                      self.pause_client, self.pause_server, self.kill_client, self.kill_server]

    # --- who and how long ---

    def draw_seconds(self):
        """From 0.2 to 8, short ones as often as long ones: leases last 2.5 s."""
        return 0.2 * math.exp(self.chance.random() * math.log(40))

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
        way = self.part([client.node], [server.node for server in self.store.servers])
        return f"{client.name} is cut off, {way}"

    def cut_server(self):
        server = self.draw_server()
        way = self.part([server.node], [node for node in self.nodes() if node != server.node])
        return f"{server.name} is cut off, {way}"

    def split(self):
        some = [node for node in self.nodes() if self.chance.random() < 0.5]
        way = self.part(some, [node for node in self.nodes() if node not in some])
        return f"nodes {some} are cut off from the others, {way}"

    def all_links(self, **how):
        for a in self.nodes():
            for b in self.nodes():
                if a != b:
                    self.world.net.rule(a, b, **how)

    def loss(self):
        lost = self.chance.choice([20, 100, 300])
        self.all_links(lost=lost)
        return f"{lost / 10:.0f} % of all packets are lost"

    def delay(self):
        delay = self.chance.choice([5, 30, 150, 400])
        self.all_links(delay=delay, jitter=delay)
        return f"all packets are {delay} to {2 * delay} ms late"

    # --- processes ---

    def pause_client(self):
        client = self.draw_client()
        client.pause()
        return f"{client.name} is paused"

    def pause_server(self):
        server = self.draw_server()
        server.pause()
        return f"{server.name} is paused"

    def kill_client(self):
        client = self.draw_client()
        client.kill()
        return f"{client.name} is killed"

    def kill_server(self):
        server = self.draw_server()
        server.kill()
        if self.chance.random() < 0.5:
            server.start()
            return f"{server.name} is killed and restarted"
        return f"{server.name} is killed"

    # --- steps ---

    def strike_broken(self):
        """What a client that does not look at its clock cannot survive: as holder, to be cut off for two leases."""
        name = self.world.latest_holder()
        for client in self.clients:
            if client.name == name:
                for server in self.store.servers:
                    self.world.net.rule(client.node, server.node, lost=1000)
                    self.world.net.rule(server.node, client.node, lost=1000)
                self.world.say(f"{name} is cut off")
        self.count("cut_client")
        return 5

    def strike(self):
        """Up to three faults at once, or a fail-over with up to one fault of clients; how long they are to last."""
        if self.chance.random() < 0.2 and self.store.can_fail_over():
            self.count("fail_over")
            self.store.fail_over(self.chance)
            if self.chance.random() < 0.5:
                self.count("pause_client")
                self.world.say(self.pause_client())
            return self.draw_seconds()
        for kind in self.chance.sample(self.kinds, self.chance.choice([1, 1, 2, 3])):
            self.count(kind.__name__)
            self.world.say(kind())
        return self.draw_seconds()

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def heal(self):
        self.world.net.heal()
        for client in self.clients:
            client.resume()
            if not client.is_running():
                client.start_again()
        self.store.repair()
        self.world.say("healed")
