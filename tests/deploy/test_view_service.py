"""The Service of the live view: there where the settings serve the view, and nowhere else."""

import shutil
import subprocess

import pytest

from kaisched.config.settings import SchedulerConfiguration
from tests.deploy.manifests import CHART, key_of, of_kind, read, templated

OPEN = ("settings.view.enabled=true", "settings.view.bindAddress=0.0.0.0")
OBJECTS = {"Service kaisched/kaisched-view", "NetworkPolicy kaisched/kaisched-view"}


def of_the_view(*settings):
    return {key_of(it): it for it in templated(*settings) if key_of(it) in OBJECTS}


@pytest.mark.parametrize(
    "settings",
    [(), OPEN[:1], OPEN[1:], (OPEN[0], "settings.view.bindAddress=127.0.0.1")],
    ids=["as shipped", "on loopback", "off", "on a named loopback"],
)
def test_there_is_no_service_where_nobody_could_reach_the_view(settings):
    assert of_the_view(*settings) == {}


def test_the_chart_makes_what_the_component_has():
    files = ("service", "network-policy")
    written = [obj for it in files for obj in read(f"kustomize/components/view/{it}.yaml")]
    assert of_the_view(*OPEN) == {key_of(it): it for it in written}


def test_the_port_is_that_of_the_settings():
    (service,) = read("kustomize/components/view/service.yaml")
    assert service["spec"]["ports"][0]["targetPort"] == SchedulerConfiguration().view.port
    objects = of_the_view(*OPEN, "settings.view.port=9000")
    (port,) = objects["Service kaisched/kaisched-view"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (9000, 9000)
    (rule,) = objects["NetworkPolicy kaisched/kaisched-view"]["spec"]["ingress"]
    assert [it["port"] for it in rule["ports"]] == [9000]


def test_its_selectors_find_the_pod():
    (deployment,) = read("kustomize/base/deployment.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (service,) = read("kustomize/components/view/service.yaml")
    (network,) = read("kustomize/components/view/network-policy.yaml")
    for selector in (service["spec"]["selector"], network["spec"]["podSelector"]["matchLabels"]):
        assert selector.items() <= labels.items()


INGRESS = ("viewIngress.create=true", "viewIngress.host=gpus.example.com")
HOSTS = "settings.view.hosts={gpus.example.com}"
SECRET = "viewIngress.tlsSecretName=gpus-tls"


def test_an_ingress_leads_to_the_service_by_https_alone():
    (ingress,) = of_kind(templated(*OPEN, *INGRESS, HOSTS, SECRET), "Ingress")
    assert ingress["spec"]["tls"] == [{"hosts": ["gpus.example.com"], "secretName": "gpus-tls"}]
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    (service,) = read("kustomize/components/view/service.yaml")
    (port,) = service["spec"]["ports"]
    meant = {"name": service["metadata"]["name"], "port": {"name": port["name"]}}
    assert (rule["host"], path["backend"]["service"]) == ("gpus.example.com", meant)
    assert of_kind(templated(*OPEN), "Ingress") == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ((*OPEN, *INGRESS, SECRET), "add gpus.example.com to settings.view.hosts"),
        ((*OPEN, *INGRESS, HOSTS), "viewIngress.tlsSecretName: readers send their tokens"),
        ((*INGRESS, SECRET), "set settings.view.enabled=true"),
    ],
)
def test_an_ingress_that_could_not_be_used_is_refused_with_the_fix(settings, said):
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed; deploy/README.md says how to get it")
    words = [word for it in settings for word in ("--set", it)]
    ran = subprocess.run(
        ["helm", "template", "kaisched", str(CHART), "--kube-version", "1.33", *words],
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.returncode != 0
    assert said in ran.stderr
