"""Tokens: shown once, kept as a hash, until they expire or are revoked."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select, update

from pipelines.service.access.tokens import (
    Principal,
    Role,
    authenticate,
    create_token,
    list_tokens,
    person,
    revoke_token,
    still_valid,
)
from pipelines.service.store import ServiceError, Store, list_audit, tokens


def test_a_token_opens_what_it_is_for(store: Store) -> None:
    secret, token = create_token(store, "Ann  Lee", "operator")
    who = authenticate(store, secret)
    assert who == Principal("ann lee", "operator", token.id)
    assert who == still_valid(store, token.id)
    assert token.active
    assert list_tokens(store) == [token]
    assert list_tokens(store, "ann lee") == [token]
    assert list_tokens(store, "bob") == []


def test_roles_do_not_stand_above_each_other() -> None:
    roles: tuple[Role, ...] = ("viewer", "operator", "witness", "approver")
    may = {role: [other for other in roles if Principal("x", role, "").may(other)] for role in roles}
    assert may == {
        "viewer": ["viewer"],
        "operator": ["viewer", "operator"],
        "witness": ["viewer", "witness"],
        "approver": ["viewer", "approver"],
    }


def test_the_secret_is_nowhere(store: Store, tmp_path: Path) -> None:
    secret, _ = create_token(store, "ann", "operator")
    assert len(secret.split("_", 2)[2]) == 43  # 256 bits
    with store.read() as connection:
        row = connection.execute(select(tokens)).one()
    kept = " ".join(map(str, row)) + " ".join(str(tuple(act)) for act in list_audit(store))
    assert secret.split("_", 2)[2] not in kept
    for path in tmp_path.iterdir():
        assert secret.split("_", 2)[2].encode() not in path.read_bytes()


def test_what_is_not_a_token_opens_nothing(store: Store) -> None:
    secret, token = create_token(store, "ann", "operator")
    other, _ = create_token(store, "bob", "approver")
    mixed = f"odsynth_{token.id}_{other.split('_', 2)[2]}"
    wrong = ["", "x", "ö" * 60, secret[:-1], secret + "a", secret + "\x00", secret.upper(), mixed, token.id]
    wrong += [f"odsynth_{token.id}_", "odsynth_00000000_" + "A" * 43, "odsynth_\x00_" + "A" * 43]
    assert [authenticate(store, each) for each in wrong] == [None] * len(wrong)


def test_an_expired_token_opens_nothing(store: Store) -> None:
    secret, token = create_token(store, "ann", "operator", days=30)
    with store.write() as connection:
        connection.execute(update(tokens).values(expires="2020-01-01T00:00:00.000000Z"))
    assert authenticate(store, secret) is None
    assert still_valid(store, token.id) is None
    assert not list_tokens(store)[0].active


def test_a_revoked_token_opens_nothing_and_stays_revoked(store: Store) -> None:
    secret, token = create_token(store, "ann", "operator")
    revoked = revoke_token(store, token.id)
    assert revoked.revoked is not None
    assert authenticate(store, secret) is None
    assert still_valid(store, token.id) is None
    assert revoke_token(store, token.id) == revoked
    acts = [(act.actor, act.action, act.subject) for act in list_audit(store)]
    assert acts == [("console", "token revoked", token.id), ("console", "token created", token.id)]


def test_an_approver_revokes_any_token_and_others_their_own(store: Store) -> None:
    _, anns = create_token(store, "ann", "operator")
    _, bobs = create_token(store, "bob", "approver")
    ann, bob = Principal("ann", "operator", anns.id), Principal("bob", "approver", bobs.id)
    for id in (bobs.id, "00000000"):  # whether there is such a token is not told either
        with pytest.raises(ServiceError, match="no such token"):
            revoke_token(store, id, by=ann)
    assert revoke_token(store, anns.id, by=ann).revoked
    assert revoke_token(store, bobs.id, by=bob).revoked
    assert [(act.actor, act.credential) for act in list_audit(store, limit=2)] == [
        ("bob", bobs.id),
        ("ann", anns.id),
    ]


def test_what_cannot_be_a_person() -> None:
    for name in ("", " ", "a" * 201, "a\x00b", "service", "Calendar", " console "):
        with pytest.raises(ServiceError, match="cannot be a person's name"):
            person(name)


def test_a_person_has_one_name(store: Store) -> None:
    """And a token an end, and one of three roles."""
    for days in (0, -1, 367, float("inf"), float("nan")):
        with pytest.raises(ServiceError, match="at most 366 days"):
            create_token(store, "ann", "operator", days=days)
    with pytest.raises(ServiceError, match="no such role"):
        create_token(store, "ann", "admin")  # type: ignore[arg-type]
    assert {person(name) for name in ("Ann Lee", " ann  lee ", "ＡＮＮ ＬＥＥ", "ANN\tLEE")} == {"ann lee"}
