import { isDeepStrictEqual } from "node:util";
import type { JsonValue } from "@roamfleet/protocol";
import type { RobotConfig, RobotConfigDiff } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { entryBound, openFile, openOrgSecrets, type OrgSecrets, type Sealing } from "./data-keys.ts";
import { effectiveConfig, effectiveEntries, type EffectiveValue, REGISTRIES_NAMESPACE } from "./effective.ts";
import { type DeployedRow, listDeployed, listDeployedFiles } from "./store.ts";

type ConfigState = RobotConfig["config_state"];

/** Compares the file that the robot reports with the file last deployed to it. A manual change of the file on the robot counts as drift. */
function stateOf({ version, sha256, reported_version, reported_sha256, target_id }: Omit<DeployedRow, "namespace">): ConfigState {
  if (reported_sha256 === sha256) return "in_sync";
  return target_id === null && reported_version === version ? "drifted" : "pending";
}

/** Returns the worst state of a robot's namespaces, or `unknown` if nothing was ever deployed. */
const worstOf = (states: readonly ConfigState[]): ConfigState =>
  (["drifted", "pending", "in_sync"] as const).find((state) => states.includes(state)) ?? "unknown";

/** Returns the robot's effective values, where each is set, and the state of its deployed files. */
export async function readRobotConfig(db: Db, org_id: string, robot_id: string): Promise<RobotConfig> {
  const effective = await effectiveConfig(db, org_id, robot_id, null);
  const deployed = await listDeployed(db, org_id, robot_id);
  const namespaces = deployed.map((file) => ({
    namespace: file.namespace,
    deployed_version: file.version,
    deployed_sha256: file.sha256,
    reported_sha256: file.reported_sha256,
    state: stateOf(file),
  }));
  return {
    robot_id,
    config_state: worstOf(namespaces.map(({ state }) => state)),
    effective,
    namespaces: [...namespaces, ...neverDeployed(effective, deployed)],
  };
}

function neverDeployed(effective: readonly EffectiveValue[], deployed: readonly DeployedRow[]): RobotConfig["namespaces"] {
  // Registry logins are never deployed as a file, so their namespace has no state.
  const known = new Set([REGISTRIES_NAMESPACE, ...deployed.map(({ namespace }) => namespace)]);
  const others = new Set(effective.map(({ namespace }) => namespace).filter((namespace) => !known.has(namespace)));
  return Array.from(others, (namespace) => ({
    namespace,
    deployed_version: null,
    deployed_sha256: null,
    reported_sha256: null,
    state: "unknown" as const,
  }));
}

type Change = RobotConfigDiff["changes"][number];

interface Value {
  value: JsonValue;
  secret: boolean;
}

/** Returns what the next config deployment would change in the robot's files. For a secret, returns only that its value changes. */
export async function readRobotConfigDiff(
  db: Db,
  plane: Pick<Sealing, "secrets">,
  org_id: string,
  robot_id: string,
  namespace: string | null,
): Promise<RobotConfigDiff> {
  const deployed = new Map<string, Map<string, Value>>();
  for (const file of await listDeployedFiles(db, org_id, robot_id)) {
    if (namespace !== null && file.namespace !== namespace) continue;
    const { content, secret_keys } = await openFile(db, plane, org_id, file);
    deployed.set(
      file.namespace,
      new Map(
        Object.entries(JSON.parse(content) as Record<string, JsonValue>).map(([key, value]) => [
          key,
          { value, secret: secret_keys.includes(key) },
        ]),
      ),
    );
  }
  const wanted = await readWanted(db, plane, org_id, robot_id, namespace);
  const changes: Change[] = [];
  for (const of of [...new Set([...deployed.keys(), ...wanted.keys()])].toSorted()) {
    const [before, after] = [deployed.get(of), wanted.get(of)];
    for (const key of [...new Set([...(before?.keys() ?? []), ...(after?.keys() ?? [])])].toSorted()) {
      const change = changeOf(before?.get(key), after?.get(key));
      if (change !== undefined) changes.push({ namespace: of, key, ...change });
    }
  }
  return { robot_id, changes };
}

async function readWanted(
  db: Db,
  plane: Pick<Sealing, "secrets">,
  org_id: string,
  robot_id: string,
  namespace: string | null,
): Promise<Map<string, Map<string, Value>>> {
  const wanted = new Map<string, Map<string, Value>>();
  let secrets: OrgSecrets | undefined;
  for (const { id, version, namespace: of, key, value, sealed } of await effectiveEntries(db, org_id, robot_id, namespace)) {
    if (of === REGISTRIES_NAMESPACE) continue;
    let keys = wanted.get(of);
    if (keys === undefined) wanted.set(of, (keys = new Map<string, Value>()));
    if (sealed === null) keys.set(key, { value, secret: false });
    else {
      secrets ??= await openOrgSecrets(db, plane, org_id);
      keys.set(key, { value: JSON.parse(secrets.open(sealed, entryBound(id, version))) as JsonValue, secret: true });
    }
  }
  return wanted;
}

function changeOf(before: Value | undefined, after: Value | undefined): Omit<Change, "namespace" | "key"> | undefined {
  // If only one of the two values is secret, a comparison would reveal whether the secret equals the public value.
  const comparable = before?.secret === after?.secret;
  if (comparable && isDeepStrictEqual(before?.value, after?.value)) return undefined;
  const secret = before?.secret === true || after?.secret === true;
  return {
    change: before === undefined ? "added" : after === undefined ? "removed" : "changed",
    deployed: secret ? null : (before?.value ?? null),
    effective: secret ? null : (after?.value ?? null),
    secret,
  };
}
