/** What a workload inherits of the agent's environment; docs/guide/deploying.md lists it. */
const INHERITED = /^(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ)$/;

/** The part of the environment of the agent's children that workloads get: no credentials of a proxy, a cloud or the service manager. */
export const inheritedByWorkloads = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));
