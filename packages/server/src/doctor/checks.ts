import { adminTokenCheck, proxiesCheck } from "./checks/access.ts";
import { artifactsCheck } from "./checks/artifacts.ts";
import { busCheck } from "./checks/bus.ts";
import { dataDirectoryCheck } from "./checks/data-directory.ts";
import { databaseCheck, migrationsCheck } from "./checks/database.ts";
import { embeddedCheck } from "./checks/embedded.ts";
import { hostNamesCheck } from "./checks/host-names.ts";
import { listenCheck } from "./checks/listen.ts";
import { clockCheck, memoryCheck, nodeCheck, openFilesCheck } from "./checks/machine.ts";
import { nodesCheck } from "./checks/nodes.ts";
import { secretsKeyCheck } from "./checks/secrets-key.ts";
import { settingsCheck } from "./checks/settings.ts";
import { tlsCheck } from "./checks/tls.ts";
import type { Check } from "./context.ts";

/** In the order of the report. */
export const CHECKS: readonly Check[] = [
  settingsCheck,
  nodeCheck,
  clockCheck,
  openFilesCheck,
  memoryCheck,
  dataDirectoryCheck,
  listenCheck,
  tlsCheck,
  proxiesCheck,
  hostNamesCheck,
  adminTokenCheck,
  embeddedCheck,
  databaseCheck,
  migrationsCheck,
  secretsKeyCheck,
  artifactsCheck,
  busCheck,
  nodesCheck,
];
