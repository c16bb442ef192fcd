import assert from "node:assert/strict";
import { test } from "node:test";
import { commonProtocol, LINK_FEATURES, unpackMessage } from "@roamfleet/protocol/link";
import { parseMessage } from "./inbound.ts";

/**
 * What agents of earlier versions send. A server serves agents of two minor versions before its own, so an entry may be removed only when the
 * server's version is three minor versions above it, and must not be changed before. Add an entry when the agent's messages change.
 */
const AGENTS: Record<string, { protocols: number[]; features: string[]; messages: string[]; packed: [base64: string, text: string][] }> = {
  "0.1": {
    protocols: [2],
    features: ["credit", "channels", "ros_adapters", "packed", "health_changes"],
    messages: [
      `{"type":"hello","protocols":[2],"robot_id":"rob_1","signature":"c2ln","channel":"dGxz","boot_id":"b","run_id":"r","outbox_id":"o","agent_version":"0.1.0","platform":{"os":"Debian GNU/Linux 13","arch":"x64","hostname":"cart-7","kernel":"6.12"},"kinds":["app_bundle","file","agent"],"streams":["shell","files"],"features":["credit","channels","ros_adapters","packed","health_changes"],"generation":7}`,
      `{"type":"report","seq":1,"at":"2026-11-24T00:00:00.000Z","body":{"kind":"observed","generation":7}}`,
      `{"type":"report","seq":2,"at":"2026-11-24T00:00:00.000Z","body":{"kind":"target","deployment_id":"dep_1","target_id":"tgt_1","attempt":1,"status":"rolled_back","reason":"crash_loop","message":"agent 0.2.0 ended with exit status 3","changed":true}}`,
      `{"type":"report","seq":3,"at":"2026-11-24T00:00:00.000Z","body":{"kind":"app","app":"main","release_id":"rel_1","previous_release_id":null,"status":"running"}}`,
      `{"type":"report","seq":4,"at":"2026-11-24T00:00:00.000Z","body":{"kind":"config","namespace":"default","version":3,"sha256":"00"}}`,
      `{"type":"progress","target_id":"tgt_1","attempt":1,"bytes_done":1,"bytes_total":2,"waiting_for":"robot"}`,
      `{"type":"health","ros_unchanged":true,"snapshot":{"at":"2026-11-24T00:00:00.000Z","boot_id":"b","uptime_seconds":1.5,"cpu":{"percent":1,"load_1m":0.1,"cores":4,"temperature_celsius":null},"memory":{"used_bytes":1,"total_bytes":2},"disks":[{"mount":"/","used_bytes":1,"total_bytes":2}],"network":[{"name":"eth0","rx_bytes":1,"tx_bytes":1,"addresses":["192.168.0.7"]}],"battery":{"percent":50,"charging":false},"workloads":[{"app":"main","kind":"app_bundle","status":"running","restarts":0,"release_tag":"1.0"}],"ros":null,"checks":[{"name":"disk:/","status":"ok","message":"7% used"}],"metrics":{"agent_rss_bytes":1},"status":"ok"}}`,
      `{"type":"logs","records":[{"seq":1,"at":"2026-11-24T00:00:00.000Z","level":"info","source":"main","message":"ready","fields":{"pid":7}}]}`,
    ],
    packed: [
      [
        "I80yQ0NdIxOclqF7EMMyUDTlZKYkFikklijop6SW6ZeUVIYGOxkoFKfmpRQr5OUrgIrkYmsFaEGWmZeukFlSrJBSlFmWWqSQmadgqlCsowBK17kFJQpGCvlpCoYGmEFoYm5oWFsbWwsA",
        `{"type":"logs","records":[{"seq":1,"at":"2026-11-24T00:00:00.000Z","level":"warn","source":"main","message":"the lidar at /dev/ttyUSB0 sends no scans; restarting its driver in 5 s, attempt 2 of 10","fields":{"pid":4711}}]}`,
      ],
    ],
  },
};

for (const [version, { protocols, features, messages, packed }] of Object.entries(AGENTS)) {
  test(`the server supports the link protocol and features of an agent of version ${version}`, () => {
    assert.ok(commonProtocol(protocols) !== undefined, "no version of the link in common");
    assert.deepEqual(
      features.filter((feature) => !(LINK_FEATURES as readonly string[]).includes(feature)),
      [],
    );
  });

  test(`the server accepts every kind of message of an agent of version ${version}`, () => {
    for (const text of messages) assert.deepEqual(parseMessage(Buffer.from(text)), JSON.parse(text));
    for (const [base64, text] of packed) assert.equal(unpackMessage(Buffer.from(base64, "base64"), 64 * 1024).toString(), text);
  });
}
