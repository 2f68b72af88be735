"""What a replica that serves the extender reports, whatever certificate it is given."""

import pytest

from rescheduler.monitoring.monitoring import Monitoring
from rescheduler.settings import Policy
from tests.monitoring.test_controller_metrics import scraped


def test_a_certificate_that_cannot_be_read_has_no_end(caplog: pytest.LogCaptureFixture) -> None:
    monitoring = Monitoring(Policy(), serves=True)
    assert monitoring.serving is not None
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    monitoring.serving.certificate_loaded(broken)
    assert scraped(monitoring).value("certificate_expiry_timestamp_seconds") is None
    assert "Failed to read when a certificate ends" in caplog.text
