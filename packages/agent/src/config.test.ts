import assert from "node:assert/strict";
import { test } from "node:test";
import { loadConfig, parseServer, readConfig, UsageError } from "./config.ts";
import { ConfigFileError } from "./config-file/section.ts";
import { unitText } from "./install.ts";

test("accepts a plain HTTP server address only on loopback, unless --allow-insecure-http is set", () => {
  for (const address of ["http://127.0.0.1:7600", "http://localhost", "http://[::1]:1", "http://127.9.9.9", "https://fleet.example.com"])
    parseServer(address, false);
  for (const address of [
    "http://10.0.0.1",
    "http://fleet.example.com",
    "http://127.0.0.1.example.com",
    "http://localhost.example.com",
    "http://0.0.0.0",
  ]) {
    assert.throws(
      () => parseServer(address, false),
      (error) => error instanceof UsageError && error.message.includes("--allow-insecure-http"),
      address,
    );
    parseServer(address, true);
  }
});

test("parses a server address without its trailing slash and rejects an invalid one", () => {
  for (const address of ["", "fleet", "ftp://x", "https://user:pw@x", "https://x/?q", "ws://x"])
    assert.throws(() => parseServer(address, true), UsageError, address);
  assert.equal(parseServer("https://Fleet.example.com/", false), "https://fleet.example.com");
  assert.equal(parseServer("https://x/robots/", false), "https://x/robots");
});

test("flags override the environment, and workloads do not inherit the agent's variables", () => {
  const env = {
    ROAMFLEET_SERVER: "https://env",
    ROAMFLEET_STATE: "/env",
    ROAMFLEET_ENROLL_KEY: "rf_enroll_1",
    PATH: "/bin",
    NODE_OPTIONS: "--x",
    MALLOC_ARENA_MAX: "1",
  };
  const config = readConfig({ server: "https://flag", label: ["a=b", "c=d=e", "empty="] }, env);
  assert.deepEqual([config.server, config.state_directory, config.enroll_key], ["https://flag", "/env", "rf_enroll_1"]);
  assert.deepEqual(config.labels, { a: "b", c: "d=e", empty: "" });
  const labelled = readConfig({ server: "https://flag" }, { ...env, ROAMFLEET_ROBOT_LABELS: "a=b,c=d" });
  assert.deepEqual(labelled.labels, { a: "b", c: "d" });
  assert.deepEqual(config.workload_environment, { PATH: "/bin" });
  const chosen = readConfig({ server: "https://flag" }, { ...env, MALLOC_ARENA_MAX: "4" });
  assert.deepEqual(chosen.workload_environment, { PATH: "/bin", MALLOC_ARENA_MAX: "4" });
});

test("a missing or malformed setting is a usage error that names the flag", () => {
  const whole = { server: "https://x", state: "/s" };
  for (const [flags, named] of [
    [{ state: "/s" }, "--server"],
    [{ server: "https://x" }, "--state"],
    [{ ...whole, label: ["novalue"] }, "--label"],
    [{ ...whole, logLevel: "loud" }, "--log-level"],
    [{ ...whole, logSpoolMib: "0" }, "--log-spool-mib"],
    [{ ...whole, logSpoolMib: "many" }, "--log-spool-mib"],
  ] as const) {
    assert.throws(
      () => readConfig({ ...flags, ...("label" in flags ? { label: [...flags.label] } : {}) } as Parameters<typeof readConfig>[0], {}),
      (error) => error instanceof UsageError && error.message.includes(named),
      named,
    );
  }
});

const PLACE = { node: "/usr/bin/node", environment_file: "/etc/roamfleet/agent.env", allow_new_privileges: false };

test("the systemd unit omits the enrollment key and quotes values that systemd would expand", () => {
  const config = readConfig({ server: "https://x", state: "/var/lib/my robot", enrollKey: "rf_enroll_secret", name: '50% "x"' }, {});
  const unit = unitText(config, { ...PLACE, program: "/opt/rf/main.ts" });
  assert.ok(!unit.includes("rf_enroll_secret"));
  assert.match(
    unit,
    /^ExecStart=\/usr\/bin\/node \/opt\/rf\/main\.ts run --server https:\/\/x --state "\/var\/lib\/my robot" --name "50%% \\"x\\"" /m,
  );
});

test("a failpoint takes effect only with both --crash-at-failpoint and its environment variables", () => {
  const env = { ROAMFLEET_SERVER: "https://env", ROAMFLEET_STATE: "/env" };
  const armed = { ...env, ROAMFLEET_FAILPOINT: "journal:before-append", ROAMFLEET_FAILPOINT_LOG: "/log" };
  assert.deepEqual([readConfig({}, env).failpoint, readConfig({}, env).failpoint_ignored], [undefined, false]);
  assert.deepEqual([readConfig({}, armed).failpoint, readConfig({}, armed).failpoint_ignored], [undefined, true]);
  const obeyed = readConfig({ crashAtFailpoint: true }, armed);
  assert.deepEqual(obeyed.failpoint, { spec: "journal:before-append", log_file: "/log" });
  assert.equal(obeyed.failpoint_ignored, false);
  for (const missing of [env, { ...armed, ROAMFLEET_FAILPOINT_LOG: "" }])
    assert.throws(() => readConfig({ crashAtFailpoint: true }, missing), UsageError);
  assert.doesNotMatch(unitText(obeyed, { ...PLACE, program: "/opt/rf-agent" }), /crash/);
});

test("an error in the robot's config file is not a usage error, so systemd restarts the agent", async () => {
  const env = { ROAMFLEET_SERVER: "https://env", ROAMFLEET_STATE: "/env" };
  await assert.rejects(
    loadConfig({ config: "/nowhere/agent.yaml" }, env),
    (error) => error instanceof ConfigFileError && !(error instanceof UsageError),
  );
});
