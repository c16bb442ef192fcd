import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { SimulatedClock } from "@roamfleet/clock";
import { SMTPServer } from "smtp-server";
import { testMessage } from "./message.ts";
import { sendMail, SMTP_TIMEOUT_MS } from "./smtp.ts";

const TIMEOUT = { timeout: 60_000 };
const NOW = new Date("2030-01-01T00:00:00Z");
const start = () => new SimulatedClock({ at: NOW.toISOString() });
const MAIL = { id: "dlv_1", recipients: ["a@example.org", "b@example.org"], message: testMessage(NOW) };
const { signal } = new AbortController();

test("a mail server gets one mail to all recipients, with a stable id and one subject line", TIMEOUT, async () => {
  const got: { recipients: string[]; text: string }[] = [];
  const server = new SMTPServer({
    authMethods: ["PLAIN"],
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _, done) =>
      username === "rf" && password === "p@ss" ? done(null, { user: username }) : done(new Error("wrong password")),
    onData: (stream, { envelope }, done) => {
      let text = "";
      stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
      stream.on("end", () => {
        got.push({ recipients: envelope.rcptTo.map(({ address }) => address), text });
        done();
      });
    },
  });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => new Promise<void>((resolve) => server.close(resolve)));
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  const { port } = server.server.address() as AddressInfo;
  const send = (login: string, title: string) => {
    const message = { ...MAIL.message, type: "incident.opened" as const, data: { ...MAIL.message.data, title } };
    const smtp = { url: `smtp://${login}@127.0.0.1:${port}`, from: "alerts@example.org" };
    return sendMail({ clock: start(), signal, smtp }, { ...MAIL, message });
  };
  assert.deepEqual(await send("rf:p%40ss", "Disk\r\nBcc: c@example.org"), { delivered: true, detail: "accepted by the mail server" });
  assert.deepEqual(await send("rf:wrong", "Disk"), { delivered: false, detail: "the mail server refused or failed: 535" });
  const [mail, ...others] = got;
  assert.deepEqual(others, []);
  assert.deepEqual(mail?.recipients, MAIL.recipients);
  const [head = ""] = mail?.text.split("\r\n\r\n") ?? [];
  assert.match(head, /^From: alerts@example\.org$/m);
  assert.match(head, /^Message-ID: <dlv_1@roamfleet>$/m);
  assert.match(head, /^Subject: .*Disk/m);
  assert.doesNotMatch(head, /^Bcc:/m);
});

test("a mail server that accepts connections and never responds is given up", TIMEOUT, async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const clock = start();
  const connected = once(server, "connection");
  using stack = new DisposableStack();
  stack.defer(() => server.close());
  const attempt = sendMail({ clock, signal, smtp: { url: `smtp://127.0.0.1:${port}`, from: "alerts@example.org" } }, MAIL);
  const [socket] = (await connected) as [Socket];
  await clock.advance({ milliseconds: SMTP_TIMEOUT_MS });
  assert.deepEqual(await attempt, { delivered: false, detail: "the mail server did not respond in time" });
  socket.destroy();
});
