import { describe, expect, test } from 'vitest'
import type { MapEdge, MapNode, ReachMap } from '../src/lib/analysis'
import { about, graph, styleOf, type Filter } from '../src/lib/graph'

const node = (key: string, network: string, count = 3): MapNode => ({ key, label: key, kind: 'VM', network, count, members: [`vm/x/${key}`] })
const edge = (from: string, to: string, more: Partial<MapEdge> = {}): MapEdge => ({ from, to, verdict: 'Allow', by: 'Policies', traffic: 'tcp 443', ranges: [{ protocol: 6, from: 443, to: 443 }], ...more })
const filter = (more: Partial<Filter> = {}): Filter => ({ view: 'now', open: new Set(), limit: 150, ...more })
const none = () => 'none' as const

const small: ReachMap = {
  nodes: [node('a', 'v1'), node('b', 'v1'), node('c', 'v2'), { key: 'w', label: '0.0.0.0/0', kind: 'Addresses', addresses: ['0.0.0.0/0'] }],
  edges: [edge('a', 'b'), edge('a', 'b', { traffic: 'tcp 80', ranges: [{ protocol: 6, from: 80, to: 80 }] }), edge('w', 'c', { verdict: 'Drop' }), edge('b', 'c', { change: 'Opens' }), edge('c', 'a', { change: 'Closes', by: 'Groups' })],
  total: 4,
}

describe('what is drawn', () => {
  test('now, then, and the difference', () => {
    const ids = (view: Filter['view']) => graph(small, filter({ view }), none).edges.map((e) => e.id).sort()
    expect(ids('now')).toEqual(['a|b|allowed', 'c|a|groups', 'w|c|blocked'])
    expect(ids('plan')).toEqual(['a|b|allowed', 'b|c|allowed', 'w|c|blocked'])
    expect(ids('diff')).toEqual(['b|c|opens', 'c|a|closes'])
  })
  test('edges of one kind between the same ends are one', () => {
    const e = graph(small, filter(), none).edges.find((x) => x.id === 'a|b|allowed')!
    expect([e.edges.length, e.label]).toEqual([2, 'tcp 443, tcp 80'])
  })
  test('boxes are networks, namespaces and the outside', () => {
    expect(graph(small, filter(), none).boxes.map((b) => b.kind).sort()).toEqual(['network', 'network', 'outside'])
  })
  test('who is looked for comes with whom he talks to', () => {
    expect(graph(small, filter({ text: 'vm/x/b' }), none).nodes.map((n) => n.id).sort()).toEqual(['a', 'b'])
  })
  test('a port leaves out the rest', () => {
    expect(graph(small, filter({ port: '80' }), none).edges.map((e) => e.id)).toEqual(['a|b|allowed'])
    expect(about(edge('a', 'b', { except: true, ranges: [{ protocol: 6, from: 22, to: 22 }] }), '22')).toBe(false)
    expect(about(edge('a', 'b', { except: true, ranges: [] }), '22')).toBe(true)
  })
  test('a verdict that is not known is never drawn as allowed', () => {
    expect(styleOf(edge('a', 'b', { by: 'Unknown' }), 'now')).toBe('unknown')
    expect(styleOf(edge('a', 'b', { verdict: 'Native' }), 'now')).toBe('groups')
  })
})

describe('level of detail', () => {
  const many: ReachMap = { nodes: [], edges: [], total: 0 }
  for (let n = 0; n < 40; n++) for (let i = 0; i < 50; i++) many.nodes.push(node(`${n}-${i}`, 'v' + n, 5))
  for (let n = 0; n < 39; n++) for (let i = 0; i < 50; i++) many.edges.push(edge(`${n}-${i}`, `${n + 1}-${i}`))
  test('2,000 classes are few nodes, and no machine is lost', () => {
    const g = graph(many, filter(), none)
    expect(g.nodes.length).toBeLessThanOrEqual(150)
    expect(g.nodes.reduce((n, x) => n + x.count, 0)).toBe(10_000)
    expect(g.edges.length).toBeLessThan(400)
  })
  test('a box that is opened shows its classes', () => {
    const g = graph(many, filter({ open: new Set(['net:::v7']) }), none)
    expect(g.nodes.filter((n) => n.id.startsWith('7-')).length).toBe(50)
  })
  test('a closed box has the worst of the rings in it', () => {
    const g = graph(many, filter({ limit: 10 }), (n) => (n.key === '3-3' ? 'failed' : 'enforced'))
    expect(g.nodes.find((n) => n.id === 'box:net:::v3')!.ring).toBe('failed')
  })
})
