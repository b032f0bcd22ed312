import { expect, test } from 'vitest'
import { leavingText, type ReachRow } from '../src/lib/analysis'
import { agentRow, driftEntry, findings, PHASES, phaseOf, phases, ringOf, tierColumns } from '../src/lib/derive'
import { SERVICES, VMS, type Subject } from '../src/lib/imported'
import { selects } from '../src/lib/labels'
import { cellKey, cellsOf, changedCells, fresh, names, sideText } from '../src/lib/matrix'
import type { Account, Policy, VM } from '../src/lib/k8s'

const end = (name: string) => ({ name, kind: 'ExternalEntity', namespace: 'n', object: name, addresses: ['10.0.0.1'] })
const row = (from: string[], to: string[], traffic: string, verdict = 'Allow'): ReachRow => ({ from: { endpoints: from.map(end) }, to: { endpoints: to.map(end) }, traffic, verdict, egress: { outcome: verdict }, ingress: { outcome: verdict } })

test('the cells of a table stand by the names of their groups, and those that are otherwise are told', () => {
  const group = (name: string) => ({ name, count: 2 })
  const m = { rows: [group('app'), group('web')], columns: [group('db')], cells: [{ row: 0, column: 0, verdict: 'Allow', text: 'tcp 5432' }, { row: 1, column: 0, verdict: 'Drop', text: 'tcp 22', mixed: true }], totalRows: 2, totalColumns: 1 }
  const before = cellsOf(m)
  expect(before.get(cellKey('web', 'db'))).toEqual({ verdict: 'Drop', text: 'tcp 22', mixed: true })
  const after = cellsOf({ ...m, cells: [m.cells[0]!] })
  expect([...changedCells(before, after)]).toEqual([cellKey('web', 'db')])
  expect(changedCells(before, before).size).toBe(0)
})

test('of many ends some are named, and the others counted', () => {
  expect(sideText({ endpoints: [end('a1')], more: 7 })).toBe('a1, 7 more')
})

test('before and after', () => {
  const before = [row(['a1'], ['d1'], 'tcp 22')]
  const after = [row(['a1', 'a2'], ['d1'], 'tcp 22')]
  expect(fresh(before, after).size).toBe(1)
  expect(fresh(after, before).size).toBe(0)
})

test('selectors select as Kubernetes does', () => {
  expect(selects({}, undefined)).toBe(true)
  expect(selects(undefined, {})).toBe(false)
  expect(selects({ matchLabels: { a: 'b' } }, { a: 'b', c: 'd' })).toBe(true)
  expect(selects({ matchExpressions: [{ key: 'a', operator: 'NotIn', values: ['b'] }] }, {})).toBe(true)
  expect(selects({ matchExpressions: [{ key: 'constructor', operator: 'Exists' }] }, {})).toBe(false)
  expect(selects({ matchExpressions: [{ key: 'a', operator: 'Bogus' }] }, { a: '' })).toBe(false)
})

const policy = (name: string, priority: number, tier?: string, more: object = {}): Policy => ({ metadata: { name, generation: 2, ...more }, spec: { priority, tier }, status: { phase: 'Realized', observedGeneration: 2 } })

test('policies stand in the order in which they are asked', () => {
  const columns = tierColumns([{ metadata: { name: 'mine' }, spec: { priority: 20 } }], [policy('late', 9), policy('early', 1), policy('first', 5, 'mine'), policy('lost', 1, 'gone')])
  expect(columns.map((c) => c.name)[0]).toBe('mine')
  expect(columns.find((c) => c.name === 'application')!.policies.map((p) => p.metadata.name)).toEqual(['early', 'late'])
  expect(columns.find((c) => c.name === 'gone')!.policies.length).toBe(1)
})

test('phases', () => {
  expect(phaseOf(policy('a', 1))).toBe('Realized')
  expect(phaseOf(policy('a', 1, '', { generation: 3 }))).toBe('Pending')
  expect(phaseOf({ ...policy('a', 1), status: { phase: 'Suspended', message: 'not enforced on 3 of 5 VMs: 2 in mode released, 1 in mode break-glass' } })).toBe('Suspended')
  const known = PHASES.map((phase, i) => ({ ...policy('p' + i, 1), status: { phase } }))
  expect(phases([...known].reverse()).map((p) => p.phase)).toEqual(PHASES)
})

test('agents: one that is not heard of is told before all others, with the policies that are not confirmed', () => {
  const info = (name: string, status: string, reason = '') => ({ metadata: { name, annotations: { 'nephele.io/kernel': '6.1.0' } }, version: 'v1', nodeRef: { kind: 'ExternalNode', namespace: 'vms', name }, agentConditions: [{ type: 'AgentHealthy', status, reason, message: 'm', lastHeartbeatTime: '2026-01-01T00:00:00Z' }] })
  expect(agentRow(info('a', 'True'))).toMatchObject({ host: 'vms/a', state: 'Well', kernel: '6.1.0', heard: '2026-01-01T00:00:00Z', message: '' })
  expect(agentRow(info('b', 'Unknown', 'Silent'))).toMatchObject({ state: 'Silent', message: 'Silent: m' })
  expect(agentRow({ metadata: { name: 'c' } }).state).toBe('New')
  const unconfirmed = { ...policy('p', 1), status: { phase: 'Realized', observedGeneration: 2, conditions: [{ type: 'Confirmed', status: 'False', message: 'not confirmed since noon' }] } }
  expect(findings([], [], [unconfirmed], [], [info('a', 'True'), info('b', 'Unknown', 'Silent'), info('d', 'False', 'Failing')]).map((f) => [f.tone, f.what])).toEqual([['bad', 'agent vms/b'], ['warn', 'agent vms/d'], ['warn', 'policy p']])
})

test('an account says which routes to Pods are missing', () => {
  const account = (status: string): Account => ({ metadata: { name: 'a', namespace: 'ops' }, spec: {}, status: { conditions: [{ type: 'NodeRoutes', status, reason: 'NotRouted', message: 'Node n1 has no route' }] } })
  expect(findings([account('False')], [], [], []).map((f) => [f.tone, f.what, f.text])).toEqual([['warn', 'account ops/a', 'NotRouted: Node n1 has no route']])
  expect(findings([account('True')], [], [], [])).toEqual([])
})

test('how an Egress lets a packet leave', () => {
  expect(leavingText({ egress: 'e', state: 'Leaves', address: '192.0.2.5', node: 'n2' })).toBe('It leaves with 192.0.2.5, which Node n2 has.')
  expect(leavingText({ egress: 'e', state: 'Leaves', address: '192.0.2.5' })).toBe('It leaves with 192.0.2.5.')
  expect(leavingText({ egress: 'e', state: 'Dropped', why: 'no Node has it' })).toBe('It is dropped instead of leaving otherwise: no Node has it')
  expect(leavingText({ egress: 'e', state: 'Unknown', address: '192.0.2.5', why: 'not told' })).toBe('It leaves with 192.0.2.5 or is dropped: not told')
})

test('rings: the worst that is so of a machine', () => {
  const vm = (mode: string, ...phases: string[]): VM => ({ metadata: { name: 'x' }, status: { mode, policies: phases.map((phase, i) => ({ name: 'p' + i, kind: 'K', uid: String(i), phase })) } })
  expect(ringOf(vm('', 'Realized', 'Realized'))).toBe('enforced')
  expect(ringOf(vm('', 'Realized', 'Failed'))).toBe('failed')
  expect(ringOf(vm('', 'Realizing'))).toBe('planned')
  expect(ringOf(vm('break-glass', 'Suspended'))).toBe('released')
  expect(ringOf(vm('plan', 'Suspended'))).toBe('planned')
  expect(ringOf(vm(''))).toBe('none')
})

test('drift tells who it was, where that is known', () => {
  const e = { metadata: { name: 'x' }, reason: 'Drift', note: 'eu-west-1 sg-1: somebody has added ingress tcp 22 from 0.0.0.0/0 (left as it is), by arn:aws:iam::1:user/a, b (AuthorizeSecurityGroupIngress at 2026-01-01T00:00:00Z)', regarding: { kind: 'CloudProviderAccount', namespace: 'n', name: 'a' } }
  expect(driftEntry(e)).toMatchObject({ by: 'arn:aws:iam::1:user/a, b', call: 'AuthorizeSecurityGroupIngress', kept: true, text: 'eu-west-1 sg-1: somebody has added ingress tcp 22 from 0.0.0.0/0', account: 'n/a' })
  expect(driftEntry({ ...e, note: 'eu-west-1 sg-1: gone' })!.by).toBeUndefined()
  expect(driftEntry({ ...e, reason: 'Changed' })).toBeUndefined()
})

test('machines are called as in the cloud, unless several have the name', () => {
  const vm = (name: string, cloudName: string, kind = VMS): Subject => ({ kind, o: { metadata: { name, namespace: 'n' }, status: { cloudName } } })
  const of = names([vm('i-1', 'CVP Server Test'), vm('i-2', 'same'), vm('i-3', 'same'), vm('rdsinstance-1', 'Same', SERVICES)])
  expect([of(end('vm/n/i-1')), of(end('vm/n/i-2')), of(end('pod/n/x')), of(end('cns/n/rdsinstance-1'))]).toEqual(['vm/n/CVP Server Test', 'vm/n/i-2', 'pod/n/x', 'cns/n/Same'])
})
