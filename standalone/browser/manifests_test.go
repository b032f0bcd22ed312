package browser

// setting is what is imported: the account, and the VMs of its two networks in two Namespaces. It
// takes a key, its secret, the region, the endpoint, the queue of events, and the two networks.
const setting = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: Secret
metadata: {name: cloud, namespace: shop}
stringData:
  credentials: '{"accessKeyId": "%s", "accessKeySecret": "%s"}'
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudProviderAccount
metadata: {name: cloud, namespace: shop}
spec:
  pollIntervalInSeconds: 30
  deletionPolicy: Release
  awsConfig:
    region: [%s]
    endpoint: %s
    eventQueue: [{url: %s}]
    secretRef: {name: cloud, namespace: shop, key: credentials}
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: production, namespace: shop}
spec:
  accountName: cloud
  accountNamespace: shop
  vmSelector: [{vpcMatch: {matchID: %s}}]
---
apiVersion: crd.cloud.antrea.io/v1alpha1
kind: CloudEntitySelector
metadata: {name: staging, namespace: other}
spec:
  accountName: cloud
  accountNamespace: shop
  vmSelector: [{vpcMatch: {matchID: %s}}]`

const policies = `apiVersion: crd.antrea.io/v1beta1
kind: ClusterGroup
metadata: {name: all-vms}
spec:
  externalEntitySelector: {matchLabels: {nephe.antrea.io/kind: virtualmachine}}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: no-ssh-from-outside}
spec:
  tier: securityops
  priority: 5
  appliedTo: [{group: all-vms}]
  ingress:
  - name: ssh
    action: Drop
    from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.0/8]}}]
    ports: [{protocol: TCP, port: 22}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  tier: application
  priority: 10
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/tag-role: web}}}]
  ingress:
  - name: https
    action: Allow
    ports: [{protocol: TCP, port: 443}]
  - name: again
    action: Allow
    from: [{ipBlock: {cidr: 10.1.0.0/16}}]
    ports: [{protocol: TCP, port: 443}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: staging, namespace: other}
spec:
  tier: application
  priority: 10
  appliedTo: [{externalEntitySelector: {}}]
  ingress:
  - name: https
    action: Allow
    ports: [{protocol: TCP, port: 443}]`

const people = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: auditor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nephele-auditor}
subjects: [{kind: User, name: auditor, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: other}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: tenant, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nephele-reviewer}
subjects: [{kind: User, name: tenant, apiGroup: rbac.authorization.k8s.io}]`
