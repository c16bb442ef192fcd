/**
 * Exports the parts of the agent that simulated robots reuse. Such robots replace the runtime that
 * installs and runs releases.
 */
export { parseLabels, parseServer, UsageError } from "./config.ts";
export { type ConfigFiles, Configs } from "./configs/configs.ts";
export type { Fetcher, Logger, Reporter } from "./contract.ts";
export type { AppState } from "./deployments/state.ts";
export { AppWorker } from "./deployments/worker.ts";
export { lockState } from "./disk/lock.ts";
export { type HttpClient, httpClient, signedFetcher } from "./http/request.ts";
export { establishTrust } from "./http/trust.ts";
export { askOnce, EnrollmentRefused } from "./identity/enroll.ts";
export { readPlatform } from "./identity/identity.ts";
export type { RobotKey } from "./identity/robot-key.ts";
export { parseObject } from "./json.ts";
export { backoffMs } from "./link/backoff.ts";
export type { OpenSocket, SocketAddress } from "./link/connect.ts";
export { Link, type LinkOptions } from "./link/link.ts";
export { LogShipper } from "./logs/shipper.ts";
export { agentLog } from "./logs/agent-log.ts";
export { encodeRecord } from "./logs/record.ts";
export type { ChunkQueue } from "./metrics/chunk-sender.ts";
export { SampleCollector, type SampleCollectorOptions } from "./metrics/sample-collector.ts";
export { RobotTime } from "./robot-time.ts";
export { type Artifact, fetchWhole, type FetchOptions, type PartFile } from "./runtime/download.ts";
export type { Executor, StageIo } from "./runtime/executor.ts";
export type { Verdict } from "./runtime/health-check.ts";
export { failureOf, throwIfAborted } from "./runtime/failure.ts";
export { TIMING } from "./runtime/limits.ts";
