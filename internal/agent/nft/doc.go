// Package nft says what computed policies mean as an nftables program. It is pure: no I/O, no
// clock, no goroutines.
//
// It owns the Compiler, which makes a Program from the objects that an enforcer has received and
// caches its results by policy and group, and the inputs that describe a host: Node, Pod, Network,
// Balanced, Exit. Package ruleset defines a Program and what it does with a packet; package kernel
// loads a Program into the kernel and reads it back.
//
// It promises:
//
//   - Compile is a function of its input. Equal inputs give equal Programs, in any process: names
//     in the kernel are derived from what they represent, so a new process finds what a former one
//     left.
//   - A policy is in a Program as a whole, or is refused with a reason and left out.
//   - Rules of a direction apply in the order tier, policy priority, rule index. A packet that no
//     rule decides is dropped if the host is isolated in that direction; else it is left to other
//     filters on the host.
//
// Inputs and Programs are immutable once made and may be shared between goroutines. A Compiler is
// for one goroutine.
//
// # Where the packets of Pods are judged
//
// Policies must hold for Pods beside any CNI plugin. Packets on one bridge name the bridge, not the
// port; kube-proxy and masquerading change destination and source. So rules identify a Pod by its
// address: two verdict maps per family lead packets into the chains of its class. Classes do not
// share chains, because Pass and isolation end differently in each class.
//
// The hook forward applies egress, then ingress, after kube-proxy and before masquerading; the hook
// input applies to packets from Pods to their Node. The hook output applies only the Node's own
// policies, so probes pass. IPVS takes packets at priority 99 of input and sends them through
// output. So input is judged at 101 and 102, and output also for Pods, except for packets of the
// Node's own sockets. Packets of an unknown address in the Pod ranges are dropped. If something on
// a Pod cannot be enforced, its policies are reported as failed; its rules are loaded all the same.
//
// Not chosen: interface names, which are not visible on bridges; tc and XDP, which come before
// translation and where CNI plugins hook in; postrouting for IPVS, which has no Reject and does not
// show where a packet came from; packet marks, which kube-proxy and CNI plugins use themselves.
//
// A plugin that forwards past the hooks is reported, and policies are not enforced there. DNS
// answers to Pods with rules about names are delayed until the rules have the addresses; an answer
// to one Pod counts for all Pods.
package nft
