// Package cluster starts a real Kubernetes cluster on one Linux machine, for tests: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and Nodes with containerd, runc and
// kubelet, none of which is Nephele's. Policies are computed by "nephele controller" and enforced
// by "nephele-agent --node", as they are shipped, with the rights that config/ gives them. The
// network of the Pods is that of the bridge CNI plugin, with static routes between Nodes, or the
// agents' own; Nodes are in one subnet or several, between which the control plane routes. Services
// are kube-proxy's or the agents'. Addresses are of IPv4, of IPv6 or of both.
//
// Everything runs in namespaces of its own (network, mounts, processes), so nothing on the machine
// is changed, and everything ends with the process that began it. It needs root.
//
// [Find] finds or builds the programs, and keeps them in a cache. [Enter] goes into the namespaces.
// [Start] starts the cluster in them. None of it is safe for concurrent use, but [Tools.Images].
package cluster
