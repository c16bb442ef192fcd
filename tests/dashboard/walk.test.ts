import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { type Dashboard, goTo, NO_BROWSER, openDashboard, visit } from "../harness/browser.ts";
import { signIn } from "../harness/chromium.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { appBundle, DIES } from "../processes/app-bundle.ts";
import { drop, picture, screen, type } from "./by-hand.ts";

const skip = NO_BROWSER === false && !existsSync("/usr/bin/ffmpeg") ? "ffmpeg is not installed" : NO_BROWSER;
const SWARM = 1_000;
/** Verification time of the deployments in this test. */
const VERIFY = "1s";

const button = (page: Page | Locator, name: string): Locator => page.getByRole("button", { name, exact: true });

test("a user does everything in the browser, from the first sign-in to the removal of a user", { skip, timeout: 400_000 }, async (t) => {
  const directory = await mkdtemp(path.join(os.tmpdir(), "roamfleet-walk-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const it = await openDashboard(t, { role: undefined, robots: SWARM });
  const { api } = it.server.default_org;
  const { data: site } = await api.createSite({ body: { name: "Harbour" } });
  const { data: fleet } = await api.createFleet({ body: { name: "Yard", site_id: site.id } });
  await t.test("signs in with a token and opens the requested page", () => enter(it));
  let key = "";
  await t.test("creates an enrollment key for the fleet and shows it once", async () => {
    key = await makeKey(it);
  });
  const config = path.join(directory, "agent.yaml");
  await writeFile(config, `cameras:\n  - name: test\n    test_picture: true\nshell:\n  user: ${JSON.stringify(os.userInfo().username)}\n`);
  const start = (name: string): AgentProcess => new AgentProcess({ url: it.url, key, name, args: ["--config", config] });
  await using agents = new AsyncDisposableStack();
  for (const name of ["crane-1", "crane-2"]) agents.use(start(name));
  await t.test("real robots that enroll with the key appear automatically", () => joined(it));
  const robot_id = (await api.listRobots({ query: { fleet_id: fleet.id, q: "crane-1" } })).items[0]?.id ?? "";
  await t.test("pushes a dropped file, deploys it and shows the deployment until its end", async () => {
    await push(it, directory, "yard-1.0.0", await appBundle());
    await deploy(it, { tag: "yard-1.0.0", waves: false });
    await it.page.getByText("2 of 2 robots finished").or(it.page.getByText("Applied on 2 robots")).first().waitFor();
    await it.server.until("both run it", async () => (await deploymentOf(it)).status === "applied");
  });
  await t.test("a bad release is rolled back on the first robot and not deployed to any other", async () => {
    await push(it, directory, "yard-2.0.0", await appBundle(DIES));
    await deploy(it, { tag: "yard-2.0.0", waves: true });
    await it.page.getByRole("main").getByText("rolled back").first().waitFor();
    await it.server.until("it has ended", async () => (await deploymentOf(it)).finished_at !== null);
    const { status, counts } = await deploymentOf(it);
    assert.deepEqual([status, counts.rolled_back, counts.cancelled], ["rolled_back", 1, 1]);
  });
  await t.test("a shell runs commands on the robot", () => shell(it, robot_id));
  await t.test("shows successive frames of the robot's camera", () => camera(it, robot_id));
  await t.test("signs out a removed user within seconds", () => revoke(it));
});

async function enter({ page, server }: Dashboard): Promise<void> {
  await goTo(page, "/robots");
  await page.waitForURL("**/sign-in?next=*");
  await page.getByLabel("Token").fill("rf_user_nonsense");
  await button(page, "Sign in").click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Token").fill(await server.token({ role: "admin" }));
  await button(page, "Sign in").click();
  await page.waitForURL("**/robots");
  await page.locator("[data-row]").first().waitFor();
  await page.getByText(/^(1,000 robots|500 robots loaded\. Scroll to load more\.)$/).waitFor();
}

async function makeKey({ page }: Dashboard): Promise<string> {
  await visit(page, "/enrollment/new");
  await page.getByLabel("Site").selectOption({ label: "Harbour" });
  await page.getByLabel("Fleet").selectOption({ label: "Yard" });
  await button(page, "Create key").click();
  await page.getByText("Waiting for robots").waitFor();
  return (await page.locator("[data-secret]").textContent()) ?? "";
}

async function joined({ page }: Dashboard): Promise<void> {
  const list = page.getByRole("list", { name: "Enrolled robots" });
  for (const name of ["crane-1", "crane-2"]) await list.locator("li", { hasText: name }).getByText("online").waitFor({ timeout: 60_000 });
}

async function push({ page }: Dashboard, directory: string, tag: string, bytes: Buffer): Promise<void> {
  const file = path.join(directory, `${tag}.tar.gz`);
  await writeFile(file, bytes);
  await visit(page, "/releases");
  await drop(page, file);
  const dialog = page.getByRole("dialog", { name: "Push release" });
  await dialog.getByText("SHA-256").waitFor();
  assert.equal(await dialog.getByLabel("Tag").inputValue(), tag);
  assert.equal(await dialog.getByLabel("Kind", { exact: true }).inputValue(), "app_bundle");
  await button(dialog, "Push").click();
  await page.getByText("verified", { exact: true }).waitFor();
}

/** Fills in the form as a user does. */
async function deploy({ page }: Dashboard, { tag, waves }: { tag: string; waves: boolean }): Promise<void> {
  await visit(page, "/deployments/new");
  await page.getByRole("combobox", { name: "Release" }).fill(tag);
  await page.getByRole("option", { name: new RegExp(tag) }).click();
  await page.getByRole("combobox", { name: "Fleet" }).fill("Yard");
  await page.getByRole("option", { name: /Yard/ }).click();
  await page.getByText("Advanced settings").click();
  if (waves) {
    await button(page, "Add first wave").click();
    await page.getByLabel("Size", { exact: true }).selectOption("count");
    await page.getByLabel("Cumulative robots").fill("1");
  }
  await page.getByLabel("Verification time").fill(VERIFY);
  await page.getByRole("button", { name: `Deploy ${tag} to 2 robots` }).click();
  await page.waitForURL(/\/deployments\/dep_/);
}

async function deploymentOf({ page, server }: Dashboard) {
  return server.deployment(new URL(page.url()).pathname.split("/").at(-1) ?? "");
}

async function shell({ page, server }: Dashboard, robot_id: string): Promise<void> {
  await visit(page, `/robots/${robot_id}/shell`);
  await button(page, "Open shell").click();
  await server.until("a prompt", async () => /[$#]$/.test((await screen(page)).trimEnd()));
  await type(page, "echo $((6*7))-answers");
  await server.until("its answer", async () => /^42-answers/m.test(await screen(page)));
  await type(page, "exit");
  await page.getByText("exit code 0").waitFor();
}

async function camera({ page, server }: Dashboard, robot_id: string): Promise<void> {
  await visit(page, `/robots/${robot_id}/camera`);
  await page.locator("canvas").waitFor();
  let first = 0;
  await server.until("a picture", async () => (first = await picture(page)) !== 0);
  await server.until("another picture", async () => (await picture(page)) !== first);
}

async function revoke(it: Dashboard): Promise<void> {
  const { page } = it;
  await visit(page, "/users");
  await button(page, "Invite").click();
  await page.getByLabel("Email address").fill("ada@example.org");
  await page.getByLabel("Name", { exact: true }).fill("Ada Lovelace");
  await button(page.getByRole("dialog"), "Invite").click();
  await page.locator("[data-secret]").waitFor();
  const member = await it.as(undefined);
  await signIn(member, (await page.locator("[data-secret]").textContent()) ?? "");
  await button(page, "Done").click();
  await visit(member, "/robots");
  await page.getByRole("button", { name: "Actions for Ada Lovelace" }).click();
  await page.getByRole("menuitem", { name: "Remove…" }).click();
  await button(page, "Remove user").click();
  await member.waitForURL("**/sign-in**");
}
