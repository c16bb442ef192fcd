import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { parseRobotConfig, readRobotConfig } from "./read-robot-config.ts";
import { ROBOT_CONFIG_DEFAULT } from "./robot-config.ts";

test("an empty config file yields the defaults and a complete one sets every value", async () => {
  assert.deepEqual(await parseRobotConfig(""), ROBOT_CONFIG_DEFAULT);
  assert.deepEqual(await parseRobotConfig("# nothing yet\n"), ROBOT_CONFIG_DEFAULT);
  assert.deepEqual((await parseRobotConfig("files: { directories: [] }")).files.directories, []);
  const config = await parseRobotConfig(`
streams: { shell: off, files: false }
shell: { user: robot, command: [bash, -l] }
cameras:
  - { name: front, ffmpeg: [-f, v4l2, -i, /dev/video0] }
  - { name: dock, mjpeg: "http://127.0.0.1:8080/stream" }
  - { name: arm, ros: /arm/image/compressed }
  - { name: demo, test_picture: true }
ros: { adapters: [foxglove, ros1], domain_id: 7, prefixes: [/ws/install], foxglove_url: "ws://127.0.0.1:8765" }
logs:
  journald: [nav.service]
  files: [/var/log/robot/*.log]
  rosout: on
  filters:
    - { source: "/camera/*", level: warn, records_per_second: 5 }
    - { source: "*", level: info }
network: { download_kib_per_second: 200, upload_kib_per_second: 16 }
forward: { allow: ["127.0.0.1:8080", "*:*", "[::1]:22"] }
files: { directories: [/var/log] }
containers: { devices: on, host_network: off }
health: { interval_seconds: 60 }
metrics:
  collect: off
  interval_seconds: 5
  flush_seconds: 60
  scrape:
    - { url: "http://127.0.0.1:9100", interval_seconds: 30, labels: { part: arm } }
    - { url: "http://[::1]/m?x=1" }
    - { url: "unix:/run/nav.sock" }
    - { url: "unix:/run/nav.sock:/m" }
    - { url: "http://10.0.0.7:80/metrics", remote: on }
  ros: [{ topic: /odom, field: "pose.covariance[0]", name: odom_covariance }]
os_image:
  status: { command: [/usr/lib/robot/image, status] }
  install: { command: [/usr/lib/robot/image, install], timeout_seconds: 600 }
  activate: { command: [/usr/lib/robot/image, activate] }
  confirm: { command: [/usr/lib/robot/image, confirm] }
  connect_seconds: 90
signed: { allow: [shell, forward] }
`);
  assert.deepEqual(config, {
    streams: { shell: false, camera: true, topics: true, forward: true, files: false },
    shell: { user: "robot", command: ["bash", "-l"] },
    cameras: [
      { name: "front", kind: "ffmpeg", input: ["-f", "v4l2", "-i", "/dev/video0"] },
      { name: "dock", kind: "mjpeg", url: "http://127.0.0.1:8080/stream" },
      { name: "arm", kind: "ros", topic: "/arm/image/compressed" },
      { name: "demo", kind: "test_picture" },
    ],
    ros: { adapters: ["foxglove", "ros1"], domain_id: 7, prefixes: ["/ws/install"], foxglove_url: "ws://127.0.0.1:8765" },
    logs: {
      journald: ["nav.service"],
      files: ["/var/log/robot/*.log"],
      rosout: true,
      filters: [
        { source: "/camera/*", level: "warn", records_per_second: 5 },
        { source: "*", level: "info" },
      ],
    },
    network: { download_bytes_per_second: 204_800, upload_bytes_per_second: 16_384 },
    forward: { allow: ["127.0.0.1:8080", "*:*", "[::1]:22"] },
    files: { directories: ["/var/log"] },
    containers: { devices: true, host_network: false },
    health: { interval_seconds: 60 },
    metrics: {
      is_on: false,
      interval_seconds: 5,
      flush_seconds: 60,
      scrape: [
        {
          address: { instance: "127.0.0.1:9100", host: "127.0.0.1", port: 9_100, path: "/metrics" },
          labels: { part: "arm" },
          interval_seconds: 30,
        },
        { address: { instance: "[::1]", host: "::1", port: 80, path: "/m?x=1" }, labels: {} },
        { address: { instance: "/run/nav.sock", socket: "/run/nav.sock", path: "/metrics" }, labels: {} },
        { address: { instance: "/run/nav.sock", socket: "/run/nav.sock", path: "/m" }, labels: {} },
        { address: { instance: "10.0.0.7", host: "10.0.0.7", port: 80, path: "/metrics" }, labels: {} },
      ],
      ros: [{ topic: "/odom", field: "pose.covariance[0]", name: "odom_covariance" }],
    },
    os_image: {
      hook: {
        status: { command: ["/usr/lib/robot/image", "status"], timeout_ms: 60_000 },
        install: { command: ["/usr/lib/robot/image", "install"], timeout_ms: 600_000 },
        activate: { command: ["/usr/lib/robot/image", "activate"], timeout_ms: 60_000 },
        confirm: { command: ["/usr/lib/robot/image", "confirm"], timeout_ms: 60_000 },
        reboot: { command: ["systemctl", "reboot"], timeout_ms: 60_000 },
      },
      connect_ms: 90_000,
    },
    signed: { allow: ["shell", "forward"] },
  });
});

test("an error in the robot's config file names the invalid key", async () => {
  for (const [text, message] of [
    ["streams: { shell: maybe }", /^streams\.shell must be on or off, not "maybe"$/],
    ["streams: { shel: off }", /^streams\.shel is not a known setting$/],
    ["stream: { shell: off }", /^stream is not a known setting$/],
    ["streams:\n  # shell: off\n", /^streams is empty: leave it out, or write \{\} for none$/],
    ["files:\n  directories:\n  # - /var/log\n", /^files\.directories is empty: write \[\] for none$/],
    ["forward:\n  allow:\n", /^forward\.allow is empty: write \[\] for none$/],
    ["cameras:\n", /^cameras is empty: write \[\] for none$/],
    ["cameras: [null]", /^cameras\[0\] is empty/],
    ["logs:\n  journald:\n", /^logs\.journald is empty/],
    ["streams: { shell: }", /^streams\.shell is empty/],
    ["- a", /^the file must be a mapping/],
    ["shell: { command: [] }", /^shell\.command must name a program$/],
    ["cameras: [{ ffmpeg: [a] }]", /^cameras\[0\]\.name is missing$/],
    ["cameras: [{ name: a, mjpeg: 'ftp://x' }]", /^cameras\[0\]\.mjpeg must be an address that begins with http:/],
    ["cameras: [{ name: a, ros: /x, test_picture: on }]", /set exactly one of ffmpeg, mjpeg, ros and test_picture/],
    ["cameras: [{ name: a, ros: /x }, { name: a, ros: /y }]", /the name "a" is given twice/],
    ["ros: { adapters: [dds, corba] }", /corba is not one of dds/],
    ["ros: { prefixes: [ws] }", /^ros\.prefixes: "ws" is not absolute$/],
    ["ros: { domain_id: 300 }", /must be a whole number from 0 to 232, not 300/],
    ["logs: { journald: sometimes }", /^logs\.journald must be on or off, not "sometimes"$/],
    ["logs: { filters: [{ level: warn }] }", /^logs\.filters\[0\]\.source is missing: write "\*" for all sources$/],
    ["logs: { filters: [{ source: nav }] }", /^logs\.filters\[0\]\.source nav: set level, records_per_second or both$/],
    [
      "logs: { filters: [{ source: nav, level: loud }] }",
      /^logs\.filters\[0\]\.level: loud is not one of trace, debug, info, warn, error, fatal$/,
    ],
    ["logs: { filters: [{ source: nav, records_per_second: 0 }] }", /must be a whole number from 1 to 1000, not 0/],
    ["network: { upload_kib_per_second: 4 }", /^network\.upload_kib_per_second must be a whole number from 16 to 1048576, not 4$/],
    ["forward: { allow: [localhost] }", /"localhost" is not host:port/],
    ["files: { directories: [tmp] }", /"tmp" is not absolute/],
    ["os_image: { status: { command: [a] } }", /^os_image\.install is missing: a hook needs status, install, activate, confirm$/],
    ["os_image: { status: { command: [] } }", /^os_image\.status\.command must name a program$/],
    ["os_image: { status: [a] }", /^os_image\.status must be a mapping/],
    ["signed: { allow: [topics] }", /^signed\.allow: topics is not one of shell, forward, files$/],
    ["signed: { allow: [files] }", /^signed\.allow: shell and files need shell\.user/],
    ["forward: {}\nsigned: { allow: [forward] }", /^signed\.allow: forward needs forward\.allow/],
    ["metrics: { scrape: [{}] }", /^metrics\.scrape\[0\]\.url is missing$/],
    ["metrics: { scrape: [{ url: 'https://127.0.0.1' }] }", /^metrics\.scrape\[0\]\.url must be http:/],
    ["metrics: { scrape: [{ url: 'http://u:p@127.0.0.1' }] }", /without a user/],
    ["metrics: { scrape: [{ url: 'unix:run/a.sock' }] }", /unix:\/SOCKET/],
    ["metrics: { scrape: [{ url: 'http://10.0.0.7:9100' }] }", /^metrics\.scrape\[0\]\.url: 10\.0\.0\.7 is not this robot/],
    ["metrics: { scrape: [{ url: 'http://127.0.0.1.example.com' }] }", /is not this robot/],
    ["metrics: { scrape: [{ url: 'http://127.0.0.1', interval_seconds: 0 }] }", /must be a whole number from 1 to 300/],
    ["metrics: { scrape: [{ url: 'http://127.0.0.1', labels: { a-b: x } }] }", /"a-b" is not a name of a label/],
    ["metrics: { scrape: [{ url: 'http://127.0.0.1', labels: { a: 1 } }] }", /labels\.a must be a string/],
    [`metrics: { scrape: [${"{ url: 'http://127.0.0.1' },".repeat(17)}] }`, /^metrics\.scrape must have at most 16 items, not 17$/],
    ["metrics: { ros: [{ topic: odom, field: x, name: x }] }", /^metrics\.ros\[0\]\.topic must be a topic such as/],
    ["metrics: { ros: [{ topic: /odom, field: 'x..y', name: x }] }", /^metrics\.ros\[0\]\.field must be the path/],
    ["metrics: { ros: [{ topic: /odom, field: x, name: x.y }] }", /^metrics\.ros\[0\]\.name must be a name/],
    ["metrics: { ros: [{ topic: /odom, field: x }] }", /^metrics\.ros\[0\]\.name is missing$/],
    ["a: [", /./],
  ] as const)
    await assert.rejects(parseRobotConfig(text), { name: "Error", message }, text);
});

test("reading a config file fails if it is missing or has an unknown key", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-agent-config-"));
  t.after(() => rm(directory, { recursive: true }));
  const file = join(directory, "agent.yaml");
  await assert.rejects(readRobotConfig(file), /cannot be read: ENOENT/);
  await writeFile(file, "streams: { shell: off }");
  assert.equal((await readRobotConfig(file)).streams.shell, false);
  await writeFile(file, "oops: 1");
  await assert.rejects(readRobotConfig(file), { message: `${file}: oops is not a known setting` });
});
