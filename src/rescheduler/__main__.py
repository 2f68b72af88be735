"""`python -m rescheduler`, for images, which have no scripts."""

import sys

from rescheduler.cli import main

sys.exit(main())
