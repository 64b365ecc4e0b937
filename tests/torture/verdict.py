"""Our judge of a history: who held when, by which token. It shares no code with porcupine/, which judges the same history.

A claim is the time from which a client was told that it holds to the last question whether it still does that was answered by yes.
Both ends are inside of the lease by the client's own clock, so that claims that overlap are two holders at once (S1)."""
import collections
import json


def read(path):
    """The events, one dictionary each. A line that a killed client has not finished is none."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("}\n"):
                yield json.loads(line)


class Claim:
    def __init__(self, who, token, at):
        self.who, self.token, self.begun = who, token, at
        self.last = None  # the last yes

    def __str__(self):
        return f"{self.who} with token {self.token} from {self.begun / 1e9:.3f} to {self.last / 1e9:.3f}"


def collect(events):
    """The claims, and counts of what happened."""
    claims, open_claims, counts = [], {}, collections.Counter()
    for event in events:
        who, what = event["who"], event["event"]
        if what == "acquired":
            open_claims[who] = Claim(who, event["token"], event["at"])
            claims.append(open_claims[who])
            counts["grants of " + who.split("/")[0]] += 1
        elif what == "begin":
            open_claims[who].last = event["at"]
        elif what == "end":
            counts["additions " + event["result"]] += 1
        elif what == "ended":
            counts["ended: " + event["reason"]] += 1
        elif what == "failed":
            counts["failed: " + event["code"]] += 1
    return claims, counts


def judge(claims):
    """What is wrong, as sentences."""
    wrong = []
    owners = {}
    for claim in claims:
        other = owners.setdefault(claim.token, claim)
        if other is not claim:
            wrong.append(f"S3: two grants have the token {claim.token}: {other.who} and {claim.who}")
    held = sorted((claim for claim in claims if claim.last is not None), key=lambda claim: claim.begun)
    latest = None  # of those before, the one that lasted longest
    for claim in held:
        if latest is not None and claim.begun <= latest.last:
            wrong.append(f"S1: two hold at once: {latest}, and {claim}")
        elif latest is not None and claim.token <= latest.token:
            wrong.append(f"S3: the token goes back: {latest}, then {claim}")
        if latest is None or claim.last > latest.last:
            latest = claim
    return wrong


def longest_gap_s(claims):
    """The longest time in which nobody is known to have held."""
    held = sorted((claim for claim in claims if claim.last is not None), key=lambda claim: claim.begun)
    end, longest = held[0].last if held else 0, 0
    for claim in held:
        longest = max(longest, claim.begun - end)
        end = max(end, claim.last)
    return longest / 1e9
