// Bundles the page into one file: node build.mjs WEB_FOLDER OUT
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';

const [web, out] = process.argv.slice(2);
const built = buildSync({
  entryPoints: [join(web, 'src/main.js')],
  bundle: true,
  minify: true,
  format: 'iife',
  target: 'es2020',
  charset: 'utf8',
  legalComments: 'none',
  write: false,
});
const style = buildSync({ entryPoints: [join(web, 'style.css')], minify: true, write: false });
const licence =
  '/* Charts: Apache ECharts (Apache License 2.0), https://echarts.apache.org; zrender (BSD). */';
// Functions, since "$" means something in a replacement text.
const page = readFileSync(join(web, 'page.html'), 'utf8')
  .replace('/*STYLE*/', () => style.outputFiles[0].text)
  .replace('/*SCRIPT*/', () => licence + built.outputFiles[0].text);
writeFileSync(out, page);
