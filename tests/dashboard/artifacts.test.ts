import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { axe, type Dashboard, NO_BROWSER, openDashboard, settled, visit } from "../harness/browser.ts";
import { drop } from "./by-hand.ts";

const FILE_BYTES = 20_000_000;
/** An upload rate that is slow enough to restart the server during the upload. */
const SLOW_BYTES_PER_SECOND = 500_000;

test("pushes and deploys releases and config values in the browser", { skip: NO_BROWSER, timeout: 400_000 }, async (t) => {
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-artifacts-"));
  t.after(() => rm(directory, { recursive: true }));
  const it = await openDashboard(t, { robots: 2 });
  await t.test("completes the upload of a dropped file despite a server restart and a page reload", () => push(it, directory));
  await t.test("reports before the upload that a release with the same content exists", () => pushRepeatedly(it, directory));
  await t.test("shows an error at the tag field if the tag exists with other content", () => pushOther(it, directory));
  await t.test("shows the robots of a deployed release", () => deploy(it));
  await t.test("sets a config value, marks the line of an invalid one, shows its origin and rolls it back", () => configure(it));
  await t.test("shows the changes of a config deployment, then deploys them", () => deployConfigs(it));
});

const fileOf = (directory: string): string => path.join(directory, "map-1.2.0.bin");
const progressOf = (page: Page): Promise<number> =>
  page.getByRole("progressbar", { name: "Upload of map-1.2.0" }).getAttribute("aria-valuenow").then(Number);

async function push({ page, server, ...it }: Dashboard, directory: string): Promise<void> {
  // Requests fail while the server is stopped.
  it.allow(/ERR_|was answered 5\d\d|status of 5\d\d|Failed to load resource|EventSource/);
  await writeFile(fileOf(directory), randomBytes(FILE_BYTES));
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  const conditions = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: SLOW_BYTES_PER_SECOND };
  await network.send("Network.emulateNetworkConditions", conditions);
  await visit(page, "/releases");
  await drop(page, fileOf(directory));
  const dialog = page.getByRole("dialog", { name: "Push release" });
  await dialog.getByText("SHA-256").waitFor();
  assert.equal(await dialog.getByLabel("Tag").inputValue(), "map-1.2.0");
  await dialog.getByLabel("Kind", { exact: true }).selectOption("file");
  await axe(page);
  await dialog.getByRole("button", { name: "Push", exact: true }).click();
  await server.until("a part of it to be sent", async () => (await progressOf(page)) > FILE_BYTES / 20);
  await server.restart();
  const there = await progressOf(page);
  await server.until("more of it to be sent", async () => (await progressOf(page)) > there);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused; uploaded data is kept for ten minutes").waitFor();
  assert.ok((await progressOf(page)) < FILE_BYTES);

  await page.reload();
  await settled(page);
  await page
    .getByRole("row", { name: /map-1\.2\.0/ })
    .getByText("awaiting upload")
    .waitFor();
  await drop(page, fileOf(directory));
  await dialog.getByText("is awaiting this file").waitFor();
  await network.send("Network.emulateNetworkConditions", { ...conditions, uploadThroughput: -1 });
  await dialog.getByRole("button", { name: "Resume upload" }).click();
  await page
    .getByText(/resumed at|^verified$/)
    .first()
    .waitFor();
  await page.getByText("verified", { exact: true }).waitFor();
  const { items } = await server.default_org.api.listReleases({ query: { tag: "map-1.2.0" } });
  assert.deepEqual(
    items.map(({ artifact_state, artifact_size, kind }) => [artifact_state, artifact_size, kind]),
    [["stored", FILE_BYTES, "file"]],
  );
}

async function pushRepeatedly({ page }: Dashboard, directory: string): Promise<void> {
  await visit(page, "/releases");
  await page.getByRole("button", { name: "Push release" }).click();
  const dialog = page.getByRole("dialog", { name: "Push release" });
  await dialog.getByLabel("Choose file").setInputFiles(fileOf(directory));
  await dialog.getByText("has the same content: pushing it again has no effect").waitFor();
}

async function pushOther({ page }: Dashboard, directory: string): Promise<void> {
  const other = path.join(directory, "other.bin");
  await writeFile(other, "something else");
  await visit(page, "/releases");
  await page.getByRole("button", { name: "Push release" }).click();
  const dialog = page.getByRole("dialog", { name: "Push release" });
  await dialog.getByLabel("Choose file").setInputFiles(other);
  await dialog.getByLabel("Tag").fill("map-1.2.0");
  await dialog.getByLabel("Kind", { exact: true }).selectOption("file");
  await dialog.getByRole("button", { name: "Push", exact: true }).click();
  await dialog.getByRole("alert").getByText("exists with other content").waitFor();
  assert.equal(await dialog.getByLabel("Tag").getAttribute("aria-invalid"), "true");
}

async function deploy({ page, server, robots }: Dashboard): Promise<void> {
  const { api } = server.default_org;
  const release = (await api.listReleases({ query: { tag: "map-1.2.0" } })).items[0]!;
  await visit(page, `/releases/${release.id}`);
  await page.getByText("Not installed on any robot").waitFor();
  assert.match((await page.getByRole("link", { name: "Deploy", exact: true }).getAttribute("href")) ?? "", new RegExp(release.id));
  await server.deploy(release, { robot_id: robots[0]!.id });
  await page.getByRole("heading", { name: "Installed on 1 robot" }).waitFor();
  await page.getByText("1 of 1 applied").waitFor();
  await axe(page);
}

async function configure({ page, server, ...it }: Dashboard): Promise<void> {
  it.allow(/was answered 400/);
  const { api } = server.default_org;
  const { id: fleet_id } = (await api.listFleets()).items[0]!;
  await api.setConfigSchema({
    params: { namespace: "nav" },
    body: { schema: { type: "object", properties: { limits: { type: "object", properties: { speed: { type: "number", maximum: 3 } } } } } },
  });
  await api.setConfig({ body: { key: "limits", value: { speed: 1 }, namespace: "nav" } });
  await visit(page, `/configs?scope=fleet&scope_id=${fleet_id}`);
  const row = page.getByRole("row", { name: /limits/ });
  await row.getByText("organization", { exact: true }).waitFor();
  await row.getByText("nav").click();
  const dialog = page.getByRole("dialog", { name: "Override value" });
  await dialog.getByLabel("Value", { exact: true }).fill('{"speed":');
  await dialog.getByText("Invalid JSON: line 1").waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Set value" }).isDisabled());
  await dialog.getByLabel("Value", { exact: true }).fill('{"speed":5}');
  await dialog.getByRole("button", { name: "Set value" }).click();
  await dialog.getByText("Line 2: value limits.speed must be <= 3").waitFor();
  await dialog.getByLabel("Value", { exact: true }).fill('{"speed":2}');
  await dialog.getByRole("region", { name: "Current and new value" }).getByText('"speed": 2').waitFor();
  await axe(page);
  await dialog.getByRole("button", { name: "Set value" }).click();
  await row.getByText("set here").waitFor();

  const { id } = (await api.listConfigs({ query: { scope: "fleet", scope_id: fleet_id } })).items[0]!;
  await api.setConfig({ body: { key: "limits", value: { speed: 3 }, namespace: "nav", scope: "fleet", scope_id: fleet_id } });
  await visit(page, `/configs/${id}`);
  await page.getByRole("button", { name: "Roll back to this version…" }).click();
  const asked = page.getByRole("dialog", { name: "Roll back to version 1" });
  await asked.getByText("Robots change only with the next config deployment").waitFor();
  await asked.getByRole("button", { name: "Roll back", exact: true }).click();
  await page.getByText("rolled back to version 1", { exact: true }).waitFor();
  assert.deepEqual((await api.getConfig({ params: { id } })).data.value, { speed: 2 });
  await axe(page);
}

async function deployConfigs({ page, robots }: Dashboard): Promise<void> {
  await visit(page, `/configs?scope=robot&scope_id=${robots[0]!.id}`);
  await page.getByRole("button", { name: "Deploy configs" }).click();
  const dialog = page.getByRole("dialog", { name: "Deploy configs" });
  await dialog.getByText("nav/limits").waitFor();
  await dialog
    .getByRole("region", { name: /nav\/limits/ })
    .getByText('"speed": 2')
    .waitFor();
  await axe(page);
  await dialog.getByRole("button", { name: "Deploy to this robot" }).click();
  await page.waitForURL("**/config-deployments/cdep_*");
}
