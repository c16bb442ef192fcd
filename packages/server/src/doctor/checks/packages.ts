import { listPackages } from "../../features/packages/index.ts";
import { type Check, ok, warning } from "../finding.ts";

export const packagesCheck: Check = {
  name: "packages",
  async check({ settings: { packages } }) {
    if (packages === undefined) return [ok("none: robots cannot install the agent from this server")];
    try {
      const { manifest } = await listPackages(packages);
      return [ok(`version ${manifest.version} for ${manifest.architectures.join(", ")}`)];
    } catch (error) {
      return [warning(`${packages}: ${(error as Error).message}`, "create the directory with `npm run package`, or unset --packages")];
    }
  },
};
