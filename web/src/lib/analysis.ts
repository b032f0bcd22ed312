// The answers of analysis.nephele.io/v1alpha1, as the page reads them; docs/ask.md#over-the-api tells what
// the fields mean.

export interface Seen {
  asOf: string
  limited?: boolean
  unread?: string[]
}

export interface PolicyName {
  type: string
  namespace?: string
  name: string
  hidden?: boolean
  /** The member of the set that has it, on a map of the set. */
  cluster?: string
}

export interface RuleRef {
  policy: PolicyName
  direction: string
  name?: string
  index: number
  action?: string
  tierPriority?: number
  priority?: number
  l7Protocols?: boolean
  through?: string[]
  dependsOn?: string[]
}

export interface End {
  kind?: string
  namespace?: string
  name?: string
  addresses?: string[]
  node?: string
  enforcer?: string
  vm?: { id: string; name?: string; region?: string; network?: string }
  hidden?: boolean
  title: string
}

export interface Groups {
  interface: string
  outcome: string
  group?: { id: string; name?: string; ours?: boolean }
  rule?: string
  held?: { id: string; name?: string; ours?: boolean }[]
}

export interface Decision {
  outcome: string
  notEnforced?: string
  policies?: (PolicyName & { state: string; why?: string })[]
  differs?: string
  ifEnforced?: Decision
  groups?: Groups
  native?: Groups
  failsafe?: string
  hostFailsafe?: string
  decidedBy?: RuleRef
  default?: string
  isolatedBy?: PolicyName[]
  passed?: RuleRef[]
  uncertain?: RuleRef[]
  possible?: string[]
}

export interface ACLEntry {
  acl: string
  subnet: string
  entry: number
  name?: string
  egress: boolean
  allowed?: boolean
  answer?: boolean
}

export interface Path {
  way: string
  fromNetwork?: string
  toNetwork?: string
  seenSource?: string
  sentTo?: string
  stoppedBy?: ACLEntry
  doubtedBy?: ACLEntry
  hops?: ACLEntry[]
  remarks?: string[]
}

/** The way from a load balancer to a target. */
export interface Hop {
  from?: string
  to?: string
  port: number
  verdict: string
  wanted: string
  path?: Path
  egress?: Decision
  ingress?: Decision
}

export interface BalancedTarget {
  group: string
  at: End
  preserved?: boolean
  traffic: Hop
  health?: Hop
  inUse: boolean
  further?: boolean
}

/** How a load balancer hands on what comes to its front end. */
export interface Balanced {
  balancer: string
  kind: string
  unknown?: string[]
  targets?: BalancedTarget[]
}

/** How an Egress lets a packet leave the cluster. */
export interface Leaving {
  egress: string
  state: string
  address?: string
  node?: string
  why?: string
}

/** leavingText says how a packet leaves the cluster, or why it does not. */
export function leavingText(l: Leaving): string {
  if (l.state === 'Leaves') {
    return `It leaves with ${l.address}${l.node ? `, which Node ${l.node} has` : ''}.`
  }
  const why = l.why ? `: ${l.why}` : ''
  return l.state === 'Dropped' ? `It is dropped instead of leaving otherwise${why}` : `It leaves${l.address ? ` with ${l.address}` : ''} or is dropped${why}`
}

export interface FlowPair {
  from?: string
  to?: string
  backend?: { namespace?: string; name?: string; address: string; port: number }
  at?: End
  verdict: string
  wanted: string
  path?: Path
  egress?: Decision
  atService?: Decision
  ingress?: Decision
  balanced?: Balanced
  leaving?: Leaving
}

export interface FlowAnswer extends Seen {
  from: End
  to: End
  protocol: string
  port?: number
  service?: { namespace: string; name: string; backends?: unknown[] }
  verdict: string
  wanted: string
  path?: Path
  reason?: string
  notes?: string[]
  egress?: Decision
  atService?: Decision
  ingress?: Decision
  balanced?: Balanced
  leaving?: Leaving
  flows?: FlowPair[]
}

export interface ReachRange {
  protocol: number
  from: number
  to: number
}

export interface ReachEnd {
  name: string
  kind?: string
  namespace?: string
  object?: string
  interface?: string
  addresses: string[]
  public?: boolean
  partly?: boolean
}

export interface ReachSide {
  endpoints?: ReachEnd[]
  addresses?: string[]
  addressesText?: string
  rest?: boolean
  hidden?: number
  /** How many endpoints are meant besides those that are named. */
  more?: number
}

export interface ReachDecision {
  outcome: string
  rule?: RuleRef
  passed?: RuleRef[]
  isolated?: boolean
  failsafe?: string
  hostFailsafe?: string
  groups?: boolean
}

export interface ReachRow {
  from: ReachSide
  to: ReachSide
  traffic: string
  except?: boolean
  ranges?: ReachRange[]
  verdict: string
  egress: ReachDecision
  ingress: ReachDecision
  noPeering?: boolean
}

export interface MatrixGroup {
  name: string
  count: number
  end?: ReachEnd
}

/** A part of a table of who reaches whom; cells say in which row and column they are. */
export interface ReachMatrix {
  rows: MatrixGroup[]
  columns: MatrixGroup[]
  cells: { row: number; column: number; verdict: string; text: string; mixed?: boolean }[]
  totalRows: number
  totalColumns: number
}

export interface MapNode {
  key: string
  label: string
  kind: string
  /** The kind of native services. */
  service?: string
  count?: number
  role?: string
  tier?: string
  namespace?: string
  account?: string
  region?: string
  network?: string
  /** The member of the set that has it, on a map of the set. */
  cluster?: string
  notEnforced?: string
  isolated?: string[]
  policies?: PolicyName[]
  members?: string[]
  addresses?: string[]
  rest?: boolean
}

export interface MapEdge {
  from: string
  to: string
  verdict: string
  by: string
  traffic: string
  except?: boolean
  ranges?: ReachRange[]
  change?: string
  policies?: PolicyName[]
}

export interface ReachMap {
  nodes: MapNode[]
  edges: MapEdge[]
  total: number
  moreEdges?: number
}

export interface ReachAnswer extends Seen {
  total: number
  flows?: ReachRow[]
  map?: ReachMap
  members?: ReachEnd[]
  matrix?: ReachMatrix
}

export interface EffectiveRule {
  rule: RuleRef
  peers?: string[]
  peersText?: string
  names?: string[]
  traffic: string
  decides: boolean
  by?: RuleRef[]
}

export interface EffectiveDirection {
  notEnforced?: string
  failsafe?: string
  hostFailsafe?: string
  rules?: EffectiveRule[]
  default: string
  isolatedBy?: PolicyName[]
}

export interface RuleUse {
  rule: RuleRef
  use: string
  endpoints: number
  by?: RuleRef[]
}

export interface RulesAnswer extends Seen {
  endpoints?: { name: string; interface?: string; ingress: EffectiveDirection; egress: EffectiveDirection }[]
  rules?: RuleUse[]
}

export interface ManifestError {
  reason: string
  code: number
  document?: number
  line?: number
  field?: string
  message: string
}

export interface PlanRule {
  direction: string
  protocol: number
  from: number
  to: number
  peer: string
  failsafe?: boolean
  text: string
}

export interface PlanStep {
  region: string
  network?: string
  kind: string
  target?: string
  name?: string
  others?: string[]
  vms?: string[]
  rules?: PlanRule[]
  replaced?: PlanRule[]
  removed?: PlanRule[]
  groupsBefore?: string[]
  groups?: string[]
  tags?: Record<string, string>
  reason?: string
  policies?: string[]
}

export interface PlanSummary {
  groupsCreated: number
  groupsChanged: number
  groupsDeleted: number
  rulesAdded: number
  rulesRemoved: number
  rulesReplaced: number
  interfaces: number
  interfaceEdits: number
  tagged: number
  steps: number
}

export interface PlanDocument {
  account: string
  partial?: boolean
  summary: PlanSummary
  steps: PlanStep[]
  groupNames?: Record<string, string>
}

export interface PlanNote {
  region?: string
  object?: string
  name?: string
  policy?: string
  reason?: string
  message: string
}

export interface PlanRefusal {
  policy?: string
  vm?: string
  vmName?: string
  region?: string
  direction?: string
  reason?: string
  message: string
  lack?: { quota: string; needed: number; available: number; wouldDo?: number; atLeast?: boolean }
  kept: boolean
}

export interface PlanQuota {
  region: string
  name: string
  before: number
  after: number
  limit: number
  where?: string
}

/** One end of flows that open or close: one of the three lists. */
export interface ChangeEnd {
  vms?: string[]
  addresses?: string[]
  rest?: boolean
  unseen?: string[]
}

export interface AccountPlan {
  account: string
  error?: string
  unread?: { region: string; message: string }[]
  plan: PlanDocument
  further: PlanDocument[]
  tagsOnly?: boolean
  wave?: { maxPerWave: number; plan: PlanDocument }
  brake?: { message: string; hash: string; command: string; confirmed: boolean; onceEnforced: boolean }
  planned?: { vms: number; message: string }
  quotas: PlanQuota[]
  reachability: { region: string; opens: boolean; packets: { text: string; except?: boolean; ranges?: ReachRange[] }; from: ChangeEnd; to: ChangeEnd }[]
  reachabilityTold?: { region: string; opens: boolean; text: string; all?: string }[]
  policies: { policy: string; vms: number; others?: number; realized: number; pending: number; refused: number; released: number; planMode: number }[]
  refusals: PlanRefusal[]
  remedies?: { quota: string; wouldDo?: number; message: string }[]
  warnings: PlanNote[]
  drift: PlanNote[]
  cuts?: PlanNote[]
  notes: PlanNote[]
  /** How much is left out of lists that are too long. */
  more?: Record<string, number>
}

export interface PlanAnswer extends Seen {
  errors?: ManifestError[]
  accounts: AccountPlan[]
  incomplete?: string[]
  warnings: string[]
  warningReasons: string[]
  notes?: string[]
  map?: ReachMap
}

const kinds: Record<string, string> = {
  AntreaNetworkPolicy: 'policy',
  AntreaClusterNetworkPolicy: 'cluster policy',
  K8sNetworkPolicy: 'Kubernetes policy',
  AdminNetworkPolicy: 'admin policy',
  BaselineAdminNetworkPolicy: 'baseline admin policy',
}

/** policyName names a policy for people. */
export function policyName(p: PolicyName): string {
  if (p.hidden) {
    return 'a policy that you may not see'
  }
  return `${p.cluster ? p.cluster + ':' : ''}${p.namespace ? p.namespace + '/' : ''}${p.name}` + (p.type === 'K8sNetworkPolicy' ? ' (Kubernetes)' : '')
}

export function policyKind(p: PolicyName): string {
  return kinds[p.type] ?? p.type
}

/** policyPath is where the policy stands in the console; empty for one that has no page. */
export function policyPath(p: PolicyName): string {
  if (p.hidden || p.cluster) {
    return ''
  }
  if (p.type === 'AntreaClusterNetworkPolicy') {
    return '/policies/acnp/' + encodeURIComponent(p.name)
  }
  if (p.type === 'AntreaNetworkPolicy' && p.namespace) {
    return `/policies/annp/${encodeURIComponent(p.namespace)}/${encodeURIComponent(p.name)}`
  }
  return ''
}

/** ruleName names a rule within its policy. */
export function ruleName(r: RuleRef): string {
  return r.name || `${r.direction === 'In' ? 'ingress' : 'egress'}[${r.index}]`
}

/** parsePolicyText reads "KIND NAMESPACE/NAME", as plans name policies. */
export function parsePolicyText(text: string): PolicyName {
  const [type = '', rest = ''] = text.split(' ', 2)
  const slash = rest.indexOf('/')
  return slash < 0 ? { type, name: rest } : { type, namespace: rest.slice(0, slash), name: rest.slice(slash + 1) }
}
