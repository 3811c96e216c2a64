"""Certificates that sign themselves, and what a node is told to use them by."""

import json
import ssl
import subprocess


class Certificate:
    def __init__(self, folder, name, *hosts, days=30):
        self.cert = folder / f"{name}.crt"
        self.key = folder / f"{name}.key"
        hosts = hosts or (name,)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days), "-subj", f"/CN={name}",
             "-addext", "subjectAltName=" + ",".join(f"DNS:{host}" for host in hosts) + ",IP:127.0.0.1", "-keyout", self.key, "-out", self.cert],
            check=True, capture_output=True)
        self.key.chmod(0o600)

    @property
    def entry(self):
        return {"cert": str(self.cert), "key": str(self.key)}


class Expired(Certificate):
    """One that was valid for a day in 2020. Only `openssl ca` takes dates."""

    def __init__(self, folder, name, *hosts):
        super().__init__(folder, name, *hosts)
        home = folder / f"{name}-authority"
        home.mkdir()
        (home / "index").touch()
        (home / "serial").write_text("01")
        (home / "request").write_bytes(b"")
        names = ",".join(f"DNS:{host}" for host in hosts or (name,))
        (home / "config").write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndir={home}\nnew_certs_dir={home}\ndatabase={home}/index\nserial={home}/serial\ndefault_md=sha256\n"
            f"policy=any\nx509_extensions=more\n[any]\ncommonName=supplied\n[more]\nsubjectAltName={names},IP:127.0.0.1\n")
        subprocess.run(["openssl", "req", "-new", "-key", self.key, "-subj", f"/CN={name}", "-out", home / "request"], check=True, capture_output=True)
        subprocess.run(
            ["openssl", "ca", "-batch", "-notext", "-selfsign", "-config", home / "config", "-keyfile", self.key, "-in", home / "request",
             "-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-out", self.cert], check=True, capture_output=True)


def secure_settings(port, *certificates, **more):
    """Settings of a node that also serves TLS on `port`."""
    return {"tls.listen": f"127.0.0.1:{port}", "tls.certificates": json.dumps([certificate.entry for certificate in certificates]), **more}


def trusting(*certificates, version=None):
    """A client's context that trusts these and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for certificate in certificates:
        context.load_verify_locations(certificate.cert)
    if version:
        context.minimum_version = context.maximum_version = version
    return context
