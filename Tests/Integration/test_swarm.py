"""2,000 bots in 200 rooms on two nodes behind the deployment's load balancer, for 30 s."""

import json

from hub import HAProxy, Hub, RedisServer, run


def test_nothing_is_lost_duplicated_or_out_of_order(start):
    redis = start(RedisServer)
    nodes = [start(Hub, name=name, redis=redis.url) for name in ("one", "two")]
    front = start(HAProxy, nodes)
    swarm = run(
        "hub-swarm", "--url", front.url, "--bots", "2000", "--rooms", "200", "--seconds", "30", "--rate", "0.2", "--seed", "1", "--json", timeout=120)
    assert swarm.returncode == 0, f"{swarm.stdout}\n{swarm.stderr}"
    report = json.loads(swarm.stdout)
    print(swarm.stdout)
    # Ten to a room: each message is delivered ten times, the sender's own among them.
    assert report["sent"] > 10_000
    assert report["delivered"] == report["sent"] * 10
    assert (report["lost"], report["duplicated"], report["outOfOrder"]) == (0, 0, 0)
