// Package nft says what computed policies mean as an nftables program. It is pure: no I/O, no
// clock, no goroutines.
//
// It owns the Compiler, which makes a Program from what an enforcer has received and remembers what
// it has made of policies and groups, and the inputs that describe a host: Node, Pod, Network,
// Balanced, Exit. What a Program is, and what it does with a packet, package ruleset says; package
// kernel brings a Program into the kernel and reads it back.
//
// It promises:
//
//   - Compile is a function of its input. Equal inputs give equal Programs, whoever compiled
//     before: names in the kernel are made from what they stand for, so a new process finds what a
//     former one left.
//   - A policy is in a Program as a whole, or is refused with a reason and not in it at all.
//   - A direction decides in the order tier, policy priority, rule index, and what no rule decides
//     is dropped where the host is isolated, else left to whatever else filters on the host.
//
// Inputs and Programs are immutable once made and may be shared between goroutines. A Compiler is
// for one goroutine.
//
// # Where the packets of Pods are judged
//
// Policies must hold for Pods beside any CNI plugin. Packets on one bridge name the bridge, not the
// port; kube-proxy and masquerading change destination and source. So a Pod is its address: two
// verdict maps per family lead packets into the chains of its class. Chains are not shared by
// classes, because Pass and isolation end differently by class.
//
// Egress, then ingress, are judged on the hook forward, after kube-proxy and before masquerading;
// what Pods send to their Node is judged on input. On output only the Node's own policies are
// asked, so probes pass. IPVS takes packets at priority 99 of input and sends them by output: input
// is asked at 101 and 102, output also for Pods, except packets of the Node's own sockets. An
// unknown address in the ranges of Pods is cut off. What cannot be enforced fails the policies on
// the Pod; its rules are loaded all the same.
//
// Not chosen: names of interfaces, which are not visible on bridges; tc and XDP, which come before
// translation and where CNI plugins hook in; postrouting for IPVS, which has no Reject and no sign
// where a packet came from; packet marks, of which kube-proxy and CNI plugins have their own.
//
// Plugins that forward past the hooks are reported, and policies are not enforced there. Answers of
// resolvers to Pods with rules about names are held; the answer to one Pod counts for all.
package nft
