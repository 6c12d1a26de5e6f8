"""Prints a token for Amazon MSK with IAM: KAFKA_PASSWORD_COMMAND is ``python -m relay.brokers.kafka.msk REGION``.

AWS' own signer makes it, of the credentials that boto3 finds: variables, a profile, a role of the pod or the machine.
Without credentials it ends with exit code 1 and a line on standard error, in which no part of a token is.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from relay.core.errors import ConfigError
from relay.core.extras import requires


def main(arguments: list[str]) -> int:
    """Print the token, and until when it is good; returns the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m relay.brokers.kafka.msk REGION\n")
        return 2
    try:
        with requires("msk", "python -m relay.brokers.kafka.msk"):
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 - an extra
        token, until = MSKAuthTokenProvider.generate_auth_token(arguments[0])
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except AttributeError:  # what the signer raises without credentials
        sys.stderr.write("boto3 finds no credentials of AWS; set AWS_PROFILE, or give the pod or machine a role\n")
        return 1
    sys.stdout.write(f"{token}\n{datetime.fromtimestamp(until / 1000, UTC).isoformat()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
