"""Tokens and keys by PyJWT and cryptography: minter and verifier that aren't ours."""

import base64
import json
import time

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SECRET = "0123456789abcdef" * 4
EVERYTHING = {"*": ["*"]}


class Key:
    """What signs with an algorithm, in every form that somebody may want it in."""

    def __init__(self, algorithm):
        self.algorithm = algorithm
        if algorithm.startswith("HS"):
            self.key = None
            self.private = self.public = SECRET
            return
        self.key = {
            "RS": lambda: rsa.generate_private_key(65537, 2048), "PS": lambda: rsa.generate_private_key(65537, 2048),
            "ES": lambda: ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1()),
            "Ed": ed25519.Ed25519PrivateKey.generate,
        }[algorithm[:2]]()
        self.private = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
        self.public = self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()

    def jwk(self, kid):
        kind = {"RS": RSAAlgorithm, "PS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}[self.algorithm[:2]]
        return {**json.loads(kind.to_jwk(self.key.public_key())), "kid": kid, "alg": self.algorithm, "use": "sig"} | {"key_ops": ["verify"]}

    def token(self, user="alice", seconds=600, headers=None, **claims):
        return mint(user, seconds, self.private, self.algorithm, headers, **claims)


def mint(user="alice", seconds=600, key=SECRET, algorithm="HS256", headers=None, **claims):
    """A claim that is None is left out."""
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + seconds, **claims}
    return jwt.encode({name: value for name, value in claims.items() if value is not None}, key, algorithm, headers=headers)


def encoded(value):
    """One part of a token: an object, a text or bytes."""
    if not isinstance(value, bytes):
        value = (value if isinstance(value, str) else json.dumps(value)).encode()
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
