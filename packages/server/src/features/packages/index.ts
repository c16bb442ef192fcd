import { routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { Fault, notFound } from "../../kernel/fault.ts";
import type { Http } from "../../kernel/http.ts";
import { Answer, serve, serveFiles } from "../../kernel/serve.ts";
import { answerFile } from "./answer-file.ts";
import { type HostedFiles, PackageDirectory } from "./directory.ts";
import { checkedOrigin, installScript, sha256Of } from "./install-script.ts";

const NONE_HOSTED =
  "this server hosts no packages: build them with `npm run package`, then start the server with --packages dist/packages (ROAMFLEET_PACKAGES)";
const NONE = { version: null, commit: null, built_at: null, architectures: [], install: null };

/**
 * Serves the packages for robots: the install script, the apt repository, the files, and the data from which clients show the install
 * command.
 */
export function packageRoutes(http: Http, plane: Plane): void {
  const { packages } = plane.settings;
  const directory = packages === undefined ? undefined : new PackageDirectory(packages, plane.log);
  // Logs at the start whether the directory is valid.
  void directory?.read();
  const hosted = async (): Promise<HostedFiles> => {
    const read = await directory?.read();
    if (read === undefined) throw new Fault("not_found", NONE_HOSTED);
    return read;
  };

  serve(http, plane, routes.getInstallScript, async (_, { site }) => {
    const script = installScript(await hosted(), checkedOrigin(plane, site()));
    return new Answer<never>(200, script, { "content-type": "text/x-shellscript; charset=utf-8" });
  });

  serve(http, plane, routes.getHostedPackages, async (_, { site }) => {
    const read = await directory?.read();
    if (read === undefined) return { data: NONE };
    const { version, commit, built_at, architectures } = read.manifest;
    const server = checkedOrigin(plane, site());
    const install = {
      server,
      script_sha256: sha256Of(installScript(read, server)),
      ca_fingerprint: plane.tls?.authority?.fingerprint ?? null,
    };
    return { data: { version, commit, built_at, architectures, install } };
  });

  for (const prefix of ["/packages", "/apt"])
    serveFiles(http, prefix, async (url, headers) => {
      const file = (await hosted()).files.get(url);
      if (file === undefined) throw notFound("path", url);
      return await answerFile(url, file, headers);
    });
}

export { listPackages } from "./directory.ts";
