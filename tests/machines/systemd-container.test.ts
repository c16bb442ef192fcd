import assert from "node:assert/strict";
import http from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ContainerRig, whyNoContainers } from "./systemd-container.ts";

const LIMIT = { timeout: 600_000, skip: whyNoContainers() };

test("boots Debian with systemd in a container, which runs a unit and reaches only servers of this machine", LIMIT, async (t) => {
  await using rig = await ContainerRig.start();
  const server = http.createServer((_, response) => response.end("reached")).listen(0, "0.0.0.0");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    const began = performance.now();
    await using machine = await rig.boot();
    t.diagnostic(`booted after ${Math.round(performance.now() - began)} ms`);
    assert.equal((await machine.read("/proc/1/comm")).trim(), "systemd");
    assert.equal(await machine.run(["curl", "-sS", `${rig.reach("http://0.0.0.0")}:${port}/`]), "reached");
    // There is no route to Debian's servers or to anything else in the host's network.
    assert.notEqual((await machine.exec(["curl", "-sS", "--max-time", "2", "http://192.0.2.1/"])).code, 0);

    const unit = "[Service]\nType=exec\nExecStart=/bin/sh -c 'echo started as $$(id -un); exec sleep 1000'\nDynamicUser=yes\n";
    await machine.write("/etc/systemd/system/probe.service", unit);
    await machine.run(["systemctl", "daemon-reload"]);
    await machine.run(["systemctl", "start", "probe"]);
    await machine.waitForUnit("probe");
    await machine.until("its output", async () => (await machine.journal("probe")).includes("started as probe"));
    const { MainPID } = await machine.unit("probe", "MainPID");
    await machine.run(["kill", "-9", MainPID]);
    await machine.waitForUnit("probe", "failed");

    await machine.copyIn(import.meta.dirname, "/srv/new/place");
    assert.match(await machine.read("/srv/new/place/container-init.sh"), /exec \/lib\/systemd/);
    await machine.crash();
    assert.match(await machine.read("/srv/new/place/container-init.sh"), /exec \/lib\/systemd/);
    assert.deepEqual(await machine.exec(["sh", "-c", "echo out; echo err >&2; exit 3"]), { code: 3, stdout: "out\n", stderr: "err\n" });
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
