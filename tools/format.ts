import { root } from "../bin/launch.mjs";
import { endLike, runChild } from "../bin/run-child.mjs";

// `npm run format [-- PATH…]`: writes the formatting that `npm run check` asks for.
const paths = process.argv.slice(2);
endLike(await runChild(`${root}/node_modules/.bin/oxfmt`, paths, { cwd: root }));
