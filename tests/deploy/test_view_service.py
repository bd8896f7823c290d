"""The Service of the live view: there where the settings serve the view, and nowhere else."""

import pytest

from kaisched.config.settings import SchedulerConfiguration
from tests.deploy.manifests import key_of, read, templated

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
