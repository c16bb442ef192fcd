import type { AsyncHook, AsyncResource, HookCallbacks } from "node:async_hooks";
import { isMainThread } from "node:worker_threads";

/**
 * Preloaded in the processes of a test run. `node:test` assigns an uncaught error, and a `test` or `after` called inside, to the running
 * test, which it finds with an async hook. The hook runs for every promise and was 17 to 20 % of the CPU time of engine tests. This file
 * replaces the hook by an AsyncLocalStorage, which follows the same operations without work for each promise.
 */
if (isMainThread) attributeByStorage();

function attributeByStorage(): void {
  const module = process.getBuiltinModule("node:async_hooks");
  const { AsyncLocalStorage, AsyncResource: PlainResource, createHook, executionAsyncId } = module;
  const running = new AsyncLocalStorage<AsyncResource>();
  let callbacks: HookCallbacks = {};

  /** The base class of tests. */
  class AttributedResource extends PlainResource {
    constructor(type: string, options?: ConstructorParameters<typeof PlainResource>[1]) {
      super(type, options);
      callbacks.init?.(this.asyncId(), type, this.triggerAsyncId(), this);
    }

    override runInAsyncScope<This, Result>(run: (this: This, ...args: never[]) => Result, receiver?: This, ...args: unknown[]): Result {
      return super.runInAsyncScope(() => running.run(this, () => Reflect.apply(run, receiver, args) as Result));
    }
  }

  const hook: AsyncHook = { enable: () => hook, disable: () => hook };
  // Only the modules of node:test, which are loaded here, get the replacements.
  Object.assign(module, {
    AsyncResource: AttributedResource,
    createHook: (given: HookCallbacks) => ((callbacks = given), hook),
    executionAsyncId: () => running.getStore()?.asyncId() ?? 0,
  });
  process.getBuiltinModule("node:test");
  Object.assign(module, { AsyncResource: PlainResource, createHook, executionAsyncId });
}
