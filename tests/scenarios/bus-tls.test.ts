import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { createLog } from "@roamfleet/server";
import { parseNatsUrl } from "../../packages/server/src/engines/bus/nats-address.ts";
import { NatsServer, SKIP_NATS } from "../../packages/server/src/engines/bus/testing/nats-server.ts";
import { openTls } from "../../packages/server/src/kernel/tls/own-certificate.ts";
import { startPlane } from "../harness/index.ts";
import { Program } from "../processes/process.ts";

const ECHO = "packages/server/src/engines/bus/testing/echo-process.ts";

test(
  "a bus address with tls:// connects only to a NATS server with a trusted certificate",
  { skip: SKIP_NATS, timeout: 240_000 },
  async (t) => {
    const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-bus-tls-"));
    t.after(() => rm(directory, { recursive: true, force: true }));
    const listen = { host: "127.0.0.1", port: 0 };
    const context = { clock: systemClock, log: createLog({ level: "silent" }) };
    const tls = await openTls({ tls: { mode: "auto", names: [] }, listen, data_directory: directory }, context);
    t.after(() => tls?.stop());
    assert.ok(tls?.authority);
    const [cert_file, key_file] = [path.join(directory, "cert.pem"), path.join(directory, "key.pem")];
    await writeFile(cert_file, tls.pair.cert);
    await writeFile(key_file, tls.pair.key);
    await using secure = await NatsServer.start({ config: `tls { cert_file: "${cert_file}", key_file: "${key_file}" }` });
    await using plain = await NatsServer.start();
    const trusting = { NODE_EXTRA_CA_CERTS: tls.authority.file };
    for (const [port, env, said] of [
      [secure.port, trusting, /the bus is connected/],
      [secure.port, {}, /the bus is unreachable.*certificate/],
      [plain.port, trusting, /the bus is unreachable.*tls/],
    ] as const) {
      const program = new Program(ECHO, [`tls://localhost:${port}`], env);
      await program.until("it says how it went", () => program.output.includes("\n"));
      await program.kill();
      assert.match(program.output, said);
    }
  },
);

test("a server warns if NATS on another machine is used without credentials or TLS", { timeout: 120_000 }, async () => {
  for (const [url, missing] of [
    ["nats://nats.invalid", ["credentials and tls"]],
    ["nats://127.0.0.1:1", []],
  ] as const) {
    await using plane = await startPlane({ settings: { bus: parseNatsUrl(url)! }, nodes: 1 });
    const warned = plane.logged.filter(({ msg }) => String(msg).startsWith("ROAMFLEET_BUS_URL uses another machine"));
    assert.deepEqual(
      warned.map((line) => line["missing"]),
      missing,
    );
  }
});
