import type { ConfigDeployment, Deployment } from "@roamfleet/protocol/routes";
import { releaseName } from "../robots/robot-text.ts";

/** Whether this is the ID of a config deployment. Otherwise, the deployment installs a release. */
export const isConfigDeployment = (id: string): boolean => id.startsWith("cdep_");

/** What the robots of a deployment receive, in texts. */
export const whatOf = (id: string): string => (isConfigDeployment(id) ? "config" : "release");

/** Returns the page of a deployment of a release or of configs. */
export const deploymentPage = (id: string) =>
  isConfigDeployment(id)
    ? ({ to: "/config-deployments/$id", params: { id } } as const)
    : ({ to: "/deployments/$id", params: { id } } as const);

/** The name of a config deployment in titles and lists. */
export const configName = ({ namespace }: { namespace: string | null }): string =>
  namespace === null ? "Config (all namespaces)" : `Config ${namespace}`;

/** The name of what a deployment installs. */
export const deploymentName = (deployment: Deployment | ConfigDeployment): string =>
  "release" in deployment ? releaseName(deployment.release) : configName(deployment);
