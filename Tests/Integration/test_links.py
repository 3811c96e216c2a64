"""The way to a Redis: who we are to it, which Redis it is, TLS, prefixes (docs/redis.md, "Setting it up")."""

import re
import time

import pytest

from certificates import Certificate, trusting
from client import Client, statuses
from hooks import Receiver, settings as hook_settings
from hub import FAST, TOP, Hub, RedisServer, eventually, free_port, hubctl, request, run, status
from redises import Redis
from relay import LinkRelay

PASSWORD = "pa55-word-of-redis"
OTHER_KIND = "Redis is of another kind than the configuration says"
TLS_FAILS = "the TLS connection to Redis fails"
WRONG_PASSWORD = "Redis refuses the user name or the password"


def not_ready(start, text, kind, **options):
    """A node that starts, says why it can't work with Redis, and shows no secret. `kind`: what `/readyz` adds, which names no place."""
    node = start(Hub, ready=False, **options)
    node.expect_log(text, 10)
    reason = f"the link to Redis is down: {kind}"
    eventually(lambda: request(f"{node.url}/readyz")[2].get("reason") == reason, 10, reason)
    assert status(f"{node.url}/readyz") == 503 and status(f"{node.url}/healthz") == 200
    assert PASSWORD not in node.log
    return node


def test_a_password_that_is_wrong_or_missing_is_named_with_what_to_do(start):
    redis = start(Redis, "--requirepass", PASSWORD, password=PASSWORD)
    not_ready(start, "set redis.password or redis.passwordFile", WRONG_PASSWORD, redis=redis.url)
    not_ready(start, "WRONGPASS", WRONG_PASSWORD, redis=redis.url, environment={"HUB_CFG_REDIS__PASSWORD": "wr0ng"})
    start(Hub, redis=redis.url, environment={"HUB_CFG_REDIS__PASSWORD": PASSWORD})


def test_a_password_for_a_redis_that_has_none_is_named(start):
    not_ready(start, "AUTH is refused", WRONG_PASSWORD, redis=start(Redis).url.replace("//", f"//:{PASSWORD}@"))


def test_a_database_that_is_not_there_is_named(start):
    redis = start(Redis, "--databases", "4")
    not_ready(start, "SELECT 9 is refused", "Redis has no database of this number", redis=redis.url + "/9")
    node = start(Hub, redis=redis.url, settings={"redis.database": 3})
    with Client(node, user="alice") as alice:
        alice.chat("room:db", "there")
    assert "db3" in redis.call("INFO", "keyspace") and "db0" not in redis.call("INFO", "keyspace")


def test_a_replica_is_told_apart_and_left(start):
    master = start(Redis)
    replica = start(Redis, "--replicaof", f"127.0.0.1 {master.port}")
    not_ready(start, "READONLY", "this Redis is a replica", redis=replica.url)


def test_what_kind_of_redis_it_is_must_be_said(start):
    not_ready(start, "this Redis is no cluster", OTHER_KIND, settings={"redis.cluster": start(Redis).url})


def test_a_redis_that_is_no_sentinel_is_told_apart(start):
    not_ready(start, "this isn't a sentinel", OTHER_KIND, settings={"redis.sentinel.urls": start(Redis).url, "redis.sentinel.master": "main"})


def acl_of_the_documents():
    text = (TOP / "docs" / "redis.md").read_text()
    return re.search(r"ACL SETUSER hub on >PASSWORD (.*)", text)[1].split()


def test_a_user_with_the_documented_rights_has_all_that_a_hub_needs_and_no_more(start):
    redis = start(Redis)
    rights = acl_of_the_documents()
    redis.call("ACL", "SETUSER", "hub", "on", f">{PASSWORD}", *rights)
    backend = Receiver()
    settings = {**FAST, "redis.user": "hub", "redis.prefix": "hub", **hook_settings(backend)}
    one, two = (start(Hub, redis=redis.url, name=name, settings=settings, environment={"HUB_CFG_REDIS__PASSWORD": PASSWORD}) for name in ("r1", "r2"))
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        bob.subscribe("room:rights")
        alice.subscribe("room:rights")
        bob.request("watch", users=["carol"])
        with Client(one, user="carol"):
            bob.presence_of("carol", "online")
            assert "online" in hubctl(two, "presence", "carol").stdout
        bob.presence_of("carol", "offline")
        last = alice.chat("room:rights", "hello")["offset"]
        bob.expect(type="chat")
        alice.request("read", channel="room:rights", payload={"offset": last})
        bob.expect(type="read")
        alice.send({"type": "typing", "channel": "room:rights", "payload": {"isTyping": True}})
        bob.expect(type="typing")
        assert "r1" in hubctl(two, "nodes").stdout
        eventually(lambda: backend.types("carol") == ["user.online", "user.offline"], 30, "the backend is told")
    backend.stop()
    assert redis.call("ACL", "LOG") == []
    for refused in (("GET", "other"), ("CONFIG", "GET", "*"), ("FLUSHALL",), ("KEYS", "*"), ("PUBLISH", "other", "x"), ("SET", "other", "x")):
        assert redis.call("ACL", "DRYRUN", "hub", *refused) != "OK", refused


def test_what_keeps_a_redis_away_is_told_also_when_it_becomes_something_else(start):
    redis = start(RedisServer)
    node = start(Hub, redis=redis.url)
    with Client(node, user="alice") as alice:
        redis.kill()
        assert alice.expect(event="degraded")["reason"] == "the link to Redis is down"
        start(RedisServer, port=redis.port, options=["--replicaof", f"127.0.0.1 {free_port()}"])
        reason = "the link to Redis is down: this Redis is a replica"
        assert alice.expect(event="degraded", seconds=30)["reason"] == reason
        assert request(f"{node.url}/readyz")[2]["reason"] == reason
        node.expect_log("READONLY")


@pytest.mark.parametrize("right", ["+subscribe", "+script|load", "+evalsha", "+zadd", "+hdel", "+pexpire", "&hub:*"])
def test_a_right_that_is_missing_is_named(start, right):
    redis = start(Redis)
    redis.call("ACL", "SETUSER", "hub", "on", f">{PASSWORD}", *(other for other in acl_of_the_documents() if other != right))
    node = start(Hub, ready=False, redis=redis.url, settings={"redis.user": "hub"}, environment={"HUB_CFG_REDIS__PASSWORD": PASSWORD})
    node.expect_log("the user lacks a right; docs/redis.md lists those that a hub needs")


def test_a_right_that_is_taken_away_stops_the_node_before_a_script_does_half_of_its_work_again(start):
    redis = start(Redis)
    redis.call("ACL", "SETUSER", "hub", "on", f">{PASSWORD}", *acl_of_the_documents())
    node = start(Hub, redis=redis.url, settings={**FAST, "redis.user": "hub"}, environment={"HUB_CFG_REDIS__PASSWORD": PASSWORD})

    def publish(number):
        return request(f"{node.url}/v1/publish", "POST", {"channel": "room:a", "messageId": f"m{number}", "user": "bob", "payload": {}}, timeout=20)[0]

    assert publish(1) == 200
    redis.call("ACL", "SETUSER", "hub", "-pexpire")
    assert publish(2) == 503
    assert request(f"{node.url}/readyz")[2]["reason"].endswith("the hub's user lacks a right in Redis")
    redis.call("ACL", "SETUSER", "hub", "+pexpire")
    node.wait_ready()
    assert publish(2) == 200
    # The one that was under way may stand there twice (docs/faults.md), whoever tried it however often in between.
    kept = [one["messageId"] for one in request(f"{node.url}/v1/channels/room%3Aa/history")[2]["publications"]]
    assert kept in (["m1", "m2"], ["m1", "m2", "m2"]), kept


def test_two_hubs_with_prefixes_of_their_own_share_a_redis_and_hear_nothing_of_each_other(start):
    redis = start(Redis)
    one, two = (start(Hub, redis=redis.url, name=name, settings={**FAST, "redis.prefix": name}) for name in ("east", "west"))
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        for client in (alice, bob):
            client.subscribe("room:same")
            client.request("watch", users=["alice", "bob"])
        assert alice.chat("room:same", "in the east")["offset"] == 1
        assert bob.chat("room:same", "in the west")["offset"] == 1
        texts = lambda client: [message["payload"]["text"] for message in heard[client] if message["type"] == "chat"]
        heard = {client: client.gather(1) for client in (alice, bob)}
        assert texts(alice) == ["in the east"] and texts(bob) == ["in the west"]
        assert statuses(heard[alice], "bob") == [] and statuses(heard[bob], "alice") == []
    assert "west" not in hubctl(one, "nodes").stdout
    assert all(key.split(":")[0] in ("east", "west") for key in redis.call("KEYS", "*"))


# TLS


@pytest.fixture(scope="module")
def certificates(folder):
    return Certificate(folder, "redis", "localhost"), Certificate(folder, "other", "localhost")


def secure_redis(start, certificate, *extra):
    return start(
        Redis, "--tls-cert-file", certificate.cert, "--tls-key-file", certificate.key, "--tls-ca-cert-file", certificate.cert,
        *(extra or ("--tls-auth-clients", "no")), tls=for_any_name(trusting(certificate)))


def for_any_name(context):
    context.check_hostname = False
    return context


def url(redis, host="localhost"):
    return f"rediss://{host}:{redis.port}"


def test_nodes_meet_over_tls_with_a_server_that_the_named_authority_vouches_for(start, certificates):
    redis = secure_redis(start, certificates[0])
    one, two = (start(Hub, redis=url(redis), name=name, settings={**FAST, "redis.tls.ca": certificates[0].cert}) for name in ("t1", "t2"))
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        bob.subscribe("room:tls")
        for number in range(50):
            alice.chat("room:tls", "x" * 20_000 + str(number))
        for number in range(50):
            assert bob.expect(type="chat")["payload"]["text"].endswith(f"x{number}")
        # A link that's cut comes back, over TLS again.
        redis.call("CLIENT", "KILL", "TYPE", "pubsub")
        for client in (alice, bob):
            client.expect(event="restored")
        alice.chat("room:tls", "after")
        assert bob.expect(type="chat")["payload"]["text"] == "after"


def test_a_server_that_nobody_trusted_vouches_for_is_refused(start, certificates):
    redis = secure_redis(start, certificates[0])
    not_ready(start, "nobody trusted vouches for the server's certificate", TLS_FAILS, redis=url(redis), settings={"redis.tls.ca": certificates[1].cert})
    # Nor does the system's list know it.
    not_ready(start, "give the certificate of its authority (redis.tls.ca)", TLS_FAILS, redis=url(redis))


def test_a_certificate_for_another_name_is_refused_unless_that_name_is_expected(start, folder):
    certificate = Certificate(folder, "redis.example")
    redis = secure_redis(start, certificate)
    not_ready(start, "not for localhost", TLS_FAILS, redis=url(redis), settings={"redis.tls.ca": certificate.cert})
    start(Hub, redis=url(redis), settings={"redis.tls.ca": certificate.cert, "redis.tls.name": "redis.example"})


def test_insecure_takes_any_certificate_and_says_so(start, certificates):
    redis = secure_redis(start, certificates[0])
    node = start(Hub, redis=url(redis), settings={"redis.tls.insecure": "true"})
    assert "redis.tls.insecure: no Redis is asked who it is" in node.log


def test_a_server_that_asks_for_a_certificate_gets_ours(start, certificates):
    redis = start(
        Redis, "--tls-cert-file", certificates[0].cert, "--tls-key-file", certificates[0].key, "--tls-ca-cert-file", certificates[0].cert,
        tls=for_any_name(client_context(certificates[0])))
    trust = {"redis.tls.ca": certificates[0].cert}
    start(Hub, redis=url(redis), settings={**trust, "redis.tls.cert": certificates[0].cert, "redis.tls.key": certificates[0].key})
    start(Hub, redis=url(redis), settings=trust, ready=False).expect_log("node.degraded")


def client_context(certificate):
    context = trusting(certificate)
    context.load_cert_chain(certificate.cert, certificate.key)
    return context


def test_plain_and_tls_do_not_meet(start, certificates):
    # A plain Redis waits for the end of what it takes for a command.
    node = not_ready(start, "does it speak TLS there?", TLS_FAILS, redis=url(start(Redis)), settings={"redis.tls.ca": certificates[0].cert})
    assert "begins with redis://, not rediss://" in node.log
    redis = secure_redis(start, certificates[0])
    not_ready(start, "begins with rediss://, not redis://", TLS_FAILS, redis=redis.url)


def test_a_cluster_over_tls_takes_a_user_with_the_documented_rights(start, certificates):
    redis = secure_redis(
        start, certificates[0], "--tls-auth-clients", "no", "--tls-cluster", "yes", "--cluster-enabled", "yes", "--cluster-config-file", "lone.conf",
        "--cluster-port", free_port())
    redis.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    eventually(lambda: "cluster_state:ok" in redis.call("CLUSTER", "INFO"))
    rights = [right for right in acl_of_the_documents() if right not in ("+publish", "+subscribe", "+unsubscribe")]
    redis.call("ACL", "SETUSER", "hub", "on", f">{PASSWORD}", *rights, "+spublish", "+ssubscribe", "+sunsubscribe", "+cluster|info", "+cluster|slots")
    settings = {**FAST, "redis.cluster": url(redis), "redis.tls.ca": certificates[0].cert, "redis.user": "hub"}
    one, two = (start(Hub, name=name, settings=settings, environment={"HUB_CFG_REDIS__PASSWORD": PASSWORD}) for name in ("ct1", "ct2"))
    with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
        bob.subscribe("room:ct")
        bob.request("watch", users=["carol", "dave"])
        alice.chat("room:ct", "hello")
        assert bob.expect(type="chat")["payload"]["text"] == "hello"
        with Client(one, user="carol"):
            bob.presence_of("carol", "online")
    assert redis.call("ACL", "LOG") == []


@pytest.mark.parametrize("settings, problem", [
    ({"redis.url": "redis://h", "redis.tls.ca": "CERT"}, "redis.tls.ca is for TLS, but the addresses of Redis begin with redis://"),
    ({"redis.url": "rediss://h", "redis.tls.ca": "KEY"}, "redis.tls.ca names a file which "),
    ({"redis.url": "rediss://h", "redis.tls.ca": "/nowhere"}, "redis.tls.ca names the file \"/nowhere\": can't be read"),
    ({"redis.url": "rediss://h", "redis.tls.cert": "CERT"}, "redis.tls.cert needs redis.tls.key"),
    ({"redis.url": "rediss://h", "redis.tls.cert": "CERT", "redis.tls.key": "OTHER"}, "redis.tls."),
    ({"redis.url": "rediss://h", "redis.tls.ca": "CERT", "redis.tls.insecure": "true"}, "redis.tls.insecure and redis.tls.ca are both given"),
    ({"redis.cluster": "redis://h,rediss://i"}, "redis.cluster mixes redis:// and rediss://"),
])
def test_settings_that_do_not_fit_stop_the_start(certificates, settings, problem):
    files = {"CERT": certificates[0].cert, "KEY": certificates[0].key, "OTHER": certificates[1].key}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={files.get(value, value)}")]
    done = run("hubd", "--dev", "--check", *sets)
    assert done.returncode == 2 and problem in done.stderr, done.stderr
    assert "PRIVATE KEY" not in done.stderr


def test_check_shows_where_redis_is_and_no_secret(certificates):
    done = run(
        "hubd", "--dev", "--check", "--set", "redis.sentinel.urls=rediss://a:1,rediss://b:2", "--set", "redis.sentinel.master=main", "--set",
        f"redis.sentinel.password={PASSWORD}", "--set", "redis.user=app", "--set", f"redis.password={PASSWORD}", "--set",
        f"redis.tls.ca={certificates[0].cert}", "--set", f"redis.tls.cert={certificates[0].cert}", "--set", f"redis.tls.key={certificates[0].key}")
    assert done.returncode == 0, done.stderr
    for text in ("rediss://a:1", "main", "app", "redis.tls.ca", "redis.tls.cert", "<redacted>"):
        assert text in done.stdout
    assert PASSWORD not in done.stdout + done.stderr and "PRIVATE KEY" not in done.stdout


# Links that fall silent


@pytest.mark.parametrize("kind", ["subscriptions", "commands"])
def test_a_link_that_falls_silent_is_noticed_within_5_s_and_what_it_missed_is_announced(start, kind):
    redis = start(Redis)
    with LinkRelay(redis) as relay:
        one, two = start(Hub, redis=f"redis://{relay.address}", name="l1", settings=FAST), start(Hub, redis=redis.url, name="l2", settings=FAST)
        with Client(one, user="alice") as alice, Client(two, user="bob") as bob:
            alice.subscribe("room:silent")
            bob.chat("room:silent", "before")
            alice.expect(type="chat")
            relay.frozen = kind
            began = time.monotonic()
            last = bob.chat("room:silent", "meanwhile")["position"]
            eventually(lambda: status(f"{one.url}/readyz") == 503, 8)
            # The last good probe may have come back up to 2 s before.
            assert time.monotonic() - began < 6.5
            assert status(f"{one.url}/healthz") == 200 and status(f"{two.url}/readyz") == 200
            alice.expect(event="degraded")
            relay.frozen = None
            alice.expect(event="restored")
            # Heard, or known to be missing.
            assert any(message.get("position") == last for message in alice.gather(0.5))
            bob.chat("room:silent", "after")
            assert alice.expect(type="chat")["payload"]["text"] == "after"
