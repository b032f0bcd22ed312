import { pathTo, what, type Subject } from './imported'
import { BREAK_GLASS, BREAK_GLASS_UNTIL, condition, isTrue, ref, vmName, type Account, type AgentInfo, type Event, type Imported, type Policy, type Revision, type Selector, type Tier } from './k8s'

// What screens show of objects, worked out without any state.

/** phaseOf is the phase of a policy in one word of docs/glossary.md: that of its status, if it is about the present generation. */
export function phaseOf(p: Policy): string {
  if (p.status?.phase && p.status.observedGeneration !== undefined && p.metadata.generation !== undefined && p.status.observedGeneration < p.metadata.generation) {
    return 'Pending'
  }
  return p.status?.phase || 'Pending'
}

export const PHASES = ['Realized', 'Realizing', 'Pending', 'Idle', 'Planned', 'Staged', 'NotEnforced', 'Suspended', 'Failed']

export function phases(policies: Policy[]): { phase: string; count: number }[] {
  const n = new Map<string, number>()
  for (const p of policies) {
    const phase = phaseOf(p)
    n.set(phase, (n.get(phase) ?? 0) + 1)
  }
  return [...n].map(([phase, count]) => ({ phase, count })).sort((a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase))
}

/** An agent as it is listed. */
export interface AgentRow {
  name: string
  host: string
  node: boolean
  state: 'Well' | 'Unhealthy' | 'Silent' | 'New'
  version: string
  kernel: string
  policies: number
  heard: string
  message: string
}

/** agentRow says how an agent is, in the words of the controller, which marks those that it has not heard of for three minutes. */
export function agentRow(a: AgentInfo): AgentRow {
  const conditions = a.agentConditions ?? []
  const bad = conditions.find((c) => c.status !== 'True')
  const heard = conditions.map((c) => c.lastHeartbeatTime ?? '').reduce((x, y) => (x > y ? x : y), '')
  return {
    name: a.metadata.name,
    host: (a.nodeRef?.namespace ? a.nodeRef.namespace + '/' : '') + (a.nodeRef?.name ?? a.metadata.name),
    node: a.nodeRef?.kind === 'Node',
    state: !conditions.length ? 'New' : bad?.reason === 'Silent' ? 'Silent' : bad ? 'Unhealthy' : 'Well',
    version: a.version ?? '',
    kernel: a.metadata.annotations?.['nephele.io/kernel'] ?? '',
    policies: a.networkPolicyControllerInfo?.networkPolicyNum ?? 0,
    heard,
    message: bad ? [bad.reason, bad.message].filter(Boolean).join(': ') : '',
  }
}

/** ring is how a machine stands: the ring around it on the map. */
export type Ring = 'enforced' | 'planned' | 'released' | 'failed' | 'none'

export function ringOf(vm: Imported): Ring {
  const s = vm.status
  if (s?.mode === 'released' || s?.mode === 'break-glass') {
    return 'released'
  }
  if (s?.mode === 'plan') {
    return 'planned'
  }
  const policies = s?.policies ?? []
  if (!policies.length) {
    return 'none'
  }
  if (policies.some((p) => p.phase === 'Failed')) {
    return 'failed'
  }
  if (policies.some((p) => p.phase === 'Suspended')) {
    return 'released'
  }
  return policies.every((p) => p.phase === 'Realized') ? 'enforced' : 'planned'
}

/** askedToRelease tells whether the machine itself is to be released in an emergency now. */
export function askedToRelease(vm: Imported, now: number): boolean {
  const until = Date.parse(vm.metadata.annotations?.[BREAK_GLASS_UNTIL] ?? '')
  return vm.metadata.annotations?.[BREAK_GLASS] !== undefined && !(until <= now)
}

/** inEmergency tells whether the machine is released in an emergency, or about to be. */
export function inEmergency(vm: Imported, now: number): boolean {
  return vm.status?.mode === 'break-glass' || isTrue(vm, 'BreakGlass') || askedToRelease(vm, now)
}

/** lastEnd says when the last of these releases ends by itself; '' if one of them does not. */
export function lastEnd(released: Imported[]): string {
  let last = ''
  for (const vm of released) {
    const until = vm.status?.mode === 'break-glass' ? vm.status.modeUntil : vm.metadata.annotations?.[BREAK_GLASS_UNTIL]
    if (!until || Number.isNaN(Date.parse(until))) {
      return ''
    }
    if (!last || Date.parse(until) > Date.parse(last)) {
      last = until
    }
  }
  return last
}

export interface Finding {
  tone: 'bad' | 'warn'
  what: string
  text: string
  path: string
}

const policyPath = (p: Policy) =>
  p.metadata.namespace
    ? `/policies/annp/${encodeURIComponent(p.metadata.namespace)}/${encodeURIComponent(p.metadata.name)}`
    : `/policies/acnp/${encodeURIComponent(p.metadata.name)}`

/** findings are what needs a person. */
export function findings(accounts: Account[], selectors: Selector[], policies: Policy[], imported: Subject[], agents: AgentInfo[] = []): Finding[] {
  const out: Finding[] = []
  for (const a of agents.map(agentRow)) {
    if (a.state === 'Silent' || a.state === 'Unhealthy') {
      out.push({ tone: a.state === 'Silent' ? 'bad' : 'warn', what: `agent ${a.host}`, text: a.message, path: '/workload?tab=agents' })
    }
  }
  for (const a of accounts) {
    const name = ref(a)
    const ready = condition(a, 'Ready')
    if (ready && ready.status !== 'True') {
      out.push({ tone: 'bad', what: `account ${name}`, text: `${ready.reason ?? 'not ready'}: ${ready.message ?? a.status?.error ?? ''}`, path: '/changes' })
    }
    for (const [type, tone] of [['BreakGlass', 'bad'], ['Braked', 'warn'], ['Drift', 'warn'], ['DependentsCut', 'warn']] as const) {
      const c = condition(a, type)
      if (c?.status === 'True') {
        const words = { BreakGlass: 'emergency release', Braked: 'waits for a confirmation', Drift: 'changed by hand', DependentsCut: 'others lose flows' }
        out.push({ tone, what: `account ${name}: ${words[type]}`, text: c.message ?? '', path: type === 'Drift' ? '/changes?tab=drift' : '/changes' })
      }
    }
    for (const type of ['SoleWriter', 'RecordsSigned', 'EventsReceived', 'PoliciesReceived', 'ServicesRead', 'FlowLogsRead', 'NodeRoutes']) {
      const c = condition(a, type)
      if (c?.status === 'False') {
        out.push({ tone: type === 'SoleWriter' ? 'bad' : 'warn', what: `account ${name}`, text: `${c.reason ?? type}: ${c.message ?? ''}`, path: '/changes' })
      }
    }
  }
  for (const s of selectors) {
    const ready = condition(s, 'Ready')
    if (ready?.status === 'False') {
      out.push({ tone: 'warn', what: `selector ${ref(s)}`, text: `${ready.reason ?? ''}: ${ready.message ?? s.status?.error ?? ''}`, path: '/workload' })
    }
  }
  for (const p of policies) {
    if (phaseOf(p) === 'Failed') {
      out.push({ tone: 'bad', what: `policy ${ref(p)}`, text: p.status?.message ?? 'failed', path: policyPath(p) })
    }
    const confirmed = condition(p, 'Confirmed')
    if (confirmed?.status === 'False') {
      out.push({ tone: 'warn', what: `policy ${ref(p)}`, text: confirmed.message ?? 'not confirmed', path: policyPath(p) })
    }
  }
  for (const x of imported) {
    const obstructed = condition(x.o, 'Obstructed')
    if (obstructed?.status === 'True') {
      out.push({ tone: 'warn', what: vmName(x.o), text: obstructed.message ?? 'the filter of its subnet denies what policies allow', path: pathTo(x) })
    }
    const addressed = condition(x.o, 'Addressed')
    if (addressed?.status === 'False') {
      out.push({ tone: 'warn', what: `${what(x)} ${vmName(x.o)}`, text: addressed.message ?? 'its addresses are not known', path: pathTo(x) })
    }
  }
  return out.sort((a, b) => (a.tone === b.tone ? 0 : a.tone === 'bad' ? -1 : 1))
}

/** Something on the timeline of drift. */
export interface DriftEntry {
  kind: 'Drift' | 'DriftRepaired' | 'DriftUndone'
  account: string
  time: string
  /** Where and what, in the words of the controller. */
  text: string
  by?: string
  call?: string
  at?: string
  kept: boolean
}

const BY = /, by (.+) \((\S+) at (\d{4}-\d\d-\d\dT[\d:.]+Z)\)$/

/** driftEntry reads an event about drift. */
export function driftEntry(e: Event): DriftEntry | undefined {
  if (e.reason !== 'Drift' && e.reason !== 'DriftRepaired' && e.reason !== 'DriftUndone') {
    return undefined
  }
  const about = e.regarding ?? e.involvedObject
  let text = e.note ?? e.message ?? ''
  const by = BY.exec(text)
  if (by) {
    text = text.slice(0, by.index)
  }
  const kept = text.endsWith(' (left as it is)')
  if (kept) {
    text = text.slice(0, -' (left as it is)'.length)
  }
  return { kind: e.reason, account: `${about?.namespace ?? ''}/${about?.name ?? ''}`, time: timeOf(e), text, by: by?.[1], call: by?.[2], at: by?.[3], kept }
}

/** timeOf is when an event was last seen. */
export function timeOf(e: Event): string {
  const series = (e as { series?: { lastObservedTime?: string } }).series?.lastObservedTime
  return series || e.lastTimestamp || e.eventTime || e.firstTimestamp || e.metadata.creationTimestamp || ''
}

/** newest sorts revisions, the latest first. */
export function newest(revisions: Revision[]): Revision[] {
  return [...revisions].sort((a, b) => (a.spec.time === b.spec.time ? b.spec.number - a.spec.number : a.spec.time < b.spec.time ? 1 : -1))
}

/** The tiers that always exist, for who may not list them. */
export const builtInTiers: { name: string; priority: number }[] = [
  { name: 'emergency', priority: 50 },
  { name: 'securityops', priority: 100 },
  { name: 'networkops', priority: 150 },
  { name: 'platform', priority: 200 },
  { name: 'application', priority: 250 },
  { name: 'baseline', priority: 253 },
]

/** tierColumns are the tiers in the order in which they are asked, with their policies in order. */
export function tierColumns(tiers: Tier[], policies: Policy[]): { name: string; priority: number; description: string; policies: Policy[] }[] {
  const all = new Map<string, { name: string; priority: number; description: string; policies: Policy[] }>()
  for (const t of builtInTiers) {
    all.set(t.name, { ...t, description: '', policies: [] })
  }
  for (const t of tiers) {
    all.set(t.metadata.name, { name: t.metadata.name, priority: t.spec.priority, description: t.spec.description ?? '', policies: [] })
  }
  for (const p of policies) {
    const name = (p.spec.tier || 'application').toLowerCase()
    let tier = all.get(name)
    if (!tier) {
      tier = { name, priority: 251, description: 'There is no such tier.', policies: [] }
      all.set(name, tier)
    }
    tier.policies.push(p)
  }
  const columns = [...all.values()].sort((a, b) => a.priority - b.priority)
  for (const c of columns) {
    c.policies.sort((a, b) => a.spec.priority - b.spec.priority || ref(a).localeCompare(ref(b)))
  }
  return columns
}
