// Bundles the page into web/dist. The result is committed, so that building the server needs no
// Node; dist/source.sha256 records what it was built from and a test compares it.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, "assets"), { recursive: true });

await build({
  entryPoints: [join(root, "src/main.tsx")],
  outfile: join(dist, "assets/app.js"),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  charset: "utf8",
});
await build({
  entryPoints: [join(root, "src/style.css")],
  outfile: join(dist, "assets/app.css"),
  bundle: true,
  minify: true,
});
cpSync(join(root, "src/index.html"), join(dist, "index.html"));

// Hash of name, NUL, content, NUL of every source in name order.
const sources = [
  ...readdirSync(join(root, "src")).map((name) => `src/${name}`),
  "build.mjs",
  "package-lock.json",
].sort();
const hash = createHash("sha256");
for (const name of sources) {
  hash.update(name).update("\0").update(readFileSync(join(root, name))).update("\0");
}
writeFileSync(join(dist, "source.sha256"), hash.digest("hex") + "\n");
