"""Who signs certificates, and what they say about the organisation."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "evidence",
    title="Certificates",
    help="""
The texts are printed on every certificate as they stand at that moment; NIST SP 800-88 asks for
them. A text that is not set is printed as "not stated".
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "signing_key",
        default="/etc/nvme-quarantine/controller.pem",
        help="""
File with the controller's Ed25519 key (PKCS #8 PEM, readable by the service alone), made by
nvme-quarantine key create. It signs erase orders and certificates. Hosts and auditors need its
public half; its RFC 7638 thumbprint is the key id in every signature.

When to change: when keys are kept elsewhere. To replace the key, run nvme-quarantine key rotate
first.
""",
    ),
    cfg.ListOpt(
        "former_keys",
        default=[],
        item_type=cfg.types.String(),
        help="""
Files with the public halves (JWK) of signing keys that were replaced without nvme-quarantine
key rotate, separated by commas, as nvme-quarantine key show printed them. They verify older
certificates where no --key is given, at any place of the chain; nothing is signed with them. Only
after a key that is named here, or that key rotate replaced, may another one certify.

When to set it: when an earlier release replaced the signing key, or when the signing key is lost.
Never remove one that signed a certificate: that certificate would be called forged.
""",
    ),
    cfg.StrOpt(
        "certificates_dir",
        default="/var/lib/nvme-quarantine/certificates",
        help="""
Directory where each certificate is written as a file too, named by its digest. The database holds
them all as well.

When to change: to have them on storage that is backed up, or that can only be appended to.
""",
    ),
    cfg.StrOpt(
        "heads_dir",
        default="/var/lib/nvme-quarantine/heads",
        help="""
Directory where the running service writes a signed head of the chain of certificates each day
(UTC): its last certificate, as YYYY-MM-DD.head.jws. The same goes to syslog in one line (facility
daemon, level notice). With a head that was kept elsewhere, nvme-quarantine ledger verify --heads
finds certificates that were cut off or written anew since, also by somebody who has the signing
key.

When to change: to have them on storage that is copied away, or that can only be appended to.
""",
    ),
    cfg.StrOpt(
        "tsa_url",
        default=None,
        help="""
URL (http or https) of a time stamping authority (RFC 3161). Each head of the chain is sent there as
a SHA-256 digest, and the answer is kept beside it as YYYY-MM-DD.head.tsr: it proves to anybody that
the chain ended so at that time. While the authority does not answer, heads are written all the
same, and the stamps are asked for again every ten minutes. The proxy of the service's environment
(https_proxy) is used. Needs the extra timestamps (rfc3161-client).

When to set it: when an auditor should not have to believe your syslog; one request each day is
sent. Related options: tsa_ca.
""",
    ),
    cfg.StrOpt(
        "tsa_ca",
        default=None,
        help="""
File (PEM) with the root certificates of that authority, as it publishes them. A stamp that they do
not bear is refused and asked for again. Without it the authority's signature is not checked when a
stamp comes, only that it is over the very head.

When to set it: together with tsa_url, always in production. When to change: when the authority
announces another root; keep the old one in the file as well.
""",
    ),
    cfg.StrOpt(
        "organisation",
        default="not stated",
        help="""
Name of the organisation that sanitizes the drives and answers for the certificate.

When to set it: always in production.
""",
    ),
    cfg.StrOpt(
        "person",
        default="not stated",
        help="""
Name of the person who answers for sanitization and verification.

When to set it: when your auditors want a name on each certificate.
""",
    ),
    cfg.StrOpt(
        "title",
        default="not stated",
        help="""
Position or title of that person.

When to set it: together with person.
""",
    ),
    cfg.StrOpt(
        "location",
        default="not stated",
        help="""
Where the drives are, as an auditor should read it: site and city, not a rack.

When to set it: always in production; run one control plane per site if it differs.
""",
    ),
    cfg.StrOpt(
        "contact",
        default="not stated",
        help="""
Telephone number or address for questions about a certificate.

When to set it: always in production.
""",
    ),
    cfg.StrOpt(
        "verifier_person",
        default="",
        help="""
Name of the person who answers for the verification, where that is another than person. Empty: the
same.

When to set it: when somebody else answers for verification than for sanitization.
""",
    ),
    cfg.StrOpt(
        "verifier_title",
        default="",
        help="""
Position or title of that person. Empty: as title.

When to set it: together with verifier_person.
""",
    ),
    cfg.StrOpt(
        "verifier_location",
        default="",
        help="""
Where the verification was made. Empty: as location; the drive is read in its slot.

When to set it: hardly ever.
""",
    ),
    cfg.StrOpt(
        "verifier_contact",
        default="",
        help="""
Telephone number or address of that person. Empty: as contact.

When to set it: together with verifier_person.
""",
    ),
    cfg.StrOpt(
        "property_numbers",
        default=None,
        help="""
JSON file with your organisation's property numbers, an object of serial number to property number:
{"S4YPNE0M400001": "SSD-00017"}. It is read when the service starts. Drives that are not in it are
certified as "not recorded".

When to set it: when your inventory has numbers of its own; NIST SP 800-88 has a field for them.
""",
    ),
    cfg.StrOpt(
        "chassis_numbers",
        default=None,
        help="""
JSON file with your organisation's numbers of the machines, an object of host (as slots name it) to
number: {"cmp1": "RBX8-12A07"}. It is read when the service starts. Hosts that are not in it are
certified as "not recorded".

When to set it: when an auditor has to find the machine that a drive was erased in.
""",
    ),
    cfg.StrOpt(
        "attestations",
        default=None,
        help="""
JSON file with what you state about the encryption of drive models, printed where cryptographic
erase alone succeeded: {"attestations": [{"model": "SAMSUNG MZ*", "firmware": "*", "statement":
"AES-256-XTS of all user data from the factory on, by the maker's letter of 2026-03-01"}]}. The
first whose patterns match is taken. Without one such a certificate says "not attested". It is read
when the service starts.

When to set it: when your policy lets cryptographic erase stand alone. State only what you have in
writing: it is printed as your word.
""",
    ),
    cfg.StrOpt(
        "backup",
        default="not stated",
        help="""
Whether the data was backed up before, and where, in your organisation's own words.

When to set it: when your form has the field; tenants' data is mostly the tenants' affair.
""",
    ),
    cfg.StrOpt(
        "confidentiality_before",
        default="not stated",
        help="""
Confidentiality category of what tenants may have stored, in your organisation's own words.

When to set it: when your organisation categorises media; the field is optional in the standard.
""",
    ),
    cfg.StrOpt(
        "confidentiality_after",
        default="not stated",
        help="""
Confidentiality category of the drive after the erase, in your organisation's own words.

When to set it: together with confidentiality_before.
""",
    ),
    cfg.StrOpt(
        "destination",
        default="the pool of schedulable drives",
        help="""
What becomes of an erased drive.

When to change: hardly ever; drives that are pulled are retired, not certified for reuse.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
