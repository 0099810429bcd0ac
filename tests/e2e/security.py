"""TLS with certificates both ways, SASL SCRAM, tokens by OIDC, and ACLs, against a real broker; no output shows a secret.

Certificates and passwords are made here, for this run. The broker has four listeners: the plain one, MTLS that asks for a
certificate, and SCRAM and OAUTH with TLS below them.
"""
import base64
import contextlib
import http.server
import json
import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse

from kafka import ask, create_topics, ops, protocol, served_at
from session import DEADLINE_S, Skip, case, text_of

PASSWORD = secrets.token_hex(12)
KEY_PASSWORD = secrets.token_hex(12)
PROPERTIES = """
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,MTLS:SSL,SCRAM:SASL_SSL,OAUTH:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.crt
listener.name.mtls.ssl.client.auth=required
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.oauth.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \\
    unsecuredLoginStringClaim_sub="broker";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:ANONYMOUS;User:CN=sheaf;User:sheaf;User:oidc
"""
# Debian 12's librdkafka, as all before 2.6.1, sends a nonce that brokers from 4.0 on refuse (its issue 4895).
KAFKA_VERSION = os.environ.get("SHEAF_KAFKA_VERSION", "3.9.1")
place = {}


def openssl(*arguments):
    done = subprocess.run(["openssl", *arguments], cwd=place["folder"], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr


def certificate(name, *options):
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-out", f"{name}.crt", *options)


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def path(name):
    return os.path.join(place["folder"], name)


def broker():
    """Starts the broker once; returns the folder of certificates and the ports."""
    if "missing" in place:
        raise Skip(place["missing"])
    if "ports" in place:
        return place
    absent = [name for name in ("java", "kcat", "openssl") if not shutil.which(name)]
    if not absent and not shutil.which("mvn") and not os.path.exists(os.path.expanduser("~/.cache/sheaf")):
        absent = ["Kafka, and no Maven to fetch it"]
    os.environ["SHEAF_KAFKA_VERSION"] = KAFKA_VERSION
    if absent:
        place["missing"] = f"there is no {' and no '.join(absent)}"
    else:
        installed = ops("install")
        if installed.returncode:
            place["missing"] = "no Kafka: " + " ".join(installed.stderr.split()[-30:])
    if "missing" in place:
        raise Skip(place["missing"])
    place["folder"] = tempfile.mkdtemp(prefix="sheaf-security-")
    for name in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "2",
                "-subj", f"/CN={name}")
    with open(path("names"), "w", encoding="ascii") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    certificate("broker", "-extfile", "names")
    certificate("sheaf")
    openssl("rsa", "-aes256", "-in", "sheaf.key", "-out", "sheaf-locked.key", "-passout", f"pass:{KEY_PASSWORD}")
    with open(path("broker.pem"), "w", encoding="ascii") as file:
        for name in ("broker.key", "broker.crt"):
            file.write(open(path(name), encoding="ascii").read())
    with open(path("broker.properties"), "w", encoding="ascii") as file:
        file.write(PROPERTIES.format(folder=place["folder"]))
    for _ in range(5):  # another program may take a port before the broker does
        mtls, scram, oauth = free_ports(3)
        started = ops("start", "--dir", path("kafka"), "--listeners", f"MTLS://127.0.0.1:{mtls},SCRAM://127.0.0.1:{scram},OAUTH://127.0.0.1:{oauth}",
                      "--properties", path("broker.properties"), "--scram", f"sheaf={PASSWORD}",
                      "--scram", f"stranger={PASSWORD}", "--scram", f"clerk={PASSWORD}")
        if "Address already in use" not in started.stderr:
            break
    assert started.returncode == 0, started.stderr
    place["plain"] = started.stdout.strip()
    place["ports"] = {"mtls": mtls, "scram": scram, "oauth": oauth}
    return place


def finish():
    folder = place.pop("folder", None)
    if folder:
        ops("stop", "--kill", "--dir", os.path.join(folder, "kafka"))
        shutil.rmtree(folder, ignore_errors=True)


class Client:
    """Topics of one case, and the options of one kind of client in a file of its own."""

    def __init__(self, test, listener, *properties):
        self.test = test
        self.prefix = os.path.basename(test.folder) + "-"
        create_topics(broker()["plain"], self.prefix, 2)
        names = [f"{name} = {self.prefix}{name}" for name in ("jobs", "results", "dead", "control")]
        lines = [f"brokers = 127.0.0.1:{place['ports'][listener]}", f"group = {self.prefix}group", *names]
        test.write("kafka.conf", lines + [f"property = {line}" for line in properties])
        os.chmod(test.path("kafka.conf"), 0o600)

    def run(self, *arguments, status=0):
        return self.test.run(*arguments, "--config", "kafka.conf", status=status)

    def round_trip(self):
        """Submits, works, collects; returns the logs."""
        self.test.write("in.jsonl", [{"prompt": text_of(i, 4), "max_tokens": 4} for i in range(20)])
        said = self.run("submit", "in.jsonl", "--dataset", "set", "-v").err
        worker = self.test.start("work", "--model", self.test.model, "--exit-when-idle", "1", "-v", "--config", "kafka.conf")
        self.test.wait_until("it works", lambda: "KV" in self.test.stderr_of(worker))
        with open(f"/proc/{worker.pid}/cmdline", "rb") as file:
            said += file.read().decode()
        finished = self.test.wait(worker)
        assert finished.status == 0, finished
        said += finished.err + self.run("collect", "--dataset", "set", "-o", "out.jsonl", "-v").err
        said += self.run("status", "--json").out
        assert len(self.test.answers()) == 20
        return said


def with_certificate(*more):
    broker()
    return ["security.protocol=ssl", f"ssl.ca.location={path('ca.crt')}", f"ssl.certificate.location={path('sheaf.crt')}",
            f"ssl.key.location={path('sheaf-locked.key')}", *more]


def with_password(user="sheaf", password=PASSWORD):
    broker()
    return ["security.protocol=sasl_ssl", f"ssl.ca.location={path('ca.crt')}", "sasl.mechanisms=SCRAM-SHA-512",
            f"sasl.username={user}", f"sasl.password={password}"]


@case
def jobs_pass_over_tls_with_certificates_both_ways(test):
    client = Client(test, "mtls", *with_certificate())
    test.environment["SHEAF_PROPERTY"] = f"ssl.key.password={KEY_PASSWORD}"
    assert KEY_PASSWORD not in client.round_trip()


@case
def jobs_pass_with_a_scram_password_that_is_seen_nowhere(test):
    client = Client(test, "scram", *with_password())
    assert PASSWORD not in client.round_trip()
    for name in os.listdir(test.folder):
        if name != "kafka.conf":
            assert PASSWORD.encode() not in test.read(name), name


class TokenEndpoint(http.server.BaseHTTPRequestHandler):
    """OAuth's client credentials grant: unsigned tokens, which the broker's own validator for tests takes."""
    lifetime_s = 3600
    asked = []  # the forms, with "client" from the header

    def do_POST(self):  # pylint: disable=invalid-name
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        form["client"] = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.asked.append(form)
        is_known = form["client"] == f"sheaf:{PASSWORD}" and form["grant_type"] == "client_credentials"
        now_s = int(time.time())
        parts = [json.dumps(part).encode() for part in
                 ({"alg": "none"}, {"sub": "oidc", "iat": now_s - 1, "exp": now_s + self.lifetime_s, "scope": form.get("scope", "")})]
        token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s} if is_known else \
            {"error": "invalid_client", "error_description": "no such client"}
        body = json.dumps(answer).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@contextlib.contextmanager
def token_endpoint(lifetime_s):
    handler = type("Endpoint", (TokenEndpoint,), {"lifetime_s": lifetime_s, "asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/token", handler.asked
    finally:
        server.shutdown()
        server.server_close()


def with_token(url, *more, secret=PASSWORD):
    broker()
    return ["security.protocol=sasl_ssl", f"ssl.ca.location={path('ca.crt')}", "sasl.mechanisms=OAUTHBEARER",
            "sasl.oauthbearer.method=oidc", "sasl.oauthbearer.client.id=sheaf", f"sasl.oauthbearer.client.secret={secret}",
            f"sasl.oauthbearer.token.endpoint.url={url}", *more]


@case
def jobs_pass_with_tokens_by_oidc_whose_secret_is_seen_nowhere(test):
    with token_endpoint(3600) as (url, asked):
        client = Client(test, "oauth", *with_token(url, "sasl.oauthbearer.scope=jobs results", "sasl.oauthbearer.extensions=logicalCluster=lkc-1"))
        assert PASSWORD not in client.round_trip()
    assert asked and {form["scope"] for form in asked} == {"jobs results"}, asked


@case
def a_worker_renews_its_token(test):
    with token_endpoint(5) as (url, asked):
        client = Client(test, "oauth", *with_token(url))
        worker = test.start("work", "--model", test.model, "--engine-test", "instant", "--config", "kafka.conf")
        test.wait_until("its clients have a second token each", lambda: len(asked) >= 8)
        test.write("in.jsonl", [{"prompt": text_of(i, 4), "max_tokens": 4} for i in range(20)])
        client.run("submit", "in.jsonl", "--dataset", "set")
        test.wait_until("it answers", lambda: test.query("SELECT n_done FROM datasets") == [(20,)])
        worker.terminate()
        assert test.wait(worker).status == 0


@case
def a_refused_client_and_settings_that_are_missing_are_named(test):
    with token_endpoint(3600) as (url, _):
        client = Client(test, "oauth", *with_token(url, secret="nottheone4711"))
        said = client.run("lag", status=1).err
        assert "nottheone4711" not in said and "401" in said and "no such client" in said, said
    client = Client(test, "oauth", *with_token("http://127.0.0.1:9/token"))
    said = client.run("lag", status=1).err
    assert "127.0.0.1:9/token" in said or "oken" in said, said
    client = Client(test, "oauth", *[line for line in with_token(url) if "client.secret" not in line])
    said = client.run("lag", status=2).err
    assert "sasl.oauthbearer.client.secret" in said, said


@case
def a_client_without_certificate_and_one_with_a_stranger_s_ca_say_so(test):
    client = Client(test, "mtls", "security.protocol=ssl", f"ssl.ca.location={broker()['folder']}/ca.crt")
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    said = client.run("submit", "in.jsonl", "--dataset", "set", status=1).err.lower()
    assert "ssl" in said or "certificate" in said, said
    client = Client(test, "mtls", *with_certificate()[:1], f"ssl.ca.location={path('other-ca.crt')}")
    said = client.run("submit", "in.jsonl", "--dataset", "set", status=1).err.lower()
    assert "certificate verify failed" in said or "certificate" in said, said


@case
def a_wrong_password_is_one_clear_message_without_it(test):
    client = Client(test, "scram", *with_password(password="nottheone4711"))
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    for arguments in (["submit", "in.jsonl", "--dataset", "set"], ["work", "--model", test.model]):
        said = client.run(*arguments, status=1).err
        assert "uthentication" in said and "nottheone4711" not in said, said
    # Only libraries that send the wrong nonce get the hint.
    loaded = tuple(map(int, re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said).groups()))
    assert ("refuse SCRAM of librdkafka before 2.6.1" in said) == (loaded < (2, 6, 1)), said


@case
def a_missing_right_is_named_with_its_resource(test):
    client = Client(test, "scram", *with_password(user="stranger"))
    test.write("in.jsonl", [{"prompt": "the", "max_tokens": 2}])
    for arguments in (["submit", "in.jsonl", "--dataset", "set"], ["work", "--model", test.model],
                      ["collect", "--dataset", "set", "-o", "out.jsonl"], ["mirror", "--until-end"], ["lag"]):
        said = client.run(*arguments, status=1).err
        assert "authoriz" in said.lower() and client.prefix in said, said


# ---- rights, one by one ----

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5  # resources
READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, IDEMPOTENT_WRITE = 3, 4, 8, 10, 12
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3


def pattern_of(name):
    """A right's pattern as bytes: a name that ends in * is a prefix."""
    pattern = PREFIXED if name.endswith("*") else LITERAL
    return protocol.string(name.rstrip("*")) + struct.pack(">b", pattern)


def right_of_the_clerk(right, permission):
    """(resource, name, operation) of the user clerk, as a request has it."""
    resource, name, operation = right
    string = protocol.string
    return struct.pack(">b", resource) + pattern_of(name) + string("User:clerk") + string("*") + struct.pack(">bb", operation, permission)


def ask_broker(key, body):
    reader = protocol.Connection(broker()["plain"]).request(key, 1, body)
    reader.take("i")  # throttle time
    return reader


def is_in_force(right, permission):
    """Whether the broker's authorizer has the ACL: it follows the controller, which acknowledges a change earlier."""
    reader = ask_broker(DESCRIBE_ACLS, right_of_the_clerk(right, permission))
    code, text = reader.take("h"), reader.string()
    assert code == 0, (code, text)
    return reader.take("i") > 0


def grant(test, *rights, permission=ALLOW):
    reader = ask_broker(CREATE_ACLS, protocol.array([right_of_the_clerk(right, permission) for right in rights]))
    for code, text in reader.array(lambda: (reader.take("h"), reader.string())):
        assert code == 0, (code, text)
    test.wait_until("rights are in force", lambda: all(is_in_force(right, permission) for right in rights))


def deny(test, *rights):
    grant(test, *rights, permission=DENY)


def delete(test, rights, permission):
    ask_broker(DELETE_ACLS, protocol.array([right_of_the_clerk(right, permission) for right in rights]))
    test.wait_until("no right is left", lambda: not any(is_in_force(right, permission) for right in rights))


def allow_again(test, *rights):
    delete(test, rights, DENY)


def take_away(test, *rights):
    """The rights with the implied ones, such as Describe."""
    delete(test, rights, ALLOW)


def rights_of_a_worker(client):
    """Those of ops/RUNBOOK.md but for the transactional id."""
    group = f"{client.prefix}group"
    return [(TOPIC, f"{client.prefix}jobs", READ), (TOPIC, f"{client.prefix}control", READ),
            *((TOPIC, f"{client.prefix}{name}", right) for name in ("results", "dead") for right in (WRITE, DESCRIBE_CONFIGS)),
            (GROUP, group, READ)]


def rights_of_a_submitter(client):
    """Those of ops/RUNBOOK.md but for the transactional id."""
    return [(TOPIC, f"{client.prefix}{name}", right) for name in ("jobs", "control") for right in (READ, WRITE)]


def transactional_right_of_a_submitter(client):
    return TRANSACTIONAL_ID, f"sheaf-submit/{client.prefix}jobs/*", WRITE


@case
def a_submitter_needs_the_rights_of_the_runbook_and_names_a_missing_one(test):
    client = Client(test, "scram", *with_password(user="clerk"))
    test.write("in.jsonl", [{"prompt": text_of(i, 4), "max_tokens": 4} for i in range(20)])
    for name in ("jobs", "control"):  # a topic without records is not read
        subprocess.run(["kcat", "-b", broker()["plain"], "-P", "-k", "x", "-t", client.prefix + name], input="{}\n", text=True, check=True,
                       timeout=DEADLINE_S)
    rights = rights_of_a_submitter(client)
    grant(test, *rights)
    refused = client.run("submit", "in.jsonl", "--dataset", "set", status=1)
    assert f"sheaf-submit/{client.prefix}jobs/set" in refused.err and "uthoriz" in refused.err, refused
    grant(test, transactional_right_of_a_submitter(client))
    for right in rights:
        deny(test, right)
        refused = client.run("submit", "in.jsonl", "--dataset", "set", status=1)
        assert right[1] in refused.err and "uthoriz" in refused.err, refused
        allow_again(test, right)
    assert "20 jobs written" in client.run("submit", "in.jsonl", "--dataset", "set").err


@case
def a_redrive_needs_the_rights_of_the_runbook(test):
    client = Client(test, "scram", *with_password(user="clerk"))
    letter = ["-H", f"__sheaf.errors.topic={client.prefix}jobs", "-H", "__sheaf.errors.code=crashed"]
    for name, headers in (("dead", letter), ("control", [])):  # a topic without records is not read
        subprocess.run(["kcat", "-b", broker()["plain"], "-P", "-k", "x", "-t", client.prefix + name, *headers], input="{}\n", text=True,
                       check=True, timeout=DEADLINE_S)
    rights = [(TOPIC, f"{client.prefix}{name}", right) for name, right in (("dead", READ), ("control", READ), ("control", WRITE), ("jobs", WRITE))]
    grant(test, *rights)
    refused = client.run("redrive", status=1)
    assert f"sheaf-redrive/{client.prefix}jobs/" in refused.err and "uthoriz" in refused.err, refused
    grant(test, (TRANSACTIONAL_ID, f"sheaf-redrive/{client.prefix}jobs/*", WRITE))
    for right in rights:
        deny(test, right)
        refused = client.run("redrive", status=1)
        assert right[1] in refused.err and "uthoriz" in refused.err, refused
        allow_again(test, right)
    assert "1 dead letters" in client.run("redrive").err


@case
def a_worker_works_with_the_rights_of_the_runbook_and_names_its_transactional_id_without_that_one(test):
    client = Client(test, "scram", *with_password(user="clerk"))
    test.write("in.jsonl", [{"prompt": text_of(i, 4), "max_tokens": 4} for i in range(20)])
    grant(test, *rights_of_a_submitter(client), transactional_right_of_a_submitter(client))
    client.run("submit", "in.jsonl", "--dataset", "set")
    grant(test, (TOPIC, f"{client.prefix}results", READ))
    unfinished = client.run("collect", "--dataset", "set", "-o", "out.jsonl", status=1).err
    assert f"0 of 20 jobs have results, the offsets of group {client.prefix}group can't be read; wait" in unfinished, unfinished
    grant(test, (GROUP, f"{client.prefix}group", DESCRIBE))
    assert f"group {client.prefix}group has finished none" in client.run("collect", "--dataset", "set", "-o", "out.jsonl", status=1).err
    grant(test, *rights_of_a_worker(client))
    refused = client.run("work", "--model", test.model, "--exit-when-idle", "1", status=1)
    assert "ransactional" in refused.err and "uthoriz" in refused.err, refused
    assert f"sheaf-{client.prefix}group-" in refused.err, refused  # which one
    right = TRANSACTIONAL_ID, f"sheaf-{client.prefix}group-*", WRITE
    grant(test, right)
    assert "20 jobs answered, 0 failed" in client.run("work", "--model", test.model, "--exit-when-idle", "1").err
    client.run("collect", "--dataset", "set", "-o", "out.jsonl")
    assert len(test.answers()) == 20
    assert "not known" not in client.run("cancel", "--dataset", "set").err
    deny(test, (TOPIC, f"{client.prefix}control", READ))
    assert "whether dataset set was submitted is not known" in client.run("cancel", "--dataset", "set").err
    allow_again(test, (TOPIC, f"{client.prefix}control", READ))
    client.run("mirror", "--until-end", "--store", "fleet.db", "--group", f"{client.prefix}group")
    assert test.query("SELECT count(*) FROM jobs WHERE status = 'done'", "fleet.db") == [(20,)]


@case
def a_worker_whose_transactional_id_is_forbidden_while_it_works_ends_and_the_next_one_loses_and_doubles_nothing(test):
    client = Client(test, "scram", *with_password(user="clerk"))
    right = TRANSACTIONAL_ID, f"sheaf-{client.prefix}group-*", WRITE
    grant(test, *rights_of_a_worker(client), right, *rights_of_a_submitter(client),
          transactional_right_of_a_submitter(client), (TOPIC, f"{client.prefix}results", READ))
    test.write("in.jsonl", [{"prompt": text_of(i, 4), "max_tokens": 4} for i in range(1000)])
    client.run("submit", "in.jsonl", "--dataset", "set")
    worker = test.start("work", "--model", test.model, "--config", "kafka.conf", "--engine-test", "fixed:50", "--window", "16",
                        "--max-batch", "4")
    test.wait_until("some are answered", lambda: test.query("SELECT count(*) FROM jobs") > [(20,)])
    deny(test, right)
    ended = test.wait(worker)
    assert ended.status == 1 and "ransactional" in ended.err and "uthoriz" in ended.err, ended
    client.run("collect", "--dataset", "set", "-o", "out.jsonl", "--force")
    assert 20 < len(test.answers()) < 1000
    allow_again(test, right)
    client.run("work", "--model", test.model, "--exit-when-idle", "1")
    client.run("collect", "--dataset", "set", "-o", "out.jsonl")
    assert len(test.answers()) == 1000
    results = subprocess.run(["kcat", "-b", broker()["plain"], "-C", "-t", f"{client.prefix}results", "-e", "-q", "-o", "beginning",
                              "-f", "%k\\n"], capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout.split()
    assert len(results) == len(set(results)) == 1000, len(results)


class Reader(Client):
    """A worker with the rights of one; another user submits."""

    def __init__(self, test, n_jobs, *options):
        super().__init__(test, "scram", *with_password(user="clerk"))
        self.right = TOPIC, f"{self.prefix}jobs", READ
        grant(test, *rights_of_a_worker(self), (TRANSACTIONAL_ID, f"sheaf-{self.prefix}group-*", WRITE))
        test.write("in.jsonl", [{"prompt": text_of(i, 4), "max_tokens": 4} for i in range(n_jobs)])
        self.submit("first")
        self.worker = test.start("work", "--model", test.model, "--config", "kafka.conf", "--metrics", "127.0.0.1:0", *options)
        self.where = served_at(test, self.worker)

    def submit(self, dataset):
        self.test.run("submit", "in.jsonl", "--dataset", dataset, "--brokers", broker()["plain"], "--jobs", f"{self.prefix}jobs",
                      "--control", f"{self.prefix}control")

    def wait_until(self, what, condition):
        self.test.wait_until(what, lambda: self.worker.poll() is not None or condition())
        assert self.worker.poll() is None, self.test.stderr_of(self.worker)

    def n_done(self):
        return self.test.query("SELECT count(*) FROM jobs")[0][0]

    def says_why(self):
        """Expects a refusal or, once librdkafka has left the partitions, an error that no partition is permitted."""
        status, reason = ask(self.where, "/readyz")
        return status == 503 and self.right[1] in reason and ("uthoriz" in reason or "needs the right Read" in reason)

    def lose_the_right(self, lose):
        lose(self.test, self.right)
        self.wait_until("it says so", self.says_why)
        assert "uthoriz" in self.test.stderr_of(self.worker)

    def finish_ready(self, n_jobs):
        self.wait_until("all are answered", lambda: self.n_done() == n_jobs)
        self.wait_until("it is ready", lambda: ask(self.where, "/readyz")[0] == 200)
        self.worker.terminate()
        assert self.test.wait(self.worker).status == 0


@case
def a_worker_whose_right_to_read_is_taken_away_waits_says_so_and_goes_on_once_it_is_back(test):
    reader = Reader(test, 20, "--engine-test", "instant")
    reader.wait_until("the first are answered", lambda: reader.n_done() == 20)
    reader.lose_the_right(deny)
    allow_again(test, reader.right)
    reader.submit("second")
    reader.wait_until("the next are answered", lambda: reader.n_done() == 40)
    reader.lose_the_right(take_away)
    grant(test, reader.right)
    reader.finish_ready(40)


@case
def a_busy_worker_whose_right_to_read_is_taken_away_waits_with_its_results(test):
    """Commits need the right, too. After a metadata refresh, every 5 minutes by default, librdkafka leaves the partitions."""
    reader = Reader(test, 300, "--engine-test", "fixed:50", "--max-batch", "4", "-X", "topic.metadata.refresh.interval.ms=2000")
    reader.wait_until("some are answered", lambda: reader.n_done() > 0)
    reader.lose_the_right(take_away)
    reader.wait_until("it has no partitions", lambda: "no partitions: the worker needs the right Read" in ask(reader.where, "/readyz")[1])
    assert reader.n_done() < 300 and ask(reader.where, "/healthz")[0] == 200
    grant(test, reader.right)
    reader.finish_ready(300)
