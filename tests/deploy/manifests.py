#!/usr/bin/env python3
"""Reads examples/deploy/*.yaml with a parser and checks what Troupe relies on. Ends with 77, which ctest takes
for skipped, where Python has no yaml module (Debian: python3-yaml)."""

import sys

try:
    import yaml
except ImportError:
    print("skipped: this Python has no yaml module; Debian: apt-get install python3-yaml")
    sys.exit(77)

FAILURES = []


def check(condition, sentence):
    if not condition:
        FAILURES.append(sentence)


def read(path):
    with open(path, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    check(len(documents) == 1, f"{path}: {len(documents)} documents")
    return documents[0]


def flags_in(words):
    """{"--model-dir": "/shared/run1"}"""
    for word in words:
        check(isinstance(word, str) and word.startswith("--"), f"{word!r} is no flag")
    return dict(word.partition("=")[::2] for word in words)


def flags_of(container):
    """The training program's, and those of `troupe run` where that starts it."""
    command = container.get("command", []) + container.get("args", [])
    if command[:2] != ["troupe", "run"]:
        return flags_in(command[1:]), {}
    end = command.index("--")
    check(not command[end + 1].startswith("--"), f"{command[end + 1]} is no program")
    return flags_in(command[end + 2:]), flags_in(command[2:end])


def check_secret(name, pod, container, flags, member):
    """Whoever takes part in the group reads the secret, as docs/security.md says; an evaluator has none."""
    check("--insecure" not in flags, f"{name}: not encrypted")
    variables = {entry["name"]: entry.get("value", "") for entry in container.get("env", [])}
    volumes = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    if not member:
        check(not volumes and "TROUPE_SECRET_FILE" not in variables, f"{name}: has the secret")
        return
    check(list(volumes.values()) == [{"secretName": "troupe", "defaultMode": 0o440}], f"{name}: secret {volumes}")
    check("fsGroup" in pod.get("securityContext", {}), f"{name}: only root may read the secret")
    paths = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] in volumes and mount["readOnly"]]
    check([variables.get("TROUPE_SECRET_FILE")] == [path + "/key" for path in paths],
          f"{name}: TROUPE_SECRET_FILE is not in the volume")


def check_pod(name, pod, member):
    """What all pods have, and `member`s of the group; returns the only container, its program's flags and the
    launcher's."""
    check(len(pod["containers"]) == 1, f"{name}: more than one container")
    container = pod["containers"][0]
    flags, launcher = flags_of(container)
    check(flags.get("--mode") == "train-and-evaluate", f"{name}: another mode")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    check(set(mounts) == set(volumes), f"{name}: mounts {mounts}, volumes {volumes}")
    claimed = [path for volume, path in mounts.items() if "persistentVolumeClaim" in volumes[volume]]
    check(any(flags.get("--model-dir", "").startswith(path + "/") for path in claimed),
          f"{name}: --model-dir is on no mounted volume")
    check_secret(name, pod, container, flags, member)
    return container, flags, launcher


def check_same(all_flags):
    for flag in ("--model-dir", "--max-steps"):
        values = {flags.get(flag) for flags in all_flags}
        check(len(values) == 1 and None not in values, f"{flag} differs: {values}")


def check_launchers(document):
    """One indexed job, whose pods run a launcher each; returns the job's spec, the launcher's and the program's
    flags."""
    check(document["apiVersion"] == "jobset.x-k8s.io/v1alpha2", "JobSet: another version")
    check(document["kind"] == "JobSet", "JobSet: another kind")
    name, spec = document["metadata"]["name"], document["spec"]
    check(spec["network"]["enableDNSHostnames"] is True, "JobSet: pods have no names")
    check(spec["failurePolicy"]["maxRestarts"] > 0, "JobSet: no restarts")
    check(len(spec["replicatedJobs"]) == 1, "JobSet: more than one job")
    job, rendezvous_port = spec["replicatedJobs"][0], 29500
    workers = job["template"]["spec"]
    pod = workers["template"]["spec"]
    container, flags, launcher = check_pod(job["name"], pod, True)
    # podFailurePolicy needs this, and names containers.
    check(pod["restartPolicy"] == "Never", "workers: restartPolicy")
    for rule in workers["podFailurePolicy"]["rules"]:
        if "onExitCodes" not in rule:
            continue
        codes = rule["onExitCodes"]
        check(codes["containerName"] == container["name"], "workers: containerName")
        check(codes["values"] == sorted(set(codes["values"])), "workers: codes not in order")
        check(all(0 < code < 128 for code in codes["values"]), "workers: a code that may be retried ends the job")
    check(job["replicas"] == 1, "workers: several jobs")
    check(workers["completionMode"] == "Indexed", "workers: not indexed")
    check(workers["completions"] == workers["parallelism"], "workers: not all at once")
    check(launcher.get("--nodes") == str(workers["completions"]), "workers: --nodes is not completions")
    check(launcher.get("--node") == "$(JOB_COMPLETION_INDEX)", "workers: --node is not the pod's number")
    check(launcher.get("--rendezvous")
          == f"{name}-{job['name']}-0-0.{spec['network']['subdomain']}:{rendezvous_port}",
          "workers: --rendezvous is not the name of the first pod")
    check(container["ports"] == [{"name": "rendezvous", "containerPort": rendezvous_port}], "workers: port")
    check(int(launcher["--grace"]) < pod["terminationGracePeriodSeconds"],
          "workers: Kubernetes kills before --grace is over")
    check(int(launcher["--max-restarts"]) > 0, "workers: no restarts")
    return workers, launcher, flags


def check_jobset(document):
    workers, launcher, _ = check_launchers(document)
    check(workers["backoffLimit"] == 0, "workers: one would be started again alone")
    check("--evaluator" in launcher, "workers: no evaluator")


def check_spot(document):
    """Pods come and go one by one, and the group is elastic."""
    workers, launcher, flags = check_launchers(document)
    check("backoffLimit" not in workers and workers["backoffLimitPerIndex"] > 0, "spot: a lost pod is not replaced")
    check({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
          in workers["podFailurePolicy"]["rules"], "spot: pods that are taken away count as failures")
    check(1 <= int(launcher["--min-workers"]) <= workers["completions"], "spot: --min-workers")
    check(int(launcher["--max-restarts"]) >= 100, "spot: too few restarts for pods that come and go")
    check(int(launcher["--regroup-secs"]) >= 300, "spot: the first pod is not waited for")
    check(int(flags["--virtual-replicas"]) >= workers["completions"] * int(launcher["--workers"]),
          "spot: more workers than virtual replicas")


def check_tfjob(document):
    check(document["apiVersion"] == "kubeflow.org/v1", "TFJob: another version")
    check(document["kind"] == "TFJob", "TFJob: another kind")
    check(document["spec"]["runPolicy"]["cleanPodPolicy"] == "None", "TFJob: cleanPodPolicy")
    roles = document["spec"]["tfReplicaSpecs"]
    check(set(roles) == {"Chief", "Worker", "PS", "Evaluator"}, f"TFJob: roles {set(roles)}")
    check(roles["Chief"]["replicas"] == 1, "TFJob: one chief")
    check(roles["Evaluator"]["replicas"] == 1, "TFJob: one evaluator")
    all_flags = []
    for role, spec in roles.items():
        check(spec["restartPolicy"] == "ExitCode", f"{role}: restartPolicy")
        container, flags, _ = check_pod(role, spec["template"]["spec"], role != "Evaluator")
        all_flags.append(flags)
        check(container["name"] == "tensorflow", f"{role}: the operator needs a container tensorflow")
        check({"name": "tfjob-port", "containerPort": 2222} in container["ports"], f"{role}: port")
        check(not any(flag in flags for flag in ("--task", "--rank", "--cluster")),
              f"{role}: a flag wins over TF_CONFIG")
        check((flags.get("--strategy") == "parameter-server") == (role != "Evaluator"),
              f"{role}: --strategy")
    check_same(all_flags)


def main():
    folder = sys.argv[1]
    check_jobset(read(f"{folder}/jobset.yaml"))
    check_spot(read(f"{folder}/jobset-spot.yaml"))
    check_tfjob(read(f"{folder}/tfjob.yaml"))
    for failure in FAILURES:
        print(failure)
    sys.exit(1 if FAILURES else 0)


main()
