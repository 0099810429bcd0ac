"""ops/kubernetes and ops/container: their syntax, and that the names in them exist."""
import os
import re
import subprocess

from session import Skip, case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# keda.sh/docs/2.13/scalers/metrics-api: parameters of the trigger.
METRICS_TRIGGER = {"url", "valueLocation", "targetValue", "activationTargetValue", "authMode", "unsafeSsl", "format"}


def documents(name):
    try:
        import yaml  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Skip("no python3-yaml") from error
    with open(os.path.join(ROOT, "ops/kubernetes", name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def options_of(container):
    return dict(word.lstrip("-").partition("=")[::2] for word in container["args"][1:])


@case
def the_deployment_is_complete_and_its_parts_fit(test):
    (deployment,) = documents("worker.yaml")
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports and container[probe]["httpGet"]["path"] in ("/healthz", "/readyz")
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    # sheaf writes to a volume.
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for option in ("model", "store", "config", "metrics-token"):
        path = options_of(container)[option]
        assert any(path.startswith(mount + "/") for mount in mounts), path


@case
def the_worker_s_options_are_options_of_sheaf_work(test):
    (deployment,) = documents("worker.yaml")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][0] == "work"
    known = test.run("help", "--help-all", "work").out
    for option in options_of(container):
        assert re.search(rf"--{option}\b(?!-)", known), option


@case
def what_serves_the_scaler_is_complete_and_of_the_workers_group_and_topic(test):
    (worker,), (deployment, service) = documents("worker.yaml"), documents("lag.yaml")
    assert (service["kind"], service["metadata"]["name"]) == ("Service", deployment["metadata"]["name"])
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items() and deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert not worker["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,), (like,) = (one["spec"]["template"]["spec"]["containers"] for one in (deployment, worker))
    assert container["args"][0] == "lag" and service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    options, of_worker = options_of(container), options_of(like)
    assert all(options[name] == of_worker[name] for name in ("brokers", "jobs", "group", "config", "metrics-token")), options
    known = test.run("help", "--help-all", "lag").out
    for option in options:
        assert re.search(rf"--{option}\b(?!-)", known), option


@case
def the_scaler_asks_what_serves_it_with_its_token(test):
    (worker,), (_, service), (scaler, authentication) = documents("worker.yaml"), documents("lag.yaml"), documents("scaler.yaml")
    assert (scaler["apiVersion"], scaler["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"], target["name"]) == ("apps/v1", "Deployment", worker["metadata"]["name"])
    assert 0 <= scaler["spec"]["minReplicaCount"] < scaler["spec"]["maxReplicaCount"]
    (trigger,) = scaler["spec"]["triggers"]
    assert trigger["type"] == "metrics-api"  # not "kafka": its LAG counts finished jobs
    metadata = trigger["metadata"]
    assert set(metadata) <= METRICS_TRIGGER, set(metadata) - METRICS_TRIGGER
    assert all(isinstance(value, str) for value in metadata.values()), metadata  # KEDA refuses numbers
    assert metadata["url"] == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/"
    assert metadata["valueLocation"] == "unfinished"  # a member of what `sheaf lag --json` prints (e2e/fleet)
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    (secret,) = authentication["spec"]["secretTargetRef"]
    volumes = {volume["name"]: volume for volume in worker["spec"]["template"]["spec"]["volumes"]}
    assert secret == {"parameter": "token", "name": volumes["configuration"]["secret"]["secretName"], "key": "metrics-token"}


# strimzi.io/docs/operators/0.49.0/configuring: KafkaTopicSpec, AclRule.
STRIMZI_TOPIC = {"partitions", "replicas", "config", "topicName"}
STRIMZI_OPERATIONS = {"Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs", "DescribeConfigs",
                      "IdempotentWrite", "All"}


def rights_of_the_runbook(who):
    """{(resource's type, name): operations} of a row of the table of rights."""
    with open(os.path.join(ROOT, "ops/RUNBOOK.md"), encoding="utf-8") as file:
        (row,) = re.findall(rf"^\| {re.escape(who)} \| (.*) \|$", file.read(), re.M)
    rights = {}
    for sentence in row.split(". "):
        operations, _, names = sentence.partition(": ")
        for name in re.split(r", (?:the )?|the ", re.sub(r"\(.*?\)", "", names)):
            if "transactional ids" in name:
                resource = "transactionalId", re.search("`(.*)[*]`", name).group(1)
            elif name.strip() == "group":
                resource = "group", "sheaf"
            elif name.strip():
                resource = "topic", "sheaf-" + name.strip()
            else:
                continue
            rights.setdefault(resource, set()).update(operations.split(", "))
    return rights


@case
def topics_and_users_of_strimzi_have_the_settings_and_rights_of_the_runbook(test):
    objects = documents("kafka.yaml")
    assert {one["apiVersion"] for one in objects} == {"kafka.strimzi.io/v1"}
    assert len({one["metadata"]["labels"]["strimzi.io/cluster"] for one in objects}) == 1
    topics = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "KafkaTopic"}
    known = test.run("help", "--help-all", "work").out
    assert sorted(topics) == sorted(f"sheaf-{name}" for name in ("jobs", "results", "dead", "control"))
    for name, spec in topics.items():
        assert f"({name})" in known, name  # the option's default
        assert set(spec) <= STRIMZI_TOPIC and all(isinstance(spec[key], int) for key in ("partitions", "replicas"))
    assert topics["sheaf-control"]["config"]["cleanup.policy"] == "compact"
    users = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "KafkaUser"}
    expected = {"sheaf-worker": ["a worker"], "sheaf-submitter": ["`sheaf submit`", "`sheaf collect`", "`sheaf cancel`"],
                "sheaf-mirror": ["`sheaf mirror`, `sheaf status --rebuild`"]}
    assert set(users) == set(expected)
    for name, rows in expected.items():
        rights = {}
        for row in rows:
            for resource, operations in rights_of_the_runbook(row).items():
                rights.setdefault(resource, set()).update(operations)
        if ("topic", "sheaf-jobs") in rights and "Read" in rights["topic", "sheaf-jobs"]:
            rights["topic", "sheaf-jobs"].discard("Describe")  # Read implies it
        rights = {(kind, text.replace("GROUP", "sheaf").replace("JOBS", "sheaf-jobs")): operations
                  for (kind, text), operations in rights.items()}
        given = {(acl["resource"]["type"], acl["resource"]["name"]): set(acl["operations"]) for acl in users[name]["authorization"]["acls"]}
        assert given == rights, (name, given, rights)
        for acl in users[name]["authorization"]["acls"]:
            is_prefix = acl["resource"]["type"] == "transactionalId"
            assert acl["resource"]["patternType"] == ("prefix" if is_prefix else "literal") and set(acl["operations"]) <= STRIMZI_OPERATIONS


@case
def the_container_s_tree_runs_without_a_distribution(test):
    subprocess.run(["bash", "-n", os.path.join(ROOT, "ops/package")], check=True)
    with open(test.sheaf, "rb") as file:
        if b"__asan_init" in file.read():
            raise Skip("a sanitizer's program needs its runtime")
    if os.geteuid() != 0:
        raise Skip("chroot takes root")
    if not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        raise Skip("no certificates")
    tree = test.path("tree")
    subprocess.run([os.path.join(ROOT, "ops/container/tree"), tree, os.path.abspath(test.sheaf)], check=True)
    subprocess.run(["strip", os.path.join(tree, "usr/bin/sheaf")], check=True)
    found = subprocess.run(["du", "-sm", "--apparent-size", tree], capture_output=True, text=True, check=True).stdout
    assert int(found.split()[0]) <= 60, found
    # chroot itself is looked for outside; the program and its libraries inside.
    done = subprocess.run(["chroot", "--userspec=65532:65532", tree, "/usr/bin/sheaf", "help", "work"], capture_output=True, text=True)
    assert done.returncode == 0 and "--brokers" in done.stdout, done.stderr
