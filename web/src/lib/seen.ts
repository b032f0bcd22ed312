import type { MapEdge, MapNode, ReachMap } from './analysis'
import type { FlowEnd, SeenFlow } from './flows'
import type { GraphEdge } from './graph'

// What was seen of the traffic that the map tells of: which edges were used, which never, and what
// was tried although it is blocked.

/** Use is what was seen of a line: used, never used, or tried in vain. */
export type Use = 'used' | 'unused' | 'tried'

export interface Sighting {
  allowed: number
  denied: number
  last: string
}

export interface Sightings {
  of: Map<MapEdge, Sighting>
  /** Flows that are on no edge: an end is on the map under no name, or nothing is told of it. */
  elsewhere: number
}

const PROTOCOLS: Record<string, number> = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1, ICMPv6: 58 }

/** What makes a Pod another one than its brothers. */
const GENERATED = /(-[bcdf-hj-np-tv-xz2-9]{6,10})?-[bcdf-hj-np-tv-xz2-9]{5}$/

/** covers tells whether an edge is about a protocol and port. */
export function covers(e: MapEdge, protocol: string, port: number): boolean {
  const n = PROTOCOLS[protocol] ?? Number(protocol)
  const inside = (e.ranges ?? []).some((r) => r.protocol === n && (![6, 17, 132].includes(n) || (r.from <= port && port <= r.to)))
  return e.except ? !inside : inside || !e.ranges?.length
}

/** number is an IPv4 address as a number; undefined for others. */
function number(a: string): number | undefined {
  const parts = a.split('.').map(Number)
  return parts.length === 4 && parts.every((p) => Number.isInteger(p) && p >= 0 && p < 256) ? parts.reduce((n, p) => n * 256 + p, 0) : undefined
}

/** holds tells how long the part of an address is that a block has in common with all of its own; -1 if the address is not in it. */
function holds(block: string, a: string): number {
  if (block === a) {
    return 128
  }
  const [base, bits] = block.replace(/^the rest of /, '').split('/')
  const [x, y] = [number(base!), number(a)]
  if (x === undefined || y === undefined) {
    return base === '::' && a.includes(':') ? 0 : -1
  }
  const size = 2 ** (32 - Number(bits ?? 32))
  return Math.floor(x / size) === Math.floor(y / size) ? Number(bits ?? 32) : -1
}

/** places finds the class of an end: by its name, by that of a Pod of the same workload, or by its address. */
export function places(nodes: MapNode[], called: (e: FlowEnd) => string[]): (e: FlowEnd) => string | undefined {
  const byName = new Map<string, string>()
  const byStem = new Map<string, string>()
  const worlds: { key: string; block: string }[] = []
  for (const n of nodes) {
    for (const m of n.members ?? []) {
      byName.set(m.toLowerCase(), n.key)
      if (GENERATED.test(m)) {
        const stem = m.toLowerCase().replace(GENERATED, '')
        // Brothers in two classes cannot be told apart by their stem.
        byStem.set(stem, byStem.has(stem) && byStem.get(stem) !== n.key ? '' : n.key)
      }
    }
    if (n.kind === 'Addresses') {
      worlds.push(...[...(n.addresses ?? []), n.label].map((block) => ({ key: n.key, block })))
    }
  }
  return (e) => {
    for (const name of called(e)) {
      const key = byName.get(name.toLowerCase()) || byStem.get(name.toLowerCase().replace(GENERATED, ''))
      if (key) {
        return key
      }
    }
    if (e.kind) {
      return undefined
    }
    return worlds.map((w) => ({ ...w, bits: holds(w.block, e.address) })).filter((w) => w.bits >= 0).sort((a, b) => b.bits - a.bits)[0]?.key
  }
}

/** sightings puts flows on the edges that they are of. */
export function sightings(map: ReachMap, flows: SeenFlow[], called: (e: FlowEnd) => string[]): Sightings {
  const place = places(map.nodes, called)
  const between = new Map<string, MapEdge[]>()
  for (const e of map.edges) {
    const key = e.from + '|' + e.to
    between.set(key, [...(between.get(key) ?? []), e])
  }
  const of = new Map<MapEdge, Sighting>()
  let elsewhere = 0
  for (const f of flows) {
    const [from, to] = [place(f.from), place(f.to)]
    const on = (between.get(from + '|' + to) ?? []).filter((e) => covers(e, f.protocol, f.port ?? 0))
    if (!from || !to || !on.length) {
      elsewhere++
      continue
    }
    const denied = f.verdict === 'Drop' || f.verdict === 'Reject'
    for (const e of on) {
      const s = of.get(e) ?? { allowed: 0, denied: 0, last: '' }
      s[denied ? 'denied' : 'allowed'] += Math.max(f.connections, f.ended ?? 0)
      s.last = s.last > f.last ? s.last : f.last
      of.set(e, s)
    }
  }
  return { of, elsewhere }
}

/** sightingOf is what was seen of all that one line stands for. */
export function sightingOf(line: GraphEdge, seen: Sightings): Sighting {
  const out: Sighting = { allowed: 0, denied: 0, last: '' }
  for (const e of line.edges) {
    const s = seen.of.get(e)
    if (s) {
      out.allowed += s.allowed
      out.denied += s.denied
      out.last = out.last > s.last ? out.last : s.last
    }
  }
  return out
}

/** useOf tells how a line was used; nothing of one that is blocked and that nobody tried. */
export function useOf(line: GraphEdge, seen: Sightings): Use | undefined {
  const s = sightingOf(line, seen)
  if (line.style === 'blocked') {
    return s.denied > 0 ? 'tried' : undefined
  }
  return s.allowed > 0 ? 'used' : 'unused'
}
