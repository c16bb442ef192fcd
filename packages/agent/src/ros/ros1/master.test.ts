import assert from "node:assert/strict";
import { test } from "node:test";
import { Deserializer, serializeMethodResponse, XmlRpcFault } from "@foxglove/xmlrpc";
import { callText, readAnswer } from "./master.ts";

const answer = (value: string): string =>
  `<?xml version='1.0'?>\n<methodResponse>\n<params>\n<param>\n${value}\n</param>\n</params>\n</methodResponse>\n`;

test("parses XML-RPC responses of Python with and without value types", () => {
  const value = `<value><array><data>
<value><int>1</int></value>
<value><string>current &lt;topics&gt; &amp;amp; &#252;&#x41;</string></value>
<value><array><data>
<value><array><data>
<value><string>/chatter</string></value>
<value>plain</value>
</data></array></value>
<value><array><data>
</data></array></value>
<value><string></string></value><value><boolean>1</boolean></value><value><double>-1.5</double></value><value></value>
</data></array></value>
</data></array></value>`;
  assert.deepEqual(readAnswer(answer(value)), [1, "current <topics> &amp; üA", [["/chatter", "plain"], [], "", true, -1.5, ""]]);
});

test("exchanges XML-RPC messages with @foxglove/xmlrpc in both directions", async () => {
  const value = [1, 'a "c"', [["/topic", ["/node"]], [], [1.5, true]]];
  assert.deepEqual(readAnswer(serializeMethodResponse(value)), value);
  assert.deepEqual(await new Deserializer().deserializeMethodCall(callText("getParam", ["/me", "a <&> b"])), [
    "getParam",
    ["/me", "a <&> b"],
  ]);
});

test("rejects an XML-RPC response that is a fault, HTML, truncated or too deeply nested", async () => {
  const { serializeFault } = await import("@foxglove/xmlrpc");
  const whole = answer("<value><array><data><value><int>1</int></value></data></array></value>");
  const deep = answer("<value><array><data>".repeat(1_000));
  for (const text of [
    serializeFault(new XmlRpcFault("no", 1)),
    "<html></html>",
    "",
    whole.slice(0, 90),
    deep,
    answer("<value><struct></struct></value>"),
  ])
    assert.throws(() => readAnswer(text), Error, text.slice(0, 60));
});
