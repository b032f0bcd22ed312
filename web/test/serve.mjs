// Serves the built page with the world of world.mjs: node test/serve.mjs [PORT [VMS]].
import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeWorld } from './world.mjs'

const page = fileURLToPath(new URL('../../internal/console/page/', import.meta.url))
const types = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2', '.html': 'text/html' }
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

/** serve answers on a port of loopback; port 0 is any. It returns the server. */
export function serve(port, options) {
  const world = makeWorld(options)
  const server = createServer((req, res) => {
    const url = new URL(req.url, 'http://127.0.0.1')
    const json = (v, code = 200) => {
      res.writeHead(code, { 'Content-Type': 'application/json' })
      res.end(JSON.stringify(v))
    }
    if (url.pathname === '/api/session') return json(world.session)
    if (url.pathname === '/api/stream') {
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      for (const watch of url.searchParams.getAll('watch')) {
        res.write(`event: snapshot\ndata: ${JSON.stringify({ watch, items: world.lists[watch] ?? [] })}\n\n`)
      }
      const ping = setInterval(() => res.write('event: ping\ndata: {}\n\n'), 20_000)
      req.on('close', () => clearInterval(ping))
      return
    }
    if (url.pathname.startsWith('/api/k8s/')) {
      let body = ''
      req.on('data', (d) => (body += d))
      req.on('end', () => {
        const o = body ? JSON.parse(body) : {}
        if (o.kind === 'SelfSubjectAccessReview') return json({ ...o, status: { allowed: world.session.edit } })
        if (url.pathname.includes('/analysis.nephele.io/')) return json({ ...o, status: world.review(o.kind, o.spec) })
        if (req.method === 'POST' || req.method === 'PUT') {
          if (o.spec?.priority > 10000) return json({ kind: 'Status', message: 'spec.priority: Invalid value', reason: 'Invalid', code: 422, details: { causes: [{ field: 'spec.priority', message: 'should be less than or equal to 10000' }] } }, 422)
          return json(o)
        }
        return json({ kind: 'Status', message: 'not found', reason: 'NotFound', code: 404 }, 404)
      })
      return
    }
    let file = normalize(url.pathname).replace(/^(\.\.[/\\])+/, '')
    if (!file.startsWith('/assets/')) file = '/index.html'
    try {
      const data = readFileSync(join(page, file))
      res.writeHead(200, { 'Content-Type': types[extname(file)] ?? 'application/octet-stream', 'Content-Security-Policy': csp })
      res.end(data)
    } catch {
      res.writeHead(404).end()
    }
  })
  server.listen(port, '127.0.0.1')
  return server
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = serve(Number(process.argv[2] ?? 8089), { vms: Number(process.argv[3] ?? 24) })
  server.on('listening', () => console.log(`http://127.0.0.1:${server.address().port}/`))
}
