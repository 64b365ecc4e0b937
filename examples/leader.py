"""Leader election, a lock and periodic work in Python.   usage: leader.py [URL]"""

import sys
import threading

import simba

url = sys.argv[1] if len(sys.argv) > 1 else "memory://example"


def main() -> None:
    led, ran = threading.Event(), threading.Event()

    def work(run: simba.Run) -> None:
        print("periodic work under token", run.token)
        ran.set()

    with simba.Client(url) as client:
        with client.contend("orders", on_acquired=lambda self, change: led.set(),
                            on_released=lambda self, change, reason: print("ended:", reason)) as contender:
            led.wait()
            print(contender.id, "leads under token", contender.token)
        with client.lock("nightly-report", timeout=5) as held:
            held.check()  # raises simba.Lost if the lock is not held any more
        with client.schedule("clean-up", work, every=60):
            ran.wait()


if __name__ == "__main__":
    main()
