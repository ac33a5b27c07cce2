"""Messages that a decision waits, by mail and webhook: kept with the decision, sent by the workers, retried.

A message is written in the transaction that makes a run wait, so none is lost, and deleted when it was sent,
or when somebody has decided. Nothing waits for a mail server: what cannot be sent is tried again, ever less
often, as long as the decision waits. A service that is killed while it sends may send a message twice; both
have the same id. A message says which run waits for whom, and where: nothing of what is in it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import smtplib
import ssl
from contextlib import closing, suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, delete, insert, select, update

from pipelines.schedule.notify import post
from pipelines.service.queue.records import add_event
from pipelines.service.settings import Notices, ServiceSettings, is_loopback
from pipelines.service.store import Store, after, outbox, utc_now

DECISIONS = {
    "planned": "an operator, who queues or cancels it",
    "failed": "an operator, who tries it again or closes it",
    "finished": "an approver, who decides whether it is published",
}
"""States in which a run waits for a person, and for whom."""

_WAYS = ("mail", "webhook")
_SECONDS = 10  # that a server may take for an answer
_LEASE = 120.0  # of a message that is being sent
_FIRST_WAIT, _LONGEST_WAIT = 60.0, 3600.0  # after one failure, and after many

_log = logging.getLogger(__name__)


def await_decision(connection: Connection, run: int, state: str) -> None:
    """Keep the messages that a run waits for a decision, in the transaction that makes it wait.

    What was kept of it before is about an earlier decision, and is dropped.
    """
    connection.execute(delete(outbox).where(outbox.c.run == run))
    if state in DECISIONS:
        rows = [{"run": run, "decision": state, "way": way, "due": utc_now(), "attempts": 0} for way in _WAYS]
        connection.execute(insert(outbox), rows)


def send_next(store: Store, settings: ServiceSettings) -> bool:
    """Send the message that is due first."""
    notices = settings.notices
    if notices is None or (message := _take(store, notices)) is None:
        return False
    problem = _send(notices, settings.address, message)
    with store.write() as connection:
        this_message = (outbox.c.id == message.id) & (outbox.c.attempts == message.attempts)
        if problem is None:
            if connection.execute(delete(outbox).where(this_message)).rowcount:
                add_event(connection, message.run, "told", message.way)
            return True
        wait = min(_FIRST_WAIT * 2.0 ** min(message.attempts - 1, 20), _LONGEST_WAIT)
        connection.execute(update(outbox).where(this_message).values(due=after(wait)))
        if message.attempts == 1:
            add_event(connection, message.run, "not told", f"{message.way}: {problem}")
    _log.error("run %d, %s: %s; it is tried again", message.run, message.way, problem)
    return True


def signature(secret: str, identity: str, time: str, body: bytes) -> str:
    """Return the header ``webhook-signature`` of a message, as Standard Webhooks defines it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, f"{identity}.{time}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed).decode()}"


def _take(store: Store, notices: Notices) -> Row[Any] | None:
    """Take the message that is due first, for a while; of mails, those that somebody is to get."""
    by_mail = [state for state in DECISIONS if notices.smtp and _people(notices, state)]
    ways = (outbox.c.way == "mail") & outbox.c.decision.in_(by_mail)
    if notices.webhook:
        ways |= outbox.c.way == "webhook"
    due = select(outbox).where(ways, outbox.c.due <= utc_now()).order_by(outbox.c.due, outbox.c.id)
    query = due.limit(1).with_for_update(skip_locked=True)
    with store.write() as connection:
        if (row := connection.execute(query).one_or_none()) is None:
            return None
        taken = update(outbox).where(outbox.c.id == row.id).returning(*outbox.c)
        return connection.execute(taken.values(due=after(_LEASE), attempts=row.attempts + 1)).one()


def _send(notices: Notices, address: str, message: Row[Any]) -> str | None:
    """Send a message; what did not work, in words of the program's, or None."""
    page = "/approval" if message.decision == "finished" else ""
    link = f"{address}/operator/runs/{message.run}{page}"
    identity = f"odsynth-{message.id}-run-{message.run}-{message.decision}"
    send = _mail if message.way == "mail" else _call
    return send(notices, message, link, identity)


def _people(notices: Notices, state: str) -> tuple[str, ...]:
    return notices.approvers if state == "finished" else notices.operators


def _mail(notices: Notices, message: Row[Any], link: str, identity: str) -> str | None:
    assert notices.smtp is not None
    assert notices.sender is not None
    people = _people(notices, message.decision)
    mail = EmailMessage()
    mail["Subject"] = f"Run {message.run} waits for {DECISIONS[message.decision].partition(',')[0]}"
    mail["From"], mail["To"] = notices.sender, ", ".join(people)
    mail["Date"] = datetime.now(UTC)
    mail["Message-ID"] = f"<{identity}@{notices.sender.partition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    waits = DECISIONS[message.decision]
    mail.set_content(f"Run {message.run} is {message.decision}.\nIt waits for {waits}:\n\n{link}\n")
    server = urlsplit(notices.smtp)
    host = server.hostname or ""
    try:
        with closing(_connected(server.scheme, host, server.port)) as smtp:
            if server.scheme == "smtp" and not is_loopback(host):
                smtp.starttls(context=ssl.create_default_context())
            if notices.user is not None:
                smtp.login(notices.user, notices.password or "")
            refused = smtp.send_message(mail)
            with suppress(OSError, smtplib.SMTPException):  # it has the mail, however it takes leave
                smtp.quit()
    except smtplib.SMTPResponseException as error:  # its words may quote addresses
        return f"the mail server answered {error.smtp_code}"
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return f"the mail server cannot be used ({type(error).__name__})"
    if refused:  # the others have it
        _log.error(
            "run %d, mail: the server refused %d of %d addresses", message.run, len(refused), len(people)
        )
    return None


def _connected(scheme: str, host: str, port: int | None) -> smtplib.SMTP:
    if scheme == "smtps":
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(host, port or smtplib.SMTP_SSL_PORT, timeout=_SECONDS, context=context)
    return smtplib.SMTP(host, port or 587, timeout=_SECONDS)


def _call(notices: Notices, message: Row[Any], link: str, identity: str) -> str | None:
    assert notices.webhook is not None
    assert notices.webhook_secret is not None
    waits = DECISIONS[message.decision].partition(",")[0].split()[-1]
    document = {
        "type": "decision.waits",
        "run": message.run,
        "state": message.decision,
        "waits_for": waits,
        "link": link,
    }
    body, time = json.dumps(document).encode(), str(int(datetime.now(UTC).timestamp()))
    headers = {"webhook-id": identity, "webhook-timestamp": time}
    headers["webhook-signature"] = signature(notices.webhook_secret, identity, time, body)
    return post(notices.webhook, body, _SECONDS, headers)
