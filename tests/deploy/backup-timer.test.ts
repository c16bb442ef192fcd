import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { root } from "../../bin/launch.mjs";

const NAMES = ["roamfleet-backup.service", "roamfleet-backup.timer"];
const is_installed = spawnSync("systemd-analyze", ["--version"]).status === 0;

test(
  "systemd accepts the units of the backup service and its timer",
  { timeout: 120_000, skip: is_installed ? false : "systemd-analyze is not installed" },
  (t) => {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-timer-"));
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    const verify = (change: (unit: string) => string): string => {
      const files = NAMES.map((name) => {
        const unit = readFileSync(path.join(root, "deploy/systemd", name), "utf8").replaceAll("/opt/roamfleet", root);
        writeFileSync(path.join(directory, name), change(unit));
        return path.join(directory, name);
      });
      const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", ...files], { encoding: "utf8", timeout: 60_000 });
      return `${stdout}${stderr}`
        .split("\n")
        .filter((line) => line.includes("roamfleet-backup"))
        .join("\n");
    };
    assert.notEqual(
      verify((unit) => unit.replace("OnCalendar=", "OnCalender=")),
      "",
    );
    assert.notEqual(
      verify((unit) => unit.replace("Nice=10", "Nicely=10")),
      "",
    );
    assert.equal(
      verify((unit) => unit),
      "",
    );
  },
);
