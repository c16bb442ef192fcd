import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, goTo, NO_BROWSER, openDashboard, settled, visit } from "../harness/browser.ts";
import { signIn } from "../harness/chromium.ts";

test("the dashboard works in Chromium with its content security policy", { skip: NO_BROWSER, timeout: 400_000 }, async (t) => {
  const it = await openDashboard(t);
  const visitor = await it.as(undefined);

  await t.test("asks a signed-out visitor for a token, and then opens the requested page", async () => {
    await goTo(visitor, "/robots?q=arm");
    await visitor.waitForURL("**/sign-in?**");
    await axe(visitor);
    await visitor.getByLabel("Token").fill("rf_org_unknown");
    await visitor.getByRole("button", { name: "Sign in" }).click();
    await visitor.getByText("unknown, expired or revoked").waitFor();
    await visitor.getByLabel("Token").fill(it.org.admin_token);
    await visitor.getByRole("button", { name: "Sign in" }).click();
    await visitor.waitForURL("**/robots?q=arm");
    await settled(visitor);
  });

  await t.test("hides the session token from scripts and browser storage", async () => {
    assert.equal(await visitor.evaluate("document.cookie"), "");
    const kept = await visitor.evaluate<string>("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])");
    assert.doesNotMatch(kept, /rf_/);
  });

  await t.test("blocks inline scripts, event handlers, inline styles and requests to other servers", async () => {
    it.allow(/Content Security Policy|violates the following/);
    await visit(it.page, "/");
    const ran = await it.page.evaluate<string[]>(`(async () => {
      const ran = [];
      const expected = ["connect-src", "script-src-attr", "script-src-elem", "script-src-elem", "style-src-attr", "style-src-elem"];
      const refused = [];
      const all_refused = new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error("refused until now: " + refused.join(", "))), 60_000);
        document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
          refused.push(effectiveDirective);
          if (expected.every((one) => refused.filter((each) => each === one).length >= expected.filter((each) => each === one).length)) resolve();
        });
      });
      globalThis.ran = (what) => ran.push(what);
      const add = (make) => { const one = document.createElement("div"); document.body.append(one); make(one); };
      add((one) => { const script = document.createElement("script"); script.textContent = "ran('inline')"; one.append(script); });
      add((one) => { one.innerHTML = "<img src='data:,' onerror=ran('handler')>"; });
      add((one) => { one.innerHTML = "<a href='javascript:ran(1)'>x</a>"; one.firstChild.click(); });
      add((one) => { one.innerHTML = "<div style='width: 77px'></div>"; if (getComputedStyle(one.firstChild).width === "77px") ran.push("style"); });
      add((one) => { const style = document.createElement("style"); style.textContent = "#styled { color: red }"; one.append(style); if (style.sheet?.cssRules.length > 0) ran.push("sheet"); });
      add((one) => { one.innerHTML = "<iframe srcdoc='<p>x'></iframe>"; });
      await fetch("http://127.0.0.1:9/").then(() => ran.push("fetch"), () => {});
      // The browser reports a script after it blocked it: wait for all reports, because until then it could still run.
      await all_refused;
      // Only now: eval in the synchronous part of the test's own call is allowed.
      try { new Function("ran('eval')")(); } catch {}
      return ran;
    })()`);
    assert.deepEqual(ran, []);
  });

  await t.test("the dashboard loads resources only from its own server", async () => {
    const page = await it.as(undefined);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await signIn(page, it.org.admin_token);
    await visit(page, "/");
    assert.ok(asked.some((url) => url.includes("/assets/")));
    assert.deepEqual(
      asked.filter((url) => !url.startsWith(`${it.url}/`)),
      [],
    );
  });
});
