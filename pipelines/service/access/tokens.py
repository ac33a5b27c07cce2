"""Tokens: who may do what, for how long.

A token is 256 random bits, shown once. It is kept as its SHA-256: guessing a uniform 256-bit secret is as
hopeless with a fast hash as with a slow one, which is for passwords that people choose.

Tokens are made on the server's console only. An approver who could make one over the network could make
themselves a second person, and approve their own run.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass
from sqlalchemy import insert, select, update

from pipelines.service.refusals import not_found
from pipelines.service.store import ServiceError, Store, after, record, tokens, utc_now

Role = Literal["viewer", "operator", "witness", "approver"]

# An approver is no operator: whoever approves has not submitted.
_IMPLIED: dict[str, frozenset[str]] = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "witness": frozenset({"viewer", "witness"}),
    "approver": frozenset({"viewer", "approver"}),
}
_FORM = re.compile("odsynth_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")
_LONGEST_DAYS = 366
_NOT_PERSONS = ("calendar", "console", "service")
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Principal:
    """Who asks."""

    person: str  # In the form of `person`: one person has one name, however many tokens
    role: Role
    credential: str  # Id of the token, or ``"oidc"``

    def may(self, role: Role) -> bool:
        """Whether somebody with this role may do what needs `role`."""
        return role in _IMPLIED[self.role]

    def must(self, role: Role) -> None:
        """Refuse what needs another role."""
        if not self.may(role):
            raise ServiceError(403, "forbidden", f"This needs the role {role}; yours is {self.role}.")


@pydantic_dataclass(frozen=True)
class Token:
    """A token, without its secret.

    Attributes
    ----------
    id : str
    owner : str
    role : Role
    created, expires : str
        UTC.
    revoked : str or None
        When, if it was.
    """

    id: str
    owner: str
    role: Role
    created: str
    expires: str
    revoked: str | None

    @computed_field(description="Whether it still opens anything.")  # type: ignore[prop-decorator]
    @property
    def active(self) -> bool:
        """Whether it still opens anything."""
        return self.revoked is None and utc_now() < self.expires


def person(name: str) -> str:
    """Return a name in the one form in which persons are compared: NFKC, single spaces, lower case."""
    plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    if not plain or len(plain) > 200 or not plain.isprintable() or plain in _NOT_PERSONS:
        fix = f"write 1 to 200 printable characters, and none of {', '.join(_NOT_PERSONS)}"
        raise ServiceError(400, "owner", f"This cannot be a person's name. Fix: {fix}.")
    return plain


def create_token(store: Store, owner: str, role: Role, *, days: float = 90) -> tuple[str, Token]:
    """Make a token, on the server's console."""
    name = person(owner)
    if role not in get_args(Role):
        fix = f"write one of {', '.join(get_args(Role))}"
        raise ServiceError(400, "role", f"There is no such role. Fix: {fix}.")
    if not 0 < days <= _LONGEST_DAYS:
        fix = f"write more than 0 and at most {_LONGEST_DAYS} days"
        raise ServiceError(400, "days", f"A token cannot be valid for {days:g} days. Fix: {fix}.")
    made = Token(secrets.token_hex(4), name, role, utc_now(), after(days * 86400), None)
    secret = f"odsynth_{made.id}_{secrets.token_urlsafe(32)}"
    with store.write() as connection:
        connection.execute(insert(tokens).values(**vars(made), sha256=_sha256(secret)))
        record(connection, "console", "console", "token created", made.id, f"{name}, {role}")
    return secret, made


def list_tokens(store: Store, owner: str | None = None) -> list[Token]:
    """Return the tokens, of one person or of all, in the order in which they were made."""
    query = select(*_PUBLIC).order_by(tokens.c.created)
    if owner is not None:
        query = query.where(tokens.c.owner == owner)
    with store.read() as connection:
        return [Token(**row._mapping) for row in connection.execute(query)]


def revoke_token(store: Store, id: str, *, by: Principal | None = None) -> Token:
    """Revoke a token, for good; once revoked it stays as it is."""
    with store.write() as connection:
        row = connection.execute(select(*_PUBLIC).where(tokens.c.id == id)).one_or_none()
        hidden = by is not None and not by.may("approver") and (row is None or row.owner != by.person)
        if row is None or hidden:
            raise not_found("There is no such token.")
        unrevoked = (tokens.c.id == id) & tokens.c.revoked.is_(None)
        if connection.execute(update(tokens).where(unrevoked).values(revoked=utc_now())).rowcount:
            actor, credential = (by.person, by.credential) if by else ("console", "console")
            record(connection, actor, credential, "token revoked", id, row.owner)
        return Token(**connection.execute(select(*_PUBLIC).where(tokens.c.id == id)).one()._mapping)


def authenticate(store: Store, secret: str) -> Principal | None:
    """Return whose token this is, or None if it is nobody's, expired or revoked."""
    form = _FORM.fullmatch(secret)
    return _principal(store, form[1], secret) if form else None


def still_valid(store: Store, id: str) -> Principal | None:
    """Return whose token has an id, or None if it is expired or revoked: for sessions that it opened."""
    return _principal(store, id, None)


def _principal(store: Store, id: str, secret: str | None) -> Principal | None:
    with store.read() as connection:
        row = connection.execute(select(tokens).where(tokens.c.id == id)).one_or_none()
    # The same work whether there is such a token or not, and no early end at the first wrong letter.
    right = secret is None or hmac.compare_digest(_sha256(secret), row.sha256 if row else _NOBODY)
    if row is None or not right or row.revoked is not None or row.expires <= utc_now():
        return None
    return Principal(row.owner, row.role, row.id)


_PUBLIC = [column for column in tokens.c if column.name != "sha256"]


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
