import { expect, test } from 'vitest'
import type { MapEdge, ReachMap } from '../src/lib/analysis'
import { allowing } from '../src/lib/allow'
import type { FlowEnd, SeenFlow } from '../src/lib/flows'
import { graph } from '../src/lib/graph'
import { covers, places, sightings, useOf } from '../src/lib/seen'

const edge = (from: string, to: string, more: Partial<MapEdge> = {}): MapEdge => ({ from, to, verdict: 'Allow', by: 'Policies', traffic: 'tcp 443', ranges: [{ protocol: 6, from: 443, to: 443 }], ...more })
const map: ReachMap = {
  nodes: [
    { key: 'web', label: 'web', kind: 'Pod', namespace: 'shop', count: 9, members: ['pod/shop/web-6c5f7d8b9-x2z4b'] },
    { key: 'db', label: 'db', kind: 'ExternalEntity', namespace: 'vms', count: 1, members: ['vm/vms/db-1'] },
    { key: 'office', label: '198.51.100.0/24', kind: 'Addresses', addresses: ['198.51.100.0/24'] },
    { key: 'all', label: '0.0.0.0/0', kind: 'Addresses', addresses: ['0.0.0.0/0'] },
  ],
  edges: [edge('web', 'db'), edge('web', 'db', { traffic: 'udp 53', ranges: [{ protocol: 17, from: 53, to: 53 }] }), edge('office', 'db', { verdict: 'Drop', traffic: 'all', except: true, ranges: [] }), edge('all', 'web')],
  total: 2,
}
const pod = (name: string): FlowEnd => ({ address: '10.0.0.1', kind: 'Pod', namespace: 'shop', name })
const vm: FlowEnd = { address: '10.0.0.2', kind: 'ExternalEntity', namespace: 'vms', name: 'virtualmachine-7' }
const called = (e: FlowEnd) => (e.kind === 'Pod' ? [`pod/${e.namespace}/${e.name}`] : e.kind ? ['vm/vms/db-1'] : [])
const flow = (from: FlowEnd, to: FlowEnd, more: Partial<SeenFlow> = {}): SeenFlow => ({ first: '', last: '2', enforcer: 'w', direction: 'In', from, to, protocol: 'TCP', port: 443, verdict: 'Allow', by: { cause: 'Native' }, connections: 2, ...more })

test('ends have their places: by name, by workload, by the closest block', () => {
  const place = places(map.nodes, called)
  expect([pod('web-6c5f7d8b9-x2z4b'), pod('web-6c5f7d8b9-q5w6t'), pod('other'), vm, { address: '198.51.100.7' }, { address: '192.0.2.1' }, { address: '2001:db8::1' }].map(place)).toEqual(['web', 'web', undefined, 'db', 'office', 'all', undefined])
})

test('an edge is about what it says', () => {
  expect([covers(edge('a', 'b'), 'TCP', 443), covers(edge('a', 'b'), 'UDP', 443), covers(edge('a', 'b'), 'TCP', 80), covers(edge('a', 'b', { except: true }), 'TCP', 80), covers(edge('a', 'b', { ranges: [{ protocol: 1, from: -1, to: -1 }] }), 'ICMP', 0)]).toEqual([true, false, false, true, true])
})

test('lines are used, never used, or tried in vain', () => {
  const office: FlowEnd = { address: '198.51.100.7' }
  const flows = [flow(pod('web-6c5f7d8b9-q5w6t'), vm), flow(pod('web-6c5f7d8b9-q5w6t'), vm, { last: '1', verdict: 'Unknown', connections: 0, ended: 3 }), flow(office, vm, { verdict: 'Drop', port: 22, connections: 7 }), flow(vm, office)]
  const seen = sightings(map, flows, called)
  expect([...seen.of.values()]).toEqual([{ allowed: 5, denied: 0, last: '2' }, { allowed: 0, denied: 7, last: '2' }])
  expect(seen.elsewhere).toBe(1)
  const lines = graph(map, { view: 'now', open: new Set(), limit: 120 }, () => 'none').edges
  expect(Object.fromEntries(lines.map((l) => [l.id, useOf(l, seen)]))).toEqual({ 'web|db|allowed': 'used', 'office|db|blocked': 'tried', 'all|web|allowed': 'unused' })
  expect(useOf(lines.find((l) => l.style === 'blocked')!, sightings(map, [], called))).toBeUndefined()
})

test('a policy allows exactly what was seen', () => {
  const labels = (e: { kind?: string }): Record<string, string> | undefined => (e.kind === 'Pod' ? { app: 'web', 'pod-template-hash': '1' } : e.kind ? { role: 'db' } : undefined)
  const yaml = allowing(flow(pod('web-1'), { ...vm, namespace: 'shop' }), labels)
  for (const part of ['namespace: shop', 'nephele.io/stage: plan', 'externalEntitySelector', 'role: db', 'app: web', 'protocol: TCP', 'port: 443', 'action: Allow']) expect(yaml).toContain(part)
  expect(yaml).not.toContain('pod-template-hash')
  expect(allowing(flow(pod('web-1'), vm), labels)).toContain('10.0.0.1/32')
  const out = allowing(flow(pod('web-1'), { address: '192.0.2.1' }, { protocol: 'ICMP', port: undefined }), labels)
  expect(out).toContain('egress')
  expect(out).toContain('192.0.2.1/32')
  expect(out).toContain('icmp')
  expect(allowing(flow({ address: '192.0.2.1' }, { address: '192.0.2.2' }), labels)).toBe('')
  expect(allowing(flow(pod('web-1'), { address: '192.0.2.1' }, { protocol: '47' }), labels)).toBe('')
})
