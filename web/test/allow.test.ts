import { expect, test } from 'vitest'
import { wouldAllow } from '../src/lib/allow'
import type { Decision, FlowAnswer } from '../src/lib/analysis'
import { fromYaml } from '../src/lib/policy'

const labels: Record<string, Record<string, string>> = { 'db-1': { 'nephe.antrea.io/cloud-vm-uid': 'i-1', role: 'db' }, 'app-1': { role: 'app' } }
const end = (name: string, namespace = 'shop') => ({ kind: 'ExternalEntity', namespace, name, title: `VM ${namespace}/${name}`, addresses: ['10.0.0.9'] })
const answer = (more: Partial<FlowAnswer>): FlowAnswer => ({ asOf: '', from: end('app-1'), to: end('db-1'), protocol: 'TCP', port: 5432, verdict: 'Drop', wanted: 'Drop', egress: { outcome: 'Allow' }, ...more })
const ways = (a: FlowAnswer) => wouldAllow(a, [], (e) => labels[e.name ?? ''])
const by = (tierPriority: number, priority: number): Decision => ({ outcome: 'Drop', decidedBy: { policy: { type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'p' }, direction: 'In', name: 'no', index: 0, action: 'Drop', tierPriority, priority } })

test('a machine that is isolated gets a rule for what was asked, and no more', () => {
  const [w, ...others] = ways(answer({ ingress: { outcome: 'Drop', default: 'isolated', isolatedBy: [{ type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'db' }] } }))
  expect(others).toEqual([])
  expect(fromYaml(w!.yaml)).toMatchObject({
    kind: 'NetworkPolicy',
    metadata: { namespace: 'shop' },
    spec: { tier: 'application', appliedTo: [{ externalEntitySelector: { matchLabels: { 'nephe.antrea.io/cloud-vm-uid': 'i-1' } } }], ingress: [{ action: 'Allow', from: [{ externalEntitySelector: { matchLabels: { role: 'app' } } }], ports: [{ protocol: 'TCP', port: 5432 }] }] },
  })
})

test('a rule that refuses is answered by one that is asked before it', () => {
  expect(fromYaml(ways(answer({ ingress: by(250, 5) }))[0]!.yaml).spec).toMatchObject({ tier: 'application', priority: 4 })
  expect(fromYaml(ways(answer({ ingress: by(250, 1) }))[0]!.yaml).spec).toMatchObject({ tier: 'platform' })
  expect(fromYaml(ways(answer({ ingress: by(250, 1.5) }))[0]!.yaml).spec).toMatchObject({ tier: 'application', priority: 1 })
  const first = ways(answer({ ingress: by(50, 1) }))[0]!
  expect([first.yaml, first.text.includes('has to change')]).toEqual(['', true])
})

test('peers elsewhere are named by the address that is seen, and who has no labels gets no policy', () => {
  const a = answer({ from: end('app-1', 'other'), path: { way: 'Internet', seenSource: '203.0.113.7' }, ingress: by(250, 5) })
  expect(fromYaml(ways(a)[0]!.yaml).spec.ingress![0]!.from).toEqual([{ ipBlock: { cidr: '203.0.113.7/32' } }])
  expect(ways(answer({ to: end('unlabelled'), ingress: by(250, 5) }))[0]!.yaml).toBe('')
})

test('filters on the way and ends that let it through', () => {
  expect(ways(answer({ ingress: { outcome: 'Allow' }, path: { way: 'Peered', stoppedBy: { acl: 'acl-1', subnet: 's', entry: 0, egress: false } } })).map((w) => [w.at, w.yaml])).toEqual([['on the way', '']])
  expect(ways(answer({ verdict: 'Allow', wanted: 'Allow', ingress: { outcome: 'Allow' } }))).toEqual([])
})
