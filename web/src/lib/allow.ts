import { policyName, ruleName, type Decision, type End, type FlowAnswer } from './analysis'
import { builtInTiers } from './derive'
import type { FlowEnd, SeenFlow } from './flows'
import type { Tier } from './k8s'
import { toYaml } from './policy'

// What would let a packet through that does not pass: at each end what stands in the way, and the
// policy that would take it out of the way. It allows no more than was asked about.

/** Way is one thing that has to be otherwise. */
export interface Way {
  /** Where it is: "leaving the source", "on the way" or "entering the destination". */
  at: string
  text: string
  /** A policy that does it; '' if none can. */
  yaml: string
}

const UID_LABELS = ['nephe.antrea.io/cloud-vm-uid', 'nephe.antrea.io/cloud-interface-uid']

type LabelsOf = (end: End) => Record<string, string> | undefined

/** selectorOf selects one workload as exactly as its labels allow; undefined if it is none, or has no labels. */
function selectorOf(end: End, labels: LabelsOf): Record<string, unknown> | undefined {
  const all = labels(end)
  if ((end.kind !== 'Pod' && end.kind !== 'ExternalEntity') || !all || !Object.keys(all).length) {
    return undefined
  }
  const uid = UID_LABELS.find((k) => all[k])
  const matchLabels = uid ? { [uid]: all[uid]! } : all
  return end.kind === 'Pod' ? { podSelector: { matchLabels } } : { externalEntitySelector: { matchLabels } }
}

function peersOf(end: End, own: End, address: string | undefined, labels: LabelsOf): Record<string, unknown>[] {
  const selector = selectorOf(end, labels)
  if (selector && end.namespace === own.namespace) {
    return [selector]
  }
  const addresses = address ? [address] : (end.addresses ?? [])
  return addresses.map((a) => ({ ipBlock: { cidr: a + (a.includes(':') ? '/128' : '/32') } }))
}

/** before is a tier and priority that come before a rule; undefined if there are none for policies of a namespace. */
function before(d: Decision, tiers: Tier[]): { tier: string; priority: number } | undefined {
  const by = d.decidedBy
  if (!by || by.tierPriority === undefined) {
    return { tier: 'application', priority: 10 }
  }
  const known = [...builtInTiers, ...tiers.map((t) => ({ name: t.metadata.name, priority: t.spec.priority }))].sort((a, b) => b.priority - a.priority)
  const same = known.find((t) => t.priority === by.tierPriority)
  if (same && (by.priority ?? 0) > 1) {
    return { tier: same.name, priority: Math.max(1, Math.floor(by.priority! - 0.001)) }
  }
  const earlier = known.find((t) => t.priority < by.tierPriority!)
  return earlier && { tier: earlier.name, priority: 10 }
}

function policyFor(own: End, other: End, address: string | undefined, direction: 'ingress' | 'egress', a: { protocol: string; port?: number }, place: { tier: string; priority: number }, labels: LabelsOf): string {
  const appliedTo = selectorOf(own, labels)
  const peers = peersOf(other, own, address, labels)
  if (!appliedTo || !own.namespace || !peers.length) {
    return ''
  }
  const icmp = a.protocol.startsWith('ICMP')
  const rule = {
    name: 'asked-for',
    action: 'Allow',
    [direction === 'ingress' ? 'from' : 'to']: peers,
    ...(icmp ? { protocols: [{ icmp: {} }] } : { ports: [{ protocol: a.protocol, ...(a.port ? { port: a.port } : {}) }] }),
  }
  return toYaml({ apiVersion: 'crd.antrea.io/v1beta1', kind: 'NetworkPolicy', metadata: { name: 'allow-' + direction, namespace: own.namespace }, spec: { ...place, appliedTo: [appliedTo], [direction]: [rule] } })
}

/** Labels that are others with every release. */
const PASSING = ['pod-template-hash', 'controller-revision-hash', 'pod-template-generation', 'statefulset.kubernetes.io/pod-name', 'apps.kubernetes.io/pod-index']

/** allowing is a staged policy that allows exactly what was seen; '' if no policy can say it. */
export function allowing(f: SeenFlow, labels: LabelsOf): string {
  const end = (e: FlowEnd): End => ({ kind: e.kind, namespace: e.namespace, name: e.name, addresses: [e.address], title: e.address })
  const lasting: LabelsOf = (e) => {
    const all = labels(e)
    return all && Object.fromEntries(Object.entries(all).filter(([k]) => !PASSING.includes(k)))
  }
  if (!['TCP', 'UDP', 'SCTP', 'ICMP', 'ICMPv6'].includes(f.protocol)) {
    return ''
  }
  const place = { tier: 'application', priority: 10 }
  for (const [own, other, direction] of [[end(f.to), end(f.from), 'ingress'], [end(f.from), end(f.to), 'egress']] as const) {
    const yaml = policyFor(own, other, undefined, direction, f, place, lasting)
    if (yaml) {
      return yaml.replace(/^( *)name: allow-(ingress|egress)$/m, (line, indent: string) => `${line}\n${indent}annotations:\n${indent}  nephele.io/stage: plan`)
    }
  }
  return ''
}

/** wouldAllow lists what has to be otherwise for the packet to pass; nothing if it passes, or if it is not known what stops it. */
export function wouldAllow(a: FlowAnswer, tiers: Tier[], labels: LabelsOf): Way[] {
  const out: Way[] = []
  const end = (d: Decision | undefined, own: End, other: End, at: string, direction: 'ingress' | 'egress', seen?: string) => {
    const wanted = d?.ifEnforced ?? d
    if (!d || !wanted || (d.outcome === 'Allow' && wanted.outcome === 'Allow')) {
      return
    }
    const blocks = wanted.outcome === 'Drop' || wanted.outcome === 'Reject'
    const who = `${own.title}`
    if (blocks && wanted.decidedBy) {
      const place = before(wanted, tiers)
      out.push({
        at,
        text: `${policyName(wanted.decidedBy.policy)} refuses it by its rule ${ruleName(wanted.decidedBy)}. ` + (place ? `An Allow rule for ${who} that is asked before it lets it through${place.tier === 'application' ? '' : `; it stands in tier ${place.tier}`}.` : 'No tier is asked before it: its rule has to change.'),
        yaml: place ? policyFor(own, other, seen, direction, a, place, labels) : '',
      })
    } else if (blocks && (wanted.isolatedBy?.length || wanted.default === 'isolated')) {
      out.push({ at, text: `${wanted.isolatedBy?.length ? wanted.isolatedBy.map(policyName).join(', ') + ' isolates' : 'A policy isolates'} ${who}, and no rule allows this. An Allow rule does: in one of these policies, or in one of its own.`, yaml: policyFor(own, other, seen, direction, a, { tier: 'application', priority: 10 }, labels) })
    } else if (d.outcome === 'Drop' && (d.native ?? d.groups)) {
      const g = (d.native ?? d.groups)!
      out.push({ at, text: `The security groups of ${who} (${g.interface}) have no rule for it. No policy decides here, so one of its own groups has to allow it, or a policy has to.`, yaml: policyFor(own, other, seen, direction, a, { tier: 'application', priority: 10 }, labels) })
    }
  }
  end(a.egress, a.from, a.to, 'leaving the source', 'egress', a.path?.sentTo)
  if (a.path?.stoppedBy) {
    const s = a.path.stoppedBy
    out.push({ at: 'on the way', text: `${s.acl} of subnet ${s.subnet} stops ${s.answer ? 'the answer' : 'it'}${s.entry ? ` by entry ${s.name || s.entry}` : ': no entry allows it'}. That is the network’s own filter, which policies do not change.`, yaml: '' })
  }
  if (a.path?.remarks?.includes('NotPeered')) {
    out.push({ at: 'on the way', text: 'No way is known between the two networks: no active peering connects them.', yaml: '' })
  }
  end(a.ingress, a.to, a.from, 'entering the destination', 'ingress', a.path?.seenSource)
  return out
}
