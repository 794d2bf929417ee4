#!/usr/bin/env python3
"""Reads deploy/*.yaml with a parser and checks what Troupe relies on. Ends with 77, which ctest takes
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


def flags_of(container):
    """{"--model-dir": "/shared/run1"}"""
    words = container.get("command", [])[1:] + container.get("args", [])
    for word in words:
        check(isinstance(word, str) and word.startswith("--"), f"{word!r} is no flag")
    return dict(word.partition("=")[::2] for word in words)


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
    """What all pods have, and `member`s of the group; returns the only container and its flags."""
    check(len(pod["containers"]) == 1, f"{name}: more than one container")
    container = pod["containers"][0]
    flags = flags_of(container)
    check(flags.get("--mode") == "train-and-evaluate", f"{name}: another mode")
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    check(set(mounts) == set(volumes), f"{name}: mounts {mounts}, volumes {volumes}")
    claimed = [path for volume, path in mounts.items() if "persistentVolumeClaim" in volumes[volume]]
    check(any(flags.get("--model-dir", "").startswith(path + "/") for path in claimed),
          f"{name}: --model-dir is on no mounted volume")
    check_secret(name, pod, container, flags, member)
    return container, flags


def check_same(all_flags):
    for flag in ("--model-dir", "--max-steps"):
        values = {flags.get(flag) for flags in all_flags}
        check(len(values) == 1 and None not in values, f"{flag} differs: {values}")


def check_jobset(document):
    check(document["apiVersion"] == "jobset.x-k8s.io/v1alpha2", "JobSet: another version")
    check(document["kind"] == "JobSet", "JobSet: another kind")
    name, spec = document["metadata"]["name"], document["spec"]
    check(spec["network"]["enableDNSHostnames"] is True, "JobSet: pods have no names")
    check(spec["failurePolicy"]["maxRestarts"] > 0, "JobSet: no restarts")
    jobs = {job["name"]: job for job in spec["replicatedJobs"]}
    check(set(jobs) == {"workers", "evaluator"}, f"JobSet: jobs {set(jobs)}")
    all_flags = []
    for job_name, job in jobs.items():
        job_spec = job["template"]["spec"]
        pod = job_spec["template"]["spec"]
        container, flags = check_pod(job_name, pod, job_name == "workers")
        all_flags.append(flags)
        # podFailurePolicy needs this, and names containers.
        check(pod["restartPolicy"] == "Never", f"{job_name}: restartPolicy")
        for rule in job_spec["podFailurePolicy"]["rules"]:
            codes = rule["onExitCodes"]
            check(codes["containerName"] == container["name"], f"{job_name}: containerName")
            check(codes["values"] == sorted(set(codes["values"])), f"{job_name}: codes not in order")
            check(all(0 < code < 128 for code in codes["values"]),
                  f"{job_name}: a code that may be retried ends the job")
    workers = jobs["workers"]["template"]["spec"]
    container = workers["template"]["spec"]["containers"][0]
    variables = {entry["name"]: entry for entry in container["env"]}
    check(workers["completionMode"] == "Indexed", "workers: not indexed")
    check(workers["completions"] == workers["parallelism"], "workers: not all at once")
    check(workers["backoffLimit"] == 0, "workers: one would be started again alone")
    check(variables["TROUPE_WORLD_SIZE"]["value"] == str(workers["completions"]),
          "workers: TROUPE_WORLD_SIZE is not completions")
    port = container["ports"][0]["containerPort"]
    check(variables["TROUPE_CHIEF_ADDRESS"]["value"]
          == f"{name}-workers-0-0.{spec['network']['subdomain']}:{port}",
          "workers: TROUPE_CHIEF_ADDRESS is not the name of the first pod")
    for variable in ("TROUPE_RANK", "TROUPE_GENERATION"):
        check("fieldPath" in variables[variable]["valueFrom"]["fieldRef"], f"workers: {variable}")
    evaluator = check_pod("evaluator", jobs["evaluator"]["template"]["spec"]["template"]["spec"], False)[1]
    check(evaluator.get("--task") == "evaluator", "evaluator: no --task=evaluator")
    check_same(all_flags)


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
        container, flags = check_pod(role, spec["template"]["spec"], role != "Evaluator")
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
    check_tfjob(read(f"{folder}/tfjob.yaml"))
    for failure in FAILURES:
        print(failure)
    sys.exit(1 if FAILURES else 0)


main()
