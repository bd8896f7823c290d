"""Whether the contract is held against a real server, too."""

import pytest

from tests.contract.apiserver.real import is_there


@pytest.mark.real
def test_the_contract_is_checked_on_a_real_server(client):
    if not is_there():
        pytest.skip(
            "the contract was checked on the embedded server only: set KAISCHED_TEST_KUBECONFIG or"
            " KUBEBUILDER_ASSETS"
        )
    assert client.get("/version").body["major"] == "1"
