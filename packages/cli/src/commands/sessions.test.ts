import assert from "node:assert/strict";
import fs from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { RfHome, type RfCall, type RfResult } from "../testing/run-rf.ts";

const TIMEOUT = { timeout: 120_000 };
const LINES = '{"version":2,"width":80,"height":24}\n[0.1,"o","begin\\n"]\n[100,"o","rest\\n"]\n';

/** Plays a recording from a server whose response `body` describes. Sends Ctrl-C when `interrupt` returns true for the output. */
async function play(
  home: RfHome,
  args: string[],
  body: "is whole" | "stalls" | "is cut",
  interrupt: (printed: string) => boolean = () => false,
): Promise<RfResult> {
  const service = createServer((_, response) => {
    response.writeHead(200, { "content-type": "application/x-asciicast" });
    if (body === "is whole") response.end(LINES);
    else response.write(LINES, () => body === "is cut" && response.destroy());
  });
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  let [printed, interrupted] = ["", false];
  const call: RfCall = {
    env: { ROAMFLEET_BASE_URL: `http://127.0.0.1:${(service.address() as AddressInfo).port}`, ROAMFLEET_TOKEN: "rf_user_test" },
    on_output: (child, text) => {
      printed += text;
      if (interrupted || !interrupt(printed)) return;
      interrupted = true;
      child.kill("SIGINT");
    },
  };
  try {
    return await home.run(["robots", "sessions", "play", "shl_1", ...args], call);
  } finally {
    service.closeAllConnections();
    service.close();
  }
}

for (const [args, body] of [
  [[], "is whole"],
  [[], "stalls"],
  [["--raw"], "stalls"],
  [["--save", "-"], "stalls"],
] as const)
  test(`rf robots sessions ${["play", ...args].join(" ")} exits 130 on Ctrl-C when the download ${body}`, TIMEOUT, async () => {
    await using home = await RfHome.make();
    const { code, stdout } = await play(home, [...args], body, (printed) => printed.includes("begin"));
    assert.equal(code, 130);
    if (args.length === 0) assert.equal(stdout, "begin\n");
  });

test("rf robots sessions play --save writes the recording atomically with mode 0600", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const file = path.join(home.directory, "session.cast");
  fs.writeFileSync(file, "older");
  assert.notEqual((await play(home, ["--save", file], "is cut")).code, 0);
  assert.equal(fs.readFileSync(file, "utf8"), "older");
  assert.equal((await play(home, ["--save", file], "is whole")).code, 0);
  assert.equal(fs.readFileSync(file, "utf8"), LINES);
  assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(
    fs.readdirSync(home.directory).filter((name) => name.endsWith(".part")),
    [],
  );
});
