import assert from "node:assert/strict";
import { test } from "node:test";
import { exposureOf, natsSubject, parseNatsUrl } from "./nats-address.ts";

test("parses the servers, credentials and prefix of a NATS URL", () => {
  assert.deepEqual(parseNatsUrl("nats://nats.example.com"), {
    servers: [{ host: "nats.example.com", port: 4222 }],
    tls: false,
    credentials: undefined,
    prefix: "roamfleet",
  });
  assert.deepEqual(parseNatsUrl("tls://fleet:p%40s@s:w/rd@a:4223,b,[::1]:7/site-2"), {
    servers: [
      { host: "a", port: 4223 },
      { host: "b", port: 4222 },
      { host: "::1", port: 7 },
    ],
    tls: true,
    credentials: { user: "fleet", pass: "p@s@s:w/rd" },
    prefix: "site-2",
  });
  assert.deepEqual(parseNatsUrl("nats://s3cret@a/")?.credentials, { token: "s3cret" });
});

test("returns undefined for an invalid NATS URL", () => {
  for (const url of [
    "",
    "http://a",
    "nats://",
    "nats://a:0",
    "nats://a:70000",
    "nats://a,,b",
    "nats://u:%zz@a",
    "nats://a/b c",
    "nats://a/b.c",
  ])
    assert.equal(parseNatsUrl(url), undefined, url);
});

test("maps every subject to a distinct valid NATS subject, and leaves ordinary subjects unchanged", () => {
  for (const subject of ["rf.node.1", "rf.deployments.fan_out", "rf.changes.org_0198-A"])
    assert.equal(natsSubject("p", subject), `p.hint.${subject}`);
  const odd = ["", ".", "..", "a.", ".a", "a..b", "a.b", "a b", "a=20b", "a*", "a.>", "ä", "a\r\nb", "=", "=3d", "a=2eb"];
  const made = odd.map((subject) => natsSubject("p", subject));
  assert.equal(new Set(made).size, odd.length);
  for (const subject of made) assert.match(subject, /^p\.hint(\.[\w=-]+)+$/);
});

test("reports a remote NATS without credentials or TLS, but not a local one", () => {
  const exposure = (url: string): string | undefined => exposureOf(parseNatsUrl(url)!);
  assert.equal(exposure("nats://127.0.0.1,localhost:4223,[::1]"), undefined);
  assert.equal(exposure("tls://user:secret@bus.example.org"), undefined);
  assert.equal(exposure("nats://user:secret@bus.example.org"), "tls");
  assert.equal(exposure("tls://bus.example.org"), "credentials");
  assert.equal(exposure("nats://127.0.0.1,10.0.0.9"), "credentials and tls");
});
