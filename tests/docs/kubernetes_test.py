"""The manifests of scripts/k8s: every field exists in the Kubernetes API, none that must be there is missing, and they agree
with one another and with the configuration in them. Usage: kubernetes_test.py PROJECT BINARY"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

SYSTEM_PYTHON = "/usr/bin/python3"
try:
    import kubernetes.client
    import yaml
except ImportError:
    # The packages of the system are not those of another Python.
    if os.access(SYSTEM_PYTHON, os.X_OK) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, "-B", *sys.argv])
    print("skipped: no python3-kubernetes (scripts/setup.sh test installs it)")
    sys.exit(77)

MODELS = {"Service": "V1Service", "ConfigMap": "V1ConfigMap", "Job": "V1Job", "ServiceAccount": "V1ServiceAccount",
          "Role": "V1Role", "RoleBinding": "V1RoleBinding", "PersistentVolumeClaim": "V1PersistentVolumeClaim"}


def problems(model_name, value, place):
    """What the API would not accept in `value`, a mapping that stands for this model."""
    found = []
    model = getattr(kubernetes.client, model_name)
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    for key, content in value.items():
        if key not in types:
            found.append(f"{place}.{key}: {model_name} has no such field")
        else:
            found += problems_of(types[key], content, f"{place}.{key}")
    try:
        model(**{name: "set" for name, key in model.attribute_map.items() if key in value})
    except ValueError as error:
        found.append(f"{place}: {error}")
    return found


def problems_of(kind, content, place):
    element = re.match(r"list\[(.*)\]$", kind)
    if element:
        if not isinstance(content, list):
            return [f"{place}: not a list"]
        return [text for i, one in enumerate(content) for text in problems_of(element[1], one, f"{place}[{i}]")]
    if hasattr(kubernetes.client, kind):
        return problems(kind, content, place) if isinstance(content, dict) else [f"{place}: not a mapping"]
    wanted = {"int": int, "bool": bool, "str": str}.get(kind)
    return [] if wanted is None or isinstance(content, wanted) else [f"{place}: {content!r} is not {kind}"]


def read_manifests(name):
    with open(os.path.join(PROJECT, "scripts/k8s", name)) as file:
        return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(file)}


def dry_run(config_text):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "train.toml")
        with open(path, "w") as file:
            file.write(config_text)
        return subprocess.run([BINARY, "run", path, "--dry-run"], capture_output=True, text=True, timeout=60)


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.manifests = read_manifests("train.yaml")
        cls.config_text = cls.manifests["ConfigMap"]["data"]["train.toml"]
        cls.config = tomllib.loads(cls.config_text)
        cls.job = cls.manifests["Job"]["spec"]
        cls.pod = cls.job["template"]["spec"]
        cls.container = cls.pod["containers"][0]

    def test_every_field_is_one_of_the_api(self):
        for kind, manifest in self.manifests.items():
            self.assertEqual(problems(MODELS[kind], manifest, kind), [])

    def test_a_wrong_field_is_found(self):
        wrong = {"spec": {"completions": "8", "template": {"spec": {"containers": [{"imag": "x"}]}}}}
        found = "\n".join(problems("V1Job", wrong, "Job"))
        self.assertIn("Job.spec.completions: '8' is not int", found)
        self.assertIn("Job.spec.template.spec.containers[0].imag: V1Container has no such field", found)
        self.assertIn("`name`, must not be `None`", found)

    def test_the_endpoint_is_the_first_pod_by_its_stable_name(self):
        name = self.manifests["Job"]["metadata"]["name"]
        service = self.manifests["Service"]
        self.assertEqual(self.config["hosts"]["endpoint"].split(":")[0], f"{name}-0.{service['metadata']['name']}")
        self.assertEqual(self.pod["subdomain"], service["metadata"]["name"])
        self.assertEqual(service["spec"]["selector"], {"job-name": name})
        self.assertEqual(self.job["completionMode"], "Indexed")

    def test_the_grace_of_a_pod_exceeds_that_of_the_run(self):
        self.assertGreater(self.pod["terminationGracePeriodSeconds"] * 1000, self.config["timeouts"]["grace_ms"])

    def test_volumes_and_their_places_agree(self):
        mounted = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.assertEqual(set(mounted), {volume["name"] for volume in self.pod["volumes"]})
        self.assertEqual(mounted["checkpoints"], self.config["checkpoint"]["directory"])
        self.assertTrue(self.container["args"][1].startswith(mounted["config"]))
        self.assertLessEqual(self.config["workers"]["max"], self.job["completions"] * self.config["hosts"]["slots"])

    def test_the_binary_accepts_the_configuration(self):
        done = dry_run(self.config_text)
        self.assertEqual(done.returncode, 0, done.stderr)


class HeadAndHelpers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.head, cls.helper = read_manifests("head.yaml"), read_manifests("helper.yaml")
        cls.config_text = cls.head["ConfigMap"]["data"]["train.toml"]

    def test_every_field_is_one_of_the_api(self):
        for manifests in (self.head, self.helper):
            for kind, manifest in manifests.items():
                self.assertEqual(problems(MODELS[kind], manifest, kind), [])

    def test_the_head_may_do_what_its_run_does(self):
        allowed = {(resource, verb) for rule in self.head["Role"]["rules"] for resource in rule["resources"]
                   for verb in rule["verbs"]}
        self.assertLessEqual({("pods/exec", "create"), ("pods", "list"), ("jobs", "create"), ("jobs", "delete")}, allowed)
        pod = self.head["Job"]["spec"]["template"]["spec"]
        self.assertEqual(pod["serviceAccountName"], self.head["ServiceAccount"]["metadata"]["name"])
        self.assertEqual({one["name"] for one in pod["containers"][0]["env"]} & {"HEAD_POD", "HEAD_UID"}, {"HEAD_POD", "HEAD_UID"})

    def test_all_pods_have_more_grace_than_the_run(self):
        grace_ms = tomllib.loads(self.config_text)["timeouts"]["grace_ms"]
        for manifests in (self.head, self.helper):
            pod = manifests["Job"]["spec"]["template"]["spec"]
            self.assertGreater(pod["terminationGracePeriodSeconds"] * 1000, grace_ms)

    def test_the_scripts_are_where_the_configuration_names_them(self):
        with open(os.path.join(PROJECT, "scripts/k8s/Containerfile.head")) as file:
            copied = re.search(r"^COPY (.*) (/\S+)/$", file.read(), re.M)
        files, folder = copied[1].split(), copied[2]
        for script in ("expand", "shrink"):
            self.assertEqual(tomllib.loads(self.config_text)["hosts"][script], f"{folder}/{script}.sh")
        self.assertEqual(files, ["expand.sh", "shrink.sh", "helper.yaml"])

    def test_the_binary_accepts_the_configuration(self):
        done = dry_run(self.config_text)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    PROJECT, BINARY = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1], verbosity=2)
