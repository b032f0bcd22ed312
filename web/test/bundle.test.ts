import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'

const page = join(import.meta.dirname, '../../internal/console/page')
const files = readdirSync(page, { recursive: true, withFileTypes: true })
  .filter((f) => f.isFile())
  .map((f) => join(f.parentPath, f.name))

test('the whole page is less than 600 kB when compressed', () => {
  const size = files.reduce((n, f) => n + Math.min(gzipSync(readFileSync(f), { level: 9 }).length, readFileSync(f).length), 0)
  console.log(`compressed: ${Math.round(size / 1000)} kB in ${files.length} files`)
  expect(size).toBeLessThan(600_000)
})

test('the page loads nothing from elsewhere, and its HTML has no inline script or style', () => {
  const index = readFileSync(join(page, 'index.html'), 'utf8')
  expect(index).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|https?:/)
})

test('no component writes HTML of others', () => {
  const sources = readdirSync(join(import.meta.dirname, '../src'), { recursive: true, withFileTypes: true }).filter((f) => /\.(svelte|ts)$/.test(f.name))
  for (const f of sources) {
    const text = readFileSync(join(f.parentPath, f.name), 'utf8')
    expect(text, f.name).not.toMatch(/\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/)
    expect(text, f.name).not.toMatch(/<[a-z][^>]*\sstyle=/)
  }
})
