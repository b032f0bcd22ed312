// A world to look at while one works on the page: what the server of the console would answer.
// `vms` machines in networks of about 250, with policies, drift, history and hostile names.

const HOSTILE = '<img src=x onerror=alert(1)>'

export function makeWorld({ vms = 24, hostile = true, edit = true } = {}) {
  const now = Date.now()
  const at = (minutes) => new Date(now - minutes * 60_000).toISOString()
  const roles = ['web', 'app', 'db', 'cache', 'batch', 'bastion']
  const nets = Math.max(2, Math.ceil(vms / 250))
  const net = (i) => `vpc-${String(0xa10c3 + i * 7919).padStart(8, '0')}`
  const machines = []
  for (let i = 0; i < vms; i++) {
    const role = roles[i % roles.length]
    const n = i % nets
    const id = `i-0${(0x5f3a0000 + i * 104729).toString(16)}`
    const name = hostile && i === 7 ? HOSTILE : `${role}-${1 + Math.floor(i / roles.length)}`
    const failed = i % 37 === 11
    const mode = i % 41 === 5 ? 'plan' : i === 17 ? 'break-glass' : ''
    machines.push({
      role,
      n,
      object: {
        metadata: {
          name: id,
          namespace: n > 1 ? ['data', 'edge', 'batch', 'tools', 'ci', 'web'][n % 6] : n % 2 ? 'shop' : 'prod',
          uid: 'vm-' + i,
          resourceVersion: String(i),
          labels: { 'nephe.antrea.io/cpa-name': 'production', 'nephe.antrea.io/cpa-namespace': 'cloud' },
          annotations: mode === 'break-glass' ? { 'nephele.io/break-glass': 'nobody could log in, INC-4711' } : {},
        },
        spec: {},
        status: {
          provider: n % 3 === 2 ? 'Azure' : 'AWS',
          tags: { Name: name, role, team: hostile && i === 7 ? '"><script>alert(2)</script>' : 'payments' },
          networkInterfaces: [
            { name: `eni-0${i.toString(16)}c4`, ips: [{ addressType: 'InternalIP', address: `10.${n + 1}.${i >> 8}.${i & 255}` }], securityGroupIds: ['sg-0aa17f'], formerSecurityGroupIds: ['sg-2bd296', 'sg-9911'] },
          ],
          addresses: `10.${n + 1}.${i >> 8}.${i & 255}`,
          state: 'running',
          region: ['eu-west-1', 'us-east-1'][n % 2],
          cloudId: id,
          cloudName: name,
          cloudVpcId: net(n),
          cloudVpcName: ['production', 'staging', 'data', 'edge'][n % 4] + (n > 3 ? '-' + n : ''),
          mode,
          modeReason: mode === 'break-glass' ? 'annotation of the VirtualMachine: nobody could log in, INC-4711' : mode ? 'CloudEntitySelector prod/all' : undefined,
          conditions: [
            { type: 'Observed', status: 'True', reason: 'OK', lastTransitionTime: at(300) },
            { type: 'Realized', status: failed ? 'False' : 'True', reason: failed ? 'PolicyFailed' : 'OK', message: failed ? 'needs 73 ingress rules in one group, quota 60' : '', lastTransitionTime: at(12) },
          ],
          lastSeen: at(1),
          policies: mode
            ? []
            : [
                { name: 'no-ssh-from-outside', kind: 'AntreaClusterNetworkPolicy', uid: 'p1', phase: 'Realized' },
                ...(role === 'db' ? [{ name: 'db-from-app', namespace: 'shop', kind: 'AntreaNetworkPolicy', uid: 'p2', phase: failed ? 'Failed' : 'Realized', message: failed ? 'needs 73 ingress rules in one group, quota 60' : '' }] : []),
              ],
          policySummary: mode ? '' : failed ? '1/2' : role === 'db' ? '2/2' : '1/1',
        },
      },
    })
  }
  // Native services and an interface beside the machines.
  const imported = (i, name, cloudName, address, status) => ({
    metadata: { name, namespace: 'shop', uid: 'x-' + i, resourceVersion: String(i), labels: { 'nephe.antrea.io/cpa-name': 'production', 'nephe.antrea.io/cpa-namespace': 'cloud' } },
    status: { provider: 'AWS', tags: { team: 'payments' }, addresses: address, region: 'eu-west-1', cloudId: 'arn:aws:made-up:eu-west-1:111122223333:' + cloudName, cloudName, cloudVpcId: net(0), cloudVpcName: 'production', settable: true, securityGroupIds: ['sg-0aa17f'], conditions: [{ type: 'Observed', status: 'True', reason: 'OK', lastTransitionTime: at(300) }], policies: [], ...status },
  })
  const nic = (id, address) => ({ networkInterfaces: [{ name: id, ips: [{ addressType: 'InternalIP', address }], securityGroupIds: ['sg-0aa17f'] }] })
  const dbPolicy = (phase, message) => ({ policies: [{ name: 'db-from-app', namespace: 'shop', kind: 'AntreaNetworkPolicy', uid: 'p2', phase, message }], policySummary: phase === 'Realized' ? '1/1' : '0/1' })
  const services = [
    imported(1, 'rdsinstance-orders-0a1b2c3d4e', 'orders', '10.1.9.20', { ...nic('eni-0d1', '10.1.9.20'), ...dbPolicy('Realized'), kind: 'RDSInstance', dnsName: 'orders.example.com', ports: [{ name: 'postgres', protocol: 'TCP', port: 5432 }], formerSecurityGroupIds: ['sg-2bd296'] }),
    imported(2, 'applicationloadbalancer-front-1a2b3c4d5e', 'front', '10.1.9.30', { ...nic('eni-0d2', '10.1.9.30'), kind: 'ApplicationLoadBalancer', ports: [{ name: 'https', protocol: 'TCP', port: 443 }] }),
    imported(3, 'networkloadbalancer-pass-2a3b4c5d6e', 'pass', '10.1.9.40', { ...nic('eni-0d3', '10.1.9.40'), ...dbPolicy('Failed', 'it was made without security groups, and takes none'), kind: 'NetworkLoadBalancer', settable: false, notSettable: 'it was made without security groups, and takes none', ports: [{ name: 'tcp', protocol: 'TCP', port: 81 }] }),
  ]
  const interfaces = [imported(4, 'eni-0e1', 'firewall-inside', '10.1.9.50', { ips: [{ addressType: 'InternalIP', address: '10.1.9.50' }], cloudId: 'eni-0e1', attachedTo: { kind: 'VirtualMachine', cloudId: 'i-0fire', cloudName: 'firewall' } })]
  const policy = (kind, name, namespace, spec, status, more = {}) => ({
    apiVersion: 'crd.antrea.io/v1beta1',
    kind,
    metadata: { name, namespace, uid: 'u-' + name, generation: 3, resourceVersion: '77', ...more },
    spec,
    status: { observedGeneration: 3, ...status },
  })
  const acnp = [
    policy('ClusterNetworkPolicy', 'no-ssh-from-outside', undefined, { tier: 'securityops', priority: 5, appliedTo: [{ group: 'all-vms' }], ingress: [{ name: 'ssh', action: 'Drop', from: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['192.168.0.0/16'] } }], ports: [{ protocol: 'TCP', port: 22 }] }] }, { phase: 'Realized', vms: `${vms}/${vms}` }),
    policy('ClusterNetworkPolicy', 'no-telnet', undefined, { tier: 'emergency', priority: 1, appliedTo: [{ group: 'all-vms' }], ingress: [{ name: 'telnet', action: 'Drop', ports: [{ protocol: 'TCP', port: 23 }] }] }, { phase: 'Realized', vms: `${vms}/${vms}` }),
    policy('ClusterNetworkPolicy', 'default-deny', undefined, { tier: 'baseline', priority: 100, appliedTo: [{ namespaceSelector: {} }], ingress: [{ action: 'Drop' }] }, {}, { annotations: { 'nephele.io/stage': 'plan' } }),
  ]
  const annp = [
    policy('NetworkPolicy', 'db-from-app', 'shop', { tier: 'application', priority: 10, appliedTo: [{ externalEntitySelector: { matchLabels: { 'nephe.antrea.io/tag-role': 'db' } } }], ingress: [{ name: 'postgres', action: 'Allow', from: [{ externalEntitySelector: { matchLabels: { 'nephe.antrea.io/tag-role': 'app' } } }], ports: [{ protocol: 'TCP', port: 5432 }] }, { name: 'old', action: 'Allow', from: [{ externalEntitySelector: { matchLabels: { 'nephe.antrea.io/tag-role': 'app' } } }], ports: [{ protocol: 'TCP', port: 5432 }] }] }, { phase: 'Failed', vms: '3/4', message: 'refused on 1 VMs, for example shop/db-2: needs 73 ingress rules in one group, quota 60' }),
    policy('NetworkPolicy', 'web', 'prod', { tier: 'application', priority: 20, appliedTo: [{ externalEntitySelector: { matchLabels: { 'nephe.antrea.io/tag-role': 'web' } } }], ingress: [{ name: 'https', action: 'Allow', ports: [{ protocol: 'TCP', port: 443 }, { protocol: 'TCP', port: 80 }] }], egress: [{ name: 'to-app', action: 'Allow', to: [{ externalEntitySelector: { matchLabels: { 'nephe.antrea.io/tag-role': 'app' } } }], ports: [{ protocol: 'TCP', port: 8080, endPort: 8090 }] }] }, { phase: 'Realizing', vms: '2/4' }),
  ]
  const revision = (i, o, change, user, phase) => ({
    metadata: { name: `${o.kind === 'NetworkPolicy' ? 'annp' : 'acnp'}-${o.metadata.name}-${i}`, namespace: o.metadata.namespace, uid: 'r' + o.metadata.name + i },
    spec: { object: { group: 'crd.antrea.io', version: 'v1beta1', kind: o.kind, namespace: o.metadata.namespace, name: o.metadata.name, uid: 'x' }, number: i, change, generation: i, time: at(200 - i * 30), author: { user, manager: 'kubectl' }, content: JSON.stringify({ apiVersion: o.apiVersion, kind: o.kind, metadata: { name: o.metadata.name, namespace: o.metadata.namespace }, spec: { ...o.spec, priority: o.spec.priority + i } }), size: 400 },
    status: { phase, vms: '3/4', accounts: [{ account: 'cloud/production', calls: { AuthorizeSecurityGroupIngress: 2, ModifyNetworkInterfaceAttribute: 3 } }] },
  })
  const event = (i, reason, note, minutes) => ({ metadata: { name: 'e' + i, namespace: 'cloud' }, type: reason === 'Drift' ? 'Warning' : 'Normal', reason, note, lastTimestamp: at(minutes), regarding: { kind: 'CloudProviderAccount', namespace: 'cloud', name: 'production' } })
  const label = (m) => ({ 'nephe.antrea.io/kind': 'virtualmachine', 'nephe.antrea.io/tag-role': m.role, 'nephe.antrea.io/tag-team': 'payments', 'nephe.antrea.io/cloud-region': m.object.status.region })
  const lists = {
    accounts: [
      { metadata: { name: 'production', namespace: 'cloud', uid: 'a1' }, spec: { awsConfig: { region: ['eu-west-1', 'us-east-1'] } }, status: { guardedVMs: Math.round(vms * 0.8), conditions: [{ type: 'Ready', status: 'True' }, { type: 'Drift', status: 'True', reason: 'BeingRepaired', message: 'since 2026-11-23T07:10:00Z: eu-west-1 sg-3ed2b0 (for shop/db-from-app): somebody has added ingress tcp 22 from 0.0.0.0/0' }], regions: [{ name: 'eu-west-1', vms: Math.ceil(vms / 2), vpcs: nets, lastSyncTime: at(0.4) }, { name: 'us-east-1', vms: Math.floor(vms / 2), vpcs: 2, lastSyncTime: at(0.9) }] } },
      { metadata: { name: 'data', namespace: 'cloud', uid: 'a2' }, spec: { mode: 'plan', azureConfig: { region: ['westeurope'] } }, status: { guardedVMs: 0, conditions: [{ type: 'Ready', status: 'False', reason: 'Unreachable', message: 'westeurope: the cloud does not answer' }], regions: [{ name: 'westeurope', vms: 2, vpcs: 1, lastSyncTime: at(14), lastError: 'Get "https://management.azure.com": dial tcp: i/o timeout' }] } },
    ],
    selectors: [{ metadata: { name: 'all', namespace: 'prod' }, spec: { accountName: 'production', accountNamespace: 'cloud' }, status: { matchedVMs: vms, conditions: [{ type: 'Ready', status: 'True' }] } }],
    virtualmachines: machines.map((m) => m.object),
    cloudnativeservices: services,
    networkinterfaces: interfaces,
    vpcs: [...Array(nets).keys()].map((i) => ({ metadata: { name: net(i), namespace: 'cloud' }, status: { cloudName: 'production', cloudId: net(i) } })),
    externalentities: machines.map((m) => ({ metadata: { name: 'virtualmachine-' + m.object.metadata.name, namespace: m.object.metadata.namespace, labels: label(m) }, spec: {} })),
    networkpolicies: [],
    acnp,
    annp,
    tiers: ['emergency:50', 'securityops:100', 'networkops:150', 'platform:200', 'application:250', 'baseline:253'].map((t) => ({ metadata: { name: t.split(':')[0] }, spec: { priority: Number(t.split(':')[1]) } })),
    groups: [],
    clustergroups: [{ metadata: { name: 'all-vms' }, spec: { externalEntitySelector: { matchLabels: { 'nephe.antrea.io/kind': 'virtualmachine' } } } }],
    namespaces: ['cloud', 'shop', 'prod', 'kube-system'].map((n) => ({ metadata: { name: n, labels: { 'kubernetes.io/metadata.name': n } } })),
    pods: [{ metadata: { name: 'reports', namespace: 'shop', labels: { app: 'reports' } }, spec: { nodeName: 'node-1' }, status: { phase: 'Running', podIP: '10.244.1.7' } }],
    services: [],
    policyrevisions: annp.flatMap((o) => [revision(1, o, 'Created', 'ada@example.com', 'Realized'), revision(2, o, 'Changed', hostile ? '<b>mallory</b>' : 'bob@example.com', 'Failed')]),
    clusterpolicyrevisions: acnp.slice(0, 2).map((o) => revision(1, o, 'Created', 'ops', 'Realized')),
    events: [
      event(1, 'Drift', 'eu-west-1 sg-3ed2b0 (for shop/db-from-app): somebody has added ingress tcp 22 from 0.0.0.0/0, by arn:aws:iam::111122223333:user/carol (AuthorizeSecurityGroupIngress at 2026-11-23T07:09:58Z)', 6),
      event(2, 'DriftRepaired', 'eu-west-1 sg-99ad01: a rule was gone: ingress tcp 443 from 10.1.0.0/16, by arn:aws:sts::111122223333:assumed-role/terraform (RevokeSecurityGroupIngress at 2026-11-23T05:40:12Z)', 95),
      event(3, 'Drift', 'eu-west-1 sg-99ad01: a rule was gone: ingress tcp 443 from 10.1.0.0/16, by arn:aws:sts::111122223333:assumed-role/terraform (RevokeSecurityGroupIngress at 2026-11-23T05:40:12Z)', 96),
      event(4, 'Changed', '3 groups changed, 2 interfaces set, 14 calls, for shop/db-from-app', 12),
    ],
  }
  const end = (m) => ({ name: `vm/${m.object.metadata.namespace}/${m.object.status.cloudName}`, kind: 'ExternalEntity', namespace: m.object.metadata.namespace, object: 'virtualmachine-' + m.object.metadata.name, addresses: [m.object.status.addresses] })
  const rule = (p, name, dir = 'In', type = 'AntreaNetworkPolicy', ns = 'shop') => ({ policy: { type, namespace: ns, name: p }, direction: dir, name, index: 0, action: 'Allow', tierPriority: 250, priority: 10 })
  const of = (role) => machines.filter((m) => m.role === role)
  const rows = () => {
    const out = []
    const flow = (f, t, traffic, protocol, port, verdict, ingress) => out.push({ from: { endpoints: of(f).slice(0, 40).map(end) }, to: { endpoints: of(t).slice(0, 40).map(end) }, traffic, ranges: [{ protocol, from: port, to: port }], verdict, egress: { outcome: 'Native', groups: true }, ingress })
    flow('app', 'db', 'tcp 5432', 6, 5432, 'Allow', { outcome: 'Allow', rule: rule('db-from-app', 'postgres') })
    flow('web', 'app', 'tcp 8080-8090', 6, 8080, 'Allow', { outcome: 'Allow', rule: rule('web', 'to-app') })
    flow('bastion', 'app', 'tcp 22', 6, 22, 'Native', { outcome: 'Native', groups: true })
    flow('batch', 'db', 'tcp 5432', 6, 5432, 'Unknown', { outcome: 'Unknown' })
    flow('cache', 'db', 'tcp 5432', 6, 5432, 'Drop', { outcome: 'Drop', isolated: true })
    out.push({ from: { addresses: ['0.0.0.0/0'], rest: true }, to: { endpoints: of('web').slice(0, 40).map(end) }, traffic: 'tcp 443, tcp 80', ranges: [{ protocol: 6, from: 443, to: 443 }], verdict: 'Allow', egress: { outcome: 'Allow' }, ingress: { outcome: 'Allow', rule: rule('web', 'https', 'In', 'AntreaNetworkPolicy', 'prod') } })
    return out
  }
  const grouped = (spec) => {
    const groupsOf = (s) => (s.addresses ? ['outside'] : [...new Set(s.endpoints.map((e) => (spec.groupBy === 'machine' ? e.name : spec.groupBy === 'namespace' ? e.namespace : spec.groupBy === 'kind' ? e.kind : '(without)')))])
    const all = rows()
    const axis = (side) => [...new Set(all.flatMap((r) => groupsOf(r[side])))].sort().map((name) => ({ name, count: 1, end: all.flatMap((r) => r[side].endpoints ?? []).find((e) => spec.groupBy === 'machine' && e.name === name) }))
    const [allRows, allColumns] = [axis('from'), axis('to')]
    if (spec.row) return { total: all.length, flows: all.filter((r) => groupsOf(r.from).includes(spec.row) && groupsOf(r.to).includes(spec.column)) }
    const rowsHere = allRows.slice(spec.firstRow, spec.firstRow + spec.rows)
    const columnsHere = allColumns.slice(spec.firstColumn, spec.firstColumn + spec.columns)
    const cells = new Map()
    for (const r of all) for (const f of groupsOf(r.from)) for (const t of groupsOf(r.to)) {
      const [row, column] = [rowsHere.findIndex((g) => g.name === f), columnsHere.findIndex((g) => g.name === t)]
      if (row >= 0 && column >= 0 && f !== t) cells.set(`${row} ${column}`, { row, column, verdict: r.verdict, text: r.traffic, mixed: cells.has(`${row} ${column}`) })
    }
    return { total: allRows.length, flows: [], matrix: { rows: rowsHere, columns: columnsHere, cells: [...cells.values()], totalRows: allRows.length, totalColumns: allColumns.length } }
  }
  const map = (planned) => {
    const nodes = [{ key: 'world', label: 'the rest of 0.0.0.0/0', kind: 'Addresses', addresses: ['0.0.0.0/0'], rest: true }, { key: 'pod', label: 'app=reports', kind: 'Pod', count: 1, namespace: 'shop', members: ['pod/shop/reports'] }]
    const edges = []
    const seen = new Map()
    for (const m of machines) {
      const k = `${m.role}-${m.n}`
      const node = seen.get(k)
      if (node) {
        node.count++
        if (node.members.length < 5) node.members.push(end(m).name)
        continue
      }
      const fresh = { key: k, label: m.role + (m.role === 'db' ? ' · db-from-app' : ''), kind: 'VM', count: 1, namespace: m.object.metadata.namespace, account: 'cloud/production', region: m.object.status.region, network: m.object.status.cloudVpcId, policies: [{ type: 'AntreaClusterNetworkPolicy', name: 'no-ssh-from-outside' }], members: [end(m).name], isolated: m.role === 'db' ? ['In'] : [], role: m.role, tier: { web: 'front', app: 'middle', db: 'data' }[m.role] }
      seen.set(k, fresh)
      nodes.push(fresh)
    }
    for (const [key, kind, word, list] of [['cns', 'CloudNativeService', 'cns', services], ['nic', 'NetworkInterface', 'nic', interfaces]]) {
      list.forEach((o, i) => {
        seen.set(key + i, true)
        nodes.push({ key: key + i, label: o.status.cloudName, kind, service: o.status.kind, count: 1, namespace: 'shop', account: 'cloud/production', region: 'eu-west-1', network: net(0), policies: o.status.policies.map((p) => ({ type: p.kind, namespace: p.namespace, name: p.name })), members: [`${word}/shop/${o.status.cloudName}`] })
      })
    }
    const edge = (from, to, verdict, by, traffic, port, more = {}) => seen.has(from) | (from === 'world') | (from === 'pod') && edges.push({ from, to, verdict, by, traffic, ranges: port ? [{ protocol: 6, from: port, to: port }] : [], ...more })
    edge('app-0', 'cns0', 'Allow', 'Policies', 'tcp 5432', 5432, { policies: [{ type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'db-from-app' }] })
    edge('world', 'cns1', 'Native', 'Groups', 'tcp 443', 443)
    edge('cns1', 'web-0', 'Allow', 'Policies', 'tcp 443', 443)
    edge('nic0', 'app-0', 'Native', 'Groups', 'tcp 22', 22)
    // Within a network machines reach one another as their own groups say, but for the databases.
    for (let n = 0; n < nets; n++) {
      for (const a of roles) for (const b of roles) if (a !== b && b !== 'db') edge(`${a}-${n}`, `${b}-${n}`, 'Allow', 'Groups', 'everything', 0)
      for (const a of roles) edge(`${a}-${n}`, 'world', 'Allow', 'Nobody', 'everything', 0)
    }
    for (const key of seen.keys()) if (key !== 'app-0') edge(key, 'app-0', 'Allow', 'Groups', 'tcp 9100', 9100)
    edge('pod', 'app-0', 'Allow', 'Groups', 'tcp 9100', 9100)
    for (let n = 0; n < nets; n++) {
      edge(`app-${n}`, `db-${n}`, 'Allow', 'Policies', 'tcp 5432', 5432, { policies: [{ type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'db-from-app' }] })
      edge(`web-${n}`, `app-${n}`, 'Allow', 'Policies', 'tcp 8080-8090', 8080)
      edge(`bastion-${n}`, `app-${n}`, 'Native', 'Groups', 'tcp 22', 22)
      edge(`cache-${n}`, `db-${n}`, 'Drop', 'Policies', 'tcp 5432', 5432)
      edge(`batch-${n}`, `db-${n}`, 'Unknown', 'Unknown', 'tcp 5432', 5432)
      edge('world', `web-${n}`, 'Allow', 'Policies', 'tcp 443, tcp 80', 443)
      edge('world', `bastion-${n}`, 'Drop', 'Policies', 'tcp 22', 22)
      if (planned) {
        edge('pod', `db-${n}`, 'Allow', 'Policies', 'tcp 5432', 5432, { change: 'Opens' })
        edge(`bastion-${n}`, `app-${n}`, 'Native', 'Groups', 'tcp 3306', 3306, { change: 'Closes' })
      }
    }
    const known = new Set(nodes.map((n) => n.key))
    return { nodes, edges: edges.filter((e) => known.has(e.from) && known.has(e.to)), total: nodes.filter((n) => n.kind !== 'Addresses').length }
  }
  const seen = { asOf: at(0) }
  const plan = (spec) => ({
    ...seen,
    accounts: [
      {
        account: 'cloud/production',
        plan: {
          account: 'cloud/production',
          summary: { groupsCreated: 1, groupsChanged: 1, groupsDeleted: 0, rulesAdded: 2, rulesRemoved: 1, rulesReplaced: 0, interfaces: 2, interfaceEdits: 2, tagged: 2, steps: 5 },
          groupNames: { 'sg-3ed2b0': 'nephele: shop/db-from-app' },
          steps: [
            { region: 'eu-west-1', network: net(0), kind: 'CreateGroup', name: 'new-group-1', reason: 'guarded class, interfaces: 2', policies: ['AntreaNetworkPolicy shop/db-from-app'] },
            { region: 'eu-west-1', network: net(0), kind: 'AddRules', name: 'new-group-1', rules: [{ direction: 'In', protocol: 6, from: 5432, to: 5432, peer: 'sg-ee89', text: 'ingress tcp 5432 from sg-ee89 (app)' }], policies: ['AntreaNetworkPolicy shop/db-from-app'] },
            { region: 'eu-west-1', network: net(0), kind: 'RemoveRules', target: 'sg-3ed2b0', rules: [{ direction: 'In', protocol: 6, from: 22, to: 22, peer: '0.0.0.0/0', text: 'ingress tcp 22 from 0.0.0.0/0' }], reason: 'added by somebody else' },
            { region: 'eu-west-1', network: net(0), kind: 'Tag', target: 'eni-04', vms: ['db-1', 'db-2'], reason: 'remember its groups' },
            { region: 'eu-west-1', network: net(0), kind: 'SetInterfaceGroups', target: 'eni-04', vms: ['db-1', 'db-2'], groupsBefore: ['sg-4039'], groups: ['new-group-1'], reason: 'take over' },
          ],
        },
        further: [],
        quotas: [
          { region: 'eu-west-1', name: 'rules in a group', before: 41, after: 57, limit: 60, where: 'sg-3ed2b0' },
          { region: 'eu-west-1', name: 'groups of an interface', before: 3, after: 3, limit: 5, where: 'eni-04' },
          { region: 'eu-west-1', name: 'groups in the region', before: 212, after: 213, limit: 2500 },
        ],
        reachability: [{ region: 'eu-west-1', opens: true, packets: { text: 'tcp 5432' }, from: { vms: ['app-1'] }, to: { vms: ['db-1'] } }],
        reachabilityTold: [
          { region: 'eu-west-1', opens: true, text: 'opens tcp 5432 from app-1, app-2 to db-1, db-2' },
          { region: 'eu-west-1', opens: false, text: 'closes everything to db-1, db-2 except tcp 5432 from app-1, app-2' },
        ],
        policies: [{ policy: 'AntreaNetworkPolicy shop/db-from-app', vms: 4, realized: 2, pending: 1, refused: 1, released: 0, planMode: 0 }],
        refusals: [{ policy: 'AntreaNetworkPolicy shop/db-from-app', vm: 'eu-west-1/i-1', vmName: 'db-2', message: 'needs 73 ingress rules in one group, quota 60', lack: { quota: 'rulesPerGroup', needed: 73, available: 60 }, kept: true }],
        remedies: [{ quota: 'rulesPerGroup', message: 'raise “Inbound or outbound rules per security group” (L-0EA8095F), then set spec.awsConfig.quotas.rulesPerGroup' }],
        failsafe: [],
        warnings: [],
        drift: [],
        notes: [],
      },
    ],
    warnings: [],
    warningReasons: [],
    ...(spec.map ? { map: map(true) } : {}),
  })
  const hop = (verdict, port) => ({ from: '10.1.9.30', port, verdict, wanted: verdict, ingress: verdict === 'Allow' ? { outcome: verdict, decidedBy: rule('web', 'https', 'In', 'AntreaNetworkPolicy', 'prod') } : { outcome: verdict, default: 'isolated', isolatedBy: [{ type: 'AntreaNetworkPolicy', namespace: 'prod', name: 'web' }] } })
  const balanced = { balancer: 'front', kind: 'ApplicationLoadBalancer', targets: ['web-1', 'web-2'].map((name, i) => ({ group: 'web', at: { title: 'VM prod/' + name }, traffic: hop('Allow', 443), health: hop(i ? 'Allow' : 'Drop', 8080), inUse: i > 0 })) }
  const flow = (spec) => ({
    ...seen,
    from: { title: 'VM ' + spec.from },
    to: { title: 'VM ' + spec.to },
    protocol: spec.protocol ?? 'TCP',
    port: Number(spec.port) || undefined,
    verdict: 'Drop',
    wanted: 'Drop',
    egress: { outcome: 'Allow', native: { interface: 'eni-04', outcome: 'Allow', group: { id: 'sg-2bd296', name: 'default' }, rule: 'egress all to 0.0.0.0/0' }, default: 'native' },
    ingress: { outcome: 'Drop', default: 'isolated', isolatedBy: [{ type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'db-from-app' }] },
    path: { way: 'Peered', remarks: ['SourceTranslated'] },
    notes: [],
    ...(spec.to?.startsWith('cns/') ? { balanced } : {}),
  })
  const traffic = () => {
    const one = (role, n) => machines.find((m) => m.role === role && m.n === n) ?? machines.find((m) => m.role === role)
    const at = (m) => ({ address: m.object.status.addresses, kind: 'ExternalEntity', namespace: m.object.metadata.namespace, name: 'virtualmachine-' + m.object.metadata.name })
    const flow = (from, to, port, verdict, connections, more = {}) => ({ first: seen.asOf, last: seen.asOf, enforcer: 'shop/host', direction: 'In', from, to, protocol: 'TCP', port, verdict, by: { cause: 'Policy', type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'db-from-app', rule: 'postgres' }, connections, bytes: connections * 4711, ...more })
    return {
      since: seen.asOf,
      next: '1',
      enforcers: 3,
      flows: [flow(at(one('app', 0)), at(one('db', 0)), 5432, 'Allow', 120), flow(at(one('web', 0)), at(one('app', 0)), 8080, 'Allow', 12, { by: { cause: 'Native' } }), flow(at(one('cache', 0)), at(one('db', 0)), 5432, 'Drop', 7), flow({ address: '203.0.113.7' }, at(one('bastion', 0)), 22, 'Drop', 33), flow({ address: '203.0.113.7' }, at(one('web', 1)), 443, 'Allow', 4, { differs: 'Leaks' })],
    }
  }
  const review = (kind, spec) => {
    switch (kind) {
      case 'ReachReview':
        return spec.groupBy ? { ...seen, ...grouped(spec) } : spec.grouped ? { ...seen, total: 0, flows: [], map: map(false) } : spec.members ? { ...seen, total: 2, members: machines.slice(0, 9).map(end) } : { ...seen, total: rows().length, flows: spec.page > 1 ? [] : rows() }
      case 'FlowReview':
        return flow(spec)
      case 'EffectiveRules':
        return spec.of
          ? { ...seen, endpoints: [{ name: spec.of, interface: 'eni-04', ingress: { rules: [{ rule: { ...rule('no-ssh-from-outside', 'ssh', 'In', 'AntreaClusterNetworkPolicy', undefined), action: 'Drop' }, peers: ['0.0.0.0/0'], traffic: 'tcp 22', decides: true }, { rule: rule('db-from-app', 'postgres'), peers: ['10.1.0.10/32', '10.1.0.11/32'], traffic: 'tcp 5432', decides: true }, { rule: { ...rule('db-from-app', 'old'), index: 1 }, peers: ['10.1.0.10/32'], traffic: 'tcp 5432', decides: false, by: [rule('db-from-app', 'postgres')] }], default: 'Drop', isolatedBy: [{ type: 'AntreaNetworkPolicy', namespace: 'shop', name: 'db-from-app' }] }, egress: { default: 'Native' } }] }
          : { ...seen, rules: [{ rule: rule('db-from-app', 'postgres'), use: 'Used', endpoints: 4 }, { rule: { ...rule('db-from-app', 'old'), index: 1 }, use: 'Shadowed', endpoints: 4, by: [rule('db-from-app', 'postgres')] }, { rule: rule('web', 'https', 'In', 'AntreaNetworkPolicy', 'prod'), use: 'Used', endpoints: 4 }] }
      case 'PlanReview':
        return plan(spec)
      case 'FlowQuery':
        return traffic()
    }
    return {}
  }
  const session = { user: { username: 'nephele-admin', groups: ['system:masters'] }, mode: 'local', edit, version: 'v0.9.0', cluster: 'nephele-up', demo: false }
  return { lists, review, session }
}
