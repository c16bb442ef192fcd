import assert from "node:assert/strict";
import { test } from "node:test";
import { readSettings, SettingsError } from "./config.ts";

test("a failpoint in the environment is obeyed with its flag only, and a flag without its variables is refused", () => {
  const armed = { ROBOFLEET_FAILPOINT: "features/sites/store.insertSite:begin", ROBOFLEET_FAILPOINT_LOG: "/log" };
  const seen = (flags: Parameters<typeof readSettings>[0], env: NodeJS.ProcessEnv): unknown => {
    const { failpoint, failpoint_ignored } = readSettings(flags, env);
    return { spec: failpoint?.spec, ignored: failpoint_ignored };
  };
  assert.deepEqual(seen({}, {}), { spec: undefined, ignored: false });
  assert.deepEqual(seen({}, armed), { spec: undefined, ignored: true });
  assert.deepEqual(seen({ crashAtFailpoint: true }, armed), { spec: armed.ROBOFLEET_FAILPOINT, ignored: false });
  for (const missing of [{}, { ...armed, ROBOFLEET_FAILPOINT_LOG: "" }, { ...armed, ROBOFLEET_FAILPOINT: "" }])
    assert.throws(() => readSettings({ crashAtFailpoint: true }, missing), SettingsError);
});
