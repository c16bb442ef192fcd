import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { groupMembers } from "../../runtime/processes.ts";
import { type RosMessage, UndecodedMessage } from "../adapter.ts";
import { adapterOptions, eventually } from "../testing/adapter-options.ts";
import { Documents, findRos2, readDocument, ROS2_DOCUMENT_CHARACTERS_MAX } from "./ros2-cli.ts";

const TIMEOUT_MS = 120_000;

/** Script that replaces the `ros2` command and prints output in its format. So these tests cover the parsing, not ROS 2. */
const STAND_IN = `#!/bin/bash
echo "$$ $*" >> "$LOG"
case "$1 $2" in
  "topic list") printf '/chatter [std_msgs/msg/String]\\n/odom [nav_msgs/msg/Odometry, other/msg/Type]\\nno topic\\n' ;;
  "node list") printf 'WARNING: noise\\n/talker\\n/listener\\n/talker\\n' ;;
  "topic echo") printf 'data: hello\\nstamp: 9007199254740993\\nvalues:\\n- 1\\n- .nan\\ntext: "--- no end"\\n---\\ndata: [broken\\n---\\n'; sleep 1000 & sleep 1000 ;;
esac
`;

async function standIn(t: TestContext, source = STAND_IN): Promise<{ environment: Record<string, string>; log: () => Promise<string> }> {
  const directory = await mkdtemp(join(tmpdir(), "rf-ros2-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  await writeFile(join(directory, "ros2"), source);
  await chmod(join(directory, "ros2"), 0o755);
  const log = join(directory, "log");
  return {
    environment: { PATH: `${directory}:/usr/bin:/bin`, LOG: log },
    log: async () => (existsSync(log) ? readFile(log, "utf8") : ""),
  };
}

test("parses the output of a fake `ros2` command", { timeout: TIMEOUT_MS }, async (t) => {
  const { environment, log } = await standIn(t);
  const adapter = await findRos2(adapterOptions({ environment, distro: "humble" }));
  assert.ok(adapter);
  t.after(() => adapter.close());
  assert.equal(adapter.distro, "humble");
  assert.deepEqual(await adapter.topics(), [
    { name: "/chatter", type: "std_msgs/msg/String" },
    { name: "/odom", type: "nav_msgs/msg/Odometry" },
  ]);
  assert.deepEqual(await adapter.nodes(), ["/talker", "/listener"]);
  const came: RosMessage[] = [];
  await adapter.subscribe("/chatter", (message) => came.push(message));
  await eventually(() => came.length === 2);
  assert.equal(came[0]!.type, "std_msgs/msg/String");
  assert.deepEqual(came[0]!.message, { data: "hello", stamp: 9_007_199_254_740_993n, values: [1, Number.NaN], text: "--- no end" });
  assert.ok(came[1]!.message instanceof UndecodedMessage);
  assert.match(await log(), /topic echo --full-length --no-daemon --spin-time 2 \/chatter std_msgs\/msg\/String\n/);
});

test("kills the process group of `ros2 topic echo` with its last listener and on close", { timeout: TIMEOUT_MS }, async (t) => {
  const { environment, log } = await standIn(t);
  const adapter = await findRos2(adapterOptions({ environment }));
  assert.ok(adapter);
  const groupOf = async (topic: string): Promise<number> =>
    Number(new RegExp(`^(\\d+) topic echo .*${topic} `, "m").exec(await log())?.[1]);
  const came: RosMessage[] = [];
  const end = await adapter.subscribe("/chatter", (message) => came.push(message));
  await adapter.subscribe("/odom", (message) => came.push(message));
  await eventually(() => came.length === 4);
  const [chatter, odom] = [await groupOf("/chatter"), await groupOf("/odom")];
  // The fake command starts its child processes after its first output.
  await eventually(() => groupMembers(chatter).length >= 2 && groupMembers(odom).length >= 2);
  end();
  await eventually(() => groupMembers(chatter), []);
  assert.ok(groupMembers(odom).length >= 2);
  await adapter.close();
  assert.deepEqual(groupMembers(odom), []);
  await adapter.gone;
});

test("finds no ROS 2 adapter if the `ros2` command is missing, fails or lists only /rosout", { timeout: TIMEOUT_MS }, async (t) => {
  assert.equal(await findRos2(adapterOptions({ environment: { PATH: "/nowhere" } })), undefined);
  const failing = await standIn(t, "#!/bin/bash\nexit 1\n");
  assert.equal(await findRos2(adapterOptions({ environment: failing.environment })), undefined);
  const alone = await standIn(t, "#!/bin/bash\n[ $1 = topic ] && echo '/rosout [rcl_interfaces/msg/Log]'\nexit 0\n");
  assert.equal(await findRos2(adapterOptions({ environment: alone.environment })), undefined);
});

test("splits `ros2 topic echo` output into documents and drops the text of an overlong document", () => {
  const took: (string | undefined)[] = [];
  const documents = new Documents((text) => took.push(text));
  const text = "data: kühl\n---\na: '---'\nb: |\n  x---\n---\n";
  for (const byte of Buffer.from(text)) documents.add(Buffer.of(byte));
  assert.deepEqual(took, ["data: kühl\n", "a: '---'\nb: |\n  x---\n"]);
  took.length = 0;
  documents.add(Buffer.alloc(ROS2_DOCUMENT_CHARACTERS_MAX + 10, "x"));
  documents.add(Buffer.from("\n---\nnext: 1\n---\n"));
  documents.add(Buffer.from(`${"x".repeat(ROS2_DOCUMENT_CHARACTERS_MAX)}\n---\n`));
  assert.deepEqual(took, [undefined, "next: 1\n", undefined]);
  assert.deepEqual(readDocument(took[1]!), { next: 1 });
});

test("returns an overlong `ros2 topic echo` message undecoded with a reason", { timeout: TIMEOUT_MS }, async (t) => {
  const print = "printf 'data: '; head -c 200000 /dev/zero | tr '\\0' x; printf '\\n---\\n'; sleep 1000";
  const { environment } = await standIn(
    t,
    STAND_IN.replace(/(?<="topic echo"\) ).*(?= ;;)/, () => print),
  );
  const adapter = await findRos2(adapterOptions({ environment }));
  assert.ok(adapter);
  t.after(() => adapter.close());
  const came: RosMessage[] = [];
  await adapter.subscribe("/chatter", (message) => came.push(message));
  await eventually(() => came.length === 1);
  const { message } = came[0]!;
  assert.ok(message instanceof UndecodedMessage);
  assert.equal(message.reason, "too long for the ros2 command");
});
