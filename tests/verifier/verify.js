// A verifier of another hand: written from docs/certificates.md alone, on the JOSE library `jose`.
//
// node verify.js --key controller.jwk [--key former.jwk] [--rotation N.KEY.rotation.jws]
//     [--end DIGEST] DIGEST.json ...
//
// Prints one JSON object: what was checked, and every problem. Exit code 0, 7 with problems, 2 for
// a wrong call.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const jose = require("jose");

const TYP = {
  certificate: "nvme-quarantine.certificate+json",
  order: "nvme-quarantine.erase-order+json",
  report: "nvme-quarantine.erase-report+json",
  rotation: "nvme-quarantine.key-rotation+json",
};
const TESTIMONY = ["order.jws", "report.jws", "host.jwk"];

const sha256 = (bytes) => crypto.createHash("sha256").update(bytes).digest("hex");

// JSON.parse rounds numbers above 2^53 and takes the last of two equal names. Here numbers stay the
// text that they are, and a name that stands twice is an error.
class Numeral {
  constructor(text) {
    this.text = text;
  }
}

function parse(text) {
  JSON.parse(text); // the grammar is its affair
  let at = 0;
  const space = () => {
    while (" \t\r\n".includes(text[at]) && at < text.length) at++;
  };
  const string = () => {
    const begin = at++;
    while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    return JSON.parse(text.slice(begin, ++at));
  };
  const value = () => {
    space();
    if (text[at] === '"') return string();
    if (text[at] === "{") return members();
    if (text[at] === "[") return items();
    const word = /^[^\s,\]}]+/.exec(text.slice(at, at + 400))[0];
    at += word.length;
    return { true: true, false: false, null: null }[word] ?? (word === "null" ? null : new Numeral(word));
  };
  const members = () => {
    const found = new Map();
    for (at++, space(); text[at] !== "}"; space()) {
      if (text[at] === ",") at++, space();
      const name = string();
      if (found.has(name)) throw new Error(`the name ${name} stands twice`);
      space();
      at++; // the colon
      found.set(name, value());
    }
    at++;
    return found;
  };
  const items = () => {
    const found = [];
    for (at++, space(); text[at] !== "]"; space()) {
      if (text[at] === ",") at++;
      found.push(value());
    }
    at++;
    return found;
  };
  return value();
}

function same(one, other) {
  if (one instanceof Numeral && other instanceof Numeral) return one.text === other.text;
  if (one instanceof Map && other instanceof Map)
    return one.size === other.size && [...one].every(([k, v]) => other.has(k) && same(v, other.get(k)));
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, n) => same(item, other[n]));
  return one === other;
}

// The payload's bytes of a token that one of `keys` (by thumbprint) signed as `typ`.
async function verified(token, keys, typ) {
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) throw new Error("expected a compact JWS");
  const header = jose.decodeProtectedHeader(token);
  if (Object.keys(header).sort().join() !== "alg,kid,typ") throw new Error("expected alg, kid and typ alone");
  if (header.typ !== typ) throw new Error(`expected the type ${typ}, found ${header.typ}`);
  const key = keys.get(header.kid);
  if (key === undefined) throw new Error(`no key was given for ${header.kid}`);
  for (const part of token.split("."))
    if (Buffer.from(part, "base64url").toString("base64url") !== part) throw new Error("expected plain base64url");
  const { payload } = await jose.compactVerify(token, key, { algorithms: ["EdDSA"] });
  return Buffer.from(payload);
}

async function keyOf(file) {
  const jwk = JSON.parse(fs.readFileSync(file, "utf8"));
  if (jwk.kty !== "OKP" || jwk.crv !== "Ed25519" || "d" in jwk) throw new Error(`${file}: expected a public Ed25519 key`);
  return [await jose.calculateJwkThumbprint(jwk), await jose.importJWK(jwk, "EdDSA")];
}

// The keys, each with the places that it signs, and the digests that rotations name, by position.
class Ring {
  constructor() {
    this.keys = new Map();
    this.first = new Map();
    this.last = new Map();
    this.ends = new Map();
    this.problems = [];
  }

  trust(thumbprint, key) {
    if (!this.keys.has(thumbprint)) this.keys.set(thumbprint, key);
  }

  misplaced(thumbprint, position, digest) {
    if ((this.ends.get(position) ?? digest) !== digest) return true;
    return position < (this.first.get(thumbprint) ?? 1) || position > (this.last.get(thumbprint) ?? Infinity);
  }

  // Backwards from a key that is trusted before forwards: the newer one binds the older.
  follow(rotations) {
    let left = rotations;
    for (;;) {
      const one =
        left.find((each) => this.keys.has(each.new[0])) ?? left.find((each) => this.keys.has(each.old[0]));
      if (one === undefined) break;
      const side = this.keys.has(one.new[0]) ? "new" : "old";
      const rivals = left.filter((each) => each[side][0] === one[side][0]);
      left = left.filter((each) => !rivals.includes(each));
      const fits =
        !this.last.has(one.old[0]) && !this.first.has(one.new[0]) && one.position >= (this.first.get(one.old[0]) ?? 1) - 1 &&
        (this.ends.get(one.position) ?? one.digest) === one.digest;
      if (rivals.length > 1 || !fits) {
        this.problems.push(`a rotation with key ${one[side][0]} is not believed`);
        continue;
      }
      this.trust(...one.old);
      this.trust(...one.new);
      this.last.set(one.old[0], one.position);
      this.first.set(one.new[0], one.position + 1);
      if (one.position > 0) this.ends.set(one.position, one.digest);
    }
    for (const each of left) this.problems.push(`a rotation to key ${each.new[0]} leads to no trusted key`);
  }
}

async function rotation(file) {
  const tokens = fs.readFileSync(file, "ascii").split("\n").filter(Boolean);
  if (tokens.length !== 2) throw new Error(`${file}: expected two signatures`);
  const said = parse(utf8(jose.base64url.decode(tokens[0].split(".")[1])));
  const sides = [];
  for (const name of ["old", "new"]) {
    const jwk = Object.fromEntries(said.get(name));
    if (Object.keys(jwk).sort().join() !== "crv,kty,x") throw new Error(`${file}: expected a key of kty, crv and x alone`);
    if (jwk.kty !== "OKP" || jwk.crv !== "Ed25519" || "d" in jwk) throw new Error(`${file}: expected a public Ed25519 key`);
    sides.push([await jose.calculateJwkThumbprint(jwk), await jose.importJWK(jwk, "EdDSA")]);
  }
  const [old, heir] = sides;
  const payloads = [];
  for (const [n, side] of sides.entries()) payloads.push(await verified(tokens[n], new Map([side]), TYP.rotation));
  if (!payloads[0].equals(payloads[1])) throw new Error(`${file}: expected both keys to sign one and the same`);
  return { old, new: heir, position: Number(said.get("position").text), digest: said.get("digest") };
}

const utf8 = (bytes) => new TextDecoder("utf-8", { fatal: true }).decode(bytes);

async function certificate(file, ring) {
  const document = parse(utf8(fs.readFileSync(file)));
  if (!(document instanceof Map) || [...document.keys()].sort().join() !== "certificate,jws")
    throw new Error("expected the members certificate and jws");
  const payload = await verified(document.get("jws"), ring.keys, TYP.certificate);
  const body = parse(utf8(payload));
  if (!same(body, document.get("certificate"))) throw new Error("the readable part is not what was signed");
  if (!["1", "2"].includes(body.get("format").text)) throw new Error("expected format 1 or 2");
  const { kid } = jose.decodeProtectedHeader(document.get("jws"));
  if (ring.misplaced(kid, Number(body.get("position").text), sha256(payload))) throw new Error(`key ${kid} does not sign this place`);
  return { file, body, digest: sha256(payload) };
}

async function testimony(found, keys) {
  const [order, report, host] = TESTIMONY.map((end) => path.join(path.dirname(found.file), `${found.digest}.${end}`));
  if (![order, report, host].some((file) => fs.existsSync(file))) return "not given";
  const papers = found.body.get("case");
  const tokens = [order, report].map((file) => fs.readFileSync(file));
  if (sha256(tokens[0]) !== papers.get("order_digest")) throw new Error("another order than the certificate names");
  if (sha256(tokens[1]) !== papers.get("report_digest")) throw new Error("another report than the certificate names");
  const [thumbprint, key] = await keyOf(host);
  if (thumbprint !== papers.get("host_key")) throw new Error("another host's key than the certificate names");
  const named = papers.get("order_key"); // orders may have a key of their own, which the certificate names
  if (named !== undefined) {
    const jwk = { kty: "OKP", crv: "Ed25519", x: named };
    keys = new Map([[await jose.calculateJwkThumbprint(jwk), await jose.importJWK(jwk, "EdDSA")]]);
  }
  const asked = parse(utf8(await verified(tokens[0].toString("ascii"), keys, TYP.order)));
  const said = parse(utf8(await verified(tokens[1].toString("ascii"), new Map([[thumbprint, key]]), TYP.report)));
  for (const name of ["order_id", "generation", "nonce", "incarnation"])
    for (const paper of [asked, said])
      if (!same(paper.get(name), papers.get(name))) throw new Error(`another ${name} than the certificate's`);
  for (const paper of [asked, said])
    if (!same(paper.get("identity"), found.body.get("drive").get("identity"))) throw new Error("another drive");
  return "agrees";
}

function chain(found, end, ends) {
  const problems = [];
  for (const [position, digest] of ends)
    if (!found.some((link) => link.digest === digest && link.body.get("position").text === String(position)))
      problems.push(`expected certificate ${digest} at position ${position}, where the key was replaced`);
  const links = [...found].sort((a, b) => Number(a.body.get("position").text) - Number(b.body.get("position").text));
  links.forEach((link, n) => {
    const position = link.body.get("position").text;
    if (position !== String(n + 1)) problems.push(`expected position ${n + 1}, found ${position}: ${link.file}`);
    if (link.body.get("previous") !== (n ? links[n - 1].digest : "")) problems.push(`a broken link before ${link.file}`);
  });
  if (end !== undefined && links.at(-1)?.digest !== end) problems.push(`expected the chain to end with ${end}`);
  return problems;
}

async function main(argv) {
  const files = [], ring = new Ring(), rotations = [];
  let end;
  for (let n = 0; n < argv.length; n++) {
    if (argv[n] === "--key") ring.trust(...(await keyOf(argv[++n])));
    else if (argv[n] === "--rotation") rotations.push(await rotation(argv[++n]));
    else if (argv[n] === "--end") end = argv[++n];
    else files.push(argv[n]);
  }
  if (!files.length || !ring.keys.size) {
    console.error("usage: verify.js --key JWK [--key JWK] [--rotation FILE] [--end DIGEST] FILE...");
    return 2;
  }
  ring.follow(rotations);
  const found = [], problems = [], results = [];
  for (const file of files) {
    try {
      const one = await certificate(file, ring);
      found.push(one);
      results.push({ file, digest: one.digest, testimony: await testimony(one, ring.keys) });
    } catch (error) {
      problems.push(`${file}: ${error.message}`);
    }
  }
  problems.push(...ring.problems, ...chain(found, end, ring.ends));
  console.log(JSON.stringify({ results, problems }));
  return problems.length ? 7 : 0;
}

main(process.argv.slice(2)).then((code) => (process.exitCode = code));
