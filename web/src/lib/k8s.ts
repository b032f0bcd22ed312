// The objects that the page shows, as far as it reads them. They come from the cluster: every text
// in them is untrusted, and is only ever written as text.

export interface Meta {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  generation?: number
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}

export interface Obj {
  apiVersion?: string
  kind?: string
  metadata: Meta
}

export interface Condition {
  type: string
  status: string
  reason?: string
  message?: string
  lastTransitionTime?: string
}

export interface Account extends Obj {
  spec: {
    mode?: string
    maxPerWave?: number
    failsafe?: unknown[]
    awsConfig?: { region: string[]; endpoint?: string; quotas?: Record<string, number> }
    azureConfig?: { region: string[] }
  }
  status?: {
    error?: string
    cloudAccountId?: string
    guardedVMs?: number
    conditions?: Condition[]
    lastSyncTime?: string
    regions?: { name: string; lastSyncTime?: string; lastError?: string; vms: number; vpcs: number }[]
  }
}

export interface Selector extends Obj {
  spec: { accountName: string; accountNamespace: string; mode?: string }
  status?: { error?: string; conditions?: Condition[]; matchedVMs?: number; guardedVMs?: number }
}

export interface PolicyOnVM {
  name: string
  namespace?: string
  kind: string
  uid: string
  phase: string
  message?: string
}

export interface Interface {
  name?: string
  mac?: string
  ips?: { addressType: string; address: string }[]
  securityGroupIds?: string[]
  formerSecurityGroupIds?: string[]
  groups?: string[]
}

/** What the status of everything says that is imported from a cloud and policies apply to. */
export interface ImportedStatus {
  provider?: string
  tags?: Record<string, string>
  addresses?: string
  region?: string
  cloudId?: string
  cloudName?: string
  cloudVpcId?: string
  cloudVpcName?: string
  mode?: string
  modeReason?: string
  modeUntil?: string
  conditions?: Condition[]
  unimportedTags?: { key: string; value?: string; reason: string }[]
  policies?: PolicyOnVM[]
  policySummary?: string
}

export interface Imported extends Obj {
  status?: ImportedStatus
}

export interface VM extends Imported {
  spec?: { tags?: Record<string, string> }
  status?: ImportedStatus & { networkInterfaces?: Interface[]; state?: string; agented?: boolean; agent?: VMAgent; lastSeen?: string }
}

/** The agent in a machine, as its status tells. */
export interface VMAgent {
  name: string
  version?: string
  kernel?: string
  health: string
  message?: string
  lastHeard?: string
  policies?: number
}

/** What an agent on a host or Node tells of itself. */
export interface AgentInfo extends Obj {
  version?: string
  nodeRef?: { kind?: string; namespace?: string; name?: string }
  networkPolicyControllerInfo?: { networkPolicyNum?: number }
  agentConditions?: (Condition & { lastHeartbeatTime?: string })[]
}

/** What services and interfaces say beside: whether policies may apply to them. */
interface Settable {
  settable?: boolean
  notSettable?: string
  securityGroupIds?: string[]
  formerSecurityGroupIds?: string[]
  dnsName?: string
}

/** A native service of a cloud: a database, a load balancer, an endpoint. */
export interface NativeService extends Imported {
  status?: ImportedStatus & Settable & { kind?: string; networkInterfaces?: Interface[]; ports?: { name: string; protocol: string; port: number }[]; cidrs?: string[]; group?: string }
}

/** A network interface that is imported by itself. */
export interface Nic extends Imported {
  status?: ImportedStatus & Settable & { type?: string; description?: string; cloudSubnetId?: string; mac?: string; ips?: { addressType: string; address: string }[]; attachedTo?: { kind: string; cloudId?: string; cloudName?: string } }
}

export interface Vpc extends Obj {
  status?: { cloudName?: string; cloudId?: string; provider?: string; region?: string; cidrs?: string[]; managed?: boolean; conditions?: Condition[] }
}

export interface LabelSelector {
  matchLabels?: Record<string, string>
  matchExpressions?: { key: string; operator: string; values?: string[] }[]
}

export interface Peer {
  podSelector?: LabelSelector
  namespaceSelector?: LabelSelector
  externalEntitySelector?: LabelSelector
  nodeSelector?: LabelSelector
  ipBlock?: { cidr: string; except?: string[] }
  group?: string
  fqdn?: string
  [other: string]: unknown
}

export interface PolicyPort {
  protocol?: string
  port?: number | string
  endPort?: number
  sourcePort?: number
  sourceEndPort?: number
}

export interface Rule {
  name?: string
  action: string
  from?: Peer[]
  to?: Peer[]
  ports?: PolicyPort[]
  protocols?: { icmp?: { icmpType?: number; icmpCode?: number }; igmp?: unknown }[]
  appliedTo?: Peer[]
  [other: string]: unknown
}

export interface Policy extends Obj {
  spec: { tier?: string; priority: number; appliedTo?: Peer[]; ingress?: Rule[]; egress?: Rule[] }
  status?: {
    phase?: string
    observedGeneration?: number
    currentNodesRealized?: number
    desiredNodesRealized?: number
    vms?: string
    message?: string
    conditions?: Condition[]
    clusters?: ClusterRealization[]
  }
}

/** How far a policy is realized in a cluster of the set. */
export interface ClusterRealization {
  name: string
  phase?: string
  observedGeneration?: number
  currentNodesRealized?: number
  desiredNodesRealized?: number
  reason?: string
  message?: string
}

/** A member of the set, in its hub. */
export interface SetCluster extends Obj {
  spec?: { addresses?: { pods?: string[]; nodes?: string[]; machines?: string[] }; namespaces?: string[]; accounts?: string[] }
  status?: { version?: string; since?: string; lastHeard?: string; namespaces?: number; entities?: number; policies?: number; refused?: number; kubernetesPolicies?: (Omit<ClusterRealization, 'name' | 'observedGeneration'> & { namespace: string; name: string })[]; kubernetesPoliciesMore?: number; conditions?: Condition[] }
}

export interface Tier extends Obj {
  spec: { priority: number; description?: string }
}

export interface Group extends Obj {
  spec: Record<string, unknown>
  status?: { conditions?: Condition[] }
}

export interface Pod extends Obj {
  spec?: { nodeName?: string; hostNetwork?: boolean }
  status?: { phase?: string; podIP?: string; podIPs?: { ip: string }[] }
}

export interface Entity extends Obj {
  spec?: { endpoints?: { ip?: string; name?: string }[]; externalNode?: string; ports?: { name?: string; port?: number; protocol?: string }[] }
}

export interface Event extends Obj {
  type?: string
  reason?: string
  message?: string
  note?: string
  count?: number
  firstTimestamp?: string
  lastTimestamp?: string
  eventTime?: string
  involvedObject?: { kind?: string; namespace?: string; name?: string; uid?: string }
  regarding?: { kind?: string; namespace?: string; name?: string; uid?: string }
}

export interface Revision extends Obj {
  spec: {
    object: { group: string; version: string; kind: string; namespace?: string; name: string; uid: string }
    number: number
    change: string
    generation: number
    merged?: number
    time: string
    author?: { user?: string; manager?: string }
    hash?: string
    content?: string
    compressed?: string
    size: number
    proof?: string
  }
  status?: { phase?: string; vms?: string; message?: string; accounts?: { account: string; calls?: Record<string, number>; failed?: number; lastError?: string }[] }
}

/** condition returns the condition of that type, if the object has it. */
export function condition(o: { status?: { conditions?: Condition[] } } | undefined, type: string): Condition | undefined {
  return o?.status?.conditions?.find((c) => c.type === type)
}

/** isTrue tells whether the condition of that type is there and True. */
export function isTrue(o: { status?: { conditions?: Condition[] } } | undefined, type: string): boolean {
  return condition(o, type)?.status === 'True'
}

/** ref is NAMESPACE/NAME, or NAME of what is in no namespace. */
export function ref(o: { metadata: Meta }): string {
  return o.metadata.namespace ? `${o.metadata.namespace}/${o.metadata.name}` : o.metadata.name
}

/** vmName is what people call the machine, or what else is imported. */
export function vmName(vm: Imported): string {
  return vm.status?.cloudName || vm.metadata.name
}

export const LABEL_TAG = 'nephe.antrea.io/tag-'
export const LABEL_USER_TAG = 'nephele.io/user-tag-'
export const STAGE = 'nephele.io/stage'
export const BREAK_GLASS = 'nephele.io/break-glass'
export const BREAK_GLASS_UNTIL = 'nephele.io/break-glass-until'
