"""Any model that litellm reaches."""

from pytest_agentv.loading.targets.fields import OptionalText, Whole
from pytest_agentv.models.kind import spelled
from pytest_agentv.providers.apis.model import ORGANIZATION, SEED, Model


class Litellm(Model):
    """Any model string of litellm."""

    kind = "litellm"

    api_version: OptionalText = spelled(
        *("api_version", "apiVersion", "version"), default=None, description="the version of the API"
    )

    seed: Whole | None = SEED
    organization: OptionalText = ORGANIZATION

    @property
    def uses_litellm(self) -> bool:
        return True
