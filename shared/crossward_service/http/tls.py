"""A private certificate authority for those who have none: one key that signs, one certificate per service.

The authority's key stays in a folder of its own, which nothing else needs. A service's folder gets `cert.pem`,
`key.pem` and, for those who call it, `ca.pem`. Asked again, what is there and still valid stays; a certificate that
ends soon, or lacks a name it should have, is made anew under the same authority.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from crossward.errors import InvalidSetting
from crossward_service.ops.files import write_file

CA_DAYS, SERVICE_DAYS, RENEW_DAYS = 3650, 397, 30
EARLIER = timedelta(days=1)  # for callers whose clock is behind


@dataclass(frozen=True)
class Authority:
    """The key that signs and the certificate that callers trust."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """The authority of a folder, made the first time."""
        key, certificate = folder / "ca.key", folder / "ca.pem"
        if not certificate.exists():
            fresh = cls._make()
            write_file(key, _pem(fresh.key), 0o600)
            write_file(certificate, fresh.certificate.public_bytes(Encoding.PEM), 0o644)
        loaded = load_pem_private_key(key.read_bytes(), None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise InvalidSetting(f"{key} is not a key that was made here.", "Give an empty folder.")
        return cls(loaded, x509.load_pem_x509_certificate(certificate.read_bytes()))

    @classmethod
    def _make(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("Crossward private CA")
        usage = _usage(digital_signature=False, signs_certificates=True)
        builder = (
            _certificate(name, name, key.public_key(), CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    def serve(self, folder: Path, names: Sequence[str], mode: int = 0o600) -> bool:
        """A certificate for a service that is called by these names; False if a good one is there."""
        path = folder / "cert.pem"
        if path.exists() and self._is_good(x509.load_pem_x509_certificate(path.read_bytes()), names):
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        signed = self._sign(key.public_key(), names)
        write_file(folder / "key.pem", _pem(key), mode)
        write_file(path, signed.public_bytes(Encoding.PEM), 0o644)
        self.publish(folder)
        return True

    def publish(self, folder: Path) -> None:
        """What callers trust."""
        write_file(folder / "ca.pem", self.certificate.public_bytes(Encoding.PEM), 0o644)

    def _sign(self, key: ec.EllipticCurvePublicKey, names: Sequence[str]) -> x509.Certificate:
        authority = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            _certificate(_name(names[0]), self.certificate.subject, key, SERVICE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True, signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256())

    def _is_good(self, certificate: x509.Certificate, names: Sequence[str]) -> bool:
        has = set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        left = certificate.not_valid_after_utc - datetime.now(UTC)
        ours = certificate.issuer == self.certificate.subject and _is_signed_by(certificate, self.certificate)
        return ours and left > timedelta(days=RENEW_DAYS) and has >= {_general(name) for name in names}


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # whatever is wrong with it, it is not ours
        return False
    return True


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), now - EARLIER, now + timedelta(days=days)
    )


def _usage(*, digital_signature: bool, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise InvalidSetting(f"{name!r} is no name of a service.", "Give a host name or an address.") from None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
