"""Logging in with a provider of identities (OpenID Connect): authorization code flow with PKCE, by Authlib.

Optional: for services whose settings have ``[oidc]``, with the extra ``odsynth[oidc]``. A person has the role
of the first of ``oidc.roles`` that is among his groups; who is in none may not enter. Between the two halves
of a login a sealed cookie keeps what the second must find again: only the browser that asked can bring it.
"""

from __future__ import annotations

import hmac
import json
import secrets
from typing import Any

from cryptography.fernet import InvalidToken
from fastapi import Request
from starlette.responses import RedirectResponse

from pipelines.service.access.auth import OIDC, sealer
from pipelines.service.access.tokens import Principal, person
from pipelines.service.settings import Oidc
from pipelines.service.store import ServiceError

__all__ = ["CALLBACK", "begin_login", "finish_login"]

CALLBACK = "/operator/login/oidc/callback"
_COOKIE = "odsynth-login"
_SECONDS = 600
_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]


def begin_login(request: Request) -> RedirectResponse:
    """Send the browser to the provider.

    Parameters
    ----------
    request : Request

    Returns
    -------
    RedirectResponse

    Raises
    ------
    ServiceError
        404 if the service has no provider, 503 if it does not answer.
    """
    oidc = _settings(request)
    kept = {name: secrets.token_urlsafe(48) for name in ("state", "nonce", "verifier")}
    try:
        with _client(request, oidc) as client:
            endpoint = _metadata(client, oidc)["authorization_endpoint"]
            url, _ = client.create_authorization_url(
                endpoint, state=kept["state"], nonce=kept["nonce"], code_verifier=kept["verifier"]
            )
    except Exception:
        raise _away() from None
    response = RedirectResponse(url, 303)
    response.set_cookie(
        _COOKIE,
        sealer(request.app).encrypt(json.dumps(kept).encode()).decode(),
        max_age=_SECONDS,
        path=CALLBACK,
        secure=request.app.state.settings.https,
        httponly=True,
        samesite="lax",  # the provider's answer comes from another site
    )
    return response


def finish_login(request: Request) -> Principal:
    """Return who the provider says has come back, at the address `CALLBACK`.

    Parameters
    ----------
    request : Request

    Returns
    -------
    Principal
        For `auth.start_session`.

    Raises
    ------
    ServiceError
        401 if the answer is not one to a login that this browser began, 403 for somebody without a role.
    """
    oidc = _settings(request)
    try:
        kept = json.loads(sealer(request.app).decrypt(request.cookies.get(_COOKIE, ""), ttl=_SECONDS))
    except (InvalidToken, ValueError):
        raise _refused() from None
    state, code = (request.query_params.get(name, "") for name in ("state", "code"))
    if not hmac.compare_digest(state.encode(errors="replace"), kept["state"].encode()) or not code:
        raise _refused()
    try:
        claims = _claims(request, oidc, code, kept)
    except Exception:  # whatever is wrong with what the provider says, it lets nobody in
        raise _refused() from None
    groups = claims.get(oidc.claim)
    groups = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    role = next((role for group, role in oidc.roles.items() if group in groups), None)
    if role is None:
        raise ServiceError(403, "forbidden", "You are in no group that has a role here.")
    name = claims["email"] if claims.get("email_verified") is True and "email" in claims else claims["sub"]
    return Principal(person(str(name)), role, OIDC)


def _claims(request: Request, oidc: Oidc, code: str, kept: dict[str, str]) -> dict[str, Any]:
    """Exchange the code for an identity token, and check that it is for us and for this login."""
    from joserfc import jwt
    from joserfc.jwk import KeySet

    with _client(request, oidc) as client:
        metadata = _metadata(client, oidc)
        answer = client.fetch_token(
            metadata["token_endpoint"],
            grant_type="authorization_code",
            code=code,
            code_verifier=kept["verifier"],
        )
        keys = KeySet.import_key_set(_get(client, metadata["jwks_uri"]))
    token = jwt.decode(answer["id_token"], keys, algorithms=_ALGORITHMS)
    jwt.JWTClaimsRegistry(
        iss={"essential": True, "value": oidc.issuer},
        aud={"essential": True, "value": oidc.client_id},
        nonce={"essential": True, "value": kept["nonce"]},
        exp={"essential": True},
        sub={"essential": True},
    ).validate(token.claims)
    return token.claims


def _settings(request: Request) -> Oidc:
    oidc: Oidc | None = request.app.state.settings.oidc
    if oidc is None:
        raise ServiceError(404, "not_found", "People log in with tokens here.")
    return oidc


def _client(request: Request, oidc: Oidc) -> Any:
    try:
        from authlib.integrations.httpx_client import OAuth2Client
    except ModuleNotFoundError:
        fix = "Fix: install odsynth from its checkout or wheel with the extra [oidc]"
        raise ServiceError(503, "oidc", f"The library for logging in so is not installed. {fix}.") from None
    settings = request.app.state.settings
    base = settings.public_url or f"http://{settings.host}:{settings.port}"
    return OAuth2Client(
        oidc.client_id,
        oidc.client_secret,
        scope="openid email profile",
        redirect_uri=f"{base.rstrip('/')}{CALLBACK}",
        code_challenge_method="S256",
        timeout=10,
    )


def _metadata(client: Any, oidc: Oidc) -> dict[str, Any]:
    address = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
    found: dict[str, Any] = _get(client, address)
    if found["issuer"] != oidc.issuer:
        raise ValueError("another issuer")
    return found


def _get(client: Any, address: str) -> Any:
    return client.request("GET", address, withhold_token=True).raise_for_status().json()


def _away() -> ServiceError:
    return ServiceError(503, "oidc", "The provider of identities does not answer as it should. Try again.")


def _refused() -> ServiceError:
    return ServiceError(401, "unauthorized", "This login was not completed. Fix: begin it again.")
